/* SPDX-License-Identifier: Apache-2.0
 *
 * The users of the GPUs: engines, vGPUs, and the VMs and processes behind them.
 */
#include "config.h"

#include "ledger/gpu-ledger-private.h"

static void
gpu_owner_engine_free(void *data)
{
    struct gpu_engine *engine = data;

    gpu_meter_clear(&engine->meter);
    g_free(engine);
}

static void
gpu_owner_free(void *data)
{
    struct gpu_owner *owner = data;

    if (owner)
        gpu_union_clear(&owner->active);
    g_free(owner);
}

static void
gpu_owner_user_free(void *data)
{
    struct gpu_user *user = data;

    if (user)
        gpu_meter_clear(&user->meter);
    g_free(user);
}

void
gpu_ledger_init_owners(struct vg_gpu_ledger *ledger)
{
    ledger->engines = g_ptr_array_new_with_free_func(gpu_owner_engine_free);
    ledger->owners = g_ptr_array_new_with_free_func(gpu_owner_free);
    ledger->users = g_ptr_array_new_with_free_func(gpu_owner_user_free);
    ledger->vgpus = g_ptr_array_new_with_free_func(g_free);
    ledger->by_process = g_hash_table_new(NULL, NULL);
    ledger->by_user = g_hash_table_new(NULL, NULL);
    ledger->by_vgpu = g_hash_table_new(g_int64_hash, g_int64_equal);
    for (size_t i = 0; i < G_N_ELEMENTS(ledger->devices); i++)
        ledger->devices[i] = (struct gpu_device){.current = GPU_NO_INDEX};
    gpu_memory_init(ledger);
}

void
gpu_ledger_clear_owners(struct vg_gpu_ledger *ledger)
{
    g_ptr_array_unref(ledger->engines);
    g_ptr_array_unref(ledger->owners);
    g_ptr_array_unref(ledger->users);
    g_ptr_array_unref(ledger->vgpus);
    g_hash_table_unref(ledger->by_process);
    g_hash_table_unref(ledger->by_user);
    g_hash_table_unref(ledger->by_vgpu);
    gpu_memory_clear(ledger);
}

static uint64_t
gpu_owner_histogram_bytes(const struct vg_histogram *histogram)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < VG_HISTOGRAM_OCTAVES; i++)
        bytes += histogram->octaves[i] ? VG_HISTOGRAM_SUBS * sizeof(uint32_t) : 0;
    return bytes;
}

static uint64_t
gpu_owner_union_bytes(const struct gpu_union *set)
{
    return set->gaps ? GPU_UNION_GAPS * sizeof(*set->gaps) : 0;
}

static uint64_t
gpu_owner_meter_bytes(const struct gpu_meter *meter)
{
    return sizeof(*meter) + gpu_owner_histogram_bytes(&meter->latency) +
           gpu_owner_histogram_bytes(&meter->window_latency) + gpu_owner_union_bytes(&meter->busy);
}

uint64_t
gpu_ledger_owner_bytes(const struct vg_gpu_ledger *ledger)
{
    uint64_t bytes = ledger->vgpus->len * sizeof(struct gpu_vgpu) + gpu_memory_bytes(ledger);

    for (guint i = 0; i < ledger->owners->len; i++) {
        const struct gpu_owner *owner = gpu_owner_at(ledger, i);
        bytes += owner ? sizeof(*owner) + gpu_owner_union_bytes(&owner->active) : 0;
    }
    for (guint i = 0; i < ledger->engines->len; i++)
        bytes +=
            sizeof(struct gpu_engine) + gpu_owner_meter_bytes(&gpu_engine_at(ledger, i)->meter);
    for (guint i = 0; i < ledger->users->len; i++) {
        const struct gpu_user *user = gpu_user_at(ledger, i);
        bytes += user ? sizeof(*user) + gpu_owner_meter_bytes(&user->meter) : 0;
    }
    return bytes;
}

/* Finds the place for a new object: the first free one, or one more. by_key has an entry for each
 * place in use. Returns GPU_NO_INDEX if there is no space. */
static uint32_t
gpu_owner_free_slot(GPtrArray *array, GHashTable *by_key, guint max)
{
    guint taken = g_hash_table_size(by_key);

    if (taken >= max)
        return GPU_NO_INDEX;
    for (guint i = 0; taken < array->len; i++) {
        if (!g_ptr_array_index(array, i))
            return i;
    }
    g_ptr_array_add(array, NULL);
    return array->len - 1;
}

