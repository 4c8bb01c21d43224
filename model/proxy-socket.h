/* SPDX-License-Identifier: Apache-2.0
 *
 * A socket of vgpu-proxy, by which programs of one VM use a GPU of this host. Plain data.
 */
#ifndef VG_MODEL_PROXY_SOCKET_H
#define VG_MODEL_PROXY_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/record.h"

#define VG_PROXY_WEIGHT_MAX  1000
#define VG_PROXY_SOCKETS_MAX 256 /* of one proxy */

#define VG_PROXY_TOOK_MAX 1024

/* How many commands took about so long, from when they came to their end. */
struct vg_proxy_took {
    int64_t ns; /* within 1.6 % */
    int64_t commands;
};

/* What the proxy tells; the counters have grown since it began. */
struct vg_proxy_socket {
    char *proxy; /* the path where the proxy is asked */
    int64_t pid; /* of the proxy */
    char *socket;
    char *vm;     /* name or UUID; empty: nobody has said whose it is */
    char *device; /* the one that was used first; empty: none yet */
    int64_t weight;
    int64_t memory_bytes; /* what each client may have; 0: there is no limit */
    int64_t used_bytes;   /* in buffers and images, of all clients */
    int64_t clients;
    int64_t held_ns; /* in which one of its clients had the device; in so many turns: */
    int64_t turns;
    int64_t ended;    /* clients that were ended, as they kept the device */
    int64_t commands; /* that came while somebody asked; of them: */
    int64_t done;
    int64_t wait_ns; /* of those that are done */
    int64_t run_ns;
    GPtrArray *took; /* struct vg_proxy_took, by ns; owned */
};

struct vg_proxy_limit {
    int64_t weight;
};

/* What a guest knows of the proxy that its programs of OpenCL use a GPU by: [proxy VM]. */
struct vg_proxy_guest {
    char *vm;      /* as the configuration calls it, or its UUID if its group is gone */
    char *uuid;    /* empty: it was not seen here yet */
    char *address; /* "tcp:HOST:PORT"; "none": it is to know that it has none */
    bool told;
    int64_t told_ns; /* when it was; 0: it does not know */
    char *reason;    /* why it does not know; empty: it does */
};

extern const struct vg_record_type vg_proxy_guest_record;
extern const struct vg_record_type vg_proxy_took_record;
extern const struct vg_record_type vg_proxy_socket_record;
extern const struct vg_record_type vg_proxy_limit_record;

void vg_proxy_guest_free(void *guest);   /* NULL is fine */
void vg_proxy_socket_free(void *socket); /* NULL is fine */
void vg_proxy_limit_free(void *limit);   /* NULL is fine */

#endif
