/* SPDX-License-Identifier: Apache-2.0
 *
 * libmicrohttpd: requests in, answers out. What it lets through and we do not want is refused here.
 */
#include "config.h"

#include "api/server.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <microhttpd.h>

#include "api/route.h"
#include "base/clock.h"
#include "base/log.h"

#define VG_LOG_TAG "api"

#define POOL_THREADS     2
#define CONN_MEMORY      (64 * 1024)
#define DISCARD_BODY_MAX (16 * 1024 * 1024)
/* What is being answered when the end comes gets half a second. */
#define END_STEPS   100
#define END_STEP_US 5000

const unsigned short vg_http_codes[VG_HTTP_CODES_MAX + 1] = {
    200, 201, 204, 304, 400, 403, 404, 405, 409, 413, 414, 415, 422, 429, 431, 500, 502, 503, 504,
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
fd_of(struct MHD_Connection *connection)
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
        request->answer.allow = g_strdup("GET, HEAD, POST, OPTIONS");
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

static void
check_sizes(struct exchange *exchange, const struct header_sum *sum)
{
    struct vg_request *request = &exchange->request;
    int64_t limit = VG_API_LIMIT(request->api, body_bytes);
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

/* The header fields are there; the body is not. */
static enum MHD_Result
start(struct exchange *exchange, const char *method, const char *version)
{
    struct vg_request *request = &exchange->request;
    struct header_sum sum = {.if_none_match = g_string_new(NULL)};

    exchange->phase = PHASE_BODY;
    request->method = method;
    take_request_id(exchange);
    MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, sum_header, &sum);
    check_framing(exchange, version, &sum);
    if (request->answer.status == 0)
        check_sizes(exchange, &sum);
    if (request->answer.status == 0)
        find_route(request);
    request->if_none_match = g_string_free(sum.if_none_match, FALSE);
    request->last_event_id = g_strdup(header(exchange, "Last-Event-ID"));
    if (request->last_event_id)
        g_strchomp(request->last_event_id);
    if (request->answer.status == 0 && request->route->post &&
        vg_write_allowed(request, fd_of(exchange->connection)))
        check_type(exchange);
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
    int64_t limit = VG_API_LIMIT(request->api, body_bytes);

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

static enum MHD_Result
go_on(struct exchange *exchange)
{
    struct vg_request *request = &exchange->request;

    if (request->answer.status != 0)
        return send_answer(exchange);
    if (request->job) {
        if (vg_worker_put(request->api->worker, request))
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
        return start(exchange, method, version);
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
    g_free(request->id);
    g_free(request->uri);
    g_free(exchange);
    *state = NULL;
}

static void
on_connection(void *cls, struct MHD_Connection *connection, void **socket_context,
              enum MHD_ConnectionNotificationCode code)
{
    vg_api *api = cls;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        unsigned idle_s = (unsigned)CLAMP(VG_API_LIMIT(api, idle_ns) / VG_NS_PER_S, 1, 86400);
        MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, idle_s);
        *socket_context = vg_conn_new(api, fd_of(connection));
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

static int
start_daemon(vg_api *api, GError **err)
{
    int fd = vg_socket_take_fd(api->socket);
    sigset_t all;
    sigset_t old;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;

    /* Its threads inherit the mask. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    api->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, api, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)POOL_THREADS,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CLAMP(api->limits.connections, POOL_THREADS, 100000),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONN_MEMORY, MHD_OPTION_URI_LOG_CALLBACK,
        on_uri, api, MHD_OPTION_NOTIFY_COMPLETED, on_completed, api, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, api, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (api->daemon)
        return 0;
    close(fd);
    return vg_error(err, VG_E_EXTERNAL, "libmicrohttpd does not start");
}

vg_api *
vg_api_new(const struct vg_api_options *options, GError **err)
{
    static const struct vg_worker_hooks hooks = {.suspend = suspend_job, .resume = resume_job};
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
    api->writes = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    api->socket = vg_socket_new(options->socket, options->socket_mode, options->socket_group, err);
    if (api->socket)
        api->worker = vg_worker_new(&hooks, err);
    /* Before the first stream can wait for an event. */
    vg_event_log_listen(api->events, vg_waits_wake, api);
    if (!api->worker || vg_ticker_start(api, err) < 0 || start_daemon(api, err) < 0) {
        vg_event_log_listen(api->events, NULL, NULL);
        vg_api_free(api);
        return NULL;
    }
    return api;
}

void
vg_api_set_limits(vg_api *api, const struct vg_api_limits *limits)
{
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
    vg_worker_stop(api->worker);
    vg_waits_wake(api);
    for (int i = 0; i < END_STEPS && __atomic_load_n(&api->stats.active, __ATOMIC_RELAXED) > 0; i++)
        g_usleep(END_STEP_US);
    MHD_stop_daemon(api->daemon);
}

void
vg_api_free(vg_api *api)
{
    if (!api)
        return;
    if (api->daemon)
        stop_daemon(api);
    vg_thread_free(api->ticker);
    vg_worker_free(api->worker);
    vg_socket_free(api->socket);
    g_hash_table_destroy(api->writes);
    pthread_cond_destroy(&api->wake);
    pthread_mutex_destroy(&api->lock);
    g_free(api);
}

const vg_thread *
vg_api_thread(const vg_api *api)
{
    return vg_worker_thread(api->worker);
}
