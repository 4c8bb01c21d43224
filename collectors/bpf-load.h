/* SPDX-License-Identifier: Apache-2.0
 *
 * The BPF programs of vcpu.bpf.c in the kernel, and the memory that they share with us. One thread
 * at a time.
 */
#ifndef VG_COLLECTORS_BPF_LOAD_H
#define VG_COLLECTORS_BPF_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "collectors/bpf-shared.h"
#include "collectors/bpf-slots.h"

typedef struct vg_bpf vg_bpf;

/* Loads and attaches the programs; those for guests only if KVM is there. proc: "/proc". NULL and
 * *err: what is missing, and what would help. */
vg_bpf *vg_bpf_load(const char *proc, GError **err);
void vg_bpf_free(vg_bpf *bpf); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_bpf, vg_bpf_free)

const struct vg_bpf_memory *vg_bpf_memory(const vg_bpf *bpf);
const struct vg_bpf_totals *vg_bpf_totals(const vg_bpf *bpf);
int vg_bpf_cells_fd(const vg_bpf *bpf);
int vg_bpf_notes_fd(const vg_bpf *bpf); /* readable while there are notes */

/* Takes the notes. */
void vg_bpf_take_notes(vg_bpf *bpf, void (*take)(void *data, const struct vg_bpf_note *note),
                       void *data);

/* Checks that all programs are still attached and called. -1: *err names one that is not. This
 * thread must have slept between two calls, unless they are less than 50 ms apart. */
int vg_bpf_check(vg_bpf *bpf, GError **err);

/* Tell if entries into guests and exits are counted, which can be switched, and if they could be.
 * If KVM was loaded after the programs, they must be loaded anew. */
bool vg_bpf_sees_guests(const vg_bpf *bpf);
bool vg_bpf_could_see_guests(const vg_bpf *bpf);
int vg_bpf_see_guests(vg_bpf *bpf, bool see, GError **err);

/* Returns the CPU time, in ns on the whole host, that the programs took since the last call,
 * estimated from runs that timed themselves. */
int64_t vg_bpf_take_cost(vg_bpf *bpf);

/* Returns how many runs of programs the kernel left out since the last call because another one was
 * running. */
uint64_t vg_bpf_take_missed(vg_bpf *bpf);

#endif
