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
#define VG_PROXY_DEVICES_MAX 64  /* of one proxy */

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
    /* "full": its clients' processes reach nothing but their GPU; "none": they are its equals;
     * empty: it is older, and does not tell */
    char *confinement;
    char *socket;
    char *vm;     /* name or UUID; empty: nobody has said whose it is */
    char *device; /* the one that was used first; empty: none yet */
    /* The files with its token or key that everybody on the proxy's host can read, in words; empty:
     * there are none; NULL: an older proxy does not report it. */
    char *open_secrets;
    /* What vgpud adds to it: how programs in a guest reach the socket, "tcp:HOST:PORT" or
     * "vsock:2:PORT"; empty: they do not. */
    char *address;
    /* the GPU that the proxy serves, as it is called wherever GPUs are listed; empty: not known, or
     * it is one of several, of which gpus is the number (0: nobody has looked yet) */
    char *gpu;
    char *gpu_name; /* as its OpenCL calls it; empty likewise */
    int64_t gpus;
    int64_t gpu_memory_bytes; /* 0: not known */
    int64_t weight;
    int64_t configured_weight; /* that of its line; 0: not known */
    int64_t memory_bytes;      /* what each client may have; 0: there is no limit */
    int64_t vm_memory_bytes;   /* what all of them may have together; 0: likewise */
    int64_t used_bytes;        /* in buffers and images, of all clients */
    int64_t reserved_bytes;    /* kept for programs that will come */
    int64_t clients;
    int64_t held_ns;   /* in which one of its clients had the device; in so many turns: */
    int64_t lacked_ns; /* in which one of its clients wanted the device, and none of them had it */
    int64_t turns;
    int64_t ended;    /* clients that were ended, as they kept the device */
    int64_t commands; /* that came while somebody asked; of them: */
    int64_t done;
    int64_t wait_ns; /* of those that are done */
    int64_t run_ns;
    GPtrArray *took; /* struct vg_proxy_took, by ns; owned */
};

/* A device of a proxy's vendors. */
struct vg_proxy_device {
    char *name; /* as its OpenCL calls it */
    char *pci;  /* "0000:3b:00.0"; empty: nobody tells */
    int64_t memory_bytes;
};

/* What a proxy tells; its sockets have no more than it told. Of one socket alone it tells in
 * another record. */
struct vg_proxy_told {
    int64_t pid;
    char *confinement;
    GPtrArray *devices; /* struct vg_proxy_device; owned */
    GPtrArray *sockets; /* struct vg_proxy_socket; owned */
};

struct vg_proxy_limit {
    int64_t weight;
    char *plan_id; /* of the plan that proposes it, and then for one socket alone; or NULL */
    bool dry_run;
};

/* GPU memory that a proxy is to keep for programs that will come by a socket. */
struct vg_proxy_room {
    char *id;     /* of who asks */
    char *socket; /* its path, or how programs reach it */
    int64_t seconds;
    int64_t memory_bytes;
};

#define VG_PROXY_ROOM_S_MAX 86400

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
extern const struct vg_record_type vg_proxy_room_record;

extern const struct vg_record_type vg_proxy_told_record;

/* Fills in what vgpud adds to a socket, from what its proxy tells. */
void vg_proxy_socket_complete(struct vg_proxy_socket *socket, const struct vg_proxy_told *told,
                              const char *proxy);

/* Returns whether an id is one of a reservation: printable, without blanks. */
bool vg_proxy_room_is_id(const char *id);
int vg_proxy_room_check(const struct vg_proxy_room *room, GError **err);

/* Returns whether other machines than guests of its host reach an address. */
bool vg_proxy_address_is_far(const char *address);

void vg_proxy_guest_free(void *guest);   /* NULL is fine */
void vg_proxy_socket_free(void *socket); /* NULL is fine */
void vg_proxy_limit_free(void *limit);   /* NULL is fine */
void vg_proxy_room_free(void *room);     /* NULL is fine */

#endif
