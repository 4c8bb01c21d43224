/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a request, and what is counted of it. It is counted in at most two meters: of its
 * engine, and of its user on that engine; enter_meter() and leave_meter() are the only places where
 * it enters and leaves them.
 */
#include "config.h"

#include <string.h>

#include "model/gpu-ledger-private.h"

/* ---- meters ---- */

/* The wait that ends when a request gets into this state. */
static enum gpu_wait
wait_before(enum gpu_state state)
{
    switch (state) {
    case GPU_STATE_SUBMITTED:
        return GPU_WAIT_VGPU;
    case GPU_STATE_READY:
        return GPU_WAIT_DEPENDENCY;
    case GPU_STATE_QUEUED:
    case GPU_STATE_RUNNING:
    case GPU_STATE_MERGED:
    case GPU_STATE_PASSED:
        break;
    }
    return GPU_WAIT_DRIVER;
}

void
gpu_life_meters(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                struct gpu_meter *ret[2])
{
    ret[0] = &gpu_engine_at(ledger, request->engine)->meter;
    ret[1] = request->user == GPU_NO_INDEX ? NULL : &gpu_user_at(ledger, request->user)->meter;
}

static void
enter_meter(struct gpu_meter *meter, const struct gpu_request *request, int64_t now_ns)
{
    if (gpu_is_waiting(request))
        gpu_meter_wait(meter, gpu_wait_of(request), now_ns);
    else if (request->state == GPU_STATE_RUNNING)
        gpu_meter_run(meter, now_ns);
}

static void
leave_meter(struct gpu_meter *meter, const struct gpu_request *request, int64_t now_ns)
{
    if (gpu_is_waiting(request))
        gpu_meter_wait_over(meter, gpu_wait_of(request), now_ns);
    else if (request->state == GPU_STATE_RUNNING)
        gpu_meter_run_over(meter, now_ns);
}

static void
enter_meters(const struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    enter_meter(&gpu_engine_at(ledger, request->engine)->meter, request, ledger->now);
    if (request->user != GPU_NO_INDEX)
        enter_meter(&gpu_user_at(ledger, request->user)->meter, request, ledger->now);
}

static void
leave_meters(const struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    leave_meter(&gpu_engine_at(ledger, request->engine)->meter, request, ledger->now);
    if (request->user != GPU_NO_INDEX)
        leave_meter(&gpu_user_at(ledger, request->user)->meter, request, ledger->now);
}

int64_t
gpu_life_counted_since(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                       int which)
{
    int64_t since_ns = MAX(request->state_ns, ledger->period_begin);

    return which == 0 ? since_ns : MAX(since_ns, request->user_ns);
}

