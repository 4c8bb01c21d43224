/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "client/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/curl-protocols.h"
#include "base/error.h"
#include "base/json.h"
#include "client/client-advice.h"
#include "client/location.h"
#include "model/snapshot.h"

#define ANSWER_MAX ((size_t)VG_SNAPSHOT_TEXT_MAX)
#define DEPTH_MAX  32

/* The maximum length of a line in an event stream. */
#define LINE_MAX_BYTES (1024 * 1024)

/* The maximum length that fits into sockaddr_un. */
#define SOCKET_PATH_MAX 107

/* On a unix socket, any host name is valid. */
#define BASE_URL "http://vgpud"

struct vg_client {
    struct vg_remote remote;
    char *authorization; /* a header, or NULL without a token */
    CURL *curl;
    double limit_s; /* the time limit for an answer */
    char words[CURL_ERROR_SIZE];
    atomic_bool interrupted;
};

/* An answer, or the state of a stream. */
struct answer {
    GString *body;
    bool too_long;
    /* These members are for streams. */
    GString *line; /* not complete yet */
    char *id;
    char *type;
    GString *data;
    bool (*on_event)(void *data, const struct vg_client_event *event);
    void *on_event_data;
    bool ended;        /* by on_event */
    int64_t heard_ns;  /* CLOCK_MONOTONIC, the time of the last data */
    bool unresponsive; /* no data for too long */
    CURL *curl;
};

vg_client *
vg_client_new(const struct vg_remote_args *args, GError **err)
{
    g_autoptr(vg_client) client = g_new0(vg_client, 1);
    g_autofree char *token = NULL;

    if (vg_remote_resolve(args, &client->remote, err) < 0 ||
        vg_remote_read_files(&client->remote, &token, err) < 0)
        return NULL;
    client->limit_s = args->limit_s > 0 ? args->limit_s : VG_CLIENT_LIMIT_S;
    if (token)
        client->authorization = g_strconcat("Authorization: Bearer ", token, NULL);
    client->curl = curl_easy_init();
    if (!client->curl)
        vg_bug("cannot initialise libcurl");
    return g_steal_pointer(&client);
}

void
vg_client_free(vg_client *client)
{
    if (!client)
        return;
    curl_easy_cleanup(client->curl);
    vg_remote_clear(&client->remote);
    g_free(client->authorization);
    g_free(client);
}

void
vg_client_set_limit(vg_client *client, int limit_s)
{
    client->limit_s = limit_s;
}

static int
client_connect_limit(const vg_client *client)
{
    return MIN(VG_CLIENT_CONNECT_LIMIT_S, (int)(client->limit_s + 0.999));
}

void
vg_client_interrupt(vg_client *client)
{
    atomic_store(&client->interrupted, true);
}

/* Returns NULL if vgpud is on the network. */
static const char *
client_socket(const vg_client *client)
{
    return vg_remote_value(&client->remote, VG_REMOTE_SOCKET);
}

/* Returns the socket or the address. */
static const char *
client_place(const vg_client *client)
{
    return client_socket(client) ? client_socket(client)
                                 : vg_remote_value(&client->remote, VG_REMOTE_SERVER);
}

/* ---- errors ---- */

static int
unreachable(const vg_client *client, int errnum, GError **err)
{
    const char *advice = "is vgpud running (`systemctl status vgpud`)? --socket or "
                         "VGPUCTL_SOCKET names another socket, --server one on the network";

    if (errnum == EACCES || errnum == EPERM)
        advice = "only root and the socket's group may connect (`ls -l` shows the group)";
    else if (errnum == ENAMETOOLONG)
        advice = "the path of a socket can have at most 107 bytes";
    return vg_error(err, VG_E_UNREACHABLE, "cannot reach vgpud at '%s': %s; %s",
                    client_socket(client), g_strerror(errnum), advice);
}

