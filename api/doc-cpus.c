/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates the document of the host's CPUs.
 */
#include "config.h"

#include "api/doc.h"
#include "base/json.h"

/* A CPU of the document. */
struct cpu_row {
    int32_t cpu;
    const struct vg_host_cpu *told; /* NULL if only its vCPUs are known */
    json_object *vms;
    json_object *pinned;
    int64_t vms_ns;
    int64_t vms_wait_ns;
};

static void
cpu_row_clear(void *data)
{
    struct cpu_row *row = data;

    json_object_put(row->vms);
    json_object_put(row->pinned);
}

/* Finds or adds a row. The rows are sorted by CPU. */
static struct cpu_row *
need_row(GArray *rows, int32_t cpu)
{
    guint low = 0, high = rows->len;

    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (g_array_index(rows, struct cpu_row, middle).cpu < cpu)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == rows->len || g_array_index(rows, struct cpu_row, low).cpu != cpu) {
        struct cpu_row fresh = {
            .cpu = cpu, .vms = json_object_new_array(), .pinned = json_object_new_array()};
        g_array_insert_val(rows, low, fresh);
    }
    return &g_array_index(rows, struct cpu_row, low);
}

static json_object *
place_to_json(const vg_view *view, const struct vg_snap_vm *vm, const struct vg_place *place,
              bool counted)
{
    json_object *object = vg_doc_vm_name(view, vg_view_vm_id(vm), vm->name);

    vg_json_add_int64(object, "run_ns", place->run_ns);
    if (counted)
        vg_json_add_int64(object, "wait_ns", place->wait_ns);
    else
        vg_json_add(object, "wait_ns", NULL);
    return object;
}

static void
add_places(GArray *rows, const vg_view *view, const struct vg_snap_vm *vm,
           const struct vg_vm_sample *sample)
{
    for (guint i = 0; i < sample->places->len; i++) {
        const struct vg_place *place = &g_array_index(sample->places, struct vg_place, i);
        struct cpu_row *row = need_row(rows, place->cpu);
        row->vms_ns += place->run_ns;
        row->vms_wait_ns += place->wait_ns;
        vg_json_append(row->vms, place_to_json(view, vm, place, sample->places_counted));
    }
}

/* Returns whether the VM may not use some of the host's CPUs. */
static bool
is_pinned(const struct vg_vm_sample *sample, const struct vg_window *window)
{
    guint missing = 0;

    for (guint i = 0; i < window->cpus->len; i++) {
        int32_t cpu = g_array_index(window->cpus, struct vg_host_cpu, i).cpu;
        bool allowed = false;
        for (guint k = 0; k < sample->cpus->len && !allowed; k++)
            allowed = g_array_index(sample->cpus, int32_t, k) == cpu;
        missing += !allowed;
    }
    return missing > 0;
}

static void
add_pinned(GArray *rows, const vg_view *view, const struct vg_snap_vm *vm,
           const struct vg_vm_sample *sample)
{
    for (guint i = 0; i < sample->cpus->len; i++) {
        int32_t cpu = g_array_index(sample->cpus, int32_t, i);
        vg_json_append(need_row(rows, cpu)->pinned,
                       vg_doc_vm_name(view, vg_view_vm_id(vm), vm->name));
    }
}

static json_object *
row_to_json(struct cpu_row *row, bool counted)
{
    static const struct vg_host_cpu nothing = {
        .node = -1, .busy_ns = -1, .idle_ns = -1, .steal_ns = -1, .wait_ns = -1};
    const struct vg_host_cpu *cpu = row->told ? row->told : &nothing;
    json_object *object = json_object_new_object();

    vg_json_add_int64(object, "cpu", row->cpu);
    vg_doc_add_known(object, "node", cpu->node);
    vg_doc_add_known(object, "busy_ns", cpu->busy_ns);
    vg_doc_add_known(object, "idle_ns", cpu->idle_ns);
    vg_doc_add_known(object, "steal_ns", cpu->steal_ns);
    vg_doc_add_known(object, "wait_ns", cpu->wait_ns);
    vg_json_add_int64(object, "vms_ns", row->vms_ns);
    vg_doc_add_known(object, "vms_wait_ns", counted ? row->vms_wait_ns : -1);
    vg_json_add(object, "vms", json_object_get(row->vms));
    vg_json_add(object, "pinned", json_object_get(row->pinned));
    return object;
}

static void
add_edges(json_object *object, const vg_view *view)
{
    const struct vg_window *window = &view->newest;
    bool any = window->end_ns > window->begin_ns;

    vg_json_add(object, "begin_ns",
                any ? json_object_new_int64(window->begin_ns + view->clock_offset_ns) : NULL);
    vg_json_add(object, "end_ns",
                any ? json_object_new_int64(window->end_ns + view->clock_offset_ns) : NULL);
}

json_object *
vg_doc_host_cpus(const vg_view *view)
{
    const struct vg_window *window = &view->newest;
    json_object *object = json_object_new_object();
    json_object *items = json_object_new_array();
    g_autoptr(GArray) rows = g_array_new(FALSE, TRUE, sizeof(struct cpu_row));
    bool counted = false, placed = false;
    int64_t unpinned = 0;

    g_array_set_clear_func(rows, cpu_row_clear);
    for (guint i = 0; i < window->cpus->len; i++) {
        const struct vg_host_cpu *told = &g_array_index(window->cpus, struct vg_host_cpu, i);
        need_row(rows, told->cpu)->told = told;
    }
    for (guint h = 0; h < view->snapshot->hosts->len; h++) {
        const struct vg_snap_host *host = view->snapshot->hosts->pdata[h];
        for (guint i = 0; i < host->vms->len; i++) {
            const struct vg_snap_vm *vm = host->vms->pdata[i];
            const struct vg_vm_sample *sample = vg_view_sample(window, vm);
            if (!sample)
                continue;
            add_places(rows, view, vm, sample);
            counted = counted || sample->places_counted;
            placed = placed || sample->places->len > 0;
            if (sample->cpus_allowed && is_pinned(sample, window))
                add_pinned(rows, view, vm, sample);
            else
                unpinned++;
        }
    }
    add_edges(object, view);
    vg_json_add_string(object, "places", counted ? "counted" : placed ? "last-seen" : NULL);
    vg_json_add_string(object, "wait_reason", window->host.no_cpu_waits);
    vg_json_add_int64(object, "unpinned_vms", unpinned);
    for (guint i = 0; i < rows->len; i++)
        vg_json_append(items, row_to_json(&g_array_index(rows, struct cpu_row, i), counted));
    vg_json_add(object, "items", items);
    return object;
}
