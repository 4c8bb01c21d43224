/* SPDX-License-Identifier: Apache-2.0
 *
 * The client of etcd: what it sends, what it takes of answers, and every fault of them. A server in
 * this process answers each request with the next line of a script.
 */
#include "config.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>

#include "base/clock.h"
#include "base/error.h"
#include "cluster/etcd.h"

#define HEAD "\"header\":{\"cluster_id\":\"7\",\"revision\":\"9\"}"
#define PAIR                                                                                       \
 "{\"key\":\"L2E=\",\"value\":\"aGk=\",\"create_revision\":\"2\",\"mod_revision\":\"5\","          \
 "\"lease\":\"-3\"}"
#define HANG_S 60

/* ---- the server ---- */

struct step {
    long status; /* 0: the connection is closed; -1: nobody answers; -2: the answer is cut */
    const char *body;
};

struct server {
    int listener;
    int port;
    pthread_t thread;
    const struct step *script; /* the last one is repeated */
    size_t n_steps;
    /* These are read once the client's call has returned. */
    size_t asked;
    char request[16384];
    bool stopping;
};

static size_t
read_request(int fd, char *into, size_t size)
{
    size_t n = 0;

    for (;;) {
        ssize_t got = recv(fd, into + n, size - 1 - n, 0);
        if (got <= 0)
            return 0;
        n += (size_t)got;
        into[n] = '\0';
        const char *end = strstr(into, "\r\n\r\n"), *length = strstr(into, "Content-Length: ");
        if (end && length &&
            n >= (size_t)(end + 4 - into) + strtoul(length + strlen("Content-Length: "), NULL, 10))
            return n;
    }
}

static void *
serve(void *data)
{
    struct server *server = data;

    for (;;) {
        int fd = accept(server->listener, NULL, NULL);
        if (fd < 0)
            return NULL;
        if (__atomic_load_n(&server->stopping, __ATOMIC_ACQUIRE)) {
            close(fd);
            return NULL;
        }
        if (read_request(fd, server->request, sizeof(server->request)) > 0) {
            const struct step *step = &server->script[MIN(server->asked, server->n_steps - 1)];
            server->asked++;
            if (step->status == -1) {
                /* Until the client goes away. */
                struct pollfd gone = {.fd = fd, .events = POLLIN};
                poll(&gone, 1, HANG_S * 1000);
            } else if (step->status != 0) {
                g_autofree char *answer = g_strdup_printf(
                    "HTTP/1.1 %ld X\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
                    step->status == -2 ? 200 : step->status,
                    strlen(step->body) + (step->status == -2 ? 9 : 0), step->body);
                send(fd, answer, strlen(answer), MSG_NOSIGNAL);
            }
        }
        close(fd);
    }
}

static void
start(struct server *server, const struct step *script, size_t n_steps)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);

    *server = (struct server){.script = script, .n_steps = n_steps};
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(server->listener, 8), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &size), 0);
    server->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void
stop(struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)server->port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    __atomic_store_n(&server->stopping, true, __ATOMIC_RELEASE);
    (void)!connect(fd, (struct sockaddr *)&address, sizeof(address));
    pthread_join(server->thread, NULL);
    close(fd);
    close(server->listener);
}

static vg_etcd *
client_of(const struct server *server)
{
    g_autofree char *url = g_strdup_printf("http://127.0.0.1:%d", server->port);

    return vg_etcd_new(&(struct vg_etcd_options){.endpoints = url});
}

/* ---- reading ---- */

static int
read_range(const char *text, struct vg_etcd_answer *ret, GError **err)
{
    return vg_etcd_read_range(text, strlen(text), ret, err);
}

