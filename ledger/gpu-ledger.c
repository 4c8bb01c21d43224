/* SPDX-License-Identifier: Apache-2.0
 *
 * Applies a record to its request, which is found or created. ledger/gpu-life.c counts requests.
 */
#include "config.h"

#include <string.h>

#include "ledger/gpu-ledger-private.h"

/* How many seqnos before an interrupt's may still be open. i915's rings hold fewer requests. */
#define GLOBALS_PER_END 1024

/* How long before it is submitted, and before it runs, a request may have been queued. If there was
 * no loss within that time, no earlier records of the request were lost: the driver queued it
 * without a record, as it does with its own requests. */
#define SUBMIT_NS INT64_C(1000000000)
#define WAIT_NS   INT64_C(5000000000)

vg_gpu_ledger *
vg_gpu_ledger_new(vg_topology *topology, const vg_names *names)
{
    vg_gpu_ledger *ledger = g_new0(vg_gpu_ledger, 1);

    ledger->topology = topology;
    ledger->names = names;
    ledger->lost_ns = ledger->lost_until_ns = INT64_MIN;
    gpu_requests_init(&ledger->requests, VG_GPU_OPEN_REQUESTS_MAX, VG_GPU_CONTEXTS_MAX);
    gpu_ledger_init_owners(ledger);
    return ledger;
}

void
vg_gpu_ledger_free(vg_gpu_ledger *ledger)
{
    if (!ledger)
        return;
    gpu_kept_free(ledger->kept);
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
vg_gpu_ledger_declare_ops(vg_gpu_ledger *ledger, uint32_t ops)
{
    ledger->told_ops |= ops;
}

void
vg_gpu_ledger_keep_requests(vg_gpu_ledger *ledger, bool keep)
{
    g_clear_pointer(&ledger->kept, gpu_kept_free);
    if (keep)
        ledger->kept = gpu_kept_new();
}

void
vg_gpu_ledger_watch(vg_gpu_ledger *ledger, vg_gpu_life_fn *fn, void *data)
{
    ledger->watch = fn;
    ledger->watch_data = data;
}

void
vg_gpu_ledger_end(vg_gpu_ledger *ledger, int64_t t_ns, bool is_whole)
{
    ledger->now = MAX(ledger->now, t_ns);
    gpu_life_doubt_passed(ledger);
    ledger->lacks_ends = !gpu_ledger_tells_ends(ledger);
    if (!is_whole || ledger->lacks_ends)
        gpu_life_doubt_all(ledger);
    gpu_life_tell_open(ledger);
}

/* ---- which request it is ---- */

/* Closes a request without a recorded end, because another request has its id or address now. */
static void
gpu_ledger_close_used_again(struct vg_gpu_ledger *ledger, uint32_t index)
{
    ledger->stats.discontinuities +=
        gpu_request_at(&ledger->requests, index)->doubt == GPU_DOUBT_NONE;
    gpu_life_close(ledger, index);
}

/* Returns whether a job that is queued under the id of an open one is a new job: the open one
 * already runs, or this tracepoint already reported that it was queued. */
static bool
gpu_ledger_is_new_life(const struct vg_gpu_ledger *ledger, uint32_t by_id,
                       const struct vg_event *event)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, by_id);

    return event->gpu.op == VG_GPU_QUEUED &&
           (event->gpu.id_space == VG_GPU_ID_WORKLOAD || request->state == GPU_STATE_RUNNING ||
            request->queued_by & gpu_learn_queued_by(event));
}

/* Joins two requests if the driver reported a workload as submitted before GVT-g named it. The
 * driver's request takes the name of the other one, which waited until then. */
static uint32_t
gpu_ledger_unite(struct vg_gpu_ledger *ledger, uint32_t workload, uint32_t told)
{
    struct gpu_requests *all = &ledger->requests;
    const struct gpu_request *queued = gpu_request_at(all, workload);
    const struct gpu_request *request = gpu_request_at(all, told);

    if (request->id_space != VG_GPU_ID_NONE || queued->context != GPU_NO_INDEX ||
        queued->state != GPU_STATE_QUEUED || queued->doubt != GPU_DOUBT_NONE ||
        request->queued_ns == VG_TIME_UNKNOWN || request->queued_ns != request->submitted_ns)
        return workload;
    if (queued->engine != request->engine)
        gpu_life_set_engine(ledger, workload, request->engine);
    if (request->has_waited && request->user != GPU_NO_INDEX && request->user != queued->user)
        return workload;
    const struct gpu_request was = *queued;
    gpu_life_merge(ledger, workload, request->submitted_ns);
    gpu_life_set_vgpu(ledger, told, was.vgpu);
    gpu_request_set_id(all, told, was.id_space, was.id);
    gpu_life_set_user(ledger, told, was.user);
    gpu_life_set_queued(ledger, told, was.queued_ns);
    return told;
}

