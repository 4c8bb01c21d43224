/* SPDX-License-Identifier: Apache-2.0
 *
 * libmicrohttpd: requests in, answers out. What it lets through and we do not want is refused here.
 */
#include "config.h"

#include "api/server.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>

#include "api/client.h"
#include "api/identity.h"
#include "api/route.h"
#include "base/clock.h"
#include "base/log.h"
#include "schema/schema.h"

#define VG_LOG_TAG "api"

#define POOL_THREADS 2
#define BACKLOG      1024
/* Nothing older, and nothing that these do not call secure. */
#define TLS_PRIORITIES   "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"
#define CONN_MEMORY      (64 * 1024)
#define DISCARD_BODY_MAX (16 * 1024 * 1024)
/* What is being answered when the end comes gets half a second. */
#define END_STEPS   100
#define END_STEP_US 5000

const unsigned short vg_http_codes[VG_HTTP_CODES_MAX + 1] = {
    200, 201, 204, 304, 400, 401, 403, 404, 405, 409,
    413, 414, 415, 422, 429, 431, 500, 502, 503, 504,
};

const char *const vg_refused_names[] = {
    [VG_REFUSED_NOBODY] = "nobody",           [VG_REFUSED_ROLE] = "role",
    [VG_REFUSED_CONNECTIONS] = "connections", [VG_REFUSED_STRANGERS] = "strangers",
    [VG_REFUSED_REQUESTS] = "requests",       [VG_REFUSED_WRITES] = "writes",
};

enum phase { PHASE_NEW, PHASE_BODY, PHASE_JOB, PHASE_WAIT };

/* A request as libmicrohttpd sees it. */
struct exchange {
    struct vg_request request; /* first */
    struct MHD_Connection *connection;
    enum phase phase;
    const char *uri_end; /* in libmicrohttpd's buffer */
    bool uri_long;
    bool early; /* an answer goes out before the body is read */
    size_t discarded;
};

/* Of all header fields of a request. */
struct header_sum {
    unsigned n;
    size_t bytes;
    unsigned content_lengths;
    unsigned transfer_encodings;
    unsigned hosts;
    unsigned content_types;
    unsigned authorizations;
    bool blank_names;
    GString *if_none_match; /* of all fields of that name */
};

static struct vg_conn *
conn_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

static int
server_fd_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    return info ? info->connect_fd : -1;
}

