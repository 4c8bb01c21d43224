/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/snapshot.h"

#include <string.h>

#include "base/error.h"
#include "model/window.h"

vg_snapshot *
vg_snapshot_new(enum vg_snapshot_source source)
{
    vg_snapshot *snapshot = vg_record_new(&vg_snapshot_record);
    snapshot->source = source;
    return snapshot;
}

void
vg_snapshot_free(vg_snapshot *snapshot)
{
    vg_record_free(&vg_snapshot_record, snapshot);
}

struct vg_snap_host *
vg_snapshot_add_host(vg_snapshot *snapshot, const char *name)
{
    struct vg_snap_host *host = vg_record_new(&vg_snap_host_record);
    host->name = g_strdup(name);
    host->cpus = 1;
    host->source = snapshot->source;
    host->begin_ns = snapshot->begin_ns;
    host->end_ns = snapshot->end_ns;
    g_ptr_array_add(snapshot->hosts, host);
    snapshot->sealed = false;
    return host;
}

struct vg_snap_vm *
vg_snap_host_add_vm(struct vg_snap_host *host, const char *name)
{
    struct vg_snap_vm *vm = vg_record_new(&vg_snap_vm_record);
    vm->name = g_strdup(name);
    g_ptr_array_add(host->vms, vm);
    return vm;
}

struct vg_snap_gpu *
vg_snap_host_add_gpu(struct vg_snap_host *host, const char *device)
{
    struct vg_snap_gpu *gpu = vg_record_new(&vg_snap_gpu_record);
    gpu->device = g_strdup(device);
    g_ptr_array_add(host->gpus, gpu);
    return gpu;
}

/* Sort functions: g_ptr_array_sort() passes pointers to the elements. */

