/* SPDX-License-Identifier: Apache-2.0
 *
 * Identifies VMs, and joins several parts to one window.
 */
#include "config.h"

#include <string.h>

#include "engine/gather-private.h"
#include "model/window-cut.h"
#include "model/window-sum.h"

/* The number of windows for which a VM is remembered without being in them. */
#define FORGET_WINDOWS 64

/* ---- identity ---- */

static bool
is_same_vm(const struct identity *known, const struct vg_vm_sample *vm)
{
    if (known->uuid[0] && vm->uuid[0])
        return strcmp(known->uuid, vm->uuid) == 0 && known->pid == vm->pid;
    return known->pid > 0 && known->pid == vm->pid;
}

/* Returns the id of a VM in gathered windows. */
static uint32_t
identify(vg_gather *gather, unsigned int source, const struct vg_vm_sample *vm)
{
    struct identity *known, *same = NULL;

    for (guint i = 0; i < gather->identities->len; i++) {
        known = &g_array_index(gather->identities, struct identity, i);
        if (known->source == source && known->source_id == vm->id) {
            known->last_window = gather->stats.windows;
            known->pid = vm->pid;
            g_strlcpy(known->uuid, vm->uuid, sizeof(known->uuid));
            return known->id;
        }
        if (known->source != source && is_same_vm(known, vm))
            same = known;
    }
    struct identity identity = {
        .source = source,
        .source_id = vm->id,
        .id = same ? same->id : gather->n_ids++,
        .pid = vm->pid,
        .last_window = gather->stats.windows,
    };
    g_strlcpy(identity.uuid, vm->uuid, sizeof(identity.uuid));
    g_array_append_val(gather->identities, identity);
    return identity.id;
}

void
vg_gather_forget(vg_gather *gather)
{
    for (guint i = gather->identities->len; i > 0; i--) {
        const struct identity *known = &g_array_index(gather->identities, struct identity, i - 1);
        if (gather->stats.windows - known->last_window > FORGET_WINDOWS)
            g_array_remove_index_fast(gather->identities, i - 1);
    }
}

void
vg_gather_rename(vg_gather *gather, struct part *part)
{
    GArray *vms = part->window.vms;
    g_autoptr(GHashTable) ids = g_hash_table_new(NULL, NULL);

    for (guint i = 0; i < vms->len; i++) {
        struct vg_vm_sample *vm = &g_array_index(vms, struct vg_vm_sample, i);
        uint32_t id = identify(gather, part->source, vm);
        g_hash_table_insert(ids, GUINT_TO_POINTER(vm->id), GUINT_TO_POINTER(id));
        vm->id = id;
    }
    for (guint i = 0; i < part->window.gpu_requests->len; i++) {
        struct vg_gpu_request_sample *request =
            &g_array_index(part->window.gpu_requests, struct vg_gpu_request_sample, i);
        void *id;
        request->vm = g_hash_table_lookup_extended(ids, GUINT_TO_POINTER(request->vm), NULL, &id)
                          ? GPOINTER_TO_UINT(id)
                          : VG_PROCESS_NO_ID;
    }
    for (guint i = 0; i < vms->len; i++) {
        GArray *lost_to = g_array_index(vms, struct vg_vm_sample, i).lost_to;
        for (guint k = 0; k < lost_to->len; k++) {
            struct vg_lost_to *lost = &g_array_index(lost_to, struct vg_lost_to, k);
            if (lost->kind == VG_AGGRESSOR_VM)
                lost->vm_id =
                    GPOINTER_TO_UINT(g_hash_table_lookup(ids, GUINT_TO_POINTER(lost->vm_id)));
        }
    }
}

/* ---- joining ---- */

static struct vg_gpu_sample *
gather_find_gpu(const GArray *gpus, const struct vg_gpu_sample *like)
{
    for (guint i = 0; i < gpus->len; i++) {
        struct vg_gpu_sample *gpu = &g_array_index(gpus, struct vg_gpu_sample, i);
        if (strcmp(gpu->device, like->device) == 0 && strcmp(gpu->engine, like->engine) == 0)
            return gpu;
    }
    return NULL;
}

/* Joins the GPU figures of a part. For an engine in both, the lead's figures count. Missing ones
 * come from the other part. */
static void
join_gpus(GArray *lead, const GArray *other)
{
    for (guint i = 0; i < other->len; i++) {
        const struct vg_gpu_sample *more = &g_array_index(other, struct vg_gpu_sample, i);
        struct vg_gpu_sample *gpu = gather_find_gpu(lead, more);
        if (!gpu) {
            g_array_append_vals(lead, more, 1);
            continue;
        }
        if (gpu->mem_bytes == 0) {
            gpu->mem_bytes = more->mem_bytes;
            gpu->mem_peak_bytes = more->mem_peak_bytes;
            gpu->lacks &= more->lacks | ~(unsigned int)VG_GPU_NO_MEMORY;
        }
        if (gpu->contexts == 0)
            gpu->contexts = more->contexts;
        if (gpu->slices == 0) {
            gpu->slices = more->slices;
            gpu->lacks &= more->lacks | ~(unsigned int)VG_GPU_NO_SLICES;
        }
    }
}

