/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a recording through ledger and engine: what `analyze` and `snapshot` have in common.
 */
#ifndef VG_CLI_ANALYSIS_H
#define VG_CLI_ANALYSIS_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "cli/progress.h"
#include "engine/engine.h"
#include "ledger/gpu-ledger.h"
#include "model/window.h"
#include "trace/needs.h"
#include "trace/recording.h"
#include "trace/window-read.h"

#define VG_ANALYSIS_WINDOW_NS INT64_C(1000000000)

struct vg_analysis_options {
    bool has_begin, has_end;
    int64_t begin_ns, end_ns; /* raw clock; begin < t <= end is analysed */
    int64_t window_ns;
    bool tasks;
    const char *host; /* what the recorded host is called */
    const struct vg_policy_config *config;
    const char *vm_map_name; /* NULL: none */
    const char *vm_map_text;
    size_t vm_map_size;
    struct vg_progress *progress;
    /* Sees every closed window; may be NULL. A failure ends the analysis. */
    int (*on_window)(void *data, const vg_recording *recording, const struct vg_window *window,
                     GError **err);
    /* Sees every GPU request that ends, also of before the part; may be NULL. */
    vg_gpu_life_fn *on_request;
    /* Once it is true, the recording ends there, more or less; may be NULL. */
    const bool *enough;
    void *data;
    const struct vg_window_watch *watch; /* borrowed; or NULL */
};

struct vg_analysis {
    vg_recording *recording; /* owned */
    vg_topology *topology;
    vg_engine *engine;
    struct vg_window period; /* the whole analysed part */
    int32_t cpus;            /* that recorded anything */
    uint32_t types;          /* VG_SEEN_...: of which there were records */
    GArray *absent_cpus;     /* int32_t: that the host has and of which there are no records */
    int32_t host_cpus;       /* as the recording says, but no fewer than those */
    uint64_t events;         /* records of the part, of interest or not */
};

/* Takes the recording, also when it fails. The caller frees the result. */
struct vg_analysis *vg_analysis_run(vg_recording *take_recording,
                                    const struct vg_analysis_options *options, GError **err);
/* Tells whether events that a measure needs were not recorded, although what is recorded together
 * with them was. */
bool vg_analysis_misses(const struct vg_analysis *analysis, const struct vg_adapter_need *need);

void vg_analysis_free(struct vg_analysis *analysis);

#endif
