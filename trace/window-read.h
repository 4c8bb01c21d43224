/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording, window after window: reads its events, feeds the ledgers, and closes windows.
 * `vgpuctl analyze`, `vgpud --replay` and the reading of a live session are all this loop. Windows
 * begin at the beginning of the part that is looked at and are window_ns long, but for the last
 * one, which is cut, and for a silence of more than VG_SILENT_WINDOWS_MAX windows, which becomes
 * one long window. One thread at a time.
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

/* A day of seconds. */
#define VG_SILENT_WINDOWS_MAX 86400

typedef struct vg_window_reader vg_window_reader;

/* Sees the part as it is read, in more detail than windows have. Any may be NULL. */
struct vg_window_watch {
    /* The part begins; then on_cpu and on_gpu are told how everything is at its beginning. */
    void (*on_begin)(void *data, const vg_window_reader *reader, int64_t begin_ns);
    vg_cpu_change_fn *on_cpu;
    vg_gpu_change_fn *on_gpu;
    /* All that was before t_ns is read, and nothing after it yet; before each event, and at the
     * end.
     */
    void (*on_time)(void *data, int64_t t_ns);
    void *data;
};

struct vg_window_read_options {
    bool has_begin, has_end;
    int64_t begin_ns, end_ns; /* raw clock; begin < t <= end is the part */
    int64_t window_ns;        /* > 0 */
    bool tasks;               /* every thread, not only vCPUs */
    /* The windows of a grid: they end at multiples of window_ns, and those at the edges of the
     * recording that it holds only a part of are left out. What is over is forgotten, so the part
     * cannot be read as a whole. Excludes has_begin and has_end. */
    bool on_grid;
    /* on_grid: returns the first end of a window after a time; NULL: the next multiple. */
    int64_t (*grid_end)(void *data, int64_t after_ns);
    /* Called now and then while events are read, also inside a long window; false ends the reading
     * as if the recording ended there. May be NULL. */
    bool (*tick)(void *data);
    bool gpu_requests; /* windows have the GPU requests that ended in them */
    /* Called for each GPU request that ends, also of before the part. May be NULL. */
    vg_gpu_life_fn *on_request;
    void *data;
    const struct vg_window_watch *watch; /* borrowed; or NULL */
};

/* recording and topology are borrowed; the topology may know VM names already. */
vg_window_reader *vg_window_reader_new(vg_recording *recording, vg_topology *topology,
                                       const struct vg_window_read_options *options);
void vg_window_reader_free(vg_window_reader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_window_reader, vg_window_reader_free)

/* 1 and a window that the caller clears; 0 at the end; VG_RECORDING_AGAIN if a live recording has
 * nothing to tell for now; -1 and *err if the recording cannot be read on, has no events, or none
 * in the part (neither of which is an error on a grid). */
int vg_window_reader_next(vg_window_reader *reader, struct vg_window *ret,
                          GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* For on_time: as vg_cpu_ledger_peek(). The caller clears *ret. */
void vg_window_reader_peek(const vg_window_reader *reader, int64_t t_ns, struct vg_window *ret);

const vg_topology *vg_window_reader_topology(const vg_window_reader *reader);

/* After the end: the whole part as one window, the number of CPUs that recorded anything, that of
 * the host, if the recording says so, and how many records (of interest or not) it has. */
void vg_window_reader_read_period(vg_window_reader *reader, struct vg_window *ret);
int32_t vg_window_reader_cpus(const vg_window_reader *reader);
int32_t vg_window_reader_host_cpus(const vg_window_reader *reader);
/* Those that the host has and of which there are no records: int32_t; the caller unrefs it. */
GArray *vg_window_reader_absent_cpus(const vg_window_reader *reader);
/* VG_SEEN_...: of which there were records. */
uint32_t vg_window_reader_types(const vg_window_reader *reader);
uint64_t vg_window_reader_events(const vg_window_reader *reader);

#endif
