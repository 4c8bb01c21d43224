/* SPDX-License-Identifier: Apache-2.0
 *
 * Planning state, inside the policy only: the hosts of a snapshot after the moves planned until
 * now, with the load of every pool of CPUs and every GPU engine per profile window.
 *
 * Loads:
 *
 *   - A host's VMs are grouped into pools: VMs whose `cpus` sets overlap, directly or through
 *     others, share the CPUs of all their sets. A VM floats if it has no set, if its set is as
 *     large as the host, or if the plan moved it here: it may use what the pools leave. Pools do
 *     not change when a VM leaves, so a departure never makes a host look worse.
 *   - The host's own use is a load in addition to its VMs, window by window if own_profile has the
 *     window. The part that VMs lost to it is in their pool, up to the CPUs that the pool's VMs did
 *     not use; the rest floats.
 *   - Profiles are aligned at their newest windows. Windows missing in a VM's profile, and
 *     profiles with an unusual window length, are replaced with the VM's constant demand, run +
 *     preempt + wake_wait.
 *   - A VM's GPU demand on an engine is share + wait_share, but at most the fraction of time in
 *     which it has any GPU work (gpu_intensity, if known), shaped by the GPU profile. Engine use
 *     that no VM explains is a constant load of the host.
 *   - `day` is the same state over the last 24 h. Each move applies to it, too.
 *
 * VMs with invalid data have no load and no pool, do not affect the length of windows, and are not
 * moved.
 *
 * Everything borrows from the snapshot and the configuration, which must outlive it. Hosts and VMs
 * are indexed in name order. One thread at a time.
 */
#ifndef VG_POLICY_CLUSTER_H
#define VG_POLICY_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "model/snapshot.h"
#include "policy/cards.h"
#include "policy/policy-conf.h"

#define VG_POOL_FLOATING (-1)

/* Rest after a move: the VM does not return, and requires a larger gain for another move. */
#define VG_REST_NS (INT64_C(3600) * 1000000000)

/* The load of one pool, of all floating VMs, or of one engine: one number per profile window. */
struct vg_load {
    double capacity;    /* CPUs, or 1 engine; for floating VMs the CPUs of the whole host */
    double own;         /* the mean of the host's own demand; 0 for engines */
    double *demand;     /* n_windows, owned */
    char *name;         /* "CPUs 0-3", "CPUs", "engine 'rcs0' of GPU '0000:00:02.0'" */
    const char *device; /* for an engine only */
    const char *engine;
};

/* A VM's use of one engine. */
struct vg_engine_use {
    const char *device; /* the device on the VM's present host */
    const char *engine;
    double level; /* the mean demand, 0..1 */
};

struct vg_vm_state {
    const struct vg_snap_vm *vm;
    size_t home;     /* the host in the snapshot */
    size_t host;     /* the host after the moves until now */
    int pool;        /* the pool on `host`, or VG_POOL_FLOATING */
    int home_pool;   /* the pool on `home` */
    int name_number; /* of its name, from 1; 0 if no other VM has this name, or if it has none */
    bool together;   /* moved by the group under evaluation, so it does not block others */
    /* struct vg_snap_departed on hosts that it has left, in the day only; may be NULL */
    GPtrArray *departed;
    double rest;       /* 1 if it has just moved, falling to 0 within VG_REST_NS */
    char *problem;     /* the problem if its data is invalid, owned; otherwise NULL */
    bool no_demand;    /* its CPU demand is unknown, without even a lower bound */
    bool no_gpu_use;   /* it has a GPU, but its use is unknown */
    double cpu_demand; /* vg_snap_vm_demand() */
    double gpu_mean;   /* the mean of the GPU profile, 0 without one */
    GArray *uses;      /* struct vg_engine_use */
};

struct vg_host_state {
    const struct vg_snap_host *host;
    GArray *pools; /* struct vg_load */
    struct vg_load floating;
    GArray *engines;       /* struct vg_load */
    GArray *vms;           /* size_t, indices into vms of the cluster, ascending */
    int64_t memory_free;   /* memory not yet assigned by the plan; if unknown, see host */
    struct vg_card *cards; /* one per GPU */
    bool packs_gpus;       /* gpu_placement is pack here */
    const char *no_demand; /* a VM on it whose CPU demand is unknown; NULL if none */
    int64_t moves;         /* the moves of the plan, in and out */
    int64_t wave;          /* the last wave in which it takes part, from 1 */
    int64_t wave_moves;    /* its moves in that wave */
    int64_t wave_left;     /* the last wave in which a VM leaves it */
};

