/* SPDX-License-Identifier: Apache-2.0
 *
 * What vgpud makes of a refusal of vgpu-proxy: the code of a proxy of today, and the words of an
 * older one, which has none. The proxy is made up here; its answer waits before it is asked.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "host/proxy-control.h"

struct proxy {
    char *directory, *path;
    int listener;
};

static void
proxy_begin(struct proxy *proxy)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    proxy->directory = g_dir_make_tmp("vgpud-XXXXXX", NULL);
    assert_non_null(proxy->directory);
    proxy->path = g_build_filename(proxy->directory, "ask", NULL);
    g_strlcpy(address.sun_path, proxy->path, sizeof(address.sun_path));
    proxy->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(proxy->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(proxy->listener, 4), 0);
}

static void
proxy_end(struct proxy *proxy)
{
    close(proxy->listener);
    unlink(proxy->path);
    assert_int_equal(rmdir(proxy->directory), 0);
    g_free(proxy->path);
    g_free(proxy->directory);
}

enum call { RESERVE, RELEASE, WEIGHT, SHOW };

/* Makes a call that is answered so. Returns its error, which the caller frees, or NULL. */
static GError *
proxy_answers(const struct proxy *proxy, enum call call, const char *answer)
{
    struct vg_proxy_room room = {.id = (char *)"it", .seconds = 60, .memory_bytes = 1 << 20};
    g_autoptr(vg_proxy_control) control =
        vg_proxy_control_open(proxy->path, 60 * VG_NS_PER_S, NULL);
    GError *error = NULL;

    assert_non_null(control);
    const int fd = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    assert_int_equal(send(fd, answer, strlen(answer), 0), strlen(answer));
    switch (call) {
    case RESERVE:
        vg_proxy_control_reserve(control, "/s", &room, &error);
        break;
    case RELEASE:
        vg_proxy_control_release(control, "it", &error);
        break;
    case WEIGHT:
        vg_proxy_control_set_weight(control, "/s", 5, &error);
        break;
    case SHOW:
        assert_null(vg_proxy_control_show(control, "/s", &error));
        break;
    }
    close(fd);
    return error;
}

static void
test_refusals(void **state)
{
    static const struct {
        enum call call;
        const char *answer;
        int code;
        const char *why;
    } rows[] = {
        {RESERVE, "error not-found: there is none", VG_E_NOT_FOUND, "there is none"},
        {RESERVE, "error full: no such socket, it says", VG_E_REFUSED, "no such socket, it says"},
        {RESERVE, "refused card has 5 MiB", VG_E_CONFLICT, "card has 5 MiB"},
        {RESERVE, "error yet-to-come: what is new", VG_E_REFUSED, "what is new"},
        {RELEASE, "error not-found: there is none", VG_E_NOT_FOUND, "there is none"},
        {WEIGHT, "error not-found: there is none", VG_E_NOT_FOUND, "there is none"},
        {SHOW, "error not-found: there is none", VG_E_NOT_FOUND, "there is none"},
        {SHOW, "error failed: no memory", VG_E_EXTERNAL, "no memory"},
        /* These are of an older proxy. */
        {RESERVE, "error there is no such socket", VG_E_NOT_FOUND, "there is no such socket"},
        {RESERVE, "error it has too many reservations", VG_E_REFUSED,
         "it has too many reservations"},
        {RESERVE, "error commands are 'list'", VG_E_REFUSED, "commands are 'list'"},
        {RELEASE, "error there is no such reservation", VG_E_NOT_FOUND,
         "there is no such reservation"},
        {SHOW, "error there is no such socket", VG_E_NOT_FOUND, "there is no such socket"},
        {SHOW, "error there is no memory", VG_E_EXTERNAL, "there is no memory"},
        {SHOW, "ok", VG_E_EXTERNAL, "its answer contains no file"},
        {WEIGHT, "nonsense", VG_E_NOT_FOUND, "nonsense"},
    };
    struct proxy proxy;

    (void)state;
    proxy_begin(&proxy);
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = proxy_answers(&proxy, rows[i].call, rows[i].answer);
        g_autofree char *message = g_strdup_printf("%s: %s", proxy.path, rows[i].why);
        assert_non_null(error);
        assert_string_equal(error->message, message);
        assert_int_equal(error->code, rows[i].code);
    }
    proxy_end(&proxy);
}

static void
test_ok(void **state)
{
    struct proxy proxy;

    (void)state;
    proxy_begin(&proxy);
    for (int call = RESERVE; call <= WEIGHT; call++)
        assert_null(proxy_answers(&proxy, (enum call)call, "ok"));
    proxy_end(&proxy);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_ok),
    };

    return cmocka_run_group_tests_name("proxy-control", tests, NULL, NULL);
}
