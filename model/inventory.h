/* SPDX-License-Identifier: Apache-2.0
 *
 * What a host reports about itself without measuring: its size, its GPUs and the vGPUs that they
 * can provide, and its VMs as the hypervisor knows them. Plain data described by records: new,
 * free, copy and JSON follow from the tables in model/inventory.c. One thread while it is being
 * changed; afterwards, any number of threads may read it.
 */
#ifndef VG_MODEL_INVENTORY_H
#define VG_MODEL_INVENTORY_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/record.h"
#include "model/snapshot.h"

#define VG_INVENTORY_DEVICES_MAX   256  /* per VM */
#define VG_INVENTORY_MDEVS_MAX     1024 /* per GPU */
#define VG_INVENTORY_VFS_MAX       256  /* per GPU */
#define VG_INVENTORY_FUNCTIONS_MAX 7    /* per GPU: a slot has eight */
#define VG_INVENTORY_VCPUS_MAX     4096 /* per VM */

/* libvirt's virDomainState; `unknown` if libvirt could not be queried. */
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

/* A host device that is assigned to a VM. */
struct vg_inv_device {
    char *kind;      /* "mdev" or "pci" */
    char *address;   /* UUID of the mdev, or "0000:41:00.0" */
    char *alias;     /* in the domain ("ua-gpu0"), or NULL */
    char *parent;    /* PCI address of the GPU that an mdev or virtual function was created from, or
                      * that another function belongs to; NULL if unknown, and for the GPU itself */
    char *mdev_type; /* mdev: "nvidia-230"; NULL if unknown */
    char *gpu_type;  /* as vg_gpu_part.type; NULL if unknown, or not a GPU */
    bool is_gpu;     /* an mdev, or a PCI function of class 03 or 12 */
    char *function;  /* kind of a function on a GPU's card other than the GPU: "audio", "USB";
                      * otherwise NULL */
};

struct vg_inv_vcpu {
    int64_t index;
    int64_t tid; /* 0 if not found */
};

/* Metadata that nova wrote into the domain; all NULL if nova did not create it. */
struct vg_inv_nova {
    char *name; /* display name */
    char *flavor;
    char *project_id;
    char *project_name;
    char *user_id;
    char *user_name;
    char *created; /* in nova's format */
};

/* The access that virtio-gpu gives guest programs to the host's GPU, in ascending order. */
enum vg_virtio_gpu {
    VG_VIRTIO_GPU_NONE,
    VG_VIRTIO_GPU_VIRGL,  /* OpenGL, rendered by QEMU itself */
    VG_VIRTIO_GPU_VENUS,  /* Vulkan, through virglrenderer's render server */
    VG_VIRTIO_GPU_NATIVE, /* contexts of the host's own driver */
    VG_VIRTIO_GPU_MAX
};

struct vg_inv_vm {
    char *name;
    char *uuid;
    int64_t id; /* libvirt's id, -1 if not running */
    enum vg_domain_state state;
    int64_t pid; /* pid of its QEMU; 0 if unknown or not running */
    /* the user as which libvirt starts its QEMU, if specific to this VM; -1 if it is the same for
     * all VMs, or unknown. Not part of any document */
    int64_t user;
    int64_t vcpus;
    int64_t memory_bytes; /* 0 if unknown */
    char *cpu_model;  /* that the guest was started with and requires; NULL if any model will do */
    double cpu_limit; /* cores that the quotas in its <cputune> allow its vCPUs; 0 if unlimited */
    bool pinned;      /* to CPUs or NUMA nodes */
    enum vg_policy_mode policy; /* from vgpud's element in the domain's metadata */
    bool nova_managed;
    struct vg_inv_nova nova;
    char *manager; /* another program that moves and stops the VM, "oVirt"; NULL if none is known */
    char *manager_move; /* the manager's command for moving it: "'onevm migrate --live 12 HOST'"; or
                         * NULL */
    enum vg_virtio_gpu virtio_gpu;
    int64_t hostmem_bytes; /* host memory that the guest can map through virtio-gpu; 0 if none, or
                            * unknown */
    GPtrArray *threads;    /* struct vg_inv_vcpu */
    GPtrArray *devices;    /* struct vg_inv_device */
};

struct vg_inv_mdev_type {
    char *type; /* "nvidia-230" */
    char *name; /* "GRID T4-1Q", or NULL */
    char *device_api;
    int64_t available; /* number of instances that can still be created; with virtual functions, a
                        * lower bound if max_instances is unknown */
    int64_t functions; /* number of virtual functions that can each provide an instance; 0 if the
                        * card itself provides them */
    /* maximum for the whole card, including its virtual functions; 0 if unknown */
    int64_t max_instances;
};

