/* SPDX-License-Identifier: Apache-2.0
 *
 * Does what the filter and the weigher of integrations/nova do with one request, and tells how it
 * went: each endpoint, and what nova would have made of the answer. One thread.
 */
#ifndef VG_CLI_NOVA_CHECK_H
#define VG_CLI_NOVA_CHECK_H

#include <glib.h>
#include <json-c/json.h>

#include "cli/nova-conf.h"
#include "cli/remote-args.h"

/* Longer than any vgpud should take: what answers so late is told apart from what never does. */
#define VG_NOVA_CHECK_LIMIT_S 3

/* Asks each endpoint of conf, or, where remote is not NULL, the one that it names. hosts: names
 * that are asked about; NULL: those that vgpud knows. What came of it as a document, which the
 * caller puts:
 *   config, timeout_ms, filter, weigher, weight_multiplier, endpoints [{url, state, time_ms,
 * limit_ms, taken, reason}], hosts [{name, verdict, score, age_ms, reason, passes, weight}], the
 * first one that nova would choose first, taken (a url or null), fail_open, works. *err: why it
 * does not work, where it does not; the document is there all the same. NULL only where nothing
 * could be asked. */
json_object *vg_nova_check(const struct vg_nova_conf *conf, const struct vg_remote_args *remote,
                           char **hosts, GError **err);

#endif
