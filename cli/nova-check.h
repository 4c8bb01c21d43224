/* SPDX-License-Identifier: Apache-2.0
 *
 * Performs one request as the filter and the weigher of integrations/nova do, and reports the
 * result: the state of each endpoint, and nova's conclusion from the answer. One thread.
 */
#ifndef VG_CLI_NOVA_CHECK_H
#define VG_CLI_NOVA_CHECK_H

#include <glib.h>
#include <json-c/json.h>

#include "cli/nova-conf.h"
#include "cli/remote-args.h"

/* A time limit that is longer than any vgpud should take, to distinguish late answers from missing
 * answers. */
#define VG_NOVA_CHECK_LIMIT_S 3

/* Queries each endpoint of conf or, if remote is not NULL, only that endpoint. hosts: names to
 * query; NULL for those that vgpud knows. Returns the result as a document, which the caller
 * releases with json_object_put():
 *   config, timeout_ms, filter, weigher, weight_multiplier, endpoints [{url, state, time_ms,
 *   limit_ms, taken, reason}], hosts [{name, verdict, score, age_ms, reason, passes, weight}] in
 *   nova's order of preference, taken (a url or null), fail_open, works.
 *
 * If nova cannot use vgpud, *err has the reason, in addition to the document. Returns NULL only if
 * no query was possible. */
json_object *vg_nova_check(const struct vg_nova_conf *conf, const struct vg_remote_args *remote,
                           char **hosts, GError **err);

#endif
