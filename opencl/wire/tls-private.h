/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions shared by the TLS files.
 */
#ifndef VG_OPENCL_WIRE_TLS_PRIVATE_H
#define VG_OPENCL_WIRE_TLS_PRIVATE_H

#include "opencl/wire/tls-library.h"
#include "opencl/wire/tls.h"

#define TLS_FILE_MAX ((size_t)64 << 10) /* maximum bytes read from a certificate file */

struct vg_wire_tls {
    bool is_server; /* this side */
    const struct tls_library *gnutls;
    gnutls_certificate_credentials_t credentials;
    gnutls_session_t session;
    int fd;           /* the connection; not owned */
    const char *host; /* the name required in the proxy's certificate; during the handshake */
    /* the reason if the name does not match; during the handshake */
    char *fault;
    gnutls_alert_description_t alert; /* the alert to send in that case */
};

#endif
