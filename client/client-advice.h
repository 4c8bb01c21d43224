/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a request to a vgpud on the network failed, and what to check: one table of all possible
 * causes.
 */
#ifndef VG_CLIENT_CLIENT_ADVICE_H
#define VG_CLIENT_CLIENT_ADVICE_H

#include <stdbool.h>

#include <curl/curl.h>
#include <glib.h>
#include <json-c/json.h>

#include "base/error.h"
#include "client/remote.h"

#define VG_CLIENT_CONNECT_LIMIT_S 10 /* for the TLS connection */

struct vg_client_failure {
    const struct vg_remote *remote;
    CURL *curl; /* after the request */
    CURLcode code;
    long status;          /* of the answer, or 0 */
    json_object *problem; /* the answer, or NULL */
    const char *words;    /* libcurl's message, or the answer's own; only for people */
    int connect_limit_s;
};

/* Returns a member of an answer. Returns NULL if the member is absent, or the answer is not an
 * object. Borrowed. */
static inline json_object *
client_member(json_object *answer, const char *name)
{
    return json_object_is_type(answer, json_type_object) ? json_object_object_get(answer, name)
                                                         : NULL;
}

/* Returns the code of a failed answer. problem: its document, or NULL. */
enum vg_error_code vg_client_code(long status, json_object *problem);

/* Sets *err to VG_E_UNREACHABLE, VG_E_REFUSED or VG_E_TIMEOUT. Returns false if the table has no
 * entry for the failure. */
bool vg_client_advise(const struct vg_client_failure *failure, GError **err);

#endif
