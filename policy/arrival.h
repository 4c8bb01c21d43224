/* SPDX-License-Identifier: Apache-2.0
 *
 * How well a VM that is to come would fare on a host, and what it would take from those who are
 * there: one number for each host, for schedulers that ask about many at once. Pure; any thread.
 */
#ifndef VG_POLICY_ARRIVAL_H
#define VG_POLICY_ARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "model/arrival.h"
#include "model/snapshot.h"
#include "policy/policy-conf.h"

/* The VM. Demands are filled by vg_arrival_expect(). */
struct vg_arrival {
    int64_t vcpus;                    /* >= 1 */
    int vm_class;                     /* enum vg_vm_class, or -1: nobody knows */
    const char *gpu_type;             /* of vGPU that it needs; NULL: any will do */
    int64_t gpus;                     /* how many; 0: it needs none */
    const GPtrArray *forbidden_types; /* char *: of vGPUs that will not do; NULL: none */
    double cpu_demand;                /* cores */
    double gpu_demand;                /* engines */
};

/* What is expected of a VM of its class and size. */
void vg_arrival_expect(struct vg_arrival *arrival);

/* What is known of it where it runs, or ran, takes the place of that. */
void vg_arrival_learn(struct vg_arrival *arrival, const struct vg_snap_vm *vm);

struct vg_arrival_score {
    bool veto;    /* it cannot run there */
    double score; /* 0..1, 1 is best; 0 with a veto */
    double lost;  /* cores and weighed engines that are lost by its coming, by itself and others */
    char text[160]; /* why, one sentence */
};

/* Cores that the host's VMs and the host itself want: of all its VMs, so that who rates many
 * arrivals asks once. */
double vg_arrival_host_demand(const struct vg_snap_host *host);

/* demand: as above, of this host. */
void vg_arrival_rate(const struct vg_arrival *arrival, const struct vg_snap_host *host,
                     double demand, const struct vg_policy_config *config,
                     struct vg_arrival_score *ret);

/* What is older than this says nothing of a host any more. */
#define VG_ARRIVAL_STALE_NS INT64_C(120000000000)

/* Rates a host for a scheduler. age_ns: of what is known of the host. is_wanted: vgpud itself moves
 * the VM there, which it must not refuse. */
void vg_arrival_judge(const struct vg_arrival *arrival, const struct vg_snap_host *host,
                      double demand, const struct vg_policy_config *config, int64_t age_ns,
                      bool is_wanted, struct vg_arrival_host *ret);

#endif
