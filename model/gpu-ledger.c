/* SPDX-License-Identifier: Apache-2.0
 *
 * What a record does to its request, which is found or made for it. What is counted of requests is
 * in model/gpu-life.c.
 */
#include "config.h"

#include <string.h>

#include "model/gpu-ledger-private.h"

/* Comm of the threads with which GVT-g submits ("gvt workload 0", "gvt:rcs0"). */
#define GVT_COMM "gvt"

/* Requests of a vGPU that are looked at for the one that is submitted: those before it in its queue
 * are on the engine. */
#define ADOPT_LOOKS_MAX 64

/* So many seqnos before that of an interrupt may still be open: i915's rings have room for fewer
 * requests. */
#define GLOBALS_PER_END 1024

vg_gpu_ledger *
vg_gpu_ledger_new(vg_topology *topology, const vg_names *names)
{
    vg_gpu_ledger *ledger = g_new0(vg_gpu_ledger, 1);

    ledger->topology = topology;
    ledger->names = names;
    gpu_requests_init(&ledger->requests, VG_GPU_OPEN_REQUESTS_MAX, VG_GPU_CONTEXTS_MAX);
    gpu_ledger_init_owners(ledger);
    return ledger;
}

void
vg_gpu_ledger_free(vg_gpu_ledger *ledger)
{
    if (!ledger)
        return;
    vg_gpu_ledger_keep_requests(ledger, false);
    gpu_ledger_clear_owners(ledger);
    gpu_requests_clear(&ledger->requests);
    g_free(ledger);
}

void
vg_gpu_ledger_windows_only(vg_gpu_ledger *ledger, bool windows_only)
{
    ledger->windows_only = windows_only;
}

void
vg_gpu_ledger_keep_requests(vg_gpu_ledger *ledger, bool keep)
{
    g_clear_pointer(&ledger->ended, g_array_unref);
    ledger->ended_every = 1;
    if (keep)
        ledger->ended = g_array_new(FALSE, FALSE, sizeof(struct gpu_ended));
}

void
vg_gpu_ledger_watch(vg_gpu_ledger *ledger, vg_gpu_life_fn *fn, void *data)
{
    ledger->watch = fn;
    ledger->watch_data = data;
}

void
vg_gpu_ledger_give_up(vg_gpu_ledger *ledger, int64_t t_ns)
{
    uint32_t index = ledger->requests.age.first, next;

    for (; index != GPU_NO_INDEX; index = next) {
        const struct gpu_request *request = gpu_request_at(&ledger->requests, index);
        next = request->lists[GPU_LIST_AGE].next;
        if (request->state_ns <= t_ns)
            gpu_life_drop(ledger, index);
    }
}

/* ---- contexts ---- */

static void
make_room_for_context(struct vg_gpu_ledger *ledger)
{
    struct gpu_requests *all = &ledger->requests;

    if (!gpu_contexts_are_full(all))
        return;
    uint32_t oldest = all->oldest_context;
    const struct gpu_context *context = gpu_context_at(all, oldest);
    while (context->open.first != GPU_NO_INDEX)
        gpu_life_drop(ledger, context->open.first);
    gpu_context_free(all, oldest);
    ledger->stats.dropped++;
}

static uint32_t
need_context(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    uint32_t index = gpu_context_find(&ledger->requests, event->gpu.context, gpu_sure_device(event),
                                      gpu_context_engine(event, engine));

    if (index != GPU_NO_INDEX)
        return index;
    make_room_for_context(ledger);
    return gpu_context_new(&ledger->requests, event->gpu.context, gpu_sure_device(event),
                           gpu_context_engine(event, engine));
}

/* The record's context, if any request of it is done; else NULL. */
static const struct gpu_context *
context_with_past(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    if (event->gpu.context == 0)
        return NULL;
    uint32_t index = gpu_context_find(&ledger->requests, event->gpu.context, gpu_sure_device(event),
                                      gpu_context_engine(event, engine));
    if (index == GPU_NO_INDEX)
        return NULL;
    const struct gpu_context *context = gpu_context_at(&ledger->requests, index);
    return context->any_done ? context : NULL;
}

