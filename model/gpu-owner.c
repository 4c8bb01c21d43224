/* SPDX-License-Identifier: Apache-2.0
 *
 * Who uses the GPUs: engines, vGPUs, the VMs and processes behind them, and their memory.
 */
#include "config.h"

#include "model/gpu-ledger-private.h"

/* A memory object: its key and whose it is. */
struct gpu_object {
    uint64_t id;
    uint16_t device;
    uint32_t holding; /* of ledger->holdings */
    int64_t bytes;
};

static unsigned int
object_hash(const void *data)
{
    const struct gpu_object *object = data;

    return (unsigned int)((object->id ^ object->device) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static int
object_equal(const void *a, const void *b)
{
    const struct gpu_object *x = a, *y = b;

    return x->id == y->id && x->device == y->device;
}

static void
engine_free(void *data)
{
    struct gpu_engine *engine = data;

    gpu_meter_clear(&engine->meter);
    g_free(engine);
}

static void
user_free(void *data)
{
    struct gpu_user *user = data;

    if (user)
        gpu_meter_clear(&user->meter);
    g_free(user);
}

void
gpu_ledger_init_owners(struct vg_gpu_ledger *ledger)
{
    ledger->engines = g_ptr_array_new_with_free_func(engine_free);
    ledger->owners = g_ptr_array_new_with_free_func(g_free);
    ledger->users = g_ptr_array_new_with_free_func(user_free);
    ledger->vgpus = g_ptr_array_new_with_free_func(g_free);
    ledger->by_process = g_hash_table_new(NULL, NULL);
    ledger->by_user = g_hash_table_new(NULL, NULL);
    ledger->by_vgpu = g_hash_table_new(g_int64_hash, g_int64_equal);
    ledger->objects = g_hash_table_new_full(object_hash, object_equal, g_free, NULL);
    ledger->holdings = g_array_new(FALSE, TRUE, sizeof(struct gpu_holding));
    for (size_t i = 0; i < G_N_ELEMENTS(ledger->devices); i++)
        ledger->devices[i] =
            (struct gpu_device){.current = GPU_NO_INDEX, .last_context = GPU_NO_INDEX};
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
    g_hash_table_unref(ledger->objects);
    g_array_unref(ledger->holdings);
}

static uint64_t
histogram_bytes(const struct vg_histogram *histogram)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < VG_HISTOGRAM_OCTAVES; i++)
        bytes += histogram->octaves[i] ? VG_HISTOGRAM_SUBS * sizeof(uint32_t) : 0;
    return bytes;
}

static uint64_t
meter_bytes(const struct gpu_meter *meter)
{
    return sizeof(*meter) + histogram_bytes(&meter->latency) +
           histogram_bytes(&meter->window_latency);
}

uint64_t
gpu_ledger_owner_bytes(const struct vg_gpu_ledger *ledger)
{
    uint64_t bytes = ledger->owners->len * sizeof(struct gpu_owner) +
                     ledger->vgpus->len * sizeof(struct gpu_vgpu) +
                     ledger->holdings->len * sizeof(struct gpu_holding) +
                     /* An object, and its share of the hash table. */
                     g_hash_table_size(ledger->objects) * (sizeof(struct gpu_object) + 48);

    for (guint i = 0; i < ledger->engines->len; i++)
        bytes += sizeof(struct gpu_engine) + meter_bytes(&gpu_engine_at(ledger, i)->meter);
    for (guint i = 0; i < ledger->users->len; i++) {
        const struct gpu_user *user = gpu_user_at(ledger, i);
        bytes += user ? sizeof(*user) + meter_bytes(&user->meter) : 0;
    }
    return bytes;
}

/* Where something new goes: the first free place, or one more; GPU_NO_INDEX: there is no room.
 * by_key has an entry for each place that is taken. */
static uint32_t
free_slot(GPtrArray *array, GHashTable *by_key, guint max)
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
make_engine(struct vg_gpu_ledger *ledger, uint16_t name)
{
    if (ledger->engines->len >= VG_GPU_ENGINES_MAX)
        return GPU_NO_INDEX;
    struct gpu_engine *engine = g_new0(struct gpu_engine, 1);
    engine->name = name;
    engine->last_end_ns = engine->last_off_ns = VG_TIME_UNKNOWN;
    engine->workload = engine->held = GPU_NO_INDEX;
    gpu_meter_init(&engine->meter, ledger->now);
    g_ptr_array_add(ledger->engines, engine);
    return ledger->engines->len - 1;
}