/* ---- engines ---- */

static uint32_t
gpu_owner_make_engine(struct vg_gpu_ledger *ledger, uint16_t name)
{
    if (ledger->engines->len >= VG_GPU_ENGINES_MAX)
        return GPU_NO_INDEX;
    struct gpu_engine *engine = g_new0(struct gpu_engine, 1);
    engine->name = name;
    engine->same_as = GPU_NO_INDEX;
    engine->is_nameless = gpu_ring_is_nameless(vg_names_text(ledger->names, name));
    ledger->n_nameless += engine->is_nameless;
    engine->last_end_ns = VG_TIME_UNKNOWN;
    gpu_queue_init(&engine->queue);
    engine->ring = (struct gpu_list){GPU_NO_INDEX, GPU_NO_INDEX};
    gpu_meter_init(&engine->meter);
    g_ptr_array_add(ledger->engines, engine);
    return ledger->engines->len - 1;
}

static bool
gpu_owner_is_engine(const struct gpu_engine *engine, uint16_t device, uint16_t name)
{
    return engine->name == name && engine->device == device && !engine->device_weak;
}

/* Finds or creates an engine. A record without a device, or with only the driver's name, means the
 * engine with that name on any device. An engine without a device gets that of the first record
 * that names it. */
static __attribute__((noinline)) uint32_t
gpu_owner_find_engine(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint16_t device,
                      bool may_make, uint32_t *hint)
{
    uint16_t name = event->gpu.engine;
    bool weak = device == VG_NAME_NONE || event->gpu.flags & VG_GPU_DEVICE_WEAK;
    struct gpu_engine *engine;
    uint32_t index = GPU_NO_INDEX;

    if (name == VG_NAME_NONE)
        return GPU_NO_INDEX;
    for (guint i = 0; i < ledger->engines->len; i++) {
        engine = gpu_engine_at(ledger, i);
        if (engine->name != name)
            continue;
        if (gpu_owner_is_engine(engine, device, name)) {
            *hint = i;
            return gpu_engine_real(ledger, i);
        }
        if (index == GPU_NO_INDEX &&
            (weak || engine->device == VG_NAME_NONE || engine->device_weak))
            index = i;
    }
    if (index == GPU_NO_INDEX && may_make)
        index = gpu_owner_make_engine(ledger, name);
    if (index == GPU_NO_INDEX)
        return index;
    engine = gpu_engine_at(ledger, index);
    if (device != VG_NAME_NONE && (engine->device == VG_NAME_NONE || !weak)) {
        engine->device = device;
        engine->device_weak = weak;
    }
    return gpu_engine_real(ledger, index);
}

uint32_t
gpu_ledger_engine(struct vg_gpu_ledger *ledger, const struct vg_event *event, bool may_make)
{
    uint16_t name = event->gpu.engine;
    uint16_t device = event->gpu.flags & VG_GPU_OF_FENCE ? VG_NAME_NONE : event->gpu.device;
    uint32_t *hint = &ledger->engine_hints[(name + device * 31U) % GPU_HINTS];

    if (*hint < ledger->engines->len &&
        gpu_owner_is_engine(gpu_engine_at(ledger, *hint), device, name))
        return gpu_engine_real(ledger, *hint);
    return gpu_owner_find_engine(ledger, event, device, may_make, hint);
}

/* ---- owners ---- */

static bool
gpu_owner_is(const struct gpu_owner *owner, uint32_t process)
{
    return owner && owner->process == process;
}

