/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of all hosts at one moment: the only input of the policy. Build one (engine, JSON
 * or by hand), vg_snapshot_seal() it, and change it no more; then any number of threads may read
 * it. A sealed snapshot is sorted by name, so whoever walks it gets the same order whatever order
 * it was made in.
 *
 * JSON: schema "vgpud.snapshot", version 1. Within version 1 unknown members are ignored, so that
 * members can be added; a reader refuses a higher version. Shares are nanoseconds per nanosecond:
 * 1.0 is one CPU (or one GPU engine) all the time, and a VM with several vCPUs may pass 1.
 *
 * Fields, JSON names, ranges and the hash are described once, in model/snapshot-schema.c.
 */
#ifndef VG_MODEL_SNAPSHOT_H
#define VG_MODEL_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "base/record.h"
#include "model/event.h"
#include "model/proxy-socket.h"
#include "model/score.h"

#define VG_SNAPSHOT_SCHEMA  "vgpud.snapshot"
#define VG_SNAPSHOT_VERSION 1

/* 10,000 VMs with full profiles are about 60 MiB of text. */
#define VG_SNAPSHOT_TEXT_MAX       (256 * 1024 * 1024)
#define VG_SNAPSHOT_DEPTH_MAX      16
#define VG_SNAPSHOT_HOSTS_MAX      10000
#define VG_SNAPSHOT_VMS_MAX        10000 /* per host */
#define VG_SNAPSHOT_GPUS_MAX       64    /* per host */
#define VG_SNAPSHOT_VGPU_TYPES_MAX 64    /* per GPU */
#define VG_SNAPSHOT_ENGINES_MAX    64    /* per GPU */
#define VG_SNAPSHOT_GPU_USES_MAX   64    /* per VM: device x engine */
#define VG_SNAPSHOT_LOSSES_MAX     256   /* per VM */
#define VG_SNAPSHOT_GROUPS_MAX     64    /* per VM, affinity and anti-affinity each */
#define VG_SNAPSHOT_NAME_MAX       255   /* bytes of a name, NUL not counted */
#define VG_SNAPSHOT_TEXT_FIELD_MAX 1024  /* bytes of note and problem */
#define VG_SNAPSHOT_PROFILE_MAX    300   /* windows */
#define VG_SNAPSHOT_FIGURES_MAX    64    /* names of figures that are unknown, or bounds, of a VM */
#define VG_SNAPSHOT_PROXIES_MAX    64    /* per host */

/* Cores or engines. Every CPU there can be, eight times over: shares of waiting count every vCPU
 * that waits, so they may pass the number of CPUs. */
#define VG_SNAPSHOT_SHARE_MAX (8.0 * VG_CPU_LIMIT)

enum vg_snapshot_source {
    VG_SOURCE_TRACE,   /* measured, from a recording */
    VG_SOURCE_LIVE,    /* measured, by a running daemon */
    VG_SOURCE_EXAMPLE, /* made up */
    VG_SOURCE_MERGED,  /* several of these: see the hosts */
    VG_SOURCE_MAX
};

struct vg_snap_vgpu_type {
    char *type;   /* "i915-GVTg_V5_4", "nvidia-63"; a whole GPU: its PCI id, "10de:2331" */
    int64_t free; /* that nobody has, and that could still be made */
    int64_t made; /* of these, which are there already: others do not take them away */
};

struct vg_snap_engine {
    char *engine;
    double share; /* busy, by everybody: what VMs do not explain is the host's own use */
};

struct vg_snap_gpu {
    char *device;
    int64_t memory_bytes; /* 0: unknown */
    int64_t memory_free_bytes;
    GPtrArray *vgpu_types; /* struct vg_snap_vgpu_type */
    GPtrArray *engines;    /* struct vg_snap_engine; others are idle */
};

/* What a VM does on one engine of one GPU. */
struct vg_snap_gpu_use {
    char *device;
    char *engine;
    char *vgpu_type;      /* NULL: unknown, the VM can then not be placed elsewhere */
    double share;         /* busy */
    double wait_share;    /* sum of the waits of its requests: may pass 1 */
    int64_t memory_bytes; /* of the whole vGPU, the same in each entry of a device; 0: unknown */
};

/* CPU time that a VM's vCPUs lost to somebody. */
struct vg_snap_loss {
    char *aggressor; /* name of a VM of the same host, "self", "limit", "host:kernel", ... */
    double share;    /* cores lost */
    double count_per_s;
};

