/* SPDX-License-Identifier: Apache-2.0
 *
 * Child processes with a time limit, after which they are abandoned, and waits that a signal ends.
 * For worker processes, which have called vg_guest_child_init(); they handle one child at a
 * time.
 */
#ifndef VG_GUEST_CHILD_H
#define VG_GUEST_CHILD_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The time between SIGTERM and SIGKILL. */
#define VG_GUEST_TERM_MS 2000
/* The maximum number of bytes of a child's output that are kept, which are the last ones. */
#define VG_GUEST_OUTPUT_MAX 2048

enum vg_guest_stop {
    VG_GUEST_STOP_NONE,
    /* SIGUSR1: the current task must end and be undone. */
    VG_GUEST_STOP_CANCEL,
};

struct vg_guest_child_end {
    /* The exit status, or the signal that ended it. */
    int exit, signal;
    /* It was terminated because of a timeout or because the work was cancelled. */
    bool ended_early;
    /* It did not end even when killed, and was abandoned. */
    bool stuck;
    int64_t ms;
    char output[VG_GUEST_OUTPUT_MAX + 1];
};

/* Handles signals: SIGUSR1 as above; SIGTERM ends this process and kills its child. Both, and
 * SIGCHLD, arrive only while this process waits. */
void vg_guest_child_init(void);

/* Returns whether and how the work must end. */
enum vg_guest_stop vg_guest_child_stop(void);
/* Ignores SIGUSR1 from now on, since undoing cannot be cancelled. */
void vg_guest_child_ignore_cancel(void);

/* Waits until one of the files is ready, a signal has come, or until_ms has passed. If the agent
 * has ended, so does this process. */
void vg_guest_child_wait(struct pollfd *fds, size_t n, int64_t until_ms);

/* Waits until until_ms has passed, or the work must end. */
void vg_guest_child_sleep(int64_t until_ms);

/* Runs a program in its own process group, and stores its output and errors; its input is
 * empty. PATH is searched if its name has no slash. argv and env end with NULL. Returns 0, or an
 * errno if it cannot be started. */
int vg_guest_child_run(const char *const *argv, char *const *env, int64_t until_ms,
                       struct vg_guest_child_end *ret);

/* Forks a process that calls run with the file fd, has no files open except its standard files, and
 * dies with the worker process. Returns its pid, or -1. The caller waits for it; there may be any
 * number of them. */
pid_t vg_guest_child_start(void (*run)(int fd), int fd);

/* Results of a write that was not completed in time: its process could be ended, or could not be
 * ended. */
enum { VG_GUEST_WRITE_ENDED = -1, VG_GUEST_WRITE_STUCK = -2 };

/* Writes text to a file of sysfs, which may block indefinitely. Returns 0, an errno, or one of
 * these results. */
int vg_guest_child_write(const char *path, const char *text, int64_t until_ms);

#endif
