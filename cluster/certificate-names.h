/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads whom a certificate is for. Pure.
 */
#ifndef VG_CLUSTER_CERTIFICATE_NAMES_H
#define VG_CLUSTER_CERTIFICATE_NAMES_H

#include <stdbool.h>

/* Lists the DNS names and common names of a certificate in PEM. What cannot be read has none. The
 * caller frees the list, which ends with NULL. */
char **vg_certificate_names(const char *pem);

/* Returns whether one of the names is this host, whole or up to its first dot. */
bool vg_certificate_is_of(char *const *names, const char *host);

#endif
