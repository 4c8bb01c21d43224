/* SPDX-License-Identifier: Apache-2.0
 *
 * Reservations of device memory for programs that are about to connect to a socket. The component
 * that sends them there makes the reservation first. A reservation shrinks by the memory of
 * programs that have connected since. It affects only other reservations: programs that are
 * already connected can still allocate the memory. One thread.
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

/* A reservation. */
struct proxy_room_kept {
    char id[PROXY_ROOM_NAME_MAX]; /* empty if this entry is free */
    char path[PROXY_ROOM_PATH_MAX];
    uint64_t bytes;
    int64_t since, until; /* by CLOCK_MONOTONIC */
};

struct proxy_room {
    const struct proxy_share *share;
    struct proxy_look *look;
    struct proxy_room_kept kept[PROXY_ROOM_MAX];
};

/* Adds or replaces the reservation WANTED. Returns NULL on success. Otherwise returns the answer
 * to send, written to TEXT of SIZE bytes: "refused" if there is too little memory, else "error". */
const char *vg_room_reserve(struct proxy_room *room, const struct proxy_room_kept *wanted,
                            char *text, size_t size);

/* Returns false if no reservation with this id exists or it has expired. */
bool vg_room_release(struct proxy_room *room, const char *id);

/* Returns the bytes reserved for the socket at PATH, or for all sockets if PATH is NULL. */
uint64_t vg_room_sum(struct proxy_room *room, const char *path);

#endif
