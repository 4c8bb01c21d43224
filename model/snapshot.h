/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of all hosts at one moment: the only input of the policy. Build one (engine, JSON or by
 * hand), vg_snapshot_seal() it, and do not change it afterwards; then any number of threads may
 * read it. A sealed snapshot is sorted by name, so its order does not depend on how it was built.
 *
 * JSON: schema "vgpud.snapshot", version 1. Within version 1 unknown members are ignored, so that
 * members can be added; a reader rejects a higher version. Shares are nanoseconds per nanosecond:
 * 1.0 is one CPU (or one GPU engine) all the time, so a VM with several vCPUs may exceed 1.
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
#include "model/acting.h"
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
#define VG_SNAPSHOT_FIGURES_MAX    64 /* names of a VM's unknown figures, or of its lower bounds */
#define VG_SNAPSHOT_PROXIES_MAX    64 /* per host */
#define VG_SNAPSHOT_DEPARTED_MAX   1000 /* per host */

/* Cores or engines. Eight times the maximum number of CPUs: shares of waiting count every waiting
 * vCPU, so they may exceed the number of CPUs. */
#define VG_SNAPSHOT_SHARE_MAX (8.0 * VG_CPU_LIMIT)

enum vg_snapshot_source {
    VG_SOURCE_TRACE,   /* measured, from a recording */
    VG_SOURCE_LIVE,    /* measured, by a running daemon */
    VG_SOURCE_EXAMPLE, /* made up */
    VG_SOURCE_MERGED,  /* several of these; each host has its own source */
    VG_SOURCE_MAX
};

struct vg_snap_vgpu_type {
    char *type;   /* "i915-GVTg_V5_4", "nvidia-63"; for a whole GPU, its PCI id, "10de:2331" */
    int64_t free; /* number of instances that are unused, or can still be created */
    int64_t made; /* the part of `free` that already exists, and that creating other types does not
                     reduce */
    int64_t memory_bytes; /* of one; 0 if unknown */
    bool mig;             /* a MIG slice: no other VM can use its engines */
};

struct vg_snap_engine {
    char *engine;
    /* busy, for any user; the part that no VM accounts for is used by the host itself */
    double share;
};

/* Whether a GPU can give vGPUs of several types at a time. */
enum vg_profiles {
    VG_PROFILES_UNKNOWN,
    VG_PROFILES_HOMOGENEOUS,
    VG_PROFILES_MIXED,
    VG_PROFILES_MAX
};

struct vg_snap_gpu {
    char *device;
    enum vg_profiles profiles;
    int64_t memory_bytes; /* 0 if unknown */
    int64_t memory_free_bytes;
    GPtrArray *vgpu_types; /* struct vg_snap_vgpu_type */
    GPtrArray *engines;    /* struct vg_snap_engine; engines not listed are idle */
};

/* A VM's use of one engine of one GPU. */
struct vg_snap_gpu_use {
    char *device;
    char *engine;
    char *vgpu_type;      /* NULL if unknown; the VM cannot be placed elsewhere then */
    double share;         /* busy */
    double wait_share;    /* sum of the waits of its requests, so it may exceed 1 */
    int64_t memory_bytes; /* of the whole vGPU, repeated in each entry of a device; 0 if unknown */
};

/* CPU time that a VM's vCPUs lost to one aggressor. */
struct vg_snap_loss {
    char *aggressor; /* name of a VM of the same host, "self", "limit", "host:kernel", ... */
    double share;    /* cores lost */
    double count_per_s;
};

/* Demand per window, newest last. */
struct vg_snap_profile {
    int64_t window_ns;
    GArray *cpu; /* double, cores wanted: run + preempt + wake_wait - lost to "limit" */
    GArray *gpu; /* double, 0..1: fraction of the window with GPU work waiting or running; as long
                  * as cpu, or empty if the GPU side is unknown */
};

