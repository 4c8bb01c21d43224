/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <string.h>

#include "api/backend.h"
#include "base/error.h"
#include "model/vm-name.h"

/* The maximum number of VMs named in an error. */
#define NAMED_MAX 5u

vg_view *
vg_view_new(void)
{
    vg_view *view = g_new0(vg_view, 1);

    view->refs = 1;
    view->gpu_parts = g_ptr_array_new();
    view->alerts = g_ptr_array_new_with_free_func(vg_active_alert_free);
    view->labels = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, g_free);
    pthread_mutex_init(&view->lock, NULL);
    return view;
}

vg_view *
vg_view_ref(vg_view *view)
{
    g_atomic_int_inc(&view->refs);
    return view;
}

void
vg_view_unref(vg_view *view)
{
    if (!view || !g_atomic_int_dec_and_test(&view->refs))
        return;
    for (int i = 0; i < VG_BODY_MAX; i++)
        g_free(view->bodies[i]);
    pthread_mutex_destroy(&view->lock);
    g_clear_pointer(&view->lost_series, g_array_unref);
    vg_window_clear(&view->totals);
    vg_window_clear(&view->newest);
    g_hash_table_unref(view->labels);
    vg_snapshot_free(view->snapshot);
    vg_inventory_free(view->inventory);
    g_ptr_array_unref(view->gpu_parts);
    g_ptr_array_unref(view->alerts);
    g_free(view->alerts_doubt);
    vg_gpu_log_unref(view->gpu_log);
    g_free(view);
}

const char *
vg_view_vm_id(const struct vg_snap_vm *vm)
{
    return vm->uuid ? vm->uuid : vm->name;
}

const struct vg_snap_vm *
vg_view_find_vm(const vg_view *view, const char *id)
{
    const struct vg_snap_vm *by_name = NULL;

    for (guint h = 0; h < view->snapshot->hosts->len; h++) {
        const struct vg_snap_host *host = view->snapshot->hosts->pdata[h];
        for (guint i = 0; i < host->vms->len; i++) {
            const struct vg_snap_vm *vm = host->vms->pdata[i];
            if (vg_vm_is(id, NULL, vm->uuid))
                return vm;
            if (vg_vm_is(id, vm->name, NULL))
                by_name = vm;
        }
    }
    return by_name;
}

const struct vg_snap_vm *
vg_view_name_vm(const vg_view *view, const char *name, GError **err)
{
    const struct vg_snap_vm *found = vg_view_find_vm(view, name);
    g_autoptr(GString) names = g_string_new(NULL);
    guint n = 0;

    if (found)
        return found;
    for (guint h = 0; h < view->snapshot->hosts->len; h++) {
        const struct vg_snap_host *host = view->snapshot->hosts->pdata[h];
        for (guint i = 0; i < host->vms->len; i++) {
            const struct vg_snap_vm *vm = host->vms->pdata[i];
            if (g_strcmp0(vm->display_name, name) != 0)
                continue;
            if (n++ < NAMED_MAX)
                g_string_append_printf(names, "%s'%s'", n > 1 ? ", " : "", vm->name);
            found = vm;
        }
    }
    if (n == 1)
        return found;
    if (n == 0)
        vg_error(err, VG_E_NOT_FOUND, "no VM '%s' is measured", name);
    else
        vg_error(err, VG_E_CONFLICT, "%u VMs are named '%s' in OpenStack: %s%s", n, name,
                 names->str, n > NAMED_MAX ? ", ..." : "");
    return NULL;
}

/* Counts how many VMs of a host each name matches, in libvirt or in OpenStack. */
static GHashTable *
view_count_names(const struct vg_snap_host *host)
{
    GHashTable *counts = g_hash_table_new(g_str_hash, g_str_equal);

    for (guint i = 0; i < host->vms->len; i++) {
        const struct vg_snap_vm *vm = host->vms->pdata[i];
        char *const names[] = {vm->name, vm->display_name};
        for (size_t k = 0; k < G_N_ELEMENTS(names) && names[k]; k++) {
            guint count = GPOINTER_TO_UINT(g_hash_table_lookup(counts, names[k]));
            g_hash_table_insert(counts, names[k], GUINT_TO_POINTER(count + 1));
        }
    }
    return counts;
}

static void
view_label_host(vg_view *view, const struct vg_snap_host *host)
{
    g_autoptr(GHashTable) counts = view_count_names(host);

    for (guint i = 0; i < host->vms->len; i++) {
        const struct vg_snap_vm *vm = host->vms->pdata[i];
        const char *called = vm->display_name;
        if (!called || strcmp(called, vm->name) == 0)
            continue;
        bool clear = GPOINTER_TO_UINT(g_hash_table_lookup(counts, called)) == 1 &&
                     vg_is_vm_name(called) && !g_uuid_string_is_valid(called) &&
                     !strchr(called, '(');
        g_hash_table_insert(view->labels, vm->name,
                            clear ? g_strdup(called)
                                  : g_strdup_printf("%s (%s)", called, vm->name));
    }
}

void
vg_view_make_labels(vg_view *view)
{
    for (guint h = 0; h < view->snapshot->hosts->len; h++) {
        const struct vg_snap_host *host = view->snapshot->hosts->pdata[h];
        bool any = false;
        for (guint i = 0; i < host->vms->len && !any; i++)
            any = ((const struct vg_snap_vm *)host->vms->pdata[i])->display_name != NULL;
        if (any)
            view_label_host(view, host);
    }
}

const char *
vg_view_label(const vg_view *view, const char *name)
{
    const char *label = g_hash_table_lookup(view->labels, name);

    return label ? label : name;
}

/* Searches by pid first, which is cheap. A restarted VM has a different pid. */
const struct vg_vm_sample *
vg_view_sample(const struct vg_window *window, const struct vg_snap_vm *vm)
{
    guint n = window->vms ? window->vms->len : 0;

    for (guint i = 0; i < n; i++) {
        const struct vg_vm_sample *sample = &g_array_index(window->vms, struct vg_vm_sample, i);
        if (sample->pid == vm->pid &&
            (!vm->uuid || !sample->uuid[0] || vg_vm_is(sample->uuid, NULL, vm->uuid)))
            return sample;
    }
    for (guint i = n; vm->uuid && i > 0; i--) {
        const struct vg_vm_sample *sample = &g_array_index(window->vms, struct vg_vm_sample, i - 1);
        if (vg_vm_is(sample->uuid, NULL, vm->uuid))
            return sample;
    }
    return NULL;
}

struct vg_part_status *
vg_part_status_new(const char *name, const char *state, bool ready, char *take_reason)
{
    struct vg_part_status *part = g_new0(struct vg_part_status, 1);

    part->name = name;
    part->state = state;
    part->ready = ready;
    part->reason = take_reason;
    return part;
}

void
vg_part_status_free(void *data)
{
    struct vg_part_status *part = data;

    if (!part)
        return;
    g_free(part->reason);
    if (part->sources)
        g_ptr_array_unref(part->sources);
    g_free(part);
}
