/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <string.h>

#include "base/error.h"
#include "model/topology-private.h"

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

int
vg_topology_name_vm(vg_topology *topology, int32_t pid, const char *name, const char *uuid,
                    GError **err)
{
    if (pid <= 0 || pid > VG_TID_LIMIT)
        return vg_error(err, VG_E_INVALID, "process ID %d of VM '%s' is not in 1..%d", pid, name,
                        VG_TID_LIMIT);
    if (!name[0] || strlen(name) >= VG_VM_NAME_MAX)
        return vg_error(err, VG_E_INVALID, "VM name of process %d must have 1 to %d bytes", pid,
                        VG_VM_NAME_MAX - 1);
    if (!vg_is_vm_name(name))
        return vg_error(err, VG_E_INVALID, "'%s' cannot name a VM: it is reserved for an aggressor",
                        name);
    if (uuid && !g_uuid_string_is_valid(uuid))
        return vg_error(err, VG_E_INVALID, "'%s' of VM '%s' is not a UUID", uuid, name);
    if (!uuid && g_uuid_string_is_valid(name))
        return vg_error(err, VG_E_INVALID, "'%s' is a UUID; it must follow a name", name);
    if (g_hash_table_contains(topology->names, GINT_TO_POINTER(pid)))
        return vg_error(err, VG_E_CONFLICT, "process %d is named twice", pid);

    struct vm_name *given = g_new0(struct vm_name, 1);
    g_strlcpy(given->name, name, sizeof(given->name));
    if (uuid) {
        g_autofree char *lower = g_ascii_strdown(uuid, -1);
        g_strlcpy(given->uuid, lower, sizeof(given->uuid));
    }
    g_hash_table_insert(topology->names, GINT_TO_POINTER(pid), given);
    return 0;
}

static int
topology_compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

GPtrArray *
vg_topology_unmatched_names(const vg_topology *topology)
{
    g_autoptr(GHashTable) matched = g_hash_table_new(g_str_hash, g_str_equal);
    GPtrArray *names = g_ptr_array_new();
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, topology->names);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct vm_name *given = value;
        if (given->matched)
            g_hash_table_add(matched, given->name);
    }
    g_hash_table_iter_init(&iter, topology->names);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct vm_name *given = value;
        if (g_hash_table_add(matched, given->name))
            g_ptr_array_add(names, given->name);
    }
    g_ptr_array_sort(names, topology_compare_names);
    return names;
}
