/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/cuda-end.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "guest/child.h"
#include "guest/cuda-hold.h"
#include "guest/cuda-steps.h"
#include "guest/process.h"
#include "guest/util.h"

enum {
    /* The time for a process to be released, in addition to copying its memory. */
    RELEASE_MS = 120000,
    /* The time for a killed process to end. */
    ENDED_MS = 30000,
};

static struct vg_cuda_process *const end_target = &vg_cuda_work.processes[0];

/* Makes the process the only one in the work. */
static int
end_take(struct vg_guest_work *work, pid_t pid)
{
    vg_guest_auto char *dir = vg_guest_format("%s/proc/%d", work->config->root, (int)pid);
    struct vg_guest_process is;

    if (vg_guest_process_read(work->config->root, pid, &is) != 0 || is.ended)
        return vg_guest_work_fail(work, VG_GUEST_CUDA_FAILED, "there is no process %d", (int)pid);
    vg_cuda_work.n = 1;
    *end_target = (struct vg_cuda_process){
        .pid = pid, .start = is.start, .job = pid, .state = -1, .held_threads = -1};
    vg_guest_process_name(dir, end_target->comm, sizeof end_target->comm);
    return 0;
}

/* Queries the driver for the state of the process. */
static int
end_ask(struct vg_guest_work *work)
{
    struct vg_cuda_process *process;

    vg_cuda_callers_start(1);
    if (vg_cuda_steps_call(work, VG_CUDA_OP_STATE, VG_CUDA_ANY_STATE, work->until_ms) == 0)
        return end_target->gone ? vg_guest_work_fail(work, VG_GUEST_CUDA_FAILED,
                                                     "process %d has exited", (int)end_target->pid)
                                : 0;
    const struct vg_cuda_call *call = vg_cuda_steps_call_at(0, &process);
    if (call->outcome == VG_CUDA_ABSENT ||
        (call->outcome == VG_CUDA_ANSWERED && call->result == VG_CUDA_NOT_INITIALIZED))
        return vg_guest_work_fail(work, VG_GUEST_CUDA_FAILED,
                                  "process %d (%s) does not use CUDA, so it has nothing to release",
                                  (int)process->pid, process->comm);
    return vg_cuda_steps_fail(work, "does not report its state");
}

/* Determines how much GPU memory the process has now, or -1 if the driver does not report it. */
static int64_t
end_bytes(const struct vg_guest_work *work)
{
    static struct vg_cuda_gpus gpus;
    int64_t until_ms = vg_guest_now_ms() + VG_CUDA_GPUS_MS;

    /* Each start takes one snapshot. */
    vg_cuda_callers_start(1);
    if (vg_cuda_callers_gpus(&gpus, until_ms) != 0)
        return -1;
    vg_cuda_job_set_gpus(work, &vg_cuda_work, &gpus);
    return end_target->bytes_known ? vg_cuda_process_bytes(&vg_cuda_work, end_target) : 0;
}

static int
end_check_memory(struct vg_guest_work *work, int64_t bytes)
{
    int64_t need, free_bytes;

    vg_guest_work_allow_copy(work, bytes);
    if (vg_cuda_release_compare_memory(work->config->root, &need, &free_bytes) == 0)
        return 0;
    return vg_guest_work_fail(work, VG_GUEST_NO_MEMORY,
                              "releasing process %d (%s) needs %lld MiB of the guest's memory, but "
                              "only %lld MiB are available",
                              (int)end_target->pid, end_target->comm, (long long)(need >> 20),
                              (long long)(free_bytes >> 20));
}

/* Locks the process. From then on, its threads that fault are held. */
static int
end_lock(struct vg_guest_work *work)
{
    if (vg_cuda_hold_check(work, &vg_cuda_work) || vg_cuda_hold_begin(work, &vg_cuda_work))
        return vg_guest_work_fail(work, VG_GUEST_CUDA_FAILED,
                                  "process %d (%s) cannot be released: %s", (int)end_target->pid,
                                  end_target->comm, end_target->why);
    if (vg_cuda_steps_call(work, VG_CUDA_OP_LOCK, VG_CUDA_RUNNING, work->until_ms) > 0)
        return vg_cuda_steps_fail(work, "cannot be stopped");
    vg_cuda_hold_locked(work);
    return 0;
}