static void
takes_what_etcd_says(void **state)
{
    static const char text[] = "{" HEAD ",\"kvs\":[" PAIR "],\"more\":true,\"count\":\"8\"}";
    g_auto(vg_etcd_answer) answer = {0};

    (void)state;
    assert_int_equal(read_range(text, &answer, NULL), 0);
    const struct vg_etcd_pair *pair = answer.pairs->pdata[0];
    assert_int_equal(answer.cluster, 7);
    assert_int_equal(answer.revision, 9);
    assert_int_equal(answer.count, 8);
    assert_true(answer.more);
    assert_string_equal(pair->key, "/a");
    assert_string_equal(pair->value, "hi");
    assert_int_equal(pair->create_revision, 2);
    assert_int_equal(pair->mod_revision, 5);
    assert_int_equal(pair->lease, -3);
}

/* What is cut, or of another type, or cannot be, is an error in words, and nothing of it is taken.
 */
static void
refuses_what_cannot_be(void **state)
{
    static const char *const bad[] = {
        "",
        "null",
        "[]",
        "{}",
        "<html>bad gateway</html>",
        "{\"header\":{}}",
        "{\"header\":7}",
        "{\"header\":{\"revision\":\"0\"}}",
        "{\"header\":{\"revision\":\"-4\"}}",
        "{\"header\":{\"revision\":\"99999999999999999999\"}}",
        "{\"header\":{\"revision\":\"9\",\"cluster_id\":\"-1\"}}",
        "{" HEAD ",\"kvs\":{}}",
        "{" HEAD ",\"kvs\":[7]}",
        "{" HEAD ",\"kvs\":[{}]}",
        "{" HEAD ",\"kvs\":[" PAIR,
        "{" HEAD ",\"count\":\"-1\"}",
        "{" HEAD ",\"more\":\"yes\"}",
        "{" HEAD ",\"kvs\":[{\"key\":\"L2E\",\"create_revision\":\"1\",\"mod_revision\":\"1\"}]}",
        "{" HEAD ",\"kvs\":[{\"key\":\"****\",\"create_revision\":\"1\",\"mod_revision\":\"1\"}]}",
        "{" HEAD ",\"kvs\":[{\"key\":\"\",\"create_revision\":\"1\",\"mod_revision\":\"1\"}]}",
        "{" HEAD ",\"kvs\":[{\"key\":\"L2E=\",\"create_revision\":\"5\",\"mod_revision\":\"2\"}]}",
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_auto(vg_etcd_answer) answer = {0};
        g_autoptr(GError) error = NULL;
        if (read_range(bad[i], &answer, &error) == 0)
            fail_msg("taken: %s", bad[i]);
        assert_true(g_error_matches(error, VG_ERROR, VG_E_EXTERNAL));
        assert_non_null(strstr(error->message, "etcd's answer"));
    }
}

/* What somebody else has written, which is no text, or a long one, spoils nothing of the others. */
static void
bears_what_is_no_text(void **state)
{
    static const char binary[] = "{" HEAD ",\"kvs\":[{\"key\":\"/w==\",\"create_revision\":\"1\","
                                 "\"mod_revision\":\"1\"}," PAIR ",{\"key\":\"L2I=\",\"value\":"
                                 "\"AAAA\",\"create_revision\":\"3\",\"mod_revision\":\"3\"}]}";
    g_autofree char *much = g_strnfill(VG_ETCD_VALUE_MAX / 3 * 4 + 8, 'Y');
    g_autofree char *large =
        g_strdup_printf("{" HEAD ",\"kvs\":[{\"key\":\"L2E=\",\"value\":\"%s\",\"create_revision\":"
                        "\"1\",\"mod_revision\":\"1\"}]}",
                        much);
    g_auto(vg_etcd_answer) answer = {0};
    g_auto(vg_etcd_answer) other = {0};

    (void)state;
    assert_int_equal(read_range(binary, &answer, NULL), 0);
    assert_int_equal(answer.pairs->len, 2);
    const struct vg_etcd_pair *pair = answer.pairs->pdata[0];
    assert_string_equal(pair->value, "hi");
    pair = answer.pairs->pdata[1];
    assert_string_equal(pair->key, "/b");
    assert_string_equal(pair->value, "");
    assert_int_equal(read_range(large, &other, NULL), 0);
    pair = other.pairs->pdata[0];
    assert_string_equal(pair->value, "");
}