static void
count_vgpu(struct vg_gpu_ledger *ledger, const struct gpu_request *request, bool more)
{
    if (request->vgpu == VG_NONE || !gpu_is_waiting(request))
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

static enum vg_gpu_stage
stage_of(const struct gpu_request *request)
{
    switch ((enum gpu_state)request->state) {
    case GPU_STATE_QUEUED:
        return VG_GPU_STAGE_QUEUED;
    case GPU_STATE_SUBMITTED:
        return VG_GPU_STAGE_SUBMITTED;
    case GPU_STATE_READY:
        return VG_GPU_STAGE_READY;
    case GPU_STATE_RUNNING:
        return VG_GPU_STAGE_RUNNING;
    case GPU_STATE_MERGED:
    case GPU_STATE_PASSED:
        break;
    }
    return VG_GPU_STAGE_NONE;
}

/* As tell_stage(), to an observer that is there. */
static void
tell_observer(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
              enum vg_gpu_stage stage, int64_t t_ns, bool in_hindsight)
{
    const struct vg_gpu_life life = gpu_life_tell(ledger, request, VG_TIME_UNKNOWN);
    struct vg_gpu_change change = {
        .request = (uint32_t)(request - ledger->requests.requests),
        .stage = stage,
        .t_ns = t_ns,
        .in_hindsight = in_hindsight,
        .device = life.device,
        .engine = life.engine,
        .process = life.process,
        .vgpu = life.vgpu,
        .context = life.context,
        .seqno = life.seqno,
    };
    if (request->user != GPU_NO_INDEX)
        memcpy(change.comm, gpu_owner_at(ledger, gpu_user_at(ledger, request->user)->owner)->comm,
               sizeof(change.comm));
    ledger->watch_stages(ledger->watch_stages_data, &change);
}

static void
tell_stage(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
           enum vg_gpu_stage stage, int64_t t_ns, bool in_hindsight)
{
    if (ledger->watch_stages)
        tell_observer(ledger, request, stage, t_ns, in_hindsight);
}

void
gpu_life_tell_stage(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                    enum vg_gpu_stage stage, int64_t t_ns)
{
    tell_stage(ledger, request, stage, t_ns, false);
}

void
gpu_life_tell_begin(const struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    tell_stage(ledger, request, stage_of(request), MAX(request->state_ns, ledger->period_begin),
               false);
}

void
gpu_life_tell_now(const struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    tell_stage(ledger, request, stage_of(request), ledger->now, false);
}

void
gpu_life_count_in(struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    enter_meters(ledger, request);
    count_vgpu(ledger, request, true);
}

void
gpu_life_count_out(struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    leave_meters(ledger, request);
    count_vgpu(ledger, request, false);
}

static G_NO_INLINE void
recount_wait(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
             enum gpu_state next, int64_t until_ns)
{
    struct gpu_meter *meters[2];

    gpu_life_meters(ledger, request, meters);
    for (int i = 0; i < 2; i++) {
        int64_t ns = until_ns - gpu_life_counted_since(ledger, request, i);
        if (meters[i] && ns > 0)
            gpu_meter_recount_wait(meters[i], gpu_wait_of(request), wait_before(next), ns);
    }
}

void
gpu_life_name_wait(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                   enum gpu_state next, int64_t until_ns)
{
    if (gpu_is_waiting(request) && wait_before(next) != gpu_wait_of(request))
        recount_wait(ledger, request, next, until_ns);
}

void
gpu_life_set_vgpu(struct vg_gpu_ledger *ledger, struct gpu_request *request, int32_t vgpu)
{
    count_vgpu(ledger, request, false);
    request->vgpu = vgpu;
    count_vgpu(ledger, request, true);
}

void
gpu_life_set_state(struct vg_gpu_ledger *ledger, struct gpu_request *request, enum gpu_state state)
{
    const bool waited = gpu_is_waiting(request);

    leave_meters(ledger, request);
    gpu_life_name_wait(ledger, request, state, ledger->now);
    if (waited && state > GPU_STATE_READY)
        count_vgpu(ledger, request, false);
    if (request->state == GPU_STATE_RUNNING)
        request->exec_ns += ledger->now - request->state_ns;
    request->state = (uint8_t)state;
    request->state_ns = ledger->now;
    if (state == GPU_STATE_SUBMITTED)
        request->submitted_ns = ledger->now;
    else if (state == GPU_STATE_READY && request->ready_ns == VG_TIME_UNKNOWN)
        request->ready_ns = ledger->now;
    else if (state == GPU_STATE_RUNNING && request->run_ns == VG_TIME_UNKNOWN)
        request->run_ns = ledger->now;
    enter_meters(ledger, request);
    if (!waited)
        count_vgpu(ledger, request, true);
    gpu_life_tell_now(ledger, request);
}

/* ---- users ---- */

static void
open_for(struct vg_gpu_ledger *ledger, const struct gpu_request *request, uint32_t more)
{
    if (request->user == GPU_NO_INDEX)
        return;
    struct gpu_owner *owner = gpu_owner_at(ledger, gpu_user_at(ledger, request->user)->owner);
    gpu_owner_advance(owner, ledger->now);
    owner->open += more;
}

static void
leave_user(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (request->user == GPU_NO_INDEX)
        return;
    if (request->state != GPU_STATE_PASSED)
        open_for(ledger, request, UINT32_MAX);
    gpu_list_remove(&ledger->requests, &gpu_user_at(ledger, request->user)->open, GPU_LIST_USER,
                    index);
    request->user = GPU_NO_INDEX;
}

/* What the request, which waits for the first time or runs, has waited since since_ns. */
static void
waits_since(const struct vg_gpu_ledger *ledger, const struct gpu_request *request, int64_t since_ns,
            int64_t ret_ns[GPU_WAIT_MAX])
{
    const int64_t began_ns[] = {request->queued_ns, request->submitted_ns, request->ready_ns};
    int64_t stage_ns = VG_TIME_UNKNOWN;

    memset(ret_ns, 0, GPU_WAIT_MAX * sizeof(*ret_ns));
    for (int stage = 0; stage <= GPU_STATE_READY; stage++) {
        if (began_ns[stage] == VG_TIME_UNKNOWN || began_ns[stage] < stage_ns ||
            (request->run_ns != VG_TIME_UNKNOWN && began_ns[stage] > request->run_ns))
            continue;
        int64_t ns = began_ns[stage] - MAX(stage_ns, since_ns);
        if (stage_ns != VG_TIME_UNKNOWN && ns > 0)
            ret_ns[wait_before((enum gpu_state)stage)] += ns;
        stage_ns = began_ns[stage];
    }
    bool waits = gpu_is_waiting(request);
    int64_t until_ns = waits ? ledger->now : request->run_ns;
    if (stage_ns != VG_TIME_UNKNOWN && until_ns > MAX(stage_ns, since_ns))
        ret_ns[waits ? gpu_wait_of(request) : GPU_WAIT_DRIVER] +=
            until_ns - MAX(stage_ns, since_ns);
}

/* Only now it is known whose the request is: what it has waited and run so far was for this user,
 * who does not count it yet. */
static void
credit(struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    struct gpu_meter *meter = &gpu_user_at(ledger, request->user)->meter;
    int64_t waits_ns[GPU_WAIT_MAX];

    gpu_meter_advance(meter, ledger->now);
    waits_since(ledger, request, ledger->period_begin, waits_ns);
    for (int i = 0; i < GPU_WAIT_MAX; i++)
        gpu_meter_add_wait(meter, (enum gpu_wait)i, waits_ns[i]);
    if (request->state == GPU_STATE_RUNNING)
        gpu_meter_ran(meter, MAX(request->run_ns, ledger->period_begin), ledger->now, GPU_WAIT_MAX);
}

/* Has it had no user yet, and is it in its first wait or run? */
static bool
can_be_credited(const struct gpu_request *request)
{
    if (request->user_ns != 0 || request->ran_elsewhere)
        return false;
    return gpu_is_waiting(request) ? request->run_ns == VG_TIME_UNKNOWN
                                   : request->state == GPU_STATE_RUNNING && request->exec_ns == 0;
}

/* The request counts for this user, or from now on for nobody. */
void
gpu_life_set_user(struct vg_gpu_ledger *ledger, uint32_t index, uint32_t user)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (request->user == user || request->state == GPU_STATE_PASSED)
        return;
    bool late = user != GPU_NO_INDEX && can_be_credited(request);
    if (request->user != GPU_NO_INDEX)
        leave_meter(&gpu_user_at(ledger, request->user)->meter, request, ledger->now);
    leave_user(ledger, index);
    request->user = user;
    request->user_ns = late ? VG_TIME_UNKNOWN : ledger->now;
    if (user != GPU_NO_INDEX) {
        gpu_list_append(&ledger->requests, &gpu_user_at(ledger, user)->open, GPU_LIST_USER, index);
        open_for(ledger, request, 1);
        enter_meter(&gpu_user_at(ledger, user)->meter, request, ledger->now);
    }
    if (!late) {
        gpu_life_tell_now(ledger, request);
        return;
    }
    credit(ledger, request);
    tell_stage(ledger, request, stage_of(request), MAX(request->state_ns, ledger->period_begin),
               true);
}

