/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/cuda-job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/holder.h"
#include "guest/node.h"
#include "guest/process.h"
#include "guest/util.h"

/* The maximum number of pairs of a process and a node. */
#define HOLDERS_MAX 16384
/* The maximum depth of a process tree. */
#define DEPTH_MAX 64

#define NVIDIA_VENDOR 0x10de

bool
vg_cuda_process_lives(const char *root, const struct vg_cuda_process *process)
{
    struct vg_guest_process is;

    return vg_guest_process_read(root, process->pid, &is) == 0 && is.start == process->start &&
           !is.ended;
}

bool
vg_cuda_process_is_ending(const char *root, const struct vg_cuda_process *process)
{
    struct vg_guest_process is;

    return vg_guest_process_read(root, process->pid, &is) != 0 || is.ending;
}

static struct vg_cuda_process *
job_process(struct vg_cuda_job *job, pid_t pid)
{
    for (size_t i = 0; i < job->n; i++) {
        if (job->processes[i].pid == pid)
            return &job->processes[i];
    }
    return NULL;
}

static void
job_add(struct vg_cuda_job *job, const char *root, const struct vg_guest_holder *holder,
        const struct vg_guest_inheritor *inheritor)
{
    struct vg_cuda_process *process = &job->processes[job->n];
    struct vg_guest_process is;

    *process = (struct vg_cuda_process){.pid = holder->pid,
                                        .job = holder->pid,
                                        .state = -1,
                                        .locked_us = -1,
                                        .lock_us = -1,
                                        .checkpoint_us = -1,
                                        .restore_us = -1,
                                        .unlock_us = -1,
                                        .stop_us = -1,
                                        .held_threads = -1};
    /* The process has ended since. */
    if (vg_guest_process_read(root, holder->pid, &is) != 0)
        return;
    process->start = is.start;
    vg_guest_put(process->comm, sizeof process->comm, "%s", holder->comm);
    process->ancestor = inheritor->ancestor;
    process->inherited = inheritor->inherited;
    vg_guest_put(process->keeps, sizeof process->keeps, "%s", inheritor->why);
    job->n++;
}

static void
job_set_tree(struct vg_cuda_job *job, const char *root, struct vg_cuda_process *process)
{
    struct vg_guest_process is = {.parent = process->pid};

    for (int i = 0; i < DEPTH_MAX && is.parent > 1; i++) {
        if (vg_guest_process_read(root, is.parent, &is) != 0)
            break;
        if (job_process(job, is.parent))
            process->job = is.parent;
    }
}

/* Keeps the first entry of each process that has one of NVIDIA's nodes, except for the callers.
 * Returns their number. */
static size_t
job_pick_holders(const char *root, struct vg_guest_holder *holders, size_t n, pid_t *ret_pids)
{
    vg_guest_auto char *dev = vg_guest_format("%s/dev/nvidia", root);
    size_t picked = 0;

    for (size_t i = 0; i < n; i++) {
        if (strncmp(holders[i].path, dev, strlen(dev)) != 0 ||
            (picked > 0 && holders[i].pid == ret_pids[picked - 1]) ||
            vg_cuda_callers_have(holders[i].pid))
            continue;
        ret_pids[picked] = holders[i].pid;
        holders[picked++] = holders[i];
    }
    return picked;
}

/* Adds a process to the job's inheritors if it is one. Returns false if it is not, or keeps its
 * files. */
static bool
job_add_inheritor(struct vg_cuda_job *job, const struct vg_guest_inheritor *inheritor)
{
    if (!inheritor->inherited || *inheritor->why || job->n_inheritors == VG_CUDA_INHERITORS_MAX)
        return false;
    job->inheritors[job->n_inheritors++] = *inheritor;
    job->given_processes++;
    job->given_descriptors += inheritor->descriptors;
    job->given_maps += inheritor->maps;
    return true;
}

/* Separates processes that use the GPUs from those that have only inherited the files of such a
 * process. Returns the number of the former. */
