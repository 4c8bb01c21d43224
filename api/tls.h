/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificate and key of the listeners, and the certificate that a client has shown. A new pair is
 * read while connections go on, and is used for new handshakes.
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

/* Reads the PEM files at these paths. A program has at most one vg_tls at a time: the callback of
 * GnuTLS has no place for data. VG_E_NOT_FOUND, VG_E_DENIED: a file cannot be read; VG_E_INVALID:
 * it has the wrong content, or the key does not fit the certificate. */
vg_tls *vg_tls_new(const char *certificate, const char *key, const char *client_ca, GError **err);
void vg_tls_free(vg_tls *tls); /* NULL is fine */

/* Reads certificate and key again. On failure the old ones stay. One thread at a time. */
int vg_tls_reload(vg_tls *tls, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns when the first certificate of the chain in use ends, in nanoseconds since the epoch. */
int64_t vg_tls_expires_ns(const vg_tls *tls);

/* Returns the CAs of clients as PEM, which lives as long as tls; NULL: none. */
const char *vg_tls_client_ca(const vg_tls *tls);

/* Is the callback for MHD_OPTION_HTTPS_CERT_CALLBACK. */
int vg_tls_retrieve(gnutls_session_t session, const gnutls_datum_t *req_ca_dn, int n_reqs,
                    const gnutls_pk_algorithm_t *algorithms, int n_algorithms,
                    gnutls_pcert_st **ret_certificates, unsigned *ret_n, gnutls_privkey_t *ret_key);

/* Returns the subject of the client's certificate, if one of the CAs has signed it; the caller
 * frees it. NULL: the client has shown none, or one that is not valid. *ret_is_client: its extended
 * key usage, if it has one, lets it be a client's. */
char *vg_tls_peer_subject(gnutls_session_t session, bool *ret_is_client);

/* Returns whether the client's certificate is made out to a host: a name, or an address without
 * brackets. It must have been found valid. */
bool vg_tls_peer_is_host(gnutls_session_t session, const char *host);

#endif
