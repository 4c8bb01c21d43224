/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as requests of one client over TCP with TLS, several after each other. The API is a
 * real one; behind it is a made-up daemon. No crash, and every connection ends; each answer is one
 * that its route documents; nobody gets what his token does not give him, nor learns what there is
 * without one.
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <glib/gstdio.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>

#include "api/route.h"
#include "api/server.h"
#include "api/sse.h"
#include "base/clock.h"
#include "base/log.h"
#include "tests/tools/fake-backend.h"

#define HANG_NS    (60 * VG_NS_PER_S)
#define NUDGE_MS   2 /* that a client waits before it makes something happen */
#define OUTPUT_MAX (16 * 1024 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The linker's names, see --wrap: where an answer is handed over to libmicrohttpd. */
struct MHD_Response *__real_vg_response_new(struct vg_request *request);
struct MHD_Response *__wrap_vg_response_new(struct vg_request *request);

static struct {
    char *directory;
    char *socket, *certificate, *key; /* paths in it */
    struct sockaddr_in address;
    fake_backend *fake;
    vg_event_log *events;
    vg_api *api;
    gnutls_certificate_credentials_t credentials;
    enum vg_role most; /* that a token in the input gives */
} fuzz;

#define CHECK(what)                                                                                \
 do {                                                                                              \
  if (!(what)) {                                                                                   \
   fprintf(stderr, "fuzz-api-request: %s is not so\n", #what);                                     \
   abort();                                                                                        \
  }                                                                                                \
 } while (0)

/* ---- what must be ---- */

static bool
fuzz_has_status(const unsigned short *statuses, size_t max, unsigned status)
{
    for (size_t i = 0; i < max && statuses[i]; i++) {
        if (statuses[i] == status)
            return true;
    }
    return false;
}

static bool
fuzz_is_documented(const struct vg_route *route, unsigned status)
{
    /* Before it is known what the request is for. */
    static const unsigned short early[] = {204, 400, 401, 404, 405, 413, 414, 429, 431, 503};

    if (!route)
        return fuzz_has_status(early, G_N_ELEMENTS(early), status);
    return fuzz_has_status(vg_route_common_statuses, SIZE_MAX, status) ||
           fuzz_has_status(route->statuses, VG_ROUTE_STATUSES_MAX, status);
}

static void
fuzz_check_problem(const struct vg_answer *answer)
{
    json_object *status = NULL;

    CHECK(g_strcmp0(answer->type, "application/problem+json") == 0);
    CHECK(g_utf8_validate(answer->body, (gssize)answer->size, NULL));
    json_object *problem = json_tokener_parse(answer->body);
    CHECK(json_object_object_get_ex(problem, "status", &status));
    CHECK(json_object_get_int(status) == (int)answer->status);
    json_object_put(problem);
}

struct MHD_Response *
__wrap_vg_response_new(struct vg_request *request)
{
    const struct vg_route *route = request->route;
    const struct vg_answer *answer = &request->answer;
    bool is_problem = answer->status >= 400 &&
                      !(answer->status == 503 && route && strcmp(route->path, "/readyz") == 0);
    size_t path = strcspn(request->uri, "?");
    bool is_public = path == strlen("/healthz") && memcmp(request->uri, "/healthz", path) == 0;

    CHECK(fuzz_is_documented(route, answer->status));
    CHECK(request->identity.role <= fuzz.most);
    CHECK(answer->status != 401 || answer->challenge);
    if (answer->status < 400 && route)
        CHECK(vg_role_may(fuzz.most, request->api->roles[route - vg_routes]));
    if (answer->status < 400 || answer->status == 404 || answer->status == 405)
        CHECK(is_public || fuzz.most > VG_ROLE_NONE);
    if (is_problem)
        fuzz_check_problem(answer);
    return __real_vg_response_new(request);
}

/* ---- the server ---- */

static void
fuzz_write_pem(const char *path, gnutls_datum_t *pem)
{
    CHECK(g_file_set_contents(path, (const char *)pem->data, (gssize)pem->size, NULL));
    gnutls_free(pem->data);
}

static void
fuzz_make_certificate(void)
{
    static const unsigned char serial[] = {1};
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t certificate;
    gnutls_datum_t pem;
    time_t now = time(NULL);

    gnutls_x509_privkey_init(&key);
    gnutls_x509_crt_init(&certificate);
    gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                 GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
    gnutls_x509_crt_set_version(certificate, 3);
    gnutls_x509_crt_set_serial(certificate, serial, sizeof(serial));
    gnutls_x509_crt_set_activation_time(certificate, now - 3600);
    gnutls_x509_crt_set_expiration_time(certificate, now + 365 * 86400);
    gnutls_x509_crt_set_dn(certificate, "CN=fuzz", NULL);
    gnutls_x509_crt_set_key(certificate, key);
    CHECK(gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0) == 0);
    CHECK(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &pem) == 0);
    fuzz_write_pem(fuzz.certificate, &pem);
    CHECK(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem) == 0);
    fuzz_write_pem(fuzz.key, &pem);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
}

