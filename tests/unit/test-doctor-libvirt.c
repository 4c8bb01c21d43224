/* SPDX-License-Identifier: Apache-2.0
 *
 * What vgpuctl doctor reports of libvirt's daemons: sockets in a directory, some with a daemon
 * behind them.
 */
#include "config.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <glib.h>
#include <glib/gstdio.h>

#include "base/json.h"
#include "cli/doctor.h"
#include "cli/output.h"

/* Length 28, program 0x20008086, version 1, procedure 66, type call, serial 0, status 0. */
#define CALL "\0\0\0\x1c\x20\0\x80\x86\0\0\0\x01\0\0\0\x42\0\0\0\0\0\0\0\0\0\0\0\0"
/* The same as a reply, with one way to authenticate: none. */
#define REPLY                                                                                      \
 "\0\0\0\x24\x20\0\x80\x86\0\0\0\x01\0\0\0\x42\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0"
/* A message that keeps the connection alive (src/rpc/virkeepaliveprotocol.x). */
#define OTHER "\0\0\0\x1c\x6b\x65\x65\x70\0\0\0\x01\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\0"

static char *root;

/* One that answers. */
struct daemon {
    int listener;
    const char *answer;
    size_t size;
    pthread_t thread;
};

static int
setup(void **state)
{
    (void)state;
    root = g_dir_make_tmp("vg-libvirt-XXXXXX", NULL);
    g_autofree char *run = g_strconcat(root, "/run/libvirt", NULL);
    g_autofree char *sbin = g_strconcat(root, "/usr/sbin", NULL);
    return g_mkdir_with_parents(run, 0755) || g_mkdir_with_parents(sbin, 0755);
}

static int
teardown(void **state)
{
    (void)state;
    const char *const argv[] = {"rm", "-r", root, NULL};
    int status = 1;

    g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, &status,
                 NULL);
    g_free(root);
    return status;
}

static void
install(const char *name)
{
    g_autofree char *path = g_strconcat(root, "/usr/sbin/", name, NULL);
    assert_true(g_file_set_contents(path, "", 0, NULL));
}

/* Returns a socket that listens, for so many clients that nobody accepts. */
static int
listen_at(const char *name, int n)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    g_autofree char *path = g_strconcat(root, "/run/libvirt/", name, NULL);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(strlen(path) < sizeof(address.sun_path));
    strcpy(address.sun_path, path);
    unlink(path);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, n), 0);
    return fd;
}

static void *
serve(void *argument)
{
    struct daemon *daemon = argument;
    char call[sizeof(CALL)] = "";
    int fd = accept(daemon->listener, NULL, NULL);

    if (recv(fd, call, sizeof(call), 0) == sizeof(CALL) - 1 &&
        memcmp(call, CALL, sizeof(CALL) - 1) == 0)
        send(fd, daemon->answer, daemon->size, MSG_NOSIGNAL);
    close(fd);
    return NULL;
}

static void
start(struct daemon *daemon, const char *name, const char *answer, size_t size)
{
    daemon->listener = listen_at(name, 1);
    daemon->answer = answer;
    daemon->size = size;
    assert_int_equal(pthread_create(&daemon->thread, NULL, serve, daemon), 0);
}

/* The daemon has served its client. */
static void
stop(struct daemon *daemon)
{
    pthread_join(daemon->thread, NULL);
    close(daemon->listener);
}

static json_object *
find_check(json_object *checks, const char *what)
{
    for (size_t i = 0; i < json_object_array_length(checks); i++) {
        json_object *check = json_object_array_get_idx(checks, i);
        if (strcmp(json_object_get_string(vg_output_member(check, "what")), what) == 0)
            return check;
    }
    return NULL;
}

static void
assert_check(json_object *checks, const char *what, enum vg_health health, const char *why,
             const char *mend)
{
    json_object *check = find_check(checks, what);

    assert_non_null(check);
    assert_string_equal(json_object_get_string(vg_output_member(check, "state")),
                        vg_health_names[health]);
    assert_non_null(strstr(json_object_get_string(vg_output_member(check, "why")), why));
    if (mend)
        assert_string_equal(json_object_get_string(vg_output_member(check, "mend")), mend);
    else
        assert_null(vg_output_member(check, "mend"));
}

static json_object *
look(void)
{
    json_object *checks = json_object_new_array();

    vg_doctor_look_for_libvirt(checks, root);
    return checks;
}