static const char *
header(const struct exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

static void
count_answer(vg_api *api, const struct vg_route *route, unsigned status)
{
    size_t row = route ? (size_t)(route - vg_routes) : VG_HTTP_ROUTES_MAX;
    size_t bug = 0;
    size_t i = 0;

    for (; vg_http_codes[i] && vg_http_codes[i] != status; i++) {
        if (vg_http_codes[i] == 500)
            bug = i;
    }
    __atomic_add_fetch(&api->stats.requests[row][vg_http_codes[i] ? i : bug], 1, __ATOMIC_RELAXED);
}

static enum MHD_Result
send_answer(struct exchange *exchange)
{
    struct vg_request *request = &exchange->request;
    struct vg_conn *conn = conn_of(exchange->connection);

    if (conn)
        vg_conn_has_request(conn);
    if (request->streaming)
        request->wait->connection = exchange->connection;
    struct MHD_Response *response = vg_response_new(request);
    if (!response)
        return MHD_NO;
    count_answer(request->api, request->route, request->answer.status);
    enum MHD_Result result =
        MHD_queue_response(exchange->connection, request->answer.status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result
sum_header(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct header_sum *sum = cls;

    (void)kind;
    sum->n++;
    sum->bytes += strlen(name) + (value ? strlen(value) : 0) + strlen(": \r\n");
    sum->content_lengths += g_ascii_strcasecmp(name, "Content-Length") == 0;
    sum->transfer_encodings += g_ascii_strcasecmp(name, "Transfer-Encoding") == 0;
    sum->blank_names = sum->blank_names || !*name || strpbrk(name, " \t");
    sum->hosts += g_ascii_strcasecmp(name, "Host") == 0;
    sum->content_types += g_ascii_strcasecmp(name, "Content-Type") == 0;
    sum->authorizations += g_ascii_strcasecmp(name, "Authorization") == 0;
    if (value && g_ascii_strcasecmp(name, "If-None-Match") == 0)
        g_string_append_printf(sum->if_none_match, "%s,", value);
    return MHD_YES;
}

/* Of libmicrohttpd's own refusals some come out twice in one answer (0.9.75), so as little as
 * possible is left to it: it is not told to be strict. Where two readers of the same bytes might
 * disagree on where a request ends, it is refused and the connection with it. */
static void
check_framing(struct exchange *exchange, const char *version, const struct header_sum *sum)
{
    struct vg_request *request = &exchange->request;
    const char *encoding = header(exchange, "Transfer-Encoding");
    bool http11 = strcmp(version, MHD_HTTP_VERSION_1_1) == 0;
    const char *what = NULL;

    if (!http11 && strcmp(version, MHD_HTTP_VERSION_1_0) != 0)
        what = "only HTTP/1.1 and HTTP/1.0 are spoken";
    else if (version != exchange->uri_end + 1 || strpbrk(request->uri, " \t"))
        what = "the URL has a NUL or a blank in it"; /* the version follows it after one blank */
    else if (sum->blank_names)
        what = "the name of a header field is empty or has a blank in it";
    else if (http11 && sum->hosts == 0)
        what = "there is no Host";
    else if (sum->content_lengths > 1)
        what = "there is more than one Content-Length";
    else if (sum->content_types > 1)
        what = "there is more than one Content-Type";
    else if (sum->authorizations > 1)
        what = "there is more than one Authorization";
    else if (sum->transfer_encodings > 0 && sum->content_lengths > 0)
        what = "there are both Content-Length and Transfer-Encoding";
    else if (sum->transfer_encodings > 0 && (!http11 || sum->transfer_encodings > 1 || !encoding ||
                                             g_ascii_strcasecmp(encoding, "chunked") != 0))
        what = "the only Transfer-Encoding is 'chunked', in HTTP/1.1";
    else if (sum->hosts > 1)
        what = "there is more than one Host";
    if (what) {
        vg_answer_problem(request, VG_E_INVALID, "%s", what);
        request->answer.close = true;
        exchange->early = true;
    }
}

static void
take_request_id(struct exchange *exchange)
{
    struct vg_request *request = &exchange->request;
    const char *id = header(exchange, "X-Request-Id");
    const char *openstack = header(exchange, "X-Openstack-Request-Id");

    if (openstack && vg_parse_is_request_id(openstack)) {
        id = openstack;
        request->openstack_id = true;
    }
    if (id && vg_parse_is_request_id(id))
        g_strlcpy(request->request_id, id, sizeof(request->request_id));
    else
        vg_request_id_make(request->request_id);
}

/* Path, method and query; the answer is set if it goes no further. */
static void
find_route(struct vg_request *request)
{
    size_t size = strcspn(request->uri, "?");
    char *allow = NULL;
    GError *err = NULL;

    if (strcmp(request->uri, "*") == 0 && strcmp(request->method, "OPTIONS") == 0) {
        request->answer.status = 204;
        request->answer.allow = g_strdup("GET, HEAD, POST, DELETE, OPTIONS");
        return;
    }
    enum vg_match match = vg_route_find(request->uri, size, request->method, &request->route,
                                        &request->id, &allow, &err);

    if (match == VG_MATCH_INVALID) {
        vg_answer_error(request, err);
    } else if (match == VG_MATCH_NO_PATH) {
        g_autofree char *path = g_strndup(request->uri, size);
        vg_answer_problem(request, VG_E_NOT_FOUND, "there is nothing at '%s'", path);
    } else if (match == VG_MATCH_NO_METHOD) {
        vg_answer_problem(request, VG_PROBLEM_METHOD, "this path has the methods %s", allow);
        request->answer.allow = allow;
    } else if (!request->route) {
        request->answer.status = 204;
        request->answer.allow = allow;
    } else {
        const char *query = request->uri[size] ? request->uri + size + 1 : NULL;
        if (vg_parse_query(query, request->route->params, &request->query, &err) < 0)
            vg_answer_error(request, err);
    }
}

static void
check_type(struct exchange *exchange)
{
    struct vg_request *request = &exchange->request;
    const char *type = header(exchange, "Content-Type");
    const char *encoding = header(exchange, "Content-Encoding");
    size_t size = type ? strcspn(type, "; \t") : 0;

    if (encoding && g_ascii_strcasecmp(encoding, "identity") != 0)
        vg_answer_problem(request, VG_PROBLEM_TYPE,
                          "the body must not be encoded, '%s' is not known", encoding);
    else if (size != strlen("application/json") ||
             g_ascii_strncasecmp(type, "application/json", size) != 0)
        vg_answer_problem(request, VG_PROBLEM_TYPE, "the body must be application/json, not '%s'",
                          type ? type : "");
}

/* Before the route is known, the largest body that any may have. */
static int64_t
body_limit(const struct vg_request *request)
{
    int64_t limit = VG_API_LIMIT(request->api, body_bytes);

    return !request->route || request->route->method == VG_METHOD_ASK ? MAX(limit, VG_LARGE_BODY)
                                                                      : limit;
}

static void
check_sizes(struct exchange *exchange, const struct header_sum *sum)
{
    struct vg_request *request = &exchange->request;
    int64_t limit = body_limit(request);
    const char *length = header(exchange, "Content-Length");

    if (exchange->uri_long)
        vg_answer_problem(request, VG_PROBLEM_URL_LONG, "the URL is longer than %d bytes",
                          VG_URL_MAX);
    else if (sum->n > VG_HEADERS_MAX || sum->bytes > VG_HEADER_BYTES_MAX)
        vg_answer_problem(request, VG_PROBLEM_HEADERS_LONG,
                          "there are more than %d header fields or %d bytes of them",
                          VG_HEADERS_MAX, VG_HEADER_BYTES_MAX);
    else if (length && g_ascii_strtoull(length, NULL, 10) > (uint64_t)limit)
        vg_answer_problem(request, VG_PROBLEM_BODY_LONG,
                          "the body is longer than %" PRId64 " bytes", limit);
}

/* What tells everybody that vgpud is alive. */
static bool
is_public(const struct vg_request *request)
{
    size_t size = strcspn(request->uri, "?");

    return size == strlen("/healthz") && memcmp(request->uri, "/healthz", size) == 0;
}

/* Who asks, and does he ask too often? Before anything is said of what there is. */
static void
settle_client(struct exchange *exchange)
{
    struct vg_request *request = &exchange->request;
    struct vg_conn *conn = conn_of(exchange->connection);

    if (!conn || !conn->client) {
        vg_answer_problem(request, VG_E_BUSY, "there are too many connections of this client");
        request->answer.close = true;
        return;
    }
    request->origin = conn->origin;
    int wait_s = vg_client_take_request(request->api, conn->client);
    if (wait_s > 0) {
        vg_answer_problem(request, VG_PROBLEM_TOO_MANY,
                          "more than %" PRId64 " requests in a second",
                          VG_API_LIMIT(request->api, client_requests));
        request->answer.retry_after_s = wait_s;
        vg_api_count_refused(request->api, VG_REFUSED_REQUESTS);
    } else if (!is_public(request)) {
        if (vg_identity_settle(request, conn, header(exchange, "Authorization")))
            vg_conn_is_known(conn);
        else
            vg_api_count_refused(request->api, VG_REFUSED_NOBODY);
    }
}

/* May he do that, and as often? */
static void
check_role(struct exchange *exchange)
{
    struct vg_request *request = &exchange->request;
    const struct vg_route *route = request->route;
    struct vg_conn *conn = conn_of(exchange->connection);

    if (!vg_identity_may(request, request->api->roles[route - vg_routes])) {
        vg_api_count_refused(request->api, VG_REFUSED_ROLE);
        return;
    }
    if (route->method == VG_METHOD_GET)
        return;
    if (route->method == VG_METHOD_ASK) {
        check_type(exchange);
        return;
    }
    int wait_s = vg_client_take_write(request->api, conn->client);
    if (wait_s > 0) {
        vg_answer_problem(request, VG_PROBLEM_TOO_MANY,
                          "more than %" PRId64 " writes in the last minute",
                          VG_API_LIMIT(request->api, writes_per_min));
        request->answer.retry_after_s = wait_s;
        vg_api_count_refused(request->api, VG_REFUSED_WRITES);
    } else if (route->method == VG_METHOD_POST) {
        check_type(exchange);
    }
}

/* The header fields are there; the body is not. */
static enum MHD_Result
server_start(struct exchange *exchange, const char *method, const char *version)
{
    struct vg_request *request = &exchange->request;
    struct header_sum sum = {.if_none_match = g_string_new(NULL)};

    exchange->phase = PHASE_BODY;
    request->method = method;
    take_request_id(exchange);
    MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, sum_header, &sum);
    check_framing(exchange, version, &sum);
    if (request->answer.status == 0)
        settle_client(exchange);
    if (request->answer.status == 0)
        check_sizes(exchange, &sum);
    if (request->answer.status == 0)
        find_route(request);
    request->if_none_match = g_string_free(sum.if_none_match, FALSE);
    request->last_event_id = g_strdup(header(exchange, "Last-Event-ID"));
    if (request->last_event_id)
        g_strchomp(request->last_event_id);
    request->idempotency_key = g_strdup(header(exchange, "Idempotency-Key"));
    if (request->answer.status == 0)
        check_role(exchange);
    /* A body is read to its end before it is refused, as long as that is no burden: who is cut off
     * while sending never sees why. */
    const char *length = header(exchange, "Content-Length");
    exchange->early = exchange->early || header(exchange, "Expect") ||
                      (length && g_ascii_strtoull(length, NULL, 10) > DISCARD_BODY_MAX);
    if (request->answer.status != 0 && exchange->early) {
        request->answer.close = true;
        return send_answer(exchange);
    }
    return MHD_YES;
}

/* libmicrohttpd takes no answer while a body comes: what is too much is thrown away. */
static enum MHD_Result
take_body(struct exchange *exchange, const char *data, size_t size)
{
    struct vg_request *request = &exchange->request;
    int64_t limit = body_limit(request);

    if (!request->body)
        request->body = g_byte_array_new();
    if (request->answer.status == 0 && request->body->len + size <= (size_t)limit) {
        g_byte_array_append(request->body, (const guint8 *)data, (guint)size);
        return MHD_YES;
    }
    if (request->answer.status == 0) {
        vg_answer_problem(request, VG_PROBLEM_BODY_LONG,
                          "the body is longer than %" PRId64 " bytes", limit);
        request->answer.close = true;
    }
    exchange->discarded += size;
    return exchange->discarded <= DISCARD_BODY_MAX ? MHD_YES : MHD_NO;
}

static void
suspend_job(struct vg_request *request)
{
    struct exchange *exchange = (struct exchange *)request;

    exchange->phase = PHASE_JOB;
    MHD_suspend_connection(exchange->connection);
}

static void
resume_job(struct vg_request *request)
{
    MHD_resume_connection(((struct exchange *)request)->connection);
}

/* Of a write, whatever came of it, by somebody who is known. */
static bool
is_audited(const struct vg_request *request)
{
    return request->route && request->route->method != VG_METHOD_GET &&
           request->route->method != VG_METHOD_ASK && request->identity.role != VG_ROLE_NONE &&
           !request->audited;
}

static void
audit(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    g_autoptr(GError) err = NULL;
    const char *object = request->object ? request->object : request->id;
    const struct vg_audit_entry entry = {
        .identity = request->identity.name,
        .role = request->identity.role,
        .origin = (char *)request->origin,
        .method = (char *)request->method,
        .route = (char *)request->route->path,
        .object = (char *)(object ? object : ""),
        .status = request->answer.status,
        .request_id = request->request_id,
        .count = 1,
    };

    request->audited = true;
    if (backend->audit(backend->data, &entry, &err) != 0)
        vg_log_warn_limited("a write is not in the audit request=%s: %s", request->request_id,
                            err->message);
}

/* A write that was refused before it came to a handler. */
static void
audit_only(struct vg_request *request)
{
    audit(request);
}

static void
run_job(struct vg_request *request)
{
    request->job(request);
    if (is_audited(request))
        audit(request);
}

static enum MHD_Result
go_on(struct exchange *exchange)
{
    struct vg_request *request = &exchange->request;

    if (request->answer.status != 0 && !request->job && is_audited(request))
        request->job = audit_only;
    if (request->answer.status != 0 && !request->job)
        return send_answer(exchange);
    if (request->job) {
        if (vg_worker_put(request->api->workers[request->lane], request))
            return MHD_YES;
        __atomic_add_fetch(&request->api->stats.jobs_refused, 1, __ATOMIC_RELAXED);
        vg_answer_problem(request, VG_E_BUSY, "%d requests wait already for what may take long",
                          VG_WORKER_QUEUE_MAX);
        return send_answer(exchange);
    }
    if (request->wait) {
        exchange->phase = PHASE_WAIT;
        request->wait->connection = exchange->connection;
        if (vg_poll_suspend(request))
            return MHD_YES;
        vg_poll_answer(request, true);
        return send_answer(exchange);
    }
    vg_answer_problem(request, VG_E_BUG, "nobody answered");
    return send_answer(exchange);
}

static enum MHD_Result
on_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
           const char *version, const char *data, size_t *size, void **state)
{
    struct exchange *exchange = *state;
    struct vg_request *request = &exchange->request;
    struct vg_conn *conn;

    (void)cls, (void)url;
    switch (exchange->phase) {
    case PHASE_NEW:
        exchange->connection = connection;
        return server_start(exchange, method, version);
    case PHASE_BODY:
        if (*size > 0) {
            size_t n = *size;
            *size = 0;
            return take_body(exchange, data, n);
        }
        conn = conn_of(connection);
        if (conn)
            vg_conn_has_request(conn);
        if (request->answer.status == 0)
            request->route->handler(request);
        return go_on(exchange);
    case PHASE_WAIT:
        vg_poll_answer(request, false);
        return go_on(exchange);
    case PHASE_JOB:
    default:
        request->job = NULL;
        return go_on(exchange);
    }
}

static void *
on_uri(void *cls, const char *uri, struct MHD_Connection *connection)
{
    struct exchange *exchange = g_new0(struct exchange, 1);
    vg_api *api = cls;

    (void)connection;
    exchange->uri_end = uri + strlen(uri);
    exchange->request.api = api;
    exchange->request.backend = api->backend;
    __atomic_add_fetch(&api->stats.active, 1, __ATOMIC_RELAXED);
    exchange->uri_long = strlen(uri) > VG_URL_MAX;
    exchange->request.uri = vg_parse_target(uri, exchange->uri_long ? 64 : VG_URL_MAX);
    return exchange;
}

static void
on_completed(void *cls, struct MHD_Connection *connection, void **state,
             enum MHD_RequestTerminationCode why)
{
    struct exchange *exchange = *state;
    struct vg_conn *conn = conn_of(connection);

    (void)why;
    if (conn)
        vg_conn_expect_request(conn);
    if (!exchange)
        return;
    __atomic_sub_fetch(&((vg_api *)cls)->stats.active, 1, __ATOMIC_RELAXED);
    struct vg_request *request = &exchange->request;
    vg_wait_free(request->wait);
    vg_answer_clear(&request->answer);
    vg_query_clear(&request->query);
    if (request->job_data_free)
        request->job_data_free(request->job_data);
    if (request->body)
        g_byte_array_unref(request->body);
    g_free(request->if_none_match);
    g_free(request->last_event_id);
    g_free(request->idempotency_key);
    g_free(request->id);
    g_free(request->object);
    g_free(request->token);
    g_free(request->subject);
    g_free(request->uri);
    g_free(exchange);
    *state = NULL;
}

static void
on_connection(void *cls, struct MHD_Connection *connection, void **socket_context,
              enum MHD_ConnectionNotificationCode code)
{
    struct vg_listener *listener = cls;
    vg_api *api = listener->api;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        unsigned idle_s = (unsigned)CLAMP(VG_API_LIMIT(api, idle_ns) / VG_NS_PER_S, 1, 86400);
        MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, idle_s);
        struct vg_conn *conn = vg_conn_new(listener, server_fd_of(connection));
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
        conn->session = info ? info->tls_session : NULL;
        *socket_context = conn;
    } else if (*socket_context) {
        vg_conn_free(*socket_context);
        *socket_context = NULL;
    }
}

