/* SPDX-License-Identifier: Apache-2.0
 *
 * The slots of a GPU, inside the policy only: how many vGPUs (or whole GPUs) of a type it can give
 * after the planned moves.
 *
 * A slot is the capacity for a vGPU or MIG instance. The snapshot has the slots that are free
 * now. This module counts the slots that VMs take and leave, according to these rules:
 * - A homogeneous GPU gives one type at a time. When the last vGPU of a type has left, it gives as
 *   many of another as its memory has room for, or one if the memory of either is unknown.
 * - A mixed GPU gives several types. A vGPU takes a slot of each type, and its own memory. If the
 *   memory of either is unknown, the plan gives it vGPUs of one type only.
 * - A GPU whose rule is unknown counts as homogeneous, unless it has vGPUs of one type and free
 *   slots of another.
 * Types have numbers, which the caller gives. One thread at a time.
 */
#ifndef VG_POLICY_CARDS_H
#define VG_POLICY_CARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "model/snapshot.h"

/* The value for a type without a number. */
#define VG_CARD_UNKNOWN SIZE_MAX

struct vg_card_type {
    int64_t free;  /* in the snapshot; -1 if the GPU does not offer the type */
    int64_t made;  /* of these, vGPUs that no VM has */
    int64_t bytes; /* memory of one; 0 if unknown */
    int64_t start; /* of VMs, in the snapshot */
    int64_t here;  /* of VMs, after the planned moves */
    bool whole;    /* the GPU itself */
};

struct vg_card {
    bool mixed, memory_known;
    int64_t memory_bytes; /* 0 if unknown */
    int64_t memory_free;
    int64_t strangers; /* vGPUs whose types have no number */
    size_t n_types;
    struct vg_card_type *types; /* owned */
};

/* Describes GPU `gpu` of a host. types: names to numbers, from 1. */
void vg_card_init(struct vg_card *card, const struct vg_snap_host *host,
                  const struct vg_snap_gpu *gpu, GHashTable *types);
void vg_card_clear(struct vg_card *card);

/* Makes a copy, which the caller clears. */
void vg_card_copy(const struct vg_card *from, struct vg_card *ret);

/* Returns the number of a type less 1, or VG_CARD_UNKNOWN. name may be NULL. */
size_t vg_card_type_of(GHashTable *types, const char *name);

/* Returns how many more of a type fit, each with `bytes` of memory (0 if unknown), or -1 if the GPU
 * never gives this type. Does not check the memory that is free. */
int64_t vg_card_room(const struct vg_card *card, size_t type, int64_t bytes);

/* Returns whether this amount of memory is free, or the free memory is unknown. */
bool vg_card_has_memory(const struct vg_card *card, size_t type, int64_t bytes);

/* Adds a vGPU, sign 1, or removes it, sign -1. */
void vg_card_put(struct vg_card *card, size_t type, int64_t bytes, int sign);

/* Returns whether the GPU has a vGPU, even one that no VM has. */
bool vg_card_is_used(const struct vg_card *card);

/* The choice among the target's GPUs. The loss decides first. */
enum vg_card_choice {
    VG_CARD_SPREAD, /* smallest loss, then the smallest load */
    VG_CARD_PACK,   /* smallest loss, then a GPU in use, then the fewest free slots */
    VG_CARD_WORST,  /* largest loss, then the largest load, because the target chooses */
};

/* A GPU with room for a device. */
struct vg_card_offer {
    size_t gpu;
    bool used;
    int64_t room;
    double load; /* mean demand for all its engines */
    double rise; /* engines that VMs lose when the device comes */
};

/* Returns whether an offer is better than an earlier offer. */
bool vg_card_offer_is_better(const struct vg_card_offer *offer, const struct vg_card_offer *than,
                             enum vg_card_choice how);

/* Returns whether a GPU offers MIG slices, so that its VMs do not compete for its engines. */
bool vg_card_has_slices(const struct vg_snap_gpu *gpu);

#endif
