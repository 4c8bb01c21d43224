/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/cuda-steps.h"

#include <string.h>

#include "guest/child.h"
#include "guest/cuda-maps.h"
#include "guest/util.h"

/* The time that a call may take in addition to the copying: more than twice the maximum measured
 * with little memory. */
#define CALL_MS 2000
/* The time until a killed process is known to have ended. */
#define END_MS 2000

struct vg_cuda_job vg_cuda_work;

static struct vg_cuda_call calls[VG_CUDA_PROCESSES_MAX];
/* The index of the process that each call is for. */
static size_t call_of[VG_CUDA_PROCESSES_MAX];
static size_t n_calls;
/* The work whose progress the callback reports. */
static struct vg_guest_work *told_work;

static const char *const op_words[] = {[VG_CUDA_OP_STATE] = "state",
                                       [VG_CUDA_OP_LOCK] = "lock",
                                       [VG_CUDA_OP_CHECKPOINT] = "checkpoint",
                                       [VG_CUDA_OP_RESTORE] = "restore",
                                       [VG_CUDA_OP_UNLOCK] = "unlock"};

void
vg_cuda_steps_report(struct vg_guest_work *work)
{
    static struct vg_guest_reported told;

    vg_cuda_job_describe(&vg_cuda_work, work->details, &told);
}

size_t
vg_cuda_steps_n(void)
{
    return n_calls;
}

const struct vg_cuda_call *
vg_cuda_steps_call_at(size_t i, struct vg_cuda_process **ret_process)
{
    *ret_process = &vg_cuda_work.processes[call_of[i]];
    return &calls[i];
}

static bool
steps_succeeded(const struct vg_cuda_call *call)
{
    return call->outcome == VG_CUDA_ANSWERED && call->result == VG_CUDA_SUCCESS;
}

/* Reports that the driver is still copying. The driver does not report its progress. */
static void
steps_ticked(void)
{
    int64_t all = 0;

    if (calls[0].op != VG_CUDA_OP_CHECKPOINT && calls[0].op != VG_CUDA_OP_RESTORE)
        return;
    for (size_t i = 0; i < n_calls && all >= 0; i++) {
        int64_t bytes = vg_cuda_process_bytes(&vg_cuda_work, &vg_cuda_work.processes[call_of[i]]);
        all = bytes < 0 ? -1 : all + bytes;
    }
    json_object *more = json_object_new_object();
    json_object_object_add(more, "bytes", all < 0 ? NULL : json_object_new_int64(all));
    vg_guest_work_progress(told_work, op_words[calls[0].op], more);
}

static void
steps_began(size_t i)
{
    const struct vg_cuda_process *process = &vg_cuda_work.processes[call_of[i]];
    int64_t bytes = vg_cuda_process_bytes(&vg_cuda_work, process);

    if (calls[i].op == VG_CUDA_OP_STATE)
        return;
    json_object *more = json_object_new_object();
    json_object_object_add(more, "pid", json_object_new_int(process->pid));
    json_object_object_add(more, "comm", json_object_new_string(process->comm));
    json_object_object_add(more, "bytes", bytes < 0 ? NULL : json_object_new_int64(bytes));
    vg_guest_work_progress(told_work, op_words[calls[i].op], more);
}

static const struct vg_cuda_listener listener = {.began = steps_began, .ticked = steps_ticked};

