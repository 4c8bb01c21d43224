/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of CUDA let go of their GPUs by themselves: NVIDIA's driver copies what they have on
 * them into the guest's memory, and back later, to the same addresses, on the same GPU or on
 * another one of its kind. All of them are locked before the first is copied, and run again only
 * when all are back. What state each is in is asked of the driver whenever something is to be
 * undone or taken back: it alone knows, whatever happened to whoever had begun it.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "guest/child.h"
#include "guest/cuda-caller.h"
#include "guest/cuda-job.h"
#include "guest/huge-pages.h"
#include "guest/provider.h"
#include "guest/util.h"
#include "guest/work-private.h"

enum {
    /* For programs that only looked at the GPU, or have just begun to use it. */
    SETTLE_MS = 5000,
    /* Between two looks at those. */
    LOOK_MS = 200,
    /* For a look at the GPUs, and for their appearing in the driver after they were plugged in. */
    GPUS_MS = 10000,
    /* For letting those run that are back, also after the deadline. */
    UNLOCK_MS = 5000,
    /* What a call may take beyond the copying: twice the slowest seen with little memory, and
     * some. */
    CALL_MS = 2000,
};
/* The slowest that memory was copied, by far. */
#define BYTES_PER_MS ((int64_t)1 << 20)

#define KEPT_PATH "/run/vgpu-guestd-cuda.json"

/* Those of the work: what is under way when releasing fails is waited for when it is undone. */
static struct vg_cuda_job job;
static struct vg_cuda_call calls[VG_CUDA_PROCESSES_MAX];
/* Whose call it is. */
static size_t call_of[VG_CUDA_PROCESSES_MAX];
static size_t n_calls;
static bool undoing;
/* What the callbacks tell of. */
static struct vg_guest_work *told_work;

static const char *const op_words[] = {[VG_CUDA_OP_STATE] = "state",
                                       [VG_CUDA_OP_LOCK] = "lock",
                                       [VG_CUDA_OP_CHECKPOINT] = "checkpoint",
                                       [VG_CUDA_OP_RESTORE] = "restore",
                                       [VG_CUDA_OP_UNLOCK] = "unlock"};

static void
cuda_tell(struct vg_guest_work *work)
{
    json_object_object_add(work->details, "cuda", vg_cuda_job_json(&job));
}

/* ---- calls ---- */

static void
cuda_began(void *user, size_t i)
{
    const struct vg_cuda_process *process = &job.processes[call_of[i]];
    json_object *more = json_object_new_object();
    int64_t bytes = vg_cuda_process_bytes(&job, process);

    (void)user;
    if (calls[i].op == VG_CUDA_OP_STATE) {
        json_object_put(more);
        return;
    }
    json_object_object_add(more, "pid", json_object_new_int(process->pid));
    json_object_object_add(more, "comm", json_object_new_string(process->comm));
    json_object_object_add(more, "bytes", bytes < 0 ? NULL : json_object_new_int64(bytes));
    vg_guest_work_progress(told_work, op_words[calls[i].op], more);
}

/* What came of a call, into its process. */
static void
cuda_took(const struct vg_cuda_call *call, struct vg_cuda_process *process)
{
    int64_t us = call->ended_us - call->began_us;

    if (call->outcome != VG_CUDA_ANSWERED || call->result != VG_CUDA_SUCCESS)
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
        process->state = call->state;
        if (process->state == VG_CUDA_FAILED && !*process->why)
            vg_guest_put(process->why, sizeof process->why,
                         "the driver cannot bring it back any more");
        break;
    }
}

/* One call for each process that is in this state (-2: whatever it is), side by side. Returns how
 * many did not succeed; those have an outcome in calls. */
