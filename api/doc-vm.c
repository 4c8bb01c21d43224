/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates documents about VMs: one, all, and their preemptions.
 */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "api/doc.h"
#include "api/parse.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "model/window-json.h"

static const struct vg_inv_vm *
domain_of(const vg_view *view, const struct vg_snap_vm *vm)
{
    return vg_inventory_find(view->inventory, vm->uuid, vm->pid, vm->name);
}

void
vg_doc_add_rates(json_object *object, double run_share, double preempt_share,
                 double wake_wait_share, double preemptions_per_s)
{
    json_object *rates = json_object_new_object();

    vg_json_add_double(rates, "run_share", run_share);
    vg_json_add_double(rates, "preempt_share", preempt_share);
    vg_json_add_double(rates, "wake_wait_share", wake_wait_share);
    vg_json_add_double(rates, "preemptions_per_s", preemptions_per_s);
    vg_json_add(object, "rates", rates);
}

/* Adds the VM's display name if it differs from this name. view is NULL if the display name is
 * unknown. */
static void
doc_add_label(json_object *object, const char *member, const vg_view *view, const char *name)
{
    const char *label = view && name ? vg_view_label(view, name) : name;

    if (g_strcmp0(label, name) != 0)
        vg_json_add_string(object, member, label);
}

/* Adds display names for all names in an object. */
static void
doc_label_object(const vg_view *view, json_object *object)
{
    json_object *aggressor = NULL, *name = NULL;

    if (json_object_object_get_ex(object, "aggressor", &aggressor))
        doc_add_label(object, "aggressor_label", view, json_object_get_string(aggressor));
    if (json_object_object_get_ex(object, "id", NULL) &&
        json_object_object_get_ex(object, "name", &name))
        doc_add_label(object, "label", view, json_object_get_string(name));
    json_object_object_foreach(object, member, value)
    {
        (void)member;
        vg_doc_add_labels(view, value);
    }
}

void
vg_doc_add_labels(const vg_view *view, json_object *value)
{
    if (g_hash_table_size(view->labels) == 0)
        return;
    if (json_object_is_type(value, json_type_object))
        doc_label_object(view, value);
    for (size_t i = 0;
         json_object_is_type(value, json_type_array) && i < json_object_array_length(value); i++)
        vg_doc_add_labels(view, json_object_array_get_idx(value, i));
}

static void
add_losses_and_gpus(json_object *object, const vg_view *view, const struct vg_window *window,
                    const struct vg_vm_sample *sample)
{
    int64_t duration = window->end_ns - window->begin_ns;
    json_object *losses =
        sample ? vg_losses_to_json(window, sample->lost_to) : json_object_new_array();

    vg_doc_add_labels(view, losses);
    vg_json_add(object, "lost_to", losses);
    vg_json_add(object, "gpu",
                sample ? vg_gpus_to_json(sample->gpus, duration) : json_object_new_array());
}

/* Returns the VM's figures in the newest window, or NULL if it was not measured. */
static const struct vg_vm_sample *
doc_newest_of(const vg_view *view, const struct vg_snap_vm *vm)
{
    return view->newest.end_ns > view->newest.begin_ns ? vg_view_sample(&view->newest, vm) : NULL;
}

static json_object *
newest_to_json(const vg_view *view, const struct vg_snap_vm *vm)
{
    const struct vg_window *window = &view->newest;
    const struct vg_vm_sample *sample = doc_newest_of(view, vm);

    if (!sample)
        return NULL;
    const struct vg_cpu_figures *cpu = &sample->cpu;
    double length_ns = (double)(window->end_ns - window->begin_ns);
    json_object *object = json_object_new_object();
    vg_json_add_int64(object, "begin_ns", window->begin_ns + view->clock_offset_ns);
    vg_json_add_int64(object, "end_ns", window->end_ns + view->clock_offset_ns);
    vg_json_add_figures(object, cpu, 0);
    vg_doc_add_rates(object, (double)cpu->run_ns / length_ns, (double)cpu->preempt_ns / length_ns,
                     (double)cpu->wake_wait_ns / length_ns,
                     (double)cpu->preemptions / length_ns * (double)VG_NS_PER_S);
    vg_json_add_double(object, "cpu_intensity", vg_cpu_figures_intensity(cpu));
    vg_json_add_double(object, "gpu_intensity",
                       vg_gpu_intensity(sample->gpu_active_ns, window->end_ns - window->begin_ns));
    vg_json_add_bool(object, "guest_known", sample->guest_known);
    vg_json_add_bool(object, "gpu_known", sample->gpu_known);
    vg_json_add_lacks(object, sample->lacks, vg_cpu_rates);
    add_losses_and_gpus(object, view, window, sample);
    return object;
}

