/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the device that is kept for programs about to come by a socket: whoever sends them here
 * asks for it first. What is kept shrinks by what the programs that have come since then have. It
 * binds only those who ask in this way, too: programs that are here already may still take the
 * memory. One thread.
 */
#ifndef VG_OPENCL_PROXY_ROOM_H
#define VG_OPENCL_PROXY_ROOM_H

#include "opencl/proxy/look.h"
#include "opencl/proxy/share.h"

#define PROXY_ROOM_MAX      64    /* reservations */
#define PROXY_ROOM_NAME_MAX 64    /* bytes */
#define PROXY_ROOM_PATH_MAX 512   /* bytes */
#define PROXY_ROOM_S_MAX    86400 /* seconds */
#define PROXY_ROOM_MIB_MAX  (UINT64_C(1) << 32)

/* What is kept. */
struct proxy_room_kept {
    char id[PROXY_ROOM_NAME_MAX]; /* empty: nothing */
    char path[PROXY_ROOM_PATH_MAX];
    uint64_t bytes;
    int64_t since, until; /* by CLOCK_MONOTONIC */
};

struct proxy_room {
    const struct proxy_share *share;
    struct proxy_look *look;
    struct proxy_room_kept kept[PROXY_ROOM_MAX];
};

/* Keeps what WANTED says from now on, instead of what its id has had. Returns NULL, or the answer
 * that says why not, in TEXT of SIZE bytes: "refused" where there is too little, or else "error".
 */
const char *vg_room_reserve(struct proxy_room *room, const struct proxy_room_kept *wanted,
                            char *text, size_t size);

/* False: nothing is kept by this id, or nothing any more. */
bool vg_room_release(struct proxy_room *room, const char *id);

/* Bytes that are kept for those who come by the socket at PATH; NULL: for all. */
uint64_t vg_room_sum(struct proxy_room *room, const char *path);

#endif
