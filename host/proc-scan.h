/* SPDX-License-Identifier: Apache-2.0
 *
 * Which processes are VMs, and which of their threads are vCPUs: found by the names of threads
 * below a /proc. Cheap to ask again and again: what is known not to be a VM is left alone but for a
 * while after it appeared (QEMU names its vCPU threads some time after it was started), and a VM's
 * threads are listed again when their number changes, within two seconds. One thread.
 */
#ifndef VG_HOST_PROC_SCAN_H
#define VG_HOST_PROC_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/topology.h"

struct vg_proc_vcpu {
    int32_t tid;
    int32_t index; /* of its name, or VG_NONE: one thread for all vCPUs, or no such name */
    bool is_kvm;   /* runs its guest by KVM: its name says so, or it was seen entering one */
};

struct vg_proc_vm {
    uint32_t id; /* dense, from 0, never reused */
    int32_t pid;
    uint64_t start_ticks;      /* of the process: the pid alone may come back */
    char name[VG_VM_NAME_MAX]; /* of the command line, else "qemu-PID" */
    char uuid[VG_UUID_LEN];    /* or empty */
    GArray *vcpus;             /* struct vg_proc_vcpu, by index, then tid */
};

typedef struct vg_proc_scan vg_proc_scan;

vg_proc_scan *vg_proc_scan_new(const char *proc);
void vg_proc_scan_free(vg_proc_scan *scan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_proc_scan, vg_proc_scan_free)

/* Looks what is new and what has gone. now_ns is CLOCK_MONOTONIC, for the waits between looks.
 * Fails if the directory cannot be read; what was known is then kept. */
int vg_proc_scan_update(vg_proc_scan *scan, int64_t now_ns, GError **err);

/* Looks at one process at once, because something was heard of it: one of its threads is being
 * given the name comm, which /proc may not show yet, or it entered a guest, and is a vCPU whatever
 * its name, if comm is empty. What cannot be found is left to the next update.
 * For all that was heard up to the same now_ns its threads are listed once. */
void vg_proc_scan_look(vg_proc_scan *scan, int32_t pid, int32_t tid, const char *comm,
                       int64_t now_ns);

/* The living VMs by id: struct vg_proc_vm *. They are the scan's, until the next update. */
const GPtrArray *vg_proc_scan_vms(const vg_proc_scan *scan);

/* The VM with this UUID, else the one with this name that has no UUID; NULL if there is none. */
const struct vg_proc_vm *vg_proc_scan_find(const vg_proc_scan *scan, const char *uuid,
                                           const char *name);

#endif
