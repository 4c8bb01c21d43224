/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/admit.h"

#include <inttypes.h>
#include <string.h>

#include "api/client.h"
#include "api/connect.h"
#include "api/identity.h"
#include "api/page.h"
#include "api/person.h"
#include "api/route.h"

#define HEADERS_MAX      100
#define HEADER_BYTES_MAX 16384

/* A summary of all header fields of a request. */
struct header_sum {
    unsigned n;
    size_t bytes;
    unsigned content_lengths;
    unsigned transfer_encodings;
    unsigned hosts;
    unsigned content_types;
    unsigned authorizations;
    bool blank_names;
    GString *if_none_match; /* the values of all fields with this name */
};

/* Returns the value of a header field, or NULL. */
static const char *
admit_header(const struct http_exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
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

/* Checks the framing. libmicrohttpd's strict mode is not used, because some of its refusals appear
 * twice in an answer (0.9.75), and it decides as little as possible. If two parsers might disagree
 * on the end of a request, the request is refused and the connection is closed. */
static void
check_framing(struct http_exchange *exchange, const char *version, const struct header_sum *sum)
{
    struct vg_request *request = &exchange->request;
    const char *encoding = admit_header(exchange, "Transfer-Encoding");
    bool http11 = strcmp(version, MHD_HTTP_VERSION_1_1) == 0;
    const char *what = NULL;

    if (!http11 && strcmp(version, MHD_HTTP_VERSION_1_0) != 0)
        what = "only HTTP/1.1 and HTTP/1.0 are supported";
    else if (version != exchange->uri_end + 1 || strpbrk(request->uri, " \t"))
        /* the version follows the URL after one blank */
        what = "the URL contains a NUL or a blank";
    else if (sum->blank_names)
        what = "the name of a header field is empty or contains a blank";
    else if (http11 && sum->hosts == 0)
        what = "the Host header is missing";
    else if (sum->content_lengths > 1)
        what = "there is more than one Content-Length header";
    else if (sum->content_types > 1)
        what = "there is more than one Content-Type header";
    else if (sum->authorizations > 1)
        what = "there is more than one Authorization header";
    else if (sum->transfer_encodings > 0 && sum->content_lengths > 0)
        what = "Content-Length and Transfer-Encoding cannot be combined";
    else if (sum->transfer_encodings > 0 && (!http11 || sum->transfer_encodings > 1 || !encoding ||
                                             g_ascii_strcasecmp(encoding, "chunked") != 0))
        what = "the only supported Transfer-Encoding is 'chunked', in HTTP/1.1";
    else if (sum->hosts > 1)
        what = "there is more than one Host header";
    if (what) {
        vg_answer_problem(request, VG_E_INVALID, "%s", what);
        request->answer.close = true;
        exchange->early = true;
    }
}

static void
take_request_id(struct http_exchange *exchange)
{
    struct vg_request *request = &exchange->request;
    const char *id = admit_header(exchange, "X-Request-Id");
    const char *openstack = admit_header(exchange, "X-Openstack-Request-Id");

    if (openstack && vg_parse_is_request_id(openstack)) {
        id = openstack;
        request->openstack_id = true;
    }
    if (id && vg_parse_is_request_id(id))
        g_strlcpy(request->request_id, id, sizeof(request->request_id));
    else
        vg_request_id_make(request->request_id);
}

/* Returns whether the backend provides the part for this route. */
static bool
is_offered(const struct vg_request *request)
{
    enum vg_route_part part = request->route->part;

    return (part != VG_PLANS || request->backend->plans) &&
           (part != VG_MOVES || request->backend->moves) &&
           (part != VG_ACTS || request->backend->acts);
}

/* Checks path, method and query. Sets the answer if they are invalid. */
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
        vg_answer_problem(request, VG_E_NOT_FOUND, "there is no resource at '%s'", path);
    } else if (match == VG_MATCH_NO_METHOD) {
        vg_answer_problem(request, VG_PROBLEM_METHOD, "this path supports only the methods %s",
                          allow);
        request->answer.allow = allow;
    } else if (!request->route) {
        request->answer.status = 204;
        request->answer.allow = allow;
    } else if (!is_offered(request)) {
        vg_answer_problem(request, VG_PROBLEM_ABSENT, "this vgpud does not offer '%s'",
                          request->route->path);
    } else {
        const char *query = request->uri[size] ? request->uri + size + 1 : NULL;
        if (vg_parse_query(query, request->route->params, &request->query, &err) < 0)
            vg_answer_error(request, err);
    }
}

static void
check_type(struct http_exchange *exchange)
{
    struct vg_request *request = &exchange->request;
    const char *type = admit_header(exchange, "Content-Type");
    const char *encoding = admit_header(exchange, "Content-Encoding");
    size_t size = type ? strcspn(type, "; \t") : 0;

    if (encoding && g_ascii_strcasecmp(encoding, "identity") != 0)
        vg_answer_problem(request, VG_PROBLEM_TYPE,
                          "the body must not be encoded; '%s' is not supported", encoding);
    else if (size != strlen("application/json") ||
             g_ascii_strncasecmp(type, "application/json", size) != 0)
        vg_answer_problem(request, VG_PROBLEM_TYPE, "the body must be application/json, not '%s'",
                          type ? type : "");
}

