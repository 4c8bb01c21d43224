/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificate and key of the listeners, and what GnuTLS knows of who is on the other side. Both are
 * read again while connections go on: a new pair is for handshakes from then on.
 */
#ifndef VG_API_TLS_H
#define VG_API_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

typedef struct vg_tls vg_tls;

/* Paths of PEM files. A program has at most one at a time: the callback of GnuTLS has no place for
 * data. VG_E_NOT_FOUND, VG_E_DENIED: a file cannot be read; VG_E_INVALID: what is in it is not
 * that, or the key is not the certificate's. */
vg_tls *vg_tls_new(const char *certificate, const char *key, const char *client_ca, GError **err);
void vg_tls_free(vg_tls *tls); /* NULL is fine */

/* Reads certificate and key again. On failure those before stay. One thread at a time. */
int vg_tls_reload(vg_tls *tls, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* The CAs of clients as PEM, for as long as tls lives; NULL: none. */
const char *vg_tls_client_ca(const vg_tls *tls);

/* For MHD_OPTION_HTTPS_CERT_CALLBACK. */
int vg_tls_retrieve(gnutls_session_t session, const gnutls_datum_t *req_ca_dn, int n_reqs,
                    const gnutls_pk_algorithm_t *algorithms, int n_algorithms,
                    gnutls_pcert_st **ret_certificates, unsigned *ret_n, gnutls_privkey_t *ret_key);

/* The subject of the certificate that the client has shown and that is one of the CAs'; the caller
 * frees it. NULL: it has shown none, or one that does not hold. */
char *vg_tls_peer_subject(gnutls_session_t session);

#endif
