/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a request, and what is counted of it, for at most two meters: its engine's, and its
 * user's there. A state counts when the request's own record ends it, and never if there is no such
 * record. A request whose next record is missing is in doubt, and is only reported as partial.
 *
 * The first wait, which has up to three stages, is counted as a whole when it ends. Until then, the
 * request's owner and engine may become known.
 */
#include "config.h"

#include <string.h>

#include "ledger/gpu-ledger-private.h"

/* How long a request in doubt is kept. Its end may still be reported, and must not count as the end
 * of another request. */
#define KEEP_DOUBT_NS INT64_C(5000000000)

/* The same for a request that a later one of its ring has passed. It may wait for long in a queue
 * of the scheduler. */
#define KEEP_PASSED_NS INT64_C(300000000000)

/* ---- where a request counts ---- */

static void
gpu_life_add_active(const struct vg_gpu_ledger *ledger, const struct gpu_place *place,
                    struct gpu_interval interval)
{
    if (place->active)
        gpu_union_add(place->active, interval, ledger->begin_ns);
}

static void
gpu_life_add_wait(const struct vg_gpu_ledger *ledger, const struct gpu_place *place,
                  enum gpu_wait wait, struct gpu_interval interval)
{
    for (int i = 0; i < 2; i++) {
        if (place->meters[i])
            gpu_meter_waited(place->meters[i], wait, interval, ledger->begin_ns);
    }
}

static void
gpu_life_add_run(const struct vg_gpu_ledger *ledger, struct gpu_request *request,
                 struct gpu_interval run)
{
    const struct gpu_place place = gpu_life_place(ledger, request);

    request->exec_ns += run.end_ns - run.begin_ns;
    for (int i = 0; i < 2; i++) {
        if (place.meters[i])
            gpu_meter_ran(place.meters[i], run, ledger->begin_ns);
    }
    gpu_life_add_active(ledger, &place, run);
}

static void
gpu_life_count_vgpu(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                    bool more)
{
    if (request->vgpu == VG_NONE || !gpu_is_waiting(request) || request->doubt != GPU_DOUBT_NONE)
        return;
    struct gpu_vgpu *vgpu = gpu_ledger_find_vgpu(ledger, request->device, request->vgpu);
    if (!vgpu)
        return;
    gpu_vgpu_advance(ledger, vgpu, ledger->now);
    if (more)
        vgpu->waiting++;
    else if (vgpu->waiting > 0)
        vgpu->waiting--;
}

/* Adds a waiting request to the counts, or removes it from them. */
static void
gpu_life_count(const struct vg_gpu_ledger *ledger, const struct gpu_request *request, bool more)
{
    gpu_wait_count(ledger, request, more);
    gpu_life_count_vgpu(ledger, request, more);
}

/* ---- waits ---- */

static void
gpu_life_add_waits(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                   const struct gpu_place *place, int64_t until_ns, enum gpu_wait last)
{
    struct gpu_stage stages[GPU_WAIT_MAX];
    int n = gpu_wait_stages(request, until_ns, last, stages);

    if (n == 0)
        return;
    for (int i = 0; i < n; i++)
        gpu_life_add_wait(ledger, place, stages[i].wait, stages[i].interval);
    /* Each stage starts where the previous one ends. */
    gpu_life_add_active(
        ledger, place,
        (struct gpu_interval){stages[0].interval.begin_ns, stages[n - 1].interval.end_ns});
}

/* Ends the wait of a request at this time. */
static void
gpu_life_end_wait(const struct vg_gpu_ledger *ledger, struct gpu_request *request, int64_t until_ns,
                  enum gpu_wait last)
{
    const struct gpu_place place = gpu_life_place(ledger, request);

    gpu_life_count(ledger, request, false);
    for (int i = 0; i < 2 && place.meters[i] && until_ns < ledger->now; i++)
        gpu_peak_take(&place.meters[i]->peak, until_ns);
    gpu_life_add_waits(ledger, request, &place, until_ns, last);
    request->has_waited = true;
}