/* An address of this process, with a port that is free there. */
static void
fuzz_find_address(void)
{
    socklen_t size = sizeof(fuzz.address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    /* 127.252.0.0/15 */
    fuzz.address = (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(0x7ffc0000u | ((uint32_t)getpid() & 0x1ffffu)),
    };
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&fuzz.address, size) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&fuzz.address, &size) == 0);
    close(fd);
}

static void
fuzz_end(void)
{
    vg_api_free(fuzz.api);
    vg_event_log_free(fuzz.events);
    fake_backend_free(fuzz.fake);
    gnutls_certificate_free_credentials(fuzz.credentials);
    g_unlink(fuzz.certificate);
    g_unlink(fuzz.key);
    g_rmdir(fuzz.directory);
    g_free(fuzz.certificate);
    g_free(fuzz.key);
    g_free(fuzz.socket);
    g_free(fuzz.directory);
}

static void
fuzz_begin(void)
{
    const struct fake_options fake = {.vms = 3, .gpu_vms = 1};
    g_autoptr(GError) err = NULL;

    signal(SIGPIPE, SIG_IGN);
    vg_log_set_level(VG_LOG_ERR);
    fuzz.directory = g_dir_make_tmp("fuzz-XXXXXX", NULL);
    CHECK(fuzz.directory);
    fuzz.socket = g_build_filename(fuzz.directory, "socket", NULL);
    fuzz.certificate = g_build_filename(fuzz.directory, "certificate", NULL);
    fuzz.key = g_build_filename(fuzz.directory, "key", NULL);
    fuzz_make_certificate();
    fuzz_find_address();
    CHECK(gnutls_certificate_allocate_credentials(&fuzz.credentials) == 0);
    fuzz.fake = fake_backend_new(&fake);
    fuzz.events = vg_event_log_new();
    g_autofree char *listen = g_strdup_printf("%s:%u", inet_ntoa(fuzz.address.sin_addr),
                                              (unsigned)ntohs(fuzz.address.sin_port));
    const char *const addresses[] = {listen, NULL};
    const struct vg_api_options options = {.socket = fuzz.socket,
                                           .socket_mode = 0600,
                                           .listen = addresses,
                                           .certificate = fuzz.certificate,
                                           .key = fuzz.key,
                                           .limits = {.connections = 16,
                                                      .client_connections = 16,
                                                      .client_requests = 1000000,
                                                      .client_streams = 1024,
                                                      .streams = 4,
                                                      .body_bytes = 1024,
                                                      .idle_ns = HANG_NS,
                                                      .writes_per_min = 100000000},
                                           .backend = fake_backend_table(fuzz.fake),
                                           .events = fuzz.events};
    fuzz.api = vg_api_new(&options, &err);
    CHECK(fuzz.api);
    atexit(fuzz_end);
}

/* What is left of the input before. */
static void
fuzz_reset_tokens(void)
{
    const struct vg_backend *backend = fake_backend_table(fuzz.fake);
    g_autoptr(GPtrArray) tokens = backend->access->list_tokens(backend->data, NULL);

    for (guint i = 0; i < tokens->len; i++) {
        const struct vg_token *token = tokens->pdata[i];
        CHECK(backend->access->revoke_token(backend->data, token->name, NULL) == 0);
    }
    for (enum vg_role role = VG_ROLE_READER; role <= VG_ROLE_ADMIN; role++)
        g_free(backend->access->create_token(backend->data, vg_role_names[role], role, 0, NULL));
    g_free(backend->access->create_token(backend->data, "expired", VG_ROLE_ADMIN, 1, NULL));
}

