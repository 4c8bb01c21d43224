/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/tls.h"

#include <gnutls/x509.h>

#include "base/clock.h"
#include "base/error.h"

/* The maximum number of certificates in a file. */
#define CHAIN_MAX 16

/* The certificate and the key used in handshakes. */
struct tls_pair {
    gnutls_pcert_st certificates[CHAIN_MAX];
    unsigned n;
    gnutls_privkey_t key;
    int64_t expires_ns; /* epoch, when the first of the certificates expires */
};

struct vg_tls {
    char *certificate;
    char *key;
    char *client_ca;       /* PEM */
    struct tls_pair *pair; /* atomic */
    GPtrArray *pairs;      /* all struct tls_pair so far; a handshake may still use any of them */
};

static struct vg_tls *tls_serving;

static void
tls_pair_free(void *data)
{
    struct tls_pair *pair = data;

    for (unsigned i = 0; i < pair->n; i++)
        gnutls_pcert_deinit(&pair->certificates[i]);
    if (pair->key)
        gnutls_privkey_deinit(pair->key);
    g_free(pair);
}

static int
tls_failed(GError **err, const char *path, const char *what, int rc)
{
    return vg_error(err, VG_E_INVALID, "'%s' %s: %s", path, what, gnutls_strerror(rc));
}

static int
tls_read_file(const char *path, gnutls_datum_t *ret, GError **err)
{
    GError *error = NULL;
    char *text = NULL;
    gsize size = 0;

    if (!g_file_get_contents(path, &text, &size, &error)) {
        int code = g_error_matches(error, G_FILE_ERROR, G_FILE_ERROR_NOENT)   ? VG_E_NOT_FOUND
                   : g_error_matches(error, G_FILE_ERROR, G_FILE_ERROR_ACCES) ? VG_E_DENIED
                                                                              : VG_E_IO;
        vg_error(err, (enum vg_error_code)code, "cannot read '%s': %s", path, error->message);
        g_error_free(error);
        return -1;
    }
    *ret = (gnutls_datum_t){.data = (unsigned char *)text, .size = (unsigned)size};
    return 0;
}

static int
tls_read_certificates(const char *path, struct tls_pair *pair, GError **err)
{
    gnutls_datum_t text;
    unsigned n = CHAIN_MAX;

    if (tls_read_file(path, &text, err) != 0)
        return -1;
    int rc = gnutls_pcert_list_import_x509_raw(pair->certificates, &n, &text, GNUTLS_X509_FMT_PEM,
                                               GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);
    g_free(text.data);
    if (rc < 0)
        return tls_failed(
            err, path, "is not a PEM certificate chain that starts with the server's certificate",
            rc);
    pair->n = n;
    return 0;
}

/* Determines when the first certificate of the chain expires. From then on, clients refuse the
 * chain. */
static int
tls_read_end(const char *path, struct tls_pair *pair, GError **err)
{
    pair->expires_ns = INT64_MAX;
    for (unsigned i = 0; i < pair->n; i++) {
        gnutls_x509_crt_t certificate;
        int rc = gnutls_pcert_export_x509(&pair->certificates[i], &certificate);
        if (rc < 0)
            return tls_failed(err, path, "contains an unreadable certificate", rc);
        const int64_t end_s = (int64_t)gnutls_x509_crt_get_expiration_time(certificate);
        gnutls_x509_crt_deinit(certificate);
        if (end_s < INT64_MAX / VG_NS_PER_S)
            pair->expires_ns = MIN(pair->expires_ns, end_s * VG_NS_PER_S);
    }
    return 0;
}

