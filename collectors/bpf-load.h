/* SPDX-License-Identifier: Apache-2.0
 *
 * The BPF programs of vcpu.bpf.c in the kernel, and the memory that they share with the collector.
 * One thread at a time.
 */
#ifndef VG_COLLECTORS_BPF_LOAD_H
#define VG_COLLECTORS_BPF_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "collectors/bpf-shared.h"
#include "collectors/bpf-slots.h"

typedef struct vg_bpf vg_bpf;

/* Loads and attaches the programs; those for guests only if KVM is loaded. proc is "/proc".
 * Returns NULL and *err, which says what is missing and gives advice. */
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

/* Checks that all programs are still attached and running. Otherwise, returns -1 and *err with the
 * name of a program. This thread must have slept between two calls, unless they are less than 50 ms
 * apart. */
int vg_bpf_check(vg_bpf *bpf, GError **err);

/* Return whether guest entries and exits are counted, and whether they could be; the last function
 * turns counting on or off. If KVM was loaded after the programs, the programs must be reloaded. */
bool vg_bpf_sees_guests(const vg_bpf *bpf);
bool vg_bpf_could_see_guests(const vg_bpf *bpf);
int vg_bpf_see_guests(vg_bpf *bpf, bool see, GError **err);

/* Returns why exits are counted without their reasons, each with the class "other"; NULL if they
 * have reasons or are not counted. */
const char *vg_bpf_exits_lack(const vg_bpf *bpf);

/* Returns the CPU time in ns, on the whole host, that the programs used since the last call.
 * Estimated from the runs that were timed. */
int64_t vg_bpf_take_cost(vg_bpf *bpf);

/* Returns how many program runs the kernel skipped since the last call because another run was
 * active. */
uint64_t vg_bpf_take_missed(vg_bpf *bpf);

#endif
