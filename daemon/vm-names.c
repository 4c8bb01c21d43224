/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/vm-names.h"

#include <inttypes.h>

#include "base/json.h"
#include "base/log.h"

#define VG_LOG_TAG "engine"

struct vg_vm_names {
    GHashTable *newest; /* char * by UUID, both owned */
    GHashTable *before; /* the names of the inventory before */
};

static GHashTable *
vm_names_new_table(void)
{
    return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
}

vg_vm_names *
vg_vm_names_new(void)
{
    vg_vm_names *names = g_new0(vg_vm_names, 1);

    names->newest = vm_names_new_table();
    names->before = vm_names_new_table();
    return names;
}

void
vg_vm_names_free(vg_vm_names *names)
{
    if (!names)
        return;
    g_hash_table_unref(names->newest);
    g_hash_table_unref(names->before);
    g_free(names);
}

void
vg_vm_names_take(vg_vm_names *names, const vg_inventory *inventory)
{
    g_hash_table_unref(names->before);
    names->before = names->newest;
    names->newest = vm_names_new_table();
    for (guint i = 0; i < inventory->vms->len; i++) {
        const struct vg_inv_vm *vm = inventory->vms->pdata[i];
        const char *called = vg_inv_vm_display_name(vm);
        if (called && vm->uuid)
            g_hash_table_insert(names->newest, g_strdup(vm->uuid), g_strdup(called));
    }
}

/* Returns the name of a VM in OpenStack; NULL if it is not known to have one. */
static const char *
vm_names_find(const vg_vm_names *names, const char *uuid)
{
    const char *called = uuid ? g_hash_table_lookup(names->newest, uuid) : NULL;

    return called || !uuid ? called : g_hash_table_lookup(names->before, uuid);
}

const char *
vg_vm_names_find_sample(void *names, const struct vg_vm_sample *vm)
{
    return vm_names_find(names, vm->uuid);
}

void
vg_vm_names_tell(const vg_vm_names *names, vg_event_log *events, const char *what, const char *name,
                 const char *uuid, int64_t pid, const char *source)
{
    const char *known_uuid = uuid && uuid[0] ? uuid : NULL;
    const char *called = vm_names_find(names, known_uuid);
    json_object *data = json_object_new_object();

    vg_json_add_string(data, "what", what);
    vg_json_add_string(data, "name", name);
    if (called)
        vg_json_add_string(data, "display_name", called);
    vg_json_add_string(data, "uuid", known_uuid);
    if (pid > 0)
        vg_json_add_int64(data, "pid", pid);
    vg_json_add_string(data, "source", source);
    /* Customers choose the other name, which may hold anything. */
    vg_log_info("VM %s name=\"%s\" uuid=%s pid=%" PRId64 " source=%s", what, name,
                known_uuid ? known_uuid : "-", pid, source);
    vg_event_log_add(events, "vm", data);
}

/* ---- identities ---- */

static int
vm_names_compare_ids(const void *a, const void *b)
{
    const struct vg_vm_sample *x = *(struct vg_vm_sample *const *)a;
    const struct vg_vm_sample *y = *(struct vg_vm_sample *const *)b;

    return (x->id > y->id) - (x->id < y->id);
}

/* Returns the UUID or name by which a VM is stored; NULL if its name looks like a UUID. */
static const char *
vm_names_identity(const struct vg_vm_sample *vm)
{
    if (vm->uuid[0])
        return vm->uuid;
    return g_uuid_string_is_valid(vm->name) ? NULL : vm->name;
}

/* Renames a VM to NAME#PID, or to NAME#PID.2 if there is such a VM. */
static void
vm_names_rename(struct vg_vm_sample *vm, const GHashTable *taken)
{
    g_autofree char *start = g_utf8_substring(vm->name, 0, MIN(g_utf8_strlen(vm->name, -1), 50));
    g_autofree char *name = g_strdup_printf("%s#%d", start, vm->pid);

    for (unsigned i = 2; g_hash_table_contains((GHashTable *)taken, name); i++) {
        g_free(name);
        name = g_strdup_printf("%s#%d.%u", start, vm->pid, i);
    }
    g_strlcpy(vm->name, name, sizeof(vm->name));
}

void
vg_vm_names_part(struct vg_window *window)
{
    g_autoptr(GPtrArray) vms = g_ptr_array_new();
    g_autoptr(GHashTable) taken = g_hash_table_new(g_str_hash, g_str_equal);

    for (guint i = 0; i < window->vms->len; i++)
        g_ptr_array_add(vms, &g_array_index(window->vms, struct vg_vm_sample, i));
    g_ptr_array_sort(vms, vm_names_compare_ids);
    for (guint i = 0; i < vms->len; i++) {
        struct vg_vm_sample *vm = vms->pdata[i];
        const char *identity = vm_names_identity(vm);
        bool is_twin = identity && g_hash_table_contains(taken, identity);
        if (is_twin || !identity || !vg_is_vm_name(vm->name)) {
            /* Each of the two calls has a limit of its own, so that none silences the other. */
            if (is_twin) {
                vg_log_warn_limited(
                    "two processes say they are one VM pid=%d name=\"%s\" uuid=\"%s\"", vm->pid,
                    vm->name, vm->uuid);
                vm->uuid[0] = '\0';
            } else {
                vg_log_warn_limited("a VM has a name that means something else pid=%d name=\"%s\" "
                                    "uuid=\"%s\"",
                                    vm->pid, vm->name, vm->uuid);
            }
            vm_names_rename(vm, taken);
        }
        g_hash_table_add(taken, (char *)vm_names_identity(vm));
    }
}