/* Copies the result of a call to its process. */
static void
steps_take(const struct vg_cuda_call *call, struct vg_cuda_process *process)
{
    int64_t us = call->ended_us - call->began_us;

    if (!steps_succeeded(call))
        return;
    switch (call->op) {
    case VG_CUDA_OP_LOCK:
        process->state = VG_CUDA_LOCKED;
        process->locked_us = call->began_us;
        process->lock_us = us;
        break;
    case VG_CUDA_OP_CHECKPOINT:
        process->state = VG_CUDA_CHECKPOINTED;
        process->checkpoint_us = us;
        break;
    case VG_CUDA_OP_RESTORE:
        process->state = VG_CUDA_LOCKED;
        process->restore_us = us;
        break;
    case VG_CUDA_OP_UNLOCK:
        process->state = VG_CUDA_RUNNING;
        process->unlock_us = us;
        process->stop_us = process->locked_us >= 0 ? call->ended_us - process->locked_us : -1;
        process->why[0] = '\0';
        break;
    case VG_CUDA_OP_STATE:
    default:
        /* A lost process remains lost, even if the driver still calls it checkpointed. */
        if (process->state != VG_CUDA_FAILED)
            process->state = call->state;
        break;
    }
}

/* Returns whether a process whose call failed still exists. One that was killed may be about to
 * end. */
static bool
steps_still_lives(const struct vg_guest_work *work, const struct vg_cuda_process *process)
{
    int64_t until_ms = vg_guest_now_ms() + END_MS;

    while (vg_cuda_process_lives(work->config->root, process)) {
        if (!vg_cuda_process_is_ending(work->config->root, process) ||
            vg_guest_now_ms() >= until_ms)
            return true;
        vg_guest_child_sleep(vg_guest_now_ms() + 10);
    }
    return false;
}

/* Takes the results of the calls. Returns how many failed. */
static size_t
steps_finish(struct vg_guest_work *work)
{
    size_t failed = 0;

    for (size_t i = 0; i < n_calls; i++) {
        struct vg_cuda_process *process = &vg_cuda_work.processes[call_of[i]];
        bool ok = steps_succeeded(&calls[i]);
        steps_take(&calls[i], process);
        if (!ok && !steps_still_lives(work, process))
            process->gone = true;
        failed += ok || process->gone ? 0 : 1;
    }
    return failed;
}

/* Returns the time for the driver to lock a process. It excludes the time for copying, which may
 * exceed the available time, because hosts with an earlier version give the same time to programs
 * of any size. */
static unsigned int
steps_lock_ms(int64_t left_ms)
{
    int64_t spare_ms = left_ms - vg_guest_copy_ms(vg_cuda_job_bytes(&vg_cuda_work));

    if (spare_ms < left_ms / 4)
        spare_ms = left_ms / 4;
    return (unsigned int)(spare_ms > 4 ? spare_ms * 3 / 4 : 1);
}

size_t
vg_cuda_steps_call(struct vg_guest_work *work, enum vg_cuda_op op, int state, int64_t until_ms)
{
    int64_t left_ms = until_ms - vg_guest_now_ms();

    n_calls = 0;
    told_work = work;
    for (size_t i = 0; i < vg_cuda_work.n; i++) {
        const struct vg_cuda_process *process = &vg_cuda_work.processes[i];
        if (process->gone || (state != VG_CUDA_ANY_STATE && process->state != state))
            continue;
        calls[n_calls] = (struct vg_cuda_call){.op = op, .pid = process->pid};
        /* The driver limits an attempt to lock itself. 0 means no limit. */
        calls[n_calls].timeout_ms = steps_lock_ms(left_ms);
        call_of[n_calls++] = i;
    }
    vg_cuda_callers_run(calls, n_calls, until_ms, &listener);
    return steps_finish(work);
}

size_t
vg_cuda_steps_restore(struct vg_guest_work *work, const struct vg_cuda_pair *pairs, size_t n_pairs)
{
    n_calls = 0;
    told_work = work;
    for (size_t i = 0; i < vg_cuda_work.n; i++) {
        const struct vg_cuda_process *process = &vg_cuda_work.processes[i];
        if (process->gone || process->state != VG_CUDA_CHECKPOINTED)
            continue;
        calls[n_calls] = (struct vg_cuda_call){
            .op = VG_CUDA_OP_RESTORE, .pid = process->pid, .n_pairs = n_pairs};
        memcpy(calls[n_calls].pairs, pairs, n_pairs * sizeof *pairs);
        call_of[n_calls++] = i;
    }
    vg_cuda_callers_run(calls, n_calls, work->until_ms, &listener);
    size_t made = n_calls;
    vg_cuda_steps_settle(vg_guest_now_ms() + VG_CUDA_UNLOCK_MS);
    n_calls = made;
    return steps_finish(work);
}