static size_t
job_sort(const struct vg_guest_work *work, struct vg_cuda_job *job,
         const struct vg_guest_inheritors *among, const struct vg_guest_holder *holders)
{
    size_t total = 0;

    for (size_t i = 0; i < among->n_holders; i++) {
        struct vg_guest_inheritor inheritor = {.pid = holders[i].pid};
        vg_guest_inheritor_check(among, &inheritor);
        if (inheritor.inherited && !work->config->cuda_release_forked)
            vg_guest_put(inheritor.why, sizeof inheritor.why,
                         "forked=refuse is set in the configuration");
        if (inheritor.gone || job_add_inheritor(job, &inheritor))
            continue;
        total++;
        if (job->n < VG_CUDA_PROCESSES_MAX)
            job_add(job, work->config->root, &holders[i], &inheritor);
    }
    return total;
}

size_t
vg_cuda_job_find(const struct vg_guest_work *work, struct vg_cuda_job *job)
{
    const char *root = work->config->root;
    vg_guest_auto struct vg_guest_holder *holders = vg_guest_alloc(HOLDERS_MAX * sizeof *holders);
    vg_guest_auto pid_t *pids = vg_guest_alloc(HOLDERS_MAX * sizeof *pids);
    struct vg_guest_nodes nodes;

    job->n = job->n_inheritors = 0;
    job->given_processes = job->given_descriptors = job->given_maps = 0;
    vg_guest_nodes_read(root, work->devices, work->n_devices, &nodes);
    size_t n = vg_guest_holders_find(root, &nodes, holders, HOLDERS_MAX);
    size_t picked = job_pick_holders(root, holders, n < HOLDERS_MAX ? n : HOLDERS_MAX, pids);
    const struct vg_guest_inheritors among = {.root = root,
                                              .nodes = &nodes,
                                              .owners = pids,
                                              .n_owners = picked,
                                              .holders = pids,
                                              .n_holders = picked};
    size_t total = job_sort(work, job, &among, holders);
    vg_guest_nodes_clear(&nodes);
    for (size_t i = 0; i < job->n; i++)
        job_set_tree(job, root, &job->processes[i]);
    return n > HOLDERS_MAX ? n : total;
}

size_t
vg_cuda_job_give_up(const struct vg_guest_work *work, struct vg_cuda_job *job, int64_t until_ms)
{
    size_t n = job->n + job->n_inheritors;
    vg_guest_auto pid_t *pids = vg_guest_alloc(n * sizeof *pids);
    struct vg_guest_nodes nodes;

    for (size_t i = 0; i < n; i++)
        pids[i] = i < job->n ? job->processes[i].pid : job->inheritors[i - job->n].pid;
    vg_guest_nodes_read(work->config->root, work->devices, work->n_devices, &nodes);
    const struct vg_guest_inheritors among = {.root = work->config->root,
                                              .nodes = &nodes,
                                              .owners = pids,
                                              .n_owners = job->n,
                                              .holders = pids,
                                              .n_holders = n};
    size_t failed =
        vg_guest_inheritors_release(&among, job->inheritors, job->n_inheritors, until_ms);
    vg_guest_nodes_clear(&nodes);
    return failed;
}

void
vg_cuda_job_set_gpus(const struct vg_guest_work *work, struct vg_cuda_job *job,
                     const struct vg_cuda_gpus *gpus)
{
    job->gpus = *gpus;
    job->n_leaving = 0;
    for (size_t i = 0; i < work->n_devices; i++) {
        for (size_t j = 0; j < gpus->n; j++) {
            if (work->devices[i].vendor == NVIDIA_VENDOR &&
                strcmp(gpus->gpus[j].address, work->devices[i].address) == 0 &&
                job->n_leaving < VG_CUDA_GPUS_MAX)
                job->leaving[job->n_leaving++] = j;
        }
    }
    for (size_t i = 0; i < job->n; i++) {
        memset(job->processes[i].bytes, 0, sizeof job->processes[i].bytes);
        job->processes[i].bytes_known = false;
    }
    for (size_t i = 0; i < gpus->n_uses; i++) {
        struct vg_cuda_process *process = job_process(job, gpus->uses[i].pid);
        if (!process || gpus->uses[i].bytes < 0)
            continue;
        process->bytes[gpus->uses[i].gpu] += gpus->uses[i].bytes;
        process->bytes_known = true;
    }
}