uint32_t
gpu_ledger_owner(struct vg_gpu_ledger *ledger, struct vg_process *process, const char *comm)
{
    uint32_t id = vg_topology_process_id(ledger->topology, process);
    uint32_t *hint = &ledger->owner_hints[id % GPU_HINTS];

    if (*hint < ledger->owners->len && gpu_owner_is(gpu_owner_at(ledger, *hint), id))
        return *hint;
    uint32_t known =
        GPOINTER_TO_UINT(g_hash_table_lookup(ledger->by_process, GUINT_TO_POINTER(id)));
    if (known > 0)
        return *hint = known - 1;
    uint32_t index = gpu_owner_free_slot(ledger->owners, ledger->by_process, VG_GPU_OWNERS_MAX);
    if (index == GPU_NO_INDEX) {
        ledger->stats.unattributed++;
        return index;
    }
    struct gpu_owner *owner = g_new0(struct gpu_owner, 1);
    owner->process = id;
    g_strlcpy(owner->comm, comm, sizeof(owner->comm));
    owner->active.until_ns = INT64_MIN;
    g_ptr_array_index(ledger->owners, index) = owner;
    g_hash_table_insert(ledger->by_process, GUINT_TO_POINTER(id), GUINT_TO_POINTER(index + 1));
    return index;
}

/* Returns the recording thread, or NULL for the idle task, the kernel, or an unknown thread. */
static const struct vg_thread *
gpu_owner_recording_thread(const struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    const struct vg_thread *thread =
        event->tid > 0 ? vg_topology_find(ledger->topology, event->tid) : NULL;

    return thread && thread->kind != VG_THREAD_KERNEL ? thread : NULL;
}

uint32_t
gpu_ledger_recorder(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    const struct vg_thread *thread = gpu_owner_recording_thread(ledger, event);

    return thread ? gpu_ledger_owner(ledger, vg_thread_process(thread), thread->comm)
                  : GPU_NO_INDEX;
}

/* ---- vGPUs ---- */

void
gpu_vgpu_advance(const struct vg_gpu_ledger *ledger, struct gpu_vgpu *vgpu, int64_t now_ns)
{
    const struct gpu_device *device = &ledger->devices[vgpu->device];
    bool has_gpu = device->current != GPU_NO_INDEX && gpu_vgpu_at(ledger, device->current) == vgpu;

    for (int i = 0; i < GPU_BOOKS && device->has_switches && !has_gpu && vgpu->waiting > 0; i++)
        vgpu->suspended_ns[i] += now_ns - vgpu->last_ns;
    vgpu->last_ns = now_ns;
}

static unsigned
gpu_owner_vgpu_hint(uint16_t device, int32_t number)
{
    return ((unsigned)number + device * 31U) % GPU_HINTS;
}

static bool
gpu_owner_is_vgpu(const struct gpu_vgpu *vgpu, uint16_t device, int32_t number)
{
    return vgpu && vgpu->number == number && vgpu->device == device;
}

static int64_t
gpu_owner_vgpu_key(uint16_t device, int32_t number)
{
    return (int64_t)device << 32 | (uint32_t)number;
}

static uint32_t
gpu_owner_vgpu_index(const struct vg_gpu_ledger *ledger, uint16_t device, int32_t number)
{
    uint32_t hint = ledger->vgpu_hints[gpu_owner_vgpu_hint(device, number)];

    if (hint < ledger->vgpus->len && gpu_owner_is_vgpu(gpu_vgpu_at(ledger, hint), device, number))
        return hint;
    const int64_t key = gpu_owner_vgpu_key(device, number);
    uint32_t known = GPOINTER_TO_UINT(g_hash_table_lookup(ledger->by_vgpu, &key));
    return known > 0 ? known - 1 : GPU_NO_INDEX;
}

struct gpu_vgpu *
gpu_ledger_find_vgpu(const struct vg_gpu_ledger *ledger, uint16_t device, int32_t number)
{
    uint32_t index = gpu_owner_vgpu_index(ledger, device, number);

    return index == GPU_NO_INDEX ? NULL : gpu_vgpu_at(ledger, index);
}

/* Creates a vGPU. It has an owner from the start: the reported VM or, until its VM is seen, one
 * that is named after it. */
