/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <curl/curl.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "cluster/body.h"
#include "cluster/etcd-private.h"
#include "cluster/tls.h"

/* The time after which another member is tried. A member that has just lost its leader reports this
 * only after seven seconds. */
#define TRY_NS (2 * VG_NS_PER_S)

/* The first and the longest pause after all members have failed. */
#define PAUSE_MIN_NS (100 * VG_NS_PER_MS)
#define PAUSE_MAX_NS (1600 * VG_NS_PER_MS)

/* The maximum number of idle connections. */
#define KEPT_MAX 4

#define PASSWORD_MAX 1024

struct vg_etcd {
    char **endpoints;
    unsigned n_endpoints;
    char *cert, *key, *cacert, *user, *password_file;
    pthread_mutex_t lock;
    pthread_cond_t stopped;
    atomic_uint interrupts; /* the number of times that all calls were interrupted */
    /* The lock protects these members. */
    unsigned current; /* the endpoint to try first */
    char *token;      /* NULL until there is one */
    bool no_login;    /* etcd has no users */
    GQueue handles;   /* idle CURL * handles, each with its connections */
};

/* A running request and its result. */
struct etcd_try {
    vg_etcd *etcd;
    CURL *curl;
    struct curl_slist *headers;
    char words[CURL_ERROR_SIZE];
    struct vg_body body;
    int64_t limit_ns;
    unsigned interrupts; /* the value at the start of the call */
};

/* The limits of a call, which may consist of several attempts. */
struct etcd_limits {
    int64_t until_ns;    /* CLOCK_MONOTONIC */
    unsigned interrupts; /* the value at the start */
};

int
vg_etcd_check_endpoints(const char *endpoints, GError **err)
{
    g_auto(GStrv) list = g_strsplit_set(endpoints, " ,\t", -1);
    unsigned n = 0;

    for (size_t i = 0; list[i]; i++) {
        if (!*list[i])
            continue;
        const char *rest = g_str_has_prefix(list[i], "https://")  ? list[i] + strlen("https://")
                           : g_str_has_prefix(list[i], "http://") ? list[i] + strlen("http://")
                                                                  : NULL;
        /* It may contain a password, which no message may show. */
        if (strchr(list[i], '@'))
            return vg_error(err, VG_E_INVALID,
                            "an endpoint contains a user or password; use user and password_file "
                            "instead");
        if (!rest || !*rest || strpbrk(rest, "/?#"))
            return vg_error(err, VG_E_INVALID, "'%s' is not https://HOST:PORT", list[i]);
        n++;
    }
    if (n == 0 || n > VG_ETCD_ENDPOINTS_MAX)
        return vg_error(err, VG_E_INVALID, "there must be 1 to %d endpoints",
                        VG_ETCD_ENDPOINTS_MAX);
    return 0;
}

vg_etcd *
vg_etcd_new(const struct vg_etcd_options *options)
{
    vg_etcd *etcd = g_new0(vg_etcd, 1);
    g_auto(GStrv) list = g_strsplit_set(options->endpoints, " ,\t", -1);

    curl_global_init(CURL_GLOBAL_DEFAULT);
    etcd->endpoints = g_new0(char *, VG_ETCD_ENDPOINTS_MAX + 1);
    for (size_t i = 0; list[i] && etcd->n_endpoints < VG_ETCD_ENDPOINTS_MAX; i++) {
        if (*list[i])
            etcd->endpoints[etcd->n_endpoints++] = g_strdup(list[i]);
    }
    if (etcd->n_endpoints == 0)
        vg_bug("a client of etcd without an endpoint");
    /* Many hosts start at the same time. A random member spreads their requests. */
    etcd->current = (unsigned)g_random_int_range(0, (int)etcd->n_endpoints);
    etcd->cert = g_strdup(options->cert);
    etcd->key = g_strdup(options->key);
    etcd->cacert = g_strdup(options->cacert);
    etcd->user = g_strdup(options->user);
    etcd->password_file = g_strdup(options->password_file);
    pthread_mutex_init(&etcd->lock, NULL);
    vg_cond_init(&etcd->stopped);
    g_queue_init(&etcd->handles);
    return etcd;
}