struct vg_inv_mdev {
    char *uuid;
    char *type;
    char *function; /* PCI address of the virtual function that it was created on; NULL if it was
                       created on the card itself */
    bool inactive;  /* defined but not started: the device does not exist */
};

/* Processes other than libvirt VMs that have device nodes open. */
struct vg_inv_use {
    bool known;
    char *text; /* if the use is known: the processes, "Xorg [812]", or NULL without any; otherwise
                   the reason, or NULL */
};

/* Another function in the slot of a GPU. */
struct vg_inv_function {
    char *address;
    char *what; /* "audio", "USB", "USB-C", "serial bus" */
    char *pci_id;
    char *driver;        /* or NULL */
    int64_t iommu_group; /* -1 if unknown */
};

/* An SR-IOV virtual function of a GPU. */
struct vg_inv_vf {
    char *address;
    char *pci_id;
    char *driver; /* or NULL */
    /* What the vendor's own VFIO driver reports about its vGPU. */
    char *vgpu_type;      /* "nvidia-1153"; NULL without vGPU, or if unknown */
    bool vgpu_told;       /* the driver reports it; if false, vgpu_type is unknown */
    bool no_iommu;        /* the kernel has no IOMMU for it, so it cannot be assigned to a VM */
    GPtrArray *creatable; /* struct vg_inv_mdev_type: vGPU types that can be created on it */
    struct vg_inv_use use;
};

struct vg_inv_gpu {
    char *device; /* PCI address, "0000:41:00.0" */
    char *vendor; /* or NULL */
    char *product;
    char *pci_id;        /* "10de:2331", or NULL */
    char *driver;        /* or NULL */
    int64_t numa_node;   /* -1 if unknown */
    int64_t vf_max;      /* maximum number of SR-IOV virtual functions */
    int64_t iommu_group; /* -1 if unknown */
    bool no_iommu; /* the kernel has no IOMMU for it, so it cannot be assigned to a VM as a whole */
    struct vg_inv_use use;
    GPtrArray *functions;  /* struct vg_inv_function */
    GPtrArray *vfs;        /* struct vg_inv_vf */
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
    char *libvirt_uri; /* NULL if libvirt was not queried */
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
extern const struct vg_record_type vg_inv_use_record;
extern const struct vg_record_type vg_inv_function_record;
extern const struct vg_record_type vg_inv_vf_record;
extern const struct vg_record_type vg_inv_gpu_record;
extern const struct vg_record_type vg_inventory_record;
extern const char *const vg_virtio_gpu_names[];   /* "none", "virgl", "venus", "native-context" */
extern const char *const vg_domain_state_names[]; /* "unknown", "running", ... */

vg_inventory *vg_inventory_new(const char *host);
void vg_inventory_free(vg_inventory *inventory);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_inventory, vg_inventory_free)

/* Recalculates how many instances of each type can still be created on a GPU's virtual functions.
 * Each function offers one as long as the card is not full. */
void vg_inv_gpu_count_room(struct vg_inv_gpu *gpu);

/* Appends an empty entry, owned by its parent. */
struct vg_inv_vm *vg_inventory_add_vm(vg_inventory *inventory, const char *name);
struct vg_inv_gpu *vg_inventory_add_gpu(vg_inventory *inventory, const char *device);

/* Returns the VM with this UUID, else with this pid (> 0), else with this name, or NULL. NULL and 0
 * match nothing. */
const struct vg_inv_vm *vg_inventory_find(const vg_inventory *inventory, const char *uuid,
                                          int64_t pid, const char *name);

/* Returns the VM's name in OpenStack, or NULL if it has none; vm may be NULL. */
const char *vg_inv_vm_display_name(const struct vg_inv_vm *vm);

/* Returns the usual name of this kind: "virtio-gpu with Venus". NULL for VG_VIRTIO_GPU_NONE. */
const char *vg_virtio_gpu_words(enum vg_virtio_gpu gpu);

/* Fills an empty host description (see vg_engine_snapshot()) whose name is set, with everything
 * that the policy needs. A VM that is not running is left out, but its devices do not count as
 * free. A device that is a GPU becomes a use of share 0 of engine "unknown". taken: as for
 * vg_gpu_parts(). */
void vg_inventory_describe(const vg_inventory *inventory, const GPtrArray *taken,
                           struct vg_snap_host *host);

#endif