void
vg_cuda_process_spread(const struct vg_cuda_job *job, const struct vg_cuda_process *process,
                       size_t *ret_gpus, int64_t *ret_most)
{
    const struct vg_cuda_gpus *gpus = &job->gpus;
    bool on[VG_CUDA_GPUS_MAX] = {false}, known = false;

    *ret_gpus = 0;
    *ret_most = -1;
    if (gpus->incomplete)
        return;
    *ret_most = 0;
    for (size_t i = 0; i < gpus->n_uses; i++) {
        if (gpus->uses[i].pid != process->pid)
            continue;
        known = known || gpus->uses[i].bytes >= 0;
        *ret_gpus += on[gpus->uses[i].gpu] ? 0 : 1;
        on[gpus->uses[i].gpu] = true;
        if (gpus->uses[i].bytes < 0)
            *ret_most = INT64_MAX;
    }
    for (size_t i = 0; i < gpus->n && *ret_most < INT64_MAX; i++)
        *ret_most = process->bytes[i] > *ret_most ? process->bytes[i] : *ret_most;
    /* A guest with one GPU has no process on several. */
    if (gpus->n == 1)
        *ret_gpus = 1;
    if (!known || *ret_most == INT64_MAX)
        *ret_most = -1;
}

int64_t
vg_cuda_process_bytes(const struct vg_cuda_job *job, const struct vg_cuda_process *process)
{
    int64_t bytes = 0;

    if (!process->bytes_known)
        return -1;
    for (size_t i = 0; i < job->gpus.n; i++)
        bytes += process->bytes[i];
    return bytes;
}

int64_t
vg_cuda_job_bytes(const struct vg_cuda_job *job)
{
    int64_t bytes = 0, used = 0;
    bool known = true;

    for (size_t i = 0; i < job->n; i++) {
        int64_t of_one = vg_cuda_process_bytes(job, &job->processes[i]);
        known = known && of_one >= 0;
        bytes += of_one >= 0 ? of_one : 0;
    }
    for (size_t i = 0; i < job->n_leaving; i++)
        used += job->gpus.gpus[job->leaving[i]].used_bytes;
    return known || bytes > used ? bytes : used;
}

/* ---- JSON ---- */

static void
job_put(json_object *object, const char *name, int64_t value)
{
    json_object_object_add(object, name, json_object_new_int64(value));
}

static int64_t
job_get(json_object *object, const char *name)
{
    return json_object_get_int64(json_object_object_get(object, name));
}

static void
job_put_text(json_object *object, const char *name, const char *text)
{
    json_object_object_add(object, name, json_object_new_string(text));
}

static void
job_put_list(json_object *object, const char *name, json_object *list)
{
    json_object_object_add(object, name, list);
}

static void
job_get_text(json_object *object, const char *name, char *ret, size_t size)
{
    const char *text = json_object_get_string(json_object_object_get(object, name));

    vg_guest_put(ret, size, "%s", text ? text : "");
}

static void
job_put_gpu(json_object *list, const struct vg_cuda_gpu *gpu)
{
    json_object *object = json_object_new_object();
    char uuid[2 * sizeof gpu->uuid.bytes + 1];

    for (size_t i = 0; i < sizeof gpu->uuid.bytes; i++)
        vg_guest_put(uuid + 2 * i, 3, "%02x", gpu->uuid.bytes[i]);
    job_put_text(object, "uuid", uuid);
    job_put_text(object, "address", gpu->address);
    job_put_text(object, "name", gpu->name);
    job_put(object, "major", gpu->major);
    job_put(object, "minor", gpu->minor);
    job_put(object, "total", gpu->total_bytes);
    job_put(object, "used", gpu->used_bytes);
    json_object_array_add(list, object);
}