void
vg_etcd_free(vg_etcd *etcd)
{
    CURL *curl;

    if (!etcd)
        return;
    while ((curl = g_queue_pop_head(&etcd->handles)))
        curl_easy_cleanup(curl);
    g_strfreev(etcd->endpoints);
    g_free(etcd->cert);
    g_free(etcd->key);
    g_free(etcd->cacert);
    g_free(etcd->user);
    g_free(etcd->password_file);
    g_free(etcd->token);
    pthread_cond_destroy(&etcd->stopped);
    pthread_mutex_destroy(&etcd->lock);
    g_free(etcd);
}

void
vg_etcd_interrupt(vg_etcd *etcd)
{
    atomic_fetch_add(&etcd->interrupts, 1);
    VG_LOCK_SCOPE(&etcd->lock);
    pthread_cond_broadcast(&etcd->stopped);
}

char *
vg_etcd_endpoint(vg_etcd *etcd)
{
    VG_LOCK_SCOPE(&etcd->lock);
    return g_strdup(etcd->endpoints[etcd->current]);
}

/* ---- one request ---- */

static int
etcd_is_interrupted(void *data, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const struct etcd_try *attempt = data;

    (void)a, (void)b, (void)c, (void)d;
    return atomic_load(&attempt->etcd->interrupts) != attempt->interrupts;
}

static void
etcd_prepare(struct etcd_try *attempt, const char *endpoint, const char *path, const char *body,
             const char *token)
{
    CURL *curl = attempt->curl;
    g_autofree char *url = g_strconcat(endpoint, path, NULL);

    attempt->headers = curl_slist_append(NULL, "Content-Type: application/json");
    attempt->headers = curl_slist_append(attempt->headers, "Expect:");
    if (token) {
        g_autofree char *header = g_strconcat("Authorization: ", token, NULL);
        attempt->headers = curl_slist_append(attempt->headers, header);
    }
    curl_easy_reset(curl); /* this retains the connections */
    curl_easy_setopt(curl, CURLOPT_URL, url);
    vg_tls_prepare(curl, "http,https", attempt->etcd->cacert, attempt->etcd->cert,
                   attempt->etcd->key);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
    /* Name resolution may hang for longer than the limit, and must not be waited for. */
    curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);
#endif
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)MAX(attempt->limit_ns / VG_NS_PER_MS, 1));
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "vgpud/" PACKAGE_VERSION);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, attempt->headers);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, attempt->words);
    attempt->body.max = VG_ETCD_ANSWER_MAX;
    vg_body_receive(&attempt->body, curl);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, etcd_is_interrupted);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, attempt);
    curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, body);
}

static int
etcd_curl_error(const struct etcd_try *attempt, CURLcode code, GError **err)
{
    const char *words = attempt->words[0] ? attempt->words : curl_easy_strerror(code);
    long errnum = 0;

    curl_easy_getinfo(attempt->curl, CURLINFO_OS_ERRNO, &errnum);
    switch ((int)code) {
    case CURLE_ABORTED_BY_CALLBACK:
        return vg_error(err, VG_E_UNREACHABLE, "vgpud is stopping");
    case CURLE_OPERATION_TIMEDOUT:
        return vg_error(err, VG_E_TIMEOUT, "it did not answer within %.3g s",
                        (double)attempt->limit_ns / (double)VG_NS_PER_S);
    case CURLE_COULDNT_CONNECT:
        return vg_error(err, VG_E_UNREACHABLE, "the connection failed: %s",
                        errnum ? g_strerror((int)errnum) : words);
    case CURLE_PEER_FAILED_VERIFICATION:
        return vg_error(err, VG_E_UNREACHABLE, "its certificate cannot be trusted: %s", words);
    case CURLE_SSL_CERTPROBLEM:
        return vg_error(
            err, VG_E_UNREACHABLE,
            "the client certificate in cert does not match the key, or one of them is damaged: %s",
            words);
    default:
        return vg_error(err, VG_E_UNREACHABLE, "the query failed: %s", words);
    }
}

static CURL *
etcd_take_handle(vg_etcd *etcd)
{
    VG_LOCK_SCOPE(&etcd->lock);
    CURL *curl = g_queue_pop_head(&etcd->handles);

    if (!curl)
        curl = curl_easy_init();
    if (!curl)
        vg_bug("libcurl cannot start");
    return curl;
}

