/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes one HTTPS request to a peer, for a multi handle of libcurl, and receives its answer.
 * Requests always use TLS and verify the peer's certificate. One thread.
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
    long status; /* set when the exchange has succeeded */
    int64_t limit_ns;
    void *data; /* belongs to the caller */
    void *call; /* belongs to the caller */
};

/* Prepares a GET request for url + path for curl_multi_add_handle(). etag is the etag of the
 * caller's copy, or NULL. limit_ns applies to the whole exchange, at least 1 ms. Returns NULL and
 * sets *err if a file that it needs cannot be read. */
struct vg_exchange *vg_exchange_new(const struct vg_peer_options *peer, const char *path,
                                    const char *etag, int64_t limit_ns, GError **err);

/* Sets the method of the request, and its JSON body; NULL for none. */
void vg_exchange_set_method(struct vg_exchange *exchange, const char *method, const char *body);

/* Forces a new connection, so that the peer presents its certificate. */
void vg_exchange_set_fresh(struct vg_exchange *exchange);

/* Returns the names in the certificate presented during an exchange that has succeeded: DNS names
 * and common names. Returns NULL if it reused a connection. The caller frees it. */
char **vg_exchange_names(const struct vg_exchange *exchange);

/* Sets the Idempotency-Key of the request. */
void vg_exchange_set_key(struct vg_exchange *exchange, const char *key);

/* Sets the person on whose behalf the request is made. */
void vg_exchange_set_person(struct vg_exchange *exchange, const char *person);

/* Adds the prediction of a plan for the move that is requested, as JSON. */
void vg_exchange_set_forecast(struct vg_exchange *exchange, const char *forecast);

void vg_exchange_free(struct vg_exchange *exchange);

/* Checks an exchange that has ended with this code. Returns 0 if the status is 2xx or 304,
 * otherwise -1 and the reason as a sentence. Fails with VG_E_TIMEOUT if the time limit had passed.
 */
int vg_exchange_check(struct vg_exchange *exchange, CURLcode code, GError **err);

/* The same, but reports a refusal in the peer's own words, with the code for the status:
 * VG_E_NOT_FOUND, VG_E_CONFLICT, VG_E_REFUSED or VG_E_BUSY. */
int vg_exchange_check_call(struct vg_exchange *exchange, CURLcode code, GError **err);

#endif
