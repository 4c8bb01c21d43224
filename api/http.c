/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/http.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "api/admit.h"
#include "api/connect.h"
#include "api/response.h"
#include "api/route.h"
#include "api/sse.h"
#include "base/log.h"

#define VG_LOG_TAG "api"

static enum MHD_Result
http_send(struct http_exchange *exchange)
{
    struct vg_request *request = &exchange->request;
    struct vg_conn *conn = vg_conn_of(exchange->connection);

    if (conn)
        vg_conn_has_request(conn);
    if (request->streaming)
        request->wait->connection = exchange->connection;
    struct MHD_Response *response = vg_response_new(request);
    if (!response)
        return MHD_NO;
    vg_http_stats_count(&request->api->stats, request->route, request->answer.status);
    enum MHD_Result result =
        MHD_queue_response(exchange->connection, request->answer.status, response);
    MHD_destroy_response(response);
    return result;
}

/* Admits a request after its header fields have arrived. A request that is refused without reading
 * its body is answered immediately. */
static enum MHD_Result
http_start(struct http_exchange *exchange, const char *method, const char *version)
{
    struct vg_request *request = &exchange->request;

    exchange->phase = HTTP_BODY;
    http_admit(exchange, method, version);
    if (request->answer.status == 0 || !exchange->early)
        return MHD_YES;
    request->answer.close = true;
    return http_send(exchange);
}

/* Processes a piece of a body. libmicrohttpd accepts no answer before the end of a body, so the
 * excess is dropped. */
static enum MHD_Result
http_take_body(struct http_exchange *exchange, const char *data, size_t size)
{
    struct vg_request *request = &exchange->request;
    int64_t limit = http_body_limit(request);

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
    return exchange->discarded <= HTTP_DISCARD_BODY_MAX ? MHD_YES : MHD_NO;
}

static void
http_suspend_job(struct vg_request *request)
{
    struct http_exchange *exchange = (struct http_exchange *)request;

    exchange->phase = HTTP_JOB;
    MHD_suspend_connection(exchange->connection);
}

static void
http_resume_job(struct vg_request *request)
{
    MHD_resume_connection(((struct http_exchange *)request)->connection);
}

/* Returns whether to audit the request: every write, and reads that were denied to an identified
 * client. */
static bool
http_is_audited(const struct vg_request *request)
{
    if (!request->route || request->identity.role == VG_ROLE_NONE || request->audited)
        return false;
    return (request->route->method != VG_GET && request->route->method != VG_ASK) ||
           request->answer.status == 403;
}

static void
http_audit(struct vg_request *request)
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
    if (backend->access->audit(backend->data, &entry, &err) != 0)
        vg_log_warn_limited("a request is missing from the audit log request=%s: %s",
                            request->request_id, err->message);
}

/* The job of a request that was refused before reaching a handler. It only writes the audit
 * entry. */
static void
http_audit_only(struct vg_request *request)
{
    http_audit(request);
}

static void
http_run_job(struct vg_request *request)
{
    request->job(request);
    if (http_is_audited(request))
        http_audit(request);
}

const struct vg_worker_hooks http_job_hooks = {
    .suspend = http_suspend_job,
    .run = http_run_job,
    .resume = http_resume_job,
};

/* Queues the job of a request. If too many jobs are waiting, answers with this error. */
static enum MHD_Result
http_put_job(struct http_exchange *exchange)
{
    struct vg_request *request = &exchange->request;
    vg_api *api = request->api;
    GError *err = NULL;

    /* A job that only records waits for no host. */
    if (request->answer.status != 0)
        request->lane = VG_LANE_WORK;
    if (vg_worker_put(api->workers[request->lane], request, &err) < 0) {
        __atomic_add_fetch(&api->stats.jobs_refused, 1, __ATOMIC_RELAXED);
        vg_answer_error(request, err);
        return http_send(exchange);
    }
    VG_LOCK_SCOPE(&api->lock);
    pthread_cond_signal(&api->wake); /* the thread may have to refuse the job in time */
    return MHD_YES;
}

static enum MHD_Result
http_continue(struct http_exchange *exchange)
{
    struct vg_request *request = &exchange->request;

    if (request->answer.status != 0 && !request->job && http_is_audited(request))
        request->job = http_audit_only;
    if (request->answer.status != 0 && !request->job)
        return http_send(exchange);
    if (request->job)
        return http_put_job(exchange);
    if (request->wait) {
        exchange->phase = HTTP_WAIT;
        request->wait->connection = exchange->connection;
        if (vg_poll_suspend(request))
            return MHD_YES;
        vg_poll_answer(request, true);
        return http_send(exchange);
    }
    vg_answer_problem(request, VG_E_BUG, "nobody answered");
    return http_send(exchange);
}

enum MHD_Result
http_on_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                const char *version, const char *data, size_t *size, void **state)
{
    struct http_exchange *exchange = *state;
    struct vg_request *request = &exchange->request;
    struct vg_conn *conn;

    (void)cls, (void)url;
    switch (exchange->phase) {
    case HTTP_NEW:
        exchange->connection = connection;
        return http_start(exchange, method, version);
    case HTTP_BODY:
        if (*size > 0) {
            size_t n = *size;
            *size = 0;
            return http_take_body(exchange, data, n);
        }
        conn = vg_conn_of(connection);
        if (conn)
            vg_conn_has_request(conn);
        if (request->answer.status == 0)
            request->route->handler(request);
        return http_continue(exchange);
    case HTTP_WAIT:
        vg_poll_answer(request, false);
        return http_continue(exchange);
    case HTTP_JOB:
    default:
        request->job = NULL;
        return http_continue(exchange);
    }
}

static bool
http_client_waits(const void *request)
{
    const struct vg_conn *conn = vg_conn_of(((const struct http_exchange *)request)->connection);
    struct pollfd poll_fd = {.fd = conn ? conn->fd : -1, .events = POLLRDHUP};

    return !conn || poll(&poll_fd, 1, 0) == 0;
}

void *
http_on_uri(void *cls, const char *uri, struct MHD_Connection *connection)
{
    struct http_exchange *exchange = g_new0(struct http_exchange, 1);
    vg_api *api = cls;

    (void)connection;
    exchange->uri_end = uri + strlen(uri);
    exchange->request.waits = http_client_waits;
    exchange->request.api = api;
    exchange->request.backend = api->backend;
    __atomic_add_fetch(&api->stats.active, 1, __ATOMIC_RELAXED);
    exchange->uri_long = strlen(uri) > HTTP_URL_MAX;
    exchange->request.uri = vg_parse_target(uri, exchange->uri_long ? 64 : HTTP_URL_MAX);
    return exchange;
}

void
http_on_completed(void *cls, struct MHD_Connection *connection, void **state,
                  enum MHD_RequestTerminationCode why)
{
    struct http_exchange *exchange = *state;
    struct vg_conn *conn = vg_conn_of(connection);

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
    g_free(request->person);
    g_free(request->forecast);
    g_free(request->id);
    g_free(request->object);
    g_free(request->token);
    g_free(request->subject);
    for (size_t i = 0; i < VG_BACKEND_HOSTS; i++)
        g_free(request->hosts[i]);
    g_free(request->uri);
    g_free(exchange);
    *state = NULL;
}