int64_t
http_body_limit(const struct vg_request *request)
{
    int64_t limit = VG_API_LIMIT(request->api, body_bytes);

    return !request->route || request->route->method == VG_ASK ? MAX(limit, VG_LARGE_BODY) : limit;
}

static void
check_sizes(struct http_exchange *exchange, const struct header_sum *sum)
{
    struct vg_request *request = &exchange->request;
    int64_t limit = http_body_limit(request);
    const char *length = admit_header(exchange, "Content-Length");

    if (exchange->uri_long)
        vg_answer_problem(request, VG_PROBLEM_URL_LONG, "the URL is longer than %d bytes",
                          HTTP_URL_MAX);
    else if (sum->n > HEADERS_MAX || sum->bytes > HEADER_BYTES_MAX)
        vg_answer_problem(request, VG_PROBLEM_HEADERS_LONG,
                          "the request's header has more than %d fields or %d bytes", HEADERS_MAX,
                          HEADER_BYTES_MAX);
    else if (length && g_ascii_strtoull(length, NULL, 10) > (uint64_t)limit)
        vg_answer_problem(request, VG_PROBLEM_BODY_LONG,
                          "the body is longer than %" PRId64 " bytes", limit);
}

/* Returns whether the route needs no identification. Only the liveness route does not. */
static bool
is_public(const struct vg_request *request)
{
    size_t size = strcspn(request->uri, "?");

    return (size == strlen("/healthz") && memcmp(request->uri, "/healthz", size) == 0) ||
           vg_page_is_part(request->uri, size);
}

/* Identifies the client and checks its request rate, before anything is disclosed. */
static void
settle_client(struct http_exchange *exchange)
{
    struct vg_request *request = &exchange->request;
    struct vg_conn *conn = vg_conn_of(exchange->connection);

    if (!conn || !conn->client) {
        vg_answer_problem(request, VG_E_BUSY, "this client has too many connections");
        request->answer.close = true;
        return;
    }
    request->origin = conn->origin;
    int wait_s = vg_client_take_request(request->api, conn->client);
    if (wait_s > 0) {
        vg_answer_problem(request, VG_PROBLEM_TOO_MANY,
                          "this client has sent more than %" PRId64 " requests in a second",
                          VG_API_LIMIT(request->api, client_requests));
        request->answer.retry_after_s = wait_s;
        vg_api_count_refused(request->api, VG_REFUSED_REQUESTS);
    } else if (!is_public(request)) {
        if (vg_identity_settle(request, conn, admit_header(exchange, "Authorization")))
            vg_conn_is_known(conn);
        else
            vg_api_count_refused(request->api, VG_REFUSED_NOBODY);
    }
}

/* Checks the client's role and its rate of writes. */
static void
check_role(struct http_exchange *exchange)
{
    struct vg_request *request = &exchange->request;
    const struct vg_route *route = request->route;
    struct vg_conn *conn = vg_conn_of(exchange->connection);

    request->role = request->api->roles[route - vg_routes];
    if (!vg_identity_may(request, request->role, request->api->peers[route - vg_routes])) {
        vg_api_count_refused(request->api, VG_REFUSED_ROLE);
        return;
    }
    if (route->method == VG_GET)
        return;
    if (route->method == VG_ASK) {
        check_type(exchange);
        return;
    }
    int wait_s = vg_client_take_write(request->api, conn->client);
    if (wait_s > 0) {
        vg_answer_problem(request, VG_PROBLEM_TOO_MANY,
                          "this client has sent more than %" PRId64
                          " write requests in the last minute",
                          VG_API_LIMIT(request->api, writes_per_min));
        request->answer.retry_after_s = wait_s;
        vg_api_count_refused(request->api, VG_REFUSED_WRITES);
    } else if (route->method == VG_POST) {
        check_type(exchange);
    }
}

void
http_admit(struct http_exchange *exchange, const char *method, const char *version)
{
    struct vg_request *request = &exchange->request;
    struct header_sum sum = {.if_none_match = g_string_new(NULL)};

    request->method = method;
    take_request_id(exchange);
    MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, sum_header, &sum);
    check_framing(exchange, version, &sum);
    vg_page_redirect(request, admit_header(exchange, "Accept"));
    if (request->answer.status == 0)
        settle_client(exchange);
    if (request->answer.status == 0)
        check_sizes(exchange, &sum);
    if (request->answer.status == 0)
        find_route(request);
    request->if_none_match = g_string_free(sum.if_none_match, FALSE);
    request->last_event_id = g_strdup(admit_header(exchange, "Last-Event-ID"));
    if (request->last_event_id)
        g_strchomp(request->last_event_id);
    request->idempotency_key = g_strdup(admit_header(exchange, "Idempotency-Key"));
    request->person = g_strdup(admit_header(exchange, VG_PERSON_HEADER));
    request->forecast = g_strdup(admit_header(exchange, VG_FORECAST_HEADER));
    if (request->answer.status == 0)
        check_role(exchange);
    /* Read the body of a refused request unless it is too large: a client that is disconnected
     * while sending never sees the reason. */
    const char *length = admit_header(exchange, "Content-Length");
    exchange->early = exchange->early || admit_header(exchange, "Expect") ||
                      (length && g_ascii_strtoull(length, NULL, 10) > HTTP_DISCARD_BODY_MAX);
}