static void
knows_a_lease_that_has_ended(void **state)
{
    static const char gone[] = "{\"result\":{" HEAD ",\"ID\":\"77\"}}";
    static const char kept[] = "{\"result\":{" HEAD ",\"ID\":\"77\",\"TTL\":\"30\"}}";
    static const char none[] = "{" HEAD ",\"TTL\":\"30\"}";
    g_autoptr(GError) error = NULL;
    int64_t ttl_s = 0, lease = 0;

    (void)state;
    assert_int_equal(vg_etcd_read_keep_alive(kept, strlen(kept), &ttl_s, NULL), 0);
    assert_int_equal(ttl_s, 30);
    assert_int_equal(vg_etcd_read_keep_alive(gone, strlen(gone), &ttl_s, &error), -1);
    assert_true(g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND));
    assert_int_equal(ttl_s, 30);
    assert_int_equal(vg_etcd_read_grant(none, strlen(none), &lease, &ttl_s, NULL), -1);
    assert_int_equal(lease, 0);
}

static void
tells_refusals_apart(void **state)
{
    static const struct {
        long status;
        const char *text;
        enum vg_etcd_refusal refusal;
        enum vg_error_code code;
    } cases[] = {
        {401, "{\"message\":\"etcdserver: invalid auth token\",\"code\":16}", VG_ETCD_LOGIN,
         VG_E_DENIED},
        {400, "{\"message\":\"etcdserver: invalid auth token\",\"code\":16}", VG_ETCD_LOGIN,
         VG_E_DENIED},
        {403, "{\"message\":\"etcdserver: permission denied\",\"code\":7}", VG_ETCD_NEVER,
         VG_E_DENIED},
        {400, "{\"message\":\"etcdserver: user name is empty\",\"code\":3}", VG_ETCD_LOGIN,
         VG_E_DENIED},
        {400, "{\"message\":\"etcdserver: revision of auth store is old\",\"code\":3}",
         VG_ETCD_LOGIN, VG_E_DENIED},
        {404, "{\"message\":\"etcdserver: requested lease not found\",\"code\":5}", VG_ETCD_NEVER,
         VG_E_NOT_FOUND},
        {404, "404 page not found", VG_ETCD_NEVER, VG_E_EXTERNAL},
        {400,
         "{\"message\":\"etcdserver: mvcc: required revision has been compacted\",\"code\":11}",
         VG_ETCD_COMPACTED, VG_E_CONFLICT},
        {412, "{\"message\":\"etcdserver: authentication is not enabled\",\"code\":9}",
         VG_ETCD_NO_LOGIN, VG_E_EXTERNAL},
        {429, "slow down", VG_ETCD_AGAIN, VG_E_BUSY},
        {429, "{\"message\":\"etcdserver: mvcc: database space exceeded\",\"code\":8}",
         VG_ETCD_NEVER, VG_E_EXTERNAL},
        {500, "{\"message\":\"etcdserver: corrupt cluster\",\"code\":15}", VG_ETCD_NEVER,
         VG_E_EXTERNAL},
        {503, "{\"message\":\"etcdserver: request timed out\",\"code\":14}", VG_ETCD_AGAIN,
         VG_E_BUSY},
        {500, "", VG_ETCD_AGAIN, VG_E_BUSY},
        {302, "", VG_ETCD_AGAIN, VG_E_BUSY},
        {400, "{\"message\":7,\"code\":\"x\"}", VG_ETCD_NEVER, VG_E_EXTERNAL},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        assert_int_equal(
            vg_etcd_read_refusal(cases[i].status, cases[i].text, strlen(cases[i].text), &error),
            cases[i].refusal);
        assert_true(g_error_matches(error, VG_ERROR, (int)cases[i].code));
    }
}

