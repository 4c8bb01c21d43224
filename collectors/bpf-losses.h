/* SPDX-License-Identifier: Apache-2.0
 *
 * For whom threads waited: out of the records of the BPF programs, and the cells that take what
 * does not fit into those, what is new since the last time. One thread at a time.
 */
#ifndef VG_COLLECTORS_BPF_LOSSES_H
#define VG_COLLECTORS_BPF_LOSSES_H

#include <stdint.h>

#include <glib.h>

#include "collectors/bpf-record.h"

/* A copy of the cells. */
typedef struct vg_bpf_cells vg_bpf_cells;

vg_bpf_cells *vg_bpf_cells_new(int map_fd);
void vg_bpf_cells_free(vg_bpf_cells *cells); /* NULL is fine */

/* Reads them anew if anything was evicted into them since the last time, once before the threads
 * are read; what processes have there is taken out of the kernel. */
void vg_bpf_cells_update(vg_bpf_cells *cells, uint64_t evictions);

/* Deletes those of a slot, here and in the kernel. */
void vg_bpf_cells_delete(vg_bpf_cells *cells, uint32_t slot);

/* What has been told of one thread's losses. */
typedef struct vg_bpf_given vg_bpf_given;

vg_bpf_given *vg_bpf_given_new(void);
void vg_bpf_given_free(vg_bpf_given *given);

/* Who is told what is new: of a holder, where all processes are VG_BPF_HOLDER_USER together; and of
 * one process, which is a part of that and never more than it. */
struct vg_bpf_losses_sink {
    void *data;
    void (*tell)(void *data, uint32_t holder, int64_t ns, uint64_t count);
    void (*tell_process)(void *data, int32_t pid, int64_t ns, uint64_t count);
};

/* Tells what is new in a reading of the thread at slot. waited_ns: that long has it waited since
 * the last reading, which is what all ns sum up to. The holder of a wait that goes on may be
 * corrected when it ends; nothing is ever taken back, so that a holder to whom too much was given
 * gets less later. */
void vg_bpf_given_take(vg_bpf_given *given, const struct vg_bpf_reading *reading, uint32_t slot,
                       const vg_bpf_cells *cells, int64_t waited_ns,
                       const struct vg_bpf_losses_sink *sink);

/* After a reading that has less waits than the one before: a wait that was told was none, and who
 * was told to have the CPU meanwhile gets all of what it has from now on. */
void vg_bpf_given_forgive(vg_bpf_given *given);

#endif
