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

/* Returns the cores that the host itself and all its VMs want, so that a caller that rates many
 * arrivals asks once. */
double vg_arrival_host_demand(const struct vg_snap_host *host);

/* Rates a host. demand is that of this host, as above. */
void vg_arrival_rate(const struct vg_arrival *arrival, const struct vg_snap_host *host,
                     double demand, const struct vg_policy_config *config,
                     struct vg_arrival_score *ret);

/* Knowledge of a host that is older than this says nothing any more. */
#define VG_ARRIVAL_STALE_NS INT64_C(120000000000)

/* Rates a host for a scheduler. age_ns is the age of what is known of the host. is_wanted: vgpud
 * itself moves the VM there, and must not refuse it. */
void vg_arrival_judge(const struct vg_arrival *arrival, const struct vg_snap_host *host,
                      double demand, const struct vg_policy_config *config, int64_t age_ns,
                      bool is_wanted, struct vg_arrival_host *ret);

#endif
