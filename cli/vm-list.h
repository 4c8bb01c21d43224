/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl vm list --all, and top --all: the VMs of all hosts that vgpud knows.
 */
#ifndef VG_CLI_VM_LIST_H
#define VG_CLI_VM_LIST_H

#include <stdint.h>

#include "cli/online-args.h"

/* Selects VMs. */
struct vg_vm_list_args {
    const char *host;     /* NULL for any */
    const char *vm_class; /* NULL for any */
    int64_t limit;        /* 0 if unlimited */
};

/* Queries and prints the list. */
int vg_vm_list_all(const struct vg_online_args *args, const struct vg_vm_list_args *wanted,
                   vg_client *client, GError **err);

#endif
