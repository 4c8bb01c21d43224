/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes CUDA programs release their GPUs. Before the first one is stopped, everything that can be
 * known is checked: whether the driver can release each program, whether it could restore each one
 * (guest/cuda-ties.h), and whether the guest has the memory. All are locked before the first one is
 * copied. From then on, nothing can make a new tie, and the watch is checked again.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest/child.h"
#include "guest/cuda-drivers.h"
#include "guest/cuda-hold.h"
#include "guest/cuda-maps.h"
#include "guest/cuda-steps.h"
#include "guest/cuda-ties.h"
#include "guest/cuda-watch.h"
#include "guest/huge-pages.h"
#include "guest/process.h"
#include "guest/util.h"

enum {
    /* The time for programs that only queried the GPU, or have just started to use it, to end. */
    SETTLE_MS = 5000,
    /* The time for children that appear while all processes are locked, or are about to run another
     * program. */
    FORKED_MS = 2000,
    /* The pause between two checks of such children. */
    FORKED_POLL_MS = 20,
};
/* The name of nvidia-cuda-mps-server and nvidia-cuda-mps-control, as the kernel truncates it. */
#define MPS_COMM "nvidia-cuda-mps"

/* Explains why the driver cannot release a process, from its answer about the state. The text is
 * empty if it can. */
static void
release_explain(struct vg_cuda_process *process, const struct vg_cuda_call *call)
{
    const char *why = call->why;
    char keeps[sizeof process->why];

    if (call->outcome == VG_CUDA_UNDER_WAY || call->outcome == VG_CUDA_WAITS)
        why = "the driver does not answer";
    else if (call->outcome == VG_CUDA_ANSWERED && call->result == VG_CUDA_SUCCESS)
        why = call->state == VG_CUDA_RUNNING  ? ""
              : call->state == VG_CUDA_FAILED ? "the driver failed to restore it earlier"
                                              : "another program has locked it";
    else if (call->outcome == VG_CUDA_ANSWERED && call->result == VG_CUDA_NOT_INITIALIZED) {
        why = keeps;
        if (process->inherited)
            vg_guest_put(keeps, sizeof keeps,
                         "it inherited GPU files from its ancestor %d and cannot release them: %s",
                         (int)process->ancestor, process->keeps);
        else
            vg_guest_put(keeps, sizeof keeps,
                         "it uses the GPU without CUDA (for example, for OpenCL, graphics or "
                         "monitoring)%s%s",
                         process->ancestor > 0 ? ": " : "",
                         process->ancestor > 0 ? process->keeps : "");
        if (strcmp(process->comm, MPS_COMM) == 0)
            why = "it is the MPS server, which the driver cannot release together with its "
                  "clients; start the clients without MPS";
    } else if (call->outcome == VG_CUDA_ANSWERED && call->result == VG_CUDA_NOT_SUPPORTED) {
        why = "it uses something that the driver cannot release, such as memory shared with other "
              "processes";
    }
    vg_guest_put(process->why, sizeof process->why, "%s", why);
}

/* ---- ties ---- */

/* Returns whether NVIDIA's checkpoint started this process as one of a job. */
static bool
release_is_job(const char *root, pid_t pid)
{
    vg_guest_auto char *path = vg_guest_format("%s/proc/%d/environ", root, (int)pid);
    static const char name[] = "CUDA_CHECKPOINT_JOB_FILE=";
    FILE *file = fopen(path, "re");
    char *entry = NULL;
    size_t size = 0;
    bool found = false;

    while (file && !found && getdelim(&entry, &size, '\0', file) > 0)
        found = strncmp(entry, name, strlen(name)) == 0;
    free(entry);
    if (file)
        fclose(file);
    return found;
}

static bool
release_has_process(void *user, pid_t pid)
{
    (void)user;
    for (size_t i = 0; i < vg_cuda_work.n; i++) {
        if (vg_cuda_work.processes[i].pid == pid)
            return true;
    }
    for (size_t i = 0; i < vg_cuda_work.n_inheritors; i++) {
        if (vg_cuda_work.inheritors[i].pid == pid)
            return true;
    }
    return false;
}

/* Returns whether this is the only process in the guest that uses CUDA, so that it cannot share
 * memory with another one. */
static bool
release_is_alone(const struct vg_guest_work *work)
{
    size_t n = 0;

    for (size_t i = 0; i < vg_cuda_work.n; i++)
        n += vg_cuda_work.processes[i].uses_cuda ? 1 : 0;
    return n + vg_cuda_watch_count_users(work->config->root, release_has_process, NULL) <= 1;
}