static int
by_string(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int
by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a;
    int32_t y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int
by_host(const void *a, const void *b)
{
    return strcmp((*(struct vg_snap_host *const *)a)->name,
                  (*(struct vg_snap_host *const *)b)->name);
}

static int
by_vm(const void *a, const void *b)
{
    return strcmp((*(struct vg_snap_vm *const *)a)->name, (*(struct vg_snap_vm *const *)b)->name);
}

static int
by_device(const void *a, const void *b)
{
    return strcmp((*(struct vg_snap_gpu *const *)a)->device,
                  (*(struct vg_snap_gpu *const *)b)->device);
}

static int
by_departed(const void *a, const void *b)
{
    return strcmp((*(struct vg_snap_departed *const *)a)->uuid,
                  (*(struct vg_snap_departed *const *)b)->uuid);
}

static int
by_type(const void *a, const void *b)
{
    return strcmp((*(struct vg_snap_vgpu_type *const *)a)->type,
                  (*(struct vg_snap_vgpu_type *const *)b)->type);
}

static int
by_engine(const void *a, const void *b)
{
    return strcmp((*(struct vg_snap_engine *const *)a)->engine,
                  (*(struct vg_snap_engine *const *)b)->engine);
}

static int
by_use(const void *a, const void *b)
{
    const struct vg_snap_gpu_use *x = *(struct vg_snap_gpu_use *const *)a;
    const struct vg_snap_gpu_use *y = *(struct vg_snap_gpu_use *const *)b;
    int order = strcmp(x->device, y->device);
    return order ? order : strcmp(x->engine, y->engine);
}

static int
by_loss(const void *a, const void *b)
{
    const struct vg_snap_loss *x = *(struct vg_snap_loss *const *)a;
    const struct vg_snap_loss *y = *(struct vg_snap_loss *const *)b;
    if (x->share > y->share || x->share < y->share)
        return x->share > y->share ? -1 : 1;
    return strcmp(x->aggressor, y->aggressor);
}

/* Returns the first element of a sorted list that equals its predecessor, or NULL. */
static void *
find_twin(const GPtrArray *list, int (*compare)(const void *, const void *))
{
    for (guint i = 1; i < list->len; i++) {
        if (compare(&list->pdata[i - 1], &list->pdata[i]) == 0)
            return list->pdata[i];
    }
    return NULL;
}

static void
drop_repeated_numbers(GArray *numbers)
{
    g_array_sort(numbers, by_number);
    guint kept = 0;
    for (guint i = 0; i < numbers->len; i++) {
        int32_t number = g_array_index(numbers, int32_t, i);
        if (kept == 0 || g_array_index(numbers, int32_t, kept - 1) != number)
            g_array_index(numbers, int32_t, kept++) = number;
    }
    g_array_set_size(numbers, kept);
}

/* Normalises UUIDs, so that equal ones compare and hash alike, whatever their source. */
static void
lower_uuid(char **uuid)
{
    char *lower = *uuid ? g_ascii_strdown(*uuid, -1) : NULL;
    g_free(*uuid);
    *uuid = lower;
}

static int
seal_profile(const struct vg_snap_host *host, const char *vm, const char *name,
             const struct vg_snap_profile *profile, GError **err)
{
    if (profile->gpu->len > 0 && profile->gpu->len != profile->cpu->len)
        return vg_error(err, VG_E_INVALID,
                        "host '%s', VM '%s': the %s has %u CPU windows and %u GPU windows",
                        host->name, vm, name, profile->cpu->len, profile->gpu->len);
    if (profile->cpu->len > 0 && profile->window_ns <= 0)
        return vg_error(err, VG_E_INVALID, "host '%s', VM '%s': %s without window_ns", host->name,
                        vm, name);
    return 0;
}

static int
seal_vm(const struct vg_snap_host *host, struct vg_snap_vm *vm, GError **err)
{
    lower_uuid(&vm->uuid);
    drop_repeated_numbers(vm->cpus);
    g_ptr_array_sort(vm->affinity, by_string);
    g_ptr_array_sort(vm->anti_affinity, by_string);
    g_ptr_array_sort(vm->gpu, by_use);
    g_ptr_array_sort(vm->lost_to, by_loss);

    if (vm->gpu->len > VG_SNAPSHOT_GPU_USES_MAX)
        return vg_error(err, VG_E_INVALID,
                        "host '%s', VM '%s': %u uses of GPU engines, more than %d", host->name,
                        vm->name, vm->gpu->len, VG_SNAPSHOT_GPU_USES_MAX);
    const struct vg_snap_gpu_use *use = find_twin(vm->gpu, by_use);
    if (use)
        return vg_error(err, VG_E_INVALID, "host '%s', VM '%s': GPU '%s' engine '%s' twice",
                        host->name, vm->name, use->device, use->engine);
    if (seal_profile(host, vm->name, "profile", &vm->profile, err) < 0)
        return -1;
    return seal_profile(host, vm->name, "day", &vm->day, err);
}

static int
seal_gpu(const struct vg_snap_host *host, struct vg_snap_gpu *gpu, GError **err)
{
    g_ptr_array_sort(gpu->vgpu_types, by_type);
    g_ptr_array_sort(gpu->engines, by_engine);
    const struct vg_snap_vgpu_type *type = find_twin(gpu->vgpu_types, by_type);
    if (type)
        return vg_error(err, VG_E_INVALID, "host '%s', GPU '%s': vGPU type '%s' twice", host->name,
                        gpu->device, type->type);
    const struct vg_snap_engine *engine = find_twin(gpu->engines, by_engine);
    if (engine)
        return vg_error(err, VG_E_INVALID, "host '%s', GPU '%s': engine '%s' twice", host->name,
                        gpu->device, engine->engine);
    return 0;
}

static int
seal_host(struct vg_snap_host *host, GError **err)
{
    if (host->source == VG_SOURCE_MERGED)
        return vg_error(err, VG_E_INVALID, "host '%s': its source cannot be 'merged'", host->name);
    if (host->end_ns < host->begin_ns)
        return vg_error(err, VG_E_INVALID, "host '%s': its end is before its start", host->name);
    if (host->memory_bytes > 0 && host->memory_free_bytes > host->memory_bytes)
        return vg_error(err, VG_E_INVALID, "host '%s': free memory exceeds total memory",
                        host->name);

    if (host->own_profile.gpu->len > 0)
        return vg_error(err, VG_E_INVALID, "host '%s': the own_profile has GPU windows",
                        host->name);
    if (host->own_profile.cpu->len > 0 && host->own_profile.window_ns <= 0)
        return vg_error(err, VG_E_INVALID, "host '%s': own_profile without window_ns", host->name);

    lower_uuid(&host->uuid);
    g_ptr_array_sort(host->gpus, by_device);
    g_ptr_array_sort(host->vms, by_vm);
    for (guint i = 0; i < host->departed->len; i++) {
        struct vg_snap_departed *one = host->departed->pdata[i];
        lower_uuid(&one->uuid);
        if (seal_profile(host, one->uuid, "day", &one->day, err) < 0)
            return -1;
    }
    g_ptr_array_sort(host->departed, by_departed);
    const struct vg_snap_departed *departed = find_twin(host->departed, by_departed);
    if (departed)
        return vg_error(err, VG_E_INVALID, "host '%s': departed VM %s twice", host->name,
                        departed->uuid);
    const struct vg_snap_gpu *gpu = find_twin(host->gpus, by_device);
    if (gpu)
        return vg_error(err, VG_E_INVALID, "host '%s': GPU '%s' twice", host->name, gpu->device);
    const struct vg_snap_vm *vm = find_twin(host->vms, by_vm);
    if (vm)
        return vg_error(err, VG_E_CONFLICT, "host '%s': VM '%s' twice", host->name, vm->name);

    for (guint i = 0; i < host->gpus->len; i++) {
        if (seal_gpu(host, host->gpus->pdata[i], err) < 0)
            return -1;
    }
    for (guint i = 0; i < host->vms->len; i++) {
        if (seal_vm(host, host->vms->pdata[i], err) < 0)
            return -1;
    }
    return 0;
}

static int
check_uuids(const vg_snapshot *snapshot, GError **err)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint h = 0; h < snapshot->hosts->len; h++) {
        const struct vg_snap_host *host = snapshot->hosts->pdata[h];
        for (guint v = 0; v < host->vms->len; v++) {
            struct vg_snap_vm *vm = host->vms->pdata[v];
            if (vm->uuid && !g_hash_table_insert(seen, vm->uuid, vm))
                return vg_error(err, VG_E_CONFLICT, "host '%s', VM '%s': UUID %s appears twice",
                                host->name, vm->name, vm->uuid);
        }
    }
    return 0;
}

