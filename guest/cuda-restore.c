/* SPDX-License-Identifier: Apache-2.0
 *
 * Restores CUDA programs on their GPUs, or on others of the same kind, at the same addresses. They
 * run again only when all that can be restored are restored. The driver is queried for the state of
 * each program, because only the driver knows it, whatever happened to the process that had
 * released them.
 */
#include "config.h"

#include <string.h>
#include <unistd.h>

#include "guest/child.h"
#include "guest/cuda-hold.h"
#include "guest/cuda-steps.h"
#include "guest/huge-pages.h"
#include "guest/util.h"

/* Whether the same work released the processes. */
static bool undoing;

static bool
restore_same_uuid(const struct vg_cuda_gpu *a, const struct vg_cuda_gpu *b)
{
    return memcmp(&a->uuid, &b->uuid, sizeof a->uuid) == 0;
}

/* Finds the present device of GPU i of the work. For a GPU that left, it is the device in the same
 * position of the request. The others are unchanged. Returns NULL if there is none. */
static const struct vg_cuda_gpu *
restore_place(const struct vg_guest_work *work, const struct vg_cuda_gpus *now, size_t i)
{
    size_t place = 0;

    for (size_t k = 0; k < vg_cuda_work.n_leaving; k++) {
        if (vg_cuda_work.leaving[k] == i)
            place = k + 1;
    }
    for (size_t d = 0, seen = 0; d < work->n_devices && place > 0; d++) {
        for (size_t g = 0; g < now->n; g++) {
            if (strcmp(now->gpus[g].address, work->devices[d].address) == 0 && ++seen == place)
                return &now->gpus[g];
        }
    }
    for (size_t g = 0; g < now->n && place == 0; g++) {
        if (restore_same_uuid(&now->gpus[g], &vg_cuda_work.gpus.gpus[i]))
            return &now->gpus[g];
    }
    return NULL;
}

/* Returns the device memory that GPU i needs for the processes that will return to it. */
static int64_t
restore_need(size_t i)
{
    int64_t bytes = 0;

    for (size_t p = 0; p < vg_cuda_work.n; p++) {
        if (vg_cuda_work.processes[p].gone ||
            vg_cuda_work.processes[p].state != VG_CUDA_CHECKPOINTED)
            continue;
        /* This is all the memory that was in use. When undoing, other processes may still use some
         * of it, and the GPU is the same. */
        if (!vg_cuda_work.processes[p].bytes_known)
            return undoing ? 0 : vg_cuda_work.gpus.gpus[i].used_bytes;
        bytes += vg_cuda_work.processes[p].bytes[i];
    }
    return bytes;
}

/* Checks for reasons why a restore would fail: insufficient memory, or another kind of GPU. A
 * restore that failed cannot be tried again. */
static int
restore_check_gpu(struct vg_guest_work *work, const struct vg_cuda_gpu *was,
                  const struct vg_cuda_gpu *is, int64_t need)
{
    if (!restore_same_uuid(was, is) &&
        (strcmp(was->name, is->name) != 0 || was->major != is->major || was->minor != is->minor))
        return vg_guest_work_fail(work, VG_GUEST_OTHER_GPU,
                                  "%s is the model %s (compute capability %d.%d), but programs "
                                  "were released from the model %s (%d.%d), so they stay "
                                  "released",
                                  is->address, is->name, is->major, is->minor, was->name,
                                  was->major, was->minor);
    if (is->free_bytes < need)
        return vg_guest_work_fail(
            work, VG_GUEST_NO_MEMORY,
            "%s has %lld MiB of free memory, but programs need %lld MiB, so they stay released",
            is->address, (long long)(is->free_bytes >> 20), (long long)(need >> 20));
    return 0;
}

/* Waits until the driver has the GPUs, and pairs old and new ones. Sets *ret_n to 0 if all are the
 * same. */
