/* SPDX-License-Identifier: Apache-2.0
 *
 * What the collector of GPU use makes of proxies that answer at once, late, or never. The proxy is
 * made up here, on a socket of this thread, and so is the time.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "collectors/gpu-source.h"
#include "collectors/gpu-window.h"
#include "tests/unit/fake-proc.h"
#include "tests/unit/idle-thread.h"

#define S  VG_NS_PER_S
#define MS VG_NS_PER_MS

#define UUID "12ab34cd-0000-4000-8000-00000000abcd"

struct host {
    char *path;
    int listener, client; /* of the proxy */
    vg_gpu_source *source;
    struct vg_proc_vm vm;
    GPtrArray *vms;
    const char *socket_vm; /* the name or UUID that the proxy's socket has */
    int64_t begin_ns;      /* of the next window */
    struct vg_window window;
};

static void
begin(struct host *h, const char *dir)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    *h = (struct host){.socket_vm = "vm",
                       .begin_ns = 1000 * S,
                       .client = -1,
                       .vm = {.pid = 100, .name = "vm", .uuid = UUID}};
    h->path = g_build_filename(dir, "ask", NULL);
    g_strlcpy(address.sun_path, h->path, sizeof(address.sun_path));
    h->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(h->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(h->listener, 4), 0);
    h->source = vg_gpu_proxy_new(h->path);
    h->vms = g_ptr_array_new();
    g_ptr_array_add(h->vms, &h->vm);
    vg_window_init(&h->window, false);
}

static void
end(struct host *h)
{
    h->source->ops->close(h->source);
    vg_gpu_source_free(h->source);
    g_ptr_array_unref(h->vms);
    vg_window_clear(&h->window);
    if (h->client >= 0)
        close(h->client);
    close(h->listener);
    unlink(h->path);
    g_free(h->path);
}

/* The proxy reads the question; false: there is none. */
static bool
hears(struct host *h)
{
    char line[64];

    if (h->client < 0)
        h->client = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    const ssize_t n = h->client < 0 ? -1 : recv(h->client, line, sizeof(line), 0);
    if (n <= 0)
        return false;
    assert_int_equal(n, 4);
    assert_memory_equal(line, "list", 4);
    return true;
}

/* The proxy answers what its socket did: so many ms, and as many commands. */
static void
answers(const struct host *h, int64_t run_ms)
{
    g_autofree char *text = g_strdup_printf(
        "{\"pid\": 7, \"devices\": [{\"name\": \"card\"}], \"sockets\": [{\"socket\": "
        "\"/s\", \"vm\": \"%s\", \"weight\": 1, \"device\": \"card\", \"done\": %d, "
        "\"commands\": %d, \"run_ns\": %d000000, \"wait_ns\": 0}]}",
        h->socket_vm, (int)run_ms, (int)run_ms, (int)run_ms);
    const int fd = memfd_create("answer", MFD_CLOEXEC);
    char ok[] = "ok";
    struct iovec part = {ok, strlen(ok)};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } room = {{CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof(room)};

    memcpy(CMSG_DATA(&room.head), &fd, sizeof(fd));
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(sendmsg(h->client, &message, MSG_NOSIGNAL), strlen(ok));
    close(fd);
}

static void
asks(struct host *h)
{
    assert_true(h->source->ops->ready(h->source, h->begin_ns + S));
    h->source->ops->ask(h->source, h->begin_ns + S);
}

/* A window of this length is read when it is over, and so long after. */
static void
reads(struct host *h, int64_t length_ns, int64_t late_ns)
{
    vg_window_clear(&h->window);
    vg_window_init(&h->window, false);
    h->window.begin_ns = h->begin_ns;
    h->window.end_ns = h->begin_ns + length_ns;
    h->begin_ns = h->window.end_ns;
    h->source->ops->read(h->source, h->vms, idle_thread, h->window.end_ns + late_ns, &h->window);
    vg_gpu_window_finish(&h->window);
}

/* The window has so many ms of work, and as many commands. */
static void
has(const struct host *h, int64_t run_ms)
{
    const struct vg_vm_sample *vm = vg_window_vm(&h->window, h->vm.id);

    assert_non_null(vm);
    assert_int_equal(vm->gpus->len, 1);
    const struct vg_gpu_sample *gpu = &g_array_index(vm->gpus, struct vg_gpu_sample, 0);
    assert_int_equal(gpu->exec_ns, run_ms * MS);
    assert_int_equal(gpu->busy_ns, run_ms * MS);
    assert_int_equal(gpu->requests, run_ms);
    assert_int_equal(h->window.proxies->len, 1);
    assert_string_equal(g_array_index(h->window.proxies, struct vg_proxy_use, 0).problem, "");
}

/* Returns what the source says of itself; the caller frees it. */
static char *
says(const struct host *h, bool lacks)
{
    GString *text = g_string_new(NULL);

    assert_int_equal(h->source->ops->describe(h->source, text), lacks);
    return g_string_free(text, FALSE);
}

/* A window of one second that the proxy answers for at once. */
static void
goes_well(struct host *h, int64_t run_ms)
{
    asks(h);
    assert_true(hears(h));
    answers(h, run_ms);
    h->source->ops->take(h->source, h->begin_ns + S);
    assert_int_equal(h->source->ops->awaits(h->source), 0);
    reads(h, S, 0);
}

