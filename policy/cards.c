/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/cards.h"

#include <string.h>

#include "model/gpu-part.h"
#include "model/gpu-profile.h"

/* Loads that differ by less are equal, also in the search, which computes with floats. */
#define SAME 1e-5

size_t
vg_card_type_of(GHashTable *types, const char *name)
{
    const int number = name ? GPOINTER_TO_INT(g_hash_table_lookup(types, name)) : 0;

    return number > 0 ? (size_t)number - 1 : VG_CARD_UNKNOWN;
}

/* The value in older snapshots instead of the PCI id of a VM's whole GPU. */
#define ANY_WHOLE "passthrough"

/* Returns whether no VM has the GPU, by an older snapshot, which contains no whole GPUs. */
static bool
cards_is_unused(const struct vg_snap_host *host, const struct vg_snap_gpu *gpu)
{
    bool unused = gpu->vgpu_types->len == 0;

    for (guint v = 0; v < host->vms->len; v++) {
        const struct vg_snap_vm *vm = host->vms->pdata[v];
        for (guint u = 0; u < vm->gpu->len; u++)
            unused = unused && strcmp(((struct vg_snap_gpu_use *)vm->gpu->pdata[u])->device,
                                      gpu->device) != 0;
    }
    return unused;
}

/* Returns how many vGPUs of a type a GPU of the snapshot can give, or -1 if it never can. */
static int64_t
cards_count_free(const struct vg_snap_host *host, const struct vg_snap_gpu *gpu, const char *wanted)
{
    const bool any_whole = strcmp(wanted, ANY_WHOLE) == 0;

    for (guint t = 0; t < gpu->vgpu_types->len; t++) {
        const struct vg_snap_vgpu_type *type = gpu->vgpu_types->pdata[t];
        if (strcmp(type->type, wanted) == 0 || (any_whole && vg_gpu_type_is_whole(type->type)))
            return type->free;
    }
    if (!any_whole)
        return -1;
    return cards_is_unused(host, gpu);
}

/* Counts the vGPUs that the host's VMs have. */
static void
cards_count_start(struct vg_card *card, const struct vg_snap_host *host,
                  const struct vg_snap_gpu *gpu, GHashTable *types)
{
    for (guint v = 0; v < host->vms->len; v++) {
        const struct vg_snap_vm *vm = host->vms->pdata[v];
        for (guint u = 0; u < vm->gpu->len; u++) {
            const struct vg_snap_gpu_use *use = vm->gpu->pdata[u];
            const struct vg_snap_gpu_use *last = u > 0 ? vm->gpu->pdata[u - 1] : NULL;
            if (strcmp(use->device, gpu->device) != 0 ||
                (last && strcmp(last->device, use->device) == 0))
                continue;
            const size_t type = vg_card_type_of(types, use->vgpu_type);
            if (type == VG_CARD_UNKNOWN)
                card->strangers++;
            else
                card->types[type].start++;
        }
    }
}

/* Returns whether the GPU has vGPUs of one type and free slots of another. */
static bool
cards_seem_mixed(const struct vg_card *card)
{
    for (size_t t = 0; t < card->n_types; t++) {
        const struct vg_card_type *type = &card->types[t];
        if (type->whole || type->free <= 0)
            continue;
        for (size_t other = 0; other < card->n_types; other++)
            if (other != t && (card->types[other].start > 0 || card->types[other].made > 0))
                return true;
    }
    return false;
}

/* Returns whether a type is a MIG slice. */
static bool
cards_is_slice(const struct vg_snap_vgpu_type *type)
{
    return type->mig || vg_gpu_profile_is_mig(type->type);
}

void
vg_card_init(struct vg_card *card, const struct vg_snap_host *host, const struct vg_snap_gpu *gpu,
             GHashTable *types)
{
    GHashTableIter iter;
    void *name, *number;

    *card = (struct vg_card){
        .memory_known = gpu->memory_bytes > 0 || gpu->memory_free_bytes > 0,
        .memory_bytes = gpu->memory_bytes,
        .memory_free = gpu->memory_free_bytes,
        .n_types = g_hash_table_size(types),
    };
    card->types = g_new0(struct vg_card_type, card->n_types);
    g_hash_table_iter_init(&iter, types);
    while (g_hash_table_iter_next(&iter, &name, &number)) {
        struct vg_card_type *type = &card->types[GPOINTER_TO_INT(number) - 1];
        type->free = cards_count_free(host, gpu, name);
        type->whole = strcmp(name, ANY_WHOLE) == 0 || vg_gpu_type_is_whole(name);
    }
    for (guint i = 0; i < gpu->vgpu_types->len; i++) {
        const struct vg_snap_vgpu_type *snap = gpu->vgpu_types->pdata[i];
        const size_t at = vg_card_type_of(types, snap->type);
        const bool whole = vg_gpu_type_is_whole(snap->type);
        card->mixed = card->mixed || cards_is_slice(snap);
        if (at == VG_CARD_UNKNOWN) {
            card->strangers += whole ? 0 : snap->made;
            continue;
        }
        card->types[at].made = whole ? 0 : snap->made;
        card->types[at].bytes = snap->memory_bytes;
    }
    cards_count_start(card, host, gpu, types);
    for (size_t t = 0; t < card->n_types; t++)
        card->types[t].here = card->types[t].start;
    if (gpu->profiles == VG_PROFILES_MIXED)
        card->mixed = true;
    else if (gpu->profiles == VG_PROFILES_UNKNOWN)
        card->mixed = card->mixed || cards_seem_mixed(card);
}

