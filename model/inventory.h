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

#define VG_INVENTORY_DEVICES_MAX   256  /* per VM */
#define VG_INVENTORY_MDEVS_MAX     1024 /* per GPU */
#define VG_INVENTORY_VFS_MAX       256  /* per GPU */
#define VG_INVENTORY_FUNCTIONS_MAX 7    /* per GPU: a slot has eight */
#define VG_INVENTORY_VCPUS_MAX     4096 /* per VM */

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
    char *parent;    /* PCI address of the GPU that an mdev or a virtual function is made of, or
                      * that another function belongs to; NULL: unknown, or the GPU itself */
    char *mdev_type; /* mdev: "nvidia-230"; NULL: unknown */
    char *gpu_type;  /* as vg_gpu_part.type; NULL: unknown, or no GPU */
    bool is_gpu;     /* mdev, or a PCI function of the classes 03 and 12 */
    char *function;  /* of a GPU's card, but not the GPU: "audio", "USB"; NULL: no such thing */
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

/* What programs in a guest have of the host's GPU through virtio-gpu; what lets them do more comes
 * later. */
enum vg_virtio_gpu {
    VG_VIRTIO_GPU_NONE,
    VG_VIRTIO_GPU_VIRGL,  /* OpenGL, drawn by QEMU itself */
    VG_VIRTIO_GPU_VENUS,  /* Vulkan, by the render server of virglrenderer */
    VG_VIRTIO_GPU_NATIVE, /* the contexts of the host's own driver */
    VG_VIRTIO_GPU_MAX
};

struct vg_inv_vm {
    char *name;
    char *uuid;
    int64_t id; /* of libvirt, -1: not running */
    enum vg_domain_state state;
    int64_t pid; /* of its QEMU; 0: unknown or not running */
    /* the user that libvirt starts its QEMU as, if that is one of its own; -1: it is that of all
     * VMs, or unknown. No document has it */
    int64_t user;
    int64_t vcpus;
    int64_t memory_bytes; /* 0: unknown */
    char *cpu_model;      /* that the guest was started with and needs; NULL: any will do */
    double cpu_limit; /* cores that quotas in its <cputune> let its vCPUs use; 0: there is none */
    bool pinned;      /* to CPUs or NUMA nodes */
    bool nova_managed;
    struct vg_inv_nova nova;
    char *manager;      /* "oVirt": another program that moves and stops it; NULL: none is known */
    char *manager_move; /* how that moves it: "'onevm migrate --live 12 HOST'"; or NULL */
    enum vg_virtio_gpu virtio_gpu;
    int64_t
        hostmem_bytes;  /* memory of the host that the guest can map by it; 0: none, or unknown */
    GPtrArray *threads; /* struct vg_inv_vcpu */
    GPtrArray *devices; /* struct vg_inv_device */
};

struct vg_inv_mdev_type {
    char *type; /* "nvidia-230" */
    char *name; /* "GRID T4-1Q", or NULL */
    char *device_api;
    int64_t available; /* instances that could still be made; of virtual functions, at least so
                        * many if max_instances is unknown */
    int64_t functions; /* virtual functions of which one could be made; 0: the card itself counts */
    int64_t max_instances; /* that the card can have by its virtual functions; 0: unknown */
};

struct vg_inv_mdev {
    char *uuid;
    char *type;
    char *function; /* PCI address of the virtual function of which it is made; NULL: of the card */
    bool inactive;  /* defined, and not started: there is no such device */
};

/* Who has device nodes open, of those who are no VM of libvirt. */
struct vg_inv_use {
    bool known;
    char *text; /* known: "Xorg [812]", NULL: nobody; else why it is not known, or NULL */
};

/* Another function in the slot of a GPU. */
struct vg_inv_function {
    char *address;
    char *what; /* "audio", "USB", "USB-C", "serial bus" */
    char *pci_id;
    char *driver;        /* NULL: none */
    int64_t iommu_group; /* -1: unknown */
};

/* An SR-IOV virtual function of a GPU. */
struct vg_inv_vf {
    char *address;
    char *pci_id;
    char *driver; /* NULL: none */
    /* What the vendor's own VFIO driver says of its vGPU. */
    char *vgpu_type;      /* "nvidia-1153"; NULL: it has none, or unknown */
    bool vgpu_told;       /* the driver says so; false: vgpu_type is unknown */
    bool no_iommu;        /* the kernel has no IOMMU for it, so that no VM can be given it */
    GPtrArray *creatable; /* struct vg_inv_mdev_type: vGPUs that it could be made */
    struct vg_inv_use use;
};

struct vg_inv_gpu {
    char *device; /* PCI address, "0000:41:00.0" */
    char *vendor; /* or NULL */
    char *product;
    char *pci_id;        /* "10de:2331", or NULL */
    char *driver;        /* NULL: none */
    int64_t numa_node;   /* -1: unknown */
    int64_t vf_max;      /* SR-IOV virtual functions it can have */
    int64_t iommu_group; /* -1: unknown */
    bool no_iommu;       /* the kernel has no IOMMU for it, so that no VM can be given it whole */
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

/* Counts again how many of each type could still be made of the virtual functions of a GPU. Each of
 * them offers one for as long as the card is not full. */
void vg_inv_gpu_count_room(struct vg_inv_gpu *gpu);

/* Appends an empty one, owned by its parent. */
struct vg_inv_vm *vg_inventory_add_vm(vg_inventory *inventory, const char *name);
struct vg_inv_gpu *vg_inventory_add_gpu(vg_inventory *inventory, const char *device);

/* The VM with the UUID, else with the pid (> 0), else with the name; NULL if there is none. NULL
 * and 0 match nothing. */
const struct vg_inv_vm *vg_inventory_find(const vg_inventory *inventory, const char *uuid,
                                          int64_t pid, const char *name);

/* Returns the name that OpenStack gives a VM, NULL if it has none; vm may be NULL. */
const char *vg_inv_vm_display_name(const struct vg_inv_vm *vm);

/* Returns how people call that: "virtio-gpu with Venus". NULL for VG_VIRTIO_GPU_NONE. */
const char *vg_virtio_gpu_words(enum vg_virtio_gpu gpu);

/* What the policy should know of it: fills an empty host description (see vg_engine_snapshot())
 * whose name is set. A VM that is not running is left out, but what it has is not free. A device
 * that is a GPU becomes a use of share 0 of engine "unknown". taken: as of vg_gpu_parts(). */
void vg_inventory_describe(const vg_inventory *inventory, const GPtrArray *taken,
                           struct vg_snap_host *host);

#endif