/* Records may come a little late: this one is of a request that is over. */
static bool
is_of_the_past(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    const struct gpu_context *context = context_with_past(ledger, event, engine);

    return context && !gpu_seqno_is_before(context->last_done, event->gpu.seqno);
}

/* A context may begin anew; but GVT-g may say what was submitted after the driver has said that it
 * is done. */
static bool
comes_too_late(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    if (event->gpu.op >= VG_GPU_READY)
        return is_of_the_past(ledger, event, engine);
    if (event->gpu.op != VG_GPU_SUBMITTED || event->gpu.id_space != VG_GPU_ID_WORKLOAD)
        return false;
    const struct gpu_context *context = context_with_past(ledger, event, engine);
    return context && context->last_done == event->gpu.seqno;
}

/* ---- workloads of vGPUs ---- */

/* The oldest workload of the vGPU among the user's of which nobody has told that it was submitted:
 * GVT-g takes them in order. */
static uint32_t
next_workload(const struct vg_gpu_ledger *ledger, uint32_t user, int32_t vgpu)
{
    uint32_t index = user == GPU_NO_INDEX ? user : gpu_user_at(ledger, user)->open.first;

    for (int looks = 0; index != GPU_NO_INDEX && looks < ADOPT_LOOKS_MAX; looks++) {
        const struct gpu_request *request = gpu_request_at(&ledger->requests, index);
        if (request->id_space == VG_GPU_ID_WORKLOAD && request->vgpu == vgpu &&
            request->context == GPU_NO_INDEX)
            return index;
        index = request->lists[GPU_LIST_USER].next;
    }
    return GPU_NO_INDEX;
}

/* The request's user was not known so far, as it was not told to be which workload. */
static void
become_workload(struct vg_gpu_ledger *ledger, uint32_t index, int32_t vgpu)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    uint32_t other = next_workload(ledger, request->user, vgpu);

    if (other == GPU_NO_INDEX || request->id_space != VG_GPU_ID_NONE ||
        request->queued_ns == VG_TIME_UNKNOWN || request->queued_ns != request->submitted_ns ||
        request->user_ns != VG_TIME_UNKNOWN || request->run_ns != VG_TIME_UNKNOWN ||
        !gpu_is_waiting(request))
        return;
    const struct gpu_request workload = *gpu_request_at(&ledger->requests, other);
    if (workload.state != GPU_STATE_QUEUED || workload.queued_ns > request->submitted_ns ||
        workload.device != request->device || workload.engine != request->engine)
        return;
    gpu_life_undo(ledger, other);
    gpu_life_set_vgpu(ledger, request, workload.vgpu);
    gpu_request_set_id(&ledger->requests, index, workload.id_space, workload.id);
    gpu_life_queued_before(ledger, request, workload.queued_ns);
    request->adopted = true;
}

/* ---- who it is for ---- */

static bool
is_by_gvt(const struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    const struct vg_thread *thread =
        event->tid > 0 ? vg_topology_find(ledger->topology, event->tid) : NULL;

    return thread && strncmp(thread->comm, GVT_COMM, strlen(GVT_COMM)) == 0;
}

/* A context belongs to whoever is first known to use it. */
static void
learn_context(struct vg_gpu_ledger *ledger, struct gpu_context *context,
              const struct vg_event *event, uint32_t owner)
{
    if (event->gpu.vgpu != VG_NONE && owner != GPU_NO_INDEX) {
        context->vgpu = event->gpu.vgpu;
        context->owner = owner;
    } else if (context->owner == GPU_NO_INDEX) {
        context->owner = owner;
    }
    if (event->gpu.op == VG_GPU_SUBMITTED && event->gpu.vgpu == VG_NONE && is_by_gvt(ledger, event))
        context->of_gvt = true;
}

