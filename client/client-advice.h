/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a vgpud on the network could not be asked, and what to look at then: one table for all that
 * can be in the way.
 */
#ifndef VG_CLIENT_CLIENT_ADVICE_H
#define VG_CLIENT_CLIENT_ADVICE_H

#include <stdbool.h>

#include <curl/curl.h>
#include <glib.h>
#include <json-c/json.h>

#include "client/remote.h"

#define VG_CLIENT_CONNECT_LIMIT_S 10 /* until TLS stands */

struct vg_client_failure {
    const struct vg_remote *remote;
    CURL *curl; /* after the request */
    CURLcode code;
    long status;          /* of the answer; 0: there is none */
    json_object *problem; /* the answer; NULL: there is none */
    const char *words;    /* of libcurl, or the answer's own; for people alone */
    int connect_limit_s;
};

/* Returns a member of an answer, or NULL: there is none, or it is no object. Borrowed. */
static inline json_object *
client_member(json_object *answer, const char *name)
{
    return json_object_is_type(answer, json_type_object) ? json_object_object_get(answer, name)
                                                         : NULL;
}

/* Sets *err: VG_E_UNREACHABLE, VG_E_REFUSED, or VG_E_TIMEOUT. false: the table has nothing about
 * it. */
bool vg_client_advise(const struct vg_client_failure *failure, GError **err);

#endif
