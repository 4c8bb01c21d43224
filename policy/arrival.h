/* SPDX-License-Identifier: Apache-2.0
 *
 * Rates a host for an arriving VM: the VM's expected performance and its effect on the VMs there.
 * Gives one number per host, for schedulers that rate many hosts concurrently. Pure; any thread.
 */
#ifndef VG_POLICY_ARRIVAL_H
#define VG_POLICY_ARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "model/arrival.h"
#include "model/snapshot.h"
#include "policy/policy-conf.h"

/* The arriving VM. vg_arrival_expect() fills in its demands. */
struct vg_arrival {
    int64_t vcpus;                    /* >= 1 */
    int vm_class;                     /* enum vg_vm_class, or -1 if it is unknown */
    const char *gpu_type;             /* the vGPU type that it needs; NULL for any */
    int64_t gpus;                     /* the number of GPUs; 0 if it needs none */
    const GPtrArray *forbidden_types; /* char *, unsuitable vGPU types, or NULL */
    double cpu_demand;                /* in cores */
    double gpu_demand;                /* in engines */
    const struct vg_snap_vm *known;   /* the VM on its present or former host; NULL if unknown */
};

/* Fills in the expected demands of a VM of its class and size. */
void vg_arrival_expect(struct vg_arrival *arrival);

/* Replaces the expected demands with measurements of the VM on its present or former host. */
void vg_arrival_learn(struct vg_arrival *arrival, const struct vg_snap_vm *vm);

struct vg_arrival_score {
    bool veto;    /* it cannot run there */
    double score; /* 0..1, where 1 is best; 0 with a veto */
    double lost;  /* cores and weighted engines that it and other VMs lose because of its arrival */
    char text[160]; /* the reason, one sentence */
};

/* The hosts of a snapshot with the loads that plans use (policy/cluster.h), so that a scheduler and
 * a plan get the same answer. Reference-counted and immutable. */
typedef struct vg_arrival_hosts vg_arrival_hosts;

/* Computes the loads; the snapshot is borrowed. */
vg_arrival_hosts *vg_arrival_hosts_new(const vg_snapshot *snapshot,
                                       const struct vg_policy_config *config);
vg_arrival_hosts *vg_arrival_hosts_ref(vg_arrival_hosts *hosts);
void vg_arrival_hosts_unref(vg_arrival_hosts *hosts); /* NULL is accepted */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_arrival_hosts, vg_arrival_hosts_unref)

/* Returns the snapshot, valid as long as the hosts. */
const vg_snapshot *vg_arrival_hosts_snapshot(const vg_arrival_hosts *hosts);

/* Rates the host with this index in the snapshot. */
void vg_arrival_rate(const struct vg_arrival *arrival, const vg_arrival_hosts *hosts, size_t host,
                     const struct vg_policy_config *config, struct vg_arrival_score *ret);

/* Maximum age of usable data about a host. */
#define VG_ARRIVAL_STALE_NS INT64_C(120000000000)

/* Rates a host for a scheduler. age_ns is the age of the host's data. is_wanted: vgpud itself is
 * moving the VM there, so the host must not be refused. */
void vg_arrival_judge(const struct vg_arrival *arrival, const vg_arrival_hosts *hosts, size_t host,
                      const struct vg_policy_config *config, int64_t age_ns, bool is_wanted,
                      struct vg_arrival_host *ret);

#endif