struct vg_snap_vm {
    char *name;
    char *uuid;         /* lower case, or NULL */
    char *display_name; /* its name in OpenStack, which is not unique; or NULL */
    int64_t pid;
    int64_t vcpus;
    int64_t memory_bytes; /* 0 if unknown */
    GArray *cpus; /* int32_t, ascending: CPUs that its vCPUs may use or (in recordings) were seen
                   * on; empty for any CPU */
    bool pinned;  /* to CPUs or NUMA nodes of its host */
    bool never_move;
    enum vg_policy_mode
        policy;      /* what the policy may do with it automatically, if set for the VM */
    char *only_cold; /* why it cannot be moved while it runs, one sentence; or NULL */
    char *manager;   /* another program that moves it, so that vgpud may not, "oVirt"; or NULL */
    bool unmanaged;  /* its host's libvirt does not know it, so it cannot be moved */
    GPtrArray *affinity;      /* char *: groups whose members must share a host */
    GPtrArray *anti_affinity; /* char *: groups whose members must be on different hosts */
    char *cpu_model;  /* that the guest was started with and requires; NULL if any model will do */
    double cpu_limit; /* cores that its CPU quota allows its vCPUs; 0 if no quota is known */
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
    struct vg_snap_profile day; /* over the last 24 h, in longer windows; may be empty */
    GPtrArray *lost_to;         /* struct vg_snap_loss, most first */
    /* char *: members above that are unknown (0, empty or a guess), and those that are lower
     * bounds. */
    GPtrArray *unknown;
    GPtrArray *bounds;
    char *problem; /* why this VM's data is bad and must not be used for planning; NULL if it is
                    * good */
};

/* A VM that was on a host in the last 24 h and is no longer there. */
struct vg_snap_departed {
    char *uuid;
    int64_t age_ns;             /* time since it was last seen there */
    struct vg_snap_profile day; /* as in struct vg_snap_vm, up to that time */
};

/* Activity of one VM's programs on a vgpu-proxy socket. */
struct vg_snap_proxy_socket {
    char *socket;
    char *address; /* for programs in a guest; NULL if they cannot reach it */
    char *vm;      /* name or UUID; NULL if not configured */
    int64_t weight;
    int64_t configured_weight; /* the weight that its proxy was started with */
    int64_t memory_bytes;      /* limit for each program; 0 for no limit */
    int64_t used_bytes;
    int64_t reserved_bytes; /* reserved for programs that will connect */
    int64_t clients;
    GArray *run; /* double, 0..1, window by window: fraction of the time during which its commands
                  * ran */
    GArray
        *lacked; /* double, 0..1: fraction of the window during which the VM waited for the GPU */
};

/* A vgpu-proxy, and what its clients did in the last windows. */
struct vg_snap_proxy {
    char *at;  /* its control socket */
    char *gpu; /* the GPU that it serves; NULL if unknown, or one of several */
    int64_t gpus;
    int64_t memory_bytes; /* of that GPU; 0 if unknown */
    char *problem; /* why the figures of the newest window are unknown; NULL if they are known */
    int64_t window_ns;
    GArray *known; /* int32_t, newest last: 1 if the figures of the window are known, otherwise 0 */
    GPtrArray *sockets; /* struct vg_snap_proxy_socket, with histories as long as known */
};

struct vg_snap_host {
    char *name;
    char *uuid;
    enum vg_snapshot_source source; /* of this host's data; never MERGED */
    int64_t begin_ns;               /* of this host's data, raw clock */
    int64_t end_ns;
    /* age of this host's data when it was merged with others; 0 if new, or unknown */
    int64_t age_ns;
    int64_t cpus;     /* CPUs that VMs may use */
    double own_share; /* cores used by anything except vCPUs; 0 if unknown, or none */
    bool own_known;   /* own_share is known even if it is 0 */
    struct vg_snap_profile own_profile; /* own_share window by window; only the CPU */
    char *cpu_model;                    /* NULL if unknown */
    int64_t memory_bytes;               /* 0 if unknown */
    int64_t memory_free_bytes;
    bool maintenance;
    int64_t lost_events; /* dropped by the recorder (live: in the newest window), so figures may be
                          * too low */
    GPtrArray *gpus;     /* struct vg_snap_gpu */
    GPtrArray *vms;      /* struct vg_snap_vm */
    GPtrArray *proxies;  /* struct vg_snap_proxy */
    GPtrArray *departed; /* struct vg_snap_departed, sorted by UUID */
    /* Mean pause of the programs that were last moved from one proxy to another on this host; 0
     * without such moves. */
    int64_t proxy_stop_ns;
    int64_t store_bytes; /* of the data that vgpud has stored; 0 if not stated */
    bool names_gpus;     /* its vgpud moves VMs to and from the GPU that a plan names */
    bool takes_acts;     /* its vgpud carries out automatic moves */
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
extern const struct vg_record_type vg_snap_departed_record;
extern const struct vg_record_type vg_snap_proxy_socket_record;
extern const struct vg_record_type vg_snap_proxy_record;
extern const struct vg_record_type vg_snap_host_record;
extern const struct vg_record_type vg_snapshot_record;
extern const char *const vg_snapshot_source_names[];
extern const char *const vg_profiles_names[]; /* "unknown", "homogeneous", "mixed" */

vg_snapshot *vg_snapshot_new(enum vg_snapshot_source source);
void vg_snapshot_free(vg_snapshot *snapshot);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_snapshot, vg_snapshot_free)

