/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of `vgpuctl record`: methods of recording, one per tracer, and common code. SIGINT,
 * SIGTERM and SIGHUP are blocked and read from a file descriptor. The first signal ends the
 * recording early, the next also cancels the remaining processing. One thread.
 *
 * trace/wanted-events lists the tracepoints; record-*.c obtain them, best method first:
 *
 *   record-lttng    trace/lttng-session (liblttng-ctl) -> CTF
 *   record-perf     child: perf record, controlled by a pipe -> perf data convert -> CTF
 *   record-tracefs  an instance's trace_pipe -> text
 *   each of them    record-vms: the names of the VMs; record-dir: the place
 */
#ifndef VG_CLI_RECORD_H
#define VG_CLI_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "cli/child.h"

struct vg_record_context {
    const char *dir; /* absolute; the recording goes there */
    int signal_fd;
    bool interrupted; /* a signal has arrived */
    GPtrArray *notes; /* char *, owned: notes about the recording for the user */
};

/* A method of recording. Its functions are called in the order given here. */
struct vg_record_way {
    const char *name;
    const char *trace; /* path for `analyze`, below the directory */
    /* Starts to record. Returns the method's state, or NULL on failure; then only files in the
     * directory remain. */
    void *(*start)(struct vg_record_context *context, GError **err);
    /* Called at least ten times a second; NULL if not needed. Returns 1 if there is more to do
     * immediately, otherwise 0, or -1 on failure. */
    int (*tick)(void *way, struct vg_record_context *context, GError **err);
    /* Stops, and converts the recording into the form that `analyze` reads. */
    int (*finish)(void *way, struct vg_record_context *context, uint64_t *ret_lost, GError **err);
    /* Stops everything that is still running, and removes files that are not part of the recording.
     */
    void (*free)(void *way);
};

extern const struct vg_record_way vg_record_lttng;
extern const struct vg_record_way vg_record_perf;
extern const struct vg_record_way vg_record_tracefs;

void vg_record_note(struct vg_record_context *context, const char *fmt, ...) G_GNUC_PRINTF(2, 3);
void vg_record_note_missing(struct vg_record_context *context, const GPtrArray *missing);

/* Waits at most timeout_ms. Returns whether a signal has arrived since the last call. */
bool vg_record_signalled(struct vg_record_context *context, int timeout_ms);

/* Waits until a child, described by what, ends, a signal arrives, or the disk has too little space.
 * Fails if the child does. */
int vg_record_wait(struct vg_record_context *context, vg_child *child, const char *what,
                   int64_t timeout_ns, GError **err);

/* A vg_has_event for VG_DIALECT_KERNEL; data is vg_tracefs_root(). */
bool vg_record_tracefs_has(const void *data, const char *name);

#endif
