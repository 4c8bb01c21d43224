/* SPDX-License-Identifier: Apache-2.0
 *
 * What of a host's GPUs can be given to a VM, whether it is free, and why: the one answer for
 * nova, plans, reservations and moves. Pure; any thread.
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
    VG_GPU_PART_FUNCTION, /* audio, USB: goes with its GPU */
    VG_GPU_PART_VF,       /* an SR-IOV virtual function */
    VG_GPU_PART_MDEV,
    VG_GPU_PART_ROOM, /* mdevs that could still be made */
    VG_GPU_PART_KIND_MAX
};

enum vg_gpu_part_state {
    VG_GPU_PART_FREE,
    VG_GPU_PART_USED,     /* by a VM, running or not, or by another program */
    VG_GPU_PART_RESERVED, /* for a VM that comes, or that may come back */
    VG_GPU_PART_DIVIDED,  /* there are virtual functions or mdevs of it */
    VG_GPU_PART_HOST,     /* the host works with it */
    VG_GPU_PART_UNSET,    /* it is not yet what could be given: no vGPU type, or not started */
    VG_GPU_PART_UNKNOWN,  /* it cannot be told */
    VG_GPU_PART_STATE_MAX
};

struct vg_gpu_part {
    enum vg_gpu_part_kind kind;
    char *gpu;     /* PCI address of the GPU */
    char *address; /* PCI address or UUID; ROOM: NULL */
    char *type;    /* what it is asked for by. A whole GPU or another function: its PCI id,
                    * "10de:2331"; mdev: "nvidia-230"; VF: its vGPU type, "nvidia-1153", or, where it
                    * has none, PCI id and how many there are of the GPU: "8086:56c0:vf7". NULL:
                    * unknown */
    enum vg_gpu_part_state state;
    int64_t free;     /* how many can be had; more than 1 only of ROOM */
    char *why;        /* of the state, one sentence without its subject */
    bool bound;       /* PCI: to a driver that gives it to VMs; libvirt need not do it */
    bool last;        /* free, but to be taken after the others: the host's driver has it */
    bool by_function; /* not free for that one of its functions is bound to a driver of the host,
                       * and for nothing else */
};

extern const struct vg_record_type vg_gpu_part_record;
extern const char *const vg_gpu_part_kind_names[];  /* "gpu", "function", "vf", "mdev", "room" */
extern const char *const vg_gpu_part_state_names[]; /* "free", "used", ... */

/* Of all GPUs, struct vg_gpu_part, freed with the array; each GPU's lie together, the whole one
 * first. taken: char *, PCI addresses and UUIDs that are reserved; NULL: none. */
GPtrArray *vg_gpu_parts(const vg_inventory *inventory, const GPtrArray *taken);

/* Puts into the devices of the inventory's VMs which parts of GPUs they are. To be repeated when
 * more is known of the GPUs. */
void vg_gpu_parts_tell_vms(vg_inventory *inventory);

/* The trait by which operators of OpenStack tell vGPU types apart, as nova's manual has it: of
 * "nvidia-11" it is "CUSTOM_NVIDIA_11". Owned by the caller. */
char *vg_gpu_type_trait(const char *type);

/* Whether a type is that of a whole GPU, a PCI id. */
bool vg_gpu_type_is_whole(const char *type);

#endif
