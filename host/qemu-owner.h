/* SPDX-License-Identifier: Apache-2.0
 *
 * Distinguishes libvirt's QEMU processes from others. Any user of the host can name threads and
 * arguments as QEMU does. A process is libvirt's if it is in a control group that libvirt creates
 * for VMs, runs as the user of libvirt's QEMU processes, or is in libvirt's pid file of the VM.
 * Any thread.
 */
#ifndef VG_HOST_QEMU_OWNER_H
#define VG_HOST_QEMU_OWNER_H

#include <stdbool.h>
#include <stdint.h>

/* The directory of libvirt's pid files, NAME.pid. */
#define VG_QEMU_RUN_DIR "/run/libvirt/qemu"

/* The properties of a process that show its owner. */
struct vg_qemu_owner {
    int64_t user; /* -1 if unknown */
    bool is_grouped;
};

/* Sets the user that the host's libvirt starts QEMU as, or -1 if unknown. It is known once libvirt
 * has been read. */
void vg_qemu_owner_set_user(int64_t user);

/* Reads the user of libvirt's label "+64055:+64055" or "qemu:qemu". Returns -1 if it does not state
 * a user. */
int64_t vg_qemu_owner_parse_label(const char *label);

/* Reads these properties of a process; proc is "/proc" except in tests. */
void vg_qemu_owner_read(const char *proc, int32_t pid, struct vg_qemu_owner *ret);

/* Returns whether a process is libvirt's, by its control group or by its user, which must be this
 * host's QEMU user or vm_user; -1 if the VM has no user of its own. */
bool vg_qemu_owner_fits(const struct vg_qemu_owner *owner, int64_t vm_user);

/* Reads these properties and returns whether the process is libvirt's. */
bool vg_qemu_owner_is(const char *proc, int32_t pid, int64_t vm_user);

/* Returns the pid in a VM's pid file, or 0 if it does not exist or cannot be read. dir is
 * VG_QEMU_RUN_DIR except in tests. */
int32_t vg_qemu_owner_read_pid(const char *dir, const char *name);

#endif
