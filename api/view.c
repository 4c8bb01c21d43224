/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <string.h>

#include "api/backend.h"

vg_view *
vg_view_new(void)
{
    vg_view *view = g_new0(vg_view, 1);

    view->refs = 1;
    view->gpu_parts = g_ptr_array_new();
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
    vg_window_clear(&view->totals);
    vg_window_clear(&view->newest);
    vg_snapshot_free(view->snapshot);
    vg_inventory_free(view->inventory);
    g_ptr_array_unref(view->gpu_parts);
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
            if (vm->uuid && g_ascii_strcasecmp(vm->uuid, id) == 0)
                return vm;
            if (strcmp(vm->name, id) == 0)
                by_name = vm;
        }
    }
    return by_name;
}

/* Looks by pid first, which is cheap; a VM that was started again has another pid. */
const struct vg_vm_sample *
vg_view_sample(const struct vg_window *window, const struct vg_snap_vm *vm)
{
    guint n = window->vms ? window->vms->len : 0;

    for (guint i = 0; i < n; i++) {
        const struct vg_vm_sample *sample = &g_array_index(window->vms, struct vg_vm_sample, i);
        if (sample->pid == vm->pid &&
            (!vm->uuid || !sample->uuid[0] || g_ascii_strcasecmp(sample->uuid, vm->uuid) == 0))
            return sample;
    }
    for (guint i = n; vm->uuid && i > 0; i--) {
        const struct vg_vm_sample *sample = &g_array_index(window->vms, struct vg_vm_sample, i - 1);
        if (g_ascii_strcasecmp(sample->uuid, vm->uuid) == 0)
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
