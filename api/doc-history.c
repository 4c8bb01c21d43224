/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates documents about a host over a past period, from the store.
 */
#include "config.h"

#include <string.h>

#include "api/doc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "model/window-json.h"

/* The data for all these documents. */
struct past {
    const struct vg_history_query *query;
    const vg_history_host *host;
    const vg_view *view; /* the newest view, or NULL if not needed */
};

/* Returns the total time of this number of windows. All windows have the same length, unless it was
 * reconfigured. */
static double
past_time_ns(const vg_history_host *host, int64_t windows)
{
    return host->windows > 0 ? (double)host->length_ns * (double)windows / (double)host->windows
                             : 0;
}

static double
past_per(double amount, double time_ns)
{
    return time_ns > 0 ? amount / time_ns : 0;
}

static void
past_add_rates(json_object *object, const struct vg_cpu_figures *cpu, double time_ns)
{
    vg_doc_add_rates(object, past_per((double)cpu->run_ns, time_ns),
                     past_per((double)cpu->preempt_ns, time_ns),
                     past_per((double)cpu->wake_wait_ns, time_ns),
                     past_per((double)cpu->preemptions, time_ns) * (double)VG_NS_PER_S);
}

/* Adds "processes" and "others" to a loss to host programs, if they are known. Processes are stored
 * in whole minutes, so "others" includes those at the edges of the period. */
static void
past_add_processes(json_object *object, const GArray *processes, const struct vg_history_loss *loss)
{
    int64_t left_ns = loss->ns;
    uint64_t left_count = loss->count;

    if (strcmp(loss->aggressor, vg_aggressor_name(VG_AGGRESSOR_HOST_USER)) != 0 ||
        processes->len == 0)
        return;
    json_object *array = json_object_new_array();
    json_object *others = json_object_new_object();
    for (guint i = 0; i < processes->len; i++) {
        const struct vg_history_process *process =
            &g_array_index(processes, struct vg_history_process, i);
        json_object *item = json_object_new_object();
        vg_json_add_string(item, "comm", process->comm);
        vg_json_add_string(item, "cgroup", process->cgroup[0] ? process->cgroup : NULL);
        vg_json_add_int64(item, "ns", process->ns);
        vg_json_add_int64(item, "count", (int64_t)process->count);
        vg_json_append(array, item);
        left_ns = MAX(left_ns - process->ns, 0);
        left_count -= MIN(process->count, left_count);
    }
    vg_json_add_int64(others, "ns", left_ns);
    vg_json_add_int64(others, "count", (int64_t)left_count);
    vg_json_add(object, "processes", array);
    vg_json_add(object, "others", others);
}

json_object *
vg_doc_history_programs(const GArray *programs)
{
    json_object *array = json_object_new_array();

    for (guint i = 0; programs && i < programs->len; i++) {
        const struct vg_history_process *program =
            &g_array_index(programs, struct vg_history_process, i);
        json_object *item = json_object_new_object();
        vg_json_add_string(item, "comm", program->comm);
        vg_json_add_string(item, "cgroup", program->cgroup[0] ? program->cgroup : NULL);
        vg_json_add_int64(item, "ns", program->ns);
        vg_json_append(array, item);
    }
    return array;
}

/* Creates an array of losses. Losses to host:user include the processes. */
static json_object *
past_losses_to_json(const GArray *losses, const GArray *processes)
{
    json_object *array = vg_doc_history_losses(losses);

    for (guint i = 0; i < losses->len; i++)
        past_add_processes(json_object_array_get_idx(array, i), processes,
                           &g_array_index(losses, struct vg_history_loss, i));
    return array;
}

/* Adds whether the VM is missing from the newest window, or null if there is none. */
static void
past_add_gone(json_object *object, const vg_view *view, const char *key)
{
    const GArray *vms = view->newest.vms;
    bool there = false;

    for (guint i = 0; i < vms->len && !there; i++) {
        const struct vg_vm_sample *vm = &g_array_index(vms, struct vg_vm_sample, i);
        there = strcmp(vm->uuid[0] ? vm->uuid : vm->name, key) == 0;
    }
    if (view->windows > 0)
        vg_json_add_bool(object, "gone", !there);
    else
        vg_json_add(object, "gone", NULL);
}

static json_object *
past_vm_to_json(const void *data, const void *item)
{
    const struct past *past = data;
    const struct vg_history_vm *vm = item;
    const struct vg_history_row *row = &vm->row;
    const double time_ns = past_time_ns(past->host, row->windows);
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "id", vm->key);
    vg_json_add_string(object, "name", vm->name);
    past_add_gone(object, past->view, vm->key);
    vg_json_add_int64(object, "windows", row->windows);
    vg_json_add_double(object, "present",
                       (double)row->windows / (double)MAX(past->host->windows, 1));
    vg_json_add_figures(object, &row->cpu, 0);
    past_add_rates(object, &row->cpu, time_ns);
    vg_json_add_double(object, "cpu_intensity", vg_cpu_figures_intensity(&row->cpu));
    vg_json_add_double(object, "gpu_intensity",
                       MIN(past_per((double)row->gpu_active_ns, time_ns), 1));
    vg_json_add_bool(object, "guest_known", row->guest_known);
    vg_json_add_bool(object, "gpu_known", row->gpu_known);
    vg_json_add_lacks(object, row->lacks, vg_cpu_rates);
    vg_json_add_int64(object, "gpu_active_ns", row->gpu_active_ns);
    vg_json_add(object, "lost_to", past_losses_to_json(row->lost_to, vm->processes));
    return object;
}

