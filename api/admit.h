/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether a request is processed further: by its framing and sizes, its route, its sender,
 * the sender's request rate, and the required role.
 */
#ifndef VG_API_ADMIT_H
#define VG_API_ADMIT_H

#include "api/http.h"

/* Checks a request whose header fields have arrived, but not its body. If the request is rejected,
 * the answer is set. */
void http_admit(struct http_exchange *exchange, const char *method, const char *version);

/* Returns the maximum size of the body. Until the route is known, it is the maximum of all
 * routes. */
int64_t http_body_limit(const struct vg_request *request);

/* bytes of the URL */
#define HTTP_URL_MAX 8192

/* A body with more bytes than this is not read completely just to be rejected. */
#define HTTP_DISCARD_BODY_MAX (16 * 1024 * 1024)

#endif
