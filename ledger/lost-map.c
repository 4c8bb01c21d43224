/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "ledger/lost-map.h"

#include <glib.h>

#define INITIAL_CAPACITY 8

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

struct vg_lost_entry *
vg_lost_map_search(struct vg_lost_map *map, uint32_t holder)
{
    if (map->used * 2 >= map->capacity)
        grow(map);
    map->last = lost_map_find(map, holder);
    struct vg_lost_entry *entry = &map->entries[map->last];
    if (!entry->used) {
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