static int
past_compare_losses(const void *a, const void *b)
{
    const struct vg_history_loss *x = a, *y = b;

    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return strcmp(x->aggressor, y->aggressor);
}

/* Sums up the losses of all VMs, with the largest aggressor first. */
static json_object *
past_host_to_json(const vg_history_host *host)
{
    json_object *object = json_object_new_object();
    g_autoptr(GArray) losses = vg_history_losses_new();
    g_autoptr(GHashTable) places = g_hash_table_new(g_str_hash, g_str_equal);
    struct vg_cpu_figures cpu = {0};

    for (guint i = 0; i < host->vms->len; i++) {
        const struct vg_history_row *row =
            &((const struct vg_history_vm *)host->vms->pdata[i])->row;
        vg_cpu_figures_add(&cpu, &row->cpu);
        for (guint k = 0; k < row->lost_to->len; k++) {
            const struct vg_history_loss *loss =
                &g_array_index(row->lost_to, struct vg_history_loss, k);
            guint at = GPOINTER_TO_UINT(g_hash_table_lookup(places, loss->aggressor));
            if (at == 0) {
                struct vg_history_loss sum = {g_ref_string_acquire(loss->aggressor), 0, 0};
                g_array_append_val(losses, sum);
                at = losses->len;
                g_hash_table_insert(places, loss->aggressor, GUINT_TO_POINTER(at));
            }
            struct vg_history_loss *sum = &g_array_index(losses, struct vg_history_loss, at - 1);
            sum->ns += loss->ns;
            sum->count += loss->count;
        }
    }
    g_array_sort(losses, past_compare_losses);
    vg_json_add_int64(object, "vms", host->vms->len);
    vg_json_add_figures(object, &cpu, 0);
    past_add_rates(object, &cpu, (double)host->length_ns);
    vg_json_add(object, "lost_to", past_losses_to_json(losses, host->processes));
    return object;
}

/* Adds the period covered by the page. */
static void
past_add_period(json_object *object, const struct past *past)
{
    const vg_history_host *host = past->host;
    json_object *left_out = json_object_new_array();

    for (guint i = 0; past->query->left_out && i < past->query->left_out->len; i++)
        vg_json_append(left_out, json_object_new_string(past->query->left_out->pdata[i]));
    vg_json_add_int64(object, "since_ns", past->query->since_ns);
    vg_json_add_int64(object, "until_ns", past->query->until_ns);
    vg_json_add_int64(object, "begin_ns", host->begin_ns);
    vg_json_add_int64(object, "end_ns", host->end_ns);
    vg_json_add_int64(object, "length_ns", host->length_ns);
    vg_json_add_int64(object, "windows", host->windows);
    vg_json_add_int64(object, "lost_events", (int64_t)host->lost_events);
    vg_json_add_string(object, "source", host->source);
    vg_json_add(object, "programs", vg_doc_history_programs(host->programs));
    vg_json_add(object, "left_out", left_out);
}

static double
past_value_of(const struct vg_history_vm *vm, enum vg_vm_sort sort)
{
    const struct vg_history_row *row = &vm->row;

    switch (sort) {
    case VG_VM_SORT_LOST:
        return (double)row->cpu.preempt_ns + (double)row->cpu.wake_wait_ns;
    case VG_VM_SORT_CPU:
        return vg_cpu_figures_intensity(&row->cpu);
    case VG_VM_SORT_GPU:
        return row->gpu_known ? (double)row->gpu_active_ns : -1;
    case VG_VM_SORT_NAME:
    default:
        return 0;
    }
}

json_object *
vg_doc_history_vms(const vg_view *view, const struct vg_history_query *query,
                   const vg_history_host *host, enum vg_vm_sort sort, size_t limit,
                   const char *marker, GError **err)
{
    const struct past past = {query, host, view};
    g_autoptr(GArray) places = g_array_new(FALSE, FALSE, sizeof(struct vg_doc_place));

    for (guint i = 0; i < host->vms->len; i++) {
        const struct vg_history_vm *vm = host->vms->pdata[i];
        struct vg_doc_place place = {past_value_of(vm, sort), vm->name, vm->key, vm};
        g_array_append_val(places, place);
    }
    g_array_sort(places, vg_doc_compare_places);
    json_object *object =
        vg_doc_page(&past, places, (int)sort, limit, marker, past_vm_to_json, err);
    if (!object)
        return NULL;
    past_add_period(object, &past);
    vg_json_add(object, "host", past_host_to_json(host));
    return object;
}