static bool
only_that_vgpu_has_work(struct vg_gpu_ledger *ledger, const struct gpu_vgpu *vgpu, uint32_t engine)
{
    for (guint i = 0; i < ledger->vgpus->len; i++) {
        const struct gpu_vgpu *other = gpu_vgpu_at(ledger, i);
        if (!other || other == vgpu || other->waiting == 0)
            continue;
        uint32_t user = gpu_ledger_user(ledger, other->owner, engine);
        if (next_workload(ledger, user, other->number) != GPU_NO_INDEX)
            return false;
    }
    return true;
}

/* A context of GVT-g whose vGPU nobody told belongs to the one that has the GPU when it runs. */
static void
guess_vgpu(struct vg_gpu_ledger *ledger, uint32_t index, uint32_t context_index)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    struct gpu_context *context = gpu_context_at(&ledger->requests, context_index);
    /* Mainline GVT-g does not tell the device of its switches. */
    const struct gpu_device *device = &ledger->devices[request->device];
    uint32_t current =
        device->has_switches ? device->current : ledger->devices[VG_NAME_NONE].current;

    if (!context->of_gvt || context->vgpu != VG_NONE || current == GPU_NO_INDEX)
        return;
    const struct gpu_vgpu *vgpu = gpu_vgpu_at(ledger, current);
    context->vgpu = vgpu->number;
    context->owner = vgpu->owner;
    gpu_life_set_user(ledger, index, gpu_ledger_user(ledger, vgpu->owner, request->engine));
    if (only_that_vgpu_has_work(ledger, vgpu, request->engine))
        become_workload(ledger, index, vgpu->number);
}

/* Who the record says that the request is for: its vGPU, or the thread that makes it. */
static uint32_t
owner_of(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    if (event->gpu.vgpu != VG_NONE) {
        const struct gpu_vgpu *vgpu = gpu_ledger_vgpu(ledger, event);
        return vgpu ? vgpu->owner : GPU_NO_INDEX;
    }
    /* What is further on in its life is told by threads of the kernel, or by nobody's. */
    return event->gpu.op > VG_GPU_SUBMITTED || is_by_gvt(ledger, event)
               ? GPU_NO_INDEX
               : gpu_ledger_recorder(ledger, event);
}

/* ---- keys ---- */

static void
take_keys(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event,
          uint32_t owner)
{
    struct gpu_requests *all = &ledger->requests;
    uint32_t engine = gpu_request_at(all, index)->engine;

    if (event->gpu.context != 0 && gpu_request_at(all, index)->context == GPU_NO_INDEX) {
        uint32_t context = need_context(ledger, event, engine);
        gpu_request_set_seqno(all, index, context, event->gpu.seqno);
    }
    struct gpu_request *request = gpu_request_at(all, index);
    if (request->context != GPU_NO_INDEX) {
        struct gpu_context *context = gpu_context_at(all, request->context);
        learn_context(ledger, context, event, owner);
        if (context->engine == GPU_NO_INDEX)
            context->engine = gpu_context_engine(event, engine);
        if (request->user == GPU_NO_INDEX && context->owner != GPU_NO_INDEX) {
            gpu_life_set_user(ledger, index, gpu_ledger_user(ledger, context->owner, engine));
            if (context->vgpu != VG_NONE && event->gpu.id_space != VG_GPU_ID_WORKLOAD)
                become_workload(ledger, index, context->vgpu);
        }
        if (request->vgpu == VG_NONE && request->id_space == VG_GPU_ID_NONE)
            gpu_life_set_vgpu(ledger, request, context->vgpu);
    }
    if (event->gpu.id_space == VG_GPU_ID_GLOBAL && event->gpu.id == 0) {
        /* None yet. */
    } else if (event->gpu.id_space == VG_GPU_ID_GLOBAL) {
        gpu_request_drop_key(all, index, GPU_KEY_GLOBAL);
        gpu_request_set_global(all, index, event->gpu.id);
    } else if (event->gpu.id_space != VG_GPU_ID_NONE && request->id_space == VG_GPU_ID_NONE) {
        if (event->gpu.vgpu != VG_NONE)
            gpu_life_set_vgpu(ledger, request, event->gpu.vgpu);
        gpu_request_set_id(all, index, event->gpu.id_space, event->gpu.id);
    }
    if (event->gpu.fence != 0 && request->fence != event->gpu.fence) {
        gpu_request_drop_key(all, index, GPU_KEY_FENCE);
        gpu_request_set_fence(all, index, event->gpu.fence);
    }
}

