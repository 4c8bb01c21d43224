/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the processes that are VMs, and their vCPU threads, by the names of threads below a /proc.
 * Repeated scans are cheap. A process known not to be a VM is skipped, except shortly after it
 * appeared, because QEMU names its vCPU threads some time after it starts. A VM's threads are
 * listed again within two seconds after their number changes.
 *
 * Processes started by a VM's process, directly or indirectly, work for that VM and are its
 * helpers. An example is virglrenderer's render server, which renders for the guest's virtio-gpu. A
 * process remains a helper when its parent ends. One thread.
 */
#ifndef VG_HOST_PROC_SCAN_H
#define VG_HOST_PROC_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "host/qemu-owner.h"
#include "model/topology.h"

struct vg_proc_vcpu {
    int32_t tid;
    /* the number in its name; VG_NONE for a single thread for all vCPUs, or without such a name */
    int32_t index;
    bool is_kvm; /* it runs its guest with KVM: its name says so, or it was seen entering a guest */
};

struct vg_proc_vm {
    uint32_t id; /* dense, from 0, never reused */
    int32_t pid;
    uint64_t start_ticks;      /* the start of the process, because the pid alone may be reused */
    char name[VG_VM_NAME_MAX]; /* from the command line, otherwise "qemu-PID" */
    char uuid[VG_UUID_LEN];    /* empty if unknown */
    GArray *vcpus;             /* struct vg_proc_vcpu, sorted by index, then tid */
    struct vg_qemu_owner owner;
    GArray *helpers; /* int32_t, the pids of its helpers, sorted; NULL if it has none */
};

/* Iterates over the pids of a VM: the first is its own, helpers follow. Returns 0 after the
 * last. */
static inline int32_t
vg_proc_vm_pid_at(const struct vg_proc_vm *vm, unsigned at)
{
    if (at == 0)
        return vm->pid;
    return vm->helpers && at <= vm->helpers->len ? g_array_index(vm->helpers, int32_t, at - 1) : 0;
}

/* Adds the VM's helpers to the topology, which must know the VM's process; may be repeated. */
void vg_proc_vm_adopt_helpers(const struct vg_proc_vm *vm, vg_topology *topology);

typedef struct vg_proc_scan vg_proc_scan;

vg_proc_scan *vg_proc_scan_new(const char *proc);
void vg_proc_scan_free(vg_proc_scan *scan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_proc_scan, vg_proc_scan_free)

/* Finds VMs that have started or ended. now_ns is CLOCK_MONOTONIC, for the intervals between
 * checks. Fails if the directory cannot be read; known VMs are then kept. */
int vg_proc_scan_update(vg_proc_scan *scan, int64_t now_ns, GError **err);

/* Checks one process immediately, because of a hint: one of its threads is being given the name
 * comm, which /proc may not show yet. If comm is empty, the thread has entered a guest, and is a
 * vCPU whatever its name. If it cannot be found, the next update handles it. For all hints up to
 * the same now_ns, its threads are listed once. */
void vg_proc_scan_look(vg_proc_scan *scan, int32_t pid, int32_t tid, const char *comm,
                       int64_t now_ns);

/* Returns the living VMs by id: struct vg_proc_vm *. They belong to the scan, until the next
 * update. */
const GPtrArray *vg_proc_scan_vms(const vg_proc_scan *scan);

/* Appends the pids (int32_t) of all processes of the last update, in no order. */
void vg_proc_scan_pids(const vg_proc_scan *scan, GArray *pids);

/* Chooses between two processes that claim to be the same VM: libvirt's own, otherwise the earlier
 * process, which may be NULL. */
const struct vg_proc_vm *vg_proc_vm_choose(const struct vg_proc_vm *before,
                                           const struct vg_proc_vm *vm);

#endif
