/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides if a request goes any further: its framing and sizes, its route, who sends it, how often,
 * and with which role.
 */
#ifndef VG_API_ADMIT_H
#define VG_API_ADMIT_H

#include "api/http.h"

/* Looks at a request whose header fields are there, and whose body is not. If it goes no further,
 * the answer is set. */
void http_admit(struct http_exchange *exchange, const char *method, const char *version);

/* Returns how large the body may be; before the route is known, as large as that of any route. */
int64_t http_body_limit(const struct vg_request *request);

/* Bytes of the URL. */
#define HTTP_URL_MAX 8192

/* A body of more bytes than this is not read to its end just to be refused. */
#define HTTP_DISCARD_BODY_MAX (16 * 1024 * 1024)

#endif