static struct gpu_vgpu *
gpu_owner_make_vgpu(struct vg_gpu_ledger *ledger, uint16_t device, int32_t number, bool is_named)
{
    char name[VG_VM_NAME_MAX];

    if (gpu_ledger_has_all_owners(ledger)) {
        ledger->stats.unattributed++;
        return NULL;
    }
    uint32_t index = gpu_owner_free_slot(ledger->vgpus, ledger->by_vgpu, VG_GPU_VGPUS_MAX);
    if (index == GPU_NO_INDEX)
        return NULL;
    g_snprintf(name, sizeof(name), "vgpu-%d", number);
    for (guint i = 0; i < ledger->vgpus->len; i++) {
        const struct gpu_vgpu *other = gpu_vgpu_at(ledger, i);
        if (other && other->number == number)
            g_snprintf(name, sizeof(name), "%s:vgpu-%d", vg_names_text(ledger->names, device),
                       number);
    }
    struct vg_process *process = NULL;
    if (is_named) {
        g_strlcpy(name, vg_names_text(ledger->names, (uint16_t)number), sizeof(name));
        process = vg_topology_vm_named(ledger->topology, name);
    }
    if (!process)
        process = vg_topology_add_vm(ledger->topology, name);
    uint32_t owner = gpu_ledger_owner(ledger, process, "");
    struct gpu_vgpu *vgpu = g_new0(struct gpu_vgpu, 1);
    vgpu->device = device;
    vgpu->number = number;
    vgpu->owner = owner;
    vgpu->key = gpu_owner_vgpu_key(device, number);
    vgpu->last_ns = ledger->now;
    g_ptr_array_index(ledger->vgpus, index) = vgpu;
    g_hash_table_insert(ledger->by_vgpu, &vgpu->key, GUINT_TO_POINTER(index + 1));
    return vgpu;
}

/* The thread that queues work of a vGPU belongs to its VM. */
static void
gpu_owner_bind_vgpu(struct vg_gpu_ledger *ledger, struct gpu_vgpu *vgpu,
                    const struct vg_event *event)
{
    if (vgpu->bound || event->gpu.op != VG_GPU_QUEUED || event->gpu.flags & VG_GPU_OF_VM)
        return;
    const struct vg_thread *thread = gpu_owner_recording_thread(ledger, event);
    if (!thread)
        return;
    struct vg_process *process = vg_thread_process(thread);
    struct vg_process *stand_in =
        vg_topology_process_at(ledger->topology, gpu_owner_at(ledger, vgpu->owner)->process);
    vgpu->bound = true;
    vg_topology_make_vm(ledger->topology, process);
    if (stand_in)
        vg_topology_replace_vm(ledger->topology, stand_in, process);
    uint32_t owner = gpu_ledger_owner(ledger, process, thread->comm);
    if (owner != GPU_NO_INDEX)
        vgpu->owner = owner;
}

struct gpu_vgpu *
gpu_ledger_vgpu(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    uint32_t index = gpu_owner_vgpu_index(ledger, event->gpu.device, event->gpu.vgpu);
    struct gpu_vgpu *vgpu = index == GPU_NO_INDEX
                                ? gpu_owner_make_vgpu(ledger, event->gpu.device, event->gpu.vgpu,
                                                      event->gpu.flags & VG_GPU_OF_VM)
                                : gpu_vgpu_at(ledger, index);

    if (index != GPU_NO_INDEX)
        ledger->vgpu_hints[gpu_owner_vgpu_hint(event->gpu.device, event->gpu.vgpu)] = index;
    if (vgpu)
        gpu_owner_bind_vgpu(ledger, vgpu, event);
    return vgpu;
}

/* ---- users ---- */

static void *
gpu_owner_user_key(uint32_t owner, uint32_t engine)
{
    return GSIZE_TO_POINTER((size_t)owner * VG_GPU_ENGINES_MAX + engine);
}

static bool
gpu_owner_is_user(const struct gpu_user *user, uint32_t owner, uint32_t engine)
{
    return user && user->owner == owner && user->engine == engine;
}

uint32_t
gpu_ledger_user(struct vg_gpu_ledger *ledger, uint32_t owner, uint32_t engine)
{
    if (owner == GPU_NO_INDEX)
        return GPU_NO_INDEX;
    uint32_t *hint = &ledger->user_hints[(owner * 4 + engine) % GPU_HINTS];
    if (*hint < ledger->users->len && gpu_owner_is_user(gpu_user_at(ledger, *hint), owner, engine))
        return *hint;
    uint32_t known =
        GPOINTER_TO_UINT(g_hash_table_lookup(ledger->by_user, gpu_owner_user_key(owner, engine)));
    if (known > 0)
        return *hint = known - 1;
    uint32_t index = gpu_owner_free_slot(ledger->users, ledger->by_user, VG_GPU_USERS_MAX);
    if (index == GPU_NO_INDEX) {
        ledger->stats.unattributed++;
        return index;
    }
    struct gpu_user *user = g_new0(struct gpu_user, 1);
    user->owner = owner;
    user->engine = engine;
    user->open = (struct gpu_list){GPU_NO_INDEX, GPU_NO_INDEX};
    gpu_meter_init(&user->meter);
    g_ptr_array_index(ledger->users, index) = user;
    g_hash_table_insert(ledger->by_user, gpu_owner_user_key(owner, engine),
                        GUINT_TO_POINTER(index + 1));
    return index;
}

