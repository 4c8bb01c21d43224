/* SPDX-License-Identifier: Apache-2.0
 *
 * Determines which holders of CPUs kept threads waiting since the last reading, from the records
 * of the BPF programs and from the cells, which take shares that do not fit into the records. One
 * thread at a time.
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

/* Updates the copy if shares were evicted into cells since the last call. Call once before the
 * threads are read. Removes the cells of processes from the kernel. */
void vg_bpf_cells_update(vg_bpf_cells *cells, uint64_t evictions);

/* Deletes the cells of a slot in the copy and in the kernel. */
void vg_bpf_cells_delete(vg_bpf_cells *cells, uint32_t slot);

/* The losses of one thread that were already reported. */
typedef struct vg_bpf_given vg_bpf_given;

vg_bpf_given *vg_bpf_given_new(void);
void vg_bpf_given_free(vg_bpf_given *given);

/* A receiver of new losses. `tell` receives the losses to a holder, with all processes combined as
 * VG_BPF_HOLDER_USER. `tell_process` receives the losses to a single process, which are part of
 * that sum. */
struct vg_bpf_losses_sink {
    void *data;
    void (*tell)(void *data, uint32_t holder, int64_t ns, uint64_t count);
    void (*tell_process)(void *data, int32_t pid, int64_t ns, uint64_t count);
};

/* Reports new losses of the thread at slot. waited_ns is its wait time since the last reading; all
 * reported ns add up to it. The holder during an open wait may be corrected when the wait ends.
 * Reported losses are never retracted: a holder that was charged too much is charged less later. */
void vg_bpf_given_take(vg_bpf_given *given, const struct vg_bpf_reading *reading, uint32_t slot,
                       const vg_bpf_cells *cells, int64_t waited_ns,
                       const struct vg_bpf_losses_sink *sink);

/* Handles a reading with fewer waits than the previous one, so that a reported wait did not exist.
 * Its holder is charged for its full time from now on. */
void vg_bpf_given_forgive(vg_bpf_given *given);

#endif
