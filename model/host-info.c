/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/host-info.h"

#include <math.h>
#include <string.h>

#include "model/gpu-largest.h"

#define TEXT_MAX  1024
#define TIME_MAX  ((double)VG_JSON_INT_MAX)
#define BYTES_MAX ((double)(INT64_C(1) << 50))
#define COUNT_MAX 1e6

/* The thresholds of a summary: a fraction of the host, and cores that count on any host. */
#define BAND       0.1
#define BAND_CORES 0.2

const char *const vg_host_presence_names[] = {"alive", "stale", "silent", NULL};

#define THIS vg_host_card
static const struct vg_field card_fields[] = {
    VG_ROW_STRING(name, VG_FIELD_REQUIRED, 1, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_STRING(url, 0, 1, TEXT_MAX),
    VG_ROW_STRING(libvirt_uri, 0, 0, TEXT_MAX),
    VG_ROW_ENUM("migration_tls", migration_tls, 0, vg_tls_certs_names),
    VG_ROW_STRING(version, 0, 0, TEXT_MAX),
    VG_ROW_STRING(boot_id, 0, 0, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_INT(started_ns, 0, 0, TIME_MAX),
};
const struct vg_record_type vg_host_card_record = VG_ROW_TYPE(card_fields);
#undef THIS

#define THIS vg_summary_vm
static const struct vg_field summary_vm_fields[] = {
    VG_ROW_STRING(name, VG_FIELD_REQUIRED, 1, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_STRING(uuid, VG_FIELD_OMIT, 0, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_DOUBLE(lost, VG_FIELD_REQUIRED, 0, VG_SNAPSHOT_SHARE_MAX),
};
static const struct vg_record_type summary_vm_record = VG_ROW_TYPE(summary_vm_fields);
#undef THIS

#define THIS vg_host_summary
static const struct vg_field summary_fields[] = {
    VG_ROW_INT(at_ns, 0, 0, TIME_MAX),
    VG_ROW_INT(cpus, 0, 0, VG_CPU_LIMIT),
    VG_ROW_DOUBLE(own, 0, 0, VG_SNAPSHOT_SHARE_MAX),
    VG_ROW_DOUBLE(wanted, 0, 0, VG_SNAPSHOT_SHARE_MAX *COUNT_MAX),
    VG_ROW_DOUBLE(lost, 0, 0, VG_SNAPSHOT_SHARE_MAX *COUNT_MAX),
    VG_ROW_INT(memory_bytes, 0, 0, BYTES_MAX),
    VG_ROW_INT(memory_free_bytes, 0, 0, BYTES_MAX),
    VG_ROW_BOOL(maintenance, 0),
    VG_ROW_INT(vms, 0, 0, COUNT_MAX),
    VG_ROW_INT(gpus, 0, 0, COUNT_MAX),
    VG_ROW_INT(gpus_free, 0, 0, COUNT_MAX),
    VG_ROW_STRING(gpu_largest, VG_FIELD_OMIT, 0, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_INT(store_bytes, VG_FIELD_OMIT, 0, BYTES_MAX),
    VG_ROW_INTS(classes, 0, COUNT_MAX, VG_CLASS_MAX),
    VG_ROW_INTS(scores, 0, COUNT_MAX, VG_SUMMARY_STEPS),
    VG_ROW_LIST(top, 0, VG_SUMMARY_TOP, &summary_vm_record),
};
const struct vg_record_type vg_host_summary_record = VG_ROW_TYPE(summary_fields);
#undef THIS

#define THIS vg_host_info
static const struct vg_field host_info_fields[] = {
    VG_ROW_PART(card, VG_FIELD_REQUIRED, &vg_host_card_record),
    VG_ROW_ENUM("state", state, VG_FIELD_REQUIRED, vg_host_presence_names),
    VG_ROW_STRING(reason, 0, 0, TEXT_MAX),
    VG_ROW_BOOL(self, 0),
    VG_ROW_INT(seen_ns, 0, 0, TIME_MAX),
    VG_ROW_INT(summary_ns, 0, 0, TIME_MAX),
    VG_ROW_BOOL(maintenance, 0),
    VG_ROW_PART(summary, 0, &vg_host_summary_record),
};
const struct vg_record_type vg_host_info_record = VG_ROW_TYPE(host_info_fields);
#undef THIS

#define THIS vg_cluster_vm
static const struct vg_field cluster_vm_fields[] = {
    VG_ROW_STRING(host, VG_FIELD_REQUIRED, 1, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_STRING(name, VG_FIELD_REQUIRED, 1, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_STRING(uuid, 0, 0, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_STRING(display_name, 0, 0, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_ENUM("class", vm_class, 0, vg_vm_class_names),
    VG_ROW_DOUBLE(wanted, 0, 0, VG_SNAPSHOT_SHARE_MAX),
    VG_ROW_DOUBLE(run, 0, 0, VG_SNAPSHOT_SHARE_MAX),
    VG_ROW_DOUBLE(lost, 0, 0, VG_SNAPSHOT_SHARE_MAX),
    VG_ROW_DOUBLE(cpu_intensity, 0, 0, 1),
    VG_ROW_DOUBLE(gpu_intensity, 0, 0, 1),
    VG_ROW_BOOL(gpu_known, 0),
    VG_ROW_INT(at_ns, 0, 0, TIME_MAX),
};
const struct vg_record_type vg_cluster_vm_record = VG_ROW_TYPE(cluster_vm_fields);
#undef THIS

struct vg_cluster_vm *
vg_cluster_vm_of(const struct vg_snap_host *host, const struct vg_snap_vm *vm, int64_t at_ns)
{
    struct vg_cluster_vm *one = vg_record_new(&vg_cluster_vm_record);

    one->host = g_strdup(host->name);
    one->name = g_strdup(vm->name);
    one->uuid = g_strdup(vm->uuid);
    one->display_name = g_strdup(vm->display_name);
    one->vm_class = vm->vm_class;
    one->wanted = vg_snap_vm_demand(vm);
    one->run = vm->run_share;
    one->lost = MAX(vg_snap_vm_lost(vm), 0);
    one->cpu_intensity = vm->cpu_intensity;
    one->gpu_intensity = vm->gpu_intensity;
    one->gpu_known = vm->gpu_known;
    one->at_ns = at_ns;
    return one;
}

void
vg_cluster_vm_free(void *vm)
{
    if (vm)
        vg_record_free(&vg_cluster_vm_record, vm);
}

struct vg_host_info *
vg_host_info_new(void)
{
    return vg_record_new(&vg_host_info_record);
}

void
vg_host_info_free(void *info)
{
    if (info)
        vg_record_free(&vg_host_info_record, info);
}

void
vg_host_summary_free(void *summary)
{
    if (summary)
        vg_record_free(&vg_host_summary_record, summary);
}

/* ---- summing up ---- */

static int
host_info_compare_lost(const void *a, const void *b)
{
    const struct vg_snap_vm *x = *(struct vg_snap_vm *const *)a;
    const struct vg_snap_vm *y = *(struct vg_snap_vm *const *)b;
    const double lost_x = vg_snap_vm_lost(x), lost_y = vg_snap_vm_lost(y);

    return lost_x == lost_y ? strcmp(x->name, y->name) : lost_x < lost_y ? 1 : -1;
}

static size_t
host_info_text_size(const struct vg_host_summary *summary)
{
    g_autoptr(json_object) object = vg_record_write(&vg_host_summary_record, summary);
    g_autofree char *text = vg_json_to_text(object, false);

    return strlen(text);
}

static void
host_info_add_top(const struct vg_snap_host *host, struct vg_host_summary *summary)
{
    g_autoptr(GPtrArray) vms = g_ptr_array_new();

    for (guint i = 0; i < host->vms->len; i++)
        g_ptr_array_add(vms, host->vms->pdata[i]);
    g_ptr_array_sort(vms, host_info_compare_lost);
    for (guint i = 0; i < MIN(vms->len, VG_SUMMARY_TOP); i++) {
        const struct vg_snap_vm *vm = vms->pdata[i];
        struct vg_summary_vm *top = vg_record_new(&summary_vm_record);
        top->name = g_strdup(vm->name);
        top->uuid = g_strdup(vm->uuid);
        top->lost = MAX(vg_snap_vm_lost(vm), 0);
        g_ptr_array_add(summary->top, top);
    }
    while (summary->top->len > 0 && host_info_text_size(summary) > VG_SUMMARY_TEXT_MAX)
        vg_record_truncate(&summary_vm_record, summary->top, summary->top->len - 1);
}

static void
host_info_add_gpus(const struct vg_snap_host *host, struct vg_host_summary *summary)
{
    summary->gpus = host->gpus->len;
    for (guint i = 0; i < host->gpus->len; i++) {
        const struct vg_snap_gpu *gpu = host->gpus->pdata[i];
        int64_t most = 0;
        for (guint k = 0; k < gpu->vgpu_types->len; k++)
            most = MAX(most, ((const struct vg_snap_vgpu_type *)gpu->vgpu_types->pdata[k])->free);
        summary->gpus_free += most;
    }
    summary->gpu_largest = g_strdup(vg_gpu_largest_of_host(host).type);
}

static void
host_info_count(GArray *counts, guint size, unsigned index)
{
    const int32_t none = 0;

    while (counts->len < size)
        g_array_append_val(counts, none);
    g_array_index(counts, int32_t, MIN(index, size - 1))++;
}

struct vg_host_summary *
vg_host_summary_of(const struct vg_snap_host *host, int64_t at_ns)
{
    struct vg_host_summary *summary = vg_record_new(&vg_host_summary_record);

    summary->at_ns = at_ns;
    summary->cpus = host->cpus;
    summary->own = host->own_share;
    summary->memory_bytes = host->memory_bytes;
    summary->memory_free_bytes = host->memory_free_bytes;
    summary->maintenance = host->maintenance;
    summary->store_bytes = host->store_bytes;
    summary->vms = host->vms->len;
    for (guint i = 0; i < host->vms->len; i++) {
        const struct vg_snap_vm *vm = host->vms->pdata[i];
        summary->wanted += vg_snap_vm_demand(vm);
        summary->lost += MAX(vg_snap_vm_lost(vm), 0);
        host_info_count(summary->classes, VG_CLASS_MAX, vm->vm_class);
        host_info_count(summary->scores, VG_SUMMARY_STEPS,
                        (unsigned)(CLAMP(vm->cpu_intensity, 0, 1) * VG_SUMMARY_STEPS));
    }
    host_info_add_gpus(host, summary);
    host_info_add_top(host, summary);
    return summary;
}

/* ---- the band ---- */

static bool
host_info_differs(const GArray *a, const GArray *b)
{
    return a->len != b->len || memcmp(a->data, b->data, a->len * sizeof(int32_t)) != 0;
}

bool
vg_host_summary_moved(const struct vg_host_summary *before, const struct vg_host_summary *now)
{
    const double cores = MAX(BAND * (double)now->cpus, BAND_CORES);
    const double bytes = BAND * (double)now->memory_bytes;

    return before->cpus != now->cpus || before->vms != now->vms || before->gpus != now->gpus ||
           before->gpus_free != now->gpus_free ||
           g_strcmp0(before->gpu_largest, now->gpu_largest) != 0 ||
           before->maintenance != now->maintenance || before->memory_bytes != now->memory_bytes ||
           fabs(before->own - now->own) > cores || fabs(before->wanted - now->wanted) > cores ||
           fabs(before->lost - now->lost) > cores ||
           fabs((double)(before->memory_free_bytes - now->memory_free_bytes)) > bytes ||
           host_info_differs(before->classes, now->classes);
}