/* Joins the GPU requests after join_gpus() or a sum, when the lead has every GPU of the other
 * part. */
static void
join_requests(struct vg_window *lead, const struct vg_window *other)
{
    for (guint i = 0; i < other->gpu_requests->len; i++) {
        struct vg_gpu_request_sample request =
            g_array_index(other->gpu_requests, struct vg_gpu_request_sample, i);
        const struct vg_gpu_sample *gpu =
            &g_array_index(other->gpus, struct vg_gpu_sample, request.gpu);
        request.gpu = (uint32_t)(gather_find_gpu(lead->gpus, gpu) -
                                 &g_array_index(lead->gpus, struct vg_gpu_sample, 0));
        g_array_append_val(lead->gpu_requests, request);
    }
}

void
vg_gather_join(struct vg_window *lead, struct vg_window *other, bool only_gpu)
{
    lead->begin_ns = MIN(lead->begin_ns, other->begin_ns);
    lead->lost_events += other->lost_events;
    lead->lost_packets += other->lost_packets;
    if (lead->host.runnable < 0)
        lead->host = other->host;
    if (lead->cpus->len == 0)
        g_array_append_vals(lead->cpus, other->cpus->data, other->cpus->len);
    if (lead->programs_ns == 0)
        vg_window_copy_programs(lead, other);
    for (guint i = 0; i < other->vms->len; i++) {
        struct vg_vm_sample *more = &g_array_index(other->vms, struct vg_vm_sample, i);
        struct vg_vm_sample *vm = vg_window_find_vm(lead, more->id);
        if (!vm && only_gpu)
            continue;
        if (!vm) {
            struct vg_vm_sample taken = *more;
            vg_vm_sample_init(more);
            g_array_append_val(lead->vms, taken);
            continue;
        }
        if (!vm->gpu_known && more->gpu_known) {
            vm->gpu_known = true;
            vm->gpu_active_ns = more->gpu_active_ns;
        }
        join_gpus(vm->gpus, more->gpus);
        if (!vm->uuid[0])
            g_strlcpy(vm->uuid, more->uuid, sizeof(vm->uuid));
    }
    join_gpus(lead->gpus, other->gpus);
    g_array_append_vals(lead->proxies, other->proxies->data, other->proxies->len);
    g_array_append_vals(lead->gpu_cards, other->gpu_cards->data, other->gpu_cards->len);
    join_requests(lead, other);
    g_array_append_vals(lead->gpu_processes, other->gpu_processes->data, other->gpu_processes->len);
}

bool
vg_gather_trim(vg_gather *gather, struct part *part, int64_t begin_ns)
{
    struct vg_window *window = &part->window, before;
    const int64_t closed_ns = MIN(MIN(begin_ns, window->end_ns), gather->closed_ns);

    if (window->begin_ns >= begin_ns)
        return true;
    /* Later time was missed by the source that measures CPUs, too, which reports it. */
    vg_gather_lose(gather, window->begin_ns, closed_ns);
    if (window->end_ns <= begin_ns)
        return false;
    vg_window_cut(window, begin_ns, &before);
    vg_window_clear(&before);
    return true;
}

void
vg_gather_add_pieces(vg_gather *gather, struct part *last, int64_t begin_ns)
{
    struct vg_window sum = {0};

    for (guint i = 0; i < gather->pieces->len; i++) {
        struct part *piece = gather->pieces->pdata[i];
        if (piece->source == last->source)
            vg_gather_lose_before(gather, piece);
        if (piece->source != last->source || !vg_gather_trim(gather, piece, begin_ns))
            continue;
        vg_gather_rename(gather, piece);
        if (!sum.vms) {
            vg_window_copy(&sum, &piece->window);
            continue;
        }
        vg_window_add(&sum, &piece->window);
        join_requests(&sum, &piece->window);
    }
    if (!sum.vms)
        return;
    vg_window_add(&sum, &last->window);
    join_requests(&sum, &last->window);
    /* Use the proxies and cards of the end, not of the beginning. */
    g_array_set_size(sum.proxies, 0);
    g_array_append_vals(sum.proxies, last->window.proxies->data, last->window.proxies->len);
    g_array_set_size(sum.gpu_cards, 0);
    g_array_append_vals(sum.gpu_cards, last->window.gpu_cards->data, last->window.gpu_cards->len);
    vg_window_clear(&last->window);
    last->window = sum;
}
