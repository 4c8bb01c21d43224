/* SPDX-License-Identifier: Apache-2.0
 *
 * Rates how well a VM that is to come would fare on a host, and what it would take from the VMs
 * that are there: one number for each host, for schedulers that ask about many at once. Pure; any
 * thread.
 */
#ifndef VG_POLICY_ARRIVAL_H
#define VG_POLICY_ARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "model/arrival.h"
#include "model/snapshot.h"
#include "policy/policy-conf.h"

/* The VM that is to come. vg_arrival_expect() fills in its demands. */
struct vg_arrival {
    int64_t vcpus;                    /* >= 1 */
    int vm_class;                     /* enum vg_vm_class, or -1 if it is unknown */
    const char *gpu_type;             /* the type of vGPU that it needs; NULL if any will do */
    int64_t gpus;                     /* the number of GPUs; 0 if it needs none */
    const GPtrArray *forbidden_types; /* char *, types of vGPUs that will not do, or NULL */
    double cpu_demand;                /* in cores */
    double gpu_demand;                /* in engines */
    const struct vg_snap_vm *known;   /* the VM where it runs, or ran; NULL if that is not known */
};

/* Fills in the demands that are expected of a VM of its class and size. */
void vg_arrival_expect(struct vg_arrival *arrival);

/* Replaces them by measurements of the VM where it runs, or ran. */
void vg_arrival_learn(struct vg_arrival *arrival, const struct vg_snap_vm *vm);

struct vg_arrival_score {
    bool veto;      /* it cannot run there */
    double score;   /* 0..1, where 1 is best; 0 with a veto */
    double lost;    /* cores and weighed engines that it and others lose by its coming */
    char text[160]; /* the reason, one sentence */
};

/* The hosts of a snapshot with the loads that plans go by (policy/cluster.h), so that a scheduler
 * and a plan get the same answer. References are counted, and the contents do not change. */
typedef struct vg_arrival_hosts vg_arrival_hosts;

/* Makes the loads; the snapshot is borrowed. */
vg_arrival_hosts *vg_arrival_hosts_new(const vg_snapshot *snapshot,
                                       const struct vg_policy_config *config);
vg_arrival_hosts *vg_arrival_hosts_ref(vg_arrival_hosts *hosts);
void vg_arrival_hosts_unref(vg_arrival_hosts *hosts); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_arrival_hosts, vg_arrival_hosts_unref)

/* Returns the snapshot, as long as the hosts are there. */
const vg_snapshot *vg_arrival_hosts_snapshot(const vg_arrival_hosts *hosts);

/* Rates the host with this index in the snapshot. */
void vg_arrival_rate(const struct vg_arrival *arrival, const vg_arrival_hosts *hosts, size_t host,
                     const struct vg_policy_config *config, struct vg_arrival_score *ret);

/* Knowledge of a host that is older than this says nothing any more. */
#define VG_ARRIVAL_STALE_NS INT64_C(120000000000)

/* Rates a host for a scheduler. age_ns is the age of what is known of the host. is_wanted: vgpud
 * itself moves the VM there, and must not refuse it. */
void vg_arrival_judge(const struct vg_arrival *arrival, const vg_arrival_hosts *hosts, size_t host,
                      const struct vg_policy_config *config, int64_t age_ns, bool is_wanted,
                      struct vg_arrival_host *ret);

#endif