/* The workload that a request of the context must be that begins without being told to be one. */
static uint32_t
adopt_workload(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    if (event->gpu.context == 0 || event->gpu.id_space == VG_GPU_ID_WORKLOAD)
        return GPU_NO_INDEX;
    uint32_t found = gpu_context_find(&ledger->requests, event->gpu.context, gpu_sure_device(event),
                                      gpu_context_engine(event, engine));
    if (found == GPU_NO_INDEX)
        return GPU_NO_INDEX;
    const struct gpu_context *context = gpu_context_at(&ledger->requests, found);
    if (context->vgpu == VG_NONE || context->owner == GPU_NO_INDEX)
        return GPU_NO_INDEX;
    return next_workload(ledger, gpu_ledger_user(ledger, context->owner, engine), context->vgpu);
}

/* When a workload was queued that is submitted now, if that was missed; VG_TIME_UNKNOWN: it was
 * dropped, or may have been queued before the first record. */
static int64_t
missed_queue(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t user_index,
             uint32_t engine)
{
    if (event->gpu.op != VG_GPU_SUBMITTED || event->gpu.id_space != VG_GPU_ID_WORKLOAD ||
        user_index == GPU_NO_INDEX || is_of_the_past(ledger, event, engine))
        return VG_TIME_UNKNOWN;
    struct gpu_user *user = gpu_user_at(ledger, user_index);
    if (user->dropped > 0) {
        /* What it has waited until it was dropped is counted. */
        user->dropped--;
        return VG_TIME_UNKNOWN;
    }
    if (user->last.queued_ns == VG_TIME_UNKNOWN || user->last.vgpu != event->gpu.vgpu)
        return VG_TIME_UNKNOWN;
    return gpu_missed_queued_ns(ledger, user, &user->last, ledger->now,
                                gpu_missed_next_queued_ns(ledger, user));
}

/* queued_ns: if it is known to have been queued before, and VG_TIME_UNKNOWN otherwise. */
static uint32_t
make_request(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine,
             int64_t queued_ns)
{
    if (gpu_requests_is_full(&ledger->requests))
        gpu_life_drop(ledger, ledger->requests.age.first);
    uint32_t index = gpu_request_new(&ledger->requests);
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    request->engine = engine;
    request->device = event->gpu.device;
    request->vgpu = event->gpu.vgpu;
    request->queued_by = gpu_queued_by(event);
    request->engine_weak = event->gpu.flags & (VG_GPU_ENGINE_WEAK | VG_GPU_DEVICE_WEAK);
    ledger->has_workloads |= event->gpu.id_space == VG_GPU_ID_WORKLOAD;
    request->state = (uint8_t)MIN(event->gpu.op, VG_GPU_RUNNING);
    request->state_ns = ledger->now;
    if (queued_ns != VG_TIME_UNKNOWN) {
        ledger->stats.discontinuities++;
        request->state = GPU_STATE_QUEUED;
        request->state_ns = queued_ns;
        gpu_meter_add_wait(&gpu_engine_at(ledger, engine)->meter, GPU_WAIT_VGPU,
                           ledger->now - MAX(queued_ns, ledger->period_begin));
    }
    switch (request->state) {
    case GPU_STATE_QUEUED:
        request->queued_ns = request->state_ns;
        break;
    case GPU_STATE_SUBMITTED:
        /* Nobody may tell of queues before the driver's. */
        request->queued_ns = event->gpu.vgpu == VG_NONE ? ledger->now : VG_TIME_UNKNOWN;
        request->submitted_ns = ledger->now;
        break;
    case GPU_STATE_READY:
        request->ready_ns = ledger->now;
        break;
    default:
        request->run_ns = ledger->now;
        break;
    }
    gpu_life_count_in(ledger, request);
    return index;
}