/* Demand per window, newest last. */
struct vg_snap_profile {
    int64_t window_ns;
    GArray *cpu; /* double, cores wanted: run + preempt + wake_wait - lost to "limit" */
    GArray *gpu; /* double, 0..1: part of the window with GPU work waiting or running; as long as
                  * cpu, or empty where the GPU side is unknown */
};

struct vg_snap_vm {
    char *name;
    char *uuid;         /* lower case, or NULL */
    char *display_name; /* its name in OpenStack, which others may have, too; NULL: it has none */
    int64_t pid;
    int64_t vcpus;
    int64_t memory_bytes; /* 0: unknown */
    GArray *cpus; /* int32_t, ascending: CPUs its vCPUs may use, or (recordings) were seen on;
                   * empty: any */
    bool pinned;  /* to CPUs or NUMA nodes of its host */
    bool never_move;
    char
        *only_cold; /* why it cannot be moved while it runs, one sentence; NULL: nothing is known */
    char *manager;  /* "oVirt": another program moves it, and vgpud may not; NULL: none is known */
    bool unmanaged; /* libvirt of its host does not know it, so that nobody can move it */
    GPtrArray *affinity;      /* char *: groups whose members belong on one host */
    GPtrArray *anti_affinity; /* char *: groups whose members must be on different hosts */
    char *cpu_model;          /* that the guest was started with and needs; NULL: any will do */
    double cpu_limit; /* cores that its CPU quota lets its vCPUs use; 0: no quota is known */
    enum vg_vm_class vm_class;
    double cpu_intensity;
    double gpu_intensity;
    bool gpu_known;
    bool guest_known;
    double run_share; /* cores */
    double preempt_share;
    double wake_wait_share;
    double preemptions_per_s;
    GPtrArray *gpu; /* struct vg_snap_gpu_use */
    struct vg_snap_profile profile;
    GPtrArray *lost_to; /* struct vg_snap_loss, most first */
    /* char *: members above that nobody knows, which are 0, empty or a guess, and those that are
     * lower bounds. */
    GPtrArray *unknown;
    GPtrArray *bounds;
    char *problem; /* not NULL: the data of this VM is bad, do not plan with it; why */
};

/* What programs of one VM did by a socket of a vgpu-proxy. */
struct vg_snap_proxy_socket {
    char *socket;
    char *address; /* how programs in a guest reach it; NULL: they do not */
    char *vm;      /* name or UUID; NULL: nobody has said whose it is */
    int64_t weight;
    int64_t configured_weight; /* that its proxy was begun with */
    int64_t memory_bytes;      /* that each program may have; 0: there is no limit */
    int64_t used_bytes;
    int64_t reserved_bytes; /* kept for programs that will come */
    int64_t clients;
    GArray *run;    /* double, 0..1, window by window: part of the time in which its commands ran */
    GArray *lacked; /* double, 0..1: in which it wanted the GPU and did not have it */
};

/* A vgpu-proxy, and what its clients did in the last windows. */
struct vg_snap_proxy {
    char *at;  /* where it is asked */
    char *gpu; /* that it serves; NULL: not known, or one of several */
    int64_t gpus;
    int64_t memory_bytes; /* of that GPU; 0: not known */
    char *problem;        /* why nothing is known of the newest window; NULL: it is */
    int64_t window_ns;
    GArray *known;      /* int32_t, newest last: 1 where the figures of a window are known, or 0 */
    GPtrArray *sockets; /* struct vg_snap_proxy_socket, whose histories are as long as known */
};

struct vg_snap_host {
    char *name;
    char *uuid;
    enum vg_snapshot_source source; /* of this host's data; never MERGED */
    int64_t begin_ns;               /* of this host's data, raw clock */
    int64_t end_ns;
    int64_t age_ns;   /* of this host's data when it was put together with others'; 0: new, or not
                         known */
    int64_t cpus;     /* CPUs that VMs may use */
    double own_share; /* cores that run what is no vCPU; 0: not known, or nothing */
    char *cpu_model;  /* NULL: unknown */
    int64_t memory_bytes; /* 0: unknown */
    int64_t memory_free_bytes;
    bool maintenance;
    int64_t
        lost_events; /* dropped by the recorder (live: in the newest window): figures may be low */
    GPtrArray *gpus; /* struct vg_snap_gpu */
    GPtrArray *vms;  /* struct vg_snap_vm */
    GPtrArray *proxies; /* struct vg_snap_proxy */
    /* How long the last programs stood still that were moved from proxy to proxy from here, as a
     * mean; 0: none was moved. */
    int64_t proxy_stop_ns;
    int64_t store_bytes; /* of what vgpud has stored; 0: not told */
    uint64_t present;    /* private, the members that its document had */
};

