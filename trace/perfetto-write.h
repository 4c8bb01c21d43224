/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a trace for ui.perfetto.dev and trace_processor: tracks with slices and counters, and
 * flows (arrows) between slices. Only the state of each track is in memory.
 *
 * The following always holds, whatever the caller does. Corrections are counted. Times on a track
 * never run backwards: an earlier time is replaced with the previous event's. An end belongs to the
 * innermost open slice of its track; an end without a slice is dropped. Every slice is closed.
 * Events of different tracks may come in any order.
 *
 * A file error is stored until vg_perfetto_close() reports it; in the meantime nothing more is
 * written. Until the trace is complete, an existing file at the path is unchanged. One thread at a
 * time.
 */
#ifndef VG_TRACE_PERFETTO_WRITE_H
#define VG_TRACE_PERFETTO_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/* Maximum number of distinct names of events, of categories and of annotations that are written
 * only once. Further names are written each time. */
#define VG_PERFETTO_NAMES_MAX 4096

/* Maximum bytes of a name or a text; longer ones are truncated. */
#define VG_PERFETTO_TEXT_MAX 1024

typedef struct vg_perfetto vg_perfetto;

struct vg_perfetto_stats {
    uint64_t events;   /* written, including those that close open slices */
    uint64_t clamped;  /* events moved to the time of the previous event on their track */
    uint64_t no_begin; /* ends without a slice, dropped */
    uint64_t no_track; /* events for track 0, dropped */
    uint64_t closed;   /* slices that vg_perfetto_close() ended */
};

/* Times are nanoseconds of the raw trace clock. The trace declares it as CLOCK_MONOTONIC (clock id
 * 3), which readers need not convert. If clock_offset_ns is not 0, the trace states that adding it
 * gives CLOCK_REALTIME; otherwise it states no time of day. The path must be a regular file or not
 * exist. Returns NULL and *err on failure. */
vg_perfetto *vg_perfetto_open(const char *path, int64_t clock_offset_ns, GError **err);

/* Closes open slices at end_ns, or at the last event of their track if that is later, and renames
 * the file to its final name. On failure returns -1 and *err naming the file, and removes the
 * file. Only _stats() and _free() may follow. */
int vg_perfetto_close(vg_perfetto *trace, int64_t end_ns, GError **err);

/* Removes the file unless _close() was called before. */
void vg_perfetto_free(vg_perfetto *trace);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_perfetto, vg_perfetto_free)

/* Returns whether an error is pending for _close(), so that the caller may stop early. */
bool vg_perfetto_failed(const vg_perfetto *trace);

struct vg_perfetto_stats vg_perfetto_stats(const vg_perfetto *trace);

/* ---- tracks: a track's number is never 0; parent 0 means no parent ---- */

uint64_t vg_perfetto_track(vg_perfetto *trace, uint64_t parent, const char *name);
uint64_t vg_perfetto_track_process(vg_perfetto *trace, const char *name, int32_t pid);
uint64_t vg_perfetto_track_thread(vg_perfetto *trace, uint64_t parent, const char *name,
                                  int32_t pid, int32_t tid);

/* Accepts only counter values. unit is "%", "requests", ... or NULL. */
uint64_t vg_perfetto_track_counter(vg_perfetto *trace, uint64_t parent, const char *name,
                                   const char *unit);

/* ---- events: dropped and counted on track 0; category may be NULL ---- */

void vg_perfetto_slice_begin(vg_perfetto *trace, uint64_t track, int64_t t_ns, const char *name,
                             const char *category);
void vg_perfetto_slice_end(vg_perfetto *trace, uint64_t track, int64_t t_ns);
void vg_perfetto_counter_int(vg_perfetto *trace, uint64_t track, int64_t t_ns, int64_t value);
void vg_perfetto_counter_double(vg_perfetto *trace, uint64_t track, int64_t t_ns, double value);

/* ---- for the slice started last, before any other call ---- */

/* A flow connects each event that has its id to the next in time. The last event should use
 * _flow_end(). An id is used for only one flow. */
void vg_perfetto_add_flow(vg_perfetto *trace, uint64_t flow);
void vg_perfetto_add_flow_end(vg_perfetto *trace, uint64_t flow);

/* Annotations, which are shown when the user selects the event. */
void vg_perfetto_add_int(vg_perfetto *trace, const char *name, int64_t value);
void vg_perfetto_add_text(vg_perfetto *trace, const char *name, const char *text);

#endif
