/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificate and key of the listeners, and the client's certificate. A new pair is read without
 * interrupting connections, and used for new handshakes.
 */
#ifndef VG_API_TLS_H
#define VG_API_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

typedef struct vg_tls vg_tls;

/* Reads the PEM files at these paths. A program has at most one vg_tls at a time, because GnuTLS's
 * callback has no data argument. Fails with VG_E_NOT_FOUND or VG_E_DENIED if a file cannot be read,
 * and with VG_E_INVALID if its content is wrong, or the key does not match the certificate. */
vg_tls *vg_tls_new(const char *certificate, const char *key, const char *client_ca, GError **err);
void vg_tls_free(vg_tls *tls); /* NULL is fine */

/* Reads certificate and key again. On failure, the old pair remains in use. One thread at a
 * time. */
int vg_tls_reload(vg_tls *tls, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns when the first certificate of the chain in use expires, in nanoseconds since the
 * epoch. */
int64_t vg_tls_expires_ns(const vg_tls *tls);

/* Returns the CA certificates for clients as PEM, valid as long as tls; may be NULL. */
const char *vg_tls_client_ca(const vg_tls *tls);

/* The callback for MHD_OPTION_HTTPS_CERT_CALLBACK. */
int vg_tls_retrieve(gnutls_session_t session, const gnutls_datum_t *req_ca_dn, int n_reqs,
                    const gnutls_pk_algorithm_t *algorithms, int n_algorithms,
                    gnutls_pcert_st **ret_certificates, unsigned *ret_n, gnutls_privkey_t *ret_key);

/* Returns the subject of the client's certificate if one of the CAs has signed it; the caller frees
 * it. Returns NULL if the client has no certificate, or an invalid one. *ret_is_client: its
 * extended key usage, if present, allows clients. */
char *vg_tls_peer_subject(gnutls_session_t session, bool *ret_is_client);

/* Returns whether the client's certificate is issued to a host: a name, or an address without
 * brackets. The certificate must have been verified. */
bool vg_tls_peer_is_host(gnutls_session_t session, const char *host);

#endif
