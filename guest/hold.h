/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds threads that fault while their process is stopped, because its memory was taken away
 * temporarily. The process that holds them (guest/hold-tracer.h) survives the process that starts
 * it, and any other process can find it through its file (guest/hold-file.h). For a worker process
 * (guest/child.h).
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
    /* -1 if it has not been started or no longer answers. */
    int fd;
    /* Its last answer. */
    struct vg_guest_hold_report report;
};

/* Starts a tracer of this process, which has that start time. A previous tracer ends first. root
 * is as in vg_guest_devices_read(). */
void vg_guest_hold_start(const char *root, pid_t pid, uint64_t start,
                         struct vg_guest_hold_link *ret);

/* Waits for one answer of each link that has a tracer, at most until until_ms or the end of the
 * work. A tracer that does not answer continues; its report is VG_GUEST_HOLD_PARTLY. */
void vg_guest_hold_wait(struct vg_guest_hold_link *links, size_t n, int64_t until_ms);

/* Makes the tracer of a link end, if it still answers. */
void vg_guest_hold_drop(struct vg_guest_hold_link *link);

/* Sends a signal of guest/hold-tracer.h to the tracer of this process. Returns 0, or -1 if it has
 * no tracer. */
int vg_guest_hold_signal(const char *root, pid_t pid, uint64_t start, int number);

/* Waits until the tracer of this process, which was requested to end, has ended or released all
 * threads. Returns 0, or -1 if that takes too long. */
int vg_guest_hold_wait_for_end(const char *root, pid_t pid, uint64_t start);

#endif