static uint32_t
gpu_ledger_resolve_fence(struct vg_gpu_ledger *ledger, const struct vg_event *event,
                         uint32_t engine, uint32_t index, uint32_t by_fence)
{
    if (by_fence == GPU_NO_INDEX || by_fence == index)
        return index;
    if (index == GPU_NO_INDEX && !gpu_find_is_other(ledger, by_fence, event, engine))
        return by_fence;
    if (event->gpu.op <= VG_GPU_RUNNING)
        gpu_ledger_close_used_again(ledger, by_fence);
    return index;
}

/* Finds the request of a record. Returns GPU_NO_INDEX if it is unknown. */
static uint32_t
gpu_ledger_resolve(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    struct gpu_found found = gpu_find(ledger, event, engine);

    if (found.by_id != GPU_NO_INDEX && gpu_ledger_is_new_life(ledger, found.by_id, event)) {
        gpu_ledger_close_used_again(ledger, found.by_id);
        found = gpu_find(ledger, event, engine);
    }
    if (found.by_id != GPU_NO_INDEX && found.by_seqno != GPU_NO_INDEX &&
        found.by_id != found.by_seqno)
        found.by_id = gpu_ledger_unite(ledger, found.by_id, found.by_seqno);
    return gpu_ledger_resolve_fence(ledger, event, engine,
                                    found.by_id != GPU_NO_INDEX ? found.by_id : found.by_seqno,
                                    found.by_fence);
}

/* ---- what records do ---- */

static void
gpu_ledger_run(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    gpu_engine_at(ledger, request->engine)->told_ops |= 1U << VG_GPU_RUNNING;
    if (request->doubt == GPU_DOUBT_NONE)
        gpu_learn_vgpu(ledger, index);
    gpu_hardware_give(ledger, index, event);
}

/* GVT-g and the driver report the same request. If the record that joins the two is missing, the
 * ledger has two requests. The end of one shows this: the driver's was never reported as queued,
 * and GVT-g's was also reported by the driver. */
static void
gpu_ledger_check_workload(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    bool by_driver = gpu_engine_at(ledger, request->engine)->told_ops & 1U << VG_GPU_RUNNING;

    bool of_gvt =
        request->vgpu != VG_NONE || (request->context != GPU_NO_INDEX &&
                                     gpu_context_at(&ledger->requests, request->context)->of_gvt);

    if (!ledger->tells_workloads || !of_gvt)
        return;
    if (request->id_space == VG_GPU_ID_NONE)
        request->queued_ns = VG_TIME_UNKNOWN;
    if (request->id_space == VG_GPU_ID_NONE
            ? ledger->lost_ns != INT64_MIN
            : request->state == GPU_STATE_QUEUED && request->context == GPU_NO_INDEX && by_driver)
        gpu_life_doubt(ledger, index, GPU_DOUBT_LOST);
}

static void
gpu_ledger_apply(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    const bool waits = request->doubt == GPU_DOUBT_NONE && request->given == GPU_NOT_GIVEN;

    if (event->gpu.op < VG_GPU_DONE)
        gpu_pass_take_back(ledger, index);
    switch ((enum vg_gpu_op)event->gpu.op) {
    case VG_GPU_SUBMITTED:
        if (waits && request->state < GPU_STATE_SUBMITTED)
            gpu_life_set_state(ledger, index, GPU_STATE_SUBMITTED, ledger->now);
        break;
    case VG_GPU_READY:
        if (waits && request->state < GPU_STATE_READY)
            gpu_life_set_state(ledger, index, GPU_STATE_READY, ledger->now);
        break;
    case VG_GPU_RUNNING:
        gpu_ledger_run(ledger, index, event);
        break;
    case VG_GPU_OFF:
        gpu_engine_at(ledger, request->engine)->told_ops |= 1U << VG_GPU_OFF;
        /* The engine assigns a new number when the request runs again. */
        gpu_request_drop_key(&ledger->requests, index, GPU_KEY_GLOBAL);
        gpu_hardware_take_off(ledger, index);
        break;
    case VG_GPU_DONE:
        gpu_engine_at(ledger, request->engine)->told_ops |= 1U << VG_GPU_DONE;
        if (event->gpu.flags & VG_GPU_FAILED && gpu_is_waiting(request)) {
            gpu_life_cancel(ledger, index);
            break;
        }
        gpu_ledger_check_workload(ledger, index);
        gpu_life_finish(ledger, index);
        break;
    case VG_GPU_RETIRED:
        gpu_life_retire(ledger, index);
        break;
    case VG_GPU_QUEUED:
    case VG_GPU_SWITCH:
    case VG_GPU_MEMORY_MADE:
    case VG_GPU_MEMORY_FREED:
    case VG_GPU_MEMORY_TOTAL:
    case VG_GPU_OP_MAX:
        break;
    }
}

