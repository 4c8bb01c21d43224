/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker process of the agent. Its reads and writes may block indefinitely, and its libraries
 * may crash, without affecting the agent. Its lines are sent through a pipe, each with a letter
 * before it.
 */
#ifndef VG_GUEST_WORKER_H
#define VG_GUEST_WORKER_H

#include <stdint.h>
#include <sys/types.h>

#include "guest/work.h"

/* The kinds of lines: progress for the host, the state that resuming needs, the milliseconds that
 * undoing may take from now on, or the last line, by outcome of the work. */
enum vg_guest_tag {
    VG_GUEST_TAG_PROGRESS = 'P',
    VG_GUEST_TAG_KEEP = 'K',
    VG_GUEST_TAG_TIME = 'T',
    VG_GUEST_TAG_DONE = 'D',
    VG_GUEST_TAG_UNTOUCHED = 'N',
    VG_GUEST_TAG_UNDONE = 'U',
    VG_GUEST_TAG_BROKEN = 'B',
};

typedef void vg_guest_work_fn(const struct vg_guest_config *config,
                              const struct vg_guest_order *order, int out);
typedef void vg_guest_worker_fn(void *user, enum vg_guest_tag tag, const char *line);

struct vg_guest_worker {
    /* 0 if it is not running. */
    pid_t pid;
    int fd;
    char *data;
    size_t size;
};

/* Starts a process, which runs `run`. Returns 0, or an errno. The process closes all files except
 * its standard files and its pipe. */
int vg_guest_worker_start(struct vg_guest_worker *worker, vg_guest_work_fn *run,
                          const struct vg_guest_config *config, const struct vg_guest_order *order);

/* Reads the lines that have arrived. Returns 1 while the process runs, 0 once it has ended. */
int vg_guest_worker_read(struct vg_guest_worker *worker, vg_guest_worker_fn *on_line, void *user);

/* Kills the process without waiting for it. */
void vg_guest_worker_give_up(struct vg_guest_worker *worker);

/* Sends a line to the agent. Called by the process itself. */
void vg_guest_worker_report(int out, enum vg_guest_tag tag, const char *line);

#endif