static int
release_check_gpus(const struct vg_guest_work *work, struct vg_cuda_gpus *ret)
{
    int64_t until_ms = vg_guest_now_ms() + VG_CUDA_GPUS_MS;

    /* Each start takes one snapshot. */
    vg_cuda_callers_start(vg_cuda_work.n);
    if (vg_cuda_callers_gpus(ret, until_ms < work->until_ms ? until_ms : work->until_ms) != 0)
        return -1;
    vg_cuda_job_set_gpus(work, &vg_cuda_work, ret);
    return 0;
}

/* The watch's record of a process. */
struct release_seen {
    struct vg_cuda_tied tied;
    /* Whether all its calls were seen; otherwise, the reason. */
    bool known;
    char unseen[128];
};

/* Determines what each process calls. If GPU memory decides about one of them, checks the GPUs
 * afterwards, so that memory which these calls took is counted. */
static void
release_read_watch(const struct vg_guest_work *work, int driver, struct release_seen *ret_seen)
{
    static struct vg_cuda_watch_file watched;
    static struct vg_cuda_gpus gpus;
    const char *root = work->config->root;
    bool wants_gpus = false, has_gpus = vg_cuda_work.gpus.n == 1;

    vg_cuda_watch_read(root, &watched);
    for (size_t i = 0; i < vg_cuda_work.n; i++) {
        struct vg_cuda_process *process = &vg_cuda_work.processes[i];
        struct release_seen *seen = &ret_seen[i];
        if (process->gone || !process->uses_cuda)
            continue;
        *seen = (struct release_seen){.tied = {.driver = driver, .most_bytes = -1}};
        seen->known = vg_cuda_watch_knows(root, &watched, process->pid, process->start,
                                          &seen->tied.ties, seen->unseen, sizeof seen->unseen);
        seen->tied.history = vg_cuda_watch_history(&watched, process->pid, process->start);
        seen->tied.is_job = release_is_job(root, process->pid);
        seen->tied.exporter = vg_cuda_watch_exporter(root, &watched, process->pid);
        seen->tied.libraries = vg_cuda_maps_libraries(root, process->pid);
        wants_gpus = wants_gpus || vg_cuda_tied_wants_bytes(seen->tied.history) ||
                     (seen->tied.ties & VG_CUDA_TIE_POOL) ||
                     (!seen->known && !work->config->cuda_unwatched_allowed);
    }
    /* A guest with one GPU has no process on several. */
    if (wants_gpus && !has_gpus)
        has_gpus = release_check_gpus(work, &gpus) == 0;
    for (size_t i = 0; i < vg_cuda_work.n && has_gpus; i++)
        vg_cuda_process_spread(&vg_cuda_work, &vg_cuda_work.processes[i], &ret_seen[i].tied.gpus,
                               &ret_seen[i].tied.most_bytes);
}

/* Explains why a process that was not watched from its start is not released. */
static void
release_explain_unseen(struct vg_cuda_process *process, const struct release_seen *seen, bool alone)
{
    if (!alone)
        vg_guest_put(process->why, sizeof process->why,
                     "it may use another process's memory, and such a process cannot be restored; "
                     "this is unknown because %s",
                     seen->unseen);
    else if (vg_cuda_tied_could_have_peer(&seen->tied))
        vg_guest_put(process->why, sizeof process->why,
                     "one of its GPUs may have access to an allocation of 512 MiB or more on "
                     "another, and such a process cannot be restored; this is unknown because %s",
                     seen->unseen);
}

/* Explains why no process is released with this driver version. */
static void
release_explain_driver(const struct vg_guest_work *work, const char *version,
                       struct vg_cuda_process *process)
{
    const struct vg_cuda_driver_fault *fault = NULL;

    while ((fault = vg_cuda_driver_next(version, fault))) {
        if (fault->action != VG_CUDA_DRIVER_REFUSE || *process->why ||
            work->config->cuda_faults_allowed)
            continue;
        process->movable = VG_CUDA_MOVABLE_NO;
        vg_guest_put(process->why, sizeof process->why,
                     "users report that with NVIDIA's driver %s, %s (%s); to release programs "
                     "anyway, set driver_faults=allow in the configuration",
                     version, fault->what, fault->source);
    }
}