/* Describes the OpenStack instance and its project. Returns NULL if nova did not create the VM. */
static json_object *
doc_openstack_to_json(const struct vg_inv_vm *domain)
{
    if (!domain || !domain->nova_managed)
        return NULL;
    const struct vg_inv_nova *nova = &domain->nova;
    json_object *object = json_object_new_object();
    vg_json_add_string(object, "name", nova->name);
    vg_json_add_string(object, "flavor", nova->flavor);
    vg_json_add_string(object, "project", nova->project_name);
    vg_json_add_string(object, "project_id", nova->project_id);
    vg_json_add_string(object, "user", nova->user_name);
    vg_json_add_string(object, "user_id", nova->user_id);
    return object;
}

static json_object *
doc_vm_summary(const vg_view *view, const struct vg_snap_vm *vm)
{
    static const struct vg_cpu_figures nothing;
    const struct vg_vm_sample *sample = vg_view_sample(&view->totals, vm);
    const struct vg_inv_vm *domain = domain_of(view, vm);
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "id", vg_view_vm_id(vm));
    vg_json_add_string(object, "name", vm->name);
    doc_add_label(object, "label", view, vm->name);
    vg_json_add_string(object, "uuid", vm->uuid);
    vg_json_add(object, "openstack", doc_openstack_to_json(domain));
    vg_json_add_int64(object, "pid", vm->pid);
    vg_json_add_string(object, "state",
                       vg_domain_state_names[domain ? domain->state : VG_DOMAIN_UNKNOWN]);
    if (view->replay)
        vg_json_add(object, "libvirt", NULL);
    else
        vg_json_add_bool(object, "libvirt", domain != NULL);
    vg_json_add_string(object, "class", vg_vm_class_names[vm->vm_class]);
    vg_json_add_double(object, "cpu_intensity", vm->cpu_intensity);
    vg_json_add_double(object, "gpu_intensity", vm->gpu_intensity);
    vg_json_add_bool(object, "gpu_known", vm->gpu_known);
    vg_json_add_bool(object, "guest_known", vm->guest_known);
    vg_json_add_string(object, "problem",
                       vm->problem || !vm->unmanaged
                           ? vm->problem
                           : "not libvirt's: this host's libvirt did not start its process");
    vg_doc_add_rates(object, vm->run_share, vm->preempt_share, vm->wake_wait_share,
                     vm->preemptions_per_s);
    vg_json_add_figures(object, sample ? &sample->cpu : &nothing, 0);
    vg_json_add_int64(object, "gpu_active_ns", sample ? sample->gpu_active_ns : 0);
    vg_json_add(object, "cpus", vg_cpus_to_json(sample ? sample->cpus : vm->cpus));
    vg_json_add_lacks(object, sample ? sample->lacks : 0, vg_cpu_rates);
    add_losses_and_gpus(object, view, &view->totals, sample);
    vg_json_add(object, "newest", newest_to_json(view, vm));
    return object;
}

static json_object *
lost_process_to_json(const struct vg_lost_process *process)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "comm", process->comm[0] ? process->comm : NULL);
    vg_json_add_int64(object, "pid", process->pid);
    vg_json_add_int64(object, "pids", MAX(process->pids, 1));
    vg_json_add_string(object, "cgroup", process->cgroup[0] ? process->cgroup : NULL);
    vg_json_add_int64(object, "ns", process->ns);
    vg_json_add_int64(object, "error_ns", process->error_ns);
    vg_json_add_int64(object, "count", (int64_t)process->count);
    return object;
}

/* Adds "processes" up to the given number and "others" to an entry of lost_to, if it concerns host
 * programs and they are known. */
static void
add_processes(json_object *object, const struct vg_vm_sample *sample, const struct vg_lost_to *lost,
              guint max)
{
    int64_t left_ns = lost->ns;
    uint64_t left_count = lost->count;

    if (lost->kind != VG_AGGRESSOR_HOST_USER || sample->lost_processes->len == 0)
        return;
    json_object *processes = json_object_new_array();
    json_object *others = json_object_new_object();
    for (guint i = 0; i < MIN(sample->lost_processes->len, max); i++) {
        const struct vg_lost_process *process =
            &g_array_index(sample->lost_processes, struct vg_lost_process, i);
        left_ns = MAX(left_ns - process->ns, 0);
        left_count -= MIN(process->count, left_count);
        vg_json_append(processes, lost_process_to_json(process));
    }
    vg_json_add_int64(others, "ns", left_ns);
    vg_json_add_int64(others, "count", (int64_t)left_count);
    vg_json_add(object, "processes", processes);
    vg_json_add(object, "others", others);
}

