/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "client/client-advice.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "model/identity.h"

/* Results of verifying a certificate with OpenSSL (x509_vfy.h), which Debian's libcurl uses. With
 * another library, libcurl's message is shown instead. */
enum {
    X509_OK = 0,
    X509_UNSPECIFIED = 1, /* libcurl's initial value, which a wrong host name does not change */
    X509_NO_ISSUER = 2,
    X509_SIGNATURE = 7,
    X509_NOT_YET = 9,
    X509_EXPIRED = 10,
    X509_SELF_SIGNED = 18,
    X509_SELF_SIGNED_CA = 19,
    X509_NO_ISSUER_HERE = 20,
    X509_ONLY_ONE = 21,
    X509_PURPOSE = 26,
    X509_HOSTNAME = 62,
};

/* The phase of a time-out. */
enum { WHILE_CONNECTING = 1, WHILE_ASKING };

#define NAMES_MAX 256

/* A row. Unset members match everything, and the first matching row is used. */
struct advice_row {
    CURLcode code;
    long number; /* the result of verifying, errno of connecting, or the phase of a time-out */
    long status;
    enum vg_refusal refusal;
    int given; /* an enum vg_remote_key that must have a value */
    enum vg_error_code error;
    const char *text; /* {NAME} is replaced: see advice_value() */
};

#define CERTIFICATE(number, given, text)                                                           \
 {                                                                                                 \
  CURLE_PEER_FAILED_VERIFICATION, number, 0, VG_REFUSAL_NONE, given, VG_E_UNREACHABLE, text        \
 }
#define WRONG_CA(number)                                                                           \
 CERTIFICATE(number, VG_REMOTE_CACERT,                                                             \
             "its certificate is not signed by a CA in '{cacert}'; check that this file contains " \
             "the CA that signed it, and that '{host}' is the right machine"),                     \
     CERTIFICATE(number, 0,                                                                        \
                 "its certificate is not signed by a CA that this machine trusts; specify the "    \
                 "file with that CA's certificate with --cacert")
#define FAILS(code, number, text)                                                                  \
 {                                                                                                 \
  code, number, 0, VG_REFUSAL_NONE, 0, VG_E_UNREACHABLE, text                                      \
 }
#define NO_ANSWER                                                                                  \
 "no answer within {limit} s; check the address, and that no firewall blocks port {port}"
#define NOBODY(refusal, given, text)                                                               \
 {                                                                                                 \
  CURLE_OK, 0, 401, refusal, given, VG_E_REFUSED, "{words}; " text                                 \
 }
#define TOO_LOW(given, text)                                                                       \
 {                                                                                                 \
  CURLE_OK, 0, 403, VG_REFUSAL_NONE, given, VG_E_REFUSED, "{words}; " text                         \
 }

