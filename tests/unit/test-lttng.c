/* SPDX-License-Identifier: Apache-2.0
 *
 * What of the collector of live sessions needs no relay daemon: URLs, what fits together, and that
 * nobody being there is told, tried again, and keeps nobody from stopping.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectors/lttng-url.h"
#include "collectors/lttng.h"
#include "tests/unit/collector-run.h"

static void
test_urls(void **state)
{
    static const struct {
        const char *text, *relay, *host, *session;
        int port;
    } good[] = {
        {"net://relay/host/h1/my-session", "relay", "h1", "my-session", 5344},
        {"net://10.0.0.1:1/host/(none)/auto-20260101", "10.0.0.1", "(none)", "auto-20260101", 1},
        {"net4://relay:65535/host/h/s", "relay", "h", "s", 65535},
        {"net://relay:5345", "relay", NULL, NULL, 5345},
        {"net://relay/", "relay", NULL, NULL, 5344},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(good); i++) {
        struct vg_lttng_url url = {0};
        assert_int_equal(vg_lttng_url_parse(good[i].text, &url, NULL), 0);
        assert_string_equal(url.relay, good[i].relay);
        assert_int_equal(url.port, good[i].port);
        assert_int_equal(g_strcmp0(url.host, good[i].host), 0);
        assert_int_equal(g_strcmp0(url.session, good[i].session), 0);
        vg_lttng_url_clear(&url);
    }
}

static void
test_what_is_no_url(void **state)
{
    static const char *const bad[] = {
        "",
        "relay",
        "http://relay/host/h/s",
        "net://",
        "net:///host/h/s",
        "net://relay:0/host/h/s",
        "net://relay:65536/host/h/s",
        "net://relay:1:2/host/h/s",
        "net://relay:/host/h/s",
        "net://[::1]/host/h/s",
        "net://relay/h/s",
        "net://relay/host",
        "net://relay/host/h",
        "net://relay/host/h/",
        "net://relay/host//s",
        "net://relay/host/h/s/t",
        "net://relay/guest/h/s",
        "net://me@relay/host/h/s",
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) err = NULL;
        struct vg_lttng_url url = {.port = -1};
        if (vg_lttng_url_parse(bad[i], &url, &err) == 0)
            fail_msg("'%s' was taken", bad[i]);
        assert_int_equal(err->code, VG_E_INVALID);
        assert_int_equal(url.port, -1);
    }
}

static struct vg_lttng_live_options
options_of(const char *url)
{
    return (struct vg_lttng_live_options){
        .url = url,
        .is_here = true,
        .relay = "net://127.0.0.1",
        .timer_us = 100000,
        .window_ns = VG_NS_PER_S,
        .proc = "/proc",
    };
}

static void
test_a_session_is_named_or_made(void **state)
{
    static const struct {
        const char *url;
        bool create;
        const char *says; /* NULL: it is good */
    } cases[] = {
        {"net://r/host/h/s", false, NULL},
        {"net://r", true, NULL},
        {"net://r", false, "names no session"},
        {"net://r/host/h/s", true, "names a session"},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) err = NULL;
        struct vg_lttng_live_options options = options_of(cases[i].url);
        options.create = cases[i].create;
        vg_collector *collector = vg_lttng_new(&options, &err);
        assert_int_equal(collector != NULL, cases[i].says == NULL);
        if (!collector)
            assert_non_null(strstr(err->message, cases[i].says));
        vg_collector_free(collector);
    }
}

/* A socket of the loopback; *ret_port is where. */
static int
bind_any(uint16_t *ret_port)
{
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(place);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&place, sizeof(place)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&place, &size), 0);
    *ret_port = ntohs(place.sin_port);
    return fd;
}

static struct collector_run *
start_at(uint16_t port)
{
    g_autofree char *url = g_strdup_printf("net://127.0.0.1:%u/host/h/s", port);
    struct vg_lttng_live_options options = options_of(url);
    vg_collector *collector = vg_lttng_new(&options, NULL);

    assert_non_null(collector);
    assert_string_equal(collector->ops->name, "lttng");
    return collector_run_start(collector);
}

static void
test_nobody_is_there(void **state)
{
    uint16_t port;
    int fd = bind_any(&port); /* and does not listen */
    struct collector_run *run = start_at(port);

    (void)state;
    vg_report *report = collector_run_state(run, VG_COLLECTOR_FAILED);
    assert_non_null(strstr(report->text, "refused"));
    assert_non_null(strstr(report->text, "trying again"));
    vg_report_free(report);
    collector_run_stop(run);
    close(fd);
}

/* It is waited for, with a beating heart, in a call of babeltrace2; which ends all the same. */
static void
test_somebody_who_says_nothing(void **state)
{
    uint16_t port;
    int fd = bind_any(&port);

    (void)state;
    assert_int_equal(listen(fd, 1), 0);
    struct collector_run *run = start_at(port);
    vg_report_free(collector_run_state(run, VG_COLLECTOR_STARTING));
    int peer = accept(fd, NULL, NULL);
    assert_true(peer >= 0);
    collector_run_await_beats(collector_run_thread(run), 3);
    assert_null(collector_run_next(run, 0));
    collector_run_stop(run);
    close(peer);
    close(fd);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_what_is_no_url),
        cmocka_unit_test(test_a_session_is_named_or_made),
        cmocka_unit_test(test_nobody_is_there),
        cmocka_unit_test(test_somebody_who_says_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