/* Checks the watch for each process. If a process cannot be moved, the reason becomes its `why`. */
static void
release_query_watch(const struct vg_guest_work *work)
{
    static struct release_seen seen[VG_CUDA_PROCESSES_MAX];
    char version[VG_CUDA_DRIVER_VERSION_MAX];
    int driver = vg_cuda_driver_read(work->config->root, version);
    bool alone = release_is_alone(work);

    release_read_watch(work, driver, seen);
    for (size_t i = 0; i < vg_cuda_work.n; i++) {
        struct vg_cuda_process *process = &vg_cuda_work.processes[i];
        char why[sizeof process->why];
        if (process->gone || !process->uses_cuda)
            continue;
        bool can = vg_cuda_tied_can_move(&seen[i].tied, why, sizeof why);
        process->ties = seen[i].tied.ties;
        process->movable = !can            ? VG_CUDA_MOVABLE_NO
                           : seen[i].known ? VG_CUDA_MOVABLE_YES
                                           : VG_CUDA_MOVABLE_UNKNOWN;
        if (!can && !*process->why)
            vg_guest_put(process->why, sizeof process->why, "%s", why);
        if (process->movable == VG_CUDA_MOVABLE_UNKNOWN && !*process->why &&
            !work->config->cuda_unwatched_allowed)
            release_explain_unseen(process, &seen[i], alone);
        release_explain_driver(work, version, process);
    }
}

/* ---- asking ---- */

/* Finds a process that prevents the release. Certain cases come before unknown ones. */
static const struct vg_cuda_process *
release_first_bad(void)
{
    const struct vg_cuda_process *found = NULL;

    for (size_t i = 0; i < vg_cuda_work.n; i++) {
        const struct vg_cuda_process *process = &vg_cuda_work.processes[i];
        if (!*process->why || process->gone)
            continue;
        if (process->movable == VG_CUDA_MOVABLE_NO)
            return process;
        if (!found || found->movable == VG_CUDA_MOVABLE_UNKNOWN)
            found = process;
    }
    return found;
}

const struct vg_cuda_process *
vg_cuda_release_ask(struct vg_guest_work *work, int64_t until_ms)
{
    const struct vg_cuda_process *traced = vg_cuda_hold_check(work, &vg_cuda_work);

    if (traced)
        return traced;
    vg_cuda_steps_call(work, VG_CUDA_OP_STATE, VG_CUDA_ANY_STATE, until_ms);
    for (size_t i = 0; i < vg_cuda_steps_n(); i++) {
        struct vg_cuda_process *process;
        const struct vg_cuda_call *call = vg_cuda_steps_call_at(i, &process);
        process->uses_cuda = !process->gone && !(call->outcome == VG_CUDA_ANSWERED &&
                                                 call->result == VG_CUDA_NOT_INITIALIZED);
        release_explain(process, call);
    }
    release_query_watch(work);
    return release_first_bad();
}

static void
release_forget_gone(void)
{
    size_t n = 0;

    for (size_t i = 0; i < vg_cuda_work.n; i++) {
        if (!vg_cuda_work.processes[i].gone)
            vg_cuda_work.processes[n++] = vg_cuda_work.processes[i];
    }
    vg_cuda_work.n = n;
}

static int
release_refuse(struct vg_guest_work *work, const struct vg_cuda_process *bad)
{
    return vg_guest_work_fail(work, VG_GUEST_UNRELEASABLE,
                              "process %d (%s) has a GPU and cannot be released: %s", (int)bad->pid,
                              bad->comm, bad->why);
}

/* Waits until all processes that have the GPUs are running CUDA programs that can come back.
 * Returns 0, or 1 if there are no such processes, or -1. */
static int
release_find(struct vg_guest_work *work)
{
    int64_t until_ms = vg_guest_now_ms() + SETTLE_MS;
    bool told = false;

    until_ms = until_ms < work->until_ms ? until_ms : work->until_ms;
    for (;;) {
        size_t total = vg_cuda_job_find(work, &vg_cuda_work);
        if (total == 0)
            return 1;
        if (total > VG_CUDA_PROCESSES_MAX)
            return vg_guest_work_fail(work, VG_GUEST_UNRELEASABLE,
                                      "%zu processes use the GPUs, but at most %d can be released",
                                      total, VG_CUDA_PROCESSES_MAX);
        vg_cuda_callers_start(vg_cuda_work.n);
        const struct vg_cuda_process *bad = vg_cuda_release_ask(work, work->until_ms);
        if (vg_guest_child_stop() == VG_GUEST_STOP_CANCEL)
            return vg_guest_work_check(work, "state");
        if (!bad) {
            release_forget_gone();
            return vg_cuda_work.n > 0 ? 0 : 1;
        }
        if (!told) {
            json_object *more = json_object_new_object();
            vg_cuda_job_describe(&vg_cuda_work, more, NULL);
            vg_guest_work_progress(work, "unreleasable", more);
        }
        told = true;
        /* Ties and debuggers do not disappear with time. */
        if (bad->traced || bad->movable == VG_CUDA_MOVABLE_NO ||
            bad->movable == VG_CUDA_MOVABLE_UNKNOWN ||
            vg_guest_now_ms() + VG_CUDA_LOOK_MS >= until_ms)
            return release_refuse(work, bad);
        vg_cuda_callers_end();
        vg_guest_child_sleep(vg_guest_now_ms() + VG_CUDA_LOOK_MS);
    }
}