static void
etcd_give_handle(vg_etcd *etcd, CURL *curl)
{
    VG_LOCK_SCOPE(&etcd->lock);
    if (g_queue_get_length(&etcd->handles) < KEPT_MAX)
        g_queue_push_head(&etcd->handles, curl);
    else
        curl_easy_cleanup(curl);
}

/* Sends one request to one member. If the answer is good, returns NEVER, leaves *err unchanged, and
 * sets ret_bad to false. */
static enum vg_etcd_refusal
etcd_send(vg_etcd *etcd, const char *endpoint, const char *token,
          const struct etcd_question *question, const struct etcd_limits *limits, bool *ret_bad,
          GError **err)
{
    const int64_t left_ns = limits->until_ns - vg_clock_monotonic_ns();
    struct etcd_try attempt = {.etcd = etcd,
                               .curl = etcd_take_handle(etcd),
                               .limit_ns = MIN(left_ns, TRY_NS),
                               .interrupts = limits->interrupts};
    enum vg_etcd_refusal refusal = VG_ETCD_AGAIN;
    long status = 0;

    etcd_prepare(&attempt, endpoint, question->path, question->body, token);
    const CURLcode code = curl_easy_perform(attempt.curl);
    *ret_bad = true;
    curl_easy_getinfo(attempt.curl, CURLINFO_RESPONSE_CODE, &status);
    if (attempt.body.too_long)
        vg_error(err, VG_E_EXTERNAL, "its answer has more than %d bytes", VG_ETCD_ANSWER_MAX);
    else if (code != CURLE_OK)
        etcd_curl_error(&attempt, code, err);
    else if (status != 200)
        refusal = vg_etcd_read_refusal(status, attempt.body.text->str, attempt.body.text->len, err);
    else if (question->read(attempt.body.text, question->data, err) == 0)
        *ret_bad = false;
    else if (g_error_matches(*err, VG_ERROR, VG_E_NOT_FOUND))
        refusal = VG_ETCD_NEVER;
    curl_slist_free_all(attempt.headers);
    g_string_free(attempt.body.text, TRUE);
    etcd_give_handle(etcd, attempt.curl);
    return refusal;
}

/* ---- users ---- */

static int
etcd_take_token(const GString *text, void *data, GError **err)
{
    char **token = data;

    *token = vg_etcd_read_token(text->str, text->len, err);
    return *token ? 0 : -1;
}

/* Reads the password from the first line of a file. */
static char *
etcd_password(const vg_etcd *etcd, GError **err)
{
    g_autofree char *text = NULL;
    g_autoptr(GError) bad = NULL;

    if (!g_file_get_contents(etcd->password_file, &text, NULL, &bad)) {
        vg_error(err, VG_E_IO, "cannot read password_file: %s", bad->message);
        return NULL;
    }
    text[strcspn(text, "\r\n")] = '\0';
    if (!*text || strlen(text) > PASSWORD_MAX || !g_utf8_validate(text, -1, NULL)) {
        vg_error(err, VG_E_INVALID, "password_file '%s' contains no password", etcd->password_file);
        return NULL;
    }
    return g_steal_pointer(&text);
}

/* Gets a token if one is needed and missing. The caller frees *ret_token. */
static enum vg_etcd_refusal
etcd_log_in(vg_etcd *etcd, const char *endpoint, const struct etcd_limits *limits, char **ret_token,
            bool *ret_bad, GError **err)
{
    char *token = NULL;

    *ret_bad = false;
    pthread_mutex_lock(&etcd->lock);
    *ret_token = g_strdup(etcd->token);
    const bool done = *ret_token || etcd->no_login || !etcd->user || !*etcd->user;
    pthread_mutex_unlock(&etcd->lock);
    if (done)
        return VG_ETCD_NEVER;
    g_autofree char *password = etcd_password(etcd, err);
    *ret_bad = password == NULL;
    if (!password)
        return VG_ETCD_NEVER;
    g_autofree char *body = vg_etcd_write_login(etcd->user, password);
    const struct etcd_question question = {"/v3/auth/authenticate", body, etcd_take_token, &token};
    const enum vg_etcd_refusal refusal =
        etcd_send(etcd, endpoint, NULL, &question, limits, ret_bad, err);
    VG_LOCK_SCOPE(&etcd->lock);
    if (*ret_bad && refusal == VG_ETCD_NO_LOGIN) {
        g_clear_error(err);
        *ret_bad = false;
        etcd->no_login = true;
    } else if (!*ret_bad) {
        g_free(etcd->token);
        etcd->token = token;
        *ret_token = g_strdup(token);
    }
    return refusal == VG_ETCD_LOGIN ? VG_ETCD_NEVER : refusal;
}

