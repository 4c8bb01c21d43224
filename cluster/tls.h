/* SPDX-License-Identifier: Apache-2.0
 *
 * What requests to peers and to etcd have in common: how libcurl is told of TLS. Any thread.
 */
#ifndef VG_CLUSTER_TLS_H
#define VG_CLUSTER_TLS_H

#include <curl/curl.h>

/* Has a handle use TLS 1.2 or later and these files (PEM), each of which may be NULL or empty for
 * none; without a CA those of the system are trusted. protocols is a list such as "https"; no
 * other one is spoken. */
void vg_tls_prepare(CURL *curl, const char *protocols, const char *cacert, const char *cert,
                    const char *key);

#endif
