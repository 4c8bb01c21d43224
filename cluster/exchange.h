/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTPS request to a peer and its answer, for a multi handle of libcurl. Nobody is asked
 * without TLS, or without looking at whose certificate it is. One thread.
 */
#ifndef VG_CLUSTER_EXCHANGE_H
#define VG_CLUSTER_EXCHANGE_H

#include <curl/curl.h>

#include "cluster/peers.h"

struct vg_exchange {
    CURL *curl;
    struct curl_slist *headers;
    char words[CURL_ERROR_SIZE];
    GString *body;
    bool too_long;
    char *etag;  /* of the answer, or NULL */
    long status; /* once it has ended well */
    int64_t limit_ns;
    void *data; /* the caller's */
    void *call; /* likewise */
};

/* A GET of url + path, ready for curl_multi_add_handle(). etag: of what the caller has, or NULL.
 * NULL and *err where a file that it needs cannot be read. limit_ns: for all of it, at least 1 ms.
 */
struct vg_exchange *vg_exchange_new(const struct vg_peer_options *peer, const char *path,
                                    const char *etag, int64_t limit_ns, GError **err);

/* Makes another request of it, with a JSON body or (NULL) without one. */
void vg_exchange_set_method(struct vg_exchange *exchange, const char *method, const char *body);

void vg_exchange_free(struct vg_exchange *exchange);

/* After it has ended with code: 0 if the status is 2xx or 304; else -1 and why not, as a sentence.
 * VG_E_TIMEOUT: the time was up. */
int vg_exchange_check(struct vg_exchange *exchange, CURLcode code, GError **err);

/* Likewise, but what the peer itself refused is told in its own words, with the code that fits the
 * status: VG_E_NOT_FOUND, VG_E_CONFLICT, VG_E_REFUSED, VG_E_BUSY. */
int vg_exchange_check_call(struct vg_exchange *exchange, CURLcode code, GError **err);

#endif
