/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a vgpud on the network could not be asked, and what to look at then: one table for all that
 * can be in the way.
 */
#ifndef VG_CLI_CLIENT_ADVICE_H
#define VG_CLI_CLIENT_ADVICE_H

#include <stdbool.h>

#include <curl/curl.h>
#include <glib.h>
#include <json-c/json.h>

#include "cli/remote.h"

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

/* Sets *err: VG_E_UNREACHABLE, VG_E_REFUSED, or VG_E_TIMEOUT. false: the table has nothing about
 * it. */
bool vg_client_advise(const struct vg_client_failure *failure, GError **err);

#endif