static size_t
cuda_call(struct vg_guest_work *work, enum vg_cuda_op op, int state, int64_t until_ms)
{
    int64_t left_ms = until_ms - vg_guest_now_ms();
    size_t failed = 0;

    n_calls = 0;
    told_work = work;
    for (size_t i = 0; i < job.n; i++) {
        const struct vg_cuda_process *process = &job.processes[i];
        if (process->gone || (state != -2 && process->state != state))
            continue;
        calls[n_calls] = (struct vg_cuda_call){.op = op, .pid = process->pid};
        /* The driver gives a locking up by itself; 0 would be never. */
        calls[n_calls].timeout_ms = (unsigned int)(left_ms > 4 ? left_ms * 3 / 4 : 1);
        call_of[n_calls++] = i;
    }
    vg_cuda_callers_run(calls, n_calls, until_ms, cuda_began, NULL);
    for (size_t i = 0; i < n_calls; i++) {
        struct vg_cuda_process *process = &job.processes[call_of[i]];
        bool ok = calls[i].outcome == VG_CUDA_ANSWERED && calls[i].result == VG_CUDA_SUCCESS;
        cuda_took(&calls[i], process);
        if (!ok && !vg_cuda_process_lives(work->config->root, process))
            process->gone = true;
        failed += ok || process->gone ? 0 : 1;
    }
    return failed;
}

/* What is under way is not begun anew, but waited for as long as it may take. */
static void
cuda_settle(int64_t until_ms)
{
    int64_t all = vg_cuda_job_bytes(&job), wait_ms = vg_guest_now_ms();

    for (size_t i = 0; i < n_calls; i++) {
        int64_t bytes = vg_cuda_process_bytes(&job, &job.processes[call_of[i]]);
        int64_t may_ms = wait_ms + CALL_MS + (bytes < 0 ? all : bytes) / BYTES_PER_MS;
        if (calls[i].outcome == VG_CUDA_UNDER_WAY && may_ms < until_ms)
            wait_ms = may_ms > wait_ms ? may_ms : wait_ms;
    }
    vg_cuda_callers_settle(wait_ms);
    vg_cuda_callers_abandon();
    for (size_t i = 0; i < n_calls; i++)
        cuda_took(&calls[i], &job.processes[call_of[i]]);
    n_calls = 0;
}