/* It has not run, and no wait of it is behind another one that was cut off. */
static bool
has_waited_once(const struct gpu_request *request)
{
    if (request->exec_ns != 0)
        return false;
    return request->state == GPU_STATE_MERGED ||
           (gpu_is_waiting(request) && request->run_ns == VG_TIME_UNKNOWN);
}

void
gpu_life_set_engine(struct vg_gpu_ledger *ledger, uint32_t index, uint32_t engine)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    struct gpu_meter *from[2], *to[2];
    uint32_t user = request->user;
    int64_t user_ns = request->user_ns;
    const int64_t since_ns[] = {ledger->period_begin, MAX(ledger->period_begin, user_ns)};

    if (request->state == GPU_STATE_PASSED)
        return;
    request->ran_elsewhere = request->ran_elsewhere || request->state == GPU_STATE_RUNNING;
    gpu_life_meters(ledger, request, from);
    gpu_life_set_user(ledger, index, GPU_NO_INDEX);
    gpu_life_count_out(ledger, request);
    gpu_request_set_engine(&ledger->requests, index, engine);
    gpu_life_count_in(ledger, request);
    gpu_life_tell_now(ledger, request);
    if (user != GPU_NO_INDEX)
        gpu_life_set_user(ledger, index,
                          gpu_ledger_user(ledger, gpu_user_at(ledger, user)->owner, engine));
    gpu_life_meters(ledger, request, to);
    if (!has_waited_once(request)) {
        /* What was before stays where it was counted. */
        if (request->state == GPU_STATE_RUNNING)
            request->exec_ns += ledger->now - request->state_ns;
        request->state_ns = ledger->now;
        return;
    }
    tell_stage(ledger, request, stage_of(request), ledger->now, true);
    for (int i = 0; i < 2; i++) {
        int64_t waits_ns[GPU_WAIT_MAX];
        waits_since(ledger, request, since_ns[i], waits_ns);
        for (int k = 0; k < GPU_WAIT_MAX && from[i] && to[i]; k++) {
            gpu_meter_add_wait(from[i], (enum gpu_wait)k, -waits_ns[k]);
            gpu_meter_add_wait(to[i], (enum gpu_wait)k, waits_ns[k]);
        }
    }
    if (to[1])
        request->user_ns = user_ns;
}