/* ---- what records do ---- */

/* i915 gives the hardware the newest request of a context, and with it all before it. */
static void
merge_earlier(struct vg_gpu_ledger *ledger, const struct gpu_request *newest)
{
    if (newest->context == GPU_NO_INDEX)
        return;
    /* Backwards: what was merged before has merged all before it. */
    uint32_t index = newest->lists[GPU_LIST_CONTEXT].prev;
    for (; index != GPU_NO_INDEX;
         index = gpu_request_at(&ledger->requests, index)->lists[GPU_LIST_CONTEXT].prev) {
        struct gpu_request *request = gpu_request_at(&ledger->requests, index);
        if (request->state == GPU_STATE_MERGED)
            break;
        if (gpu_is_waiting(request)) {
            gpu_life_set_state(ledger, request, GPU_STATE_MERGED);
            request->run_ns = ledger->now;
        }
    }
}

/* An engine has one workload of vGPUs at a time: the one before was taken off, whatever was told.
 * Whether it was done, later records of its context say. Returns whether that was missed. */
static bool
take_off_workload_before(struct vg_gpu_ledger *ledger, uint32_t index)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    struct gpu_engine *engine = gpu_engine_at(ledger, request->engine);

    if (request->id_space != VG_GPU_ID_WORKLOAD)
        return false;
    uint32_t before = engine->workload;
    engine->workload = index;
    if (before == GPU_NO_INDEX || before == index)
        return false;
    const struct gpu_request *other = gpu_request_at(&ledger->requests, before);
    if (!other->in_use || other->state != GPU_STATE_RUNNING || other->engine != request->engine ||
        other->id_space != VG_GPU_ID_WORKLOAD)
        return false;
    gpu_missed_off(ledger, gpu_request_at(&ledger->requests, before));
    return true;
}

static void
run(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (request->context != GPU_NO_INDEX)
        guess_vgpu(ledger, index, request->context);
    bool missed = take_off_workload_before(ledger, index);
    if (gpu_is_waiting(request)) {
        if (!missed)
            gpu_missed_learn_begin(ledger, request);
        gpu_life_set_state(ledger, request, GPU_STATE_RUNNING);
    } else if (request->state == GPU_STATE_RUNNING && request->id_space == VG_GPU_ID_WORKLOAD) {
        gpu_missed_off_and_on(ledger, request);
    }
    if (event->gpu.flags & VG_GPU_COALESCES)
        merge_earlier(ledger, request);
}

static void
submit(struct vg_gpu_ledger *ledger, struct gpu_request *request)
{
    if (request->user != GPU_NO_INDEX && request->id_space == VG_GPU_ID_WORKLOAD) {
        struct gpu_user *user = gpu_user_at(ledger, request->user);
        gpu_missed_learn_submission(ledger, user, request->vgpu, request->queued_ns, ledger->now);
        user->dropped = 0;
    }
    gpu_life_set_state(ledger, request, GPU_STATE_SUBMITTED);
}

