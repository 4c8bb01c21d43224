/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS settings of libcurl, common to requests to peers and to etcd. Any thread.
 */
#ifndef VG_CLUSTER_TLS_H
#define VG_CLUSTER_TLS_H

#include <curl/curl.h>

/* Makes a handle use TLS 1.2 or later and these PEM files, each of which may be NULL or empty.
 * Without a CA, the system's CAs are trusted. protocols is a list of the only allowed protocols,
 * such as "https". */
void vg_tls_prepare(CURL *curl, const char *protocols, const char *cacert, const char *cert,
                    const char *key);

#endif
