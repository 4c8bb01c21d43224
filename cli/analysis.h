/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a recording through ledgers and engine, for `analyze` and `snapshot`.
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
    int64_t begin_ns, end_ns; /* raw clock; the analysed interval is (begin, end] */
    int64_t window_ns;
    bool tasks;
    const char *host; /* name for the recorded host */
    const struct vg_policy_config *config;
    const char *vm_map_name; /* may be NULL */
    const char *vm_map_text;
    size_t vm_map_size;
    struct vg_progress *progress;
    /* Called for every closed window; may be NULL. A failure ends the analysis. */
    int (*on_window)(void *data, const vg_recording *recording, const struct vg_window *window,
                     GError **err);
    /* Called for every GPU request that ends, even before the part; may be NULL. */
    vg_gpu_life_fn *on_request;
    /* When it becomes true, the recording is treated as ending there, approximately; may be
     * NULL. */
    const bool *enough;
    void *data;
    const struct vg_window_watch *watch; /* borrowed; or NULL */
};

struct vg_analysis {
    vg_recording *recording; /* owned */
    vg_topology *topology;
    vg_engine *engine;
    struct vg_window period; /* the whole analysed part */
    int32_t cpus;            /* with records */
    uint32_t types;          /* VG_SEEN_...: types of the records read */
    GArray *absent_cpus;     /* int32_t: CPUs that the host has but that have no records */
    int32_t host_cpus;       /* as stated in the recording, but at least the CPUs with records */
    uint64_t events;         /* records of the part, of interest or not */
};

/* Takes ownership of the recording, even on failure. The caller frees the result. */
struct vg_analysis *vg_analysis_run(vg_recording *take_recording,
                                    const struct vg_analysis_options *options, GError **err);
/* Returns whether events that a measurement needs were not recorded, although the events that
 * accompany them were. */
bool vg_analysis_misses(const struct vg_analysis *analysis, const struct vg_adapter_need *need);

void vg_analysis_free(struct vg_analysis *analysis);

#endif