/* Adds the processes behind host:user to the lost_to of the sample's object. */
static void
add_lost_processes(json_object *object, const struct vg_vm_sample *sample)
{
    json_object *lost_to = NULL;

    if (!sample || !json_object_object_get_ex(object, "lost_to", &lost_to))
        return;
    for (guint i = 0; i < sample->lost_to->len; i++)
        add_processes(json_object_array_get_idx(lost_to, i), sample,
                      &g_array_index(sample->lost_to, struct vg_lost_to, i),
                      VG_SUM_LOST_PROCESSES_SHOWN);
}

json_object *
vg_doc_vm(const vg_view *view, const struct vg_snap_vm *vm)
{
    const struct vg_vm_sample *sample = vg_view_sample(&view->totals, vm);
    const struct vg_inv_vm *domain = domain_of(view, vm);
    json_object *object = doc_vm_summary(view, vm);
    json_object *newest = NULL;

    vg_json_add_bool(object, "waits_split",
                     vg_provenance_knows(&view->provenance, VG_MEASURE_WAIT_KINDS));
    add_lost_processes(object, sample);
    if (json_object_object_get_ex(object, "newest", &newest) && newest)
        add_lost_processes(newest, doc_newest_of(view, vm));
    vg_json_add(object, "vcpus",
                sample ? vg_vcpus_to_json(sample->vcpus, 0) : json_object_new_array());
    vg_json_add(object, "domain", domain ? vg_record_write(&vg_inv_vm_record, domain) : NULL);
    vg_json_add(object, "profile", vg_record_write(&vg_snap_profile_record, &vm->profile));
    return object;
}

/* Returns the sort value of a VM in the newest window. VMs missing from the window come last. */
static double
value_of(const vg_view *view, const struct vg_snap_vm *vm, enum vg_vm_sort sort)
{
    const struct vg_vm_sample *sample = sort == VG_VM_SORT_NAME ? NULL : doc_newest_of(view, vm);

    if (!sample)
        return sort == VG_VM_SORT_NAME ? 0 : -1;
    switch (sort) {
    case VG_VM_SORT_LOST:
        return (double)sample->cpu.preempt_ns + (double)sample->cpu.wake_wait_ns;
    case VG_VM_SORT_CPU:
        return vg_cpu_figures_intensity(&sample->cpu);
    case VG_VM_SORT_GPU:
        return sample->gpu_known ? (double)sample->gpu_active_ns : -1;
    case VG_VM_SORT_NAME:
    default:
        return 0;
    }
}

int
vg_doc_compare_places(const void *a, const void *b)
{
    const struct vg_doc_place *left = a;
    const struct vg_doc_place *right = b;

    if (left->value != right->value)
        return left->value > right->value ? -1 : 1;
    int by_name = strcmp(left->name, right->name);
    return by_name != 0 ? by_name : strcmp(left->id, right->id);
}

/* Creates a marker of the last item of a page: "SORT\nVALUE\nBYTES_OF_ID\nIDNAME". A name may
 * contain a line feed. */
static char *
marker_of(int sort, const struct vg_doc_place *place)
{
    char value[G_ASCII_DTOSTR_BUF_SIZE];

    g_ascii_dtostr(value, sizeof(value), place->value);
    g_autofree char *text = g_strdup_printf("%d\n%s\n%zu\n%s%s", sort, value, strlen(place->id),
                                            place->id, place->name);
    return vg_marker_new(text);
}

/* Reads a marker. The place points into ret_parts. */
static int
doc_vm_read_marker(const char *marker, int sort, struct vg_doc_place *ret, char ***ret_parts,
                   GError **err)
{
    g_autofree char *text = vg_marker_read(marker, err);
    int64_t of_sort, id_size;
    char *end;

    if (!text)
        return -1;
    g_auto(GStrv) parts = g_strsplit(text, "\n", 4);
    if (g_strv_length(parts) != 4 || !vg_parse_int(parts[0], &of_sort) || of_sort != sort ||
        strspn(parts[1], "+-.0123456789e") != strlen(parts[1]) ||
        !vg_parse_int(parts[2], &id_size) || id_size > (int64_t)strlen(parts[3]))
        return vg_error(err, VG_E_INVALID, "marker: it is not from a list in this order");
    double value = g_ascii_strtod(parts[1], &end);
    if (end == parts[1] || *end || !isfinite(value))
        return vg_error(err, VG_E_INVALID, "marker: it contains no number to continue from");
    g_free(parts[2]);
    parts[2] = g_strndup(parts[3], (size_t)id_size);
    *ret = (struct vg_doc_place){.value = value, .id = parts[2], .name = parts[3] + id_size};
    *ret_parts = g_steal_pointer(&parts);
    return 0;
}

