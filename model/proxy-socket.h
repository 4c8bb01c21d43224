/* SPDX-License-Identifier: Apache-2.0
 *
 * A vgpu-proxy socket, through which programs of one VM use a GPU of this host. Plain data.
 */
#ifndef VG_MODEL_PROXY_SOCKET_H
#define VG_MODEL_PROXY_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/record.h"

#define VG_PROXY_WEIGHT_MAX  1000
#define VG_PROXY_SOCKETS_MAX 256 /* per proxy */
#define VG_PROXY_DEVICES_MAX 64  /* per proxy */

#define VG_PROXY_TOOK_MAX 1024

/* The number of commands that took about this long from arrival to completion. */
struct vg_proxy_took {
    int64_t ns; /* within 1.6 % */
    int64_t commands;
};

/* What the proxy reports. Counters start when the proxy starts. */
struct vg_proxy_socket {
    char *proxy; /* path of the proxy's control socket */
    int64_t pid; /* of the proxy */
    /* "full": its client processes can access only their GPU; "none": they have the proxy's own
     * rights; empty if an older proxy does not report it */
    char *confinement;
    char *socket;
    char *vm;     /* name or UUID; empty if not configured */
    char *device; /* the device that was used first; may be empty */
    /* Files with its token or key that every user on the proxy's host can read, in words. Empty if
     * all are protected; NULL if an older proxy does not report it. */
    char *open_secrets;
    /* The members from here on are added by vgpud. The address of the socket for programs in a
     * guest, "tcp:HOST:PORT" or "vsock:2:PORT"; empty if they cannot reach it. */
    char *address;
    /* the GPU that the proxy serves, as named in lists of GPUs; empty if unknown, or if the proxy
     * serves several. gpus is the number of GPUs, or 0 before the first check */
    char *gpu;
    char *gpu_name; /* its name in OpenCL; empty under the same conditions */
    int64_t gpus;
    int64_t gpu_memory_bytes; /* 0 if unknown */
    int64_t weight;
    int64_t configured_weight; /* the weight configured for the socket; 0 if unknown */
    int64_t memory_bytes;      /* limit for each client; 0 for no limit */
    int64_t vm_memory_bytes;   /* limit for all clients together; 0 for no limit */
    int64_t used_bytes;        /* in buffers and images of all clients */
    int64_t reserved_bytes;    /* reserved for programs that will connect */
    int64_t clients;
    /* time during which one of its clients had the device; `turns` is the number of turns */
    int64_t held_ns;
    int64_t lacked_ns; /* time during which one of its clients wanted the device, but none of them
                        * had it */
    int64_t turns;
    int64_t ended; /* clients that were terminated because they held the device for too long */
    /* received while the proxy was monitored, or up to ten seconds before; the next members refer
     * to these commands */
    int64_t commands;
    int64_t done;
    int64_t wait_ns; /* of completed commands */
    int64_t run_ns;
    GPtrArray *took; /* struct vg_proxy_took, by ns; owned */
};

/* A device of the proxy's OpenCL platforms. */
struct vg_proxy_device {
    char *name; /* its name in OpenCL */
    char *pci;  /* "0000:3b:00.0"; empty if not reported */
    int64_t memory_bytes;
};

/* A proxy's report. Its sockets have only the members that the proxy reports. A report on one
 * socket alone uses another record. */
struct vg_proxy_report {
    int64_t pid;
    char *confinement;
    GPtrArray *devices; /* struct vg_proxy_device; owned */
    GPtrArray *sockets; /* struct vg_proxy_socket; owned */
};

struct vg_proxy_limit {
    int64_t weight;
    char *plan_id; /* id of the plan that proposes it, for one socket only; or NULL */
    bool dry_run;
};

/* A request to reserve GPU memory in a proxy for programs that will connect to a socket. */
struct vg_proxy_room {
    char *id;     /* chosen by the client */
    char *socket; /* its path, or its address for programs */
    int64_t seconds;
    int64_t memory_bytes;
};

#define VG_PROXY_ROOM_S_MAX 86400

/* The proxy through which a guest's OpenCL programs use a GPU, [proxy VM], as configured in the
 * guest. */
struct vg_proxy_guest {
    char *vm;      /* its name in the configuration, or its UUID if that group has been removed */
    char *uuid;    /* empty if the VM has not been seen here yet */
    char *address; /* "tcp:HOST:PORT"; "none" if the guest is to use no proxy */
    bool told;
    int64_t told_ns; /* when the guest was configured; 0 if it was not */
    char *reason;    /* why the guest is not configured; empty if it is */
};

extern const struct vg_record_type vg_proxy_guest_record;
extern const struct vg_record_type vg_proxy_took_record;
extern const struct vg_record_type vg_proxy_socket_record;
extern const struct vg_record_type vg_proxy_limit_record;
extern const struct vg_record_type vg_proxy_room_record;

extern const struct vg_record_type vg_proxy_report_record;

/* Sets the members that vgpud adds to a socket, from the proxy's report. */
void vg_proxy_socket_complete(struct vg_proxy_socket *socket, const struct vg_proxy_report *told,
                              const char *proxy);

/* Returns whether an id is valid for a reservation: printable, without blanks. */
bool vg_proxy_room_is_id(const char *id);
int vg_proxy_room_check(const struct vg_proxy_room *room, GError **err);

/* Returns whether machines other than guests of its host can connect to an address. */
bool vg_proxy_address_is_far(const char *address);

void vg_proxy_guest_free(void *guest);   /* NULL is fine */
void vg_proxy_socket_free(void *socket); /* NULL is fine */
void vg_proxy_limit_free(void *limit);   /* NULL is fine */
void vg_proxy_room_free(void *room);     /* NULL is fine */

#endif
