/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/room.h"

#include <stdio.h>
#include <string.h>

#include "opencl/base/clock.h"

#define ROOM_MIB(bytes) ((unsigned long long)((bytes) >> 20))

/* Sums up the memory of clients, up to MOST: their own processes report it, and may report too
 * much. KEPT counts only those for whom memory was reserved. */
static uint64_t
room_used(const struct proxy_room *room, const struct proxy_room_kept *kept, uint64_t most)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < room->share->n_clients; i++) {
        const struct proxy_client *client = &room->share->clients[i];
        if (!client->pid || !client->counts ||
            (kept && (client->came < kept->since || strcmp(client->tenant->path, kept->path) != 0)))
            continue;
        const uint64_t memory = client->counts->memory;
        sum += memory < most - sum ? memory : most - sum;
    }
    return sum;
}

/* Returns the reserved memory that has not been used yet. */
static uint64_t
room_left(const struct proxy_room *room, const struct proxy_room_kept *kept)
{
    return kept->bytes - room_used(room, kept, kept->bytes);
}

/* Drops reservations that have expired, and those whose programs use all of it. */
static void
room_tidy(struct proxy_room *room)
{
    for (unsigned i = 0; i < PROXY_ROOM_MAX; i++) {
        struct proxy_room_kept *kept = &room->kept[i];
        if (kept->id[0] && (vg_cl_now() >= kept->until || room_left(room, kept) == 0))
            kept->id[0] = '\0';
    }
}

/* Finds the reservation with this id, or a free one for "". */
static struct proxy_room_kept *
room_find(struct proxy_room *room, const char *id)
{
    for (unsigned i = 0; i < PROXY_ROOM_MAX; i++)
        if (strcmp(room->kept[i].id, id) == 0)
            return &room->kept[i];
    return NULL;
}

uint64_t
vg_room_sum(struct proxy_room *room, const char *path)
{
    uint64_t sum = 0;

    room_tidy(room);
    for (unsigned i = 0; i < PROXY_ROOM_MAX; i++)
        if (room->kept[i].id[0] && (!path || strcmp(room->kept[i].path, path) == 0))
            sum += room_left(room, &room->kept[i]);
    return sum;
}

/* Explains in TEXT that the requested amount does not fit, and returns TEXT. */
static const char *
room_refuse(const struct proxy_room *room, uint64_t used, uint64_t others, uint64_t needed,
            char *text, size_t size)
{
    const struct proxy_look_device *device = &room->look->known.devices[0];

    snprintf(text, size,
             "refused %.63s has %llu MiB; programs use %llu and %llu are reserved for programs "
             "that will arrive, so %llu more do not fit",
             device->name, ROOM_MIB(device->memory), ROOM_MIB(used), ROOM_MIB(others),
             ROOM_MIB(needed));
    return text;
}

const char *
vg_room_reserve(struct proxy_room *room, const struct proxy_room_kept *wanted, char *text,
                size_t size)
{
    const struct proxy_found *known = &room->look->known;
    const uint64_t all = known->devices[0].memory;

    vg_look_want(room->look);
    if (!room->look->is_known || (known->n == 1 && all == 0))
        return "error unsupported: the memory size of its device is unknown";
    if (known->n != 1)
        return "error unsupported: it serves several devices, and a program may use any of them";
    room_tidy(room);
    struct proxy_room_kept *at = room_find(room, wanted->id), now = *wanted, before = {.id = ""};
    if (at) {
        /* A repeated request does not count its own earlier reservation. */
        before = *at;
        now.since = strcmp(before.path, now.path) == 0 ? before.since : now.since;
        at->id[0] = '\0';
    } else {
        at = room_find(room, "");
    }
    if (!at)
        return "error full: it has too many reservations";
    const uint64_t used = room_used(room, NULL, all), others = vg_room_sum(room, NULL);
    const uint64_t needed = room_left(room, &now);
    const bool ok = others <= all - used && needed <= all - used - others;
    *at = ok ? now : before;
    return ok ? NULL : room_refuse(room, used, others, needed, text, size);
}

bool
vg_room_release(struct proxy_room *room, const char *id)
{
    room_tidy(room);
    struct proxy_room_kept *kept = *id ? room_find(room, id) : NULL;

    if (kept)
        kept->id[0] = '\0';
    return kept;
}