static void
job_get_gpu(json_object *object, struct vg_cuda_gpu *ret)
{
    char uuid[2 * sizeof ret->uuid.bytes + 1];

    job_get_text(object, "uuid", uuid, sizeof uuid);
    for (size_t i = 0; i < strlen(uuid) / 2; i++) {
        char digits[3] = {uuid[2 * i], uuid[2 * i + 1], '\0'};
        ret->uuid.bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    job_get_text(object, "address", ret->address, sizeof ret->address);
    job_get_text(object, "name", ret->name, sizeof ret->name);
    ret->major = (int)job_get(object, "major");
    ret->minor = (int)job_get(object, "minor");
    ret->total_bytes = job_get(object, "total");
    ret->used_bytes = job_get(object, "used");
}

static void
job_put_process(const struct vg_cuda_job *job, json_object *list,
                const struct vg_cuda_process *process)
{
    json_object *object = json_object_new_object(), *bytes = json_object_new_array();

    job_put(object, "pid", process->pid);
    job_put(object, "start", (int64_t)process->start);
    job_put_text(object, "comm", process->comm);
    job_put(object, "job", process->job);
    for (size_t i = 0; i < job->gpus.n && process->bytes_known; i++)
        json_object_array_add(bytes, json_object_new_int64(process->bytes[i]));
    job_put_list(object, "bytes", bytes);
    job_put(object, "locked_us", process->locked_us);
    job_put(object, "lock_us", process->lock_us);
    job_put(object, "checkpoint_us", process->checkpoint_us);
    job_put(object, "lost", process->state == VG_CUDA_FAILED);
    if (process->held_threads >= 0)
        job_put(object, "held_threads", process->held_threads);
    json_object_array_add(list, object);
}

static void
job_get_process(json_object *object, struct vg_cuda_process *ret)
{
    json_object *bytes = json_object_object_get(object, "bytes");
    size_t n = bytes ? json_object_array_length(bytes) : 0;

    *ret = (struct vg_cuda_process){.pid = (pid_t)job_get(object, "pid"),
                                    .start = (uint64_t)job_get(object, "start"),
                                    .job = (pid_t)job_get(object, "job"),
                                    .bytes_known = n > 0,
                                    .state = job_get(object, "lost") ? VG_CUDA_FAILED : -1,
                                    .locked_us = job_get(object, "locked_us"),
                                    .lock_us = job_get(object, "lock_us"),
                                    .checkpoint_us = job_get(object, "checkpoint_us"),
                                    .restore_us = -1,
                                    .unlock_us = -1,
                                    .stop_us = -1,
                                    .held_threads = -1};
    if (json_object_object_get(object, "held_threads"))
        ret->held_threads = job_get(object, "held_threads");
    job_get_text(object, "comm", ret->comm, sizeof ret->comm);
    for (size_t i = 0; i < n && i < VG_CUDA_GPUS_MAX; i++)
        ret->bytes[i] = json_object_get_int64(json_object_array_get_idx(bytes, i));
}

static void
job_put_forked(const struct vg_cuda_job *job, json_object *object)
{
    if (job->given_processes == 0)
        return;
    json_object *forked = json_object_new_object();
    job_put(forked, "processes", (int64_t)job->given_processes);
    job_put(forked, "descriptors", (int64_t)job->given_descriptors);
    job_put(forked, "maps", (int64_t)job->given_maps);
    json_object_object_add(object, "forked", forked);
}

json_object *
vg_cuda_job_keep(const struct vg_cuda_job *job)
{
    json_object *kept = json_object_new_object(), *gpus = json_object_new_array();
    json_object *leaving = json_object_new_array(), *processes = json_object_new_array();

    for (size_t i = 0; i < job->gpus.n; i++)
        job_put_gpu(gpus, &job->gpus.gpus[i]);
    for (size_t i = 0; i < job->n_leaving; i++)
        json_object_array_add(leaving, json_object_new_int64((int64_t)job->leaving[i]));
    for (size_t i = 0; i < job->n; i++)
        job_put_process(job, processes, &job->processes[i]);
    job_put_list(kept, "gpus", gpus);
    job_put_list(kept, "leaving", leaving);
    job_put_list(kept, "processes", processes);
    job_put_forked(job, kept);
    return kept;
}

void
vg_cuda_job_write(const char *root, json_object *kept)
{
    vg_guest_auto char *path = vg_guest_format("%s" VG_CUDA_KEPT_PATH, root);
    vg_guest_auto char *next = vg_guest_format("%s.new", path);

    if (json_object_to_file_ext(next, kept, JSON_C_TO_STRING_PLAIN) != 0 || rename(next, path) != 0)
        vg_guest_log(LOG_WARNING, "cannot write file path='%s' error='%s'", path, strerror(errno));
}

static size_t
job_length(json_object *list, size_t max)
{
    size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;

    return n < max ? n : max;
}

int
vg_cuda_job_read(json_object *kept, struct vg_cuda_job *ret)
{
    json_object *gpus = json_object_object_get(kept, "gpus");
    json_object *leaving = json_object_object_get(kept, "leaving");
    json_object *processes = json_object_object_get(kept, "processes");

    memset(ret, 0, sizeof *ret);
    ret->gpus.n = job_length(gpus, VG_CUDA_GPUS_MAX);
    ret->n_leaving = job_length(leaving, VG_CUDA_GPUS_MAX);
    ret->n = job_length(processes, VG_CUDA_PROCESSES_MAX);
    for (size_t i = 0; i < ret->gpus.n; i++)
        job_get_gpu(json_object_array_get_idx(gpus, i), &ret->gpus.gpus[i]);
    for (size_t i = 0; i < ret->n_leaving; i++) {
        int64_t at = json_object_get_int64(json_object_array_get_idx(leaving, i));
        if (at < 0 || at >= (int64_t)ret->gpus.n)
            return -1;
        ret->leaving[i] = (size_t)at;
    }
    for (size_t i = 0; i < ret->n; i++)
        job_get_process(json_object_array_get_idx(processes, i), &ret->processes[i]);
    json_object *forked = json_object_object_get(kept, "forked");
    ret->given_processes = (size_t)job_get(forked, "processes");
    ret->given_descriptors = (size_t)job_get(forked, "descriptors");
    ret->given_maps = (size_t)job_get(forked, "maps");
    return 0;
}

static const char *
job_state_word(const struct vg_cuda_process *process)
{
    static const char *const words[] = {[VG_CUDA_RUNNING] = "running",
                                        [VG_CUDA_LOCKED] = "locked",
                                        [VG_CUDA_CHECKPOINTED] = "released",
                                        [VG_CUDA_FAILED] = "failed"};

    if (process->gone)
        return "gone";
    return process->state >= 0 && process->state <= VG_CUDA_FAILED ? words[process->state]
                                                                   : "unknown";
}

static void
job_add_ms(json_object *object, const char *name, int64_t us)
{
    if (us >= 0)
        json_object_object_add(object, name, json_object_new_int64((us + 500) / 1000));
}

static const char *
job_movable_word(const struct vg_cuda_process *process)
{
    static const char *const words[] = {[VG_CUDA_MOVABLE_YES] = "yes",
                                        [VG_CUDA_MOVABLE_NO] = "no",
                                        [VG_CUDA_MOVABLE_UNKNOWN] = "unknown"};

    return words[process->movable];
}

static json_object *
job_process_json(const struct vg_cuda_job *job, const struct vg_cuda_process *process)
{
    json_object *object = json_object_new_object();
    int64_t bytes = vg_cuda_process_bytes(job, process);

    job_put_text(object, "by", "cuda");
    json_object_object_add(object, "pid", json_object_new_int(process->pid));
    json_object_object_add(object, "comm", json_object_new_string(process->comm));
    json_object_object_add(object, "job", json_object_new_int(process->job));
    json_object_object_add(object, "bytes", bytes < 0 ? NULL : json_object_new_int64(bytes));
    json_object_object_add(object, "state", json_object_new_string(job_state_word(process)));
    if (job_movable_word(process))
        job_put_text(object, "movable", job_movable_word(process));
    if (*process->why)
        job_put_text(object, "why", process->why);
    job_add_ms(object, "lock_ms", process->lock_us);
    job_add_ms(object, "checkpoint_ms", process->checkpoint_us);
    job_add_ms(object, "restore_ms", process->restore_us);
    job_add_ms(object, "unlock_ms", process->unlock_us);
    job_add_ms(object, "stop_ms", process->stop_us);
    if (process->held_threads >= 0)
        job_put(object, "held_threads", process->held_threads);
    if (*process->unheld)
        job_put_text(object, "unheld", process->unheld);
    return object;
}

void
vg_cuda_job_describe(const struct vg_cuda_job *job, json_object *message,
                     struct vg_guest_reported *told)
{
    json_object *list =
        vg_guest_programs_add(message, "cuda", (int64_t)job->n, vg_cuda_job_bytes(job), told);

    job_put_forked(job, json_object_object_get(message, "programs"));

    /* Processes with a problem come first, so that they are not omitted. */
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < job->n; i++) {
            if ((*job->processes[i].why == '\0') == (pass == 1) &&
                json_object_array_length(list) < VG_GUEST_HOLDERS_MAX)
                json_object_array_add(list, job_process_json(job, &job->processes[i]));
        }
    }
}