/* Makes the process release its GPUs, and checks that it has. A process that the driver calls lost
 * has nothing to release. */
static int
end_release(struct vg_guest_work *work)
{
    if (end_target->state == VG_CUDA_FAILED)
        return 0;
    int64_t bytes = end_bytes(work);
    if (end_target->state != VG_CUDA_CHECKPOINTED && end_check_memory(work, bytes) != 0)
        return -1;
    if (end_target->state == VG_CUDA_RUNNING && end_lock(work) != 0)
        return -1;
    if (vg_cuda_steps_call(work, VG_CUDA_OP_CHECKPOINT, VG_CUDA_LOCKED, work->until_ms) > 0)
        return vg_cuda_steps_fail(work, "cannot be released");
    bytes = end_target->gone ? 0 : end_bytes(work);
    if (bytes > 0)
        return vg_guest_work_fail(
            work, VG_GUEST_CUDA_FAILED,
            "process %d (%s) was released but still holds %lld MiB of GPU memory",
            (int)end_target->pid, end_target->comm, (long long)(bytes >> 20));
    return 0;
}

/* Resumes a process that could not be released, if it was running before. */
static void
end_undo(struct vg_guest_work *work, int was)
{
    if (was != VG_CUDA_RUNNING)
        return;
    vg_cuda_steps_settle(vg_guest_now_ms() + VG_CUDA_UNLOCK_MS);
    vg_cuda_steps_call(work, VG_CUDA_OP_UNLOCK, VG_CUDA_LOCKED,
                       vg_guest_now_ms() + VG_CUDA_UNLOCK_MS);
}

static int
end_kill(struct vg_guest_work *work)
{
    const char *root = work->config->root;
    int64_t until_ms = vg_guest_now_ms() + ENDED_MS;

    if (vg_cuda_process_lives(root, end_target) && kill(end_target->pid, SIGKILL) != 0)
        return vg_guest_work_fail(work, VG_GUEST_CUDA_FAILED,
                                  "process %d (%s) cannot be killed: %s", (int)end_target->pid,
                                  end_target->comm, strerror(errno));
    while (vg_cuda_process_lives(root, end_target) && vg_guest_now_ms() < until_ms)
        vg_guest_child_sleep(vg_guest_now_ms() + 10);
    if (vg_cuda_process_lives(root, end_target))
        return vg_guest_work_fail(work, VG_GUEST_TIMEOUT,
                                  "process %d (%s) was killed but has not exited",
                                  (int)end_target->pid, end_target->comm);
    end_target->gone = true;
    return 0;
}

int
vg_cuda_end(const struct vg_guest_config *config, pid_t pid)
{
    struct vg_guest_order order = {.request = {.type = VG_GUEST_PREPARE}};
    struct vg_guest_work work = {.config = config, .order = &order, .out = -1};

    vg_guest_child_init();
    /* If this were ended halfway, the process would stay stopped. */
    signal(SIGTERM, SIG_IGN);
    work.began_ms = vg_guest_now_ms();
    work.until_ms = work.began_ms + RELEASE_MS;
    int result = end_take(&work, pid);
    if (result == 0)
        result = end_ask(&work);
    const int was = end_target->state;
    if (result == 0 && end_release(&work) != 0) {
        end_undo(&work, was);
        result = -1;
    }
    if (result == 0)
        result = end_kill(&work);
    vg_cuda_callers_end();
    vg_cuda_hold_end(&work, &vg_cuda_work);
    if (result == 0)
        printf("%d (%s) %s and was ended\n", (int)pid, end_target->comm,
               was == VG_CUDA_FAILED ? "was lost" : "released its GPUs");
    else
        printf("failed, so the process was not ended: %s\nBefore you use `kill -9 %d`, read KNOWN "
               "DRIVER FAULTS in vgpu-guestd(8)\n",
               json_object_get_string(json_object_object_get(work.failure, "message")), (int)pid);
    json_object_put(work.failure);
    return result == 0 ? 0 : 1;
}
