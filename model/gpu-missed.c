/* SPDX-License-Identifier: Apache-2.0
 *
 * What is made of records that are missed: what they would have told is estimated by what was told
 * of other requests. It is about workloads of vGPUs, of which both GVT-g and the driver tell, and
 * which take turns; of other requests there is less to go by.
 */
#include "config.h"

#include "model/gpu-ledger-private.h"

/* Requests of a user that are looked at for the first one that is in the queue: those before it are
 * on the engine. */
#define LOOKS_MAX 64

static bool
is_users_workload(const struct gpu_request *request)
{
    return request->user != GPU_NO_INDEX && request->id_space == VG_GPU_ID_WORKLOAD;
}

/* ---- that it was queued ---- */

int64_t
gpu_missed_next_queued_ns(const struct vg_gpu_ledger *ledger, const struct gpu_user *user)
{
    uint32_t index = user->open.first;

    for (int looks = 0; index != GPU_NO_INDEX && looks < LOOKS_MAX; looks++) {
        const struct gpu_request *request = gpu_request_at(&ledger->requests, index);
        if (request->id_space == VG_GPU_ID_WORKLOAD && request->state == GPU_STATE_QUEUED)
            return request->queued_ns;
        index = request->lists[GPU_LIST_USER].next;
    }
    return ledger->now;
}

/* GVT-g submits the next workload in the queue so long after the engine was done with one, or
 * earlier: a thread is to wake up and to copy what the engine is to do. */
#define SUBMIT_LAG_NS 100000

/* Nothing of the user's was done when this was submitted and made room for it, and nobody else had
 * the engine since then. */
static bool
is_lone(const struct vg_gpu_ledger *ledger, const struct gpu_user *user, int64_t submitted_ns)
{
    const struct gpu_engine *engine = gpu_engine_at(ledger, user->engine);

    return user->last_end_ns != VG_TIME_UNKNOWN &&
           submitted_ns - user->last_end_ns > SUBMIT_LAG_NS &&
           engine->last_end_ns <= user->last_end_ns && engine->last_off_ns <= user->last_end_ns;
}

/* Workloads wait about as long as the one before; if there was none, as long as such ones do. */
int64_t
gpu_missed_queued_ns(const struct vg_gpu_ledger *ledger, const struct gpu_user *user,
                     const struct gpu_submission *before, int64_t submitted_ns, int64_t next_ns)
{
    int64_t wait_ns = before->wait_ns;

    if (is_lone(ledger, user, submitted_ns) && user->lone_waits.n >= GPU_SPREAD_MIN)
        wait_ns = gpu_spread_mean(&user->lone_waits);
    return MIN(MAX(submitted_ns - wait_ns, before->queued_ns), next_ns);
}

void
gpu_missed_learn_submission(const struct vg_gpu_ledger *ledger, struct gpu_user *user, int32_t vgpu,
                            int64_t queued_ns, int64_t now_ns)
{
    if (is_lone(ledger, user, now_ns))
        gpu_spread_add(&user->lone_waits, now_ns - queued_ns);
    user->before = user->last;
    user->last = (struct gpu_submission){
        .vgpu = vgpu,
        .queued_ns = queued_ns,
        .wait_ns = now_ns - queued_ns,
    };
}

/* ---- turns: that it was taken off, or ran again ---- */

/* How long a turn of the workload is; 0: it has none, or none is known. */
static int64_t
turn_of(const struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    return is_users_workload(request) ? gpu_spread_mean(&gpu_user_at(ledger, request->user)->turns)
                                      : 0;
}

/* A workload that is counted as running was taken off after that long, which was missed. */
static void
cut_turn(struct vg_gpu_ledger *ledger, struct gpu_request *request, int64_t turn_ns)
{
    int64_t over_ns = vg_time_sum(request->state_ns, turn_ns);
    struct gpu_meter *meters[2];

    gpu_life_meters(ledger, request, meters);
    for (int i = 0; i < 2; i++) {
        if (meters[i])
            gpu_meter_ran_less(meters[i], MAX(over_ns, gpu_life_counted_since(ledger, request, i)),
                               ledger->now, GPU_WAIT_DRIVER);
    }
    int64_t told_ns = MAX(over_ns, gpu_life_counted_since(ledger, request, 1));
    request->exec_ns += turn_ns;
    request->state_ns = ledger->now;
    if (told_ns < ledger->now)
        gpu_life_tell_stage(ledger, request, VG_GPU_STAGE_READY, told_ns);
}

/* A request that was never taken off has no turns: it is told twice. */
void
gpu_missed_off_and_on(struct vg_gpu_ledger *ledger, struct gpu_request *request)
{
    int64_t turn_ns = turn_of(ledger, request);

    if (turn_ns == 0 || turn_ns >= ledger->now - request->state_ns)
        return;
    cut_turn(ledger, request, turn_ns);
    ledger->stats.discontinuities++;
    gpu_life_tell_now(ledger, request);
}