G_GNUC_PRINTF(2, 0)
static void
on_log(void *cls, const char *fmt, va_list args)
{
    char text[512];

    (void)cls;
    g_vsnprintf(text, sizeof(text), fmt, args);
    vg_log_debug("%s", g_strchomp(text));
}

static void
listener_free(void *data)
{
    struct vg_listener *listener = data;

    if (listener->daemon)
        MHD_stop_daemon(listener->daemon);
    g_free(listener);
}

/* Takes the descriptor. name: for the error. */
static int
start_listener(vg_api *api, int take_fd, bool is_tcp, const char *name, GError **err)
{
    struct vg_listener *listener = g_new0(struct vg_listener, 1);
    const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                           MHD_USE_ERROR_LOG | (is_tcp ? MHD_USE_TLS : 0);
    const char *ca = is_tcp ? vg_tls_client_ca(api->tls) : NULL;
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)vg_tls_retrieve},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_PRIORITIES},
        /* Asks for a certificate of these; whoever has none is let in here, and looked at later. */
        {ca ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0, (void *)ca},
        {MHD_OPTION_END, 0, NULL},
    };
    const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    sigset_t all, old;

    listener->api = api;
    listener->is_tcp = is_tcp;
    /* Its threads inherit the mask. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    listener->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, api, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, take_fd, MHD_OPTION_THREAD_POOL_SIZE,
        (unsigned)(is_tcp ? 0 : POOL_THREADS), MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CLAMP(api->limits.connections, POOL_THREADS, 100000),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONN_MEMORY, MHD_OPTION_URI_LOG_CALLBACK,
        on_uri, api, MHD_OPTION_NOTIFY_COMPLETED, on_completed, api, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, listener, MHD_OPTION_ARRAY, is_tcp ? tls : none, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (listener->daemon) {
        g_ptr_array_add(api->listeners, listener);
        return 0;
    }
    close(take_fd);
    g_free(listener);
    return vg_error(err, VG_E_EXTERNAL, "libmicrohttpd does not listen on '%s'", name);
}

/* "192.0.2.1:8447", "[2001:db8::1]:8447"; names are not looked up. */
static int
parse_address(const char *text, struct addrinfo **ret, GError **err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    const char *colon = strrchr(text, ':');
    size_t size = colon ? (size_t)(colon - text) : 0;
    bool bracketed = size >= 2 && text[0] == '[' && text[size - 1] == ']';
    g_autofree char *host = g_strndup(bracketed ? text + 1 : text, bracketed ? size - 2 : size);

    if (!colon || size == 0 || (!bracketed && strchr(host, ':')) ||
        getaddrinfo(host, colon + 1, &hints, ret) != 0)
        return vg_error(err, VG_E_INVALID,
                        "'%s' is no address to listen on: it must be like 192.0.2.1:8447, "
                        "0.0.0.0:8447 or [::]:8447",
                        text);
    return 0;
}

