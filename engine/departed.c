/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "engine/departed.h"

#include <string.h>

#define DAY_NS (VG_ENGINE_DAY_WINDOWS * VG_ENGINE_DAY_NS)

struct departed {
    int64_t last_ns; /* end of the last window with the VM */
    struct vg_snap_departed *vm;
};

static void
departed_free(void *data)
{
    struct departed *departed = data;

    vg_record_free(&vg_snap_departed_record, departed->vm);
    g_free(departed);
}

GPtrArray *
vg_departed_new(void)
{
    return g_ptr_array_new_with_free_func(departed_free);
}

static struct vg_snap_departed *
departed_of(const char *uuid, const GArray *cpu, const GArray *gpu)
{
    struct vg_snap_departed *vm = vg_record_new(&vg_snap_departed_record);

    vm->uuid = g_strdup(uuid);
    vg_day_read(cpu, gpu, &vm->day);
    return vm;
}

static bool
departed_has(const GPtrArray *list, const char *uuid)
{
    for (guint i = 0; i < list->len; i++) {
        if (strcmp(((const struct departed *)list->pdata[i])->vm->uuid, uuid) == 0)
            return true;
    }
    return false;
}

void
vg_departed_add_day(GPtrArray *list, const char *uuid, int64_t last_ns, const GArray *cpu,
                    const GArray *gpu)
{
    if (departed_has(list, uuid))
        return;
    if (list->len >= VG_SNAPSHOT_DEPARTED_MAX)
        g_ptr_array_remove_index(list, 0);
    struct departed *departed = g_new0(struct departed, 1);
    departed->last_ns = last_ns;
    departed->vm = departed_of(uuid, cpu, gpu);
    g_ptr_array_add(list, departed);
}

void
vg_departed_add(GPtrArray *list, const struct vg_vm_track *track)
{
    if (!*track->uuid)
        return;
    vg_departed_remove(list, track->uuid);
    vg_departed_add_day(list, track->uuid, track->last_ns, track->day_cpu, track->day_gpu);
}

void
vg_departed_remove(GPtrArray *list, const char *uuid)
{
    for (guint i = list->len; i > 0; i--) {
        const struct departed *departed = list->pdata[i - 1];
        if (strcmp(departed->vm->uuid, uuid) == 0)
            g_ptr_array_remove_index(list, i - 1);
    }
}

void
vg_departed_expire(GPtrArray *list, int64_t now_ns)
{
    for (guint i = list->len; i > 0; i--) {
        const struct departed *departed = list->pdata[i - 1];
        if (now_ns - departed->last_ns > DAY_NS)
            g_ptr_array_remove_index(list, i - 1);
    }
}

/* Adds a record if there is space. The host then owns it. */
static void
departed_read(struct vg_snap_departed *take_vm, int64_t age_ns, struct vg_snap_host *host)
{
    if (host->departed->len >= VG_SNAPSHOT_DEPARTED_MAX) {
        vg_record_free(&vg_snap_departed_record, take_vm);
        return;
    }
    take_vm->age_ns = MAX(age_ns, 0);
    g_ptr_array_add(host->departed, take_vm);
}

void
vg_departed_read(const GPtrArray *list, int64_t now_ns, struct vg_snap_host *host)
{
    for (guint i = 0; i < list->len; i++) {
        const struct departed *departed = list->pdata[i];
        departed_read(vg_record_copy(&vg_snap_departed_record, departed->vm),
                      now_ns - departed->last_ns, host);
    }
}

void
vg_departed_read_track(const struct vg_vm_track *track, int64_t now_ns, struct vg_snap_host *host)
{
    if (*track->uuid)
        departed_read(departed_of(track->uuid, track->day_cpu, track->day_gpu),
                      now_ns - track->last_ns, host);
}