void
gpu_life_queued_before(struct vg_gpu_ledger *ledger, struct gpu_request *request, int64_t queued_ns)
{
    struct gpu_meter *meters[2];

    ledger->stats.discontinuities++;
    gpu_life_meters(ledger, request, meters);
    for (int i = 0; i < 2; i++) {
        int64_t since_ns =
            i == 0 ? ledger->period_begin : MAX(ledger->period_begin, request->user_ns);
        int64_t ns = request->queued_ns - MAX(queued_ns, since_ns);
        if (meters[i] && ns > 0)
            gpu_meter_add_wait(meters[i], GPU_WAIT_VGPU, ns);
    }
    request->queued_ns = queued_ns;
    /* To the observer its life begins anew. */
    int64_t since_ns = MAX(ledger->period_begin, request->user_ns);
    tell_stage(ledger, request, VG_GPU_STAGE_OVER, MAX(request->submitted_ns, since_ns), true);
    tell_stage(ledger, request, VG_GPU_STAGE_QUEUED, MAX(queued_ns, since_ns), false);
    tell_stage(ledger, request, VG_GPU_STAGE_SUBMITTED, MAX(request->submitted_ns, since_ns),
               false);
    gpu_life_tell_begin(ledger, request);
}

/* ---- the end ---- */

struct vg_gpu_life
gpu_life_tell(const struct vg_gpu_ledger *ledger, const struct gpu_request *request, int64_t end_ns)
{
    const struct gpu_engine *engine = gpu_engine_at(ledger, request->engine);
    struct vg_gpu_life life = {
        .device = engine->device,
        .engine = engine->name,
        .process = VG_PROCESS_NO_ID,
        .vgpu = request->vgpu,
        .seqno = request->seqno,
        .queued_ns = request->queued_ns,
        .submitted_ns = request->submitted_ns,
        .ready_ns = request->ready_ns,
        .run_ns = request->run_ns,
        .end_ns = end_ns,
        .exec_ns = request->exec_ns,
        .coalesced = request->state == GPU_STATE_MERGED,
    };

    if (request->context != GPU_NO_INDEX)
        life.context = gpu_context_at(&ledger->requests, request->context)->number;
    if (request->user != GPU_NO_INDEX)
        life.process = gpu_owner_at(ledger, gpu_user_at(ledger, request->user)->owner)->process;
    return life;
}

