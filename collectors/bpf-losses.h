/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells for whom threads waited since the last reading, from the records of the BPF programs and
 * from the cells that take shares for which the records have no room. One thread at a time.
 */
#ifndef VG_COLLECTORS_BPF_LOSSES_H
#define VG_COLLECTORS_BPF_LOSSES_H

#include <stdint.h>

#include <glib.h>

#include "collectors/bpf-record.h"

/* The copy of the cells. */
typedef struct vg_bpf_cells vg_bpf_cells;

vg_bpf_cells *vg_bpf_cells_new(int map_fd);
void vg_bpf_cells_free(vg_bpf_cells *cells); /* NULL is fine */

/* Reads the cells anew if anything was evicted into them since the last time; call it once before
 * the threads are read. Cells of processes are removed from the kernel. */
void vg_bpf_cells_update(vg_bpf_cells *cells, uint64_t evictions);

/* Deletes the cells of a slot, here and in the kernel. */
void vg_bpf_cells_delete(vg_bpf_cells *cells, uint32_t slot);

/* The part of one thread's losses that was already reported. */
typedef struct vg_bpf_given vg_bpf_given;

vg_bpf_given *vg_bpf_given_new(void);
void vg_bpf_given_free(vg_bpf_given *given);

/* A receiver of new losses: those to a holder, with all processes as VG_BPF_HOLDER_USER together;
 * and those to one process, which are a part of these. */
struct vg_bpf_losses_sink {
    void *data;
    void (*tell)(void *data, uint32_t holder, int64_t ns, uint64_t count);
    void (*tell_process)(void *data, int32_t pid, int64_t ns, uint64_t count);
};

/* Reports new losses of the thread at slot. waited_ns: how long it has waited since the last
 * reading; all reported ns add up to this. The holder in an open wait may be corrected when the
 * wait ends; nothing is ever taken back, so a holder that got too much gets less later. */
void vg_bpf_given_take(vg_bpf_given *given, const struct vg_bpf_reading *reading, uint32_t slot,
                       const vg_bpf_cells *cells, int64_t waited_ns,
                       const struct vg_bpf_losses_sink *sink);

/* Handles a reading with fewer waits than the one before: a reported wait was none. The holder it
 * was charged to gets all its time from now on. */
void vg_bpf_given_forgive(vg_bpf_given *given);

#endif