/* Handles the scheduler's own fence of a job. Its context is one below that of the job's end. */
static void
gpu_ledger_scheduled(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    uint32_t index = gpu_requests_by_number(&ledger->requests, event->gpu.context + 1, VG_NAME_NONE,
                                            GPU_NO_INDEX, event->gpu.seqno);

    if (index != GPU_NO_INDEX)
        gpu_ledger_run(ledger, index, event);
}

/* ---- requests that begin ---- */

/* Returns whether earlier records of a request may have been lost before its first record. */
static bool
gpu_ledger_begins_in_doubt(struct vg_gpu_ledger *ledger, const struct vg_event *event,
                           uint32_t engine)
{
    bool is_losing = ledger->n_losing > 0 || ledger->now < ledger->lost_until_ns;

    if (ledger->lost_ns == INT64_MIN || event->gpu.op == VG_GPU_QUEUED)
        return is_losing;
    if (is_losing || event->gpu.id_space == VG_GPU_ID_WORKLOAD)
        return true;
    const bool is_submitted = event->gpu.op == VG_GPU_SUBMITTED;
    const uint32_t before =
        is_submitted ? 1U << VG_GPU_QUEUED : 1U << VG_GPU_QUEUED | 1U << VG_GPU_SUBMITTED;
    if (!(ledger->told_ops & before))
        return false;
    uint32_t index = gpu_find_context(ledger, event, engine);
    const struct gpu_context *context =
        index == GPU_NO_INDEX ? NULL : gpu_context_at(&ledger->requests, index);
    bool is_never_queued = context && context->is_not_queued && !context->is_queued;
    return !is_never_queued &&
           ledger->now - ledger->lost_until_ns < (is_submitted ? SUBMIT_NS : WAIT_NS);
}

/* Returns whether the request is in a ring. GVT-g's queues are rings of each vGPU. */
static bool
gpu_ledger_is_of_ring(const struct vg_event *event)
{
    if (event->gpu.id_space == VG_GPU_ID_WORKLOAD)
        return !(event->gpu.flags & VG_GPU_OF_VM);
    return event->gpu.id_space == VG_GPU_ID_JOB &&
           !(event->gpu.flags & (VG_GPU_ANY_ORDER | VG_GPU_SIDE_BY_SIDE));
}

static uint32_t
gpu_ledger_make(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    const struct gpu_requests *all = &ledger->requests;

    if (gpu_requests_is_full(all))
        gpu_life_drop(ledger, all->doubt.first != GPU_NO_INDEX ? all->doubt.first : all->age.first);
    uint32_t index = gpu_request_new(&ledger->requests);
    struct gpu_request *request = gpu_request_at(all, index);

    request->engine = engine;
    request->device = event->gpu.device;
    request->vgpu = event->gpu.vgpu;
    request->queued_by = gpu_learn_queued_by(event);
    request->engine_weak = event->gpu.flags & (VG_GPU_ENGINE_WEAK | VG_GPU_DEVICE_WEAK);
    ledger->guesses_engines |= request->engine_weak && event->gpu.id_space == VG_GPU_ID_JOB;
    request->state = (uint8_t)event->gpu.op;
    if (event->gpu.op == VG_GPU_RUNNING && !gpu_hardware_is_free(ledger, event, engine))
        request->state = GPU_STATE_READY;
    request->state_ns = request->begun_ns = ledger->now;
    request->is_of_ring = gpu_ledger_is_of_ring(event);
    switch (request->state) {
    case GPU_STATE_QUEUED:
        request->queued_ns = ledger->now;
        break;
    case GPU_STATE_SUBMITTED:
        /* Queues before the driver's may have no records. */
        request->queued_ns = event->gpu.vgpu == VG_NONE ? ledger->now : VG_TIME_UNKNOWN;
        request->submitted_ns = ledger->now;
        break;
    case GPU_STATE_READY:
        request->ready_ns = ledger->now;
        break;
    default:
        request->run_ns = ledger->now;
        request->has_waited = true;
        break;
    }
    return index;
}

