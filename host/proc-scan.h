/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the processes that are VMs, and their threads that are vCPUs, by the names of threads below
 * a /proc. It is cheap to ask again and again: a process known not to be a VM is left alone except
 * for a while after it appeared (QEMU names its vCPU threads some time after it was started), and a
 * VM's threads are listed again when their number changes, within two seconds.
 *
 * What a VM's process starts works for that VM, and so does what that starts (virglrenderer's
 * render server, which draws what a guest asks its virtio-gpu to draw): these are its helpers. Who
 * is a helper stays one when its parent ends. One thread.
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
    /* the number in its name; VG_NONE for one thread for all vCPUs, or without such a name */
    int32_t index;
    bool is_kvm; /* it runs its guest by KVM: its name says so, or it was seen entering one */
};

struct vg_proc_vm {
    uint32_t id; /* dense, from 0, never reused */
    int32_t pid;
    uint64_t start_ticks;      /* the start of the process, as the pid alone may come back */
    char name[VG_VM_NAME_MAX]; /* from the command line, otherwise "qemu-PID" */
    char uuid[VG_UUID_LEN];    /* empty if unknown */
    GArray *vcpus;             /* struct vg_proc_vcpu, sorted by index, then tid */
    struct vg_qemu_owner owner;
    GArray *helpers; /* int32_t, the pids of its helpers, sorted; NULL: none */
};

/* Returns the pid of one of the processes that work for a VM: the first is its own, helpers follow;
 * 0: there are no more. */
static inline int32_t
vg_proc_vm_pid_at(const struct vg_proc_vm *vm, unsigned at)
{
    if (at == 0)
        return vm->pid;
    return vm->helpers && at <= vm->helpers->len ? g_array_index(vm->helpers, int32_t, at - 1) : 0;
}

/* Tells the topology, which knows the VM's process, whose its helpers are; may be repeated. */
void vg_proc_vm_adopt_helpers(const struct vg_proc_vm *vm, vg_topology *topology);

typedef struct vg_proc_scan vg_proc_scan;

vg_proc_scan *vg_proc_scan_new(const char *proc);
void vg_proc_scan_free(vg_proc_scan *scan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_proc_scan, vg_proc_scan_free)

/* Finds VMs that have come or gone. now_ns is CLOCK_MONOTONIC, for the waits between looks. Fails
 * if the directory cannot be read; known VMs are then kept. */
int vg_proc_scan_update(vg_proc_scan *scan, int64_t now_ns, GError **err);

/* Looks at one process at once, because of a hint: one of its threads is being given the name comm,
 * which /proc may not show yet, or, if comm is empty, it has entered a guest, and is a vCPU
 * whatever its name. What cannot be found is left to the next update. For all hints up to the same
 * now_ns, its threads are listed once. */
void vg_proc_scan_look(vg_proc_scan *scan, int32_t pid, int32_t tid, const char *comm,
                       int64_t now_ns);

/* Returns the living VMs by id: struct vg_proc_vm *. They belong to the scan, until the next
 * update. */
const GPtrArray *vg_proc_scan_vms(const vg_proc_scan *scan);

/* Appends the pids (int32_t) of all processes of the last update, in no order. */
void vg_proc_scan_pids(const vg_proc_scan *scan, GArray *pids);

/* Chooses between two processes that say they are one VM: libvirt's own, otherwise the one before,
 * which may be NULL. */
const struct vg_proc_vm *vg_proc_vm_choose(const struct vg_proc_vm *before,
                                           const struct vg_proc_vm *vm);

#endif
