/* SPDX-License-Identifier: Apache-2.0
 *
 * The names and control groups of processes of the host, for those few that are told of. What was
 * read of /proc is kept as long as a process is asked for again. One thread.
 */
#ifndef VG_COLLECTORS_PROCESS_NAMES_H
#define VG_COLLECTORS_PROCESS_NAMES_H

#include <glib.h>

#include "collectors/bpf-shared.h"
#include "model/window.h"

typedef struct vg_process_names vg_process_names;

/* proc: "/proc" but in tests. */
vg_process_names *vg_process_names_new(const char *proc);
void vg_process_names_free(vg_process_names *names); /* NULL is fine */

/* Sets comm and cgroup of a process. Its name is the one that the kernel's programs saw, which
 * outlives it; without that the one of /proc. What is in /proc only is missing once it has gone.
 * seen: VG_BPF_NAMES of them. */
void vg_process_names_fill(vg_process_names *names, const struct vg_bpf_name *seen,
                           struct vg_lost_process *process);

/* Once a window: forgets those who were not asked for in a while. */
void vg_process_names_settle(vg_process_names *names);

#endif