static int
restore_map(struct vg_guest_work *work, struct vg_cuda_pair *pairs, size_t *ret_n)
{
    static struct vg_cuda_gpus now;
    int64_t until_ms = vg_guest_now_ms() + VG_CUDA_GPUS_MS;
    const struct vg_cuda_gpu *places[VG_CUDA_GPUS_MAX] = {NULL};
    size_t missing = 1;
    bool changed = false;

    until_ms = until_ms < work->until_ms ? until_ms : work->until_ms;
    while (missing > 0) {
        int error = vg_cuda_callers_gpus(&now, until_ms);
        missing = 0;
        for (size_t i = 0; i < vg_cuda_work.gpus.n && error == 0; i++) {
            places[i] = restore_place(work, &now, i);
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
                                            "NVIDIA's driver lists %zu GPUs; %zu of the GPUs that "
                                            "programs were released from are missing",
                                            now.n, missing);
        /* A process sees the GPUs that existed when it started. */
        vg_cuda_callers_end();
        vg_guest_child_sleep(vg_guest_now_ms() + VG_CUDA_LOOK_MS);
        vg_cuda_callers_start(vg_cuda_work.n);
    }
    for (size_t i = 0; i < vg_cuda_work.gpus.n; i++) {
        for (size_t k = 0; k < i; k++) {
            if (places[k] == places[i])
                return vg_guest_work_fail(work, VG_GUEST_OTHER_GPU,
                                          "%s would have to replace two GPUs", places[i]->address);
        }
        if (restore_check_gpu(work, &vg_cuda_work.gpus.gpus[i], places[i], restore_need(i)) != 0)
            return -1;
        changed = changed || !restore_same_uuid(&vg_cuda_work.gpus.gpus[i], places[i]);
        pairs[i] =
            (struct vg_cuda_pair){.from = vg_cuda_work.gpus.gpus[i].uuid, .to = places[i]->uuid};
    }
    *ret_n = changed ? vg_cuda_work.gpus.n : 0;
    return 0;
}

/* ---- processes that are lost ---- */

/* Returns whether repeating the restore cannot help: the process has something that the driver can
 * release but not restore, or GPU memory was exhausted, from which the driver cannot recover. */
static bool
restore_is_final(const struct vg_cuda_call *call)
{
    return call->outcome == VG_CUDA_ANSWERED &&
           (call->result == VG_CUDA_INVALID_VALUE || call->result == VG_CUDA_NOT_SUPPORTED ||
            call->result == VG_CUDA_OUT_OF_MEMORY);
}

static void
restore_call_lost(struct vg_cuda_process *process)
{
    vg_guest_auto char *why = vg_guest_copy(process->why);

    vg_guest_put(process->why, sizeof process->why,
                 "%s%sit is lost; run `vgpu-guestd end %d` to end it", why, *why ? "; " : "",
                 (int)process->pid);
}

/* Marks each lost process, and adds it to the failure. */
static void
restore_report_lost(struct vg_guest_work *work)
{
    for (size_t i = 0; i < vg_cuda_work.n; i++) {
        struct vg_cuda_process *process = &vg_cuda_work.processes[i];
        if (process->gone || process->state != VG_CUDA_FAILED)
            continue;
        restore_call_lost(process);
        vg_guest_work_add(work, "; %d (%s) is lost; run `vgpu-guestd end %d` to end it",
                          (int)process->pid, process->comm, (int)process->pid);
        vg_guest_log(LOG_ERR, "CUDA process is lost pid=%d comm='%s' why='%s'", (int)process->pid,
                     process->comm, process->why);
    }
}

static void
restore_processes(struct vg_guest_work *work, const struct vg_cuda_pair *pairs, size_t n_pairs)
{
    vg_guest_huge_pages_begin(work->config);
    size_t failed = vg_cuda_steps_restore(work, pairs, n_pairs);
    vg_guest_huge_pages_end(work->config);
    if (failed == 0)
        return;
    vg_cuda_steps_fail(work, "cannot be restored");
    for (size_t i = 0; i < vg_cuda_steps_n(); i++) {
        struct vg_cuda_process *process;
        if (restore_is_final(vg_cuda_steps_call_at(i, &process)))
            process->state = VG_CUDA_FAILED;
    }
    vg_cuda_steps_call(work, VG_CUDA_OP_STATE, VG_CUDA_CHECKPOINTED,
                       vg_guest_now_ms() + VG_CUDA_UNLOCK_MS);
    restore_report_lost(work);
}

/* ---- bringing back ---- */

/* Reads the state of the released processes. Its file exists as long as any process is to be
 * restored, even if the process that released them has ended. Without the file, kept is used. The
 * caller puts the object. */