static int
listen_on(vg_api *api, const char *text, GError **err)
{
    const int one = 1;
    struct addrinfo *address = NULL;

    if (parse_address(text, &address, err) != 0)
        return -1;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool works = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
                 (address->ai_family != AF_INET6 ||
                  setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) == 0) &&
                 bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0;
    int errnum = errno;
    freeaddrinfo(address);
    if (works)
        return start_listener(api, fd, true, text, err);
    if (fd >= 0)
        close(fd);
    return vg_error_errno(err, errnum, "cannot listen on '%s'", text);
}

static int
start_listeners(vg_api *api, const struct vg_api_options *options, GError **err)
{
    const char *const *addresses = options->listen;

    if (addresses && addresses[0]) {
        api->tls = vg_tls_new(options->certificate, options->key, options->client_ca, err);
        if (!api->tls)
            return -1;
    }
    for (size_t i = 0; addresses && addresses[i]; i++) {
        if (listen_on(api, addresses[i], err) != 0)
            return -1;
    }
    /* Last: when it answers, the others do, too. */
    return start_listener(api, vg_socket_take_fd(api->socket), false, options->socket, err);
}

vg_api *
vg_api_new(const struct vg_api_options *options, GError **err)
{
    static const char *const lanes[] = {[VG_LANE_WORK] = "api-work",
                                        [VG_LANE_KEEP] = "api-keep",
                                        [VG_LANE_MOVE] = "api-move",
                                        [VG_LANE_ASK] = "api-ask"};
    static const struct vg_worker_hooks hooks = {
        .suspend = suspend_job, .run = run_job, .resume = resume_job};
    vg_api *api = g_new0(vg_api, 1);

    api->limits = options->limits;
    api->backend = options->backend;
    api->events = options->events;
    g_autoptr(vg_view) view = api->backend->view(api->backend->data);
    api->boot_id = view->boot_id;
    pthread_mutex_init(&api->lock, NULL);
    vg_cond_init(&api->wake);
    g_queue_init(&api->waits);
    g_queue_init(&api->conns);
    api->clients = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, vg_client_free);
    api->listeners = g_ptr_array_new_with_free_func(listener_free);
    api->client_required = options->client_required;
    api->roles = g_new0(enum vg_role, vg_n_routes);
    if (vg_roles_read(vg_schema_openapi, api->roles, err) != 0) {
        vg_api_free(api);
        return NULL;
    }
    api->socket = vg_socket_new(options->socket, options->socket_mode, options->socket_group, err);
    bool have_workers = api->socket != NULL;
    for (int i = 0; have_workers && i < VG_LANE_MAX; i++) {
        api->workers[i] = vg_worker_new(lanes[i], &hooks, err);
        have_workers = api->workers[i] != NULL;
    }
    /* Before the first stream can wait for an event. */
    vg_event_log_listen(api->events, vg_waits_wake, api);
    if (!have_workers || vg_ticker_start(api, err) < 0 || start_listeners(api, options, err) < 0) {
        vg_event_log_listen(api->events, NULL, NULL);
        vg_api_free(api);
        return NULL;
    }
    return api;
}