/* Ends a request's state at its last record, after which nothing is known. */
static void
gpu_life_end_known(const struct vg_gpu_ledger *ledger, struct gpu_request *request)
{
    if (gpu_is_waiting(request)) {
        const int64_t known_ns = gpu_life_known_ns(request);
        gpu_life_end_wait(ledger, request, known_ns, GPU_WAIT_DRIVER);
        request->state_ns = known_ns;
    }
    gpu_life_tell_stage(ledger, request, VG_GPU_STAGE_NONE, request->state_ns);
}

/* ---- states ---- */

static void
gpu_life_enter(struct gpu_request *request, enum gpu_state state, int64_t t_ns)
{
    request->state = (uint8_t)state;
    request->state_ns = t_ns;
    if (state == GPU_STATE_SUBMITTED)
        request->submitted_ns = t_ns;
    else if (state == GPU_STATE_READY && !request->has_waited)
        request->ready_ns = t_ns;
    else if (state > GPU_STATE_READY && request->run_ns == VG_TIME_UNKNOWN)
        request->run_ns = t_ns;
}

void
gpu_life_begin(struct vg_gpu_ledger *ledger, uint32_t index, enum gpu_doubt doubt)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    ledger->stats.begun++;
    if (doubt == GPU_DOUBT_NONE) {
        gpu_life_count(ledger, request, true);
    } else {
        gpu_request_set_doubt(&ledger->requests, index, doubt);
        request->doubt_ns = ledger->now;
    }
    gpu_life_tell_now(ledger, index);
}

void
gpu_life_set_state(struct vg_gpu_ledger *ledger, uint32_t index, enum gpu_state state, int64_t t_ns)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    const struct gpu_interval did = {request->state_ns, t_ns};
    const bool waited = gpu_is_waiting(request);

    if (waited && state > GPU_STATE_READY) {
        gpu_life_end_wait(ledger, request, t_ns, GPU_WAIT_DRIVER);
    } else if (request->state == GPU_STATE_RUNNING) {
        gpu_life_add_run(ledger, request, did);
    } else if (request->state == GPU_STATE_MERGED) {
        const struct gpu_place place = gpu_life_place(ledger, request);
        gpu_life_add_active(ledger, &place, did);
    }
    gpu_life_enter(request, state, t_ns);
    if (!waited && state <= GPU_STATE_READY)
        gpu_life_count(ledger, request, true);
    gpu_life_tell_stage(ledger, request, gpu_life_stage(request), t_ns);
}

void
gpu_life_resume(struct vg_gpu_ledger *ledger, uint32_t index, enum gpu_state state)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    ledger->stats.discontinuities++;
    gpu_life_end_known(ledger, request);
    request->has_waited = request->has_gap = true;
    gpu_life_enter(request, state, ledger->now);
    gpu_life_count(ledger, request, true);
    gpu_life_tell_now(ledger, index);
}

/* ---- user and engine ---- */

static void
gpu_life_move(struct vg_gpu_ledger *ledger, uint32_t index, uint32_t user)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    const bool counts = gpu_is_waiting(request) && request->doubt == GPU_DOUBT_NONE;

    if (request->user != GPU_NO_INDEX) {
        struct gpu_user *from = gpu_user_at(ledger, request->user);
        gpu_list_remove(&ledger->requests, &from->open, GPU_LIST_USER, index);
        if (counts)
            gpu_meter_wait_over(&from->meter, gpu_is_passed(request));
    }
    request->user = user;
    if (user != GPU_NO_INDEX) {
        struct gpu_user *to = gpu_user_at(ledger, user);
        gpu_list_append(&ledger->requests, &to->open, GPU_LIST_USER, index);
        if (counts)
            gpu_meter_wait(&to->meter, gpu_is_passed(request), ledger->now);
    }
}