/* Forgets a request, whatever it was doing. */
void
gpu_life_forget(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    struct gpu_engine *engine = gpu_engine_at(ledger, request->engine);

    if (engine->held == index)
        engine->held = GPU_NO_INDEX;
    gpu_life_tell_stage(ledger, request, VG_GPU_STAGE_OVER, ledger->now);
    leave_user(ledger, index);
    gpu_request_free(&ledger->requests, index);
}

void
gpu_life_drop(struct vg_gpu_ledger *ledger, uint32_t index)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (request->state == GPU_STATE_PASSED) {
        gpu_life_retire(ledger, index);
        return;
    }
    gpu_life_count_out(ledger, request);
    if (request->user != GPU_NO_INDEX && request->id_space == VG_GPU_ID_WORKLOAD &&
        request->state == GPU_STATE_QUEUED)
        gpu_user_at(ledger, request->user)->dropped++;
    gpu_life_forget(ledger, index);
    ledger->stats.dropped++;
}

static int64_t
latency_of(const struct gpu_request *request, int64_t end_ns)
{
    return end_ns - request->queued_ns;
}

static void
record_end(const struct vg_gpu_ledger *ledger, struct gpu_meter *meter,
           const struct gpu_request *request, int64_t end_ns)
{
    bool known = request->queued_ns != VG_TIME_UNKNOWN;

    meter->total.requests++;
    meter->total.coalesced += request->state == GPU_STATE_MERGED;
    meter->window_partial += !known || request->queued_ns < ledger->window_begin;
    if (known && request->queued_ns >= ledger->period_begin)
        vg_histogram_add(&meter->window_latency, latency_of(request, end_ns));
    else
        meter->total.partial++;
}

/* The request is done now: its figures are complete, but it is still there. */
static void
complete(struct vg_gpu_ledger *ledger, struct gpu_request *request)
{
    struct gpu_meter *meters[2];

    gpu_life_count_out(ledger, request);
    if (request->state == GPU_STATE_RUNNING) {
        request->exec_ns += ledger->now - request->state_ns;
        gpu_missed_learn_last_run(ledger, request);
    } else if (gpu_is_waiting(request)) {
        gpu_missed_begin(ledger, request);
    }
    gpu_life_meters(ledger, request, meters);
    for (int i = 0; i < 2 && meters[i]; i++)
        record_end(ledger, meters[i], request, ledger->now);
    gpu_engine_at(ledger, request->engine)->last_end_ns = ledger->now;
    if (request->user != GPU_NO_INDEX)
        gpu_user_at(ledger, request->user)->last_end_ns = ledger->now;
}

/* Is the request of this number one of those that are kept? By chance, as VMs that take turns would
 * each have every second one; the same each time (the mixer of splitmix64). The first always is. */
static bool
is_kept(const struct vg_gpu_ledger *ledger, uint64_t number)
{
    uint64_t mixed = number;

    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    mixed ^= mixed >> 31;
    return (mixed & (ledger->ended_every - 1)) == 0;
}

static uint32_t
add_left_out(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

/* About half of those that were kept go. */
static void
thin_out(struct vg_gpu_ledger *ledger)
{
    GArray *ended = ledger->ended;
    uint32_t left_out = 0;
    guint n = 0;

    ledger->ended_every *= 2;
    for (guint i = 0; i < ended->len; i++) {
        struct gpu_ended *one = &g_array_index(ended, struct gpu_ended, i);
        left_out = add_left_out(left_out, one->left_out);
        if (!is_kept(ledger, one->number)) {
            left_out = add_left_out(left_out, 1);
            continue;
        }
        one->left_out = left_out;
        left_out = 0;
        g_array_index(ended, struct gpu_ended, n++) = *one;
    }
    g_array_set_size(ended, n);
    ledger->ended_left_out = add_left_out(ledger->ended_left_out, left_out);
}

/* Where there is no room for all requests of a window, those that are kept are from all of it. */
static void
keep(struct vg_gpu_ledger *ledger, const struct vg_gpu_life *life)
{
    const uint64_t number = ledger->n_ended++;

    while (is_kept(ledger, number) && ledger->ended->len == VG_WINDOW_GPU_REQUESTS_MAX)
        thin_out(ledger);
    if (!is_kept(ledger, number)) {
        ledger->ended_left_out = add_left_out(ledger->ended_left_out, 1);
        return;
    }
    const struct gpu_ended one = {
        .life = *life, .number = number, .left_out = ledger->ended_left_out};
    ledger->ended_left_out = 0;
    g_array_append_val(ledger->ended, one);
}

static void
tell_and_forget(struct vg_gpu_ledger *ledger, uint32_t index, int64_t end_ns)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (ledger->watch || ledger->ended) {
        const struct vg_gpu_life life = gpu_life_tell(ledger, request, end_ns);
        if (ledger->watch)
            ledger->watch(ledger->watch_data, &life);
        if (ledger->ended)
            keep(ledger, &life);
    }
    gpu_life_forget(ledger, index);
}

