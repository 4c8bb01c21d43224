/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of /proc about one thread, held open where file descriptors allow it: reading an open
 * one again costs a third of opening it, and it never speaks of another thread with the same tid.
 * One thread at a time.
 */
#ifndef VG_COLLECTORS_VCPU_FILES_H
#define VG_COLLECTORS_VCPU_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "collectors/vcpu-meter.h"
#include "host/proc-text.h"

enum { VG_VCPU_FILE_SCHEDSTAT, VG_VCPU_FILE_STAT, VG_VCPU_FILE_STATUS, VG_VCPU_FILE_MAX };

struct vg_vcpu_moment {
    struct vg_vcpu_reading counters;
    uint64_t start_ticks; /* of the thread */
    int32_t cpu;          /* that it was on last, or VG_NONE */
};

struct vg_vcpu_files {
    int32_t pid;
    int32_t tid;
    int fds[VG_VCPU_FILE_MAX]; /* -1: opened at each reading */
    bool by_ticks;             /* run time is that of `stat`: schedstat says nothing */
    bool no_schedstat;         /* the same, decided for good */
    /* Of the last reading: as long as schedstat says the same, so does the rest. */
    struct vg_proc_schedstat schedstat;
    struct vg_vcpu_moment moment;
};

/* fds_left: how many descriptors may still be taken; counted down, and up by close. */
void vg_vcpu_files_open(struct vg_vcpu_files *files, const char *proc, int32_t pid, int32_t tid,
                        int *fds_left);
void vg_vcpu_files_close(struct vg_vcpu_files *files, int *fds_left);

/* false: there is no such thread any more. tick_ns: the unit of `stat`. */
bool vg_vcpu_files_read(struct vg_vcpu_files *files, const char *proc, int64_t tick_ns,
                        struct vg_vcpu_moment *ret);

#endif
