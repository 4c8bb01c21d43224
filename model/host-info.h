/* SPDX-License-Identifier: Apache-2.0
 *
 * What a host reports about itself to other hosts: how to reach it, and a summary of its activity
 * whose size does not depend on the number of VMs. Plain data.
 */
#ifndef VG_MODEL_HOST_INFO_H
#define VG_MODEL_HOST_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/record.h"
#include "model/migration-tls.h"
#include "model/snapshot.h"

/* The maximum size of a summary as text, in bytes, and its numbers of VMs and of steps. */
#define VG_SUMMARY_TEXT_MAX 2048
#define VG_SUMMARY_TOP      8
#define VG_SUMMARY_STEPS    10

/* How to reach a host's vgpud. */
struct vg_host_card {
    char *name;
    char *url;                       /* of its API */
    char *libvirt_uri;               /* how others connect to its libvirt; NULL if not reported */
    enum vg_tls_certs migration_tls; /* state of its QEMU's certificates when its vgpud started */
    char *version;                   /* version of its vgpud */
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
    int64_t at_ns; /* epoch, by that host's clock; 0 without a summary */
    int64_t cpus;
    double own;    /* cores used by anything except vCPUs */
    double wanted; /* cores that all VMs together want */
    double
        lost; /* the part of `wanted` that they do not get here, but another host could provide */
    int64_t memory_bytes;
    int64_t memory_free_bytes;
    bool maintenance;
    int64_t vms;
    int64_t gpus;
    int64_t store_bytes; /* size of its vgpud's store; 0 if not reported */
    int64_t gpus_free;   /* free vGPU places on all GPUs, for the type with the most places */
    char *gpu_largest;   /* type of the largest free vGPU profile, or NULL if none or unknown */
    GArray *classes;     /* int32_t: VMs of each enum vg_vm_class */
    GArray *scores;      /* int32_t: VMs by CPU intensity, in steps of a tenth */
    GPtrArray *top;      /* struct vg_summary_vm: the VMs that lose the most, largest loss first */
};

extern const struct vg_record_type vg_host_summary_record;

void vg_host_summary_free(void *summary); /* NULL is fine */

/* Returns a summary of a host. VMs whose names would take too much space are left out of `top`. */
struct vg_host_summary *vg_host_summary_of(const struct vg_snap_host *host, int64_t at_ns);

/* Returns whether a summary differs significantly from an older one: by a tenth of the host's CPUs
 * or memory, or in the number of VMs, GPUs or VMs of a class. */
bool vg_host_summary_moved(const struct vg_host_summary *before, const struct vg_host_summary *now);

enum vg_host_presence {
    VG_HOST_ALIVE,  /* it renews its lease, or answered the last query */
    VG_HOST_STALE,  /* no recent information on whether it is alive */
    VG_HOST_SILENT, /* it neither renews its lease nor answers: see the reason */
    VG_HOST_PRESENCE_MAX
};

extern const char *const vg_host_presence_names[];

/* A host as this vgpud knows it. */
struct vg_host_info {
    struct vg_host_card card;
    enum vg_host_presence state;
    char *reason;       /* STALE, SILENT: one sentence; otherwise NULL */
    bool self;          /* it is the host of the vgpud that reports this */
    int64_t seen_ns;    /* epoch, when it was last known to be alive; 0 if never */
    int64_t summary_ns; /* epoch, by this host's clock, when the summary was received; 0 if never */
    bool maintenance;   /* it accepts no VMs, according to itself or the cluster */
    struct vg_host_summary summary;
};

extern const struct vg_record_type vg_host_info_record;

struct vg_host_info *vg_host_info_new(void);
void vg_host_info_free(void *info); /* NULL is fine */

/* A VM of any host, as this vgpud knows it. */
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
    int64_t at_ns; /* epoch, when this was true */
};

extern const struct vg_record_type vg_cluster_vm_record;

struct vg_cluster_vm *vg_cluster_vm_of(const struct vg_snap_host *host, const struct vg_snap_vm *vm,
                                       int64_t at_ns);
void vg_cluster_vm_free(void *vm); /* NULL is fine */

#endif