static void
apply(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    switch ((enum vg_gpu_op)event->gpu.op) {
    case VG_GPU_SUBMITTED:
        if (request->state < GPU_STATE_SUBMITTED)
            submit(ledger, request);
        break;
    case VG_GPU_READY:
        if (request->state < GPU_STATE_READY)
            gpu_life_set_state(ledger, request, GPU_STATE_READY);
        break;
    case VG_GPU_RUNNING:
        run(ledger, index, event);
        break;
    case VG_GPU_OFF:
        if (request->state == GPU_STATE_RUNNING) {
            gpu_missed_learn_off(ledger, request);
            gpu_life_set_state(ledger, request, GPU_STATE_READY);
        } else {
            gpu_missed_begin_of_turn(ledger, request);
        }
        /* The engine counts it anew when it runs again. */
        gpu_request_drop_key(&ledger->requests, index, GPU_KEY_GLOBAL);
        break;
    case VG_GPU_DONE:
    case VG_GPU_RETIRED:
        if ((event->gpu.flags & VG_GPU_FAILED) && gpu_is_waiting(request))
            gpu_life_cancel(ledger, index);
        else if (event->gpu.op == VG_GPU_RETIRED)
            gpu_life_retire(ledger, index);
        else
            gpu_life_finish(ledger, index);
        break;
    case VG_GPU_QUEUED:
    case VG_GPU_SWITCH:
    case VG_GPU_INTERRUPT:
    case VG_GPU_MEMORY_MADE:
    case VG_GPU_MEMORY_FREED:
    case VG_GPU_MEMORY_TOTAL:
    case VG_GPU_OP_MAX:
        break;
    }
}

/* The engine was a guess, by a ring or for want of a device. */
static void
correct_engine(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event,
               uint32_t engine)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (!request->engine_weak || engine == GPU_NO_INDEX || gpu_sure_device(event) == VG_NAME_NONE ||
        event->gpu.flags & VG_GPU_ENGINE_WEAK)
        return;
    request->engine_weak = false;
    if (request->engine != engine)
        gpu_life_set_engine(ledger, index, engine);
}

/* The scheduler's own fence of a job has the context below that of the job's end. */
static void
scheduled(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    uint32_t index = gpu_requests_by_number(&ledger->requests, event->gpu.context + 1, VG_NAME_NONE,
                                            GPU_NO_INDEX, event->gpu.seqno);

    if (index != GPU_NO_INDEX)
        run(ledger, index, event);
}

/* The first end that is told of an engine is of what nobody saw begin: it was at work when the
 * recording began. */
static void
ran_from_the_beginning(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    uint32_t engine = gpu_ledger_engine(ledger, event, true);

    if (event->gpu.op != VG_GPU_DONE || event->gpu.context == 0 || engine == GPU_NO_INDEX ||
        gpu_engine_at(ledger, engine)->last_end_ns != VG_TIME_UNKNOWN)
        return;
    uint32_t index = make_request(ledger, event, engine, VG_TIME_UNKNOWN);
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    request->run_ns = request->state_ns = ledger->period_begin;
    gpu_meter_ran(&gpu_engine_at(ledger, engine)->meter, ledger->period_begin, ledger->now,
                  GPU_WAIT_MAX);
    take_keys(ledger, index, event, GPU_NO_INDEX);
    gpu_life_tell_stage(ledger, request, VG_GPU_STAGE_RUNNING, ledger->period_begin);
    gpu_life_finish(ledger, index);
}

static void
begin_life(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    if (engine == GPU_NO_INDEX) {
        ledger->stats.unattributed++;
        return;
    }
    if (comes_too_late(ledger, event, engine))
        return;
    uint32_t index = adopt_workload(ledger, event, engine);
    if (index != GPU_NO_INDEX) {
        gpu_request_at(&ledger->requests, index)->adopted = true;
        take_keys(ledger, index, event, GPU_NO_INDEX);
        apply(ledger, index, event);
        return;
    }
    uint32_t owner = owner_of(ledger, event);
    uint32_t user = gpu_ledger_user(ledger, owner, engine);
    index = make_request(ledger, event, engine, missed_queue(ledger, event, user, engine));
    gpu_life_tell_begin(ledger, gpu_request_at(&ledger->requests, index));
    if (user != GPU_NO_INDEX)
        gpu_life_set_user(ledger, index, user);
    take_keys(ledger, index, event, owner);
    apply(ledger, index, event);
}

