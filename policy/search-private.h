/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_POLICY_SEARCH_PRIVATE_H
#define VG_POLICY_SEARCH_PRIVATE_H

#include "policy/search.h"

/* With more hosts than this, a choice among equal hosts ignores their numbers of moves. */
#define SEARCH_MANY_HOSTS 64u

/* Floating-point figures that differ by less than this are considered equal. */
#define SEARCH_SAME 1e-5

#define SEARCH_NOWHERE SIZE_MAX

/* The maximum number of moves of a group whose parts are tried. Larger groups consist of VMs that
 * belong together. */
#define SEARCH_PARTS_OF_MAX 3u

struct search_use {
    size_t engine; /* its number */
    size_t row;    /* of the demands of uses */
    double mean;   /* of them */
};

/* A VM's use of one GPU. */
struct search_device {
    size_t type; /* vg_card_type_of() */
    int64_t memory_bytes;
    double mean;       /* of the demand for all its engines */
    size_t home, slot; /* the GPU on the host in the snapshot, and now */
    size_t next;       /* where search_fits() puts it */
    size_t first_use, n_uses;
};

struct search_vm {
    size_t home, host; /* SEARCH_NOWHERE if it was removed */
    int pool;          /* on its home */
    size_t bundle;
    bool together; /* moves with the group that search_apply() carries out */
    bool movable;
    bool names_gpus;      /* its move can name GPUs, as far as its home and manager are concerned */
    int64_t memory_bytes; /* needed */
    int64_t freed_bytes;  /* where it leaves */
    double cost;          /* cores */
    double wanted;        /* weighed */
    double rest;          /* as in struct vg_vm_state */
    double mean;          /* cores */
    int model, home_model;
    int name_number; /* as in struct vg_vm_state */
    size_t first_device, n_devices;
};

struct search_engine {
    size_t slot, engine;
    size_t row; /* of the loads */
    double lost;
    double mean; /* of the row */
};

struct search_host {
    float cpus;
    size_t row; /* of what floats; those of its pools follow */
    size_t n_pools;
    size_t n_gpus;
    bool accepts; /* not in maintenance */
    bool names_gpus;
    int model;
    bool memory_known;
    int64_t memory_free;
    struct vg_card *cards; /* one per GPU */
    bool packs_gpus;
    GPtrArray *slots; /* const char *: devices; the GPUs of the snapshot first */
    double *slot_load;
    GArray *engines; /* struct search_engine */
    GArray *vms;     /* size_t */
    double cpu_lost, gpu_lost;
    double mean; /* cores wanted, all loads together */
    double lost; /* weighed */
    size_t moves;
    uint64_t changes; /* incremented by each group that changes the host */
};

/* A host and its idle cores. */
struct search_rank {
    size_t host;
    double left;
};

struct search_return {
    size_t vm, host;
};

/* VMs of one host that move together or not at all. */
struct search_bundle {
    size_t first, n; /* in bundle_vms */
    bool movable;
    double cost;
};

/* VMs that belong together and are on several hosts. */
struct search_apart {
    size_t first, n; /* in apart_vms */
};

struct search {
    const vg_cluster *cluster;
    const bool *held;
    /* Floats of a row: for windows of the cluster, also for its day, and with the padding. */
    size_t n_live, n_windows, width;
    float *weights;
    size_t n_rows;
    float *loads;
    float *vm_demands, *use_demands;
    float *capacities; /* of each row that is a pool */
    float *scratch;    /* a row */
    struct search_vm *vms;
    struct search_device *devices;
    struct search_use *uses;
    struct search_host *hosts;
    struct search_bundle *bundles;
    size_t *bundle_vms;
    size_t n_bundles, n_devices, n_uses, n_engines;
    struct search_apart *aparts;
    size_t *apart_vms;
    size_t n_aparts;
    GHashTable *engines, *models; /* names to numbers, from 1 */
    GArray *returns;              /* struct search_return: hosts to which VMs may not return */
    GArray *moved;                /* size_t: VMs that are not at home, as committed */
    uint64_t work;                /* number of rows evaluated */
    bool any_allowed;
    /* Cores added to the loss of each host, so that a round chooses others; NULL with many hosts.
     */
    double *penalties;
    struct search_rank *ranks; /* all hosts, the most idle first */
    double *engines_left;      /* the most that is left, by number and host */
    bool ranks_are_old;        /* and engines_left */
};

/* Engines of a bundle that a choice compares. */
#define SEARCH_PARTS_MAX 8u

/* The part of an engine that a bundle wants. */
struct search_part {
    size_t engine;
    double wanted;
};

/* The best host for a removed bundle. */
struct search_choice {
    size_t bundle, avoid;
    double wanted; /* cores */
    size_t n_parts;
    struct search_part parts[SEARCH_PARTS_MAX];
    bool found;
    size_t to;
    double rise, penalized; /* penalized: with the penalty of the host */
};

/* The most that any host has left: cores, and the part of each engine by its number. */
struct search_most {
    double cores;
    double *engines; /* owned */
};

struct search *search_new(const vg_cluster *cluster, const bool *held);
void search_free(struct search *search);

/* Remove a VM from its host, and add it to a host. For a host other than its home, search_fits()
 * must have returned true. */
void search_out(struct search *search, size_t vm);
void search_in(struct search *search, size_t vm, size_t host);

/* Checks the constraints of a removed VM. */
bool search_fits(struct search *search, size_t vm, size_t host);

/* Returns the idle cores of a host, on average. */
double search_left(const struct search_host *host);

/* Returns by how much the weighed loss of a host rises with a VM that fits. */
double search_rise(struct search *search, size_t vm, size_t host);

/* Returns the cores that this round adds to the loss of a host. */
double search_penalty(const struct search *search, size_t host);

/* Updates the ranks and engines_left. All VMs must be in a host. */
void search_rank_hosts(struct search *search);

/* Finds the host with the smallest penalized loss; of equal ones that with the fewest moves, then
 * the most idle one. Among many hosts, it takes the most idle one without a loss. */
void search_choose(struct search *search, size_t hint, struct search_choice *choice);

void search_find_most(struct search *search, struct search_most *ret);

/* Returns the most that a bundle can win on any host. It loses what it wants beyond what a host has
 * left. */
double search_bound(struct search *search, size_t bundle, const struct search_most *most);

size_t search_home(const struct search *search, size_t bundle);

void search_bundle_out(struct search *search, size_t bundle);
/* Puts all of them back, or onto a host if they all fit; otherwise all stay out. */
bool search_bundle_in(struct search *search, size_t bundle, size_t host);

/* Carries out a group whose gates and room are checked here, or nothing of it. */
bool search_apply(struct search *search, const struct vg_group *group, double *ret_net);

/* Takes back what search_apply() did last. */
void search_take_back(struct search *search, const struct vg_group *group);

/* Puts the moves of a group of up to three VMs or bundles into the best order: the group should
 * never lose more than before it, and its first move should gain the most. */
void search_order(struct search *search, struct vg_group *group);

/* Takes everything home. */
void search_reset(struct search *search);

/* Computes the losses of all hosts anew. */
void search_measure(struct search *search);

/* Finds the best chain that begins with a bundle and has at most `room` moves. work_max: it gives
 * up where more than this is done. */
bool search_find_chain(struct search *search, size_t bundle, size_t room, uint64_t work_max,
                       struct vg_group *ret, double *ret_net);

/* Finds the best host where VMs that belong together can meet, with at most `room` moves. */
bool search_find_meeting(struct search *search, size_t apart, size_t room, struct vg_group *ret,
                         double *ret_net);

#endif
