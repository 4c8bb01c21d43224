/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <string.h>

#include "model/topology.h"

bool
vg_is_vm_name(const char *name)
{
    return strcmp(name, "self") != 0 && strcmp(name, "rest") != 0 && strcmp(name, "limit") != 0 &&
           !g_str_has_prefix(name, "host:");
}

const char *
vg_process_vm_name(const struct vg_process *process, char *buf)
{
    if (process->name[0])
        g_strlcpy(buf, process->name, VG_VM_NAME_MAX);
    else
        g_snprintf(buf, VG_VM_NAME_MAX, "qemu-%d", process->pid);
    return buf;
}