static void
test_modular_daemons_that_are_stopped(void **state)
{
    (void)state;
    install("virtqemud");
    g_autoptr(json_object) checks = look();

    assert_check(checks, "virtqemud", VG_HEALTH_LACKS, "is not listening",
                 "systemctl enable --now virtqemud.socket");
    assert_check(checks, "virtnodedevd", VG_HEALTH_LACKS, "the host's GPUs",
                 "systemctl enable --now virtnodedevd.socket");
    assert_check(checks, "virtproxyd", VG_HEALTH_LACKS, "no other host",
                 "systemctl enable --now virtproxyd.socket");
    assert_null(find_check(checks, "libvirt"));
}

/* One answers, one hangs, and of one the socket is left. The check takes 5 s. */
static void
test_modular_daemon_that_hangs(void **state)
{
    (void)state;
    struct daemon qemu;
    start(&qemu, "virtqemud-sock-ro", REPLY, sizeof(REPLY) - 1);
    const int hangs = listen_at("virtnodedevd-sock-ro", 1);
    close(listen_at("libvirt-sock-ro", 1));
    g_autoptr(json_object) checks = look();

    stop(&qemu);
    close(hangs);
    assert_check(checks, "virtqemud", VG_HEALTH_OK, "it answers", NULL);
    assert_check(checks, "virtnodedevd", VG_HEALTH_BROKEN, "has not answered for 5 s",
                 "systemctl restart virtnodedevd");
    assert_check(checks, "virtproxyd", VG_HEALTH_LACKS, "is not listening",
                 "systemctl enable --now virtproxyd.socket");
}

/* The kernel keeps one client of a socket that listens for none, and refuses the next one. */
static void
test_daemon_with_too_many_clients(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int listener = listen_at("virtqemud-sock-ro", 0);
    const int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    g_snprintf(address.sun_path, sizeof(address.sun_path), "%s/run/libvirt/virtqemud-sock-ro",
               root);
    assert_int_equal(connect(client, (const struct sockaddr *)&address, sizeof(address)), 0);
    g_autoptr(json_object) checks = look();
    close(client);
    close(listener);
    assert_check(checks, "virtqemud", VG_HEALTH_BROKEN, "accepts no clients",
                 "systemctl restart virtqemud");
}

/* Another program has the socket. */
static void
test_answer_of_another_protocol(void **state)
{
    (void)state;
    struct daemon other, closes;
    start(&other, "virtqemud-sock-ro", OTHER, sizeof(OTHER) - 1);
    start(&closes, "virtnodedevd-sock-ro", "", 0);
    g_autoptr(json_object) checks = look();

    stop(&other);
    stop(&closes);
    assert_check(checks, "virtqemud", VG_HEALTH_LACKS, "unknown", NULL);
    assert_check(checks, "virtnodedevd", VG_HEALTH_LACKS, "unknown", NULL);
}

/* Both are installed, and libvirtd is the one that runs. */
static void
test_monolithic_beside_modular(void **state)
{
    (void)state;
    struct daemon libvirtd;
    install("virtqemud");
    install("libvirtd");
    g_autoptr(json_object) stopped = look();
    assert_check(stopped, "libvirt", VG_HEALTH_LACKS, "libvirtd is not running",
                 "systemctl enable --now libvirtd");

    start(&libvirtd, "libvirt-sock-ro", REPLY, sizeof(REPLY) - 1);
    g_autoptr(json_object) runs = look();
    stop(&libvirtd);
    assert_check(runs, "libvirt", VG_HEALTH_OK, "libvirt-sock-ro", NULL);
    assert_null(find_check(runs, "virtqemud"));
}

/* A vgpud that answers has a row of its own for libvirt. */
static void
test_beside_a_vgpud_that_answers(void **state)
{
    (void)state;
    g_autoptr(json_object) without = json_tokener_parse("{\"parts\": [{\"name\": \"store\"}]}");
    g_autoptr(json_object) with =
        json_tokener_parse("{\"parts\": [{\"name\": \"collector:libvirt\"}]}");
    g_autoptr(json_object) checks = json_object_new_array();

    vg_doctor_read_daemons(checks, with, root);
    install("virtqemud");
    vg_doctor_read_daemons(checks, without, root);
    assert_int_equal(json_object_array_length(checks), 0);
    vg_doctor_read_daemons(checks, with, root);
    assert_int_equal(json_object_array_length(checks), 3);
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_modular_daemons_that_are_stopped), T(test_modular_daemon_that_hangs),
        T(test_daemon_with_too_many_clients),     T(test_answer_of_another_protocol),
        T(test_monolithic_beside_modular),        T(test_beside_a_vgpud_that_answers),
    };
#undef T

    return cmocka_run_group_tests(tests, NULL, NULL);
}
