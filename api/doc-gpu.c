/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates documents about GPUs: their users, a VM's use, and the requests they processed. A GPU has
 * the inventory's name or a collector's. The two may differ.
 */
#include "config.h"

#include <string.h>

#include "api/doc.h"
#include "api/parse.h"
#include "base/error.h"
#include "base/json.h"
#include "model/score.h"
#include "model/window-json.h"

/* The maximum number of VMs or processes listed for a GPU and a period. Those with the most use
 * come first. */
#define USERS_MAX 256

/* The use of an engine by a VM. */
struct use {
    const struct vg_vm_sample *vm;
    const struct vg_gpu_sample *gpu;
};

/* ---- the list of GPUs ---- */

/* Creates an id. Recorded names may not be UTF-8, but JSON must be. */
static char *
id_of(const char *device)
{
    return g_utf8_make_valid(device, -1);
}

static bool
is_of(const struct vg_gpu_sample *gpu, const char *id)
{
    if (strcmp(gpu->device, id) == 0)
        return true;
    if (g_utf8_validate(gpu->device, -1, NULL))
        return false;
    g_autofree char *own = id_of(gpu->device);
    return strcmp(own, id) == 0;
}

static void
add_id(GHashTable *ids, const char *device)
{
    if (device[0])
        g_hash_table_add(ids, id_of(device));
}

static void
add_ids(GHashTable *ids, const struct vg_window *window)
{
    for (guint i = 0; i < window->gpus->len; i++)
        add_id(ids, g_array_index(window->gpus, struct vg_gpu_sample, i).device);
    for (guint i = 0; i < window->gpu_processes->len; i++)
        add_id(ids,
               g_array_index(window->gpu_processes, struct vg_gpu_process_sample, i).gpu.device);
    for (guint i = 0; i < window->vms->len; i++) {
        const GArray *gpus = g_array_index(window->vms, struct vg_vm_sample, i).gpus;
        for (guint k = 0; k < gpus->len; k++)
            add_id(ids, g_array_index(gpus, struct vg_gpu_sample, k).device);
    }
}