/* ---- memory ---- */

int
vg_cuda_release_compare_memory(const char *root, int64_t *ret_need, int64_t *ret_free)
{
    *ret_need = vg_cuda_job_bytes(&vg_cuda_work) + (int64_t)vg_cuda_work.n * VG_CUDA_OVERHEAD_BYTES;
    *ret_free = vg_guest_free_memory(root);
    return *ret_free >= 0 && *ret_free < *ret_need ? -1 : 0;
}

static int
release_check_memory(struct vg_guest_work *work)
{
    int64_t need, free_bytes;

    if (vg_cuda_release_compare_memory(work->config->root, &need, &free_bytes) == 0)
        return 0;
    return vg_guest_work_fail(
        work, VG_GUEST_NO_MEMORY,
        "releasing the GPUs needs %lld MiB of the guest's memory (for %zu processes with %lld MiB "
        "of GPU memory, plus %lld MiB each), but only %lld MiB are available",
        (long long)(need >> 20), vg_cuda_work.n,
        (long long)(vg_cuda_job_bytes(&vg_cuda_work) >> 20),
        (long long)(VG_CUDA_OVERHEAD_BYTES >> 20), (long long)(free_bytes >> 20));
}

static int
release_learn_gpus(struct vg_guest_work *work)
{
    static struct vg_cuda_gpus gpus;

    if (release_check_gpus(work, &gpus) == 0)
        return 0;
    if (vg_guest_work_check(work, "state") == 0)
        vg_guest_work_fail(work, VG_GUEST_CUDA_FAILED, "%s", gpus.why);
    return -1;
}

/* ---- releasing ---- */

/* Stores the state of the stopped processes, in case the agent is restarted in the meantime. */
static void
release_keep(const struct vg_guest_work *work, json_object **kept)
{
    json_object_put(*kept);
    *kept = vg_cuda_job_keep(&vg_cuda_work);
    vg_cuda_job_write(work->config->root, *kept);
}

/* Checks the watch again, now that no process can continue. Returns 0, or -1 if a process has made
 * a tie since the first check. */
static int
release_check_again(struct vg_guest_work *work)
{
    release_query_watch(work);
    const struct vg_cuda_process *bad = release_first_bad();
    return bad ? release_refuse(work, bad) : 0;
}

static int
release_refuse_inheritor(struct vg_guest_work *work, pid_t pid, pid_t ancestor, const char *why)
{
    vg_guest_auto char *dir = vg_guest_format("%s/proc/%d", work->config->root, (int)pid);
    char name[32];

    vg_guest_process_name(dir, name, sizeof name);
    return vg_guest_work_fail(
        work, VG_GUEST_UNRELEASABLE,
        "process %d (%s) inherited GPU files from its ancestor %d and cannot release them: %s",
        (int)pid, name, (int)ancestor, why);
}

/* Makes the inheritors give up their files, and counts these files. Returns 0, or -1. */
static int
release_have_given_up(struct vg_guest_work *work, struct vg_cuda_job *now)
{
    size_t failed = vg_cuda_job_give_up(work, now, work->until_ms);
    int result = 0;

    for (size_t i = 0; i < now->n_inheritors; i++) {
        const struct vg_guest_inheritor *inheritor = &now->inheritors[i];
        bool gave = inheritor->descriptors + inheritor->maps > 0;
        vg_cuda_work.given_processes += gave ? 1 : 0;
        vg_cuda_work.given_descriptors += inheritor->descriptors;
        vg_cuda_work.given_maps += inheritor->maps;
        if (*inheritor->why)
            result =
                release_refuse_inheritor(work, inheritor->pid, inheritor->ancestor, inheritor->why);
    }
    vg_guest_log(LOG_NOTICE,
                 "forked children released files processes=%zu descriptors=%zu maps=%zu failed=%zu",
                 vg_cuda_work.given_processes, vg_cuda_work.given_descriptors,
                 vg_cuda_work.given_maps, failed);
    return result;
}

/* Makes the children that these processes forked give up their files, including new children. If a
 * child has opened files itself in the meantime, this is detected when the GPUs must be free. */
