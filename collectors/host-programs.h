/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads how much CPU time each program of the host used, from /proc/PID/stat of all processes.
 * Everything is counted that belongs to no VM, the kernel's own threads included.
 *
 * A process that ended between two readings is gone from /proc, but the kernel has added its time
 * to that of the process that waited for it. What a process gained in this way counts as its own,
 * less what was counted already. So `make` is named for compilers that ran for a second each. A
 * parent that lost a VM gains all the time of that VM, which is not the host's; its gain is left
 * out.
 *
 * One thread.
 */
#ifndef VG_COLLECTORS_HOST_PROGRAMS_H
#define VG_COLLECTORS_HOST_PROGRAMS_H

#include <stdint.h>

#include "host/proc-scan.h"
#include "model/window.h"

typedef struct vg_host_programs vg_host_programs;

/* proc is "/proc" except in tests; borrowed. tick_ns: the unit of times in stat. n_cpus: of the
 * host. */
vg_host_programs *vg_host_programs_new(const char *proc, int64_t tick_ns, int64_t n_cpus);
void vg_host_programs_free(vg_host_programs *programs); /* NULL is fine */

/* Fills window->programs if it is time to read: where the window, of which the end since the epoch
 * is given, ends a period of 10 seconds, and so much time has passed since the last reading that
 * readings take at most a thousandth of a CPU. scan: as of this window. */
void vg_host_programs_read(vg_host_programs *programs, const vg_proc_scan *scan,
                           int64_t end_epoch_ns, struct vg_window *window);

#endif
