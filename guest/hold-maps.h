/* SPDX-License-Identifier: Apache-2.0
 *
 * The mappings of a process at one time. For a tracer (guest/hold-tracer.h).
 */
#ifndef VG_GUEST_HOLD_MAPS_H
#define VG_GUEST_HOLD_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vg_guest_hold_map {
    uint64_t begin, end, offset, device, inode;
    /* As in /proc/PID/maps: "rw-p". */
    char perms[5];
    /* It has the contents of a file, rather than the memory of a device or its own. */
    bool is_file;
};

struct vg_guest_hold_maps {
    size_t n, room;
    struct vg_guest_hold_map *maps;
};

/* Reads a thread's mappings, replacing any that were read before. dir is its directory in /proc.
 * Returns 0, or -1 if it has no mappings because it has ended. They are kept until this process
 * ends. */
int vg_guest_hold_maps_read(const char *dir, struct vg_guest_hold_maps *ret);

/* Returns the mapping that contains an address, or NULL if there is no such mapping. */
const struct vg_guest_hold_map *vg_guest_hold_maps_find(const struct vg_guest_hold_maps *maps,
                                                        uint64_t at);

/* Returns whether both mappings have the same memory at this address, with the same permissions. */
bool vg_guest_hold_map_is(const struct vg_guest_hold_map *a, const struct vg_guest_hold_map *b,
                          uint64_t at);

#endif