static GArray *
places_of(const vg_view *view, enum vg_vm_sort sort, const struct vg_vm_filter *filter)
{
    GArray *places = g_array_new(FALSE, FALSE, sizeof(struct vg_doc_place));

    for (guint h = 0; h < view->snapshot->hosts->len; h++) {
        const struct vg_snap_host *host = view->snapshot->hosts->pdata[h];
        for (guint i = 0; i < host->vms->len; i++) {
            const struct vg_snap_vm *vm = host->vms->pdata[i];
            struct vg_doc_place place = {value_of(view, vm, sort), vm->name, vg_view_vm_id(vm), vm};
            if (vg_vm_filter_takes(filter, vm, domain_of(view, vm)))
                g_array_append_val(places, place);
        }
    }
    g_array_sort(places, vg_doc_compare_places);
    return places;
}

json_object *
vg_doc_page(const void *data, const GArray *places, int sort, size_t limit, const char *marker,
            json_object *(*to_json)(const void *data, const void *item), GError **err)
{
    struct vg_doc_place after = {0};
    g_auto(GStrv) parts = NULL;

    if (marker && doc_vm_read_marker(marker, sort, &after, &parts, err) < 0)
        return NULL;
    json_object *object = json_object_new_object();
    json_object *items = json_object_new_array();
    const struct vg_doc_place *last = NULL;
    g_autofree char *next = NULL;
    for (guint i = 0; i < places->len && !next; i++) {
        const struct vg_doc_place *place = &g_array_index(places, struct vg_doc_place, i);
        if (marker && vg_doc_compare_places(place, &after) <= 0)
            continue;
        if (json_object_array_length(items) < limit) {
            vg_json_append(items, to_json(data, place->item));
            last = place;
        } else {
            next = marker_of(sort, last);
        }
    }
    vg_json_add(object, "items", items);
    vg_json_add_string(object, "next", next);
    return object;
}

static json_object *
write_summary(const void *view, const void *item)
{
    return doc_vm_summary(view, item);
}

json_object *
vg_doc_vms(const vg_view *view, enum vg_vm_sort sort, const struct vg_vm_filter *filter,
           size_t limit, const char *marker, GError **err)
{
    g_autoptr(GArray) places = places_of(view, sort, filter);

    return vg_doc_page(view, places, (int)sort, limit, marker, write_summary, err);
}

json_object *
vg_doc_vm_name(const vg_view *view, const char *id, const char *name)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "id", id);
    vg_json_add_string(object, "name", name);
    doc_add_label(object, "label", view, name);
    return object;
}

/* The maximum number of processes listed for a loss. */
#define LOSS_PROCESSES_MAX 4

struct loss {
    const struct vg_snap_vm *victim;
    const struct vg_vm_sample *sample;
    const struct vg_lost_to *lost;   /* since the start */
    const struct vg_lost_to *newest; /* in the newest window, or NULL */
    char *id;                        /* the pair's id */
};

static void
loss_clear(void *data)
{
    g_free(((struct loss *)data)->id);
}

static const struct vg_lost_to *
doc_find_loss(const struct vg_vm_sample *sample, const struct vg_lost_to *like)
{
    for (guint i = 0; sample && i < sample->lost_to->len; i++) {
        const struct vg_lost_to *lost = &g_array_index(sample->lost_to, struct vg_lost_to, i);
        if (lost->kind == like->kind &&
            (lost->kind != VG_AGGRESSOR_VM || lost->vm_id == like->vm_id))
            return lost;
    }
    return NULL;
}

/* Creates {"ns","count","share","count_per_s"}. Returns NULL if the victim was not measured in the
 * newest window. */