/* The driver has told that the workload is submitted, and nobody that it was queued. */
static void
name_workload(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (request->queued_ns == VG_TIME_UNKNOWN || request->queued_ns != request->submitted_ns ||
        request->run_ns != VG_TIME_UNKNOWN)
        return;
    uint32_t user_index = gpu_ledger_user(ledger, owner_of(ledger, event), request->engine);
    if (user_index == GPU_NO_INDEX ||
        (request->user != GPU_NO_INDEX && request->user != user_index))
        return;
    struct gpu_user *user = gpu_user_at(ledger, user_index);
    if (user->dropped > 0) {
        user->dropped--;
        return;
    }
    if (user->last.queued_ns == VG_TIME_UNKNOWN || user->last.vgpu != event->gpu.vgpu)
        return;
    int64_t next_ns = MIN(gpu_missed_next_queued_ns(ledger, user), request->submitted_ns);
    int64_t queued_ns =
        gpu_missed_queued_ns(ledger, user, &user->last, request->submitted_ns, next_ns);
    gpu_life_queued_before(ledger, request, queued_ns);
    gpu_missed_learn_submission(ledger, user, event->gpu.vgpu, queued_ns, request->submitted_ns);
}

/* The workload, whose queueing was missed, was taken for the one after it in the queue. */
static void
add_missed_workload(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event)
{
    const struct gpu_request adopted = *gpu_request_at(&ledger->requests, index);

    if (adopted.vgpu != event->gpu.vgpu || adopted.device != event->gpu.device ||
        adopted.state > GPU_STATE_RUNNING || adopted.user == GPU_NO_INDEX ||
        adopted.user_ns != VG_TIME_UNKNOWN)
        return;
    const struct gpu_user *user = gpu_user_at(ledger, adopted.user);
    if (adopted.submitted_ns == VG_TIME_UNKNOWN || adopted.queued_ns == VG_TIME_UNKNOWN ||
        adopted.queued_ns != user->last.queued_ns || user->dropped > 0 ||
        gpu_requests_is_full(&ledger->requests))
        return;
    const struct gpu_submission *before = &user->before;
    int64_t queued_ns = adopted.queued_ns;
    if (before->queued_ns != VG_TIME_UNKNOWN && before->vgpu == adopted.vgpu)
        queued_ns = gpu_missed_queued_ns(ledger, user, before, adopted.submitted_ns, queued_ns);
    uint32_t missed = make_request(ledger, event, adopted.engine, queued_ns);
    gpu_life_tell_begin(ledger, gpu_request_at(&ledger->requests, missed));
    gpu_life_set_user(ledger, missed, adopted.user);
    gpu_request_set_id(&ledger->requests, missed, VG_GPU_ID_WORKLOAD, event->gpu.id);
    gpu_ledger_exchange(ledger, index, missed);
}

/* GVT-g says which workload it is that the driver has told of. */
static void
learn_workload(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (event->gpu.op != VG_GPU_SUBMITTED || event->gpu.id_space != VG_GPU_ID_WORKLOAD)
        return;
    if (request->id_space == VG_GPU_ID_NONE)
        name_workload(ledger, index, event);
    else if (request->id_space != VG_GPU_ID_WORKLOAD || !request->adopted)
        return;
    else if (request->id == event->gpu.id)
        request->adopted = false;
    else
        add_missed_workload(ledger, index, event);
}

/* What a further record of a request says of whose it is, and by what it can be found. */
static void
learn_user(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    uint32_t owner = GPU_NO_INDEX;

    if (request->user == GPU_NO_INDEX || event->gpu.op <= VG_GPU_SUBMITTED)
        owner = owner_of(ledger, event);
    if (request->user == GPU_NO_INDEX && owner != GPU_NO_INDEX)
        gpu_life_set_user(ledger, index, gpu_ledger_user(ledger, owner, request->engine));
    take_keys(ledger, index, event, owner);
}