/* A request whose end is taken from that of a later one: it may still tell when it was. */
static void
pass(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    complete(ledger, request);
    open_for(ledger, request, UINT32_MAX);
    request->state = GPU_STATE_PASSED;
    request->state_ns = ledger->now;
    gpu_life_tell_stage(ledger, request, VG_GPU_STAGE_NONE, ledger->now);
}

/* Fences of a context are done in order: all before this one are. What was not seen running by
 * itself ran with it, if it was. */
static void
pass_earlier(struct vg_gpu_ledger *ledger, const struct gpu_context *context,
             const struct gpu_request *done)
{
    uint32_t index = context->open.first, next;

    for (; index != GPU_NO_INDEX; index = next) {
        struct gpu_request *request = gpu_request_at(&ledger->requests, index);
        next = request->lists[GPU_LIST_CONTEXT].next;
        if (!gpu_seqno_is_before(request->seqno, done->seqno))
            break;
        if (request->state == GPU_STATE_PASSED) {
            tell_and_forget(ledger, index, request->state_ns);
            continue;
        }
        if (request->state == GPU_STATE_RUNNING) {
            pass(ledger, index);
            continue;
        }
        if (gpu_is_waiting(request) && done->state == GPU_STATE_RUNNING)
            gpu_life_set_state(ledger, request, GPU_STATE_MERGED);
        complete(ledger, request);
        tell_and_forget(ledger, index, ledger->now);
    }
}

static void
note_done(struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    if (request->context == GPU_NO_INDEX)
        return;
    struct gpu_context *context = gpu_context_at(&ledger->requests, request->context);
    if (!context->any_done || gpu_seqno_is_before(context->last_done, request->seqno))
        context->last_done = request->seqno;
    context->any_done = true;
    pass_earlier(ledger, context, request);
}

/* Is the latency of a request that has passed in the window that is open? */
static bool
has_latency(const struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    return request->state_ns >= ledger->window_begin && request->queued_ns >= ledger->period_begin;
}

static void
change_latency(struct gpu_meter *meter, int64_t from_ns, int64_t to_ns)
{
    vg_histogram_remove(&meter->window_latency, from_ns);
    vg_histogram_add(&meter->window_latency, to_ns);
}

/* Its own end comes after that of a later request of its context. */
static void
end_passed(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    struct gpu_meter *meters[2];

    gpu_life_meters(ledger, request, meters);
    for (int i = 0; i < 2 && meters[i]; i++) {
        gpu_meter_ran(meters[i], MAX(request->state_ns, ledger->period_begin), ledger->now,
                      GPU_WAIT_MAX);
        if (has_latency(ledger, request))
            change_latency(meters[i], latency_of(request, request->state_ns),
                           latency_of(request, ledger->now));
    }
    request->exec_ns += ledger->now - request->state_ns;
    gpu_life_tell_stage(ledger, request, VG_GPU_STAGE_RUNNING,
                        MAX(request->state_ns, ledger->period_begin));
    tell_and_forget(ledger, index, ledger->now);
}

/* Mainline GVT-g does not tell the device of its interrupts. */
static void
note_last_context(struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    const uint16_t devices[] = {request->device, VG_NAME_NONE};

    for (size_t i = 0; i < G_N_ELEMENTS(devices); i++) {
        struct gpu_device *device = &ledger->devices[devices[i]];
        device->last_context = request->context;
        device->last_number = gpu_context_at(&ledger->requests, request->context)->number;
    }
}