static void
checks_endpoints(void **state)
{
    static const char *const good[] = {"http://127.0.0.1:2379", "https://a:1, https://b:1",
                                       " https://[::1]:2379 "};
    static const char *const bad[] = {
        "", "a:1", "ftp://a", "https://", "https://u:p@a:1", "https://a:1/v3", "https://a https"};

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(good); i++)
        assert_int_equal(vg_etcd_check_endpoints(good[i], NULL), 0);
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        assert_int_equal(vg_etcd_check_endpoints(bad[i], &error), -1);
        assert_null(strstr(error->message, "u:p"));
    }
}

/* ---- asking ---- */

static const struct vg_etcd_range everything = {.key = "/a", .is_prefix = true};

static void
tries_again_what_may_go_well(void **state)
{
    static const struct step script[] = {
        {0, NULL},      {503, "{\"message\":\"etcdserver: request timed out\",\"code\":14}"},
        {429, ""},      {200, "<html>"},
        {-2, "{" HEAD}, {200, "{" HEAD ",\"kvs\":[" PAIR "],\"count\":\"1\"}"},
    };
    struct server server;
    g_auto(vg_etcd_answer) answer = {0};

    (void)state;
    start(&server, script, G_N_ELEMENTS(script));
    vg_etcd *etcd = client_of(&server);
    assert_int_equal(vg_etcd_range(etcd, &everything, HANG_S * VG_NS_PER_S, &answer, NULL), 0);
    assert_int_equal(answer.pairs->len, 1);
    assert_int_equal(server.asked, G_N_ELEMENTS(script));
    assert_non_null(strstr(server.request, "POST /v3/kv/range"));
    assert_non_null(strstr(server.request, "\"key\":\"L2E=\""));
    assert_non_null(strstr(server.request, "\"range_end\":\"L2I=\""));
    vg_etcd_free(etcd);
    stop(&server);
}

static void
does_not_repeat_what_never_goes_well(void **state)
{
    static const struct step script[] = {
        {403, "{\"message\":\"etcdserver: permission denied\",\"code\":7}"}};
    struct server server;
    g_auto(vg_etcd_answer) answer = {0};
    g_autoptr(GError) error = NULL;

    (void)state;
    start(&server, script, 1);
    vg_etcd *etcd = client_of(&server);
    assert_int_equal(vg_etcd_range(etcd, &everything, HANG_S * VG_NS_PER_S, &answer, &error), -1);
    assert_true(g_error_matches(error, VG_ERROR, VG_E_DENIED));
    assert_int_equal(server.asked, 1);
    assert_null(answer.pairs);
    vg_etcd_free(etcd);
    stop(&server);
}

/* The second page is of a revision that etcd has forgotten meanwhile, or of another etcd: of the
 * first one nothing is taken. */
static void
takes_all_pages_or_none(void **state)
{
    static const char page[] = "{" HEAD ",\"kvs\":[" PAIR "],\"more\":true,\"count\":\"2\"}";
    static const struct step good[] = {{200, page},
                                       {200, "{" HEAD ",\"kvs\":[" PAIR "],\"count\":\"2\"}"}};
    static const struct step forgotten[] = {
        {200, page},
        {400,
         "{\"message\":\"etcdserver: mvcc: required revision has been compacted\",\"code\":11}"}};
    static const struct step another[] = {
        {200, page},
        {200, "{\"header\":{\"cluster_id\":\"8\",\"revision\":\"9\"},\"kvs\":[" PAIR
              "],\"count\":\"2\"}"}};
    const struct {
        const struct step *script;
        enum vg_error_code code;
    } cases[] = {{good, 0}, {forgotten, VG_E_CONFLICT}, {another, VG_E_EXTERNAL}};

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct server server;
        g_auto(vg_etcd_answer) answer = {0};
        g_autoptr(GError) error = NULL;
        start(&server, cases[i].script, 2);
        vg_etcd *etcd = client_of(&server);
        const int status = vg_etcd_range(etcd, &everything, HANG_S * VG_NS_PER_S, &answer, &error);
        assert_int_equal(status, cases[i].code ? -1 : 0);
        assert_int_equal(server.asked, 2);
        assert_non_null(strstr(server.request, "\"revision\":\"9\""));
        if (cases[i].code) {
            assert_true(g_error_matches(error, VG_ERROR, (int)cases[i].code));
            assert_null(answer.pairs);
        } else {
            assert_int_equal(answer.pairs->len, 2);
        }
        vg_etcd_free(etcd);
        stop(&server);
    }
}

