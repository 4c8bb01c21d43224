/* SPDX-License-Identifier: Apache-2.0
 *
 * The files in /proc about one thread, kept open if file descriptors permit. Rereading an open
 * file costs a third of opening it, and the file never refers to another thread with the same tid.
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
    uint64_t start_ticks; /* start of the thread */
    int32_t cpu;          /* last CPU that it ran on, or VG_NONE */
};

struct vg_vcpu_files {
    int32_t pid;
    int32_t tid;
    int fds[VG_VCPU_FILE_MAX]; /* -1 if it is opened for each reading */
    bool by_ticks;             /* run time comes from `stat` because schedstat does not have it */
    bool no_schedstat;         /* the same, permanently */
    /* The last reading. While schedstat is unchanged, so is the rest. */
    struct vg_proc_schedstat schedstat;
    struct vg_vcpu_moment moment;
};

/* Open and close. fds_left is the number of descriptors that may still be used; open decreases it
 * and close increases it. */
void vg_vcpu_files_open(struct vg_vcpu_files *files, const char *proc, int32_t pid, int32_t tid,
                        int *fds_left);
void vg_vcpu_files_close(struct vg_vcpu_files *files, int *fds_left);

/* Reads the files. Returns false if the thread has ended. tick_ns is the unit of `stat`. */
bool vg_vcpu_files_read(struct vg_vcpu_files *files, const char *proc, int64_t tick_ns,
                        struct vg_vcpu_moment *ret);

#endif