int
vg_snapshot_seal(vg_snapshot *snapshot, GError **err)
{
    if (snapshot->end_ns < snapshot->begin_ns)
        return vg_error(err, VG_E_INVALID, "the snapshot's end is before its start");
    g_ptr_array_sort(snapshot->hosts, by_host);
    const struct vg_snap_host *host = find_twin(snapshot->hosts, by_host);
    if (host)
        return vg_error(err, VG_E_CONFLICT, "host '%s' appears twice", host->name);
    for (guint i = 0; i < snapshot->hosts->len; i++) {
        if (seal_host(snapshot->hosts->pdata[i], err) < 0)
            return -1;
    }
    if (check_uuids(snapshot, err) < 0)
        return -1;
    snapshot->sealed = true;
    return 0;
}

static int
check_version(const struct vg_json_node *root, GError **err)
{
    struct vg_json_node node;
    const char *schema = NULL;
    int64_t version = 0;

    if (vg_json_member(root, "schema", VG_JSON_REQUIRED, &node, err) < 0 ||
        vg_json_string(&node, VG_SNAPSHOT_NAME_MAX, &schema, err) < 0)
        return -1;
    if (strcmp(schema, VG_SNAPSHOT_SCHEMA) != 0)
        return vg_error(err, VG_E_INVALID, "schema: '%s' is not '%s'", schema, VG_SNAPSHOT_SCHEMA);
    if (vg_json_member(root, "version", VG_JSON_REQUIRED, &node, err) < 0 ||
        vg_json_int64(&node, 1, VG_JSON_INT_MAX, &version, err) < 0)
        return -1;
    if (version > VG_SNAPSHOT_VERSION)
        return vg_error(err, VG_E_INVALID,
                        "version: this is a snapshot of version %" G_GINT64_FORMAT
                        ", this program reads up to version %d; use a newer vgpuctl",
                        version, VG_SNAPSHOT_VERSION);
    return 0;
}

/* Sets the source and times of hosts without their own to those of the snapshot. */
static void
inherit(vg_snapshot *snapshot)
{
    for (guint i = 0; i < snapshot->hosts->len; i++) {
        struct vg_snap_host *host = snapshot->hosts->pdata[i];
        if (!vg_record_is_present(&vg_snap_host_record, host, "source"))
            host->source = snapshot->source;
        if (!vg_record_is_present(&vg_snap_host_record, host, "begin_ns"))
            host->begin_ns = snapshot->begin_ns;
        if (!vg_record_is_present(&vg_snap_host_record, host, "end_ns"))
            host->end_ns = snapshot->end_ns;
    }
}

/* Parses text without a tree. Returns NULL for some texts that the tree accepts. */
static vg_snapshot *
snapshot_read_text(const char *text, size_t size)
{
    if (size > VG_SNAPSHOT_TEXT_MAX)
        return NULL;
    vg_snapshot *snapshot =
        vg_record_read_text(&vg_snapshot_record, text, size, VG_SNAPSHOT_DEPTH_MAX);
    if (!snapshot || strcmp(snapshot->schema, VG_SNAPSHOT_SCHEMA) == 0)
        return snapshot;
    vg_snapshot_free(snapshot);
    return NULL;
}