/* Appends an empty host (one CPU; source and times of the snapshot) or VM, owned by its parent. */
struct vg_snap_host *vg_snapshot_add_host(vg_snapshot *snapshot, const char *name);
struct vg_snap_vm *vg_snap_host_add_vm(struct vg_snap_host *host, const char *name);
struct vg_snap_gpu *vg_snap_host_add_gpu(struct vg_snap_host *host, const char *device);

/* Returns whether moves to and from a host can name GPUs. A live host whose vgpud does not report
 * this has an older version. */
static inline bool
vg_snap_host_names_gpus(const struct vg_snap_host *host)
{
    return host->names_gpus || host->source != VG_SOURCE_LIVE;
}

/* Returns whether the host's own CPU use is known. An older vgpud reports only own_share. */
static inline bool
vg_snap_host_knows_own(const struct vg_snap_host *host)
{
    return host->own_known || host->own_share > 0;
}

/* Returns whether a host can carry out automatic moves. An older vgpud does not report this either.
 */
static inline bool
vg_snap_host_takes_acts(const struct vg_snap_host *host)
{
    return host->takes_acts || host->source != VG_SOURCE_LIVE;
}

/* Sorts the snapshot, and checks the constraints between members: host names are unique, as are the
 * VM names, VM UUIDs and GPU devices of a host; profiles have the right length; times are in order.
 * Fails with VG_E_CONFLICT for duplicate hosts, VMs and UUIDs, otherwise with VG_E_INVALID. */
int vg_snapshot_seal(vg_snapshot *snapshot, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns a sealed snapshot made from JSON text. On failure, returns NULL with VG_E_INVALID naming
 * the path, or VG_E_CONFLICT as vg_snapshot_seal() does. */
vg_snapshot *vg_snapshot_from_json(const char *text, size_t size, GError **err);

/* The caller puts the object. vg_json_to_text() converts it to text. */
json_object *vg_snapshot_to_json(const vg_snapshot *snapshot);

/* Returns one sealed snapshot of the hosts of several snapshots. Fails with VG_E_CONFLICT if a host
 * or a VM's UUID occurs in two of them. The error names both labels (file names; the array is as
 * long as parts). Hosts keep their source and times. Clocks are not compared, because hosts of
 * different recordings did not run at the same time. The offset is kept if all parts agree,
 * otherwise it is 0. The order of the parts is irrelevant. */
vg_snapshot *vg_snapshot_merge(const vg_snapshot *const *parts, const char *const *labels,
                               size_t n_parts, GError **err);

/* Returns the host, or NULL. The search of a sealed snapshot takes logarithmic time. */
const struct vg_snap_host *vg_snapshot_find_host(const vg_snapshot *snapshot, const char *name);

/* Finds a VM that left a host of a sealed snapshot. uuid may be NULL. Returns NULL if no such VM
 * left. */
const struct vg_snap_departed *vg_snap_host_find_departed(const struct vg_snap_host *host,
                                                          const char *uuid);

/* Returns the SHA-256, in hex, of a sealed snapshot's content. It does not depend on the order and
 * layout of any JSON text that the snapshot came from. The caller frees it. */
char *vg_snapshot_hash(const vg_snapshot *snapshot);

/* Return the SHA-256, in hex, of the facts that a plan relies on and that do not depend on
 * measurements: identity, size, constraints, device types, and for a VM its host. If the hashes in
 * two snapshots differ, the facts have drifted. The caller frees it. */
char *vg_snap_vm_facts_hash(const struct vg_snap_host *host, const struct vg_snap_vm *vm);
char *vg_snap_host_facts_hash(const struct vg_snap_host *host);

/* Returns the cores that a VM wants: run + preempt + wake_wait, minus the time that its own CPU
 * quota would deny it on any host. Under contention this is an upper bound, because a waiting vCPU
 * might have gone to sleep earlier if it had run. */
double vg_snap_vm_demand(const struct vg_snap_vm *vm);

/* Returns whether a member is unknown. */
bool vg_snap_vm_lacks(const struct vg_snap_vm *vm, const char *member);

/* Applies the VM's CPU quota to a measured demand, such as a window of the profile. */
double vg_snap_vm_cap_demand(const struct vg_snap_vm *vm, double cores);

/* Returns the cores lost to waiting that another host could provide: demand - run. */
double vg_snap_vm_lost(const struct vg_snap_vm *vm);

/* Returns the preemptions per second, except those caused by its CPU quota. */
double vg_snap_vm_preemptions(const struct vg_snap_vm *vm);

#endif