void
gpu_life_set_user(struct vg_gpu_ledger *ledger, uint32_t index, uint32_t user)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    const bool had_none = request->user == GPU_NO_INDEX;
    /* Part of what is already counted. */
    const bool has_one_wait =
        request->has_waited && request->exec_ns == 0 && !request->has_gap && had_none;

    if (request->user == user)
        return;
    if (!had_none && !request->has_waited && ledger->watch_stages)
        gpu_life_tell_observer(ledger, request, VG_GPU_STAGE_OVER, ledger->now, true);
    gpu_life_move(ledger, index, user);
    if (!had_none && !request->has_waited) {
        gpu_life_tell_anew(ledger, request);
        return;
    }
    if (has_one_wait) {
        struct gpu_place place = gpu_life_place(ledger, request);
        place.meters[0] = NULL;
        request->has_waited = false;
        gpu_life_add_waits(ledger, request, &place,
                           gpu_is_waiting(request) ? request->state_ns : request->run_ns,
                           GPU_WAIT_DRIVER);
        request->has_waited = true;
    }
    gpu_life_tell_place(ledger, request, !request->has_waited || has_one_wait);
}

void
gpu_life_set_vgpu(struct vg_gpu_ledger *ledger, uint32_t index, int32_t vgpu)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    gpu_life_count_vgpu(ledger, request, false);
    request->vgpu = vgpu;
    gpu_life_count_vgpu(ledger, request, true);
}

void
gpu_life_set_engine(struct vg_gpu_ledger *ledger, uint32_t index, uint32_t engine)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    uint32_t owner =
        request->user == GPU_NO_INDEX ? GPU_NO_INDEX : gpu_user_at(ledger, request->user)->owner;
    const bool is_given = request->given != GPU_NOT_GIVEN;

    const bool is_passed = gpu_is_passed(request);

    gpu_hardware_leave(ledger, index, false);
    gpu_life_move(ledger, index, GPU_NO_INDEX);
    gpu_life_count(ledger, request, false);
    if (!is_passed)
        gpu_pass_leave(ledger, index);
    gpu_request_set_engine(&ledger->requests, index, engine);
    if (!is_passed)
        gpu_pass_enter(ledger, index);
    gpu_life_count(ledger, request, true);
    gpu_life_move(ledger, index, gpu_ledger_user(ledger, owner, engine));
    gpu_life_tell_place(ledger, request, !request->has_waited);
    if (is_given)
        gpu_hardware_enter(ledger, index);
}

void
gpu_life_set_queued(struct vg_gpu_ledger *ledger, uint32_t index, int64_t queued_ns)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    const struct gpu_place place = gpu_life_place(ledger, request);

    request->queued_ns = queued_ns;
    const struct gpu_interval wait = {queued_ns, request->submitted_ns};
    if (!request->has_waited || request->submitted_ns == VG_TIME_UNKNOWN ||
        queued_ns == VG_TIME_UNKNOWN)
        return;
    gpu_life_add_wait(ledger, &place, GPU_WAIT_VGPU, wait);
    gpu_life_add_active(ledger, &place, wait);
}

/* ---- the end ---- */

static void
gpu_life_forget(struct vg_gpu_ledger *ledger, uint32_t index)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    gpu_hardware_leave(ledger, index, false);
    gpu_pass_leave(ledger, index);
    if (request->user != GPU_NO_INDEX)
        gpu_list_remove(&ledger->requests, &gpu_user_at(ledger, request->user)->open, GPU_LIST_USER,
                        index);
    gpu_request_free(&ledger->requests, index);
}

void
gpu_life_close(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    gpu_life_doubt(ledger, index, GPU_DOUBT_PASSED);
    gpu_open_close(ledger, request);
    gpu_life_tell_stage(ledger, request, VG_GPU_STAGE_OVER, ledger->now);
    gpu_life_forget(ledger, index);
}

void
gpu_life_drop(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (request->doubt == GPU_DOUBT_NONE)
        gpu_life_end_known(ledger, request);
    gpu_life_tell_stage(ledger, request, VG_GPU_STAGE_OVER, ledger->now);
    gpu_life_forget(ledger, index);
    ledger->stats.dropped++;
}

void
gpu_life_cancel(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (request->doubt != GPU_DOUBT_NONE) {
        gpu_life_close(ledger, index);
        return;
    }
    gpu_life_end_wait(ledger, request, ledger->now, gpu_wait_next(ledger, request));
    gpu_life_tell_stage(ledger, request, VG_GPU_STAGE_OVER, ledger->now);
    gpu_hardware_leave(ledger, index, true);
    gpu_life_forget(ledger, index);
}