static vg_snapshot *
snapshot_read_tree(const char *text, size_t size, GError **err)
{
    g_autoptr(json_object) document =
        vg_json_parse(text, size, VG_SNAPSHOT_TEXT_MAX, VG_SNAPSHOT_DEPTH_MAX, err);
    if (!document)
        return NULL;
    struct vg_json_node root = vg_json_root(document);
    if (check_version(&root, err) < 0)
        return NULL;
    return vg_record_read(&vg_snapshot_record, &root, err);
}

vg_snapshot *
vg_snapshot_from_json(const char *text, size_t size, GError **err)
{
    g_autoptr(vg_snapshot) snapshot = snapshot_read_text(text, size);
    if (!snapshot)
        snapshot = snapshot_read_tree(text, size, err);
    if (!snapshot)
        return NULL;
    inherit(snapshot);
    if (vg_snapshot_seal(snapshot, err) < 0)
        return NULL;
    return g_steal_pointer(&snapshot);
}

json_object *
vg_snapshot_to_json(const vg_snapshot *snapshot)
{
    json_object *document = json_object_new_object();
    vg_json_add_string(document, "schema", VG_SNAPSHOT_SCHEMA);
    vg_json_add_int64(document, "version", VG_SNAPSHOT_VERSION);
    g_autoptr(json_object) content = vg_record_write(&vg_snapshot_record, snapshot);
    json_object_object_foreach(content, name, value)
    {
        vg_json_add(document, name, json_object_get(value));
    }
    return document;
}

/* Checks for a host or a UUID that an earlier part also contains. */
static int
check_overlap(GHashTable *owners, const char *what, char *name, const char *label, GError **err)
{
    const char *owner = g_hash_table_lookup(owners, name);
    if (owner)
        return vg_error(err, VG_E_CONFLICT, "%s '%s' is in %s and in %s", what, name, owner, label);
    g_hash_table_insert(owners, name, (void *)label);
    return 0;
}

static int
merge_part(vg_snapshot *whole, const vg_snapshot *part, const char *label, GHashTable *hosts,
           GHashTable *uuids, GError **err)
{
    for (guint h = 0; h < part->hosts->len; h++) {
        const struct vg_snap_host *host = part->hosts->pdata[h];
        if (check_overlap(hosts, "host", host->name, label, err) < 0)
            return -1;
        for (guint v = 0; v < host->vms->len; v++) {
            const struct vg_snap_vm *vm = host->vms->pdata[v];
            if (vm->uuid && check_overlap(uuids, "VM UUID", vm->uuid, label, err) < 0)
                return -1;
        }
        g_ptr_array_add(whole->hosts, vg_record_copy(&vg_snap_host_record, host));
    }
    return 0;
}

static int
compare_notes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

vg_snapshot *
vg_snapshot_merge(const vg_snapshot *const *parts, const char *const *labels, size_t n_parts,
                  GError **err)
{
    if (n_parts == 1) {
        vg_snapshot *copy = vg_record_copy(&vg_snapshot_record, parts[0]);
        copy->sealed = parts[0]->sealed;
        return copy;
    }
    g_autoptr(vg_snapshot) whole = vg_snapshot_new(VG_SOURCE_MERGED);
    g_autoptr(GHashTable) hosts = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GHashTable) uuids = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GPtrArray) notes = g_ptr_array_new();
    for (size_t i = 0; i < n_parts; i++) {
        const vg_snapshot *part = parts[i];
        if (merge_part(whole, part, labels[i], hosts, uuids, err) < 0)
            return NULL;
        whole->begin_ns = i == 0 ? part->begin_ns : MIN(whole->begin_ns, part->begin_ns);
        whole->end_ns = i == 0 ? part->end_ns : MAX(whole->end_ns, part->end_ns);
        if (i == 0)
            whole->clock_offset_ns = part->clock_offset_ns;
        else if (whole->clock_offset_ns != part->clock_offset_ns)
            whole->clock_offset_ns = 0;
        if (part->note)
            g_ptr_array_add(notes, part->note);
    }
    if (notes->len > 0) {
        g_ptr_array_sort(notes, compare_notes);
        g_ptr_array_add(notes, NULL);
        g_autofree char *note = g_strjoinv("; ", (char **)notes->pdata);
        whole->note =
            g_utf8_make_valid(note, (gssize)MIN(strlen(note), VG_SNAPSHOT_TEXT_FIELD_MAX / 2));
    }
    if (vg_snapshot_seal(whole, err) < 0)
        return NULL;
    return g_steal_pointer(&whole);
}

