/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes behind host:user, and the host's programs by CPU time. In memory a process is a
 * key, which is its name and its control group in one; on disk they are rows of `process` and
 * `took`, of minutes and hours only.
 */
#ifndef VG_STORE_STORE_TOOK_H
#define VG_STORE_STORE_TOOK_H

#include "store/store-total.h"

/* So many are stored of a VM, and of the host: in minutes, and in hours. */
#define VG_STORE_TOOK_MINUTE 8
#define VG_STORE_TOOK_HOUR   16

/* The vm of rows of `took` that are programs by CPU time. No VM has it, so that versions which do
 * not know such rows pass over them. */
#define VG_STORE_TOOK_PROGRAMS INT64_MAX

/* Adds what a window tells of processes to the sums of which it is a part. */
void vg_store_took_add_window(struct vg_store_total *total, const struct vg_store_window *window);

/* Adds the rows of a row of `win` of the reader's file. Returns 0 or -1. */
int vg_store_took_read(struct vg_store_total_reader *reader, int64_t win, GError **err);

/* Adds only the programs by CPU time of a row of `win` to an array (struct vg_store_loss, numbers
 * of the total); *floor_ns: as that of a total. Returns 0 or -1. */
int vg_store_took_read_programs(struct vg_store_file *file, int64_t win,
                                struct vg_store_total *names, GArray *programs, int64_t *floor_ns,
                                GError **err);

/* Inserts the `top` of these (struct vg_store_loss, numbers of the total), which are cut to them.
 * vm: 0 for the host, or VG_STORE_TOOK_PROGRAMS. Returns 0 or -1. */
int vg_store_took_write(struct vg_store_file *file, int64_t win, int64_t vm,
                        const struct vg_store_total *total, GArray *processes, int64_t top,
                        GError **err);

/* Adds the processes of a total to those of another one. */
void vg_store_took_add(struct vg_store_total *total, const struct vg_store_total *more);

/* Makes a struct vg_history_process of each, most ns first, of at most so many. The caller unrefs
 * it. */
GArray *vg_store_took_list(const struct vg_store_total *total, GArray *processes, int64_t top);

#endif
