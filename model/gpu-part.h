/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a host's GPUs that can be assigned to a VM, whether each is free, and the reason.
 * Queries from nova, plans, reservations and moves all use this information. Pure; any thread.
 */
#ifndef VG_MODEL_GPU_PART_H
#define VG_MODEL_GPU_PART_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/record.h"
#include "model/inventory.h"

enum vg_gpu_part_kind {
    VG_GPU_PART_WHOLE,
    VG_GPU_PART_FUNCTION, /* audio, USB: assigned together with its GPU */
    VG_GPU_PART_VF,       /* an SR-IOV virtual function */
    VG_GPU_PART_MDEV,
    VG_GPU_PART_ROOM, /* mdevs that can still be created */
    VG_GPU_PART_KIND_MAX
};

enum vg_gpu_part_state {
    VG_GPU_PART_FREE,
    VG_GPU_PART_USED,     /* by a VM, running or not, or by another program */
    VG_GPU_PART_RESERVED, /* for a VM that will arrive, or that may return */
    VG_GPU_PART_DIVIDED,  /* virtual functions or mdevs of it exist */
    VG_GPU_PART_HOST,     /* in use by the host itself */
    VG_GPU_PART_UNSET,    /* not assignable yet: no vGPU type, or not started */
    VG_GPU_PART_UNKNOWN,  /* cannot be determined */
    VG_GPU_PART_STATE_MAX
};

struct vg_gpu_part {
    enum vg_gpu_part_kind kind;
    char *gpu;     /* PCI address of the GPU */
    char *address; /* PCI address or UUID; NULL for ROOM */
    /* the name by which a VM requests it. A whole GPU or another function: its PCI id,
     * "10de:2331". An mdev: "nvidia-230". A VF: its vGPU type, "nvidia-1153", or without a type
     * its PCI id and the GPU's number of VFs, "8086:56c0:vf7". NULL if unknown */
    char *type;
    enum vg_gpu_part_state state;
    int64_t free; /* number available; only ROOM can have more than 1 */
    char *why;    /* reason for the state: a predicate without its subject */
    bool bound;   /* PCI: to a driver that passes it to VMs, so that libvirt need not bind it */
    bool last;    /* free, but to be used only after all others, because it is bound to the host's
                     driver */
    bool by_function; /* not free, only because one of its functions is bound to a host driver */
};

extern const struct vg_record_type vg_gpu_part_record;
extern const char *const vg_gpu_part_kind_names[];  /* "gpu", "function", "vf", "mdev", "room" */
extern const char *const vg_gpu_part_state_names[]; /* "free", "used", ... */

/* Returns the parts of all GPUs, struct vg_gpu_part, freed with the array. The parts of each GPU
 * are adjacent, with the whole GPU first. taken: char *, reserved PCI addresses and UUIDs, or
 * NULL. */
GPtrArray *vg_gpu_parts(const vg_inventory *inventory, const GPtrArray *taken);

/* Stores in each device of the inventory's VMs which GPU part it is. Must be repeated when more is
 * known about the GPUs. */
void vg_gpu_parts_assign_vms(vg_inventory *inventory);

/* Returns the placement trait with which OpenStack operators distinguish vGPU types, as nova's
 * manual documents it: "CUSTOM_NVIDIA_11" for "nvidia-11". Owned by the caller. */
char *vg_gpu_type_trait(const char *type);

/* Returns whether a type is a whole GPU, that is, a PCI id. */
bool vg_gpu_type_is_whole(const char *type);

#endif