void
gpu_life_merge(struct vg_gpu_ledger *ledger, uint32_t index, int64_t since_ns)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    gpu_life_count(ledger, request, false);
    if (ledger->watch_stages)
        gpu_life_tell_observer(ledger, request, VG_GPU_STAGE_OVER, since_ns,
                               since_ns == VG_TIME_UNKNOWN);
    gpu_life_forget(ledger, index);
}

/* Ends a request that never had a record of running. On an engine that never has such records, the
 * request ran since it was submitted, or since the engine finished the previous request, whichever
 * is later. */
static void
gpu_life_end_unseen_run(struct vg_gpu_ledger *ledger, struct gpu_request *request)
{
    const struct gpu_engine *engine = gpu_engine_at(ledger, request->engine);
    int64_t since_ns = MAX(request->state_ns, engine->last_end_ns);

    if (engine->told_ops & 1U << VG_GPU_RUNNING) {
        gpu_life_end_known(ledger, request);
        return;
    }
    gpu_life_end_wait(ledger, request, since_ns, GPU_WAIT_DRIVER);
    gpu_life_add_run(ledger, request, (struct gpu_interval){since_ns, ledger->now});
    request->run_ns = since_ns;
    gpu_life_tell_stage(ledger, request, VG_GPU_STAGE_RUNNING, since_ns);
}

static void
gpu_life_report_end(struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    if (ledger->watch || ledger->kept) {
        const struct vg_gpu_life life = gpu_life_tell(ledger, request, ledger->now);
        if (ledger->watch)
            ledger->watch(ledger->watch_data, &life);
        if (ledger->kept)
            gpu_kept_add(ledger->kept, &life);
    }
    gpu_life_tell_stage(ledger, request, VG_GPU_STAGE_OVER, ledger->now);
}

/* Ends a request that is done now. */
static void
gpu_life_complete(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    const struct gpu_place place = gpu_life_place(ledger, request);
    const bool is_merged = request->state == GPU_STATE_MERGED;

    if (request->doubt == GPU_DOUBT_PASSED)
        gpu_life_tell_stage(ledger, request, gpu_life_stage_of(request), request->state_ns);
    if (gpu_is_waiting(request))
        gpu_life_end_unseen_run(ledger, request);
    else if (is_merged)
        gpu_life_add_active(ledger, &place, (struct gpu_interval){request->state_ns, ledger->now});
    else
        gpu_life_add_run(ledger, request, (struct gpu_interval){request->state_ns, ledger->now});
    for (int i = 0; i < 2 && place.meters[i]; i++)
        gpu_meter_done(place.meters[i], request->queued_ns, ledger->now, is_merged,
                       ledger->begin_ns);
    gpu_engine_at(ledger, request->engine)->last_end_ns = ledger->now;
    ledger->stats.done++;
    gpu_life_report_end(ledger, request);
    gpu_hardware_leave(ledger, index, true);
    gpu_life_forget(ledger, index);
}

/* Ends a request after a later one of its context, so it is done, too. It ended by now or, if the
 * driver gives the hardware several at the same time, together with the later one. */
static void
gpu_life_pass(struct vg_gpu_ledger *ledger, uint32_t index, const struct gpu_request *done,
              bool coalesces)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (request->doubt == GPU_DOUBT_LOST) {
        gpu_life_close(ledger, index);
    } else if (request->state == GPU_STATE_MERGED) {
        gpu_life_complete(ledger, index);
    } else if (coalesces && gpu_is_waiting(request)) {
        if (done->state == GPU_STATE_RUNNING)
            gpu_life_set_state(ledger, index, GPU_STATE_MERGED,
                               MAX(gpu_life_known_ns(request), done->state_ns));
        gpu_life_complete(ledger, index);
    } else {
        gpu_life_doubt(ledger, index, GPU_DOUBT_PASSED);
    }
}

