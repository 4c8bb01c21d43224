/* SPDX-License-Identifier: Apache-2.0
 *
 * Assigns to each watched thread a slot in the memory that the BPF programs may read at any moment.
 * A withdrawn slot is not reused before vg_bpf_slots_settle() has been called twice, a window
 * apart. By then no program that found the slot is still running. Works on any memory; one thread
 * at a time.
 */
#ifndef VG_COLLECTORS_BPF_SLOTS_H
#define VG_COLLECTORS_BPF_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "collectors/bpf-shared.h"

/* The memory; borrowed. */
struct vg_bpf_memory {
    uint16_t *tid_pages;                     /* [VG_BPF_PAGE_INDEX] */
    uint16_t (*tid_slots)[VG_BPF_PAGE_TIDS]; /* [VG_BPF_PAGES] */
    struct vg_bpf_thread *threads;           /* [VG_BPF_SLOTS] */
    struct vg_bpf_cpu *cpus;                 /* [n_cpus], stride apart */
    const struct vg_bpf_name *names;         /* [VG_BPF_NAMES] */
    size_t cpu_stride;
    unsigned n_cpus;
};

typedef struct vg_bpf_slots vg_bpf_slots;

vg_bpf_slots *vg_bpf_slots_new(const struct vg_bpf_memory *memory);
void vg_bpf_slots_free(vg_bpf_slots *slots);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_bpf_slots, vg_bpf_slots_free)

/* Starts to watch a thread. Returns 0 if all slots are in use. A tid may be watched only once: as
 * a vCPU or as a VM's main thread. */
uint32_t vg_bpf_slots_publish(vg_bpf_slots *slots, int32_t tid, uint32_t vm, bool is_vcpu);

/* Stops watching. The record is unchanged until the slot is reused. */
void vg_bpf_slots_withdraw(vg_bpf_slots *slots, uint32_t slot);

/* Call once per window. told is called for each slot that becomes free. */
void vg_bpf_slots_settle(vg_bpf_slots *slots, void (*told)(void *data, uint32_t slot), void *data);

unsigned vg_bpf_slots_used(const vg_bpf_slots *slots);

#endif