static bool
is_engine(const struct gpu_engine *engine, uint16_t device, uint16_t name)
{
    return engine->name == name && engine->device == device && !engine->device_weak;
}

/* A record that does not name the device, or only its driver, means the engine of that name,
 * whatever its device; an engine without one gets that of the first record that names it. */
static G_NO_INLINE uint32_t
find_engine(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint16_t device,
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
        if (is_engine(engine, device, name)) {
            *hint = i;
            return i;
        }
        if (index == GPU_NO_INDEX &&
            (weak || engine->device == VG_NAME_NONE || engine->device_weak))
            index = i;
    }
    if (index == GPU_NO_INDEX && may_make)
        index = make_engine(ledger, name);
    if (index == GPU_NO_INDEX)
        return index;
    engine = gpu_engine_at(ledger, index);
    if (device != VG_NAME_NONE && (engine->device == VG_NAME_NONE || !weak)) {
        engine->device = device;
        engine->device_weak = weak;
    }
    return index;
}

uint32_t
gpu_ledger_engine(struct vg_gpu_ledger *ledger, const struct vg_event *event, bool may_make)
{
    uint16_t name = event->gpu.engine;
    uint16_t device = event->gpu.flags & VG_GPU_OF_FENCE ? VG_NAME_NONE : event->gpu.device;
    uint32_t *hint = &ledger->engine_hints[(name + device * 31U) % GPU_HINTS];

    if (*hint < ledger->engines->len && is_engine(gpu_engine_at(ledger, *hint), device, name))
        return *hint;
    return find_engine(ledger, event, device, may_make, hint);
}

/* ---- owners ---- */

void
gpu_owner_advance(struct gpu_owner *owner, int64_t now_ns)
{
    owner->active_ns += owner->open > 0 ? now_ns - owner->last_ns : 0;
    owner->last_ns = now_ns;
}

static bool
is_owner(const struct gpu_owner *owner, uint32_t process)
{
    return owner && owner->process == process;
}

static uint32_t
need_owner(struct vg_gpu_ledger *ledger, struct vg_process *process, const char *comm)
{
    uint32_t id = vg_topology_process_id(ledger->topology, process);
    uint32_t *hint = &ledger->owner_hints[id % GPU_HINTS];

    if (*hint < ledger->owners->len && is_owner(gpu_owner_at(ledger, *hint), id))
        return *hint;
    uint32_t known =
        GPOINTER_TO_UINT(g_hash_table_lookup(ledger->by_process, GUINT_TO_POINTER(id)));
    if (known > 0)
        return *hint = known - 1;
    uint32_t index = free_slot(ledger->owners, ledger->by_process, VG_GPU_OWNERS_MAX);
    if (index == GPU_NO_INDEX) {
        ledger->stats.unattributed++;
        return index;
    }
    struct gpu_owner *owner = g_new0(struct gpu_owner, 1);
    owner->process = id;
    g_strlcpy(owner->comm, comm, sizeof(owner->comm));
    owner->last_ns = ledger->now;
    g_ptr_array_index(ledger->owners, index) = owner;
    g_hash_table_insert(ledger->by_process, GUINT_TO_POINTER(id), GUINT_TO_POINTER(index + 1));
    return index;
}

/* The recording thread; NULL: the idle task, the kernel, or not told. */
static const struct vg_thread *
recording_thread(const struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    const struct vg_thread *thread =
        event->tid > 0 ? vg_topology_find(ledger->topology, event->tid) : NULL;

    return thread && thread->kind != VG_THREAD_KERNEL ? thread : NULL;
}

uint32_t
gpu_ledger_recorder(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    const struct vg_thread *thread = recording_thread(ledger, event);

    return thread ? need_owner(ledger, vg_thread_process(thread), thread->comm) : GPU_NO_INDEX;
}

/* ---- vGPUs ---- */

void
gpu_vgpu_advance(const struct vg_gpu_ledger *ledger, struct gpu_vgpu *vgpu, int64_t now_ns)
{
    const struct gpu_device *device = &ledger->devices[vgpu->device];
    bool has_gpu = device->current != GPU_NO_INDEX && gpu_vgpu_at(ledger, device->current) == vgpu;

    if (device->has_switches && !has_gpu && vgpu->waiting > 0)
        vgpu->suspended_ns += now_ns - vgpu->last_ns;
    vgpu->last_ns = now_ns;
}

static unsigned
vgpu_hint(uint16_t device, int32_t number)
{
    return ((unsigned)number + device * 31U) % GPU_HINTS;
}