static void
test_late(const char *dir)
{
    struct host h;

    begin(&h, dir);
    goes_well(&h, 5000);
    has(&h, 0);
    goes_well(&h, 5400);
    has(&h, 400);
    /* The answer comes after half a second, in which it worked, too: that is of the next window. */
    asks(&h);
    assert_int_equal(h.source->ops->awaits(h.source), h.begin_ns + S + VG_GPU_AWAITS_NS);
    assert_true(hears(&h));
    h.source->ops->take(h.source, h.begin_ns + S + 100 * MS);
    assert_true(h.source->ops->awaits(h.source) > 0);
    answers(&h, 6900);
    h.source->ops->take(h.source, h.begin_ns + 3 * S / 2);
    reads(&h, S, S / 2);
    has(&h, 1000);
    goes_well(&h, 7200);
    has(&h, 800);
    /* After more than a window: that is a long one. */
    asks(&h);
    assert_true(hears(&h));
    answers(&h, 8400);
    h.source->ops->take(h.source, h.begin_ns + 3 * S);
    reads(&h, 3 * S, 0);
    has(&h, 1200);
    assert_int_equal(h.source->ops->missed_ns(h.source), 0);
    g_autofree char *text = says(&h, false);
    assert_string_equal(text, "1 VM with a socket of vgpu-proxy");
    end(&h);
}

static void
test_silent(const char *dir)
{
    struct host h;

    begin(&h, dir);
    goes_well(&h, 1000);
    goes_well(&h, 1500);
    has(&h, 500);
    /* Nothing comes for as long as a window waits: it is told, and no later window waits. */
    asks(&h);
    assert_true(hears(&h));
    reads(&h, 3 * S, 0);
    assert_int_equal(h.window.vms->len, 0);
    assert_string_equal(g_array_index(h.window.proxies, struct vg_proxy_use, 0).problem +
                            strlen(h.path),
                        ": it does not answer");
    g_autofree char *text = says(&h, true);
    assert_non_null(strstr(text, "it does not answer; "));
    for (int i = 0; i < 2; i++) {
        asks(&h);
        assert_false(hears(&h));
        assert_int_equal(h.source->ops->awaits(h.source), 0);
        reads(&h, S, 0);
        assert_int_equal(h.window.vms->len, 0);
        assert_int_equal(h.source->ops->missed_ns(h.source), 0);
    }
    /* It answers what it was asked, and a new question at the end of the window. A sixth of what it
     * did is of that window, and it is told how much of the time is missing. */
    answers(&h, 1600);
    h.source->ops->take(h.source, h.begin_ns + S / 2);
    goes_well(&h, 2100);
    has(&h, 100);
    assert_int_equal(h.source->ops->missed_ns(h.source), 5 * S);
    goes_well(&h, 2200);
    has(&h, 100);
    assert_int_equal(h.source->ops->missed_ns(h.source), 0);
    g_autofree char *well = says(&h, false);
    assert_string_equal(well, "1 VM with a socket of vgpu-proxy");
    end(&h);
}

static void
test_hangs_up(const char *dir)
{
    struct host h;

    begin(&h, dir);
    goes_well(&h, 1000);
    asks(&h);
    assert_true(hears(&h));
    close(h.client);
    h.client = -1;
    h.source->ops->take(h.source, h.begin_ns + S);
    assert_int_equal(h.source->ops->awaits(h.source), 0);
    reads(&h, S, 0);
    g_autofree char *text = says(&h, true);
    assert_non_null(strstr(text, "it closed the connection; "));
    /* It is tried again after 5 seconds. */
    asks(&h);
    assert_false(hears(&h));
    reads(&h, 5 * S, 0);
    goes_well(&h, 8000);
    has(&h, 1000);
    g_autofree char *well = says(&h, false);
    assert_string_equal(well, "1 VM with a socket of vgpu-proxy");
    end(&h);
}

/* A socket may name its VM by UUID, in capitals, too. */
static void
test_uuid(const char *dir)
{
    static const char *const names[] = {UUID, "12AB34CD-0000-4000-8000-00000000ABCD"};

    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        struct host h;
        begin(&h, dir);
        h.socket_vm = names[i];
        goes_well(&h, 1000);
        goes_well(&h, 1500);
        has(&h, 500);
        end(&h);
    }
}

static void
in_dir(void (*test)(const char *))
{
    g_autofree char *dir = g_dir_make_tmp("vgpud-XXXXXX", NULL);

    assert_non_null(dir);
    test(dir);
    assert_int_equal(rmdir(dir), 0);
}

static void
test_a_proxy_that_is_late(void **state)
{
    (void)state;
    in_dir(test_late);
}

static void
test_a_proxy_that_is_silent(void **state)
{
    (void)state;
    in_dir(test_silent);
}

static void
test_a_proxy_that_hangs_up(void **state)
{
    (void)state;
    in_dir(test_hangs_up);
}

static void
test_a_socket_that_names_its_vm_by_uuid(void **state)
{
    (void)state;
    in_dir(test_uuid);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_proxy_that_is_late),
        cmocka_unit_test(test_a_proxy_that_is_silent),
        cmocka_unit_test(test_a_proxy_that_hangs_up),
        cmocka_unit_test(test_a_socket_that_names_its_vm_by_uuid),
    };

    return cmocka_run_group_tests_name("gpu-proxy", tests, idle_thread_start, idle_thread_stop);
}
