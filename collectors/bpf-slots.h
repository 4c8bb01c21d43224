/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives watched threads a slot in the memory that the BPF programs read at any moment. A withdrawn
 * slot is not given to another thread before vg_bpf_slots_settle() has been called twice, a window
 * each: by then no program that found it still runs. Works on any memory; one thread at a time.
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

/* Watches a thread from now on. 0: all slots are taken. A tid is watched once at most: as a vCPU,
 * or as the main thread of a VM. */
uint32_t vg_bpf_slots_publish(vg_bpf_slots *slots, int32_t tid, uint32_t vm, bool is_vcpu);

/* Ends watching. The record stays as it is until the slot is given to another thread. */
void vg_bpf_slots_withdraw(vg_bpf_slots *slots, uint32_t slot);

/* Is called once a window. told is called for each slot that becomes free. */
void vg_bpf_slots_settle(vg_bpf_slots *slots, void (*told)(void *data, uint32_t slot), void *data);

unsigned vg_bpf_slots_used(const vg_bpf_slots *slots);

#endif
