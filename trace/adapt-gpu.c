/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/adapt-gpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/figures.h"

/* uabi_instance of an engine that represents several (I915_ENGINE_CLASS_INVALID_VIRTUAL, as 8 and
 * as 16 bits). The record of the run reports the actual one. */
#define VIRTUAL_INSTANCE_OLD 254
#define VIRTUAL_INSTANCE     65534

/* On 64-bit kernels, whose addresses are in the upper half. */
#define KERNEL_ADDRESS_DIGITS 16

void
vg_gpu_event_init(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
                  struct vg_event *event)
{
    char comm[VG_COMM_LEN];

    memset(&event->gpu, 0, sizeof(event->gpu));
    event->gpu.op = binding->adapter->gpu_op;
    event->gpu.flags = binding->adapter->gpu_flags;
    event->gpu.vgpu = VG_NONE;
    /* Later records of a request come from any thread that was interrupted. */
    if (event->gpu.op <= VG_GPU_SUBMITTED &&
        vg_binding_str(binding, VG_SLOT_CONTEXT_COMM, record, comm, sizeof(comm))) {
        comm[VG_COMM_LEN - 1] = '\0';
        event->gpu.comm = vg_names_spare_id(env->names, comm);
    }
}

/* Returns where the name of a number is stored, or NULL if it is not. */
static uint16_t *
remembered(uint16_t *numbers, int64_t number)
{
    return number >= 0 && number < VG_GPU_NUMBERS_MAX ? &numbers[number] : NULL;
}

static uint16_t
name_card(struct vg_adapt_env *env, int64_t number)
{
    uint16_t *known = remembered(env->gpu_numbers.cards, number);
    char name[VG_NAME_SIZE];

    if (known && *known)
        return *known;
    snprintf(name, sizeof(name), "card%d", (int)number);
    uint16_t id = vg_names_id(env->names, name);
    if (known)
        *known = id;
    return id;
}

void
vg_gpu_read_device(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
                   struct vg_event *event)
{
    char name[VG_NAME_SIZE];
    int64_t number;

    if (vg_binding_int(binding, VG_SLOT_DEVICE, record, &number))
        event->gpu.device = name_card(env, number);
    else if (vg_binding_str(binding, VG_SLOT_DEVICE, record, name, sizeof(name)))
        event->gpu.device = vg_names_id(env->names, name);
}

static void
name_engine(struct vg_adapt_env *env, int64_t class, int64_t instance, struct vg_event *event)
{
    /* I915_ENGINE_CLASS_*: render, copy, video, video enhance, compute. */
    static const char *const classes[] = {"rcs", "bcs", "vcs", "vecs", "ccs"};
    char name[VG_NAME_SIZE];

    if (instance == VIRTUAL_INSTANCE || instance == VIRTUAL_INSTANCE_OLD) {
        event->gpu.flags |= VG_GPU_ENGINE_WEAK;
        instance = 0;
    }
    uint16_t *known = class >= 0 && class < VG_GPU_NUMBERS_MAX
                          ? remembered(env->gpu_numbers.engines[class], instance)
                          : NULL;
    if (known && *known) {
        event->gpu.engine = *known;
        return;
    }
    if (class >= 0 && class < (int64_t)(sizeof(classes) / sizeof(classes[0])))
        snprintf(name, sizeof(name), "%s%d", classes[class], (int)instance);
    else
        snprintf(name, sizeof(name), "engine%d:%d", (int)class, (int)instance);
    event->gpu.engine = vg_names_id(env->names, name);
    if (known)
        *known = event->gpu.engine;
}

void
vg_gpu_name_ring(struct vg_adapt_env *env, int64_t ring, struct vg_event *event)
{
    /* enum intel_engine_id of kernels 4.x, followed by the engines that these did not have. */
    static const char *const rings[] = {"rcs0", "bcs0", "vcs0", "vcs1", "vecs0", "ccs0",
                                        "ccs1", "ccs2", "ccs3", "vcs2", "vcs3",  "vecs1"};
    uint16_t *known = remembered(env->gpu_numbers.rings, ring);
    char name[VG_NAME_SIZE];

    if (known && *known) {
        event->gpu.engine = *known;
        return;
    }
    if (ring >= 0 && ring < (int64_t)(sizeof(rings) / sizeof(rings[0])))
        snprintf(name, sizeof(name), "%s", rings[ring]);
    else
        snprintf(name, sizeof(name), "ring%d", (int)ring);
    event->gpu.engine = vg_names_id(env->names, name);
    if (known)
        *known = event->gpu.engine;
}

