/* SPDX-License-Identifier: Apache-2.0
 *
 * What a host tells the others of itself: how it is reached, and a summary of what it does that
 * stays small however many VMs it has. Plain data.
 */
#ifndef VG_MODEL_HOST_INFO_H
#define VG_MODEL_HOST_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/record.h"
#include "model/migration-tls.h"
#include "model/snapshot.h"

/* The maximum size of a summary as text in bytes, and the VMs and steps that it has. */
#define VG_SUMMARY_TEXT_MAX 2048
#define VG_SUMMARY_TOP      8
#define VG_SUMMARY_STEPS    10

/* How a host's vgpud is reached. */
struct vg_host_card {
    char *name;
    char *url;                       /* of its API */
    char *libvirt_uri;               /* how others reach its libvirt; NULL: not told */
    enum vg_tls_certs migration_tls; /* of its QEMU, when its vgpud started */
    char *version;                   /* of its vgpud */
    char *boot_id;                   /* of this run of vgpud */
    int64_t started_ns;
};

extern const struct vg_record_type vg_host_card_record;

struct vg_summary_vm {
    char *name;
    char *uuid;  /* or NULL */
    double lost; /* cores */
};

struct vg_host_summary {
    int64_t at_ns; /* epoch, on the clock of that host; 0: there is no summary */
    int64_t cpus;
    double own;    /* cores that run what is no vCPU */
    double wanted; /* cores, by all VMs */
    double lost;   /* of these, those that another host could give */
    int64_t memory_bytes;
    int64_t memory_free_bytes;
    bool maintenance;
    int64_t vms;
    int64_t gpus;
    int64_t store_bytes; /* of what its vgpud has stored; 0: not told */
    int64_t gpus_free;   /* places for a vGPU of the type that has most of them, on all GPUs */
    GArray *classes;     /* int32_t: VMs of each enum vg_vm_class */
    GArray *scores;      /* int32_t: VMs by CPU intensity, in steps of a tenth */
    GPtrArray *top;      /* struct vg_summary_vm: those that lose most, most first */
};

extern const struct vg_record_type vg_host_summary_record;

void vg_host_summary_free(void *summary); /* NULL is fine */

/* Sums up a host. VMs whose names would take too much room are left out of the top. */
struct vg_host_summary *vg_host_summary_of(const struct vg_snap_host *host, int64_t at_ns);

/* Returns whether a summary differs from an older one by more than a band: a tenth of the host's
 * CPUs or memory, or a number of VMs, GPUs or a class. */
bool vg_host_summary_moved(const struct vg_host_summary *before, const struct vg_host_summary *now);

enum vg_host_presence {
    VG_HOST_ALIVE,  /* it renews its lease, or answered when it was asked last */
    VG_HOST_STALE,  /* nobody could be asked lately if it does */
    VG_HOST_SILENT, /* it does not: see the reason */
    VG_HOST_PRESENCE_MAX
};

extern const char *const vg_host_presence_names[];

/* A host, as one vgpud knows it. */
struct vg_host_info {
    struct vg_host_card card;
    enum vg_host_presence state;
    char *reason;       /* STALE, SILENT: one sentence; else NULL */
    bool self;          /* it is the host of the vgpud that tells this */
    int64_t seen_ns;    /* epoch, when it was last known to be alive; 0: never */
    int64_t summary_ns; /* epoch, on the clock of this host, when the summary was heard; 0: never */
    bool maintenance;   /* it takes no VMs, as itself or its cluster says */
    struct vg_host_summary summary;
};

extern const struct vg_record_type vg_host_info_record;

struct vg_host_info *vg_host_info_new(void);
void vg_host_info_free(void *info); /* NULL is fine */

/* A VM of any host, as one vgpud knows it. */
struct vg_cluster_vm {
    char *host;
    char *name;
    char *uuid;         /* or NULL */
    char *display_name; /* in OpenStack, or NULL */
    enum vg_vm_class vm_class;
    double wanted; /* cores */
    double run;    /* cores */
    double lost;   /* cores */
    double cpu_intensity;
    double gpu_intensity;
    bool gpu_known;
    int64_t at_ns; /* epoch, when this was known to be so */
};

extern const struct vg_record_type vg_cluster_vm_record;

struct vg_cluster_vm *vg_cluster_vm_of(const struct vg_snap_host *host, const struct vg_snap_vm *vm,
                                       int64_t at_ns);
void vg_cluster_vm_free(void *vm); /* NULL is fine */

#endif
