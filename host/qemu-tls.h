/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the certificates that QEMU uses to encrypt migrations. They are separate from
 * libvirtd's.
 */
#ifndef VG_HOST_QEMU_TLS_H
#define VG_HOST_QEMU_TLS_H

#include "model/migration-tls.h"

/* Checks qemu.conf and the directory of certificates that libvirt would use. root is the prefix of
 * all paths, "" except in tests. Never returns VG_TLS_CERTS_UNKNOWN. */
enum vg_tls_certs vg_qemu_tls_look(const char *root);

#endif