void
vg_gpu_read_i915_engine(const struct vg_binding *binding, struct vg_adapt_env *env,
                        const void *record, struct vg_event *event)
{
    int64_t class, instance, ring;
    char text[32];

    if (vg_binding_int(binding, VG_SLOT_ENGINE_CLASS, record, &class) &&
        vg_binding_int(binding, VG_SLOT_ENGINE_INSTANCE, record, &instance)) {
        name_engine(env, class, instance, event);
    } else if (vg_binding_int(binding, VG_SLOT_RING, record, &ring)) {
        vg_gpu_name_ring(env, ring, event);
    } else if (vg_binding_str(binding, VG_SLOT_ENGINE, record, text, sizeof(text))) {
        int c, i;
        if (sscanf(text, "%9d:%9d", &c, &i) == 2)
            name_engine(env, c, i, event);
    }
}

/* trace-cmd and perf print the address of a name without 0x, unless they cannot format the event.
 */
static uint64_t
address_in(const char *text)
{
    if (strncmp(text, "0x", 2) == 0)
        text += 2;
    size_t digits = strspn(text, "0123456789abcdef");

    return digits == KERNEL_ADDRESS_DIGITS && !text[digits] ? strtoull(text, NULL, 16) : 0;
}

/* Returns the ring whose name has this address, or VG_NAME_NONE if unknown. */
static uint16_t
gpu_ring_name(const struct vg_adapt_env *env, uint64_t address)
{
    for (uint32_t i = 0; i < env->rings.n_known; i++) {
        if (env->rings.known[i].address == address)
            return env->rings.known[i].name;
    }
    return VG_NAME_NONE;
}

bool
vg_gpu_read_engine_name(const struct vg_binding *binding, struct vg_adapt_env *env,
                        enum vg_slot slot, const void *record, struct vg_event *event,
                        uint64_t *ret_address)
{
    char name[VG_NAME_SIZE];
    int64_t number;
    uint64_t address = 0;

    if (vg_binding_str(binding, slot, record, name, sizeof(name)))
        address = address_in(name);
    else if (vg_binding_int(binding, slot, record, &number) && number != 0)
        address = (uint64_t)number;
    else
        return false;
    if (ret_address)
        *ret_address = address;
    event->gpu.engine = address ? gpu_ring_name(env, address) : vg_names_id(env->names, name);
    if (event->gpu.engine == VG_NAME_NONE) {
        snprintf(name, sizeof(name), "%" PRIx64, address);
        event->gpu.engine = vg_names_id(env->names, name);
    }
    return true;
}

void
vg_gpu_learn_ring(struct vg_adapt_env *env, uint64_t address, uint16_t name)
{
    struct vg_ring_names *rings = &env->rings;

    if (address == 0 || rings->n_known == VG_RINGS_MAX ||
        gpu_ring_name(env, address) != VG_NAME_NONE)
        return;
    rings->known[rings->n_known].address = address;
    rings->known[rings->n_known++].name = name;
}

void
vg_gpu_read_seqno(const struct vg_binding *binding, const void *record, struct vg_event *event)
{
    int64_t context, seqno;

    if (vg_binding_int(binding, VG_SLOT_FENCE_CONTEXT, record, &context) &&
        vg_binding_int(binding, VG_SLOT_SEQNO, record, &seqno)) {
        event->gpu.context = (uint64_t)context;
        event->gpu.seqno = (uint64_t)seqno;
    }
}

uint64_t
vg_gpu_read_address(const struct vg_binding *binding, enum vg_slot slot, const void *record)
{
    char text[48];
    int64_t number;

    /* Try text first: without 0x, some addresses look like decimal numbers. */
    if (vg_binding_str(binding, slot, record, text, sizeof(text)))
        return strtoull(text, NULL, 16);
    return vg_binding_int(binding, slot, record, &number) ? (uint64_t)number : 0;
}

void
vg_gpu_read_fence(const struct vg_binding *binding, const void *record, struct vg_event *event)
{
    unsigned long long context, seqno;
    char text[64];

    if (vg_binding_str(binding, VG_SLOT_FENCE, record, text, sizeof(text)) &&
        (sscanf(text, "%20llu:%20llu", &context, &seqno) == 2 ||
         sscanf(text, "(context:%20llu, seqno:%20llu)", &context, &seqno) == 2)) {
        event->gpu.context = context;
        event->gpu.seqno = seqno;
        return;
    }
    event->gpu.fence = vg_gpu_read_address(binding, VG_SLOT_FENCE, record);
}

const struct vg_adapter_need vg_adapt_gpu_needs[] = {
    {.event = "the end of a request (dma_fence_signaled, i915_request_out; see vgpuctl-traces(5))",
     .types = VG_SEEN_GPU(VG_GPU_DONE) | VG_SEEN_GPU(VG_GPU_RETIRED),
     .lack = VG_CPU_NO_GPU_ENDS,
     .with = VG_SEEN_GPU(VG_GPU_QUEUED) | VG_SEEN_GPU(VG_GPU_SUBMITTED) |
             VG_SEEN_GPU(VG_GPU_READY) | VG_SEEN_GPU(VG_GPU_RUNNING),
     .beside = "GPU activity",
     .only_with = true},
    {0},
};