static void
gpu_ledger_begin_life(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    if (engine == GPU_NO_INDEX) {
        ledger->stats.unattributed++;
        return;
    }
    /* Records may come slightly late. However, a context may also start again. */
    if ((event->gpu.op >= VG_GPU_READY || event->gpu.id_space == VG_GPU_ID_WORKLOAD) &&
        gpu_find_is_past(ledger, event, engine))
        return;
    bool in_doubt = gpu_ledger_begins_in_doubt(ledger, event, engine);
    uint32_t owner = gpu_learn_owner(ledger, event);
    uint32_t user = gpu_ledger_user(ledger, owner, engine);
    uint32_t index = gpu_ledger_make(ledger, event, engine);
    gpu_life_begin(ledger, index, in_doubt ? GPU_DOUBT_LOST : GPU_DOUBT_NONE);
    gpu_pass_enter(ledger, index);
    if (user != GPU_NO_INDEX)
        gpu_life_set_user(ledger, index, user);
    gpu_learn_take_context(ledger, index, event, owner);
    gpu_learn_take_ids(ledger, index, event);
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    if (event->gpu.op != VG_GPU_QUEUED && !in_doubt && request->context != GPU_NO_INDEX)
        gpu_context_at(&ledger->requests, request->context)->is_not_queued = true;
    gpu_ledger_apply(ledger, index, event);
}

/* Handles the end of a request that has no earlier record. */
static void
gpu_ledger_end_unknown(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    uint32_t engine = gpu_ledger_engine(ledger, event, true);

    if (event->gpu.op != VG_GPU_DONE || event->gpu.context == 0 || engine == GPU_NO_INDEX ||
        gpu_find_is_past(ledger, event, engine))
        return;
    struct gpu_context *context =
        gpu_context_at(&ledger->requests, gpu_learn_context(ledger, event, engine));
    context->any_done = true;
    context->last_done = event->gpu.seqno;
    gpu_meter_partial(&gpu_engine_at(ledger, engine)->meter);
}

/* ---- records of requests ---- */

/* Ends requests with earlier seqnos of an engine that has reached this seqno. */
static void
gpu_ledger_end_earlier(struct vg_gpu_ledger *ledger, uint32_t engine, uint64_t global)
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

/* Returns whether GVT-g names a workload that, according to the driver, has already ended. */
static bool
gpu_ledger_is_reported_late(struct vg_gpu_ledger *ledger, uint32_t index,
                            const struct vg_event *event, uint32_t engine)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    return event->gpu.op == VG_GPU_SUBMITTED && event->gpu.id_space == VG_GPU_ID_WORKLOAD &&
           request->context == GPU_NO_INDEX && gpu_find_is_past(ledger, event, engine);
}

/* Handles GVT-g's name for a workload that the driver reported, but whose queueing was not
 * reported.
 */
static void
gpu_ledger_name_workload(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (event->gpu.op != VG_GPU_SUBMITTED || event->gpu.id_space != VG_GPU_ID_WORKLOAD ||
        request->id_space != VG_GPU_ID_NONE)
        return;
    gpu_life_set_queued(ledger, index, VG_TIME_UNKNOWN);
    if (ledger->lost_ns != INT64_MIN)
        gpu_life_doubt(ledger, index, GPU_DOUBT_LOST);
}