void
vg_cuda_steps_settle(int64_t until_ms)
{
    int64_t all = vg_cuda_job_bytes(&vg_cuda_work), now_ms = vg_guest_now_ms(), wait_ms = now_ms;

    for (size_t i = 0; i < n_calls; i++) {
        int64_t bytes = vg_cuda_process_bytes(&vg_cuda_work, &vg_cuda_work.processes[call_of[i]]);
        int64_t may_ms = now_ms + CALL_MS + vg_guest_copy_ms(bytes < 0 ? all : bytes);
        if (calls[i].outcome == VG_CUDA_UNDER_WAY && may_ms > wait_ms)
            wait_ms = may_ms < until_ms ? may_ms : until_ms;
    }
    vg_cuda_callers_settle(wait_ms);
    vg_cuda_callers_abandon();
    for (size_t i = 0; i < n_calls; i++)
        steps_take(&calls[i], &vg_cuda_work.processes[call_of[i]]);
    n_calls = 0;
}

/* Explains a failed call. NCCL's kernels end only when those of the other ranks end, and each rank
 * is locked separately. */
static const char *
steps_why(const struct vg_guest_work *work, const struct vg_cuda_call *call)
{
    if (call->outcome == VG_CUDA_WAITS)
        return "it was still waiting for its turn";
    if (call->outcome == VG_CUDA_UNDER_WAY || call->outcome == VG_CUDA_GIVEN_UP)
        return "the driver had not answered";
    if (call->result != VG_CUDA_NOT_READY)
        return call->why;
    if (vg_cuda_maps_libraries(work->config->root, call->pid) & VG_CUDA_LIBRARY_NCCL)
        return "its work on the GPU did not finish in time: it uses NCCL, whose kernels wait for "
               "those of other ranks; use a hook or [units] to end or pause all ranks before the "
               "move";
    return "its work on the GPU did not finish in time: allow more time with guest_deadline in "
           "[actions] of the host's vgpud.conf, or, if the work never ends, use a hook or [units] "
           "to end the program before the move";
}

int
vg_cuda_steps_fail(struct vg_guest_work *work, const char *what)
{
    for (size_t i = 0; i < n_calls; i++) {
        struct vg_cuda_process *process = &vg_cuda_work.processes[call_of[i]];
        const char *why = steps_why(work, &calls[i]);
        if (process->gone || steps_succeeded(&calls[i]))
            continue;
        bool late = calls[i].outcome == VG_CUDA_WAITS || calls[i].outcome == VG_CUDA_UNDER_WAY ||
                    calls[i].outcome == VG_CUDA_GIVEN_UP;
        vg_guest_put(process->why, sizeof process->why, "%s: %s", what, why);
        vg_guest_log(LOG_ERR, "CUDA call failed call=%s pid=%d comm='%s' why='%s'",
                     op_words[calls[i].op], (int)process->pid, process->comm, why);
        if (late && vg_guest_child_stop() == VG_GUEST_STOP_CANCEL)
            vg_guest_work_check(work, op_words[calls[i].op]);
        vg_guest_work_fail(work, late ? VG_GUEST_TIMEOUT : VG_GUEST_CUDA_FAILED,
                           "process %d (%s) %s: %s", (int)process->pid, process->comm, what, why);
    }
    return -1;
}

size_t
vg_cuda_steps_count(int state)
{
    size_t n = 0;

    for (size_t i = 0; i < vg_cuda_work.n; i++)
        n += !vg_cuda_work.processes[i].gone && vg_cuda_work.processes[i].state == state ? 1 : 0;
    return n;
}