static int
curl_error(const vg_client *client, CURLcode code, GError **err)
{
    g_autofree char *words = g_strdup(client->words[0] ? client->words : curl_easy_strerror(code));
    const struct vg_client_failure failure = {.remote = &client->remote,
                                              .curl = client->curl,
                                              .code = code,
                                              .words = g_strchomp(words),
                                              .connect_limit_s = client_connect_limit(client)};
    long errnum = 0;

    if (!client_socket(client) && vg_client_advise(&failure, err))
        return -1;
    switch ((int)code) {
    case CURLE_COULDNT_CONNECT:
        curl_easy_getinfo(client->curl, CURLINFO_OS_ERRNO, &errnum);
        return unreachable(client, errnum != 0 ? (int)errnum : ECONNREFUSED, err);
    case CURLE_OPERATION_TIMEDOUT:
        return vg_error(err, VG_E_TIMEOUT, "vgpud at '%s' did not answer within %g s",
                        client_place(client), client->limit_s);
    case CURLE_ABORTED_BY_CALLBACK:
        return vg_error(err, VG_E_UNREACHABLE, "the query to vgpud at '%s' was interrupted",
                        client_place(client));
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
        return vg_error(err, VG_E_UNREACHABLE, "vgpud at '%s' closed the connection: %s",
                        client_place(client), failure.words);
    default:
        return vg_error(err, VG_E_EXTERNAL, "the query to vgpud at '%s' failed: %s",
                        client_place(client), failure.words);
    }
}

/* Sets the error from the problem document. */
static int
http_error(const vg_client *client, long status, const GString *body, GError **err)
{
    g_autoptr(json_object) problem =
        vg_json_parse(body->str, body->len, ANSWER_MAX, DEPTH_MAX, NULL);
    json_object *detail = client_member(problem, "detail");

    if (!detail)
        return vg_error(err, vg_client_code(status, NULL),
                        "the answer has status %ld and no problem document; check that the "
                        "server is a vgpud",
                        status);
    const struct vg_client_failure failure = {.remote = &client->remote,
                                              .curl = client->curl,
                                              .status = status,
                                              .problem = problem,
                                              .words = json_object_get_string(detail)};
    if (!client_socket(client) && vg_client_advise(&failure, err))
        return -1;
    return vg_error(err, vg_client_code(status, problem), "%s", failure.words);
}

/* ---- requests ---- */

static size_t
take_body(char *bytes, size_t one, size_t n, void *data)
{
    struct answer *answer = data;

    (void)one;
    if (answer->body->len + n > ANSWER_MAX) {
        answer->too_long = true;
        return 0;
    }
    g_string_append_len(answer->body, bytes, (gssize)n);
    return n;
}

/* For an empty path, libcurl would use TCP. For a long one, it would report a host name that cannot
 * be resolved. */
static int
check_socket(const vg_client *client, GError **err)
{
    const char *path = client_socket(client);

    if (!path)
        return 0;
    if (!path[0])
        return vg_error(err, VG_E_INVALID, "--socket: the path is empty");
    return strlen(path) <= SOCKET_PATH_MAX ? 0 : unreachable(client, ENAMETOOLONG, err);
}

/* Requires TLS and a verified certificate. */
static void
prepare_tls(vg_client *client)
{
    const char *cacert = vg_remote_value(&client->remote, VG_REMOTE_CACERT);
    CURL *curl = client->curl;

    vg_curl_set_protocols(curl, "https");
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(curl, CURLOPT_CERTINFO, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)client_connect_limit(client));
    if (cacert) {
        curl_easy_setopt(curl, CURLOPT_CAINFO, cacert);
        curl_easy_setopt(curl, CURLOPT_CAPATH, NULL);
    }
    curl_easy_setopt(curl, CURLOPT_SSLCERT, vg_remote_value(&client->remote, VG_REMOTE_CERT));
    curl_easy_setopt(curl, CURLOPT_SSLKEY, vg_remote_value(&client->remote, VG_REMOTE_KEY));
}