struct vg_snapshot {
    char *schema; /* of the document that it was read from, otherwise NULL and 0 */
    int64_t version;
    enum vg_snapshot_source source;
    char *note;
    int64_t begin_ns;
    int64_t end_ns;
    int64_t clock_offset_ns;
    GPtrArray *hosts; /* struct vg_snap_host, owned */
    bool sealed;
};
typedef struct vg_snapshot vg_snapshot;

extern const struct vg_record_type vg_snap_vgpu_type_record;
extern const struct vg_record_type vg_snap_engine_record;
extern const struct vg_record_type vg_snap_gpu_record;
extern const struct vg_record_type vg_snap_gpu_use_record;
extern const struct vg_record_type vg_snap_loss_record;
extern const struct vg_record_type vg_snap_profile_record;
extern const struct vg_record_type vg_snap_vm_record;
extern const struct vg_record_type vg_snap_proxy_socket_record;
extern const struct vg_record_type vg_snap_proxy_record;
extern const struct vg_record_type vg_snap_host_record;
extern const struct vg_record_type vg_snapshot_record;
extern const char *const vg_snapshot_source_names[];

vg_snapshot *vg_snapshot_new(enum vg_snapshot_source source);
void vg_snapshot_free(vg_snapshot *snapshot);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_snapshot, vg_snapshot_free)

/* Appends an empty host (one CPU; source and times of the snapshot) or VM, owned by its parent. */
struct vg_snap_host *vg_snapshot_add_host(vg_snapshot *snapshot, const char *name);
struct vg_snap_vm *vg_snap_host_add_vm(struct vg_snap_host *host, const char *name);
struct vg_snap_gpu *vg_snap_host_add_gpu(struct vg_snap_host *host, const char *device);

/* Sorts, and checks what no single member shows: host names, VM names of a host, VM UUIDs and GPU
 * devices of a host are unique; profiles fit; times are in order. VG_E_CONFLICT for hosts, VMs and
 * UUIDs that are there twice, VG_E_INVALID otherwise. */
int vg_snapshot_seal(vg_snapshot *snapshot, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* A sealed snapshot from JSON text, or NULL and VG_E_INVALID naming the path, or VG_E_CONFLICT as
 * vg_snapshot_seal(). */
vg_snapshot *vg_snapshot_from_json(const char *text, size_t size, GError **err);

/* The caller puts the object; vg_json_to_text() makes text of it. */
json_object *vg_snapshot_to_json(const vg_snapshot *snapshot);

/* One sealed snapshot of all hosts of several. The same host, or VM UUID, in two of them is
 * VG_E_CONFLICT naming both labels (file names; the array is as long as parts). Hosts keep their
 * source and times. Clocks are not compared: hosts of different recordings were never together; the
 * offset is kept where all agree, else 0. The order of the parts does not matter. */
vg_snapshot *vg_snapshot_merge(const vg_snapshot *const *parts, const char *const *labels,
                               size_t n_parts, GError **err);

/* NULL if there is none. A sealed snapshot is searched in logarithmic time. */
const struct vg_snap_host *vg_snapshot_find_host(const vg_snapshot *snapshot, const char *name);

/* SHA-256 in hex of a sealed snapshot's content, independent of the order and layout of any JSON
 * text it came from. The caller frees it. */
char *vg_snapshot_hash(const vg_snapshot *snapshot);

/* SHA-256 in hex of what a plan relies on and measurement does not change: identity, size,
 * constraints, device types, and for a VM the host it is on. Two snapshots in which these differ
 * have drifted. */
char *vg_snap_vm_facts_hash(const struct vg_snap_host *host, const struct vg_snap_vm *vm);
char *vg_snap_host_facts_hash(const struct vg_snap_host *host);

/* Cores wanted: run + preempt + wake_wait, without what a CPU quota of the VM's own keeps it from,
 * on whatever host it is. Under contention an upper bound, because a vCPU that waits might, had it
 * run, have gone to sleep earlier. */
double vg_snap_vm_demand(const struct vg_snap_vm *vm);

/* Tells whether a member is unknown. */
bool vg_snap_vm_lacks(const struct vg_snap_vm *vm, const char *member);

/* The same of a measured demand, such as a window of the profile. */
double vg_snap_vm_cap_demand(const struct vg_snap_vm *vm, double cores);

/* Cores lost to waiting that another host could give it: demand - run. */
double vg_snap_vm_lost(const struct vg_snap_vm *vm);

/* Preemptions per second, without those by its CPU quota. */
double vg_snap_vm_preemptions(const struct vg_snap_vm *vm);

#endif