/* ---- requests of which GVT-g says too late whose they are ---- */

/* It is done, the driver told of it as submitted by GVT-g, and GVT-g did not say for which vGPU. */
static bool
is_to_be_named(const struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    if (!ledger->has_workloads || request->context == GPU_NO_INDEX ||
        request->user != GPU_NO_INDEX || request->id_space != VG_GPU_ID_NONE ||
        request->state == GPU_STATE_MERGED || request->queued_ns == VG_TIME_UNKNOWN ||
        request->queued_ns != request->submitted_ns)
        return false;
    const struct gpu_context *context = gpu_context_at(&ledger->requests, request->context);
    return context->of_gvt && context->vgpu == VG_NONE;
}

static void
hold(struct vg_gpu_ledger *ledger, uint32_t index)
{
    pass(ledger, index);
    gpu_engine_at(ledger, gpu_request_at(&ledger->requests, index)->engine)->held = index;
}

static void
let_go_of_held(struct vg_gpu_ledger *ledger, uint32_t engine)
{
    uint32_t held = gpu_engine_at(ledger, engine)->held;

    if (held != GPU_NO_INDEX)
        tell_and_forget(ledger, held, gpu_request_at(&ledger->requests, held)->state_ns);
}

void
gpu_life_let_go(struct vg_gpu_ledger *ledger)
{
    for (uint32_t i = 0; i < ledger->engines->len; i++)
        let_go_of_held(ledger, i);
}

/* The workload is still in the queue as far as is known: can it be the request that its engine was
 * done with last? */
static bool
is_held(const struct vg_gpu_ledger *ledger, const struct gpu_request *workload)
{
    const struct gpu_engine *engine = gpu_engine_at(ledger, workload->engine);

    if (engine->held == GPU_NO_INDEX || workload->state != GPU_STATE_QUEUED ||
        workload->id_space != VG_GPU_ID_WORKLOAD || workload->user == GPU_NO_INDEX ||
        workload->user_ns != VG_TIME_UNKNOWN)
        return false;
    const struct gpu_request *held = gpu_request_at(&ledger->requests, engine->held);
    return held->device == workload->device && held->state_ns == engine->last_end_ns &&
           workload->queued_ns >= ledger->period_begin &&
           workload->queued_ns <= held->submitted_ns && held->run_ns >= held->submitted_ns &&
           gpu_context_at(&ledger->requests, held->context)->vgpu == VG_NONE;
}

/* What the held request has waited and run, which its engine has counted, counts for its user. */
static void
credit_held(struct vg_gpu_ledger *ledger, const struct gpu_request *held)
{
    struct gpu_meter *meter = &gpu_user_at(ledger, held->user)->meter;
    int64_t waits_ns[GPU_WAIT_MAX];

    gpu_meter_advance(meter, ledger->now);
    waits_since(ledger, held, ledger->period_begin, waits_ns);
    waits_ns[GPU_WAIT_DRIVER] += MAX(held->state_ns - held->run_ns - held->exec_ns, 0);
    for (int i = 0; i < GPU_WAIT_MAX; i++)
        gpu_meter_add_wait(meter, (enum gpu_wait)i, waits_ns[i]);
    gpu_meter_ran(meter, ledger->now - held->exec_ns, ledger->now, GPU_WAIT_MAX);
}

/* The workload has waited until the held request was submitted, and then was that one. */
static void
name_held(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_request *workload = gpu_request_at(&ledger->requests, index);
    uint32_t held_index = gpu_engine_at(ledger, workload->engine)->held;
    struct gpu_request *held = gpu_request_at(&ledger->requests, held_index);
    struct gpu_context *context = gpu_context_at(&ledger->requests, held->context);
    struct gpu_meter *meters[2];

    ledger->stats.discontinuities++;
    gpu_life_count_out(ledger, workload);
    gpu_life_meters(ledger, workload, meters);
    for (int i = 0; i < 2; i++)
        gpu_meter_add_wait(meters[i], GPU_WAIT_VGPU, held->submitted_ns - ledger->now);
    context->vgpu = held->vgpu = workload->vgpu;
    context->owner = gpu_user_at(ledger, workload->user)->owner;
    held->user = workload->user;
    held->user_ns = VG_TIME_UNKNOWN;
    gpu_list_append(&ledger->requests, &gpu_user_at(ledger, held->user)->open, GPU_LIST_USER,
                    held_index);
    credit_held(ledger, held);
    if (has_latency(ledger, held))
        change_latency(meters[0], latency_of(held, held->state_ns),
                       held->state_ns - workload->queued_ns);
    held->queued_ns = workload->queued_ns;
    record_end(ledger, meters[1], held, held->state_ns);
    gpu_user_at(ledger, held->user)->last_end_ns = held->state_ns;
    gpu_life_tell_stage(ledger, workload, VG_GPU_STAGE_OVER, held->submitted_ns);
    gpu_life_forget(ledger, index);
    tell_stage(ledger, held, VG_GPU_STAGE_NONE, held->state_ns, true);
    tell_and_forget(ledger, held_index, held->state_ns);
}