static int
release_forked(struct vg_guest_work *work)
{
    static struct vg_cuda_job now;
    int64_t until_ms = vg_guest_now_ms() + FORKED_MS;

    if (!work->config->cuda_release_forked)
        return 0;
    vg_cuda_work.given_processes = vg_cuda_work.given_descriptors = vg_cuda_work.given_maps = 0;
    for (;;) {
        const struct vg_cuda_process *keeps = NULL;
        vg_cuda_job_find(work, &now);
        if (now.n_inheritors > 0 && release_have_given_up(work, &now) != 0)
            return -1;
        for (size_t i = 0; i < now.n && !keeps; i++)
            keeps = now.processes[i].inherited ? &now.processes[i] : NULL;
        bool late = vg_guest_now_ms() >= until_ms;
        if (keeps && late)
            return release_refuse_inheritor(work, keeps->pid, keeps->ancestor, keeps->keeps);
        if (late || (!keeps && now.n_inheritors == 0))
            return vg_guest_work_check(work, "checkpoint");
        if (keeps)
            vg_guest_child_sleep(vg_guest_now_ms() + FORKED_POLL_MS);
    }
}

static int
release_stop(struct vg_guest_work *work, json_object **kept)
{
    const struct vg_cuda_process *bad = vg_cuda_hold_begin(work, &vg_cuda_work);

    release_keep(work, kept);
    if (bad)
        return vg_guest_work_check(work, "lock") != 0 ? -1 : release_refuse(work, bad);
    size_t failed = vg_cuda_steps_call(work, VG_CUDA_OP_LOCK, VG_CUDA_RUNNING, work->until_ms);
    release_keep(work, kept);
    if (failed > 0)
        return vg_cuda_steps_fail(work, "cannot be stopped");
    vg_cuda_hold_locked(work);
    if (release_check_again(work) != 0 || release_forked(work) != 0)
        return -1;
    vg_guest_huge_pages_begin(work->config);
    failed = vg_cuda_steps_call(work, VG_CUDA_OP_CHECKPOINT, VG_CUDA_LOCKED, work->until_ms);
    vg_guest_huge_pages_end(work->config);
    vg_cuda_hold_count(work, &vg_cuda_work);
    release_keep(work, kept);
    if (failed > 0)
        return vg_cuda_steps_fail(work, "cannot be released");
    return vg_guest_work_check(work, "checkpoint");
}

static void
release_warn_of_driver(const struct vg_guest_work *work)
{
    const struct vg_cuda_driver_fault *fault = NULL;
    char version[VG_CUDA_DRIVER_VERSION_MAX];

    vg_cuda_driver_read(work->config->root, version);
    while ((fault = vg_cuda_driver_next(version, fault))) {
        if (fault->action != VG_CUDA_DRIVER_NOTE)
            vg_guest_log(LOG_WARNING, "driver has a known fault version='%s' what='%s' source='%s'",
                         version, fault->what, fault->source);
    }
}

int
vg_cuda_release(struct vg_guest_work *work, json_object **ret_kept)
{
    static struct vg_cuda_call probe;

    if (vg_cuda_job_find(work, &vg_cuda_work) == 0 || vg_cuda_work.n == 0)
        return 0;
    vg_cuda_callers_start(vg_cuda_work.n);
    /* Without CUDA in the guest, a process that has the GPU uses it in another way, and the agent
     * waits until it releases the GPU. */
    probe = (struct vg_cuda_call){.op = VG_CUDA_OP_STATE, .pid = vg_cuda_work.processes[0].pid};
    /* A process that a debugger has stopped would not answer. */
    if (vg_cuda_hold_check(work, &vg_cuda_work))
        probe.pid = getpid();
    vg_cuda_callers_run(&probe, 1, work->until_ms, NULL);
    int result = 1;
    if (probe.outcome != VG_CUDA_ABSENT)
        result = release_find(work);
    if (result == 0)
        result = release_learn_gpus(work);
    if (result == 0)
        result = release_check_memory(work);
    if (result == 0) {
        release_warn_of_driver(work);
        vg_guest_work_allow_copy(work, vg_cuda_job_bytes(&vg_cuda_work));
        /* This comes before the first call, so that the stopped programs are known, no matter what
         * ends this process. */
        release_keep(work, ret_kept);
        result = release_stop(work, ret_kept);
    }
    if (result != 1)
        vg_cuda_steps_report(work);
    /* Calls in progress continue until they are undone. */
    if (result >= 0 || !*ret_kept)
        vg_cuda_callers_end();
    return result < 0 ? -1 : 0;
}
