/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes one HTTPS request to a peer, for a multi handle of libcurl, and takes its answer. No peer
 * is asked without TLS, or without a check of its certificate. One thread.
 */
#ifndef VG_CLUSTER_EXCHANGE_H
#define VG_CLUSTER_EXCHANGE_H

#include <curl/curl.h>

#include "cluster/body.h"
#include "cluster/peers.h"

struct vg_exchange {
    CURL *curl;
    struct curl_slist *headers;
    char words[CURL_ERROR_SIZE];
    struct vg_body body;
    char *etag;  /* the etag of the answer, or NULL */
    long status; /* set once the exchange has ended well */
    int64_t limit_ns;
    void *data; /* belongs to the caller */
    void *call; /* belongs to the caller */
};

/* Prepares a GET of url + path for curl_multi_add_handle(). etag is that of the caller's copy of
 * the document, or NULL. limit_ns is for the whole exchange, at least 1 ms. Returns NULL and sets
 * *err if a file that it needs cannot be read. */
struct vg_exchange *vg_exchange_new(const struct vg_peer_options *peer, const char *path,
                                    const char *etag, int64_t limit_ns, GError **err);

/* Sets the method of the request, and its JSON body; NULL for none. */
void vg_exchange_set_method(struct vg_exchange *exchange, const char *method, const char *body);

/* Has the exchange make a connection of its own, so that the peer shows its certificate. */
void vg_exchange_set_fresh(struct vg_exchange *exchange);

/* Returns the names of the certificate that was shown for an exchange that has ended well: DNS
 * names and common names. Returns NULL if it used a connection that was there; the caller frees
 * it. */
char **vg_exchange_names(const struct vg_exchange *exchange);

/* Sets the Idempotency-Key of the request. */
void vg_exchange_set_key(struct vg_exchange *exchange, const char *key);

/* Names the person for whom the request is made. */
void vg_exchange_set_person(struct vg_exchange *exchange, const char *person);

/* Adds the prediction of a plan for the move that is requested, as JSON. */
void vg_exchange_set_forecast(struct vg_exchange *exchange, const char *forecast);

void vg_exchange_free(struct vg_exchange *exchange);

/* Checks an exchange that has ended with this code. Returns 0 if the status is 2xx or 304,
 * otherwise -1 and the reason as a sentence. Fails with VG_E_TIMEOUT if the time was up. */
int vg_exchange_check(struct vg_exchange *exchange, CURLcode code, GError **err);

/* Checks an exchange likewise, but reports a refusal in the peer's own words, with the code that
 * fits the status: VG_E_NOT_FOUND, VG_E_CONFLICT, VG_E_REFUSED or VG_E_BUSY. */
int vg_exchange_check_call(struct vg_exchange *exchange, CURLcode code, GError **err);

#endif
