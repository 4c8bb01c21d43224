/* SPDX-License-Identifier: Apache-2.0
 *
 * What a host says about itself, measured by nobody: its size, its GPUs and what vGPUs they can
 * give, and its VMs as the hypervisor knows them. Plain data described by records: new, free, copy
 * and JSON follow from the tables in model/inventory.c. One thread until nobody changes it any
 * more; then any number may read it.
 */
#ifndef VG_MODEL_INVENTORY_H
#define VG_MODEL_INVENTORY_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/record.h"
#include "model/snapshot.h"

#define VG_INVENTORY_DEVICES_MAX 64   /* per VM */
#define VG_INVENTORY_MDEVS_MAX   1024 /* per GPU */
#define VG_INVENTORY_VCPUS_MAX   4096 /* per VM */

/* Of libvirt's virDomainState; `unknown` where nobody could be asked. */
enum vg_domain_state {
    VG_DOMAIN_UNKNOWN,
    VG_DOMAIN_RUNNING,
    VG_DOMAIN_BLOCKED,
    VG_DOMAIN_PAUSED,
    VG_DOMAIN_SHUTDOWN, /* being shut down */
    VG_DOMAIN_SHUTOFF,
    VG_DOMAIN_CRASHED,
    VG_DOMAIN_SUSPENDED,
    VG_DOMAIN_STATE_MAX
};

/* A device of the host that a VM has been given. */
struct vg_inv_device {
    char *kind;      /* "mdev" or "pci" */
    char *address;   /* UUID of the mdev, or "0000:41:00.0" */
    char *alias;     /* in the domain ("ua-gpu0"); NULL: none yet */
    char *parent;    /* mdev: PCI address of the GPU; NULL: unknown */
    char *mdev_type; /* mdev: "nvidia-230"; NULL: unknown */
    bool is_gpu;     /* mdev, or a PCI display device (class 03) */
};

struct vg_inv_vcpu {
    int64_t index;
    int64_t tid; /* 0: not found */
};

/* Metadata that nova wrote into the domain; all NULL where nova did not make it. */
struct vg_inv_nova {
    char *name; /* display name */
    char *flavor;
    char *project_id;
    char *project_name;
    char *user_id;
    char *user_name;
    char *created; /* as nova wrote it */
};

struct vg_inv_vm {
    char *name;
    char *uuid;
    int64_t id; /* of libvirt, -1: not running */
    enum vg_domain_state state;
    int64_t pid; /* of its QEMU; 0: unknown or not running */
    int64_t vcpus;
    int64_t memory_bytes; /* 0: unknown */
    char *cpu_model;      /* that the guest was started with and needs; NULL: any will do */
    bool pinned;          /* to CPUs or NUMA nodes */
    bool nova_managed;
    struct vg_inv_nova nova;
    GPtrArray *threads; /* struct vg_inv_vcpu */
    GPtrArray *devices; /* struct vg_inv_device */
};

struct vg_inv_mdev_type {
    char *type; /* "nvidia-230" */
    char *name; /* "GRID T4-1Q", or NULL */
    char *device_api;
    int64_t available; /* instances that could still be made */
};

struct vg_inv_mdev {
    char *uuid;
    char *type;
};

struct vg_inv_gpu {
    char *device; /* PCI address, "0000:41:00.0" */
    char *vendor; /* or NULL */
    char *product;
    char *driver;
    int64_t numa_node;     /* -1: unknown */
    int64_t vf_max;        /* SR-IOV virtual functions it can have */
    GPtrArray *mdev_types; /* struct vg_inv_mdev_type */
    GPtrArray *mdevs;      /* struct vg_inv_mdev */
};

struct vg_inventory {
    char *host; /* name */
    char *uuid; /* of the host, or NULL */
    int64_t cpus;
    char *cpu_model;
    int64_t memory_bytes;
    int64_t memory_free_bytes;
    char *hypervisor;  /* "QEMU 7.2.22", or NULL */
    char *libvirt_uri; /* NULL: not asked */
    GPtrArray *gpus;   /* struct vg_inv_gpu */
    GPtrArray *vms;    /* struct vg_inv_vm */
};
typedef struct vg_inventory vg_inventory;

extern const struct vg_record_type vg_inv_device_record;
extern const struct vg_record_type vg_inv_vcpu_record;
extern const struct vg_record_type vg_inv_nova_record;
extern const struct vg_record_type vg_inv_vm_record;
extern const struct vg_record_type vg_inv_mdev_type_record;
extern const struct vg_record_type vg_inv_mdev_record;
extern const struct vg_record_type vg_inv_gpu_record;
extern const struct vg_record_type vg_inventory_record;
extern const char *const vg_domain_state_names[]; /* "unknown", "running", ... */

vg_inventory *vg_inventory_new(const char *host);
void vg_inventory_free(vg_inventory *inventory);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_inventory, vg_inventory_free)

/* Appends an empty one, owned by its parent. */
struct vg_inv_vm *vg_inventory_add_vm(vg_inventory *inventory, const char *name);
struct vg_inv_gpu *vg_inventory_add_gpu(vg_inventory *inventory, const char *device);

/* The VM with the UUID, else with the pid (> 0), else with the name; NULL if there is none. NULL
 * and 0 match nothing. */
const struct vg_inv_vm *vg_inventory_find(const vg_inventory *inventory, const char *uuid,
                                          int64_t pid, const char *name);

/* What the policy should know of it: fills an empty host description (see vg_engine_snapshot())
 * whose name is set. A VM that is not running is left out. A device that is a GPU becomes a use of
 * share 0 of engine "unknown". */
void vg_inventory_describe(const vg_inventory *inventory, struct vg_snap_host *host);

#endif