struct past_loss {
    const struct vg_history_vm *victim;
    const struct vg_history_loss *lost;
    char *id; /* the pair's id */
};

static void
past_loss_free(void *data)
{
    struct past_loss *loss = data;

    g_free(loss->id);
    g_free(loss);
}

/* Returns the id of an aggressor, or NULL if it is ambiguous: the store has only the name, which
 * several VMs may have. */
static const char *
past_id_of(const struct past *past, const struct past_loss *loss)
{
    const char *id = NULL;

    if (strcmp(loss->lost->aggressor, "self") == 0)
        return loss->victim->key;
    for (guint i = 0; i < past->host->vms->len; i++) {
        const struct vg_history_vm *vm = past->host->vms->pdata[i];
        if (strcmp(vm->name, loss->lost->aggressor) != 0)
            continue;
        if (id)
            return NULL;
        id = vm->key;
    }
    return id;
}

/* Returns the CPU time that a VM lost to aggressors that are not listed by name. */
static int64_t
past_rest_of(const struct vg_history_vm *vm)
{
    for (guint i = 0; i < vm->row.lost_to->len; i++) {
        const struct vg_history_loss *loss =
            &g_array_index(vm->row.lost_to, struct vg_history_loss, i);
        if (strcmp(loss->aggressor, "rest") == 0)
            return loss->ns;
    }
    return 0;
}

static json_object *
past_loss_to_json(const void *data, const void *item)
{
    const struct past *past = data;
    const struct past_loss *loss = item;
    const double time_ns = past_time_ns(past->host, loss->victim->row.windows);
    json_object *object = json_object_new_object();

    vg_json_add(object, "victim", vg_doc_vm_name(NULL, loss->victim->key, loss->victim->name));
    vg_json_add_string(object, "aggressor", loss->lost->aggressor);
    vg_json_add_string(object, "aggressor_id", past_id_of(past, loss));
    vg_json_add_int64(object, "ns", loss->lost->ns);
    vg_json_add_int64(object, "at_most_ns",
                      strcmp(loss->lost->aggressor, "rest") == 0
                          ? loss->lost->ns
                          : vg_time_sum(loss->lost->ns, past_rest_of(loss->victim)));
    vg_json_add_int64(object, "count", (int64_t)loss->lost->count);
    vg_json_add_double(object, "share", past_per((double)loss->lost->ns, time_ns));
    vg_json_add_double(object, "count_per_s",
                       past_per((double)loss->lost->count, time_ns) * (double)VG_NS_PER_S);
    past_add_processes(object, loss->victim->processes, loss->lost);
    return object;
}

/* Finds a VM by its key, or otherwise by its name. Returns NULL if there is none. */
static const struct vg_history_vm *
past_find_vm(const vg_history_host *host, const char *id)
{
    const struct vg_history_vm *named = NULL;

    for (guint i = 0; i < host->vms->len; i++) {
        const struct vg_history_vm *vm = host->vms->pdata[i];
        if (g_ascii_strcasecmp(vm->key, id) == 0)
            return vm;
        if (strcmp(vm->name, id) == 0)
            named = vm;
    }
    return named;
}

json_object *
vg_doc_history_preemptions(const struct vg_history_query *query, const vg_history_host *host,
                           const char *victim, size_t limit, const char *marker, GError **err)
{
    const struct past past = {query, host, NULL};
    g_autoptr(GPtrArray) losses = g_ptr_array_new_with_free_func(past_loss_free);
    g_autoptr(GArray) places = g_array_new(FALSE, FALSE, sizeof(struct vg_doc_place));
    const struct vg_history_vm *only = victim ? past_find_vm(host, victim) : NULL;

    if (victim && !only) {
        vg_error(err, VG_E_NOT_FOUND, "vm: nothing is stored for VM '%s' in this period", victim);
        return NULL;
    }
    for (guint i = 0; i < host->vms->len; i++) {
        const struct vg_history_vm *vm = host->vms->pdata[i];
        for (guint k = 0; (!only || vm == only) && k < vm->row.lost_to->len; k++) {
            struct past_loss *loss = g_new0(struct past_loss, 1);
            loss->victim = vm;
            loss->lost = &g_array_index(vm->row.lost_to, struct vg_history_loss, k);
            loss->id = g_strdup_printf("%s %s", vm->key, loss->lost->aggressor);
            struct vg_doc_place place = {(double)loss->lost->ns, vm->name, loss->id, loss};
            g_ptr_array_add(losses, loss);
            g_array_append_val(places, place);
        }
    }
    g_array_sort(places, vg_doc_compare_places);
    json_object *object =
        vg_doc_page(&past, places, VG_DOC_SORT_LOSSES, limit, marker, past_loss_to_json, err);
    if (object)
        past_add_period(object, &past);
    return object;
}