typedef struct vg_cluster {
    bool of_day;            /* the windows are from `day` of each VM */
    struct vg_cluster *day; /* the same hosts over the last 24 h; NULL if no VM has a day */
    const vg_snapshot *snapshot;
    const struct vg_policy_config *config;
    int64_t window_ns; /* the length in most profiles; 0 if there is none */
    size_t n_windows;  /* >= 1 */
    size_t n_hosts;
    struct vg_host_state *hosts;
    size_t n_vms;
    struct vg_vm_state *vms;
    GHashTable *types;    /* types of the VMs' GPUs -> numbers, from 1 */
    GHashTable *affinity; /* group name -> GArray of size_t, indices into vms */
    GHashTable *anti_affinity;
} vg_cluster;

/* The target's GPU for each of the VM's devices. */
struct vg_fit {
    bool named; /* the move names the GPUs; otherwise these are the worst that it may get */
    size_t n_devices;
    struct {
        const char *device; /* the VM's present device */
        const char *type;
        size_t gpu; /* the target's GPU */
        int64_t memory_bytes;
    } devices[VG_SNAPSHOT_GPU_USES_MAX];
};

/* Creates the state from a snapshot, which must be sealed. */
vg_cluster *vg_cluster_new(const vg_snapshot *snapshot, const struct vg_policy_config *config);

/* The same, and gives one more type of GPUs a number, which no VM may have. type is borrowed. */
vg_cluster *vg_cluster_new_with_type(const vg_snapshot *snapshot,
                                     const struct vg_policy_config *config, const char *type);
void vg_cluster_free(vg_cluster *cluster);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_cluster, vg_cluster_free)

/* Return the demand of a VM in window w (the newest is n_windows - 1): in cores, and as a fraction
 * of an engine, 0..1. */
double vg_vm_cpu_demand(const vg_cluster *cluster, const struct vg_vm_state *vm, size_t w);
double vg_vm_gpu_demand(const vg_cluster *cluster, const struct vg_vm_state *vm,
                        const struct vg_engine_use *use, size_t w);

/* Returns whether a move of the VM to a host can name the GPUs there: both hosts have a vgpud that
 * does so, and no OpenStack chooses instead. */
bool vg_cluster_names_gpus(const vg_cluster *cluster, const struct vg_vm_state *vm, size_t to);

/* Returns the engine of a host, or NULL if nothing uses it. */
struct vg_load *vg_host_find_engine(const struct vg_host_state *host, const char *device,
                                    const char *engine);

/* Returns the target's device for the VM's `device`. */
const char *vg_fit_device(const struct vg_fit *fit, const struct vg_snap_host *target,
                          const char *device);

/* Applies a move to loads, memory and vGPUs. The VM's resources on its old host are free for later
 * moves, which belong to a later wave. */
void vg_cluster_move(vg_cluster *cluster, size_t vm, size_t to, const struct vg_fit *fit);

/* Undoes the last move in the state; its VM must have been on its home host before. */
void vg_cluster_move_back(vg_cluster *cluster, size_t vm, const struct vg_fit *fit);

/* Returns the wave, from 1, of the next move. The moves of one wave may run concurrently, and start
 * when the previous wave is done. */
int64_t vg_cluster_next_wave(vg_cluster *cluster, size_t from, size_t to);

/* Returns whether the memory of a host or GPU in the snapshot is known. Free memory may be known
 * although the total is not; it is unknown only if both are 0. */
static inline bool
vg_memory_is_known(int64_t memory_bytes, int64_t memory_free_bytes)
{
    return memory_bytes > 0 || memory_free_bytes > 0;
}

/* Returns the cores used by a host itself, from its pools and from floating VMs. */
double vg_host_own(const struct vg_host_state *host);

/* Returns the mean over the windows. */
double vg_load_mean(const vg_cluster *cluster, const struct vg_load *load);

#endif
