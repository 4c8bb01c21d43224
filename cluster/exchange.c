/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cluster/exchange.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cluster/certificate-names.h"
#include "cluster/tls.h"
#include "model/identity.h"
#include "model/migration.h"

#define PROBLEM_TEXT_MAX 65536
#define PROBLEM_DEPTH    8

/* ---- the request ---- */

static size_t
exchange_take_header(char *bytes, size_t one, size_t n, void *data)
{
    struct vg_exchange *exchange = data;
    static const char name[] = "etag:";

    (void)one;
    if (n > strlen(name) && g_ascii_strncasecmp(bytes, name, strlen(name)) == 0) {
        g_free(exchange->etag);
        exchange->etag = g_strstrip(g_strndup(bytes + strlen(name), n - strlen(name)));
    }
    return n;
}

static int
exchange_add_token(struct vg_exchange *exchange, const char *path, GError **err)
{
    g_autofree char *text = NULL;
    g_autoptr(GError) bad = NULL;

    if (!g_file_get_contents(path, &text, NULL, &bad))
        return vg_error(err, VG_E_IO, "cannot read the peer's token_file: %s", bad->message);
    if (!vg_token_text_is_good(g_strstrip(text)))
        return vg_error(
            err, VG_E_INVALID,
            "the peer's token_file '%s' contains no token; it must be one line, as `vgpuctl "
            "token create` prints it",
            path);
    g_autofree char *header = g_strconcat("Authorization: Bearer ", text, NULL);
    exchange->headers = curl_slist_append(exchange->headers, header);
    return 0;
}

struct vg_exchange *
vg_exchange_new(const struct vg_peer_options *peer, const char *path, const char *etag,
                int64_t limit_ns, GError **err)
{
    struct vg_exchange *exchange = g_new0(struct vg_exchange, 1);
    CURL *curl = curl_easy_init();
    size_t length = strlen(peer->url);

    if (!curl)
        vg_bug("libcurl cannot start");
    exchange->curl = curl;
    exchange->body.max = VG_PEERS_ANSWER_MAX;
    vg_body_receive(&exchange->body, curl);
    exchange->limit_ns = limit_ns;
    if (peer->token_file && *peer->token_file &&
        exchange_add_token(exchange, peer->token_file, err) < 0) {
        vg_exchange_free(exchange);
        return NULL;
    }
    if (etag) {
        g_autofree char *header = g_strconcat("If-None-Match: ", etag, NULL);
        exchange->headers = curl_slist_append(exchange->headers, header);
    }
    while (length > 0 && peer->url[length - 1] == '/')
        length--;
    g_autofree char *url = g_strdup_printf("%.*s%s", (int)length, peer->url, path);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    vg_tls_prepare(curl, "https", peer->cacert, peer->cert, peer->key);
    curl_easy_setopt(curl, CURLOPT_CERTINFO, 1L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)MAX(limit_ns / VG_NS_PER_MS, 1));
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "vgpud/" PACKAGE_VERSION);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, exchange->headers);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, exchange->words);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, exchange_take_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, exchange);
    curl_easy_setopt(curl, CURLOPT_PRIVATE, exchange);
    return exchange;
}

void
vg_exchange_set_method(struct vg_exchange *exchange, const char *method, const char *body)
{
    if (body) {
        exchange->headers = curl_slist_append(exchange->headers, "Content-Type: application/json");
        exchange->headers = curl_slist_append(exchange->headers, "Expect:");
        curl_easy_setopt(exchange->curl, CURLOPT_HTTPHEADER, exchange->headers);
        curl_easy_setopt(exchange->curl, CURLOPT_COPYPOSTFIELDS, body);
    }
    curl_easy_setopt(exchange->curl, CURLOPT_CUSTOMREQUEST, method);
}

void
vg_exchange_set_fresh(struct vg_exchange *exchange)
{
    curl_easy_setopt(exchange->curl, CURLOPT_FRESH_CONNECT, 1L);
}

/* libcurl lists the fields of a certificate as "NAME:VALUE". "Cert" is the entire certificate in
 * PEM. */
char **
vg_exchange_names(const struct vg_exchange *exchange)
{
    static const char whole[] = "Cert:";
    struct curl_certinfo *chain = NULL;
    long connects = 0;

    curl_easy_getinfo(exchange->curl, CURLINFO_NUM_CONNECTS, &connects);
    curl_easy_getinfo(exchange->curl, CURLINFO_CERTINFO, &chain);
    if (connects == 0)
        return NULL;
    for (const struct curl_slist *at = chain && chain->num_of_certs > 0 ? chain->certinfo[0] : NULL;
         at; at = at->next) {
        if (g_str_has_prefix(at->data, whole))
            return vg_certificate_names(at->data + strlen(whole));
    }
    return g_new0(char *, 1);
}

static void
exchange_add_header(struct vg_exchange *exchange, const char *name, const char *value)
{
    g_autofree char *header = g_strconcat(name, ": ", value, NULL);

    exchange->headers = curl_slist_append(exchange->headers, header);
    curl_easy_setopt(exchange->curl, CURLOPT_HTTPHEADER, exchange->headers);
}

void
vg_exchange_set_key(struct vg_exchange *exchange, const char *key)
{
    exchange_add_header(exchange, "Idempotency-Key", key);
}

