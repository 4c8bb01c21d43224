/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/vm-names.h"

#include <inttypes.h>

#include "base/json.h"
#include "base/log.h"
#include "host/qemu-owner.h"
#include "model/vm-name.h"

#define VG_LOG_TAG "engine"

struct vg_vm_names {
    GHashTable *newest; /* char * by UUID, both owned */
    GHashTable *before; /* the names of the previous inventory */
    char *proc;         /* "/proc", or NULL if processes cannot be examined */
    /* pid -> whether libvirt owns the process, as GINT_TO_POINTER of 1 or 2, for the newest
     * inventory */
    GHashTable *owned;
};

static GHashTable *
vm_names_new_table(void)
{
    return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
}

vg_vm_names *
vg_vm_names_new(const char *proc)
{
    vg_vm_names *names = g_new0(vg_vm_names, 1);

    names->newest = vm_names_new_table();
    names->before = vm_names_new_table();
    names->proc = g_strdup(proc);
    names->owned = g_hash_table_new(NULL, NULL);
    return names;
}

void
vg_vm_names_free(vg_vm_names *names)
{
    if (!names)
        return;
    g_hash_table_unref(names->newest);
    g_hash_table_unref(names->before);
    g_hash_table_unref(names->owned);
    g_free(names->proc);
    g_free(names);
}

void
vg_vm_names_take(vg_vm_names *names, const vg_inventory *inventory)
{
    g_hash_table_unref(names->before);
    names->before = names->newest;
    names->newest = vm_names_new_table();
    g_hash_table_remove_all(names->owned);
    for (guint i = 0; i < inventory->vms->len; i++) {
        const struct vg_inv_vm *vm = inventory->vms->pdata[i];
        const char *called = vg_inv_vm_display_name(vm);
        if (called && vm->uuid)
            g_hash_table_insert(names->newest, g_strdup(vm->uuid), g_strdup(called));
    }
}

/* Returns the name of a VM in OpenStack, or NULL if unknown. */
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
vg_vm_names_log(const vg_vm_names *names, vg_event_log *events, const char *what, const char *name,
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
    /* The customer chooses the other name, which may contain anything. */
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

/* Returns the UUID or name under which a VM is stored, or NULL if its name looks like a UUID. */
static const char *
vm_names_identity(const struct vg_vm_sample *vm)
{
    if (vm->uuid[0])
        return vm->uuid;
    return g_uuid_string_is_valid(vm->name) ? NULL : vm->name;
}

/* Renames a VM to NAME#PID, or to NAME#PID.2 if that name is in use. */
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

/* ---- the owner of a process ---- */

enum { VM_NAMES_OWNED = 1, VM_NAMES_FOREIGN = 2 };

/* Returns whether libvirt owns the process of a sample. This is checked once per inventory. */
static bool
vm_names_is_owned(vg_vm_names *names, const struct vg_inv_vm *known, const struct vg_vm_sample *vm)
{
    gpointer key = GINT_TO_POINTER(vm->pid);

    if (!names->proc || vm->pid == known->pid)
        return true;
    int owned = GPOINTER_TO_INT(g_hash_table_lookup(names->owned, key));
    if (owned == 0) {
        owned =
            vg_qemu_owner_is(names->proc, vm->pid, known->user) ? VM_NAMES_OWNED : VM_NAMES_FOREIGN;
        g_hash_table_insert(names->owned, key, GINT_TO_POINTER(owned));
        if (owned == VM_NAMES_FOREIGN)
            vg_log_warn_limited("a process resembles a libvirt VM but does not belong to libvirt; "
                                "it is listed by its pid pid=%d name=\"%s\" uuid=\"%s\"",
                                vm->pid, vm->name, vm->uuid);
    }
    return owned == VM_NAMES_OWNED;
}

void
vg_vm_names_match(vg_vm_names *names, const vg_inventory *inventory, struct vg_window *window)
{
    g_autoptr(GHashTable) none = g_hash_table_new(g_str_hash, g_str_equal);

    for (guint i = 0; i < window->vms->len; i++) {
        struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        const struct vg_inv_vm *known =
            vm->uuid[0] ? vg_inventory_find(inventory, vm->uuid, 0, NULL) : NULL;
        if (!known)
            known = vg_inventory_find(inventory, NULL, vm->pid, vm->name);
        if (!known)
            continue;
        if (!vm_names_is_owned(names, known, vm)) {
            if (vg_vm_is(vm->uuid, NULL, known->uuid))
                vm->uuid[0] = '\0';
            vm_names_rename(vm, none);
        } else if (!vm->uuid[0]) {
            g_strlcpy(vm->name, known->name, sizeof(vm->name));
            if (known->uuid)
                g_strlcpy(vm->uuid, known->uuid, sizeof(vm->uuid));
        }
    }
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
            /* Separate calls have separate rate limits. */
            if (is_twin) {
                vg_log_warn_limited(
                    "two processes claim to be the same VM pid=%d name=\"%s\" uuid=\"%s\"", vm->pid,
                    vm->name, vm->uuid);
                vm->uuid[0] = '\0';
            } else {
                vg_log_warn_limited("a VM has a reserved name pid=%d name=\"%s\" uuid=\"%s\"",
                                    vm->pid, vm->name, vm->uuid);
            }
            vm_names_rename(vm, taken);
        }
        g_hash_table_add(taken, (char *)vm_names_identity(vm));
    }
}