static int
tls_read_key(const char *path, struct tls_pair *pair, GError **err)
{
    gnutls_datum_t text;

    if (tls_read_file(path, &text, err) != 0)
        return -1;
    gnutls_privkey_init(&pair->key);
    int rc = gnutls_privkey_import_x509_raw(pair->key, &text, GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_memset(text.data, 0, text.size);
    g_free(text.data);
    return rc < 0 ? tls_failed(err, path, "is not an unencrypted PEM private key", rc) : 0;
}

/* Returns whether the key matches the certificate. */
static bool
tls_pair_fits(const struct tls_pair *pair)
{
    unsigned char ids[2][32];
    size_t sizes[2] = {sizeof(ids[0]), sizeof(ids[1])};
    gnutls_pubkey_t public;
    bool fits = false;

    gnutls_pubkey_init(&public);
    if (gnutls_pubkey_import_privkey(public, pair->key, 0, 0) == 0 &&
        gnutls_pubkey_get_key_id(public, GNUTLS_KEYID_USE_SHA256, ids[0], &sizes[0]) == 0 &&
        gnutls_pubkey_get_key_id(pair->certificates[0].pubkey, GNUTLS_KEYID_USE_SHA256, ids[1],
                                 &sizes[1]) == 0)
        fits = sizes[0] == sizes[1] && memcmp(ids[0], ids[1], sizes[0]) == 0;
    gnutls_pubkey_deinit(public);
    return fits;
}

int
vg_tls_reload(vg_tls *tls, GError **err)
{
    struct tls_pair *pair = g_new0(struct tls_pair, 1);

    if (tls_read_certificates(tls->certificate, pair, err) != 0 ||
        tls_read_end(tls->certificate, pair, err) != 0 || tls_read_key(tls->key, pair, err) != 0) {
        tls_pair_free(pair);
        return -1;
    }
    if (!tls_pair_fits(pair)) {
        tls_pair_free(pair);
        return vg_error(err, VG_E_INVALID, "the key in '%s' does not match the certificate in '%s'",
                        tls->key, tls->certificate);
    }
    g_ptr_array_add(tls->pairs, pair);
    __atomic_store_n(&tls->pair, pair, __ATOMIC_RELEASE);
    return 0;
}

/* Reads the CAs. GnuTLS would accept a file without certificates, and then trust no client. */
static int
tls_read_ca(vg_tls *tls, const char *path, GError **err)
{
    gnutls_x509_crt_t *list = NULL;
    gnutls_datum_t text;
    unsigned n = 0;

    if (tls_read_file(path, &text, err) != 0)
        return -1;
    int rc = gnutls_x509_crt_list_import2(&list, &n, &text, GNUTLS_X509_FMT_PEM, 0);
    for (unsigned i = 0; rc >= 0 && i < n; i++)
        gnutls_x509_crt_deinit(list[i]);
    gnutls_free(list);
    tls->client_ca = (char *)text.data;
    return rc < 0 ? tls_failed(err, path, "contains no CA certificates in PEM", rc) : 0;
}

vg_tls *
vg_tls_new(const char *certificate, const char *key, const char *client_ca, GError **err)
{
    vg_tls *tls = g_new0(vg_tls, 1);

    tls->certificate = g_strdup(certificate);
    tls->key = g_strdup(key);
    tls->pairs = g_ptr_array_new_with_free_func(tls_pair_free);
    if (vg_tls_reload(tls, err) != 0 || (client_ca && tls_read_ca(tls, client_ca, err) != 0)) {
        vg_tls_free(tls);
        return NULL;
    }
    __atomic_store_n(&tls_serving, tls, __ATOMIC_RELEASE);
    return tls;
}

void
vg_tls_free(vg_tls *tls)
{
    if (!tls)
        return;
    __atomic_store_n(&tls_serving, NULL, __ATOMIC_RELEASE);
    g_ptr_array_unref(tls->pairs);
    g_free(tls->client_ca);
    g_free(tls->certificate);
    g_free(tls->key);
    g_free(tls);
}

int64_t
vg_tls_expires_ns(const vg_tls *tls)
{
    return __atomic_load_n(&tls->pair, __ATOMIC_ACQUIRE)->expires_ns;
}

const char *
vg_tls_client_ca(const vg_tls *tls)
{
    return tls->client_ca;
}

int
vg_tls_retrieve(gnutls_session_t session, const gnutls_datum_t *req_ca_dn, int n_reqs,
                const gnutls_pk_algorithm_t *algorithms, int n_algorithms,
                gnutls_pcert_st **ret_certificates, unsigned *ret_n, gnutls_privkey_t *ret_key)
{
    const struct vg_tls *tls = __atomic_load_n(&tls_serving, __ATOMIC_ACQUIRE);

    (void)session, (void)req_ca_dn, (void)n_reqs, (void)algorithms, (void)n_algorithms;
    if (!tls)
        return -1;
    struct tls_pair *pair = __atomic_load_n(&tls->pair, __ATOMIC_ACQUIRE);
    *ret_certificates = pair->certificates;
    *ret_n = pair->n;
    *ret_key = pair->key;
    return 0;
}

/* Returns the client's certificate, whoever signed it, or NULL. The caller deinitializes it. */
static gnutls_x509_crt_t
tls_peer_certificate(gnutls_session_t session)
{
    unsigned n = 0;
    gnutls_x509_crt_t certificate;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &n);

    if (!chain || n == 0 || gnutls_x509_crt_init(&certificate) != 0)
        return NULL;
    if (gnutls_x509_crt_import(certificate, &chain[0], GNUTLS_X509_FMT_DER) == 0)
        return certificate;
    gnutls_x509_crt_deinit(certificate);
    return NULL;
}

char *
vg_tls_peer_subject(gnutls_session_t session, bool *ret_is_client)
{
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT};
    unsigned status = 0, with_purpose = 0;
    gnutls_datum_t dn = {0};
    char *subject = NULL;

    gnutls_x509_crt_t certificate = tls_peer_certificate(session);
    if (!certificate)
        return NULL;
    if (gnutls_certificate_verify_peers2(session, &status) == 0 && status == 0 &&
        gnutls_certificate_verify_peers(session, &purpose, 1, &with_purpose) == 0 &&
        gnutls_x509_crt_get_dn3(certificate, &dn, 0) == 0) {
        subject = g_strndup((const char *)dn.data, dn.size);
        gnutls_free(dn.data);
        *ret_is_client = with_purpose == 0;
    }
    gnutls_x509_crt_deinit(certificate);
    return subject;
}

bool
vg_tls_peer_is_host(gnutls_session_t session, const char *host)
{
    gnutls_x509_crt_t certificate = tls_peer_certificate(session);

    if (!certificate)
        return false;
    bool is_host = gnutls_x509_crt_check_hostname(certificate, host) != 0;
    gnutls_x509_crt_deinit(certificate);
    return is_host;
}