static void
etcd_forget_token(vg_etcd *etcd, const char *token)
{
    VG_LOCK_SCOPE(&etcd->lock);
    if (g_strcmp0(etcd->token, token) == 0)
        g_clear_pointer(&etcd->token, g_free);
    etcd->no_login = false;
}

/* ---- a call ---- */

static bool
etcd_continues(vg_etcd *etcd, const struct etcd_limits *limits)
{
    return atomic_load(&etcd->interrupts) == limits->interrupts &&
           vg_clock_monotonic_ns() < limits->until_ns;
}

/* Waits. Returns false if the time is up or the call was interrupted. */
static bool
etcd_pause(vg_etcd *etcd, unsigned round, const struct etcd_limits *limits)
{
    const int64_t pause_ns = (int64_t)((double)MIN(PAUSE_MIN_NS << MIN(round, 10), PAUSE_MAX_NS) *
                                       g_random_double_range(0.8, 1.2));
    const int64_t end_ns = vg_clock_monotonic_ns() + pause_ns;

    if (end_ns >= limits->until_ns)
        return false;
    VG_LOCK_SCOPE(&etcd->lock);
    while (etcd_continues(etcd, limits) &&
           vg_cond_wait_until(&etcd->stopped, &etcd->lock, end_ns)) {
    }
    return etcd_continues(etcd, limits);
}

/* Selects the next member as the first one to try, unless another call has done so. */
static void
etcd_leave(vg_etcd *etcd, unsigned endpoint)
{
    VG_LOCK_SCOPE(&etcd->lock);
    if (etcd->current == endpoint)
        etcd->current = (endpoint + 1) % etcd->n_endpoints;
}

static unsigned
etcd_first(vg_etcd *etcd)
{
    VG_LOCK_SCOPE(&etcd->lock);
    return etcd->current;
}

static enum vg_etcd_refusal
etcd_query(vg_etcd *etcd, const char *endpoint, const struct etcd_question *question,
           const struct etcd_limits *limits, bool *ret_bad, GError **err)
{
    g_autofree char *token = NULL;
    enum vg_etcd_refusal refusal = etcd_log_in(etcd, endpoint, limits, &token, ret_bad, err);

    if (*ret_bad)
        return refusal;
    refusal = etcd_send(etcd, endpoint, token, question, limits, ret_bad, err);
    if (*ret_bad && refusal == VG_ETCD_LOGIN)
        etcd_forget_token(etcd, token);
    return refusal;
}

int
etcd_call(vg_etcd *etcd, const struct etcd_question *question, int64_t limit_ns, GError **err)
{
    const struct etcd_limits limits = {vg_clock_monotonic_ns() + limit_ns,
                                       atomic_load(&etcd->interrupts)};
    unsigned tries = 0, logins = 0;

    for (;;) {
        const unsigned endpoint = etcd_first(etcd);
        GError *error = NULL;
        bool bad = false;
        const enum vg_etcd_refusal refusal =
            etcd_query(etcd, etcd->endpoints[endpoint], question, &limits, &bad, &error);
        if (!bad)
            return 0;
        g_prefix_error(&error, "etcd at %s: ", etcd->endpoints[endpoint]);
        /* Another call may have dropped the token that this call used. */
        if (refusal == VG_ETCD_LOGIN && logins++ < 2 && etcd->user && *etcd->user) {
            g_error_free(error);
            continue;
        }
        if (refusal == VG_ETCD_AGAIN) {
            etcd_leave(etcd, endpoint);
            tries++;
            if (etcd_continues(etcd, &limits) &&
                (tries % etcd->n_endpoints != 0 ||
                 etcd_pause(etcd, tries / etcd->n_endpoints - 1, &limits))) {
                g_error_free(error);
                continue;
            }
        }
        g_propagate_error(err, error);
        return -1;
    }
}
