/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer of a request as libmicrohttpd sends it.
 */
#ifndef VG_API_RESPONSE_H
#define VG_API_RESPONSE_H

#include "api/request.h"

struct MHD_Response;

/* Makes the response, which takes over what the answer owns. NULL: out of memory. */
struct MHD_Response *vg_response_new(struct vg_request *request);

#endif
