/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a trace that ui.perfetto.dev and trace_processor read: tracks with slices and
 * counters, and flows (arrows) between slices. In memory is only what is known of each track.
 *
 * What a reader relies on is made so whatever the caller does, and counted: times on a track never
 * run backwards (an earlier one becomes that of the event before it), an end belongs to the
 * innermost open slice of its track (one without a slice is left out), and every slice is closed.
 * Between tracks, events come in any order.
 *
 * An error of the file is kept until vg_perfetto_close() tells it; until then nothing more is
 * written. The path holds what it held before, or nothing, until the trace is complete.
 * One thread at a time.
 */
#ifndef VG_TRACE_PERFETTO_WRITE_H
#define VG_TRACE_PERFETTO_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/* Different names of events, categories and annotations, each, that are written only once. Those
 * beyond are written each time. */
#define VG_PERFETTO_NAMES_MAX 4096

/* Bytes of a name or a text; what is longer is cut. */
#define VG_PERFETTO_TEXT_MAX 1024

typedef struct vg_perfetto vg_perfetto;

struct vg_perfetto_stats {
    uint64_t events;   /* written, also those that close what was left open */
    uint64_t clamped;  /* events moved to the time of the one before them on their track */
    uint64_t no_begin; /* ends without a slice, left out */
    uint64_t no_track; /* events for track 0, left out */
    uint64_t closed;   /* slices that vg_perfetto_close() ended */
};

/* Times are nanoseconds of the raw trace clock. Readers are told that it is CLOCK_MONOTONIC (clock
 * id 3), which they need not convert, and that clock_offset_ns later it is CLOCK_REALTIME; with an
 * offset of 0 they are told nothing of the time of day. The path must be that of a file, or of
 * none. NULL and *err. */
vg_perfetto *vg_perfetto_open(const char *path, int64_t clock_offset_ns, GError **err);

/* Closes open slices at end_ns, or at the last event of their track if that is later, and gives the
 * file its name. -1 and *err naming the file: nothing is left of it. Nothing but _stats() and
 * _free() may follow. */
int vg_perfetto_close(vg_perfetto *trace, int64_t end_ns, GError **err);

/* Without _close() before it, nothing is left of the file. */
void vg_perfetto_free(vg_perfetto *trace);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_perfetto, vg_perfetto_free)

/* An error is waiting for _close(): the caller may as well stop. */
bool vg_perfetto_failed(const vg_perfetto *trace);

struct vg_perfetto_stats vg_perfetto_stats(const vg_perfetto *trace);

/* ---- tracks: a number that is never 0; parent 0: none ---- */

uint64_t vg_perfetto_track(vg_perfetto *trace, uint64_t parent, const char *name);
uint64_t vg_perfetto_track_process(vg_perfetto *trace, const char *name, int32_t pid);
uint64_t vg_perfetto_track_thread(vg_perfetto *trace, uint64_t parent, const char *name,
                                  int32_t pid, int32_t tid);

/* Takes only counter values; unit: "%", "requests", ... or NULL. */
uint64_t vg_perfetto_track_counter(vg_perfetto *trace, uint64_t parent, const char *name,
                                   const char *unit);

/* ---- events: on track 0 they are left out and counted; category may be NULL ---- */

void vg_perfetto_slice_begin(vg_perfetto *trace, uint64_t track, int64_t t_ns, const char *name,
                             const char *category);
void vg_perfetto_slice_end(vg_perfetto *trace, uint64_t track, int64_t t_ns);
void vg_perfetto_counter_int(vg_perfetto *trace, uint64_t track, int64_t t_ns, int64_t value);
void vg_perfetto_counter_double(vg_perfetto *trace, uint64_t track, int64_t t_ns, double value);

/* ---- of the slice that was begun last, before any other call ---- */

/* A flow goes from each event that has its id to the next one in time. The last event should say
 * that it is the last. An id is used for one flow only. */
void vg_perfetto_add_flow(vg_perfetto *trace, uint64_t flow);
void vg_perfetto_add_flow_end(vg_perfetto *trace, uint64_t flow);

/* Shown when the event is looked at. */
void vg_perfetto_add_int(vg_perfetto *trace, const char *name, int64_t value);
void vg_perfetto_add_text(vg_perfetto *trace, const char *name, const char *text);

#endif
