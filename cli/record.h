/* SPDX-License-Identifier: Apache-2.0
 *
 * What `vgpuctl record` is made of: ways to record, which know a tracer each, and what they share.
 * SIGINT, SIGTERM and SIGHUP are blocked and come through a file descriptor: the first one ends the
 * recording early, another one ends what is still done with it. One thread.
 *
 * trace/wanted-events says which tracepoints, record-*.c how to get them, the best way first:
 *
 *   record-lttng    trace/lttng-session (liblttng-ctl) -> CTF
 *   record-perf     child: perf record, told when through a pipe -> perf data convert -> CTF
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
    bool interrupted; /* a signal has come */
    GPtrArray *notes; /* char *, owned: what a person should know about the recording */
};

/* A way to record. Its functions are called in the order in which they stand here. */
struct vg_record_way {
    const char *name;
    const char *trace; /* what `analyze` is to be given, below the directory */
    /* Begins to record; the way's own, or NULL, and then nothing of it is left but in the
     * directory. */
    void *(*start)(struct vg_record_context *context, GError **err);
    /* At least ten times a second; NULL: nothing is to be done meanwhile. 1: there is more to do at
     * once; else 0, or -1. */
    int (*tick)(void *way, struct vg_record_context *context, GError **err);
    /* Stops, and makes of what was recorded what `analyze` reads. */
    int (*finish)(void *way, struct vg_record_context *context, uint64_t *ret_lost, GError **err);
    /* Stops what runs still, and takes away what is not the recording. */
    void (*free)(void *way);
};

extern const struct vg_record_way vg_record_lttng;
extern const struct vg_record_way vg_record_perf;
extern const struct vg_record_way vg_record_tracefs;

void vg_record_note(struct vg_record_context *context, const char *fmt, ...) G_GNUC_PRINTF(2, 3);
void vg_record_note_missing(struct vg_record_context *context, const GPtrArray *missing);

/* Waits at most timeout_ms; whether a signal has come since the last call. */
bool vg_record_signalled(struct vg_record_context *context, int timeout_ms);

/* Waits for the end of a child that what names, as long as no signal comes and the disk has room;
 * fails if the child does. */
int vg_record_wait(struct vg_record_context *context, vg_child *child, const char *what,
                   int64_t timeout_ns, GError **err);

/* A vg_has_event for VG_DIALECT_KERNEL; data is vg_tracefs_root(). */
bool vg_record_tracefs_has(const void *data, const char *name);

#endif
