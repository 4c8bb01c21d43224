/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/cuda-hold.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "guest/hold-file.h"
#include "guest/hold.h"
#include "guest/process.h"
#include "guest/util.h"

enum {
    /* The time to trace all threads of all processes, or to note their mappings. */
    BEGIN_MS = 10000,
    LOCKED_MS = 10000,
    /* The value of Yama's setting with which no process may trace another one. */
    YAMA_NONE = 3,
};

/* The tracers that this worker process has started. */
static struct vg_guest_hold_link links[VG_CUDA_PROCESSES_MAX];
static size_t n_links;

/* ---- beforehand ---- */

/* Returns the process that traces a thread of this process, or 0. */
static pid_t
hold_other_tracer(const char *root, pid_t pid)
{
    vg_guest_auto char *path = vg_guest_format("%s/proc/%d/task", root, (int)pid);
    DIR *dir = opendir(path);
    long by = 0;

    for (struct dirent *entry; dir && by <= 0 && (entry = readdir(dir));) {
        vg_guest_auto char *task = vg_guest_format("%s/%s", path, entry->d_name);
        if (isdigit((unsigned char)entry->d_name[0]))
            by = vg_guest_process_number(task, "TracerPid:");
    }
    if (dir)
        closedir(dir);
    return by > 0 ? (pid_t)by : 0;
}

static void
hold_explain_traced(const char *root, struct vg_cuda_process *process, pid_t by)
{
    vg_guest_auto char *dir = vg_guest_format("%s/proc/%d", root, (int)by);
    char name[32];

    vg_guest_process_name(dir, name, sizeof name);
    process->traced = true;
    vg_guest_put(process->why, sizeof process->why,
                 "process %d%s%s%s traces it, so its threads could not be held if they fault "
                 "during the release; end the tracing process first, or set hold_faults=no",
                 (int)by, *name ? " (" : "", name, *name ? ")" : "");
}

/* Explains why no process can be held. The text is empty if the reason is unknown. */
static void
hold_explain_impossible(const char *root, char *ret, size_t size)
{
    vg_guest_auto char *path = vg_guest_format("%s/proc/sys/kernel/yama/ptrace_scope", root);
    char text[16];

    ret[0] = '\0';
    if (vg_guest_read_file(path, text, sizeof text) == 0 && atoi(text) == YAMA_NONE)
        vg_guest_put(ret, size, "%s is %d: no process may trace another process", path, YAMA_NONE);
}

const struct vg_cuda_process *
vg_cuda_hold_check(const struct vg_guest_work *work, struct vg_cuda_job *job)
{
    const char *root = work->config->root;
    char impossible[sizeof job->processes->unheld];
    const struct vg_cuda_process *bad = NULL;

    if (!work->config->cuda_hold_faults)
        return NULL;
    hold_explain_impossible(root, impossible, sizeof impossible);
    for (size_t i = 0; i < job->n; i++) {
        struct vg_cuda_process *process = &job->processes[i];
        struct vg_guest_hold hold = {0};
        memcpy(process->unheld, impossible, sizeof impossible);
        /* An inheritor is refused because of its `keeps`. */
        bool can = !*impossible && !process->inherited;
        pid_t by = can ? hold_other_tracer(root, process->pid) : 0;
        /* A tracer of the agent may remain, and is replaced. */
        if (by == 0 || (vg_guest_hold_read(root, process->pid, &hold) == 0 && hold.tracer == by))
            continue;
        hold_explain_traced(root, process, by);
        bad = bad ? bad : process;
    }
    return bad;
}

/* ---- holding ---- */

static struct vg_cuda_process *
hold_process(struct vg_cuda_job *job, pid_t pid)
{
    for (size_t i = 0; i < job->n; i++) {
        if (job->processes[i].pid == pid)
            return &job->processes[i];
    }
    return NULL;
}

/* Handles the answer of a tracer that has started. Returns whether the process cannot be
 * stopped. */
static bool
hold_take(const struct vg_guest_work *work, struct vg_cuda_process *process,
          const struct vg_guest_hold_report *report)
{
    switch (report->outcome) {
    case VG_GUEST_HOLD_TRACED:
        hold_explain_traced(work->config->root, process,
                            hold_other_tracer(work->config->root, process->pid));
        return true;
    case VG_GUEST_HOLD_PARTLY:
        vg_guest_put(process->why, sizeof process->why, "%s", report->why);
        return true;
    case VG_GUEST_HOLD_IMPOSSIBLE:
        vg_guest_put(process->unheld, sizeof process->unheld, "%s", report->why);
        vg_guest_log(LOG_WARNING, "threads that fault cannot be held pid=%d comm='%s' why='%s'",
                     (int)process->pid, process->comm, process->unheld);
        return false;
    case VG_GUEST_HOLD_READY:
    case VG_GUEST_HOLD_NOTED:
        process->held_threads = 0;
        return false;
    case VG_GUEST_HOLD_GONE:
    default:
        /* The driver's call shows that it has ended. */
        return false;
    }
}

