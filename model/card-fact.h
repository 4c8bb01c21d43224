/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about a GPU that libvirt does not report: its memory, and whether it can have vGPUs of
 * several types. Plain data; any thread.
 */
#ifndef VG_MODEL_CARD_FACT_H
#define VG_MODEL_CARD_FACT_H

#include "model/snapshot.h"
#include "model/window.h"

struct vg_card_fact {
    char device[VG_GPU_DEVICE_SIZE]; /* PCI address */
    int64_t memory_bytes;            /* the GPU's own memory; 0 if unknown */
    int64_t vgpu_bytes; /* memory of all vGPUs of one type that fit on the GPU, for the type where
                           this is largest; 0 if unknown */
    enum vg_profiles profiles;
};

/* Fills in the memory and profiles of the host's GPUs where the host does not have them yet. facts
 * (struct vg_card_fact) may be NULL. */
void vg_card_facts_fill_in(const GArray *facts, struct vg_snap_host *host);

/* For each GPU whose memory is known, fills in how much of it the VMs on the host leave free. If
 * the memory of a vGPU is unknown, the GPU's memory becomes unknown, too. */
void vg_card_facts_count_free(struct vg_snap_host *host);

#endif