/* An engine that has come to this seqno of its own is done with those before it. */
static void
end_earlier(struct vg_gpu_ledger *ledger, uint32_t engine, uint64_t global)
{
    uint64_t last = gpu_engine_at(ledger, engine)->last_global;
    uint64_t from = global > GLOBALS_PER_END ? global - GLOBALS_PER_END : 1;

    if (last < global)
        from = MAX(from, last + 1);
    for (uint64_t i = from; i < global; i++) {
        uint32_t index = gpu_requests_by_global(&ledger->requests, engine, i);
        if (index != GPU_NO_INDEX)
            gpu_life_finish(ledger, index);
    }
    gpu_engine_at(ledger, engine)->last_global = global;
}

static void
take_request(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    bool begins = event->gpu.op <= VG_GPU_RUNNING;
    uint32_t engine = gpu_ledger_engine(ledger, event, !(event->gpu.flags & VG_GPU_OF_FENCE));
    if (event->gpu.op == VG_GPU_DONE && event->gpu.id_space == VG_GPU_ID_GLOBAL &&
        event->gpu.context == 0 && engine != GPU_NO_INDEX)
        end_earlier(ledger, engine, event->gpu.id);
    uint32_t index = gpu_ledger_find(ledger, event, engine);

    if (index == GPU_NO_INDEX && begins) {
        begin_life(ledger, event, engine);
    } else if (index == GPU_NO_INDEX && (event->gpu.flags & VG_GPU_OF_SCHEDULER)) {
        scheduled(ledger, event);
    } else if (index == GPU_NO_INDEX && !(event->gpu.flags & VG_GPU_OF_FENCE)) {
        ran_from_the_beginning(ledger, event);
    } else if (index != GPU_NO_INDEX) {
        correct_engine(ledger, index, event, engine);
        learn_workload(ledger, index, event);
        gpu_request_at(&ledger->requests, index)->queued_by |= gpu_queued_by(event);
        learn_user(ledger, index, event);
        apply(ledger, index, event);
    }
}

/* ---- feeding ---- */

/* A thread that names itself tells the topology who it is, as long as there is room for owners. */
static G_NO_INLINE void
learn_thread(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    struct vg_thread *thread = vg_topology_find(ledger->topology, event->tid);
    if (!thread && gpu_ledger_has_all_owners(ledger)) {
        ledger->stats.unattributed++;
        return;
    }
    if (!thread)
        thread = vg_topology_thread(ledger->topology, event->tid);
    vg_topology_set_process(ledger->topology, thread, event->pid);
    if (event->gpu.comm == VG_NAME_NONE)
        return;
    char comm[VG_COMM_LEN] = {0};
    g_strlcpy(comm, vg_names_text(ledger->names, event->gpu.comm), sizeof(comm));
    vg_topology_set_comm(ledger->topology, thread, comm);
}

/* Later in its life a request is told of by whoever was interrupted. */
static bool
is_by_its_maker(const struct vg_event *event)
{
    return event->tid > 0 &&
           (event->gpu.op <= VG_GPU_SUBMITTED || event->gpu.op >= VG_GPU_MEMORY_MADE);
}

void
vg_gpu_ledger_feed(vg_gpu_ledger *ledger, const struct vg_event *event)
{
    if (event->type != VG_EVENT_GPU)
        return;
    if (!ledger->begun)
        vg_gpu_ledger_begin(ledger, event->ts_ns);
    if (event->ts_ns < ledger->now)
        ledger->stats.discontinuities++;
    ledger->now = MAX(ledger->now, event->ts_ns);
    ledger->stats.events++;
    if (is_by_its_maker(event))
        learn_thread(ledger, event);
    if (event->gpu.op == VG_GPU_SWITCH || event->gpu.op == VG_GPU_INTERRUPT)
        gpu_ledger_switch(ledger, event);
    else if (event->gpu.op >= VG_GPU_MEMORY_MADE)
        gpu_ledger_memory(ledger, event);
    else
        take_request(ledger, event);
}