/* ---- the client ---- */

/* There is an event, and whoever waits for one has waited long enough. */
static void
fuzz_nudge(void)
{
    vg_event_log_add(fuzz.events, "window", json_object_new_object());
    pthread_mutex_lock(&fuzz.api->lock);
    for (GList *link = fuzz.api->waits.head; link; link = link->next) {
        struct vg_wait *wait = link->data;
        wait->deadline_ns = 1;
    }
    pthread_mutex_unlock(&fuzz.api->lock);
    vg_waits_wake(fuzz.api);
}

/* A stream has no end. */
static bool
fuzz_is_stream(const GByteArray *output)
{
    static const char stream[] = "text/event-stream";

    return memmem(output->data, output->len, stream, strlen(stream)) != NULL;
}

static void
fuzz_read_answers(gnutls_session_t session, int fd)
{
    g_autoptr(GByteArray) output = g_byte_array_new();
    int64_t until = vg_clock_monotonic_ns() + HANG_NS;
    uint8_t buffer[16384];

    for (;;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (gnutls_record_check_pending(session) == 0 && poll(&wait, 1, NUDGE_MS) == 0) {
            CHECK(vg_clock_monotonic_ns() < until);
            fuzz_nudge();
            continue;
        }
        ssize_t n = gnutls_record_recv(session, buffer, sizeof(buffer));
        if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED)
            continue;
        if (n <= 0)
            break;
        g_byte_array_append(output, buffer, (guint)n);
        CHECK(output->len < OUTPUT_MAX);
        if (fuzz_is_stream(output))
            break;
    }
    CHECK(output->len < 5 || memcmp(output->data, "HTTP/", 5) == 0);
    if (getenv("VG_FUZZ_SHOW"))
        fwrite(output->data, 1, output->len, stderr);
}

static void
fuzz_ask(const uint8_t *data, size_t size)
{
    const struct linger reset = {.l_onoff = 1};
    gnutls_session_t session;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    /* No port is left waiting. */
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    CHECK(connect(fd, (const struct sockaddr *)&fuzz.address, sizeof(fuzz.address)) == 0);
    gnutls_init(&session, GNUTLS_CLIENT);
    gnutls_set_default_priority(session);
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, fuzz.credentials);
    gnutls_transport_set_int(session, fd);
    int rc;
    do {
        rc = gnutls_handshake(session);
    } while (rc < 0 && !gnutls_error_is_fatal(rc));
    CHECK(rc == 0);
    for (size_t sent = 0; sent < size;) {
        ssize_t n = gnutls_record_send(session, data + sent, size - sent);
        if (n < 0)
            break;
        sent += (size_t)n;
    }
    gnutls_bye(session, GNUTLS_SHUT_WR);
    shutdown(fd, SHUT_WR);
    fuzz_read_answers(session, fd);
    gnutls_deinit(session);
    close(fd);
}

/* Until the server is done with the client, which is looked at by other threads. */
static void
fuzz_wait_for_end(void)
{
    int64_t until = vg_clock_monotonic_ns() + HANG_NS;

    while (__atomic_load_n(&fuzz.api->stats.connections, __ATOMIC_ACQUIRE) > 0 ||
           __atomic_load_n(&fuzz.api->stats.active, __ATOMIC_ACQUIRE) > 0) {
        CHECK(vg_clock_monotonic_ns() < until);
        fuzz_nudge();
        g_usleep(50);
    }
}

static enum vg_role
fuzz_most(const uint8_t *data, size_t size)
{
    enum vg_role most = VG_ROLE_NONE;

    for (enum vg_role role = VG_ROLE_READER; role <= VG_ROLE_ADMIN; role++) {
        g_autofree char *token = g_strconcat(vg_role_names[role], "-token", NULL);
        if (memmem(data, size, token, strlen(token)))
            most = role;
    }
    return most;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!fuzz.api)
        fuzz_begin();
    fuzz_reset_tokens();
    fuzz.most = fuzz_most(data, size);
    fuzz_ask(data, size);
    fuzz_wait_for_end();
    return 0;
}
