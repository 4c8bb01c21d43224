/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that holds threads of another process if they fault while that process is stopped.
 * Threads that do not fault never notice it. Any process of the agent can send it these signals:
 *
 *   SIGUSR1  the process is locked: mappings that it has made since count as its own, too
 *   SIGUSR2  the memory is restored: held threads continue and repeat their access
 *   SIGTERM  the process runs again: the same, and no thread is held any more. This process
 *            ends soon, or immediately at the second of these signals
 */
#ifndef VG_GUEST_HOLD_TRACER_H
#define VG_GUEST_HOLD_TRACER_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    VG_GUEST_HOLD_LOCKED = SIGUSR1,
    VG_GUEST_HOLD_REPEAT = SIGUSR2,
    VG_GUEST_HOLD_END = SIGTERM,
};

enum vg_guest_hold_outcome {
    /* All threads are traced. */
    VG_GUEST_HOLD_READY,
    /* The mappings were read after the lock. */
    VG_GUEST_HOLD_NOTED,
    /* Another process traces it. */
    VG_GUEST_HOLD_TRACED,
    /* Some of its threads can be traced, and others not. */
    VG_GUEST_HOLD_PARTLY,
    /* No process may be traced, or the file that identifies the tracer cannot be written. */
    VG_GUEST_HOLD_IMPOSSIBLE,
    /* It has ended. */
    VG_GUEST_HOLD_GONE,
};

struct vg_guest_hold_report {
    enum vg_guest_hold_outcome outcome;
    /* The reason, starting with "it" or a process; may be empty. */
    char why[200];
};

/* Traces the process, and reports to the file fd, whose other end may be closed by then. Runs in a
 * separate process, which this ends. root is as in vg_guest_devices_read(); start is the start of
 * the process pid. */
_Noreturn void vg_guest_hold_trace(const char *root, pid_t pid, uint64_t start, int fd);

#endif