static const struct advice_row advice_rows[] = {
    FAILS(CURLE_COULDNT_RESOLVE_HOST, 0,
          "the name '{host}' cannot be resolved; check its spelling and `getent hosts {host}`"),
    FAILS(CURLE_COULDNT_CONNECT, ECONNREFUSED,
          "no process listens on port {port} of '{host}'; check that vgpud is running there, "
          "and that listen= in [api] of its configuration contains this address and port"),
    FAILS(CURLE_COULDNT_CONNECT, EHOSTUNREACH,
          "there is no route to '{host}'; check the address, the route and the firewall"),
    FAILS(CURLE_COULDNT_CONNECT, ENETUNREACH,
          "there is no route to '{host}'; check the address, the route and the firewall"),
    FAILS(CURLE_COULDNT_CONNECT, ETIMEDOUT, NO_ANSWER),
    FAILS(CURLE_COULDNT_CONNECT, 0, "{words}; check the address and the firewall"),
    FAILS(CURLE_OPERATION_TIMEDOUT, WHILE_CONNECTING, NO_ANSWER),

    CERTIFICATE(X509_EXPIRED, 0,
                "its certificate or its CA's certificate has expired; renew it there, or correct "
                "this machine's clock, which says {now}"),
    CERTIFICATE(X509_NOT_YET, 0,
                "its certificate or its CA's certificate is not valid yet; check this machine's "
                "clock, which says {now}, and the clock of the machine that issued the "
                "certificate"),
    CERTIFICATE(X509_SELF_SIGNED, VG_REMOTE_CACERT,
                "its certificate is self-signed and is not in '{cacert}'; check whether vgpud has "
                "a new certificate, and whether '{host}' is the right machine"),
    CERTIFICATE(X509_SELF_SIGNED, 0,
                "its certificate is self-signed; if that is intended, pass --cacert with a copy of "
                "it that you transferred securely"),
    WRONG_CA(X509_SELF_SIGNED_CA),
    WRONG_CA(X509_NO_ISSUER),
    WRONG_CA(X509_NO_ISSUER_HERE),
    WRONG_CA(X509_ONLY_ONE),
    WRONG_CA(X509_SIGNATURE),
    CERTIFICATE(X509_PURPOSE, 0,
                "its certificate is not a server certificate; create one with tls_www_server in "
                "certtool's template"),
    CERTIFICATE(X509_HOSTNAME, 0,
                "its certificate is for {names}, not for '{host}'; use one of these names, or "
                "create a certificate for this name"),
    CERTIFICATE(0, 0, "its certificate cannot be trusted ({words})"),

    FAILS(CURLE_SSL_CONNECT_ERROR, 0,
          "TLS cannot be started ({words}); check that {port} is the port of listen= in [api] of "
          "vgpud's configuration, and that the server supports TLS 1.2 or later"),
    FAILS(CURLE_SSL_CACERT_BADFILE, 0,
          "the certificates in '{cacert}' cannot be read ({words}); the file must be in PEM "
          "format"),
    {CURLE_SSL_CERTPROBLEM, 0, 0, VG_REFUSAL_NONE, VG_REMOTE_KEY, VG_E_UNREACHABLE,
     "the client certificate in '{cert}' and the key in '{key}' do not match, or are damaged "
     "({words})"},
    FAILS(CURLE_SSL_CERTPROBLEM, 0,
          "the client certificate and the key in '{cert}' do not match, or are damaged ({words})"),

    NOBODY(VG_REFUSAL_NO_CERTIFICATE, VG_REMOTE_CERT,
           "vgpud does not accept the certificate in '{cert}'; check that a CA in vgpud's "
           "tls_client_ca signed it, and that it is still valid"),
    NOBODY(VG_REFUSAL_NO_CERTIFICATE, VG_REMOTE_TOKEN_FILE,
           "specify a client certificate with --cert and --key"),
    NOBODY(VG_REFUSAL_NO_ROLE, VG_REMOTE_CERT,
           "`certtool -i --infile {cert}` shows the subject, and [role NAME] in vgpud's "
           "configuration lists the subjects that have a role"),
    NOBODY(VG_REFUSAL_NONE, VG_REMOTE_TOKEN_FILE,
           "check that '{token-file}' contains a token of this vgpud that has not been revoked. "
           "On that host, `vgpuctl token list` shows valid tokens, and `vgpuctl token create` "
           "creates a new token"),
    NOBODY(VG_REFUSAL_NONE, 0,
           "specify a token with --token-file, or a client certificate with --cert and --key"),
    TOO_LOW(VG_REMOTE_TOKEN_FILE,
            "on that host, `vgpuctl token create NAME --role ROLE` creates a token with the "
            "required role"),
    TOO_LOW(VG_REMOTE_CERT, "[role NAME] in vgpud's configuration assigns roles to subjects"),
};

/* ---- matching rows ---- */

static bool
advice_is_openssl(void)
{
    const curl_version_info_data *version = curl_version_info(CURLVERSION_NOW);

    return version->ssl_version && g_str_has_prefix(version->ssl_version, "OpenSSL");
}

static long
advice_number(const struct vg_client_failure *failure)
{
    curl_off_t secured_us = 0;
    long number = 0;

    switch ((int)failure->code) {
    case CURLE_PEER_FAILED_VERIFICATION:
        if (!advice_is_openssl())
            return 0;
        curl_easy_getinfo(failure->curl, CURLINFO_SSL_VERIFYRESULT, &number);
        return number == X509_OK || number == X509_UNSPECIFIED ? X509_HOSTNAME : number;
    case CURLE_COULDNT_CONNECT:
        curl_easy_getinfo(failure->curl, CURLINFO_OS_ERRNO, &number);
        return number;
    case CURLE_OPERATION_TIMEDOUT:
        curl_easy_getinfo(failure->curl, CURLINFO_APPCONNECT_TIME_T, &secured_us);
        return secured_us > 0 ? WHILE_ASKING : WHILE_CONNECTING;
    default:
        return 0;
    }
}

/* Returns vgpud's code for what the client lacks. An older vgpud does not report one. */
static enum vg_refusal
advice_refusal(const struct vg_client_failure *failure)
{
    const char *name = json_object_get_string(client_member(failure->problem, "refusal"));

    for (int i = VG_REFUSAL_NONE + 1; i < VG_REFUSAL_MAX; i++) {
        if (g_strcmp0(vg_refusal_names[i], name) == 0)
            return (enum vg_refusal)i;
    }
    return VG_REFUSAL_NONE;
}