static bool
is_vgpu(const struct gpu_vgpu *vgpu, uint16_t device, int32_t number)
{
    return vgpu && vgpu->number == number && vgpu->device == device;
}

static int64_t
vgpu_key(uint16_t device, int32_t number)
{
    return (int64_t)device << 32 | (uint32_t)number;
}

static uint32_t
vgpu_index(const struct vg_gpu_ledger *ledger, uint16_t device, int32_t number)
{
    uint32_t hint = ledger->vgpu_hints[vgpu_hint(device, number)];

    if (hint < ledger->vgpus->len && is_vgpu(gpu_vgpu_at(ledger, hint), device, number))
        return hint;
    const int64_t key = vgpu_key(device, number);
    uint32_t known = GPOINTER_TO_UINT(g_hash_table_lookup(ledger->by_vgpu, &key));
    return known > 0 ? known - 1 : GPU_NO_INDEX;
}

struct gpu_vgpu *
gpu_ledger_find_vgpu(const struct vg_gpu_ledger *ledger, uint16_t device, int32_t number)
{
    uint32_t index = vgpu_index(ledger, device, number);

    return index == GPU_NO_INDEX ? NULL : gpu_vgpu_at(ledger, index);
}

/* A vGPU is somebody's from the start: until its VM is seen, of a VM that is named after it. */
static struct gpu_vgpu *
make_vgpu(struct vg_gpu_ledger *ledger, uint16_t device, int32_t number)
{
    char name[VG_VM_NAME_MAX];

    if (gpu_ledger_has_all_owners(ledger)) {
        ledger->stats.unattributed++;
        return NULL;
    }
    uint32_t index = free_slot(ledger->vgpus, ledger->by_vgpu, VG_GPU_VGPUS_MAX);
    if (index == GPU_NO_INDEX)
        return NULL;
    g_snprintf(name, sizeof(name), "vgpu-%d", number);
    for (guint i = 0; i < ledger->vgpus->len; i++) {
        const struct gpu_vgpu *other = gpu_vgpu_at(ledger, i);
        if (other && other->number == number)
            g_snprintf(name, sizeof(name), "%s:vgpu-%d", vg_names_text(ledger->names, device),
                       number);
    }
    uint32_t owner = need_owner(ledger, vg_topology_add_vm(ledger->topology, name), "");
    struct gpu_vgpu *vgpu = g_new0(struct gpu_vgpu, 1);
    vgpu->device = device;
    vgpu->number = number;
    vgpu->owner = owner;
    vgpu->key = vgpu_key(device, number);
    vgpu->last_ns = ledger->now;
    g_ptr_array_index(ledger->vgpus, index) = vgpu;
    g_hash_table_insert(ledger->by_vgpu, &vgpu->key, GUINT_TO_POINTER(index + 1));
    return vgpu;
}

/* The thread that queues work of a vGPU is of its VM. */
static void
bind_vgpu(struct vg_gpu_ledger *ledger, struct gpu_vgpu *vgpu, const struct vg_event *event)
{
    if (vgpu->bound || event->gpu.op != VG_GPU_QUEUED)
        return;
    const struct vg_thread *thread = recording_thread(ledger, event);
    if (!thread)
        return;
    struct vg_process *process = vg_thread_process(thread);
    struct vg_process *stand_in =
        vg_topology_process_at(ledger->topology, gpu_owner_at(ledger, vgpu->owner)->process);
    vgpu->bound = true;
    vg_topology_make_vm(ledger->topology, process);
    if (stand_in)
        vg_topology_replace_vm(ledger->topology, stand_in, process);
    uint32_t owner = need_owner(ledger, process, thread->comm);
    if (owner != GPU_NO_INDEX)
        vgpu->owner = owner;
}

struct gpu_vgpu *
gpu_ledger_vgpu(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    uint32_t index = vgpu_index(ledger, event->gpu.device, event->gpu.vgpu);
    struct gpu_vgpu *vgpu = index == GPU_NO_INDEX
                                ? make_vgpu(ledger, event->gpu.device, event->gpu.vgpu)
                                : gpu_vgpu_at(ledger, index);

    if (index != GPU_NO_INDEX)
        ledger->vgpu_hints[vgpu_hint(event->gpu.device, event->gpu.vgpu)] = index;
    if (vgpu)
        bind_vgpu(ledger, vgpu, event);
    return vgpu;
}

/* ---- users ---- */