static int
compare_ids(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

GPtrArray *
vg_doc_gpu_ids(const vg_view *view)
{
    g_autoptr(GHashTable) set = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    GPtrArray *ids = g_ptr_array_new_with_free_func(g_free);
    GHashTableIter iter;
    void *id;

    for (guint i = 0; i < view->inventory->gpus->len; i++)
        add_id(set, ((const struct vg_inv_gpu *)view->inventory->gpus->pdata[i])->device);
    add_ids(set, &view->totals);
    add_ids(set, &view->newest);
    g_hash_table_iter_init(&iter, set);
    while (g_hash_table_iter_next(&iter, &id, NULL)) {
        g_hash_table_iter_steal(&iter);
        g_ptr_array_add(ids, id);
    }
    g_ptr_array_sort(ids, compare_ids);
    return ids;
}

/* ---- users of a GPU ---- */

static int64_t
length_of(const struct vg_window *window)
{
    return window->end_ns - window->begin_ns;
}

static json_object *
vm_name_of(const vg_view *view, const struct vg_vm_sample *vm)
{
    const char *id = vm->uuid[0] ? vm->uuid : vm->name;
    const struct vg_snap_vm *known = vg_view_find_vm(view, id);

    return vg_doc_vm_name(view, known ? vg_view_vm_id(known) : id, known ? known->name : vm->name);
}

static int
compare_uses(const void *a, const void *b)
{
    const struct use *x = a, *y = b;

    if (x->gpu->busy_ns != y->gpu->busy_ns)
        return x->gpu->busy_ns > y->gpu->busy_ns ? -1 : 1;
    int by_name = strcmp(x->vm->name, y->vm->name);
    return by_name != 0 ? by_name : strcmp(x->gpu->engine, y->gpu->engine);
}

static json_object *
use_to_json(const vg_view *view, const struct use *use, int64_t duration_ns)
{
    const struct vg_gpu_sample *gpu = use->gpu;
    json_object *object = json_object_new_object();

    vg_json_add(object, "vm", vm_name_of(view, use->vm));
    vg_json_add_string(object, "engine", gpu->engine);
    vg_json_add_gpu_use(object, gpu, duration_ns);
    return object;
}

static void
doc_gpu_add_vms(json_object *object, const vg_view *view, const struct vg_window *window,
                const char *id)
{
    g_autoptr(GArray) uses = g_array_new(FALSE, FALSE, sizeof(struct use));
    json_object *rows = json_object_new_array();

    for (guint i = 0; i < window->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        for (guint k = 0; k < vm->gpus->len; k++) {
            const struct use use = {vm, &g_array_index(vm->gpus, struct vg_gpu_sample, k)};
            if (is_of(use.gpu, id))
                g_array_append_val(uses, use);
        }
    }
    g_array_sort(uses, compare_uses);
    for (guint i = 0; i < MIN(uses->len, USERS_MAX); i++)
        vg_json_append(rows,
                       use_to_json(view, &g_array_index(uses, struct use, i), length_of(window)));
    vg_json_add(object, "vms", rows);
    vg_json_add_int64(object, "vms_left_out", MAX((int64_t)uses->len - USERS_MAX, 0));
}

static int
compare_processes(const void *a, const void *b)
{
    const struct vg_gpu_process_sample *x = *(const struct vg_gpu_process_sample *const *)a;
    const struct vg_gpu_process_sample *y = *(const struct vg_gpu_process_sample *const *)b;

    if (x->gpu.busy_ns != y->gpu.busy_ns)
        return x->gpu.busy_ns > y->gpu.busy_ns ? -1 : 1;
    return x->pid != y->pid ? (x->pid > y->pid) - (x->pid < y->pid)
                            : strcmp(x->gpu.engine, y->gpu.engine);
}

static void
add_processes(json_object *object, const struct vg_window *window, const char *id)
{
    g_autoptr(GPtrArray) processes = g_ptr_array_new();
    json_object *rows = json_object_new_array();

    for (guint i = 0; i < window->gpu_processes->len; i++) {
        struct vg_gpu_process_sample *process =
            &g_array_index(window->gpu_processes, struct vg_gpu_process_sample, i);
        if (is_of(&process->gpu, id))
            g_ptr_array_add(processes, process);
    }
    g_ptr_array_sort(processes, compare_processes);
    for (guint i = 0; i < MIN(processes->len, USERS_MAX); i++)
        vg_json_append(rows, vg_gpu_process_to_json(processes->pdata[i], length_of(window)));
    vg_json_add(object, "processes", rows);
    vg_json_add_int64(object, "processes_left_out",
                      MAX((int64_t)processes->len - USERS_MAX, 0) +
                          (int64_t)MIN(window->gpu_processes_left_out, INT64_MAX / 2));
}

static void
add_use(json_object *object, const vg_view *view, const struct vg_window *window, const char *id)
{
    json_object *engines = json_object_new_array();

    for (guint i = 0; i < window->gpus->len; i++) {
        const struct vg_gpu_sample *gpu = &g_array_index(window->gpus, struct vg_gpu_sample, i);
        if (is_of(gpu, id))
            vg_json_append(engines, vg_gpu_to_json(gpu, length_of(window)));
    }
    vg_json_add(object, "engines", engines);
    doc_gpu_add_vms(object, view, window, id);
    add_processes(object, window, id);
}

/* ---- one GPU, and all ---- */

/* Lists the VMs that have the GPU or a part of it assigned. */
static json_object *
assigned_to_json(const vg_view *view, const char *id)
{
    json_object *array = json_object_new_array();

    for (guint i = 0; i < view->inventory->vms->len; i++) {
        const struct vg_inv_vm *vm = view->inventory->vms->pdata[i];
        for (guint k = 0; k < vm->devices->len; k++) {
            const struct vg_inv_device *device = vm->devices->pdata[k];
            if (g_strcmp0(device->parent, id) != 0 && g_strcmp0(device->address, id) != 0)
                continue;
            json_object *row = json_object_new_object();
            vg_json_add(row, "vm", vg_doc_vm_name(view, vm->uuid ? vm->uuid : vm->name, vm->name));
            vg_json_add_string(row, "kind", device->kind);
            vg_json_add_string(row, "address", device->address);
            vg_json_add_string(row, "mdev_type", device->mdev_type);
            vg_json_add_string(row, "type", device->function ? device->function : device->gpu_type);
            vg_json_append(array, row);
        }
    }
    return array;
}

static json_object *
inventory_to_json(const vg_view *view, const char *id)
{
    for (guint i = 0; i < view->inventory->gpus->len; i++) {
        const struct vg_inv_gpu *gpu = view->inventory->gpus->pdata[i];
        g_autofree char *own = id_of(gpu->device);
        if (strcmp(own, id) == 0)
            return vg_record_write(&vg_inv_gpu_record, gpu);
    }
    return NULL;
}

/* Lists the parts that can be assigned to VMs, and why each part is free or not. */
static json_object *
doc_gpu_parts(const vg_view *view, const char *id)
{
    json_object *array = json_object_new_array();

    for (guint i = 0; i < view->gpu_parts->len; i++) {
        const struct vg_gpu_part *part = view->gpu_parts->pdata[i];
        g_autofree char *own = id_of(part->gpu);
        if (strcmp(own, id) == 0)
            vg_json_append(array, vg_record_write(&vg_gpu_part_record, part));
    }
    return array;
}

/* Describes the GPU's largest profile. Returns NULL if the GPU is known only from records. */
static json_object *
doc_gpu_largest(const vg_view *view, const char *id)
{
    for (guint i = 0; i < view->snapshot->hosts->len; i++) {
        const struct vg_snap_host *host = view->snapshot->hosts->pdata[i];
        for (guint k = 0; k < host->gpus->len; k++) {
            const struct vg_snap_gpu *gpu = host->gpus->pdata[k];
            g_autofree char *own = id_of(gpu->device);
            const struct vg_gpu_largest largest = vg_gpu_largest_of(gpu);
            if (strcmp(own, id) == 0)
                return gpu->vgpu_types->len > 0 ? vg_doc_gpu_largest(view, &largest) : NULL;
        }
    }
    return NULL;
}

static bool
has_begun(const struct vg_window *window)
{
    return window->end_ns > window->begin_ns;
}

static void
add_period(json_object *object, const vg_view *view, const struct vg_window *window)
{
    vg_json_add_int64(object, "begin_ns", window->begin_ns + view->clock_offset_ns);
    vg_json_add_int64(object, "end_ns", window->end_ns + view->clock_offset_ns);
}

static void
doc_gpu_add_source(json_object *object, const vg_view *view)
{
    const char *source = view->provenance.gpu_source;

    vg_json_add_string(object, "source", source[0] ? source : NULL);
}

/* The device name used by collectors/gpu-venus.c. */
#define VENUS "venus"

static const char doc_gpu_venus_note[] =
    "Guests that use Venus. Busy is the CPU time of their render servers, used where no driver "
    "reports GPU time (lavapipe). Requests are unknown: no driver reports them.";

json_object *
vg_doc_gpu(const vg_view *view, const char *id)
{
    json_object *object = json_object_new_object();
    json_object *newest = NULL;

    vg_json_add_string(object, "id", id);
    vg_json_add(object, "inventory", inventory_to_json(view, id));
    vg_json_add(object, "assigned", assigned_to_json(view, id));
    vg_json_add(object, "parts", doc_gpu_parts(view, id));
    vg_json_add(object, "largest_free", doc_gpu_largest(view, id));
    doc_gpu_add_source(object, view);
    if (strcmp(id, VENUS) == 0)
        vg_json_add_string(object, "note", doc_gpu_venus_note);
    add_use(object, view, &view->totals, id);
    if (has_begun(&view->newest)) {
        newest = json_object_new_object();
        add_period(newest, view, &view->newest);
        add_use(newest, view, &view->newest, id);
    }
    vg_json_add(object, "newest", newest);
    return object;
}

/* Reads the id that precedes a page, from "gpus\nID". The id is "" for the first page. */
static char *
doc_gpu_read_marker(const char *marker, GError **err)
{
    if (!marker)
        return g_strdup("");
    g_autofree char *text = vg_marker_read(marker, err);
    if (!text)
        return NULL;
    if (g_str_has_prefix(text, "gpus\n"))
        return g_strdup(text + strlen("gpus\n"));
    vg_error(err, VG_E_INVALID, "marker: it is not from a list of GPUs");
    return NULL;
}

json_object *
vg_doc_gpus(const vg_view *view, size_t limit, const char *marker, GError **err)
{
    g_autofree char *after = doc_gpu_read_marker(marker, err);
    g_autofree char *next = NULL;
    const char *last = NULL;

    if (!after)
        return NULL;
    g_autoptr(GPtrArray) ids = vg_doc_gpu_ids(view);
    json_object *object = json_object_new_object();
    json_object *items = json_object_new_array();
    for (guint i = 0; i < ids->len && !next; i++) {
        const char *id = ids->pdata[i];
        if (strcmp(id, after) <= 0)
            continue;
        if (json_object_array_length(items) < limit) {
            vg_json_append(items, vg_doc_gpu(view, id));
            last = id;
        } else {
            g_autofree char *text = g_strconcat("gpus\n", last, NULL);
            next = vg_marker_new(text);
        }
    }
    vg_json_add(object, "items", items);
    vg_json_add_string(object, "next", next);
    return object;
}

/* ---- one VM ---- */

static json_object *
newest_of_vm(const vg_view *view, const struct vg_snap_vm *vm)
{
    const struct vg_window *window = &view->newest;
    const struct vg_vm_sample *sample = vg_view_sample(window, vm);

    if (!sample || !has_begun(window))
        return NULL;
    json_object *object = json_object_new_object();
    add_period(object, view, window);
    vg_json_add_bool(object, "gpu_known", sample->gpu_known);
    vg_json_add_double(object, "gpu_intensity",
                       vg_gpu_intensity(sample->gpu_active_ns, length_of(window)));
    vg_json_add_int64(object, "gpu_active_ns", sample->gpu_active_ns);
    vg_json_add(object, "gpu", vg_gpus_to_json(sample->gpus, length_of(window)));
    return object;
}

static json_object *
devices_of_vm(const vg_view *view, const struct vg_snap_vm *vm)
{
    const struct vg_inv_vm *domain =
        vg_inventory_find(view->inventory, vm->uuid, vm->pid, vm->name);
    json_object *array = json_object_new_array();

    for (guint i = 0; domain && i < domain->devices->len; i++) {
        const struct vg_inv_device *device = domain->devices->pdata[i];
        if (device->is_gpu)
            vg_json_append(array, vg_record_write(&vg_inv_device_record, device));
    }
    return array;
}

json_object *
vg_doc_vm_gpu(const vg_view *view, const struct vg_snap_vm *vm)
{
    const struct vg_vm_sample *sample = vg_view_sample(&view->totals, vm);
    json_object *object = json_object_new_object();

    vg_json_add(object, "vm", vg_doc_vm_name(view, vg_view_vm_id(vm), vm->name));
    vg_json_add_bool(object, "gpu_known", vm->gpu_known);
    vg_json_add_double(object, "gpu_intensity", vm->gpu_intensity);
    doc_gpu_add_source(object, view);
    vg_json_add_int64(object, "gpu_active_ns", sample ? sample->gpu_active_ns : 0);
    vg_json_add(object, "gpu",
                sample ? vg_gpus_to_json(sample->gpus, length_of(&view->totals))
                       : json_object_new_array());
    vg_json_add(object, "newest", newest_of_vm(view, vm));
    vg_json_add(object, "devices", devices_of_vm(view, vm));
    return object;
}

/* ---- requests ---- */

static void
add_raw_time(json_object *object, const char *name, int64_t ns, bool known)
{
    vg_json_add(object, name, known ? json_object_new_int64(ns) : NULL);
}

static json_object *
request_to_json(const vg_view *view, const struct vg_gpu_log_entry *entry)
{
    const struct vg_gpu_request_sample *request = &entry->request->request;
    const struct {
        const char *name;
        int64_t ns;
    } times[] = {
        {"queued_ns", request->queued_ns}, {"submitted_ns", request->submitted_ns},
        {"ready_ns", request->ready_ns},   {"run_ns", request->run_ns},
        {"end_ns", request->end_ns},
    };
    json_object *object = json_object_new_object();
    json_object *vm = NULL;

    if (request->vm != VG_PROCESS_NO_ID) {
        const struct vg_gpu_log_vm *known =
            &g_array_index(entry->chunk->vms, struct vg_gpu_log_vm, request->vm);
        vm = vg_doc_vm_name(view, known->uuid[0] ? known->uuid : known->name, known->name);
    }
    vg_json_add(object, "vm", vm);
    vg_json_add_int64(object, "pid", request->pid);
    vg_json_add_string(
        object, "engine",
        g_array_index(entry->chunk->engines, struct vg_gpu_log_engine, request->gpu).engine);
    /* A context is chosen by the driver and may use all 64 bits. */
    vg_json_add(object, "context", json_object_new_uint64(request->context));
    vg_json_add(object, "seqno", json_object_new_uint64(request->seqno));
    for (size_t i = 0; i < G_N_ELEMENTS(times); i++)
        add_raw_time(object, times[i].name, times[i].ns, times[i].ns != VG_TIME_UNKNOWN);
    vg_json_add_int64(object, "exec_ns", request->exec_ns);
    vg_json_add_bool(object, "coalesced", request->coalesced);
    vg_json_add_int64(object, "at_ns", entry->request->at_ns);
    return object;
}

/* Returns the GPU's name in the log, or the id if the log has none. The caller frees it. */
static char *
device_of(const vg_view *view, const char *id)
{
    for (guint i = 0; i < view->totals.gpus->len; i++) {
        const struct vg_gpu_sample *gpu =
            &g_array_index(view->totals.gpus, struct vg_gpu_sample, i);
        if (is_of(gpu, id))
            return g_strdup(gpu->device);
    }
    return g_strdup(id);
}

static json_object *
page_to_json(const vg_view *view, const struct vg_gpu_log_query *query,
             const struct vg_gpu_log_page *page)
{
    bool dropped = view->gpu_log && view->gpu_log->dropped_ns != VG_TIME_UNKNOWN;
    bool begun = has_begun(&view->totals);
    json_object *object = json_object_new_object();
    json_object *items = json_object_new_array();

    vg_json_add_string(object, "gpu", query->device);
    add_raw_time(object, "since_ns", query->since_ns, query->since_ns != INT64_MIN);
    add_raw_time(object, "until_ns", query->until_ns, query->until_ns != INT64_MAX);
    vg_json_add_int64(object, "clock_offset_ns", view->clock_offset_ns);
    add_raw_time(object, "oldest_ns", dropped ? view->gpu_log->dropped_ns : view->totals.begin_ns,
                 begun);
    add_raw_time(object, "newest_ns", view->newest.end_ns, begun);
    for (guint i = 0; i < page->entries->len; i++)
        vg_json_append(items, request_to_json(
                                  view, &g_array_index(page->entries, struct vg_gpu_log_entry, i)));
    vg_json_add(object, "items", items);
    vg_json_add_bool(object, "more", page->more);
    vg_json_add_int64(object, "next_since", MAX(page->next_ns, 0));
    vg_json_add_int64(object, "left_out", (int64_t)page->left_out);
    return object;
}

/* Replaces a VM's OpenStack name in a query with its libvirt name. A VM that no longer exists is
 * found by its requests. */
static int
doc_gpu_name_vm(const vg_view *view, struct vg_gpu_log_query *query, GError **err)
{
    GError *error = NULL;

    if (!query->vm || vg_view_find_vm(view, query->vm) ||
        vg_gpu_log_has_vm(view->gpu_log, query->vm))
        return 0;
    const struct vg_snap_vm *vm = vg_view_name_vm(view, query->vm, &error);
    if (vm) {
        query->vm = vm->name;
        return 0;
    }
    if (g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND)) {
        g_clear_error(&error);
        return vg_error(err, VG_E_NOT_FOUND, "vm: VM '%s' is unknown", query->vm);
    }
    g_propagate_prefixed_error(err, error, "vm: ");
    return -1;
}

json_object *
vg_doc_gpu_requests(const vg_view *view, const struct vg_gpu_log_query *query, GError **err)
{
    g_autofree char *device = device_of(view, query->device);
    struct vg_gpu_log_query of_log = *query;
    struct vg_gpu_log_page page;

    if (doc_gpu_name_vm(view, &of_log, err) < 0)
        return NULL;
    of_log.device = device;
    vg_gpu_log_read(view->gpu_log, &of_log, view->newest.end_ns, &page);
    json_object *object = page_to_json(view, query, &page);
    vg_gpu_log_page_clear(&page);
    return object;
}