void
gpu_missed_off(struct vg_gpu_ledger *ledger, struct gpu_request *request)
{
    int64_t most_ns = ledger->now - request->state_ns;
    int64_t turn_ns = turn_of(ledger, request);

    ledger->stats.discontinuities++;
    if (turn_ns > 0) {
        turn_ns = gpu_spread_first_part(most_ns, &gpu_user_at(ledger, request->user)->turns,
                                        &gpu_engine_at(ledger, request->engine)->pauses, turn_ns);
        if (turn_ns < most_ns)
            cut_turn(ledger, request, turn_ns);
    }
    gpu_life_set_state(ledger, request, GPU_STATE_READY);
}

/* ---- that it began to run ---- */

/* A request that is in no meter and is counted as waiting has run since then. */
static void
ran_since(struct vg_gpu_ledger *ledger, struct gpu_request *request, int64_t since_ns)
{
    struct gpu_meter *meters[2];

    gpu_life_meters(ledger, request, meters);
    gpu_life_name_wait(ledger, request, GPU_STATE_RUNNING, since_ns);
    for (int i = 0; i < 2; i++) {
        if (meters[i])
            gpu_meter_ran(meters[i], MAX(since_ns, gpu_life_counted_since(ledger, request, i)),
                          ledger->now, gpu_wait_of(request));
    }
    if (request->run_ns == VG_TIME_UNKNOWN)
        request->run_ns = since_ns;
    request->exec_ns += ledger->now - since_ns;
    gpu_life_tell_stage(ledger, request, VG_GPU_STAGE_RUNNING,
                        MAX(since_ns, gpu_life_counted_since(ledger, request, 1)));
}

/* Since when a request that waits could have run. */
static int64_t
could_run_since(const struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    const struct gpu_engine *engine = gpu_engine_at(ledger, request->engine);
    int64_t since_ns = MAX(request->state_ns, engine->last_end_ns);

    return request->id_space == VG_GPU_ID_WORKLOAD ? MAX(since_ns, engine->last_off_ns) : since_ns;
}

/* It is done or taken off now, and nobody saw it begin. Returns since when it is taken to have run.
 */
static int64_t
ran_since_about(const struct vg_gpu_ledger *ledger, const struct gpu_request *request, bool is_done)
{
    int64_t most_ns = ledger->now - could_run_since(ledger, request);
    int64_t turn_ns = turn_of(ledger, request);
    bool is_turn = turn_ns > 0 && (!is_done || request->exec_ns > 0);
    int64_t ns = is_turn ? MIN(most_ns, turn_ns) : most_ns;

    if (is_users_workload(request)) {
        const struct gpu_user *user = gpu_user_at(ledger, request->user);
        ns = gpu_spread_first_part(most_ns, is_done ? &user->last_runs : &user->turns,
                                   &user->begins, ns);
    }
    return ledger->now - ns;
}

static void
note_off(struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    if (request->id_space == VG_GPU_ID_WORKLOAD)
        gpu_engine_at(ledger, request->engine)->last_off_ns = ledger->now;
}

void
gpu_missed_begin_of_turn(struct vg_gpu_ledger *ledger, struct gpu_request *request)
{
    if (!gpu_is_waiting(request) || turn_of(ledger, request) == 0)
        return;
    ledger->stats.discontinuities++;
    gpu_life_count_out(ledger, request);
    ran_since(ledger, request, ran_since_about(ledger, request, false));
    note_off(ledger, request);
    request->state = GPU_STATE_READY;
    request->state_ns = ledger->now;
    gpu_life_count_in(ledger, request);
    gpu_life_tell_now(ledger, request);
}

void
gpu_missed_begin(struct vg_gpu_ledger *ledger, struct gpu_request *request)
{
    ran_since(ledger, request, ran_since_about(ledger, request, true));
}

void
gpu_missed_learn_begin(struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    struct gpu_engine *engine = gpu_engine_at(ledger, request->engine);

    if (is_users_workload(request))
        gpu_spread_add(&gpu_user_at(ledger, request->user)->begins,
                       ledger->now - could_run_since(ledger, request));
    if (request->id_space == VG_GPU_ID_WORKLOAD && engine->last_off_ns != VG_TIME_UNKNOWN &&
        engine->last_off_ns >= engine->last_end_ns)
        gpu_spread_add(&engine->pauses, ledger->now - engine->last_off_ns);
}

void
gpu_missed_learn_off(struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    if (is_users_workload(request))
        gpu_spread_add(&gpu_user_at(ledger, request->user)->turns, ledger->now - request->state_ns);
    note_off(ledger, request);
}

void
gpu_missed_learn_last_run(struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    if (is_users_workload(request))
        gpu_spread_add(&gpu_user_at(ledger, request->user)->last_runs,
                       ledger->now - request->state_ns);
}
