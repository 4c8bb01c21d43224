/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a recording window by window: reads its events, updates the ledgers, and closes windows.
 * `vgpuctl analyze`, `vgpud --replay` and live sessions use this loop. Windows start at the start
 * of the selected part and are window_ns long. Exceptions are the last window, which is cut, and a
 * gap of more than VG_SILENT_WINDOWS_MAX windows, which becomes one long window. One thread at a
 * time.
 */
#ifndef VG_TRACE_WINDOW_READ_H
#define VG_TRACE_WINDOW_READ_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "ledger/cpu-ledger.h"
#include "ledger/gpu-ledger.h"
#include "model/topology.h"
#include "model/window.h"
#include "trace/recording.h"

/* One day of one-second windows. */
#define VG_SILENT_WINDOWS_MAX 86400

typedef struct vg_window_reader vg_window_reader;

/* Callbacks that observe the part in more detail than windows have. Any may be NULL. */
struct vg_window_watch {
    /* The part starts. Afterwards on_cpu and on_gpu report the state at its start. */
    void (*on_begin)(void *data, const vg_window_reader *reader, int64_t begin_ns);
    vg_cpu_change_fn *on_cpu;
    vg_gpu_change_fn *on_gpu;
    /* Everything up to t_ns was read, and nothing later. Called before each event and at the
     * end. */
    void (*on_time)(void *data, int64_t t_ns);
    void *data;
};

struct vg_window_read_options {
    bool has_begin, has_end;
    int64_t begin_ns, end_ns; /* raw clock; the part is begin < t <= end */
    int64_t window_ns;        /* > 0 */
    bool tasks;               /* every thread, not only vCPUs */
    /* Aligns windows to a grid: they end at multiples of window_ns, and incomplete windows at the
     * recording's edges are dropped. Finished windows are forgotten, so the part cannot be read as
     * a whole. Excludes has_begin and has_end. */
    bool on_grid;
    /* on_grid: returns the first window end after a time; if NULL, the next multiple is used. */
    int64_t (*grid_end)(void *data, int64_t after_ns);
    /* Called periodically while events are read, even within a long window. If it returns false,
     * reading ends as at the end of the recording. May be NULL. */
    bool (*tick)(void *data);
    bool gpu_requests; /* windows have the GPU requests that ended in them */
    /* Called for each GPU request that ends, even before the part. May be NULL. */
    vg_gpu_life_fn *on_request;
    void *data;
    const struct vg_window_watch *watch; /* borrowed; or NULL */
};

/* recording and topology are borrowed. The topology may already have VM names. */
vg_window_reader *vg_window_reader_new(vg_recording *recording, vg_topology *topology,
                                       const struct vg_window_read_options *options);
void vg_window_reader_free(vg_window_reader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_window_reader, vg_window_reader_free)

/* Returns 1 and a window that the caller clears, 0 at the end, VG_RECORDING_AGAIN if a live
 * recording has no event now, or -1 and *err. Errors are a recording that cannot be read further
 * and, except on a grid, a recording or part without events. */
int vg_window_reader_next(vg_window_reader *reader, struct vg_window *ret,
                          GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* For on_time: as vg_cpu_ledger_peek(). The caller clears *ret. */
void vg_window_reader_peek(const vg_window_reader *reader, int64_t t_ns, struct vg_window *ret);

const vg_topology *vg_window_reader_topology(const vg_window_reader *reader);

/* After the end: return the whole part as one window, the number of CPUs with records, the host's
 * number of CPUs if stated, and the number of records (of interest or not). */
void vg_window_reader_read_period(vg_window_reader *reader, struct vg_window *ret);
int32_t vg_window_reader_cpus(const vg_window_reader *reader);
int32_t vg_window_reader_host_cpus(const vg_window_reader *reader);
/* Returns the CPUs that the host has but that have no records: int32_t; the caller unrefs it. */
GArray *vg_window_reader_absent_cpus(const vg_window_reader *reader);
/* Returns the types of the events read: VG_SEEN_... */
uint32_t vg_window_reader_types(const vg_window_reader *reader);
uint64_t vg_window_reader_events(const vg_window_reader *reader);

#endif
