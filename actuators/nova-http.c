/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends an HTTP request to an OpenStack service. Certificates are always verified. Redirects are
 * never followed, as they would pass the token on.
 */
#include "config.h"

#include <string.h>

#include "actuators/nova-session.h"
#include "base/clock.h"
#include "base/curl-protocols.h"
#include "base/error.h"

static size_t
http_take_body(char *bytes, size_t one, size_t n, void *data)
{
    struct vg_nova_exchange *exchange = data;

    (void)one;
    exchange->too_long = exchange->text->len + n > VG_NOVA_ANSWER_MAX;
    if (exchange->too_long)
        return 0;
    g_string_append_len(exchange->text, bytes, (gssize)n);
    return n;
}

static void
http_take_header(char **member, const char *name, const char *bytes, size_t n)
{
    const size_t length = strlen(name);

    if (n <= length || g_ascii_strncasecmp(bytes, name, length) != 0)
        return;
    g_free(*member);
    *member = g_strstrip(g_strndup(bytes + length, n - length));
}

static size_t
http_take_headers(char *bytes, size_t one, size_t n, void *data)
{
    struct vg_nova_exchange *exchange = data;

    (void)one;
    http_take_header(&exchange->token, "x-subject-token:", bytes, n);
    return n;
}

/* Aborts the transfer when vgpud ends. libcurl calls this about once per second, and whenever data
 * arrives. */
static int
http_watch(void *data, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
    const vg_nova *nova = data;

    (void)down_total, (void)down, (void)up_total, (void)up;
    return nova->leave && atomic_load(nova->leave);
}

static void
http_prepare(const vg_nova *nova, struct vg_nova_exchange *exchange)
{
    CURL *curl = nova->curl;

    /* A reset retains the connections but clears all options. */
    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, exchange->url);
    vg_curl_set_protocols(curl, "http,https");
    curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (nova->cloud->cacert) {
        curl_easy_setopt(curl, CURLOPT_CAINFO, nova->cloud->cacert);
        curl_easy_setopt(curl, CURLOPT_CAPATH, NULL);
    }
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)MAX(nova->limit_ns / VG_NS_PER_MS, 1));
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "vgpud/" PACKAGE_VERSION);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, exchange->words);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, http_take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, exchange);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, http_take_headers);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, exchange);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, http_watch);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, nova);
    exchange->headers = curl_slist_append(exchange->headers, "Accept: application/json");
    if (exchange->body) {
        exchange->headers = curl_slist_append(exchange->headers, "Content-Type: application/json");
        exchange->headers = curl_slist_append(exchange->headers, "Expect:");
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, exchange->body);
    }
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, exchange->headers);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, exchange->method);
}

static int
http_failed(const vg_nova *nova, struct vg_nova_exchange *exchange, CURLcode code, GError **err)
{
    const char *words = exchange->words[0] ? g_strchomp(exchange->words) : curl_easy_strerror(code);

    switch ((int)code) {
    case CURLE_ABORTED_BY_CALLBACK:
        return vg_error(err, VG_E_CONFLICT, "vgpud is stopping");
    case CURLE_OPERATION_TIMEDOUT:
        return vg_error(err, VG_E_TIMEOUT, "%s did not answer within %.3g s", exchange->what,
                        (double)nova->limit_ns / (double)VG_NS_PER_S);
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CACERT_BADFILE:
        exchange->unsent = true;
        return vg_error(err, VG_E_UNREACHABLE, "%s cannot be reached: %s", exchange->what, words);
    case CURLE_WRITE_ERROR:
        return vg_error(err, VG_E_EXTERNAL, "an answer from %s has more than %d bytes",
                        exchange->what, VG_NOVA_ANSWER_MAX);
    default:
        return vg_error(err, VG_E_EXTERNAL, "asking %s failed: %s", exchange->what, words);
    }
}

int
vg_nova_exchange_do(const vg_nova *nova, struct vg_nova_exchange *exchange, GError **err)
{
    exchange->text = g_string_new(NULL);
    http_prepare(nova, exchange);
    CURLcode code = curl_easy_perform(nova->curl);
    if (code != CURLE_OK)
        return http_failed(nova, exchange, code, err);
    curl_easy_getinfo(nova->curl, CURLINFO_RESPONSE_CODE, &exchange->status);
    if (exchange->text->len == 0)
        return 0;
    g_autoptr(GError) bad = NULL;
    exchange->document = vg_json_parse(exchange->text->str, exchange->text->len, VG_NOVA_ANSWER_MAX,
                                       VG_NOVA_DEPTH, &bad);
    /* Errors from a proxy are HTML. */
    if (bad && exchange->status >= 200 && exchange->status <= 299)
        return vg_error(err, VG_E_EXTERNAL, "the answer from %s is not JSON: %s", exchange->what,
                        bad->message);
    return 0;
}

static enum vg_error_code
http_code_of(long status)
{
    switch (status) {
    case 401:
    case 403:
        return VG_E_DENIED;
    case 404:
        return VG_E_NOT_FOUND;
    case 409:
        return VG_E_CONFLICT;
    case 413:
    case 429:
        return VG_E_BUSY;
    default:
        return status >= 400 && status <= 499 ? VG_E_REFUSED : VG_E_EXTERNAL;
    }
}

/* Finds the message in {"badRequest": {"code": 400, "message": "..."}} or in {"error": {"message":
 * ...}}. */
static const char *
http_message(json_object *document)
{
    if (!json_object_is_type(document, json_type_object))
        return NULL;
    json_object_object_foreach(document, name, value)
    {
        const char *message = vg_nova_text(value, "message");
        (void)name;
        if (message && *message)
            return message;
    }
    return NULL;
}

int
vg_nova_exchange_refused(const struct vg_nova_exchange *exchange, GError **err)
{
    const char *message = http_message(exchange->document);
    g_autofree char *words = g_strstrip(g_strdup(message ? message : ""));

    return vg_error(err, http_code_of(exchange->status), "%s answered %ld%s%s", exchange->what,
                    exchange->status, *words ? ": " : "", g_strdelimit(words, "\r\n", ' '));
}

void
vg_nova_exchange_clear(struct vg_nova_exchange *exchange)
{
    curl_slist_free_all(exchange->headers);
    json_object_put(exchange->document);
    if (exchange->token)
        explicit_bzero(exchange->token, strlen(exchange->token));
    g_free(exchange->token);
    if (exchange->text)
        g_string_free(exchange->text, TRUE);
    *exchange = (struct vg_nova_exchange){0};
}

/* ---- members of answers ---- */

json_object *
vg_nova_member(json_object *object, const char *name)
{
    json_object *value = NULL;

    if (json_object_is_type(object, json_type_object))
        json_object_object_get_ex(object, name, &value);
    return value;
}

const char *
vg_nova_text(json_object *object, const char *name)
{
    json_object *value = vg_nova_member(object, name);

    return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

int64_t
vg_nova_number(json_object *object, const char *name)
{
    json_object *value = vg_nova_member(object, name);

    return json_object_is_type(value, json_type_int)
               ? CLAMP(json_object_get_int64(value), -1, VG_JSON_INT_MAX)
               : -1;
}
