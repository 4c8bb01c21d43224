/* SPDX-License-Identifier: Apache-2.0
 *
 * The names and control groups of those few processes of the host that are reported. Text from
 * /proc is kept as long as a process is asked for. One thread.
 */
#ifndef VG_COLLECTORS_PROCESS_NAMES_H
#define VG_COLLECTORS_PROCESS_NAMES_H

#include <glib.h>

#include "collectors/bpf-shared.h"
#include "model/window.h"

typedef struct vg_process_names vg_process_names;

/* Makes an empty list. proc: "/proc" except in tests. */
vg_process_names *vg_process_names_new(const char *proc);
void vg_process_names_free(vg_process_names *names); /* NULL is fine */

/* Sets comm and cgroup of a process. The name is the one that the kernel's programs saw, which
 * outlives the process, or else that in /proc. Once the process has gone, parts that only /proc
 * tells are missing. seen: VG_BPF_NAMES of them. */
void vg_process_names_fill(vg_process_names *names, const struct vg_bpf_name *seen,
                           struct vg_lost_process *process);

/* Forgets processes that were not asked for in a while; called once a window. */
void vg_process_names_settle(vg_process_names *names);

#endif
