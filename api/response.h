/* SPDX-License-Identifier: Apache-2.0
 *
 * A request's answer in the form that libmicrohttpd sends.
 */
#ifndef VG_API_RESPONSE_H
#define VG_API_RESPONSE_H

#include "api/request.h"

struct MHD_Response;

/* Creates the response, which takes over what the answer owns. Returns NULL if out of memory. */
struct MHD_Response *vg_response_new(struct vg_request *request);

#endif