/* A member that takes the request and says nothing is left for the next one. */
static void
leaves_a_member_that_hangs(void **state)
{
    static const struct step hangs[] = {{-1, NULL}};
    static const struct step answers[] = {{200, "{" HEAD ",\"ID\":\"-5\",\"TTL\":\"30\"}"}};
    struct server silent, good;
    int64_t lease = 0, ttl_s = 0;

    (void)state;
    start(&silent, hangs, 1);
    start(&good, answers, 1);
    for (int i = 0; i < 4; i++) {
        g_autofree char *urls =
            g_strdup_printf("http://127.0.0.1:%d http://127.0.0.1:%d", silent.port, good.port);
        vg_etcd *etcd = vg_etcd_new(&(struct vg_etcd_options){.endpoints = urls});
        assert_int_equal(vg_etcd_grant(etcd, 30, HANG_S * VG_NS_PER_S, &lease, &ttl_s, NULL), 0);
        assert_int_equal(lease, -5);
        g_autofree char *endpoint = vg_etcd_endpoint(etcd);
        assert_non_null(g_strrstr(endpoint, strrchr(urls, ':')));
        vg_etcd_free(etcd);
        if (silent.asked > 0)
            break;
    }
    stop(&silent);
    stop(&good);
}

static void
gives_up_in_time(void **state)
{
    static const struct step hangs[] = {{-1, NULL}};
    struct server silent;
    g_autoptr(GError) error = NULL;
    int64_t ttl_s = 0;

    (void)state;
    start(&silent, hangs, 1);
    vg_etcd *etcd = client_of(&silent);
    assert_int_equal(vg_etcd_keep(etcd, 7, VG_NS_PER_S / 5, &ttl_s, &error), -1);
    assert_true(g_error_matches(error, VG_ERROR, VG_E_TIMEOUT));
    vg_etcd_free(etcd);
    stop(&silent);
}

static void *
interrupt(void *etcd)
{
    usleep(100000);
    vg_etcd_interrupt(etcd);
    return NULL;
}

static void
can_be_interrupted(void **state)
{
    static const struct step script[] = {{503, ""}};
    struct server server;
    g_autoptr(GError) error = NULL;
    int64_t ttl_s = 0;
    pthread_t thread;

    (void)state;
    start(&server, script, 1);
    vg_etcd *etcd = client_of(&server);
    assert_int_equal(pthread_create(&thread, NULL, interrupt, etcd), 0);
    assert_int_equal(vg_etcd_keep(etcd, 7, INT64_C(3600) * VG_NS_PER_S, &ttl_s, &error), -1);
    pthread_join(thread, NULL);
    vg_etcd_free(etcd);
    stop(&server);
}

/* ---- users ---- */