static void
gpu_ledger_take_request(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    bool begins = event->gpu.op <= VG_GPU_RUNNING;
    uint32_t engine = gpu_ledger_engine(ledger, event, !(event->gpu.flags & VG_GPU_OF_FENCE));

    bool of_workload = event->gpu.id_space == VG_GPU_ID_WORKLOAD;
    ledger->tells_workloads |= of_workload;
    /* The driver's own requests are not queued when GVT-g reports its queued workloads. */
    if (!of_workload || event->gpu.op != VG_GPU_QUEUED)
        ledger->told_ops |= 1U << event->gpu.op;
    if (event->gpu.op == VG_GPU_DONE && event->gpu.id_space == VG_GPU_ID_GLOBAL &&
        event->gpu.context == 0 && engine != GPU_NO_INDEX)
        gpu_ledger_end_earlier(ledger, engine, event->gpu.id);
    if (ledger->n_nameless > 0 && event->gpu.op == VG_GPU_RUNNING)
        engine = gpu_ring_learn(ledger, event, engine);
    uint32_t index = gpu_ledger_resolve(ledger, event, engine);

    if (index == GPU_NO_INDEX && begins) {
        gpu_ledger_begin_life(ledger, event, engine);
    } else if (index == GPU_NO_INDEX && event->gpu.flags & VG_GPU_OF_SCHEDULER) {
        gpu_ledger_scheduled(ledger, event);
    } else if (index == GPU_NO_INDEX && !(event->gpu.flags & VG_GPU_OF_FENCE)) {
        gpu_ledger_end_unknown(ledger, event);
    } else if (index != GPU_NO_INDEX && gpu_ledger_is_reported_late(ledger, index, event, engine)) {
        gpu_life_merge(ledger, index, VG_TIME_UNKNOWN);
    } else if (index != GPU_NO_INDEX) {
        gpu_learn_engine(ledger, index, event, engine);
        gpu_ledger_name_workload(ledger, index, event);
        gpu_learn(ledger, index, event);
        gpu_ledger_apply(ledger, index, event);
    }
}

/* ---- feeding ---- */

/* Adds a thread that names itself to the topology, as long as there is space for owners. */
static __attribute__((noinline)) void
gpu_ledger_learn_thread(struct vg_gpu_ledger *ledger, const struct vg_event *event)
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

/* Returns whether the record's thread made the request. Any thread may write later records. */
static bool
gpu_ledger_is_by_its_maker(const struct vg_event *event)
{
    return event->tid > 0 &&
           (event->gpu.op <= VG_GPU_SUBMITTED || event->gpu.op >= VG_GPU_MEMORY_MADE);
}

/* Ends a loss without a reported end when its CPU writes records again. */
static void
gpu_ledger_end_loss(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    if (event->cpu < 0 || !(ledger->losing[event->cpu / 64] >> (event->cpu % 64) & 1))
        return;
    ledger->losing[event->cpu / 64] &= ~(UINT64_C(1) << (event->cpu % 64));
    ledger->n_losing--;
    ledger->lost_until_ns = MAX(ledger->lost_until_ns, event->ts_ns);
}

/* Marks requests that may have lost records: those that are open when records are lost, or start
 * before the loss ends. */
static void
gpu_ledger_lose(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    if (event->lost.no_gpu)
        return;
    ledger->now = MAX(ledger->now, event->ts_ns);
    ledger->lost_ns = ledger->now;
    if (event->lost.end_ns == INT64_MAX && event->cpu >= 0) {
        ledger->losing[event->cpu / 64] |= UINT64_C(1) << (event->cpu % 64);
        ledger->n_losing++;
    } else {
        ledger->lost_until_ns = MAX(ledger->lost_until_ns, event->lost.end_ns);
    }
    gpu_life_doubt_all(ledger);
}

/* Returns the time of an event. A reported time counts if it is shortly before the record. */
static int64_t
gpu_ledger_time(const struct vg_event *event)
{
    const int64_t told_ns = event->gpu.told_ns;

    return event->gpu.flags & VG_GPU_REPORTED_LATE && told_ns > 0 && told_ns <= event->ts_ns &&
                   event->ts_ns - told_ns <= VG_GPU_REPORTED_LATE_NS
               ? told_ns
               : event->ts_ns;
}

void
vg_gpu_ledger_feed(vg_gpu_ledger *ledger, const struct vg_event *event)
{
    if (ledger->n_losing > 0)
        gpu_ledger_end_loss(ledger, event);
    if (event->type == VG_EVENT_LOST)
        gpu_ledger_lose(ledger, event);
    if (event->type != VG_EVENT_GPU)
        return;
    const int64_t t_ns = gpu_ledger_time(event);
    if (!ledger->begun)
        vg_gpu_ledger_begin(ledger, t_ns);
    if (event->ts_ns < ledger->now)
        ledger->stats.discontinuities++;
    ledger->now = MAX(ledger->now, t_ns);
    ledger->stats.events++;
    gpu_life_close_old(ledger);
    if (gpu_ledger_is_by_its_maker(event))
        gpu_ledger_learn_thread(ledger, event);
    if (event->gpu.op == VG_GPU_SWITCH)
        gpu_ledger_switch(ledger, event);
    else if (event->gpu.op >= VG_GPU_MEMORY_MADE)
        gpu_memory_take(ledger, event);
    else
        gpu_ledger_take_request(ledger, event);
}