static const struct advice_row *
advice_find(const struct vg_client_failure *failure)
{
    const long number = advice_number(failure);
    const enum vg_refusal refusal = advice_refusal(failure);

    for (size_t i = 0; i < G_N_ELEMENTS(advice_rows); i++) {
        const struct advice_row *row = &advice_rows[i];
        if (row->code == failure->code && (row->number == 0 || row->number == number) &&
            row->status == (row->code == CURLE_OK ? failure->status : 0) &&
            (row->refusal == VG_REFUSAL_NONE || row->refusal == refusal) &&
            (row->given == 0 || vg_remote_value(failure->remote, (enum vg_remote_key)row->given)))
            return row;
    }
    return NULL;
}

/* ---- the text ---- */

/* Returns the names in the server's certificate, "DNS:node-a, IP Address:192.0.2.1", its subject,
 * or "others" if unknown. The caller frees them. */
static char *
advice_names(CURL *curl)
{
    struct curl_certinfo *info = NULL;
    const char *subject = NULL;

    if (curl_easy_getinfo(curl, CURLINFO_CERTINFO, &info) != CURLE_OK || !info ||
        info->num_of_certs < 1)
        return g_strdup("others");
    for (struct curl_slist *line = info->certinfo[0]; line; line = line->next) {
        const char *value = strchr(line->data, ':');
        if (g_str_has_prefix(line->data, "X509v3 Subject Alternative Name:"))
            return g_strdup_printf("%.*s", NAMES_MAX, value + 1);
        if (g_str_has_prefix(line->data, "Subject:"))
            subject = value + 1;
    }
    return subject ? g_strdup_printf("%.*s", NAMES_MAX, subject) : g_strdup("others");
}

/* Returns the replacement for a name, or NULL if the name is unknown. The caller frees it. */
static char *
advice_value(const struct vg_client_failure *failure, const char *name, size_t size)
{
    const struct vg_remote *remote = failure->remote;
    const struct {
        const char *name, *value;
    } values[] = {{"host", remote->host}, {"port", remote->port}, {"words", failure->words}};
    g_autofree char *wanted = g_strndup(name, size);
    char now[VG_UTC_LEN];

    for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
        if (strcmp(values[i].name, wanted) == 0)
            return g_strdup(values[i].value);
    }
    for (int i = 0; i < VG_REMOTE_MAX; i++) {
        if (strcmp(vg_remote_names[i].option, wanted) == 0)
            return g_strdup(vg_remote_value(remote, (enum vg_remote_key)i));
    }
    if (strcmp(wanted, "limit") == 0)
        return g_strdup_printf("%d", failure->connect_limit_s);
    if (strcmp(wanted, "now") == 0)
        return g_strdup(vg_utc_format(vg_clock_realtime_ns() / VG_NS_PER_S * VG_NS_PER_S, now));
    return strcmp(wanted, "names") == 0 ? advice_names(failure->curl) : NULL;
}

static char *
advice_text(const struct vg_client_failure *failure, const char *text)
{
    GString *out = g_string_new(NULL);

    while (*text) {
        const char *end = *text == '{' ? strchr(text, '}') : NULL;
        g_autofree char *value =
            end ? advice_value(failure, text + 1, (size_t)(end - text - 1)) : NULL;
        if (value) {
            g_string_append(out, value);
            text = end + 1;
        } else {
            g_string_append_c(out, *text++);
        }
    }
    return g_string_free(out, FALSE);
}

bool
vg_client_advise(const struct vg_client_failure *failure, GError **err)
{
    const struct advice_row *row = advice_find(failure);

    if (!row)
        return false;
    g_autofree char *text = advice_text(failure, row->text);
    vg_error(err, row->error, "%s vgpud at '%s': %s",
             row->error == VG_E_REFUSED ? "refused by" : "cannot reach",
             vg_remote_value(failure->remote, VG_REMOTE_SERVER), text);
    return true;
}

enum vg_error_code
vg_client_code(long status, json_object *problem)
{
    const char *code = json_object_get_string(client_member(problem, "code"));

    if (g_strcmp0(code, "unusable") == 0)
        return VG_E_UNUSABLE;
    switch (status) {
    case 401:
    case 403:
    case 422:
        return VG_E_REFUSED;
    case 404:
        return VG_E_NOT_FOUND;
    case 408:
    case 504:
        return VG_E_TIMEOUT;
    case 409:
    case 412:
        return VG_E_CONFLICT;
    case 429:
    case 503:
        return VG_E_BUSY;
    default:
        return status < 500 ? VG_E_INVALID : VG_E_EXTERNAL;
    }
}