static void *
user_key(uint32_t owner, uint32_t engine)
{
    return GSIZE_TO_POINTER((size_t)owner * VG_GPU_ENGINES_MAX + engine);
}

static bool
is_user(const struct gpu_user *user, uint32_t owner, uint32_t engine)
{
    return user && user->owner == owner && user->engine == engine;
}

uint32_t
gpu_ledger_user(struct vg_gpu_ledger *ledger, uint32_t owner, uint32_t engine)
{
    if (owner == GPU_NO_INDEX)
        return GPU_NO_INDEX;
    uint32_t *hint = &ledger->user_hints[(owner * 4 + engine) % GPU_HINTS];
    if (*hint < ledger->users->len && is_user(gpu_user_at(ledger, *hint), owner, engine))
        return *hint;
    uint32_t known =
        GPOINTER_TO_UINT(g_hash_table_lookup(ledger->by_user, user_key(owner, engine)));
    if (known > 0)
        return *hint = known - 1;
    uint32_t index = free_slot(ledger->users, ledger->by_user, VG_GPU_USERS_MAX);
    if (index == GPU_NO_INDEX) {
        ledger->stats.unattributed++;
        return index;
    }
    struct gpu_user *user = g_new0(struct gpu_user, 1);
    user->owner = owner;
    user->engine = engine;
    user->open = (struct gpu_list){GPU_NO_INDEX, GPU_NO_INDEX};
    user->last.queued_ns = user->before.queued_ns = user->last_end_ns = VG_TIME_UNKNOWN;
    gpu_meter_init(&user->meter, ledger->now);
    g_ptr_array_index(ledger->users, index) = user;
    g_hash_table_insert(ledger->by_user, user_key(owner, engine), GUINT_TO_POINTER(index + 1));
    return index;
}

/* ---- switches ---- */

static void
advance_vgpus(struct vg_gpu_ledger *ledger, uint16_t device)
{
    for (guint i = 0; i < ledger->vgpus->len; i++) {
        struct gpu_vgpu *vgpu = gpu_vgpu_at(ledger, i);
        if (vgpu && vgpu->device == device)
            gpu_vgpu_advance(ledger, vgpu, ledger->now);
    }
}

/* What was done last, for a vGPU that nobody named, was for the one that is told now. */
static void
interrupt(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    struct gpu_device *device = &ledger->devices[event->gpu.device];

    if (device->last_context == GPU_NO_INDEX)
        return;
    struct gpu_context *context = gpu_context_at(&ledger->requests, device->last_context);
    /* Its place may be another context's by now. */
    bool is_it = context->in_use && context->number == device->last_number;
    if (is_it && context->of_gvt && context->vgpu == VG_NONE) {
        const struct gpu_vgpu *vgpu = gpu_ledger_vgpu(ledger, event);
        context->vgpu = event->gpu.vgpu;
        context->owner = vgpu ? vgpu->owner : GPU_NO_INDEX;
    }
    device->last_context = GPU_NO_INDEX;
}

void
gpu_ledger_switch(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    struct gpu_device *device = &ledger->devices[event->gpu.device];

    if (event->gpu.op == VG_GPU_INTERRUPT) {
        if (event->gpu.vgpu != VG_NONE)
            interrupt(ledger, event);
        return;
    }
    advance_vgpus(ledger, event->gpu.device);
    device->has_switches = true;
    struct gpu_vgpu *next = event->gpu.vgpu == VG_NONE ? NULL : gpu_ledger_vgpu(ledger, event);
    uint32_t index = next ? vgpu_index(ledger, event->gpu.device, event->gpu.vgpu) : GPU_NO_INDEX;
    if (next && device->current != index)
        next->slices++;
    device->current = index;
}

/* ---- memory ---- */

static uint32_t
need_holding(struct vg_gpu_ledger *ledger, uint32_t owner, uint16_t device)
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
hold(struct vg_gpu_ledger *ledger, uint32_t index, int64_t bytes)
{
    struct gpu_holding *holding = &g_array_index(ledger->holdings, struct gpu_holding, index);

    holding->bytes = CLAMP(bytes, 0, VG_TIME_MAX);
    holding->peak = MAX(holding->peak, holding->bytes);
}

static int64_t
held(const struct vg_gpu_ledger *ledger, uint32_t index)
{
    return g_array_index(ledger->holdings, struct gpu_holding, index).bytes;
}

/* bytes of an object, as far as they can be true. */
static int64_t
object_bytes(const struct vg_event *event)
{
    return (int64_t)MIN(event->gpu.fence, (uint64_t)INT64_C(1) << 50);
}

