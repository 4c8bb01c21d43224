/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "engine/day-past.h"

#include <math.h>
#include <string.h>

#include "engine/departed.h"

struct vg_day_past {
    GPtrArray *vms; /* struct day_past_vm, by first appearance */
};

struct day_past_vm {
    char *uuid;
    int64_t end_ns; /* of the newest mean; since the epoch */
    GArray *cpu, *gpu;
};

static void
day_past_free_vm(void *data)
{
    struct day_past_vm *vm = data;

    g_free(vm->uuid);
    g_array_free(vm->cpu, TRUE);
    g_array_free(vm->gpu, TRUE);
    g_free(vm);
}

vg_day_past *
vg_day_past_new(void)
{
    vg_day_past *past = g_new0(vg_day_past, 1);

    past->vms = g_ptr_array_new_with_free_func(day_past_free_vm);
    return past;
}

void
vg_day_past_free(vg_day_past *past)
{
    if (!past)
        return;
    g_ptr_array_unref(past->vms);
    g_free(past);
}

static struct day_past_vm *
day_past_find(const vg_day_past *past, const char *uuid)
{
    for (guint i = 0; i < past->vms->len; i++) {
        struct day_past_vm *vm = past->vms->pdata[i];
        if (strcmp(vm->uuid, uuid) == 0)
            return vm;
    }
    return NULL;
}

static struct day_past_vm *
day_past_need(vg_day_past *past, const char *uuid, int64_t begin_ns)
{
    struct day_past_vm *vm = day_past_find(past, uuid);

    if (vm)
        return vm;
    vm = g_new0(struct day_past_vm, 1);
    vm->uuid = g_strdup(uuid);
    vm->end_ns = begin_ns;
    vm->cpu = g_array_new(FALSE, FALSE, sizeof(double));
    vm->gpu = g_array_new(FALSE, FALSE, sizeof(double));
    g_ptr_array_add(past->vms, vm);
    return vm;
}

static void
day_past_push(GArray *values, double value)
{
    if (values->len >= VG_ENGINE_DAY_WINDOWS)
        g_array_remove_index(values, 0);
    g_array_append_val(values, value);
}

/* Returns the number of means that are missing between two times. */
static int64_t
day_past_gap(int64_t end_ns, int64_t begin_ns)
{
    return MAX(llround((double)(begin_ns - end_ns) / (double)VG_ENGINE_DAY_NS), 0);
}

/* Repeats the newest mean. */
static void
day_past_hold(GArray *values, int64_t n)
{
    for (int64_t i = 0; i < n && values->len > 0; i++)
        day_past_push(values, g_array_index(values, double, values->len - 1));
}

void
vg_day_past_add(vg_day_past *past, const char *uuid, int64_t end_ns, double cores, double gpu)
{
    const int64_t begin_ns = end_ns - VG_ENGINE_DAY_NS;
    struct day_past_vm *vm = day_past_need(past, uuid, begin_ns);
    const int64_t gap = day_past_gap(vm->end_ns, begin_ns);

    if (gap > VG_DAY_GAP_MAX) {
        g_array_set_size(vm->cpu, 0);
        g_array_set_size(vm->gpu, 0);
    }
    day_past_hold(vm->cpu, gap);
    day_past_hold(vm->gpu, gap);
    day_past_push(vm->cpu, cores);
    day_past_push(vm->gpu, gpu);
    vm->end_ns = end_ns;
}

/* Inserts a past, and the missing means after it, before values. */
static void
day_past_prepend(const GArray *past, int64_t gap, GArray *values)
{
    g_autoptr(GArray) now = g_array_copy(values);

    g_array_set_size(values, 0);
    g_array_append_vals(values, past->data, past->len);
    day_past_hold(values, gap);
    for (guint i = 0; i < now->len; i++)
        day_past_push(values, g_array_index(now, double, i));
}

void
vg_day_past_restore(const vg_day_past *past, int64_t offset_ns, struct vg_vm_track *track)
{
    const struct day_past_vm *vm = day_past_find(past, track->uuid);
    const int64_t begin_ns =
        track->last_ns - track->day_ns - track->day_cpu->len * VG_ENGINE_DAY_NS;
    const int64_t gap = vm ? day_past_gap(vm->end_ns - offset_ns, begin_ns) : 0;

    if (!vm || gap > VG_DAY_GAP_MAX)
        return;
    day_past_prepend(vm->cpu, gap, track->day_cpu);
    day_past_prepend(vm->gpu, gap, track->day_gpu);
}

void
vg_day_past_depart(const vg_day_past *past, int64_t offset_ns, const GPtrArray *tracks,
                   GPtrArray *departed)
{
    g_autoptr(GHashTable) uuids = g_hash_table_new(g_str_hash, g_str_equal);

    for (guint i = 0; i < tracks->len; i++)
        g_hash_table_add(uuids, ((struct vg_vm_track *)tracks->pdata[i])->uuid);
    for (guint i = 0; i < past->vms->len; i++) {
        const struct day_past_vm *vm = past->vms->pdata[i];
        if (!g_hash_table_contains(uuids, vm->uuid))
            vg_departed_add_day(departed, vm->uuid, vm->end_ns - offset_ns, vm->cpu, vm->gpu);
    }
}
