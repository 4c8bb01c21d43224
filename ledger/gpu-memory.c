/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that VMs and processes have on GPUs: objects that they create and free, and totals
 * that the kernel reports.
 */
#include "config.h"

#include "ledger/gpu-ledger-private.h"

/* A memory object, with its key and its owner. */
struct gpu_object {
    uint64_t id;
    uint16_t device;
    uint32_t holding; /* index in ledger->holdings */
    int64_t bytes;
};

static unsigned int
gpu_memory_object_hash(const void *data)
{
    const struct gpu_object *object = data;

    return (unsigned int)((object->id ^ object->device) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static int
gpu_memory_object_equal(const void *a, const void *b)
{
    const struct gpu_object *x = a, *y = b;

    return x->id == y->id && x->device == y->device;
}

void
gpu_memory_init(struct vg_gpu_ledger *ledger)
{
    ledger->objects =
        g_hash_table_new_full(gpu_memory_object_hash, gpu_memory_object_equal, g_free, NULL);
    ledger->holdings = g_array_new(FALSE, TRUE, sizeof(struct gpu_holding));
}

void
gpu_memory_clear(struct vg_gpu_ledger *ledger)
{
    g_hash_table_unref(ledger->objects);
    g_array_unref(ledger->holdings);
}

uint64_t
gpu_memory_bytes(const struct vg_gpu_ledger *ledger)
{
    /* An object and its share of the hash table. */
    return ledger->holdings->len * sizeof(struct gpu_holding) +
           g_hash_table_size(ledger->objects) * (sizeof(struct gpu_object) + 48);
}

static uint32_t
gpu_memory_holding(struct vg_gpu_ledger *ledger, uint32_t owner, uint16_t device)
{
    const struct gpu_holding holding = {.owner = owner, .device = device};

    for (guint i = 0; i < ledger->holdings->len; i++) {
        const struct gpu_holding *known = &g_array_index(ledger->holdings, struct gpu_holding, i);
        if (known->owner == owner && known->device == device)
            return i;
    }
    if (ledger->holdings->len >= VG_GPU_USERS_MAX)
        return GPU_NO_INDEX;
    g_array_append_val(ledger->holdings, holding);
    return ledger->holdings->len - 1;
}

static void
gpu_memory_set(struct vg_gpu_ledger *ledger, uint32_t index, int64_t bytes)
{
    struct gpu_holding *holding = &g_array_index(ledger->holdings, struct gpu_holding, index);

    holding->bytes = CLAMP(bytes, 0, VG_TIME_MAX);
    holding->peak = MAX(holding->peak, holding->bytes);
}

static int64_t
gpu_memory_held(const struct vg_gpu_ledger *ledger, uint32_t index)
{
    return g_array_index(ledger->holdings, struct gpu_holding, index).bytes;
}

/* Returns the size of an object, limited to plausible values. */
static int64_t
gpu_memory_object_bytes(const struct vg_event *event)
{
    return (int64_t)MIN(event->gpu.fence, (uint64_t)INT64_C(1) << 50);
}

static void
gpu_memory_free(struct vg_gpu_ledger *ledger, const struct gpu_object *key)
{
    const struct gpu_object *object = g_hash_table_lookup(ledger->objects, key);

    if (!object)
        return;
    gpu_memory_set(ledger, object->holding,
                   gpu_memory_held(ledger, object->holding) - object->bytes);
    g_hash_table_remove(ledger->objects, object);
}

static void
gpu_memory_make(struct vg_gpu_ledger *ledger, const struct gpu_object *key, uint32_t holding,
                int64_t bytes)
{
    gpu_memory_free(ledger, key);
    if (g_hash_table_size(ledger->objects) >= VG_GPU_OBJECTS_MAX) {
        ledger->stats.dropped++;
        return;
    }
    struct gpu_object *object = g_new0(struct gpu_object, 1);
    *object = *key;
    object->holding = holding;
    object->bytes = bytes;
    g_hash_table_add(ledger->objects, object);
    gpu_memory_set(ledger, holding, gpu_memory_held(ledger, holding) + bytes);
}

/* Returns the owner of memory whose process the record names. */
static uint32_t
gpu_memory_holder(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    int32_t pid = (int32_t)event->gpu.id;

    if (event->gpu.id_space != VG_GPU_ID_PROCESS ||
        (!vg_topology_find(ledger->topology, pid) && gpu_ledger_has_all_owners(ledger)))
        return GPU_NO_INDEX;
    struct vg_thread *thread = vg_topology_thread(ledger->topology, pid);
    vg_topology_set_process(ledger->topology, thread, pid);
    return gpu_ledger_owner(ledger, vg_thread_process(thread), thread->comm);
}

void
gpu_memory_take(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    const struct gpu_object key = {.id = event->gpu.id, .device = event->gpu.device};

    if (event->gpu.op == VG_GPU_MEMORY_FREED) {
        gpu_memory_free(ledger, &key);
        return;
    }
    uint32_t owner = event->gpu.op == VG_GPU_MEMORY_TOTAL ? gpu_memory_holder(ledger, event)
                                                          : gpu_ledger_recorder(ledger, event);
    uint32_t holding =
        owner == GPU_NO_INDEX ? owner : gpu_memory_holding(ledger, owner, event->gpu.device);
    if (holding == GPU_NO_INDEX)
        return;
    if (event->gpu.op == VG_GPU_MEMORY_TOTAL)
        gpu_memory_set(ledger, holding, gpu_memory_object_bytes(event));
    else
        gpu_memory_make(ledger, &key, holding, gpu_memory_object_bytes(event));
}

void
gpu_memory_forget_owner(struct vg_gpu_ledger *ledger, uint32_t owner)
{
    for (guint i = 0; i < ledger->holdings->len; i++) {
        struct gpu_holding *holding = &g_array_index(ledger->holdings, struct gpu_holding, i);
        if (holding->owner == owner)
            *holding = (struct gpu_holding){.owner = GPU_NO_INDEX};
    }
}
