/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU time lost by one thread, by aggressor: a small open-addressing table that is updated at
 * every context switch while the thread waits. Many VMs that wait together lose time to all
 * others, so the table has a limit. It keeps the VMs that took the most. Private to the CPU ledger.
 */
#ifndef VG_LEDGER_LOST_MAP_H
#define VG_LEDGER_LOST_MAP_H

#include <stdbool.h>
#include <stdint.h>

/* The holder of a CPU: the id of a VM's process, or one of these. */
#define VG_HOLDER_UNKNOWN     (UINT32_MAX - 1)
#define VG_HOLDER_IDLE        (UINT32_MAX - 2)
#define VG_HOLDER_HOST_KERNEL (UINT32_MAX - 3)
#define VG_HOLDER_HOST_USER   (UINT32_MAX - 4)
#define VG_HOLDER_LIMIT       (UINT32_MAX - 5) /* idle, after a thread left it although it could run */
#define VG_HOLDER_VM_LIMIT    (UINT32_MAX - 16)

/* VMs that a table keeps. If there are more, the half that took the least is added to
 * VG_HOLDER_UNKNOWN. */
#define VG_LOST_MAP_VMS_MAX 128

struct vg_lost_amount {
    int64_t vcpu_ns;  /* held by a vCPU thread */
    int64_t other_ns; /* held by any other thread */
    uint64_t count;
};

struct vg_lost_entry {
    uint32_t holder;
    bool used;
    struct vg_lost_amount total;  /* since the start of the period */
    struct vg_lost_amount closed; /* the part already reported in closed windows */
};

struct vg_lost_map {
    struct vg_lost_entry *entries; /* capacity entries, some unused; NULL while capacity is 0 */
    uint32_t capacity;             /* a power of two, or 0 */
    uint32_t used;
    uint32_t vms;  /* those that are VMs */
    uint32_t last; /* position of the entry that was charged last */
};

/* As vg_lost_map_entry(), without the check of the last entry. */
struct vg_lost_entry *vg_lost_map_search(struct vg_lost_map *map, uint32_t holder);

/* Returns a holder's entry, creating it if necessary. Valid until the next call. */
static inline struct vg_lost_entry *
vg_lost_map_entry(struct vg_lost_map *map, uint32_t holder)
{
    if (map->used > 0 && map->entries[map->last].holder == holder)
        return &map->entries[map->last];
    return vg_lost_map_search(map, holder);
}

void vg_lost_map_clear(struct vg_lost_map *map);

#endif