/* Fails with the first call that did, if one did. */
static int
cuda_fail_call(struct vg_guest_work *work, const char *what)
{
    for (size_t i = 0; i < n_calls; i++) {
        struct vg_cuda_process *process = &job.processes[call_of[i]];
        const char *why = calls[i].why;
        if (process->gone ||
            (calls[i].outcome == VG_CUDA_ANSWERED && calls[i].result == VG_CUDA_SUCCESS))
            continue;
        bool hung = calls[i].outcome == VG_CUDA_UNDER_WAY || calls[i].outcome == VG_CUDA_GIVEN_UP;
        bool late = hung || calls[i].outcome == VG_CUDA_WAITS;
        if (calls[i].outcome == VG_CUDA_WAITS)
            why = "its turn had not come";
        else if (hung)
            why = "the driver had not answered";
        else if (calls[i].result == VG_CUDA_NOT_READY)
            why = "its work on the GPU did not come to an end in time";
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

/* ---- releasing ---- */

/* Why the driver cannot release it, from what it answers when it is asked for its state. */
static void
cuda_say_why(struct vg_cuda_process *process, const struct vg_cuda_call *call)
{
    const char *why = call->why;
    char inherited[128];

    if (call->outcome == VG_CUDA_ANSWERED && call->result == VG_CUDA_SUCCESS)
        why = call->state == VG_CUDA_RUNNING  ? ""
              : call->state == VG_CUDA_FAILED ? "the driver could not bring it back before"
                                              : "another program has locked it";
    else if (call->outcome == VG_CUDA_ANSWERED && call->result == VG_CUDA_NOT_INITIALIZED) {
        why = "it uses the GPU without CUDA (OpenCL, graphics, a monitor)";
        if (process->job != process->pid) {
            vg_guest_put(
                inherited, sizeof inherited,
                "it uses no CUDA itself, but may have the GPU's files from its ancestor %d",
                (int)process->job);
            why = inherited;
        }
    } else if (call->outcome == VG_CUDA_ANSWERED && call->result == VG_CUDA_NOT_SUPPORTED) {
        why = "it uses something that the driver cannot release, as memory shared with others";
    }
    vg_guest_put(process->why, sizeof process->why, "%s", why);
}

/* Asks the driver for each. Returns the first that cannot be released, or NULL. */
static const struct vg_cuda_process *
cuda_ask(struct vg_guest_work *work, int64_t until_ms)
{
    const struct vg_cuda_process *bad = NULL;

    cuda_call(work, VG_CUDA_OP_STATE, -2, until_ms);
    for (size_t i = 0; i < n_calls; i++) {
        struct vg_cuda_process *process = &job.processes[call_of[i]];
        if (calls[i].outcome == VG_CUDA_UNDER_WAY || calls[i].outcome == VG_CUDA_WAITS)
            vg_guest_put(process->why, sizeof process->why, "the driver does not answer");
        else
            cuda_say_why(process, &calls[i]);
        if (*process->why && !process->gone && !bad)
            bad = process;
    }
    return bad;
}

/* Those that hold the GPUs and are there: who has ended is forgotten. */
static void
cuda_forget_gone(void)
{
    size_t n = 0;

    for (size_t i = 0; i < job.n; i++) {
        if (!job.processes[i].gone)
            job.processes[n++] = job.processes[i];
    }
    job.n = n;
}

/* Waits until all who have the GPUs are programs of CUDA that run. 0, 1 if there are none, or -1.
 */
static int
cuda_find(struct vg_guest_work *work)
{
    int64_t until_ms = vg_guest_now_ms() + SETTLE_MS;
    bool told = false;

    until_ms = until_ms < work->until_ms ? until_ms : work->until_ms;
    for (;;) {
        size_t total = vg_cuda_job_find(work, &job);
        if (total == 0)
            return 1;
        if (total > VG_CUDA_PROCESSES_MAX)
            return vg_guest_work_fail(work, VG_GUEST_UNRELEASABLE,
                                      "%zu processes use the GPUs, and %d can be released", total,
                                      VG_CUDA_PROCESSES_MAX);
        vg_cuda_callers_start(job.n);
        const struct vg_cuda_process *bad = cuda_ask(work, work->until_ms);
        if (vg_guest_child_stop() == VG_GUEST_STOP_CANCEL)
            return vg_guest_work_check(work, "state");
        if (!bad) {
            cuda_forget_gone();
            return job.n > 0 ? 0 : 1;
        }
        if (!told) {
            json_object *more = json_object_new_object();
            json_object_object_add(more, "cuda", vg_cuda_job_json(&job));
            vg_guest_work_progress(work, "unreleasable", more);
        }
        told = true;
        if (vg_guest_now_ms() + LOOK_MS >= until_ms)
            return vg_guest_work_fail(work, VG_GUEST_UNRELEASABLE,
                                      "process %d (%s) has a GPU and cannot be released: %s",
                                      (int)bad->pid, bad->comm, bad->why);
        vg_cuda_callers_end();
        vg_guest_child_sleep(vg_guest_now_ms() + LOOK_MS);
    }
}

/* 0, or -1 and *ret_need and *ret_free, in bytes: what is needed, and what there is. */
static int
cuda_compare_memory(const char *root, int64_t *ret_need, int64_t *ret_free)
{
    *ret_need = vg_cuda_job_bytes(&job) + (int64_t)job.n * VG_CUDA_OVERHEAD_BYTES;
    *ret_free = vg_cuda_free_memory(root);
    return *ret_free >= 0 && *ret_free < *ret_need ? -1 : 0;
}

static int
cuda_check_memory(struct vg_guest_work *work)
{
    int64_t need, free_bytes;

    if (cuda_compare_memory(work->config->root, &need, &free_bytes) == 0)
        return 0;
    return vg_guest_work_fail(
        work, VG_GUEST_NO_MEMORY,
        "releasing needs %lld MiB of the guest's memory (%zu processes with %lld MiB of GPU "
        "memory, and %lld MiB each), and %lld MiB are available",
        (long long)(need >> 20), job.n, (long long)(vg_cuda_job_bytes(&job) >> 20),
        (long long)(VG_CUDA_OVERHEAD_BYTES >> 20), (long long)(free_bytes >> 20));
}

static int
cuda_look(struct vg_guest_work *work)
{
    static struct vg_cuda_gpus gpus;
    int64_t until_ms = vg_guest_now_ms() + GPUS_MS;

    if (vg_cuda_callers_gpus(&gpus, until_ms < work->until_ms ? until_ms : work->until_ms) != 0) {
        if (vg_guest_work_check(work, "state") == 0)
            vg_guest_work_fail(work, VG_GUEST_CUDA_FAILED, "%s", gpus.why);
        return -1;
    }
    vg_cuda_job_set_gpus(work, &job, &gpus);
    return 0;
}

/* Also for an agent that is started anew meanwhile. */
static void
cuda_keep(const struct vg_guest_work *work, json_object **kept)
{
    vg_guest_auto char *path = vg_guest_format("%s" KEPT_PATH, work->config->root);
    vg_guest_auto char *next = vg_guest_format("%s.new", path);
    json_object *now = vg_cuda_job_keep(&job);

    json_object_put(*kept);
    *kept = now;
    if (json_object_to_file_ext(next, now, JSON_C_TO_STRING_PLAIN) != 0 || rename(next, path) != 0)
        vg_guest_log(LOG_WARNING, "cannot write file path='%s' error='%s'", path, strerror(errno));
}

static int
cuda_release(struct vg_guest_work *work, json_object **kept)
{
    size_t failed = cuda_call(work, VG_CUDA_OP_LOCK, VG_CUDA_RUNNING, work->until_ms);

    cuda_keep(work, kept);
    if (failed > 0)
        return cuda_fail_call(work, "cannot be stopped");
    vg_guest_huge_pages_begin(work->config);
    failed = cuda_call(work, VG_CUDA_OP_CHECKPOINT, VG_CUDA_LOCKED, work->until_ms);
    vg_guest_huge_pages_end(work->config);
    cuda_keep(work, kept);
    if (failed > 0)
        return cuda_fail_call(work, "cannot be released");
    return vg_guest_work_check(work, "checkpoint");
}

static int
cuda_prepare(struct vg_guest_work *work, json_object **ret_kept)
{
    static struct vg_cuda_call probe;

    if (vg_cuda_job_find(work, &job) == 0 || job.n == 0)
        return 0;
    vg_cuda_callers_start(job.n);
    /* Without CUDA in this guest nobody uses it: whoever has the GPU is waited for. */
    probe = (struct vg_cuda_call){.op = VG_CUDA_OP_STATE, .pid = job.processes[0].pid};
    vg_cuda_callers_run(&probe, 1, work->until_ms, NULL, NULL);
    int result = 1;
    if (probe.outcome != VG_CUDA_UNUSABLE || !strstr(probe.why, "cannot be loaded"))
        result = cuda_find(work);
    if (result == 0)
        result = cuda_look(work);
    if (result == 0)
        result = cuda_check_memory(work);
    if (result == 0) {
        /* Before the first call: whatever ends this, what it has stopped is known. */
        cuda_keep(work, ret_kept);
        result = cuda_release(work, ret_kept);
    }
    if (result != 1)
        cuda_tell(work);
    /* What is under way goes on until it is undone. */
    if (result >= 0 || !*ret_kept)
        vg_cuda_callers_end();
    return result < 0 ? -1 : 0;
}

/* ---- taking back ---- */

static size_t
cuda_count(int state)
{
    size_t n = 0;

    for (size_t i = 0; i < job.n; i++)
        n += !job.processes[i].gone && job.processes[i].state == state ? 1 : 0;
    return n;
}

static bool
cuda_same_uuid(const struct vg_cuda_gpu *a, const struct vg_cuda_gpu *b)
{
    return memcmp(&a->uuid, &b->uuid, sizeof a->uuid) == 0;
}

/* Where GPU i of the job is now: one that left is the device in its place of the request, the
 * others are where they were. NULL: nowhere. */
static const struct vg_cuda_gpu *
cuda_place(const struct vg_guest_work *work, const struct vg_cuda_gpus *now, size_t i)
{
    size_t place = 0;

    for (size_t k = 0; k < job.n_leaving; k++) {
        if (job.leaving[k] == i)
            place = k + 1;
    }
    for (size_t d = 0, seen = 0; d < work->n_devices && place > 0; d++) {
        for (size_t g = 0; g < now->n; g++) {
            if (strcmp(now->gpus[g].address, work->devices[d].address) == 0 && ++seen == place)
                return &now->gpus[g];
        }
    }
    for (size_t g = 0; g < now->n && place == 0; g++) {
        if (cuda_same_uuid(&now->gpus[g], &job.gpus.gpus[i]))
            return &now->gpus[g];
    }
    return NULL;
}

/* Device memory that GPU i has to have for those that are to come back to it. */
static int64_t
cuda_need(size_t i)
{
    int64_t bytes = 0;

    for (size_t p = 0; p < job.n; p++) {
        if (job.processes[p].gone || job.processes[p].state != VG_CUDA_CHECKPOINTED)
            continue;
        /* All that was in use; when undoing, others may have some of that still, and it is the same
         * GPU. */
        if (!job.processes[p].bytes_known)
            return undoing ? 0 : job.gpus.gpus[i].used_bytes;
        bytes += job.processes[p].bytes[i];
    }
    return bytes;
}

/* A restoring that fails for want of memory, or on another kind of GPU, cannot be tried again: so
 * that is looked at before. */
static int
cuda_check_gpu(struct vg_guest_work *work, const struct vg_cuda_gpu *was,
               const struct vg_cuda_gpu *is, int64_t need)
{
    if (!cuda_same_uuid(was, is) &&
        (strcmp(was->name, is->name) != 0 || was->major != is->major || was->minor != is->minor))
        return vg_guest_work_fail(work, VG_GUEST_OTHER_GPU,
                                  "%s is a %s (%d.%d), and programs were released from a %s "
                                  "(%d.%d): they stay as they are",
                                  is->address, is->name, is->major, is->minor, was->name,
                                  was->major, was->minor);
    if (is->free_bytes < need)
        return vg_guest_work_fail(work, VG_GUEST_NO_MEMORY,
                                  "%s has %lld MiB of its memory free, and programs need %lld MiB: "
                                  "they stay as they are",
                                  is->address, (long long)(is->free_bytes >> 20),
                                  (long long)(need >> 20));
    return 0;
}

/* Waits for the GPUs in the driver. The pairs of old and new ones; *ret_n is 0 if all are the same.
 */
static int
cuda_map(struct vg_guest_work *work, struct vg_cuda_pair *pairs, size_t *ret_n)
{
    static struct vg_cuda_gpus now;
    int64_t until_ms = vg_guest_now_ms() + GPUS_MS;
    const struct vg_cuda_gpu *places[VG_CUDA_GPUS_MAX] = {NULL};
    size_t missing = 1;
    bool changed = false;

    until_ms = until_ms < work->until_ms ? until_ms : work->until_ms;
    while (missing > 0) {
        int error = vg_cuda_callers_gpus(&now, until_ms);
        missing = 0;
        for (size_t i = 0; i < job.gpus.n && error == 0; i++) {
            places[i] = cuda_place(work, &now, i);
            missing += places[i] ? 0 : 1;
        }
        if (error == 0 && missing == 0)
            break;
        if (vg_guest_work_check(work, "restore") != 0)
            return -1;
        if (vg_guest_now_ms() >= until_ms)
            return error != 0
                       ? vg_guest_work_fail(work, VG_GUEST_CUDA_FAILED, "%s", now.why)
                       : vg_guest_work_fail(work, VG_GUEST_OTHER_GPU,
                                            "NVIDIA's driver has %zu GPUs, and of those that "
                                            "programs were released from %zu are not there",
                                            now.n, missing);
        /* A process sees the GPUs that were there when it began. */
        vg_cuda_callers_end();
        vg_guest_child_sleep(vg_guest_now_ms() + LOOK_MS);
        vg_cuda_callers_start(job.n);
    }
    for (size_t i = 0; i < job.gpus.n; i++) {
        for (size_t k = 0; k < i; k++) {
            if (places[k] == places[i])
                return vg_guest_work_fail(work, VG_GUEST_OTHER_GPU,
                                          "%s would take the place of two GPUs",
                                          places[i]->address);
        }
        if (cuda_check_gpu(work, &job.gpus.gpus[i], places[i], cuda_need(i)) != 0)
            return -1;
        changed = changed || !cuda_same_uuid(&job.gpus.gpus[i], places[i]);
        pairs[i] = (struct vg_cuda_pair){.from = job.gpus.gpus[i].uuid, .to = places[i]->uuid};
    }
    *ret_n = changed ? job.gpus.n : 0;
    return 0;
}

static void
cuda_restore(struct vg_guest_work *work, const struct vg_cuda_pair *pairs, size_t n_pairs)
{
    n_calls = 0;
    told_work = work;
    for (size_t i = 0; i < job.n; i++) {
        if (job.processes[i].gone || job.processes[i].state != VG_CUDA_CHECKPOINTED)
            continue;
        calls[n_calls] = (struct vg_cuda_call){
            .op = VG_CUDA_OP_RESTORE, .pid = job.processes[i].pid, .n_pairs = n_pairs};
        memcpy(calls[n_calls].pairs, pairs, n_pairs * sizeof *pairs);
        call_of[n_calls++] = i;
    }
    vg_guest_huge_pages_begin(work->config);
    vg_cuda_callers_run(calls, n_calls, work->until_ms, cuda_began, NULL);
    size_t made = n_calls;
    cuda_settle(vg_guest_now_ms() + UNLOCK_MS);
    vg_guest_huge_pages_end(work->config);
    n_calls = made;
    for (size_t i = 0; i < n_calls; i++) {
        struct vg_cuda_process *process = &job.processes[call_of[i]];
        process->gone = !vg_cuda_process_lives(work->config->root, process);
    }
    cuda_fail_call(work, "cannot be brought back");
}

/* What is in the file, which is there as long as anything is to be taken back, also if whoever
 * released it has ended since; or what is kept. The caller puts it. */
static json_object *
cuda_kept(const struct vg_guest_work *work, json_object *kept, bool undo)
{
    vg_guest_auto char *path = vg_guest_format("%s" KEPT_PATH, work->config->root);
    json_object *read = undo ? NULL : json_object_from_file(path);

    if (read && !kept)
        vg_guest_log(LOG_NOTICE, "taking back what was released before path='%s'", path);
    return read ? read : json_object_get(kept);
}

static void
cuda_take_back(struct vg_guest_work *work)
{
    static struct vg_cuda_pair pairs[VG_CUDA_GPUS_MAX];
    size_t n_pairs = 0;

    for (size_t i = 0; i < job.n; i++)
        job.processes[i].gone = !vg_cuda_process_lives(work->config->root, &job.processes[i]);
    if (cuda_call(work, VG_CUDA_OP_STATE, -2, work->until_ms) > 0)
        cuda_fail_call(work, "does not say what it does");
    if (cuda_count(VG_CUDA_CHECKPOINTED) > 0 && cuda_map(work, pairs, &n_pairs) == 0)
        cuda_restore(work, pairs, n_pairs);
    /* What is back shall run, whatever becomes of the rest. */
    vg_guest_child_ignore_cancel();
    int64_t until_ms = vg_guest_now_ms() + UNLOCK_MS;
    if (cuda_call(work, VG_CUDA_OP_UNLOCK, VG_CUDA_LOCKED,
                  until_ms > work->until_ms ? until_ms : work->until_ms) > 0)
        cuda_fail_call(work, "is back, but does not go on");
    /* What became of those that failed. */
    if (work->failure)
        cuda_call(work, VG_CUDA_OP_STATE, -2, until_ms);
}

static int
cuda_resume(struct vg_guest_work *work, json_object *state, bool undo)
{
    vg_guest_auto char *path = vg_guest_format("%s" KEPT_PATH, work->config->root);
    json_object *kept = cuda_kept(work, state, undo);

    if (!kept)
        return 0;
    undoing = undo;
    /* Undoing is of the same work, which knows more. */
    if (undo)
        cuda_settle(work->until_ms - UNLOCK_MS);
    else if (vg_cuda_job_read(kept, &job) != 0)
        job.n = 0;
    json_object_put(kept);
    vg_cuda_callers_start(job.n);
    cuda_take_back(work);
    vg_cuda_callers_end();
    cuda_tell(work);
    for (size_t i = 0; i < job.n; i++) {
        const struct vg_cuda_process *process = &job.processes[i];
        if (process->gone)
            vg_guest_log(LOG_WARNING, "process ended meanwhile pid=%d comm='%s'", (int)process->pid,
                         process->comm);
        else
            vg_guest_log(LOG_NOTICE, "process of CUDA pid=%d comm='%s' state=%d stop_ms=%lld",
                         (int)process->pid, process->comm, process->state,
                         (long long)process->stop_us / 1000);
    }
    if (cuda_count(VG_CUDA_LOCKED) + cuda_count(VG_CUDA_CHECKPOINTED) + cuda_count(-1) == 0)
        unlink(path);
    return work->failure ? -1 : 0;
}

/* ---- looking ---- */

static void
cuda_status(const struct vg_guest_work *look, json_object *about)
{
    struct vg_guest_work work = *look;
    int64_t need, free_bytes;
    char why[300] = "";

    work.until_ms = vg_guest_now_ms() + GPUS_MS;
    size_t total = vg_cuda_job_find(&work, &job);
    bool busy = work.order->state && strcmp(work.order->state, "idle") != 0 &&
                strcmp(work.order->state, "resumed") != 0;
    if (total > VG_CUDA_PROCESSES_MAX)
        vg_guest_put(why, sizeof why, "%zu processes use the GPUs", total);
    /* Who asks the driver has the GPUs open, which now leave or have left. */
    if (total > 0 && !busy && !*why) {
        vg_cuda_callers_start(job.n);
        const struct vg_cuda_process *bad = cuda_ask(&work, work.until_ms);
        static struct vg_cuda_gpus gpus;
        if (vg_cuda_callers_gpus(&gpus, work.until_ms) == 0)
            vg_cuda_job_set_gpus(&work, &job, &gpus);
        if (bad)
            vg_guest_put(why, sizeof why, "%d (%s): %s", (int)bad->pid, bad->comm, bad->why);
        else if (*gpus.why)
            vg_guest_put(why, sizeof why, "%s", gpus.why);
        else if (cuda_compare_memory(work.config->root, &need, &free_bytes) != 0)
            vg_guest_put(why, sizeof why, "%lld MiB of memory are needed and %lld MiB available",
                         (long long)(need >> 20), (long long)(free_bytes >> 20));
        vg_cuda_callers_end();
    }
    json_object_object_add(about, "cuda", vg_cuda_job_json(&job));
    json_object_object_add(about, "releasable",
                           busy ? NULL : json_object_new_boolean(*why == '\0'));
    if (*why)
        json_object_object_add(about, "why", json_object_new_string(why));
}

const struct vg_guest_provider vg_guest_provider_cuda = {
    .name = "cuda",
    .prepare = cuda_prepare,
    .resume = cuda_resume,
    .status = cuda_status,
};
