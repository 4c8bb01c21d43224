/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads GnuTLS when first needed. The OpenCL library is loaded into arbitrary programs, most of
 * which never need TLS.
 */
#ifndef VG_OPENCL_WIRE_TLS_LIBRARY_H
#define VG_OPENCL_WIRE_TLS_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#define TLS_LIBRARY "libgnutls.so.30"

/* All functions used. */
#define TLS_FUNCTIONS(EACH)                                                                        \
 EACH(gnutls_alert_get)                                                                            \
 EACH(gnutls_alert_get_name)                                                                       \
 EACH(gnutls_alert_send)                                                                           \
 EACH(gnutls_bye)                                                                                  \
 EACH(gnutls_certificate_allocate_credentials)                                                     \
 EACH(gnutls_certificate_free_credentials)                                                         \
 EACH(gnutls_certificate_get_peers)                                                                \
 EACH(gnutls_certificate_server_set_request)                                                       \
 EACH(gnutls_certificate_set_verify_function)                                                      \
 EACH(gnutls_certificate_set_x509_key_file)                                                        \
 EACH(gnutls_certificate_set_x509_trust_file)                                                      \
 EACH(gnutls_certificate_verification_status_print)                                                \
 EACH(gnutls_certificate_verify_peers)                                                             \
 EACH(gnutls_check_version)                                                                        \
 EACH(gnutls_credentials_set)                                                                      \
 EACH(gnutls_deinit)                                                                               \
 EACH(gnutls_error_is_fatal)                                                                       \
 EACH(gnutls_handshake)                                                                            \
 EACH(gnutls_init)                                                                                 \
 EACH(gnutls_priority_set_direct)                                                                  \
 EACH(gnutls_record_check_pending)                                                                 \
 EACH(gnutls_record_get_direction)                                                                 \
 EACH(gnutls_record_recv)                                                                          \
 EACH(gnutls_record_send)                                                                          \
 EACH(gnutls_server_name_set)                                                                      \
 EACH(gnutls_session_get_ptr)                                                                      \
 EACH(gnutls_session_set_ptr)                                                                      \
 EACH(gnutls_strerror)                                                                             \
 EACH(gnutls_transport_set_ptr)                                                                    \
 EACH(gnutls_transport_set_pull_function)                                                          \
 EACH(gnutls_transport_set_push_function)                                                          \
 EACH(gnutls_x509_crt_check_hostname)                                                              \
 EACH(gnutls_x509_crt_check_key_purpose)                                                           \
 EACH(gnutls_x509_crt_deinit)                                                                      \
 EACH(gnutls_x509_crt_get_activation_time)                                                         \
 EACH(gnutls_x509_crt_get_dn_by_oid)                                                               \
 EACH(gnutls_x509_crt_get_expiration_time)                                                         \
 EACH(gnutls_x509_crt_get_subject_alt_name)                                                        \
 EACH(gnutls_x509_crt_import)                                                                      \
 EACH(gnutls_x509_crt_init)

struct tls_library {
#define TLS_MEMBER(name) __typeof__(&name) name;
    TLS_FUNCTIONS(TLS_MEMBER)
#undef TLS_MEMBER
};

/* Returns the loaded library, valid until the process ends. Returns NULL if it cannot be loaded,
 * with the reason in FAULT of SIZE bytes. */
const struct tls_library *vg_wire_tls_library(char *fault, size_t size);

#endif
