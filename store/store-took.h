/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of host:user, and host programs by CPU time. In memory, a process is a key that
 * combines its name and control group. On disk, processes are rows of `process` and `took`, for
 * minutes and hours only.
 */
#ifndef VG_STORE_STORE_TOOK_H
#define VG_STORE_STORE_TOOK_H

#include "store/store-total.h"

/* Maximum number of processes stored per VM and for the host: in a minute, and in an hour. */
#define VG_STORE_TOOK_MINUTE 8
#define VG_STORE_TOOK_HOUR   16

/* The vm of rows of `took` for programs by CPU time. No VM has this number, so versions that do not
 * know such rows skip them. */
#define VG_STORE_TOOK_PROGRAMS INT64_MAX

/* Adds the processes of a window to the sums that the window is a part of. */
void vg_store_took_add_window(struct vg_store_total *total, const struct vg_store_window *window);

/* Adds the processes that belong to a row of `win`, from the reader's file. Returns 0 or -1. */
int vg_store_took_read(struct vg_store_total_reader *reader, int64_t win, GError **err);

/* Adds only the programs of a row, with their CPU time, to an array (struct vg_store_loss, whose
 * aggressors are numbers of the total). *floor_ns: as in struct vg_store_total. Returns 0 or -1. */
int vg_store_took_read_programs(struct vg_store_file *file, int64_t win,
                                struct vg_store_total *names, GArray *programs, int64_t *floor_ns,
                                GError **err);

/* Inserts the largest `top` entries of the array (struct vg_store_loss, whose aggressors are
 * numbers of the total), and removes all others from the array. vm: 0 for the host, or
 * VG_STORE_TOOK_PROGRAMS. Returns 0 or -1. */
int vg_store_took_write(struct vg_store_file *file, int64_t win, int64_t vm,
                        const struct vg_store_total *total, GArray *processes, int64_t top,
                        GError **err);

/* Adds the processes of one total to another. */
void vg_store_took_add(struct vg_store_total *total, const struct vg_store_total *more);

/* Returns a struct vg_history_process for each of the `top` processes, most ns first. The caller
 * unrefs it. */
GArray *vg_store_took_list(const struct vg_store_total *total, GArray *processes, int64_t top);

#endif