const struct vg_cuda_process *
vg_cuda_hold_begin(const struct vg_guest_work *work, struct vg_cuda_job *job)
{
    int64_t until_ms = vg_guest_now_ms() + BEGIN_MS;
    const struct vg_cuda_process *bad = NULL;

    if (!work->config->cuda_hold_faults)
        return NULL;
    n_links = 0;
    vg_guest_holds_sweep(work->config->root);
    for (size_t i = 0; i < job->n; i++) {
        const struct vg_cuda_process *process = &job->processes[i];
        if (!process->gone && !*process->unheld)
            vg_guest_hold_start(work->config->root, process->pid, process->start,
                                &links[n_links++]);
    }
    vg_guest_hold_wait(links, n_links, until_ms < work->until_ms ? until_ms : work->until_ms);
    for (size_t i = 0; i < n_links; i++) {
        struct vg_cuda_process *process = hold_process(job, links[i].pid);
        if (!hold_take(work, process, &links[i].report))
            continue;
        vg_guest_hold_drop(&links[i]);
        bad = bad ? bad : process;
    }
    return bad;
}

void
vg_cuda_hold_locked(const struct vg_guest_work *work)
{
    int64_t until_ms = vg_guest_now_ms() + LOCKED_MS;

    for (size_t i = 0; i < n_links; i++) {
        if (links[i].fd >= 0)
            kill(links[i].tracer, VG_GUEST_HOLD_LOCKED);
    }
    /* Without an answer, mappings made at the last moment do not count. The tracer still holds
     * threads, because the driver takes memory away next. */
    vg_guest_hold_wait(links, n_links, until_ms < work->until_ms ? until_ms : work->until_ms);
}

void
vg_cuda_hold_repeat(const struct vg_guest_work *work, const struct vg_cuda_job *job)
{
    for (size_t i = 0; i < job->n; i++) {
        const struct vg_cuda_process *process = &job->processes[i];
        if (!process->gone && process->state == VG_CUDA_LOCKED)
            vg_guest_hold_signal(work->config->root, process->pid, process->start,
                                 VG_GUEST_HOLD_REPEAT);
    }
}

void
vg_cuda_hold_end(const struct vg_guest_work *work, struct vg_cuda_job *job)
{
    const char *root = work->config->root;

    for (size_t i = 0; i < job->n; i++) {
        const struct vg_cuda_process *process = &job->processes[i];
        if (process->gone || process->state == VG_CUDA_RUNNING)
            vg_guest_hold_signal(root, process->pid, process->start, VG_GUEST_HOLD_END);
    }
    for (size_t i = 0; i < job->n; i++) {
        const struct vg_cuda_process *process = &job->processes[i];
        if ((process->gone || process->state == VG_CUDA_RUNNING) &&
            vg_guest_hold_wait_for_end(root, process->pid, process->start) != 0)
            vg_guest_log(LOG_WARNING, "tracer does not exit pid=%d comm='%s'", (int)process->pid,
                         process->comm);
    }
    vg_cuda_hold_count(work, job);
}

void
vg_cuda_hold_count(const struct vg_guest_work *work, struct vg_cuda_job *job)
{
    for (size_t i = 0; i < job->n; i++) {
        struct vg_cuda_process *process = &job->processes[i];
        struct vg_guest_hold hold;
        /* The file may be from an earlier stop. */
        if (process->held_threads < 0)
            continue;
        if (vg_guest_hold_read(work->config->root, process->pid, &hold) == 0 &&
            hold.start == process->start && (int64_t)hold.total > process->held_threads)
            process->held_threads = (int64_t)hold.total;
    }
}

/* ---- telling ---- */

struct hold_list {
    const char *root;
    json_object *list;
};

static void
hold_report_one(void *user, const struct vg_guest_hold *hold)
{
    const struct hold_list *to = user;
    vg_guest_auto char *dir = vg_guest_format("%s/proc/%d", to->root, (int)hold->pid);
    json_object *object = json_object_new_object();
    char name[32];

    if (hold->ended) {
        json_object_put(object);
        return;
    }
    vg_guest_process_name(dir, name, sizeof name);
    json_object_object_add(object, "pid", json_object_new_int(hold->pid));
    json_object_object_add(object, "comm", json_object_new_string(name));
    json_object_object_add(object, "tracer", json_object_new_int(hold->tracer));
    json_object_object_add(object, "threads", json_object_new_int64((int64_t)hold->now));
    json_object_array_add(to->list, object);
}

void
vg_cuda_hold_describe(const struct vg_guest_config *config, json_object *about)
{
    struct hold_list to = {.root = config->root, .list = json_object_new_array()};

    vg_guest_holds_each(config->root, hold_report_one, &to);
    if (json_object_array_length(to.list) > 0)
        json_object_object_add(about, "held", to.list);
    else
        json_object_put(to.list);
}