bool
gpu_life_name_held(struct vg_gpu_ledger *ledger, uint32_t workload, uint32_t held)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, workload);

    if (gpu_engine_at(ledger, request->engine)->held != held || !is_held(ledger, request))
        return false;
    name_held(ledger, workload);
    return true;
}

void
gpu_life_finish(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (gpu_engine_at(ledger, request->engine)->held == index)
        return;
    if (request->state == GPU_STATE_PASSED) {
        end_passed(ledger, index);
        return;
    }
    if (is_held(ledger, request)) {
        name_held(ledger, index);
        return;
    }
    let_go_of_held(ledger, request->engine);
    note_done(ledger, request);
    if (is_to_be_named(ledger, request)) {
        hold(ledger, index);
        note_last_context(ledger, request);
        return;
    }
    complete(ledger, request);
    if (request->context != GPU_NO_INDEX && request->user == GPU_NO_INDEX)
        note_last_context(ledger, request);
    tell_and_forget(ledger, index, ledger->now);
}

void
gpu_life_retire(struct vg_gpu_ledger *ledger, uint32_t index)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (request->state == GPU_STATE_PASSED)
        tell_and_forget(ledger, index, request->state_ns);
    else
        gpu_life_finish(ledger, index);
}

void
gpu_life_undo(struct vg_gpu_ledger *ledger, uint32_t index)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    struct gpu_meter *meters[2];
    int64_t waits_ns[GPU_WAIT_MAX];

    gpu_life_meters(ledger, request, meters);
    gpu_life_count_out(ledger, request);
    for (int i = 0; i < 2 && meters[i] && has_waited_once(request); i++) {
        waits_since(ledger, request,
                    i == 0 ? ledger->period_begin : MAX(ledger->period_begin, request->user_ns),
                    waits_ns);
        for (int k = 0; k < GPU_WAIT_MAX; k++)
            gpu_meter_add_wait(meters[i], (enum gpu_wait)k, -waits_ns[k]);
    }
    tell_stage(ledger, request, VG_GPU_STAGE_OVER, ledger->now, has_waited_once(request));
    gpu_life_forget(ledger, index);
}

static void
cancel_one(struct vg_gpu_ledger *ledger, uint32_t index)
{
    gpu_life_count_out(ledger, gpu_request_at(&ledger->requests, index));
    gpu_life_forget(ledger, index);
}

void
gpu_life_cancel(struct vg_gpu_ledger *ledger, uint32_t index)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    uint32_t other = GPU_NO_INDEX;

    if (request->id_space == VG_GPU_ID_WORKLOAD && request->user != GPU_NO_INDEX)
        other = gpu_user_at(ledger, request->user)->open.first;
    while (other != GPU_NO_INDEX && other != index) {
        const struct gpu_request *before = gpu_request_at(&ledger->requests, other);
        uint32_t next = before->lists[GPU_LIST_USER].next;
        if (before->id_space == VG_GPU_ID_WORKLOAD && before->vgpu == request->vgpu &&
            before->state == GPU_STATE_QUEUED && before->queued_ns <= request->queued_ns) {
            ledger->stats.discontinuities++;
            gpu_user_at(ledger, request->user)->dropped++;
            cancel_one(ledger, other);
        }
        other = next;
    }
    cancel_one(ledger, index);
}
