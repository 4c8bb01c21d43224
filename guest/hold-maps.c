/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/hold-maps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/util.h"

static bool
maps_begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Reads a line of /proc/PID/maps. */
static bool
maps_parse(const char *line, struct vg_guest_hold_map *ret)
{
    uint64_t major_number, minor_number;
    int path_at = 0;

    if (sscanf(line,
               "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx64 ":%" SCNx64 " %" SCNu64 " %n",
               &ret->begin, &ret->end, ret->perms, &ret->offset, &major_number, &minor_number,
               &ret->inode, &path_at) != 7)
        return false;
    const char *path = line + path_at;
    ret->device = major_number << 32 | minor_number;
    ret->is_file = ret->inode != 0 &&
                   (!maps_begins_with(path, "/dev/") || maps_begins_with(path, "/dev/shm/"));
    return true;
}

int
vg_guest_hold_maps_read(const char *dir, struct vg_guest_hold_maps *ret)
{
    vg_guest_auto char *path = vg_guest_format("%s/maps", dir);
    FILE *file = fopen(path, "re");
    size_t size = 0;
    char *line = NULL;

    ret->n = 0;
    while (file && getline(&line, &size, file) > 0) {
        struct vg_guest_hold_map map;
        if (!maps_parse(line, &map))
            continue;
        if (ret->n == ret->room) {
            ret->room = ret->room ? 2 * ret->room : 1024;
            ret->maps = vg_guest_grow(ret->maps, ret->room * sizeof *ret->maps);
        }
        ret->maps[ret->n++] = map;
    }
    free(line);
    if (file)
        fclose(file);
    return ret->n > 0 ? 0 : -1;
}

const struct vg_guest_hold_map *
vg_guest_hold_maps_find(const struct vg_guest_hold_maps *maps, uint64_t at)
{
    size_t low = 0, high = maps->n;

    /* The kernel sorts them by address. */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (maps->maps[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < maps->n && maps->maps[low].begin <= at ? &maps->maps[low] : NULL;
}

bool
vg_guest_hold_map_is(const struct vg_guest_hold_map *a, const struct vg_guest_hold_map *b,
                     uint64_t at)
{
    /* Mappings without a file have no offset, and the kernel joins and splits them. */
    return strcmp(a->perms, b->perms) == 0 && a->device == b->device && a->inode == b->inode &&
           (a->inode == 0 || a->offset + (at - a->begin) == b->offset + (at - b->begin));
}