void
vg_api_set_limits(vg_api *api, const struct vg_api_limits *limits)
{
    __atomic_store_n(&api->limits.client_connections, limits->client_connections, __ATOMIC_RELAXED);
    __atomic_store_n(&api->limits.client_requests, limits->client_requests, __ATOMIC_RELAXED);
    __atomic_store_n(&api->limits.streams, limits->streams, __ATOMIC_RELAXED);
    __atomic_store_n(&api->limits.body_bytes, limits->body_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&api->limits.idle_ns, limits->idle_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&api->limits.writes_per_min, limits->writes_per_min, __ATOMIC_RELAXED);
}

/* libmicrohttpd must not be stopped while a connection is suspended; none is any more once
 * `stopping` is seen. MHD_quiesce_daemon() would keep new connections away, but it aborts when one
 * of its threads takes the listening socket out of epoll at the same time. */
static void
stop_daemon(vg_api *api)
{
    vg_event_log_listen(api->events, NULL, NULL);
    pthread_mutex_lock(&api->lock);
    api->stopping = true;
    pthread_mutex_unlock(&api->lock);
    for (int i = 0; i < VG_LANE_MAX; i++)
        vg_worker_stop(api->workers[i]);
    vg_waits_wake(api);
    for (int i = 0; i < END_STEPS && __atomic_load_n(&api->stats.active, __ATOMIC_RELAXED) > 0; i++)
        g_usleep(END_STEP_US);
    g_ptr_array_set_size(api->listeners, 0);
}

void
vg_api_free(vg_api *api)
{
    if (!api)
        return;
    if (api->listeners->len > 0)
        stop_daemon(api);
    g_ptr_array_unref(api->listeners);
    vg_tls_free(api->tls);
    vg_thread_free(api->ticker);
    for (int i = 0; i < VG_LANE_MAX; i++)
        vg_worker_free(api->workers[i]);
    vg_socket_free(api->socket);
    g_hash_table_destroy(api->clients);
    g_free(api->roles);
    pthread_cond_destroy(&api->wake);
    pthread_mutex_destroy(&api->lock);
    g_free(api);
}

int
vg_api_reload_certificate(vg_api *api, GError **err)
{
    return api->tls ? vg_tls_reload(api->tls, err) : 0;
}

const vg_thread *
vg_api_thread(const vg_api *api)
{
    return vg_worker_thread(api->workers[VG_LANE_WORK]);
}