static void
free_object(struct vg_gpu_ledger *ledger, const struct gpu_object *key)
{
    const struct gpu_object *object = g_hash_table_lookup(ledger->objects, key);

    if (!object)
        return;
    hold(ledger, object->holding, held(ledger, object->holding) - object->bytes);
    g_hash_table_remove(ledger->objects, object);
}

static void
make_object(struct vg_gpu_ledger *ledger, const struct gpu_object *key, uint32_t holding,
            int64_t bytes)
{
    free_object(ledger, key);
    if (g_hash_table_size(ledger->objects) >= VG_GPU_OBJECTS_MAX) {
        ledger->stats.dropped++;
        return;
    }
    struct gpu_object *object = g_new0(struct gpu_object, 1);
    *object = *key;
    object->holding = holding;
    object->bytes = bytes;
    g_hash_table_add(ledger->objects, object);
    hold(ledger, holding, held(ledger, holding) + bytes);
}

/* The owner of memory whose process the record names. */
static uint32_t
holder(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    int32_t pid = (int32_t)event->gpu.id;

    if (event->gpu.id_space != VG_GPU_ID_PROCESS ||
        (!vg_topology_find(ledger->topology, pid) && gpu_ledger_has_all_owners(ledger)))
        return GPU_NO_INDEX;
    struct vg_thread *thread = vg_topology_thread(ledger->topology, pid);
    vg_topology_set_process(ledger->topology, thread, pid);
    return need_owner(ledger, vg_thread_process(thread), thread->comm);
}

void
gpu_ledger_memory(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    const struct gpu_object key = {.id = event->gpu.id, .device = event->gpu.device};

    if (event->gpu.op == VG_GPU_MEMORY_FREED) {
        free_object(ledger, &key);
        return;
    }
    uint32_t owner = event->gpu.op == VG_GPU_MEMORY_TOTAL ? holder(ledger, event)
                                                          : gpu_ledger_recorder(ledger, event);
    uint32_t holding =
        owner == GPU_NO_INDEX ? owner : need_holding(ledger, owner, event->gpu.device);
    if (holding == GPU_NO_INDEX)
        return;
    if (event->gpu.op == VG_GPU_MEMORY_TOTAL)
        hold(ledger, holding, object_bytes(event));
    else
        make_object(ledger, &key, holding, object_bytes(event));
}

/* ---- forgetting ---- */

static bool
is_gone(const struct vg_gpu_ledger *ledger, uint32_t index)
{
    const struct gpu_owner *owner = gpu_owner_at(ledger, index);
    struct vg_process *process =
        owner ? vg_topology_process_at(ledger->topology, owner->process) : NULL;

    return owner && (!process || vg_process_resolve(process)->ended);
}

static void
forget_users(struct vg_gpu_ledger *ledger, uint32_t owner)
{
    for (guint i = 0; i < ledger->users->len; i++) {
        struct gpu_user *user = gpu_user_at(ledger, i);
        if (!user || user->owner != owner)
            continue;
        while (user->open.first != GPU_NO_INDEX)
            gpu_life_drop(ledger, user->open.first);
        g_hash_table_remove(ledger->by_user, user_key(owner, user->engine));
        user_free(user);
        g_ptr_array_index(ledger->users, i) = NULL;
    }
}

static void
forget_vgpus(struct vg_gpu_ledger *ledger, uint32_t owner)
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
forget_owner(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_owner *owner = gpu_owner_at(ledger, index);

    forget_users(ledger, index);
    forget_vgpus(ledger, index);
    for (uint32_t i = 0; i < ledger->requests.n_contexts; i++) {
        struct gpu_context *context = gpu_context_at(&ledger->requests, i);
        if (context->owner == index)
            context->owner = GPU_NO_INDEX;
    }
    for (guint i = ledger->holdings->len; i > 0; i--) {
        struct gpu_holding *holding = &g_array_index(ledger->holdings, struct gpu_holding, i - 1);
        if (holding->owner == index)
            *holding = (struct gpu_holding){.owner = GPU_NO_INDEX};
    }
    g_hash_table_remove(ledger->by_process, GUINT_TO_POINTER(owner->process));
    g_free(owner);
    g_ptr_array_index(ledger->owners, index) = NULL;
}

void
gpu_ledger_forget(struct vg_gpu_ledger *ledger)
{
    for (guint i = 0; i < ledger->owners->len; i++) {
        if (is_gone(ledger, i))
            forget_owner(ledger, i);
    }
}
