/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the names that a certificate was issued for. Pure.
 */
#ifndef VG_CLUSTER_CERTIFICATE_NAMES_H
#define VG_CLUSTER_CERTIFICATE_NAMES_H

#include <stdbool.h>

/* Lists the DNS names and common names of a PEM certificate. The list is empty if the certificate
 * cannot be read. The caller frees the list, which ends with NULL. */
char **vg_certificate_names(const char *pem);

/* Returns whether one of the names denotes this host, fully or up to its first dot. */
bool vg_certificate_is_of(char *const *names, const char *host);

#endif
