/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON document of `vgpuctl analyze`, and of one window for --per-window. The callers release
 * the objects with json_object_put().
 */
#ifndef VG_CLI_ANALYSIS_JSON_H
#define VG_CLI_ANALYSIS_JSON_H

#include <json-c/json.h>

#include "cli/analysis.h"

/* snapshot: the engine's snapshot of the same part, which has the class of each VM. */
json_object *vg_analysis_to_json(const struct vg_analysis *analysis, const vg_snapshot *snapshot,
                                 const char *host);

/* {"begin_ns","end_ns","lost",...,"vms":[...]}; classes of single windows are unknown. */
json_object *vg_window_to_json(const vg_recording *recording, const struct vg_window *window);

#endif
