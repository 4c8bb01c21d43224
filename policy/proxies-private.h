/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations shared by the files about proxies.
 */
#ifndef VG_POLICY_PROXIES_PRIVATE_H
#define VG_POLICY_PROXIES_PRIVATE_H

#include "policy/proxies.h"

#define PROXIES_EPSILON  1e-9
#define PROXIES_NS_PER_S 1e9

/* A GPU that a proxy serves, or several GPUs of its host. */
struct proxy_gpu {
    const struct vg_snap_host *host;
    const char *gpu;
    int64_t window_ns, memory_bytes, used_bytes;
    int64_t reserved_bytes; /* by its proxies, for arriving programs */
    size_t windows;         /* that count: those of the hold time */
    size_t n_known;         /* of these */
    size_t n_proxies;       /* only a single proxy divides the GPU by weights */
    double own;             /* fraction of the time in which other programs use it */
    double *wants;          /* the demand of all its clients in each window, newest last; owned */
    bool *known;            /* whether that demand is known; owned */
    char *problem;          /* a clause: why plans leave it out, or NULL; owned */
};

/* A VM's socket at a proxy. */
struct proxy_client {
    const struct vg_snap_proxy_socket *socket;
    const struct vg_snap_proxy *proxy;
    size_t gpu;
    const struct vg_snap_vm *vm; /* NULL if no known host has it */
    const struct vg_snap_host *vm_host;
    double run, lacked; /* means over the windows that are known */
    double lacked_long; /* over those of hold_long */
    double *wants;      /* window by window; owned */
    size_t n_lacking;   /* windows in which its wait reached the threshold */
    bool is_settled;    /* the plan has a proposal for it */
};

struct proxy_state {
    const vg_cluster *cluster;
    GArray *gpus;    /* struct proxy_gpu */
    GArray *clients; /* struct proxy_client */
    vg_plan *plan;
};

static inline struct proxy_gpu *
proxies_gpu(const struct proxy_state *state, size_t i)
{
    return &g_array_index(state->gpus, struct proxy_gpu, i);
}

static inline struct proxy_client *
proxies_client(const struct proxy_state *state, size_t i)
{
    return &g_array_index(state->clients, struct proxy_client, i);
}

/* ---- policy/proxy-action.c ---- */

/* Names a GPU for a sentence. The caller frees it. */
char *proxies_name(const struct proxy_gpu *gpu);

/* Adds an action for a VM to the plan; the caller adds the change and the reason. */
struct vg_plan_proxy_action *proxies_new_action(const struct proxy_state *state,
                                                const struct proxy_client *client,
                                                const char *kind);

/* ---- policy/proxy-weights.c ---- */

/* Proposes another weight for a VM that has waited long enough, or adds the reason why not. */
void proxies_plan_weight(struct proxy_state *state, struct proxy_client *client);

#endif