/* Ends the earlier requests of a context, because its fences are done in order. */
static void
gpu_life_pass_earlier(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_requests *all = &ledger->requests;
    const struct gpu_request *done = gpu_request_at(all, index);
    uint32_t first = index, next;

    if (done->context == GPU_NO_INDEX)
        return;
    struct gpu_context *context = gpu_context_at(all, done->context);
    if (!context->any_done || gpu_seqno_is_before(context->last_done, done->seqno))
        context->last_done = done->seqno;
    context->any_done = true;
    /* A request that was passed before has already passed all earlier ones. */
    for (uint32_t prev = done->lists[GPU_LIST_CONTEXT].prev;
         prev != GPU_NO_INDEX && gpu_request_at(all, prev)->doubt != GPU_DOUBT_PASSED;
         prev = gpu_request_at(all, prev)->lists[GPU_LIST_CONTEXT].prev)
        first = prev;
    for (; first != index; first = next) {
        next = gpu_request_at(all, first)->lists[GPU_LIST_CONTEXT].next;
        if (gpu_seqno_is_before(gpu_request_at(all, first)->seqno, done->seqno))
            gpu_life_pass(ledger, first, done, context->coalesces);
    }
}

void
gpu_life_finish(struct vg_gpu_ledger *ledger, uint32_t index)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (request->given != GPU_NOT_GIVEN && request->doubt == GPU_DOUBT_NONE &&
        request->lists[GPU_LIST_HARDWARE].prev != GPU_NO_INDEX)
        gpu_hardware_overtake(ledger, index);
    gpu_life_pass_earlier(ledger, index);
    gpu_pass_earlier(ledger, index);
    /* If the request's own end may be among the records lost in the meantime, this is a second
     * record of it. */
    if (request->doubt == GPU_DOUBT_LOST ||
        (request->doubt == GPU_DOUBT_PASSED && request->doubt_ns <= ledger->lost_ns)) {
        gpu_engine_at(ledger, request->engine)->last_end_ns = ledger->now;
        gpu_hardware_leave(ledger, index, true);
        gpu_life_close(ledger, index);
        return;
    }
    gpu_life_complete(ledger, index);
}

void
gpu_life_retire(struct vg_gpu_ledger *ledger, uint32_t index)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (request->doubt == GPU_DOUBT_NONE &&
        !(gpu_engine_at(ledger, request->engine)->told_ops & 1U << VG_GPU_DONE))
        gpu_life_finish(ledger, index);
    else
        gpu_life_close(ledger, index);
}

/* ---- doubt ---- */

void
gpu_life_doubt(struct vg_gpu_ledger *ledger, uint32_t index, enum gpu_doubt doubt)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (request->doubt != GPU_DOUBT_NONE)
        return;
    gpu_life_end_known(ledger, request);
    gpu_request_set_doubt(&ledger->requests, index, doubt);
    request->doubt_ns = gpu_is_passed(request) ? request->passed_ns : ledger->now;
    gpu_pass_leave(ledger, index);
    if (doubt == GPU_DOUBT_PASSED)
        gpu_hardware_leave(ledger, index, false);
}

void
gpu_life_doubt_all(struct vg_gpu_ledger *ledger)
{
    const struct gpu_requests *all = &ledger->requests;

    while (all->age.first != GPU_NO_INDEX)
        gpu_life_doubt(ledger, all->age.first, GPU_DOUBT_LOST);
}

void
gpu_life_doubt_passed(struct vg_gpu_ledger *ledger)
{
    const struct gpu_requests *all = &ledger->requests;

    while (all->passed.first != GPU_NO_INDEX)
        gpu_life_doubt(ledger, all->passed.first, GPU_DOUBT_PASSED);
}

void
gpu_life_close_old(struct vg_gpu_ledger *ledger)
{
    const struct gpu_requests *all = &ledger->requests;

    while (all->doubt.first != GPU_NO_INDEX &&
           ledger->now - gpu_request_at(all, all->doubt.first)->doubt_ns > KEEP_DOUBT_NS)
        gpu_life_close(ledger, all->doubt.first);
    while (all->passed.first != GPU_NO_INDEX &&
           ledger->now - gpu_request_at(all, all->passed.first)->passed_ns > KEEP_PASSED_NS)
        gpu_life_close(ledger, all->passed.first);
}