void
vg_card_clear(struct vg_card *card)
{
    g_clear_pointer(&card->types, g_free);
}

void
vg_card_copy(const struct vg_card *from, struct vg_card *ret)
{
    *ret = *from;
    ret->types = g_memdup2(from->types, from->n_types * sizeof(*from->types));
}

static int64_t
cards_bytes(const struct vg_card *card, size_t type, int64_t bytes)
{
    return MAX(bytes, card->types[type].bytes);
}

static int64_t
cards_room_homogeneous(const struct vg_card *card, size_t index, int64_t bytes)
{
    const struct vg_card_type *type = &card->types[index];
    bool has_others = false, had_others = false, more_others = false;

    for (size_t t = 0; t < card->n_types; t++) {
        const struct vg_card_type *other = &card->types[t];
        if (t == index)
            continue;
        has_others = has_others || other->here + other->made > 0;
        had_others = had_others || other->start + other->made > 0;
        more_others = more_others || other->here > other->start;
    }
    if (more_others)
        return 0;
    if (has_others || !had_others || card->strangers > 0 || type->whole)
        return type->free + type->start - type->here;
    return (card->memory_bytes > 0 && bytes > 0 ? card->memory_bytes / bytes : 1) - type->here;
}

static int64_t
cards_room_mixed(const struct vg_card *card, size_t index, int64_t bytes)
{
    const struct vg_card_type *type = &card->types[index];
    const bool by_memory = card->memory_known && bytes > 0;
    int64_t others = 0, left = 0;

    for (size_t t = 0; t < card->n_types; t++) {
        const int64_t more = card->types[t].here - card->types[t].start;
        others += t != index ? MAX(more, 0) : 0;
        left += t != index ? MAX(-more, 0) : 0;
    }
    /* The size of another type's vGPU is unknown. */
    if (others > 0 && !by_memory)
        return 0;
    const int64_t counted = type->free + type->start - type->here - others;
    const int64_t fitting = by_memory ? card->memory_free / bytes : counted;
    if (left > 0 && by_memory)
        return fitting;
    if (left > 0 && !vg_card_is_used(card))
        return MAX(counted, 1);
    return MIN(counted, fitting);
}

int64_t
vg_card_room(const struct vg_card *card, size_t type, int64_t bytes)
{
    if (type == VG_CARD_UNKNOWN || card->types[type].free < 0)
        return -1;
    bytes = cards_bytes(card, type, bytes);
    const int64_t room = card->mixed && !card->types[type].whole
                             ? cards_room_mixed(card, type, bytes)
                             : cards_room_homogeneous(card, type, bytes);
    return MAX(room, 0);
}

bool
vg_card_has_memory(const struct vg_card *card, size_t type, int64_t bytes)
{
    return !card->memory_known || card->memory_free >= cards_bytes(card, type, bytes);
}

void
vg_card_put(struct vg_card *card, size_t type, int64_t bytes, int sign)
{
    if (type == VG_CARD_UNKNOWN) {
        card->strangers += sign;
    } else {
        card->types[type].here += sign;
        bytes = cards_bytes(card, type, bytes);
    }
    if (card->memory_known)
        card->memory_free -= sign * bytes;
}

bool
vg_card_is_used(const struct vg_card *card)
{
    bool used = card->strangers > 0;

    for (size_t t = 0; t < card->n_types && !used; t++)
        used = card->types[t].here + card->types[t].made > 0;
    return used;
}

bool
vg_card_has_slices(const struct vg_snap_gpu *gpu)
{
    for (guint i = 0; i < gpu->vgpu_types->len; i++) {
        if (cards_is_slice(gpu->vgpu_types->pdata[i]))
            return true;
    }
    return false;
}

bool
vg_card_offer_is_better(const struct vg_card_offer *offer, const struct vg_card_offer *than,
                        enum vg_card_choice how)
{
    if (offer->rise < than->rise - SAME || offer->rise > than->rise + SAME)
        return (offer->rise < than->rise) == (how != VG_CARD_WORST);
    if (how == VG_CARD_WORST)
        return offer->load > than->load + SAME;
    if (how == VG_CARD_SPREAD)
        return offer->load < than->load - SAME;
    return offer->used != than->used ? offer->used : offer->room < than->room;
}
