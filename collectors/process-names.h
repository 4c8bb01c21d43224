/* SPDX-License-Identifier: Apache-2.0
 *
 * The names and control groups of the few host processes that are reported. Text from /proc is
 * cached while requests for the process continue. One thread.
 */
#ifndef VG_COLLECTORS_PROCESS_NAMES_H
#define VG_COLLECTORS_PROCESS_NAMES_H

#include <glib.h>

#include "collectors/bpf-shared.h"
#include "model/window.h"

typedef struct vg_process_names vg_process_names;

/* Creates an empty list. proc is "/proc" except in tests. */
vg_process_names *vg_process_names_new(const char *proc);
void vg_process_names_free(vg_process_names *names); /* NULL is fine */

/* Sets comm and cgroup of a process. The name is the name that the BPF programs saw, which remains
 * after the process has ended, or else the name in /proc. After the process has ended, data that
 * only /proc has are missing. seen: VG_BPF_NAMES of them. */
void vg_process_names_fill(vg_process_names *names, const struct vg_bpf_name *seen,
                           struct vg_lost_process *process);

/* Forgets processes that were not requested for a while. Call once per window. */
void vg_process_names_settle(vg_process_names *names);

#endif
