/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads each host program's CPU time from /proc/PID/stat of all processes. Everything that does
 * not belong to a VM is counted, including the kernel's threads.
 *
 * A process that ended between two readings is no longer in /proc, but the kernel has added its
 * time to the process that waited for it. That gain counts as the waiting process's own time,
 * minus the part already counted. So `make` is charged for compilers that ran for a second each. A
 * parent whose VM has ended gains the VM's entire time, which is not the host's; this gain is
 * ignored.
 *
 * One thread.
 */
#ifndef VG_COLLECTORS_HOST_PROGRAMS_H
#define VG_COLLECTORS_HOST_PROGRAMS_H

#include <stdint.h>

#include "host/proc-scan.h"
#include "model/window.h"

typedef struct vg_host_programs vg_host_programs;

/* proc is "/proc" except in tests; borrowed. tick_ns is the unit of times in stat. n_cpus is the
 * host's number of CPUs. */
vg_host_programs *vg_host_programs_new(const char *proc, int64_t tick_ns, int64_t n_cpus);
void vg_host_programs_free(vg_host_programs *programs); /* NULL is fine */

/* Fills window->programs if a reading is due. That is the case if the window, whose end since the
 * epoch is given, ends a period of 10 seconds. In addition, enough time must have passed that
 * readings take at most a thousandth of a CPU. scan: of this window. */
void vg_host_programs_read(vg_host_programs *programs, const vg_proc_scan *scan,
                           int64_t end_epoch_ns, struct vg_window *window);

#endif