static json_object *
doc_newest_loss(const vg_view *view, const struct loss *loss)
{
    static const struct vg_lost_to nothing;
    const struct vg_lost_to *lost = loss->newest ? loss->newest : &nothing;
    double length_ns = (double)(view->newest.end_ns - view->newest.begin_ns);

    if (!doc_newest_of(view, loss->victim))
        return NULL;
    json_object *object = json_object_new_object();
    vg_json_add_int64(object, "ns", lost->ns);
    vg_json_add_int64(object, "count", (int64_t)lost->count);
    vg_json_add_double(object, "share", (double)lost->ns / length_ns);
    vg_json_add_double(object, "count_per_s",
                       (double)lost->count / length_ns * (double)VG_NS_PER_S);
    if (loss->newest)
        add_processes(object, doc_newest_of(view, loss->victim), lost, LOSS_PROCESSES_MAX);
    return object;
}

static json_object *
loss_to_json(const void *data, const void *item)
{
    const vg_view *view = data;
    const struct loss *loss = item;
    json_object *object = json_object_new_object();
    const char *name = vg_window_aggressor(&view->totals, loss->lost);
    const char *id = NULL;
    const struct vg_snap_loss *rate = NULL;
    const struct vg_vm_sample *vm =
        loss->lost->kind == VG_AGGRESSOR_VM ? vg_window_vm(&view->totals, loss->lost->vm_id) : NULL;

    if (loss->lost->kind == VG_AGGRESSOR_SELF) {
        id = vg_view_vm_id(loss->victim);
    } else if (vm) {
        const struct vg_snap_vm *known = vg_view_find_vm(view, vm->uuid[0] ? vm->uuid : vm->name);
        id = known ? vg_view_vm_id(known) : NULL;
    }
    for (guint i = 0; i < loss->victim->lost_to->len && !rate; i++) {
        const struct vg_snap_loss *candidate = loss->victim->lost_to->pdata[i];
        if (strcmp(candidate->aggressor, name) == 0)
            rate = candidate;
    }
    vg_json_add(object, "victim",
                vg_doc_vm_name(view, vg_view_vm_id(loss->victim), loss->victim->name));
    vg_json_add_string(object, "aggressor", name);
    doc_add_label(object, "aggressor_label", view, name);
    vg_json_add_string(object, "aggressor_id", id);
    vg_json_add_int64(object, "ns", loss->lost->ns);
    vg_json_add_int64(object, "count", (int64_t)loss->lost->count);
    vg_json_add_double(object, "share", rate ? rate->share : 0);
    vg_json_add_double(object, "count_per_s", rate ? rate->count_per_s : 0);
    vg_json_add(object, "newest", doc_newest_loss(view, loss));
    add_processes(object, loss->sample, loss->lost, LOSS_PROCESSES_MAX);
    return object;
}

static GArray *
losses_of(const vg_view *view, const struct vg_snap_vm *victim)
{
    GArray *losses = g_array_new(FALSE, FALSE, sizeof(struct loss));
    g_autoptr(GArray) victims = places_of(view, VG_VM_SORT_NAME, &vg_vm_filter_none);

    g_array_set_clear_func(losses, loss_clear);
    for (guint i = 0; i < victims->len; i++) {
        const struct vg_snap_vm *vm = g_array_index(victims, struct vg_doc_place, i).item;
        const struct vg_vm_sample *sample = vg_view_sample(&view->totals, vm);
        const struct vg_vm_sample *newest = doc_newest_of(view, vm);
        for (guint k = 0; (!victim || vm == victim) && sample && k < sample->lost_to->len; k++) {
            const struct vg_lost_to *lost = &g_array_index(sample->lost_to, struct vg_lost_to, k);
            struct loss loss = {
                vm, sample, lost, doc_find_loss(newest, lost),
                g_strdup_printf("%s %d %" PRIu32, vg_view_vm_id(vm), (int)lost->kind, lost->vm_id)};
            g_array_append_val(losses, loss);
        }
    }
    return losses;
}

json_object *
vg_doc_preemptions(const vg_view *view, const struct vg_snap_vm *victim, size_t limit,
                   const char *marker, GError **err)
{
    g_autoptr(GArray) losses = losses_of(view, victim);
    g_autoptr(GArray) places = g_array_new(FALSE, FALSE, sizeof(struct vg_doc_place));

    for (guint i = 0; i < losses->len; i++) {
        const struct loss *loss = &g_array_index(losses, struct loss, i);
        struct vg_doc_place place = {(double)loss->lost->ns, loss->victim->name, loss->id, loss};
        g_array_append_val(places, place);
    }
    g_array_sort(places, vg_doc_compare_places);
    return vg_doc_page(view, places, VG_DOC_SORT_LOSSES, limit, marker, loss_to_json, err);
}