static void
logs_in_again(void **state)
{
    static const struct step script[] = {
        {200, "{" HEAD ",\"token\":\"first.1\"}"},
        {200, "{\"result\":{" HEAD ",\"TTL\":\"30\"}}"},
        {401, "{\"message\":\"etcdserver: invalid auth token\",\"code\":16}"},
        {200, "{" HEAD ",\"token\":\"second.1\"}"},
        {200, "{\"result\":{" HEAD ",\"TTL\":\"29\"}}"},
        {400, "{\"message\":\"etcdserver: authentication failed, invalid user ID or password\","
              "\"code\":3}"},
    };
    struct server server;
    g_autoptr(GError) error = NULL;
    int64_t ttl_s = 0;
    g_autofree char *path = NULL;
    int fd = g_file_open_tmp(NULL, &path, NULL);

    (void)state;
    assert_int_equal(write(fd, "secret\nmore\n", 12), 12);
    close(fd);
    start(&server, script, G_N_ELEMENTS(script));
    g_autofree char *url = g_strdup_printf("http://127.0.0.1:%d", server.port);
    vg_etcd *etcd = vg_etcd_new(
        &(struct vg_etcd_options){.endpoints = url, .user = "vgpud", .password_file = path});
    assert_int_equal(vg_etcd_keep(etcd, 7, HANG_S * VG_NS_PER_S, &ttl_s, NULL), 0);
    assert_non_null(strstr(server.request, "Authorization: first.1"));
    assert_int_equal(vg_etcd_keep(etcd, 7, HANG_S * VG_NS_PER_S, &ttl_s, NULL), 0);
    assert_int_equal(ttl_s, 29);
    assert_non_null(strstr(server.request, "Authorization: second.1"));
    vg_etcd_free(etcd);
    /* The password is wrong by now. */
    etcd = vg_etcd_new(
        &(struct vg_etcd_options){.endpoints = url, .user = "vgpud", .password_file = path});
    assert_int_equal(vg_etcd_keep(etcd, 7, HANG_S * VG_NS_PER_S, &ttl_s, &error), -1);
    assert_true(g_error_matches(error, VG_ERROR, VG_E_DENIED));
    assert_non_null(strstr(server.request, "{\"name\":\"vgpud\",\"password\":\"secret\"}"));
    assert_int_equal(server.asked, G_N_ELEMENTS(script));
    vg_etcd_free(etcd);
    stop(&server);
    unlink(path);
}

/* etcd had no users when it was asked first. */
static void
logs_in_once_there_are_users(void **state)
{
    static const struct step script[] = {
        {400, "{\"message\":\"etcdserver: authentication is not enabled\",\"code\":9}"},
        {200, "{\"result\":{" HEAD ",\"TTL\":\"30\"}}"},
        {400, "{\"message\":\"etcdserver: user name is empty\",\"code\":3}"},
        {200, "{" HEAD ",\"token\":\"first.1\"}"},
        {200, "{\"result\":{" HEAD ",\"TTL\":\"29\"}}"},
    };
    struct server server;
    int64_t ttl_s = 0;
    g_autofree char *path = NULL;
    int fd = g_file_open_tmp(NULL, &path, NULL);

    (void)state;
    assert_int_equal(write(fd, "secret\n", 7), 7);
    close(fd);
    start(&server, script, G_N_ELEMENTS(script));
    g_autofree char *url = g_strdup_printf("http://127.0.0.1:%d", server.port);
    vg_etcd *etcd = vg_etcd_new(
        &(struct vg_etcd_options){.endpoints = url, .user = "vgpud", .password_file = path});
    assert_int_equal(vg_etcd_keep(etcd, 7, HANG_S * VG_NS_PER_S, &ttl_s, NULL), 0);
    assert_int_equal(ttl_s, 30);
    assert_int_equal(vg_etcd_keep(etcd, 7, HANG_S * VG_NS_PER_S, &ttl_s, NULL), 0);
    assert_int_equal(ttl_s, 29);
    assert_int_equal(server.asked, G_N_ELEMENTS(script));
    vg_etcd_free(etcd);
    stop(&server);
    unlink(path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_etcd_says),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(bears_what_is_no_text),
        cmocka_unit_test(knows_a_lease_that_has_ended),
        cmocka_unit_test(tells_refusals_apart),
        cmocka_unit_test(checks_endpoints),
        cmocka_unit_test(tries_again_what_may_go_well),
        cmocka_unit_test(does_not_repeat_what_never_goes_well),
        cmocka_unit_test(takes_all_pages_or_none),
        cmocka_unit_test(leaves_a_member_that_hangs),
        cmocka_unit_test(gives_up_in_time),
        cmocka_unit_test(can_be_interrupted),
        cmocka_unit_test(logs_in_again),
        cmocka_unit_test(logs_in_once_there_are_users),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
