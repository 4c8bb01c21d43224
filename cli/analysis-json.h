/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON document of `vgpuctl analyze`, and of one window for --per-window. The callers put the
 * objects.
 */
#ifndef VG_CLI_ANALYSIS_JSON_H
#define VG_CLI_ANALYSIS_JSON_H

#include <json-c/json.h>

#include "cli/analysis.h"

/* snapshot is the engine's reading of the same part: it has the class of each VM. */
json_object *vg_analysis_to_json(const struct vg_analysis *analysis, const vg_snapshot *snapshot,
                                 const char *host);

/* {"begin_ns","end_ns","lost",...,"vms":[...]}; classes are not known window by window. */
json_object *vg_window_to_json(const vg_recording *recording, const struct vg_window *window);

#endif