static void
prepare(vg_client *client, const char *path, struct answer *answer,
        size_t (*take)(char *bytes, size_t one, size_t n, void *data))
{
    const char *server = vg_remote_value(&client->remote, VG_REMOTE_SERVER);
    g_autofree char *base = server ? g_strdup(server) : g_strdup(BASE_URL);

    if (g_str_has_suffix(base, "/"))
        base[strlen(base) - 1] = '\0';
    g_autofree char *url = g_strconcat(base, path, NULL);
    client->words[0] = '\0';
    curl_easy_reset(client->curl);
    curl_easy_setopt(client->curl, CURLOPT_URL, url);
    curl_easy_setopt(client->curl, CURLOPT_PATH_AS_IS, 1L); /* a VM's name may be ".." */
    curl_easy_setopt(client->curl, CURLOPT_PROXY, "");
    if (server)
        prepare_tls(client);
    else
        curl_easy_setopt(client->curl, CURLOPT_UNIX_SOCKET_PATH, client_socket(client));
    curl_easy_setopt(client->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(client->curl, CURLOPT_ERRORBUFFER, client->words);
    curl_easy_setopt(client->curl, CURLOPT_USERAGENT, "vgpuctl/" PACKAGE_VERSION);
    curl_easy_setopt(client->curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(client->curl, CURLOPT_WRITEDATA, answer);
}

/* The caller frees the list. */
static struct curl_slist *
client_headers(const vg_client *client)
{
    return client->authorization ? curl_slist_append(NULL, client->authorization) : NULL;
}

/* libcurl calls this at least once per second. */
static int
check_interrupt(void *data, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                curl_off_t up)
{
    vg_client *client = data;

    (void)down_total, (void)down, (void)up_total, (void)up;
    return atomic_load(&client->interrupted);
}

static struct curl_slist *
add_key(struct curl_slist *headers, const char *key)
{
    g_autofree char *header = g_strconcat("Idempotency-Key: ", key, NULL);

    return curl_slist_append(headers, header);
}

/* Records after a request whether any part of it was sent. */
static void
note_what_came(const vg_client *client, struct vg_client_once *once)
{
    long sent = 0;

    curl_easy_getinfo(client->curl, CURLINFO_REQUEST_SIZE, &sent);
    once->sent = once->sent || sent > 0;
}

/* method is NULL for GET, or for POST if there is a body. once may be NULL. */
static int
request(vg_client *client, const char *method, const char *path, const char *body,
        struct vg_client_once *once, char **ret, size_t *ret_size, GError **err)
{
    struct answer answer = {0};
    long status = 0;
    int result = 0;

    if (check_socket(client, err) < 0)
        return -1;
    struct curl_slist *headers = client_headers(client);
    answer.body = g_string_new(NULL);
    prepare(client, path, &answer, take_body);
    curl_easy_setopt(client->curl, CURLOPT_TIMEOUT_MS, (long)(client->limit_s * 1000));
    curl_easy_setopt(client->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(client->curl, CURLOPT_XFERINFOFUNCTION, check_interrupt);
    curl_easy_setopt(client->curl, CURLOPT_XFERINFODATA, client);
    if (body) {
        headers = curl_slist_append(headers, "Content-Type: application/json");
        headers = curl_slist_append(headers, "Expect:");
        curl_easy_setopt(client->curl, CURLOPT_POSTFIELDS, body);
    }
    if (once)
        headers = add_key(headers, once->key);
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(client->curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(client->curl, CURLOPT_HEADERFUNCTION, vg_client_take_location);
    curl_easy_setopt(client->curl, CURLOPT_HEADERDATA, once ? &once->location : NULL);
    CURLcode code = curl_easy_perform(client->curl);
    if (once)
        note_what_came(client, once);
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    if (answer.too_long)
        result = vg_error(err, VG_E_EXTERNAL, "the answer has more than %zu bytes", ANSWER_MAX);
    else if (code != CURLE_OK)
        result = curl_error(client, code, err);
    else if (status < 200 || status > 299)
        result = http_error(client, status, answer.body, err);
    curl_slist_free_all(headers);
    if (result < 0) {
        g_string_free(answer.body, TRUE);
        return -1;
    }
    *ret_size = answer.body->len;
    *ret = g_string_free(answer.body, FALSE);
    return 0;
}

int
vg_client_get_text(vg_client *client, const char *path, char **ret, size_t *ret_size, GError **err)
{
    return request(client, NULL, path, NULL, NULL, ret, ret_size, err);
}

static int
request_json(vg_client *client, const char *path, const char *body, struct vg_client_once *once,
             json_object **ret, GError **err)
{
    g_autofree char *text = NULL;
    size_t size;

    if (request(client, NULL, path, body, once, &text, &size, err) < 0)
        return -1;
    json_object *document = vg_json_parse(text, size, ANSWER_MAX, DEPTH_MAX, err);
    if (!document) {
        g_prefix_error(err, "the answer to %s is not from vgpud: ", path);
        return -1;
    }
    *ret = document;
    return 0;
}

static int
check_lists(json_object *document, const char *const *lists, GError **err)
{
    struct vg_json_node root = vg_json_root(document);

    if (vg_json_object(&root, err) < 0)
        return -1;
    for (; *lists; lists++) {
        struct vg_json_node list;
        if (vg_json_member(&root, *lists, VG_JSON_REQUIRED, &list, err) < 0 ||
            vg_json_array(&list, SIZE_MAX, err) < 0)
            return -1;
        for (size_t i = 0; i < vg_json_length(&list); i++) {
            struct vg_json_node item = vg_json_item(&list, i);
            if (vg_json_object(&item, err) < 0)
                return -1;
        }
    }
    return 0;
}

int
vg_client_get(vg_client *client, const char *path, const char *const *lists, json_object **ret,
              GError **err)
{
    g_autoptr(json_object) document = NULL;
    g_autoptr(GError) wrong = NULL;

    if (request_json(client, path, NULL, NULL, &document, err) < 0)
        return -1;
    if (check_lists(document, lists, &wrong) < 0)
        return vg_error(err, VG_E_EXTERNAL, "the answer to %s is not from vgpud: %s", path,
                        wrong->message);
    *ret = g_steal_pointer(&document);
    return 0;
}

int
vg_client_post(vg_client *client, const char *path, json_object *body, json_object **ret,
               GError **err)
{
    g_autofree char *text = vg_json_to_text(body, false);

    return request_json(client, path, text, NULL, ret, err);
}

int
vg_client_post_once(vg_client *client, const char *path, json_object *body,
                    struct vg_client_once *once, json_object **ret, GError **err)
{
    g_autofree char *text = vg_json_to_text(body, false);

    return request_json(client, path, text, once, ret, err);
}

int
vg_client_delete(vg_client *client, const char *path, GError **err)
{
    g_autofree char *text = NULL;
    size_t size;

    return request(client, "DELETE", path, NULL, NULL, &text, &size, err);
}

int
vg_client_list_some(vg_client *client, const char *path, size_t limit, json_object **ret,
                    GError **err)
{
    g_autoptr(json_object) all = json_object_new_array();
    g_autofree char *page = g_strdup(path);

    while (page && json_object_array_length(all) < limit) {
        static const char *const lists[] = {"items", NULL};
        g_autoptr(json_object) document = NULL;
        if (vg_client_get(client, page, lists, &document, err) < 0)
            return -1;
        struct vg_json_node root = vg_json_root(document), items, next;
        if (vg_json_member(&root, "items", VG_JSON_REQUIRED, &items, err) < 0)
            return -1;
        for (size_t i = 0; i < vg_json_length(&items) && json_object_array_length(all) < limit; i++)
            vg_json_append(all, json_object_get(vg_json_item(&items, i).value));
        int more = vg_json_member(&root, "next", VG_JSON_OPTIONAL, &next, err);
        if (more < 0)
            return -1;
        g_autofree char *before = g_steal_pointer(&page);
        if (more == 1) {
            g_autofree char *marker =
                g_uri_escape_string(json_object_get_string(next.value), NULL, FALSE);
            page = g_strdup_printf("%s%cmarker=%s", path, strchr(path, '?') ? '&' : '?', marker);
            if (strcmp(page, before) == 0)
                return vg_error(err, VG_E_EXTERNAL,
                                "the server returned the same page twice, marker '%s'", marker);
        }
    }
    *ret = g_steal_pointer(&all);
    return 0;
}

int
vg_client_list(vg_client *client, const char *path, json_object **ret, GError **err)
{
    return vg_client_list_some(client, path, SIZE_MAX, ret, err);
}

char *
vg_client_path(const char *start, const char *id, const char *rest)
{
    g_autofree char *escaped = g_uri_escape_string(id, NULL, FALSE);

    return g_strconcat(start, escaped, rest, NULL);
}

char *
vg_client_vm_path(const char *id, const char *rest)
{
    return vg_client_path("/v1/vms/", id, rest);
}

/* ---- streams ---- */

static void
end_of_event(struct answer *answer)
{
    if (answer->data->len > 0 && !answer->ended) {
        const struct vg_client_event event = {
            .id = answer->id,
            .type = answer->type ? answer->type : "message",
            .data = answer->data->str,
        };
        answer->ended = !answer->on_event(answer->on_event_data, &event);
    }
    g_string_truncate(answer->data, 0);
    g_clear_pointer(&answer->type, g_free);
}

static void
take_line(struct answer *answer, const char *line)
{
    const char *colon = strchr(line, ':');

    if (!line[0]) {
        end_of_event(answer);
        return;
    }
    if (!colon || colon == line)
        return;
    const char *value = colon + 1 + (colon[1] == ' ');
    size_t length = (size_t)(colon - line);
    if (length == 4 && strncmp(line, "data", 4) == 0) {
        if (answer->data->len > 0)
            g_string_append_c(answer->data, '\n');
        g_string_append(answer->data, value);
    } else if (length == 5 && strncmp(line, "event", 5) == 0) {
        g_free(answer->type);
        answer->type = g_strdup(value);
    } else if (length == 2 && strncmp(line, "id", 2) == 0) {
        g_free(answer->id);
        answer->id = g_strdup(value);
    }
}

static size_t
take_stream(char *bytes, size_t one, size_t n, void *data)
{
    struct answer *answer = data;
    long status = 0;

    answer->heard_ns = vg_clock_monotonic_ns();
    curl_easy_getinfo(answer->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200)
        return take_body(bytes, one, n, data);
    for (size_t i = 0; i < n && !answer->ended; i++) {
        if (bytes[i] != '\n') {
            if (bytes[i] != '\r')
                g_string_append_c(answer->line, bytes[i]);
            continue;
        }
        take_line(answer, answer->line->str);
        g_string_truncate(answer->line, 0);
    }
    if (answer->line->len > LINE_MAX_BYTES || answer->data->len > LINE_MAX_BYTES)
        answer->too_long = true;
    return answer->ended || answer->too_long ? 0 : n;
}

/* vgpud sends a comment every 15 s. */
static int
check_unresponsive(void *data, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                   curl_off_t up)
{
    struct answer *answer = data;

    (void)down_total, (void)down, (void)up_total, (void)up;
    answer->unresponsive =
        vg_clock_monotonic_ns() - answer->heard_ns > VG_CLIENT_LIMIT_S * VG_NS_PER_S;
    return answer->unresponsive;
}

int
vg_client_stream(vg_client *client, const char *path, const char *last_id,
                 bool (*on_event)(void *data, const struct vg_client_event *event), void *data,
                 GError **err)
{
    if (check_socket(client, err) < 0)
        return -1;
    struct answer answer = {
        .body = g_string_new(NULL),
        .line = g_string_new(NULL),
        .data = g_string_new(NULL),
        .on_event = on_event,
        .on_event_data = data,
        .curl = client->curl,
        .heard_ns = vg_clock_monotonic_ns(),
    };
    struct curl_slist *headers =
        curl_slist_append(client_headers(client), "Accept: text/event-stream");
    long status = 0;
    int result = 0;

    if (last_id) {
        g_autofree char *header = g_strconcat("Last-Event-ID: ", last_id, NULL);
        headers = curl_slist_append(headers, header);
    }
    prepare(client, path, &answer, take_stream);
    curl_easy_setopt(client->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(client->curl, CURLOPT_XFERINFOFUNCTION, check_unresponsive);
    curl_easy_setopt(client->curl, CURLOPT_XFERINFODATA, &answer);
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, headers);
    CURLcode code = curl_easy_perform(client->curl);
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    if (answer.too_long)
        result = vg_error(err, VG_E_EXTERNAL, "an event has more than %d bytes", LINE_MAX_BYTES);
    else if (answer.unresponsive)
        result = curl_error(client, CURLE_OPERATION_TIMEDOUT, err);
    else if (!answer.ended && code != CURLE_OK)
        result = curl_error(client, code, err);
    else if (!answer.ended && status != 200)
        result = http_error(client, status, answer.body, err);
    curl_slist_free_all(headers);
    g_string_free(answer.body, TRUE);
    g_string_free(answer.line, TRUE);
    g_string_free(answer.data, TRUE);
    g_free(answer.id);
    g_free(answer.type);
    return result;
}
