/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds threads that fault while their process is stopped: its memory is away, and comes back. The
 * process that holds them (guest/hold-tracer.h) survives the one that starts it, and any other
 * finds it by its file (guest/hold-file.h). For a worker process (guest/child.h).
 */
#ifndef VG_GUEST_HOLD_H
#define VG_GUEST_HOLD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest/hold-tracer.h"

/* A tracer that this process has started. */
struct vg_guest_hold_link {
    /* The process that it traces, and itself. */
    pid_t pid, tracer;
    /* -1 if it has not been started, or answers no more. */
    int fd;
    /* Its last answer. */
    struct vg_guest_hold_report report;
};

/* Starts a tracer of this process, which has that start. If one from before is left, that one ends
 * first. root is as for vg_guest_devices_read(). */
void vg_guest_hold_start(const char *root, pid_t pid, uint64_t start,
                         struct vg_guest_hold_link *ret);

/* Waits for one answer of each link that has a tracer, at most until until_ms or the end of the
 * work. A tracer that does not answer continues; its report is VG_GUEST_HOLD_PARTLY. */
void vg_guest_hold_wait(struct vg_guest_hold_link *links, size_t n, int64_t until_ms);

/* Has the tracer of a link end, if it still answers. */
void vg_guest_hold_drop(struct vg_guest_hold_link *link);

/* Sends one of the signals of guest/hold-tracer.h to the tracer of this process, if there is one.
 * Returns 0, or -1 if there is none. */
int vg_guest_hold_signal(const char *root, pid_t pid, uint64_t start, int number);

/* Waits until the tracer of this process has ended, or has let all threads go: it was told to.
 * Returns 0, or -1 if that takes too long. */
int vg_guest_hold_wait_for_end(const char *root, pid_t pid, uint64_t start);

#endif