/* ---- switches ---- */

static void
gpu_owner_advance_vgpus(struct vg_gpu_ledger *ledger, uint16_t device)
{
    for (guint i = 0; i < ledger->vgpus->len; i++) {
        struct gpu_vgpu *vgpu = gpu_vgpu_at(ledger, i);
        if (vgpu && vgpu->device == device)
            gpu_vgpu_advance(ledger, vgpu, ledger->now);
    }
}

void
gpu_ledger_switch(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    struct gpu_device *device = &ledger->devices[event->gpu.device];

    gpu_owner_advance_vgpus(ledger, event->gpu.device);
    device->has_switches = true;
    struct gpu_vgpu *next = event->gpu.vgpu == VG_NONE ? NULL : gpu_ledger_vgpu(ledger, event);
    uint32_t index =
        next ? gpu_owner_vgpu_index(ledger, event->gpu.device, event->gpu.vgpu) : GPU_NO_INDEX;
    if (next && device->current != index)
        for (int i = 0; i < GPU_BOOKS; i++)
            next->slices[i]++;
    device->current = index;
}

/* ---- forgetting ---- */

static bool
gpu_owner_is_gone(const struct vg_gpu_ledger *ledger, uint32_t index)
{
    const struct gpu_owner *owner = gpu_owner_at(ledger, index);
    struct vg_process *process =
        owner ? vg_topology_process_at(ledger->topology, owner->process) : NULL;

    return owner && (!process || vg_process_resolve(process)->ended);
}

static void
gpu_owner_forget_users(struct vg_gpu_ledger *ledger, uint32_t owner)
{
    for (guint i = 0; i < ledger->users->len; i++) {
        struct gpu_user *user = gpu_user_at(ledger, i);
        if (!user || user->owner != owner)
            continue;
        while (user->open.first != GPU_NO_INDEX)
            gpu_life_drop(ledger, user->open.first);
        g_hash_table_remove(ledger->by_user, gpu_owner_user_key(owner, user->engine));
        gpu_owner_user_free(user);
        g_ptr_array_index(ledger->users, i) = NULL;
    }
}

static void
gpu_owner_forget_vgpus(struct vg_gpu_ledger *ledger, uint32_t owner)
{
    for (guint i = 0; i < ledger->vgpus->len; i++) {
        struct gpu_vgpu *vgpu = gpu_vgpu_at(ledger, i);
        if (!vgpu || vgpu->owner != owner)
            continue;
        if (ledger->devices[vgpu->device].current == i)
            ledger->devices[vgpu->device].current = GPU_NO_INDEX;
        g_hash_table_remove(ledger->by_vgpu, &vgpu->key);
        g_free(vgpu);
        g_ptr_array_index(ledger->vgpus, i) = NULL;
    }
}

static void
gpu_owner_forget_owner(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_owner *owner = gpu_owner_at(ledger, index);

    gpu_owner_forget_users(ledger, index);
    gpu_owner_forget_vgpus(ledger, index);
    for (uint32_t i = 0; i < ledger->requests.n_contexts; i++) {
        struct gpu_context *context = gpu_context_at(&ledger->requests, i);
        if (context->owner == index)
            context->owner = GPU_NO_INDEX;
    }
    gpu_memory_forget_owner(ledger, index);
    g_hash_table_remove(ledger->by_process, GUINT_TO_POINTER(owner->process));
    gpu_owner_free(owner);
    g_ptr_array_index(ledger->owners, index) = NULL;
}

void
gpu_ledger_forget(struct vg_gpu_ledger *ledger)
{
    for (guint i = 0; i < ledger->owners->len; i++) {
        if (gpu_owner_is_gone(ledger, i))
            gpu_owner_forget_owner(ledger, i);
    }
}
