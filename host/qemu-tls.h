/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks for the certificates with which QEMU encrypts migrations. They are separate from those of
 * libvirtd.
 */
#ifndef VG_HOST_QEMU_TLS_H
#define VG_HOST_QEMU_TLS_H

#include "model/migration-tls.h"

/* Looks at qemu.conf and the directory of certificates that libvirt would use. root precedes all
 * paths; it is "" except in tests. Never returns VG_TLS_CERTS_UNKNOWN. */
enum vg_tls_certs vg_qemu_tls_look(const char *root);

#endif
