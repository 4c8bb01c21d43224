/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of TLS share.
 */
#ifndef VG_OPENCL_WIRE_TLS_PRIVATE_H
#define VG_OPENCL_WIRE_TLS_PRIVATE_H

#include "opencl/wire/tls-library.h"
#include "opencl/wire/tls.h"

#define TLS_FILE_MAX ((size_t)64 << 10) /* bytes of a certificate's file that are looked at */

struct vg_wire_tls {
    bool is_server; /* this side */
    const struct tls_library *gnutls;
    gnutls_certificate_credentials_t credentials;
    gnutls_session_t session;
    int fd;           /* the connection; not owned */
    const char *host; /* that the proxy's certificate has to be for; while shaking hands */
    char *fault;      /* likewise, where it is said that it is not; and so it is told: */
    gnutls_alert_description_t alert;
};

#endif