const struct vg_snap_host *
vg_snapshot_find_host(const vg_snapshot *snapshot, const char *name)
{
    struct vg_snap_host key = {.name = (char *)name};
    const struct vg_snap_host *key_at = &key;
    struct vg_snap_host **found = NULL;

    if (snapshot->sealed && snapshot->hosts->len > 0) {
        found = bsearch(&key_at, snapshot->hosts->pdata, snapshot->hosts->len,
                        sizeof(*snapshot->hosts->pdata), by_host);
        return found ? *found : NULL;
    }
    for (guint i = 0; i < snapshot->hosts->len; i++) {
        const struct vg_snap_host *host = snapshot->hosts->pdata[i];
        if (strcmp(host->name, name) == 0)
            return host;
    }
    return NULL;
}

const struct vg_snap_departed *
vg_snap_host_find_departed(const struct vg_snap_host *host, const char *uuid)
{
    const struct vg_snap_departed key = {.uuid = (char *)uuid}, *key_at = &key;

    if (!uuid || host->departed->len == 0)
        return NULL;
    struct vg_snap_departed **found = bsearch(&key_at, host->departed->pdata, host->departed->len,
                                              sizeof(*host->departed->pdata), by_departed);
    return found ? *found : NULL;
}

char *
vg_snapshot_hash(const vg_snapshot *snapshot)
{
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);
    vg_record_hash(&vg_snapshot_record, snapshot, false, checksum);
    return g_strdup(g_checksum_get_string(checksum));
}

static void
hash_name(GChecksum *checksum, const char *name)
{
    g_checksum_update(checksum, (const guchar *)name, (gssize)strlen(name) + 1);
}

/* Returns the loss to the VM's own CPU quota: the entry "limit" of lost_to, or NULL. */
static const struct vg_snap_loss *
snap_vm_limit(const struct vg_snap_vm *vm)
{
    for (guint i = 0; i < vm->lost_to->len; i++) {
        const struct vg_snap_loss *loss = vm->lost_to->pdata[i];
        if (strcmp(loss->aggressor, vg_aggressor_name(VG_AGGRESSOR_LIMIT)) == 0)
            return loss;
    }
    return NULL;
}

double
vg_snap_vm_cap_demand(const struct vg_snap_vm *vm, double cores)
{
    return vm->cpu_limit > 0 ? MIN(cores, MAX(vm->cpu_limit, vm->run_share)) : cores;
}

bool
vg_snap_vm_lacks(const struct vg_snap_vm *vm, const char *member)
{
    return g_ptr_array_find_with_equal_func(vm->unknown, member, g_str_equal, NULL);
}

double
vg_snap_vm_demand(const struct vg_snap_vm *vm)
{
    const struct vg_snap_loss *limit = snap_vm_limit(vm);
    const double waits = vm->preempt_share + vm->wake_wait_share - (limit ? limit->share : 0);

    return vg_snap_vm_cap_demand(vm, vm->run_share + MAX(waits, 0));
}

double
vg_snap_vm_lost(const struct vg_snap_vm *vm)
{
    return vg_snap_vm_demand(vm) - vm->run_share;
}

double
vg_snap_vm_preemptions(const struct vg_snap_vm *vm)
{
    const struct vg_snap_loss *limit = snap_vm_limit(vm);

    return MAX(vm->preemptions_per_s - (limit ? limit->count_per_s : 0), 0);
}

char *
vg_snap_vm_facts_hash(const struct vg_snap_host *host, const struct vg_snap_vm *vm)
{
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);
    hash_name(checksum, host->name);
    vg_record_hash(&vg_snap_vm_record, vm, true, checksum);
    /* The engines in use are a measurement, but the devices of a VM are a fact. */
    for (guint i = 0; i < vm->gpu->len; i++) {
        const struct vg_snap_gpu_use *use = vm->gpu->pdata[i];
        const struct vg_snap_gpu_use *last = i > 0 ? vm->gpu->pdata[i - 1] : NULL;
        if (last && strcmp(last->device, use->device) == 0)
            continue;
        hash_name(checksum, use->device);
        hash_name(checksum, use->vgpu_type ? use->vgpu_type : "");
    }
    return g_strdup(g_checksum_get_string(checksum));
}

char *
vg_snap_host_facts_hash(const struct vg_snap_host *host)
{
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);
    vg_record_hash(&vg_snap_host_record, host, true, checksum);
    return g_strdup(g_checksum_get_string(checksum));
}