static json_object *
restore_read_kept(const struct vg_guest_work *work, json_object *kept, bool undo)
{
    vg_guest_auto char *path = vg_guest_format("%s" VG_CUDA_KEPT_PATH, work->config->root);
    json_object *read = undo ? NULL : json_object_from_file(path);

    if (read && !kept)
        vg_guest_log(LOG_NOTICE, "restoring programs that were released earlier path='%s'", path);
    return read ? read : json_object_get(kept);
}

static void
restore_bring_back(struct vg_guest_work *work)
{
    static struct vg_cuda_pair pairs[VG_CUDA_GPUS_MAX];
    size_t n_pairs = 0;

    for (size_t i = 0; i < vg_cuda_work.n; i++) {
        struct vg_cuda_process *process = &vg_cuda_work.processes[i];
        process->gone = !vg_cuda_process_lives(work->config->root, process);
        /* An earlier attempt to restore the process has shown that it is lost. */
        if (!process->gone && process->state == VG_CUDA_FAILED && !*process->why)
            restore_call_lost(process);
    }
    if (vg_cuda_steps_call(work, VG_CUDA_OP_STATE, VG_CUDA_ANY_STATE, work->until_ms) > 0)
        vg_cuda_steps_fail(work, "does not report its state");
    if (vg_cuda_steps_count(VG_CUDA_CHECKPOINTED) > 0 && restore_map(work, pairs, &n_pairs) == 0)
        restore_processes(work, pairs, n_pairs);
    /* Restored processes must run, whatever happens to the others. */
    vg_guest_child_ignore_cancel();
    vg_cuda_hold_repeat(work, &vg_cuda_work);
    int64_t until_ms = vg_guest_now_ms() + VG_CUDA_UNLOCK_MS;
    if (vg_cuda_steps_call(work, VG_CUDA_OP_UNLOCK, VG_CUDA_LOCKED,
                           until_ms > work->until_ms ? until_ms : work->until_ms) > 0)
        vg_cuda_steps_fail(work, "was restored but does not resume");
    /* This determines the state of those that failed. */
    if (work->failure)
        vg_cuda_steps_call(work, VG_CUDA_OP_STATE, VG_CUDA_ANY_STATE, until_ms);
    vg_cuda_hold_end(work, &vg_cuda_work);
}

static void
restore_log(void)
{
    for (size_t i = 0; i < vg_cuda_work.n; i++) {
        const struct vg_cuda_process *process = &vg_cuda_work.processes[i];
        if (process->gone)
            vg_guest_log(LOG_WARNING, "process has exited pid=%d comm='%s'", (int)process->pid,
                         process->comm);
        else
            vg_guest_log(LOG_NOTICE, "CUDA process pid=%d comm='%s' state=%d stop_ms=%lld",
                         (int)process->pid, process->comm, process->state,
                         (long long)process->stop_us / 1000);
    }
}

/* Stores the processes that are still to be restored and those that are lost, or nothing if
 * everything is done. */
static void
restore_keep(const struct vg_guest_work *work)
{
    vg_guest_auto char *path = vg_guest_format("%s" VG_CUDA_KEPT_PATH, work->config->root);

    if (!work->failure && vg_cuda_steps_count(VG_CUDA_LOCKED) +
                                  vg_cuda_steps_count(VG_CUDA_CHECKPOINTED) +
                                  vg_cuda_steps_count(-1) ==
                              0) {
        unlink(path);
        return;
    }
    json_object *kept = vg_cuda_job_keep(&vg_cuda_work);
    vg_cuda_job_write(work->config->root, kept);
    json_object_put(kept);
}

int
vg_cuda_restore(struct vg_guest_work *work, json_object *state, bool undo)
{
    json_object *kept = restore_read_kept(work, state, undo);

    if (!kept)
        return 0;
    undoing = undo;
    /* Undoing is a part of the same work, which has more data. */
    if (undo)
        vg_cuda_steps_settle(work->until_ms - VG_CUDA_UNLOCK_MS -
                             vg_guest_copy_ms(vg_cuda_job_bytes(&vg_cuda_work)));
    else if (vg_cuda_job_read(kept, &vg_cuda_work) != 0)
        vg_cuda_work.n = 0;
    json_object_put(kept);
    vg_guest_work_allow_copy(work, vg_cuda_job_bytes(&vg_cuda_work));
    vg_cuda_callers_start(vg_cuda_work.n);
    restore_bring_back(work);
    vg_cuda_callers_end();
    vg_cuda_steps_report(work);
    restore_log();
    restore_keep(work);
    return work->failure ? -1 : 0;
}