void
vg_exchange_set_person(struct vg_exchange *exchange, const char *person)
{
    g_autofree char *value = g_strdup(person);

    for (char *at = value; *at; at++)
        *at = g_ascii_iscntrl(*at) ? '?' : *at;
    exchange_add_header(exchange, "X-Vgpud-Person", value);
}

void
vg_exchange_set_forecast(struct vg_exchange *exchange, const char *forecast)
{
    exchange_add_header(exchange, VG_FORECAST_HEADER, forecast);
}

void
vg_exchange_free(struct vg_exchange *exchange)
{
    curl_easy_cleanup(exchange->curl);
    curl_slist_free_all(exchange->headers);
    g_string_free(exchange->body.text, TRUE);
    g_free(exchange->etag);
    g_free(exchange);
}

/* ---- the outcome ---- */

static int
exchange_connect_error(const struct vg_exchange *exchange, GError **err)
{
    long errnum = 0;

    curl_easy_getinfo(exchange->curl, CURLINFO_OS_ERRNO, &errnum);
    if (errnum == ECONNREFUSED)
        return vg_error(err, VG_E_UNREACHABLE,
                        "no process listens there: the connection was "
                        "refused");
    return vg_error(err, VG_E_UNREACHABLE, "the connection failed: %s",
                    errnum ? g_strerror((int)errnum) : exchange->words);
}

static int
exchange_curl_error(struct vg_exchange *exchange, CURLcode code, GError **err)
{
    const char *words = exchange->words[0] ? g_strchomp(exchange->words) : curl_easy_strerror(code);

    switch ((int)code) {
    case CURLE_COULDNT_CONNECT:
        return exchange_connect_error(exchange, err);
    case CURLE_COULDNT_RESOLVE_HOST:
        return vg_error(err, VG_E_UNREACHABLE, "the name in its url cannot be resolved");
    case CURLE_OPERATION_TIMEDOUT:
        return vg_error(err, VG_E_TIMEOUT, "it did not answer within %.3g s",
                        (double)exchange->limit_ns / (double)VG_NS_PER_S);
    case CURLE_PEER_FAILED_VERIFICATION:
        return vg_error(err, VG_E_UNREACHABLE, "its certificate cannot be trusted: %s", words);
    case CURLE_SSL_CONNECT_ERROR:
        return vg_error(err, VG_E_UNREACHABLE, "cannot start TLS: %s", words);
    case CURLE_SSL_CACERT_BADFILE:
        return vg_error(err, VG_E_UNREACHABLE, "cannot read the file in cacert: %s", words);
    case CURLE_SSL_CERTPROBLEM:
        return vg_error(
            err, VG_E_UNREACHABLE,
            "the client certificate in cert does not match the key, or one of them is damaged: %s",
            words);
    default:
        return vg_error(err, VG_E_UNREACHABLE, "the query failed: %s", words);
    }
}

int
vg_exchange_check(struct vg_exchange *exchange, CURLcode code, GError **err)
{
    if (exchange->body.too_long)
        return vg_error(err, VG_E_EXTERNAL, "its answer has more than %d bytes",
                        VG_PEERS_ANSWER_MAX);
    if (code != CURLE_OK)
        return exchange_curl_error(exchange, code, err);
    curl_easy_getinfo(exchange->curl, CURLINFO_RESPONSE_CODE, &exchange->status);
    if ((exchange->status >= 200 && exchange->status <= 299) || exchange->status == 304)
        return 0;
    if (exchange->status == 401)
        return vg_error(err, VG_E_DENIED,
                        "it does not know this vgpud (401); check that it issued the token in "
                        "token_file and that the token is valid, or that the subject of cert is in "
                        "its [role NAME]");
    if (exchange->status == 403)
        return vg_error(err, VG_E_DENIED, "it does not permit this vgpud to read (403)");
    return vg_error(err, VG_E_EXTERNAL, "it answered with status %ld; is the server a vgpud?",
                    exchange->status);
}

static enum vg_error_code
exchange_code_of(long status)
{
    switch (status) {
    case 404:
        return VG_E_NOT_FOUND;
    case 409:
        return VG_E_CONFLICT;
    case 403:
    case 422:
        return VG_E_REFUSED;
    case 429:
    case 503:
        return VG_E_BUSY;
    case 504:
        return VG_E_TIMEOUT;
    default:
        return VG_E_EXTERNAL;
    }
}

int
vg_exchange_check_call(struct vg_exchange *exchange, CURLcode code, GError **err)
{
    long status = 0;
    json_object *detail = NULL;

    if (code == CURLE_OK)
        curl_easy_getinfo(exchange->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status < 400 || status == 401)
        return vg_exchange_check(exchange, code, err);
    g_autoptr(json_object) problem = vg_json_parse(
        exchange->body.text->str, exchange->body.text->len, PROBLEM_TEXT_MAX, PROBLEM_DEPTH, NULL);
    if (json_object_is_type(problem, json_type_object))
        json_object_object_get_ex(problem, "detail", &detail);
    if (!detail)
        return vg_exchange_check(exchange, code, err);
    return vg_error(err, exchange_code_of(status), "%s", json_object_get_string(detail));
}
