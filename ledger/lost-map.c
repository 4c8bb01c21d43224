/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "ledger/lost-map.h"

#include <stdlib.h>

#include <glib.h>

#define INITIAL_CAPACITY 8

static bool
lost_map_is_vm(uint32_t holder)
{
    return holder <= VG_HOLDER_VM_LIMIT;
}

static uint32_t
lost_map_find(const struct vg_lost_map *map, uint32_t holder)
{
    uint32_t mask = map->capacity - 1;
    uint32_t at = (holder * UINT32_C(2654435761)) & mask; /* Knuth's multiplicative hash */

    while (map->entries[at].used && map->entries[at].holder != holder)
        at = (at + 1) & mask;
    return at;
}

static void
grow(struct vg_lost_map *map)
{
    struct vg_lost_map old = *map;

    map->capacity = old.capacity ? old.capacity * 2 : INITIAL_CAPACITY;
    map->entries = g_new0(struct vg_lost_entry, map->capacity);
    for (uint32_t i = 0; i < old.capacity; i++) {
        if (old.entries[i].used)
            map->entries[lost_map_find(map, old.entries[i].holder)] = old.entries[i];
    }
    g_free(old.entries);
}

static void
lost_map_add(struct vg_lost_amount *sum, const struct vg_lost_amount *more)
{
    sum->vcpu_ns += more->vcpu_ns;
    sum->other_ns += more->other_ns;
    sum->count += more->count;
}

/* Sorts VMs before others, and those that took most first. */
static int
lost_map_compare(const void *a, const void *b)
{
    const struct vg_lost_entry *x = a, *y = b;
    const int64_t of_x = x->total.vcpu_ns + x->total.other_ns;
    const int64_t of_y = y->total.vcpu_ns + y->total.other_ns;

    if (lost_map_is_vm(x->holder) != lost_map_is_vm(y->holder))
        return lost_map_is_vm(x->holder) ? -1 : 1;
    if (of_x != of_y)
        return of_x > of_y ? -1 : 1;
    return (x->holder > y->holder) - (x->holder < y->holder);
}

/* Adds the VMs that took the least to the unknown holder. */
static void
fold(struct vg_lost_map *map)
{
    const struct vg_lost_map old = *map;
    struct vg_lost_entry rest = {.holder = VG_HOLDER_UNKNOWN, .used = true};
    uint32_t n = 0;

    map->entries = g_new0(struct vg_lost_entry, map->capacity);
    map->used = map->vms = map->last = 0;
    for (uint32_t i = 0; i < old.capacity; i++) {
        if (old.entries[i].used)
            old.entries[n++] = old.entries[i];
    }
    qsort(old.entries, n, sizeof(*old.entries), lost_map_compare);
    for (uint32_t i = 0; i < n; i++) {
        const struct vg_lost_entry *entry = &old.entries[i];
        if (entry->holder == VG_HOLDER_UNKNOWN ||
            (lost_map_is_vm(entry->holder) && i >= VG_LOST_MAP_VMS_MAX / 2)) {
            lost_map_add(&rest.total, &entry->total);
            lost_map_add(&rest.closed, &entry->closed);
            continue;
        }
        map->entries[lost_map_find(map, entry->holder)] = *entry;
        map->used++;
        map->vms += lost_map_is_vm(entry->holder);
    }
    map->entries[lost_map_find(map, rest.holder)] = rest;
    map->used++;
    g_free(old.entries);
}

struct vg_lost_entry *
vg_lost_map_search(struct vg_lost_map *map, uint32_t holder)
{
    if (map->used * 2 >= map->capacity)
        grow(map);
    map->last = lost_map_find(map, holder);
    if (!map->entries[map->last].used && lost_map_is_vm(holder) &&
        map->vms >= VG_LOST_MAP_VMS_MAX) {
        fold(map);
        map->last = lost_map_find(map, holder);
    }
    struct vg_lost_entry *entry = &map->entries[map->last];
    if (!entry->used) {
        map->vms += lost_map_is_vm(holder);
        entry->used = true;
        entry->holder = holder;
        map->used++;
    }
    return entry;
}

void
vg_lost_map_clear(struct vg_lost_map *map)
{
    g_free(map->entries);
    *map = (struct vg_lost_map){0};
}
