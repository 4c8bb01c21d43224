/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the tracepoints of GPU drivers as perf events on every CPU. Merges them by time, feeds the
 * events up to SLACK_NS ago into the ledger that also processes recordings, and cuts it exactly at
 * the end of a window. The topology knows only the VMs of the scan. All other processes are just
 * processes.
 *
 * Before the ledger gets an event, its device gets the name that the other sources and the
 * inventory use. Several events about one request thus come together.
 */
#include "config.h"

#include "collectors/gpu-trace.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <sched.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectors/gpu-cards.h"
#include "collectors/gpu-tracepoints.h"
#include "collectors/gpu-window.h"
#include "host/pid-namespace.h"
#include "host/proc-scan.h"
#include "host/proc-text.h"
#include "ledger/gpu-ledger.h"

#define NAME "tracepoints"

/* A record is in its ring this long after its timestamp, whatever interrupted the write. */
#define SLACK_NS VG_NS_PER_MS
/* Sizes in bytes of each CPU's ring, and of all rings together. A job of the DRM scheduler has
 * about ten records of 100 bytes, so 128 KiB hold 130 jobs. */
#define RING_BYTES  (128 * 1024)
#define RINGS_BYTES (16 * 1024 * 1024)
/* Check for new drivers this often. */
#define DRIVERS_NS (10 * VG_NS_PER_S)
/* The pause after a first failure; it doubles each time, up to this many times as long. */
#define RETRY_NS  (30 * VG_NS_PER_S)
#define RETRY_MAX 32
/* This many windows in a row above the budget are too many. */
#define EXPENSIVE_WINDOWS 3
/* The maximum number of known threads, and the number of those checked in each window. */
#define THREADS_MAX   8192
#define SWEEP_THREADS 1024
/* The driver whose queues have their own schedulers. */
#define XE "xe"

struct vm {
    struct vg_proc_vm seen; /* from the last scan with this VM; without vCPUs */
    uint32_t process_id;    /* in the topology */
    GArray *engines; /* struct vg_gpu_sample without work: the engines that the VM has used */
    uint64_t generation;
};

struct source {
    struct vg_gpu_source base; /* first */
    char *proc;
    char *drm;
    char *tracefs; /* NULL: the usual directory */
    double budget;
    const struct vg_gpu_rings *rings;
    void *rings_data;
    vg_gpu_cards *cards;
    bool has_driver;
    /* While it is closed: */
    int64_t first_retry_ns;
    int64_t backoff_ns;
    int64_t retry_ns;
    char *problem; /* why it is closed; or NULL */
    bool less;     /* more should be available */
    /* While it is open: */
    void *handle; /* the rings; NULL: closed */
    GArray *tracepoints;
    vg_perf_merge *merge;
    vg_topology *topology;
    vg_gpu_ledger *ledger;
    GHashTable *vms; /* id in the scan -> struct vm */
    uint64_t generation;
    int64_t opened_ns;
    int64_t fed_ns; /* end of what the ledger contains */
    int64_t drivers_ns;
    uint32_t swept;
    struct vg_perf_counts told;
    uint64_t lost;                  /* in this window */
    bool lost_last;                 /* in the last window */
    uint16_t devices[VG_NAMES_MAX]; /* number of the common name; VG_NAME_NONE: not known yet */
    uint16_t engines[VG_NAMES_MAX]; /* number of the queue's class; its own if not a queue */
    bool unknown_device;            /* a name that no card has (yet) */
    /* Its cost: */
    int64_t drain_ns; /* in this window */
    int64_t spent_ns; /* in the kernel, in the last window */
    unsigned expensive_windows;
};

/* ---- the kernel's rings ---- */

static void *
open_events(void *data, vg_perf_merge *merge, const char *tracefs, const struct vg_perf_set *set,
            GError **err)
{
    (void)data;
    return vg_perf_events_open(merge, tracefs, set, false, err);
}

static void
close_events(void *handle)
{
    vg_perf_events_free(handle);
}

static int
fd_of_events(const void *handle)
{
    return vg_perf_events_fd(handle);
}

static int
follow_cpus(void *handle, GError **err)
{
    return vg_perf_events_follow_cpus(handle, err);
}

static const struct vg_gpu_rings kernel_rings = {
    .open = open_events,
    .close = close_events,
    .fd = fd_of_events,
    .follow_cpus = follow_cpus,
    .lost = vg_perf_events_lost,
};

/* ---- names ---- */

static const char *
gpu_trace_text_of(const struct source *s, uint16_t name)
{
    return vg_names_text(vg_perf_merge_names(s->merge), name);
}

static uint16_t
common_device(struct source *s, uint16_t told, bool is_gpu)
{
    if (told == VG_NAME_NONE || s->devices[told] != VG_NAME_NONE)
        return s->devices[told];
    const char *device = vg_gpu_cards_device(s->cards, gpu_trace_text_of(s, told));
    /* A fence may belong to any device. */
    if (!device && !is_gpu)
        return told;
    s->unknown_device |= !device;
    s->devices[told] = device ? vg_names_id(vg_perf_merge_names(s->merge), device) : told;
    return s->devices[told];
}

/* Returns the class of an xe queue. Of "rcs17", it is "rcs"; 17 is the number in the GuC. */
static uint16_t
gpu_trace_class_of(struct source *s, uint16_t engine)
{
    static const char *const classes[] = {"rcs", "bcs", "vcs", "vecs", "ccs", "gsccs"};
    const char *name = gpu_trace_text_of(s, engine);

    if (s->engines[engine] != VG_NAME_NONE)
        return s->engines[engine];
    s->engines[engine] = engine;
    for (size_t i = 0; i < G_N_ELEMENTS(classes); i++) {
        size_t length = strlen(classes[i]);
        if (strncmp(name, classes[i], length) == 0 && name[length] != '\0' &&
            strspn(name + length, "0123456789") == strlen(name + length))
            s->engines[engine] = vg_names_id(vg_perf_merge_names(s->merge), classes[i]);
    }
    return s->engines[engine];
}

/* Returns whether the engine is a queue of xe. Of the records without a device, only the
 * scheduler's jobs have a number. */
static bool
is_queue(const struct source *s, const struct vg_event *event)
{
    if (event->gpu.engine == VG_NAME_NONE || event->gpu.flags & VG_GPU_OF_FENCE)
        return false;
    if (event->gpu.device == VG_NAME_NONE)
        return event->gpu.id_space == VG_GPU_ID_JOB;
    const char *driver = vg_gpu_cards_driver(s->cards, gpu_trace_text_of(s, event->gpu.device));
    return driver && strcmp(driver, XE) == 0;
}

/* ---- events ---- */

/* Adds a request's thread and reads its name. Returns false if there are too many threads. */
static bool
meet_thread(struct source *s, const struct vg_event *event)
{
    char path[PATH_MAX], text[VG_PROC_TEXT_MAX];
    struct vg_proc_stat stat;
    int32_t pid = event->pid > 0 ? event->pid : event->tid;

    if (event->tid <= 0 || vg_topology_find(s->topology, event->tid))
        return true;
    if (vg_topology_thread_count(s->topology) >= THREADS_MAX)
        return false;
    struct vg_thread *thread = vg_topology_thread(s->topology, event->tid);
    vg_topology_set_process(s->topology, thread, pid);
    snprintf(path, sizeof(path), "%s/%d/task/%d/stat", s->proc, pid, event->tid);
    if (vg_proc_read(path, text, sizeof(text)) <= 0 || !vg_proc_parse_stat(text, &stat))
        return true;
    vg_topology_set_comm(s->topology, thread, stat.comm);
    if (stat.is_kernel)
        vg_topology_set_kind(s->topology, thread, VG_THREAD_KERNEL);
    return true;
}

/* Returns whether the thread of the event is the owner, as when it makes a request or allocates
 * memory. Later events come from any thread that was interrupted. */
static bool
names_owner(const struct vg_event *event)
{
    return event->gpu.op <= VG_GPU_SUBMITTED || event->gpu.op >= VG_GPU_MEMORY_MADE;
}

static void
take(struct source *s, struct vg_event *event)
{
    if (event->type == VG_EVENT_LOST) {
        s->lost += MAX(event->lost.events, 1);
        vg_gpu_ledger_feed(s->ledger, event);
    }
    if (event->type != VG_EVENT_GPU)
        return;
    if (!names_owner(event) || !meet_thread(s, event))
        event->tid = event->pid = VG_NONE;
    event->gpu.device = common_device(s, event->gpu.device, !(event->gpu.flags & VG_GPU_OF_FENCE));
    if (is_queue(s, event)) {
        uint16_t class = gpu_trace_class_of(s, event->gpu.engine);
        /* Job numbers are those of the queue. */
        if (class != event->gpu.engine)
            event->gpu.id_space = VG_GPU_ID_NONE;
        event->gpu.engine = class;
    }
    vg_gpu_ledger_feed(s->ledger, event);
}

/* Feeds all events up to this time into the ledger. */
static void
feed(struct source *s, int64_t until_ns)
{
    struct vg_event event;

    vg_perf_merge_look(s->merge, s->rings->lost, s->handle);
    while (vg_perf_merge_next(s->merge, until_ns, &event))
        take(s, &event);
    vg_perf_merge_release(s->merge);
    s->fed_ns = MAX(s->fed_ns, until_ns);
}

/* ---- who there is ---- */

static void
vm_free(void *data)
{
    struct vm *vm = data;

    g_array_unref(vm->engines);
    g_free(vm);
}

static void
see_vm(struct source *s, const struct vg_proc_vm *seen)
{
    void *key = GUINT_TO_POINTER(seen->id);
    struct vm *vm = g_hash_table_lookup(s->vms, key);
    const struct vg_declared_thread told = {.tid = seen->pid,
                                            .pid = seen->pid,
                                            .name = seen->name,
                                            .uuid = seen->uuid,
                                            .vcpu_index = VG_NONE};

    if (!vm) {
        vm = g_new0(struct vm, 1);
        vm->engines = g_array_new(FALSE, FALSE, sizeof(struct vg_gpu_sample));
        g_hash_table_insert(s->vms, key, vm);
    }
    vm->seen = *seen;
    vm->seen.vcpus = vm->seen.helpers = NULL;
    vm->process_id = vg_topology_declare(s->topology, &told)->id;
    vg_proc_vm_adopt_helpers(seen, s->topology);
    vm->generation = s->generation;
}

static void
end_process(struct source *s, int32_t pid)
{
    for (uint32_t i = 0; i < vg_topology_thread_count(s->topology); i++) {
        struct vg_thread *thread = vg_topology_thread_at(s->topology, i);
        if (thread && !thread->ended && vg_thread_process(thread)->pid == pid)
            vg_topology_end(s->topology, thread);
    }
}

static bool
is_alive(int32_t tid)
{
    return sched_getscheduler(tid) >= 0 || errno != ESRCH;
}

static void
sweep(struct source *s)
{
    uint32_t count = vg_topology_thread_count(s->topology);

    for (uint32_t i = 0; i < MIN(count, SWEEP_THREADS); i++) {
        if (s->swept >= count)
            s->swept = 0;
        struct vg_thread *thread = vg_topology_thread_at(s->topology, s->swept++);
        if (!thread || thread->ended)
            continue;
        /* A VM exists as long as the scan contains it. */
        const struct vg_process *process = vg_thread_process(thread);
        if (!(process->is_vm && process->pid == thread->tid) && !is_alive(thread->tid))
            vg_topology_end(s->topology, thread);
    }
}

static void
ignore_slot(void *data, uint32_t slot)
{
    (void)data;
    (void)slot;
}

/* Forgets after a window what no longer exists, including open requests. */
static void
gpu_trace_forget_gone(struct source *s)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, s->vms);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct vm *vm = value;
        if (vm->generation == s->generation)
            continue;
        end_process(s, vm->seen.pid);
        g_hash_table_iter_remove(&iter);
    }
    sweep(s);
    vg_topology_forget_dead(s->topology, ignore_slot, NULL);
}

/* ---- windows ---- */

/* Finds a VM. The topology reuses numbers, so the VM that was seen last has the number. */
static struct vm *
gpu_trace_find_vm(const struct source *s, uint32_t process_id)
{
    GHashTableIter iter;
    void *value;
    struct vm *found = NULL;

    if (process_id == VG_PROCESS_NO_ID)
        return NULL;
    g_hash_table_iter_init(&iter, s->vms);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct vm *vm = value;
        if (vm->process_id == process_id && (!found || vm->seen.id > found->seen.id))
            found = vm;
    }
    return found;
}

/* Assigns records without a device to the only GPU, if there is only one. */
static void
name_device(const struct source *s, struct vg_gpu_sample *gpu)
{
    const char *only =
        strcmp(gpu->device, VG_GPU_DEVICE_UNNAMED) == 0 ? vg_gpu_cards_device(s->cards, "") : NULL;

    if (only)
        g_strlcpy(gpu->device, only, sizeof(gpu->device));
}

static void
name_devices(const struct source *s, const GArray *gpus)
{
    for (unsigned i = 0; i < gpus->len; i++)
        name_device(s, &g_array_index(gpus, struct vg_gpu_sample, i));
}

static bool
has_engine(const GArray *gpus, const struct vg_gpu_sample *like)
{
    for (unsigned i = 0; i < gpus->len; i++) {
        const struct vg_gpu_sample *gpu = &g_array_index(gpus, struct vg_gpu_sample, i);
        if (strcmp(gpu->device, like->device) == 0 && strcmp(gpu->engine, like->engine) == 0)
            return true;
    }
    return false;
}

/* Keeps each engine that a VM has used. Otherwise another source would add its own names for them
 * in each window without a request. */
static void
keep_engines(struct vm *vm, GArray *gpus)
{
    for (unsigned i = 0; i < gpus->len; i++) {
        const struct vg_gpu_sample *gpu = &g_array_index(gpus, struct vg_gpu_sample, i);
        struct vg_gpu_sample idle = {.lacks = gpu->lacks};
        memcpy(idle.device, gpu->device, sizeof(idle.device));
        memcpy(idle.engine, gpu->engine, sizeof(idle.engine));
        if (!has_engine(vm->engines, gpu))
            g_array_append_val(vm->engines, idle);
    }
    for (unsigned i = 0; i < vm->engines->len; i++) {
        const struct vg_gpu_sample *idle = &g_array_index(vm->engines, struct vg_gpu_sample, i);
        if (!has_engine(gpus, idle))
            g_array_append_vals(gpus, idle, 1);
    }
}

static void
hand_over_vm(struct source *s, struct vg_vm_sample *own, struct vg_window *window)
{
    struct vm *vm = gpu_trace_find_vm(s, own->id);

    /* The owner of this vGPU is unknown. */
    if (!vm)
        return;
    struct vg_vm_sample *sample = vg_gpu_window_vm(window, &vm->seen);
    name_devices(s, own->gpus);
    keep_engines(vm, own->gpus);
    vg_gpu_window_lead(sample->gpus, own->gpus);
    sample->gpu_active_ns = MAX(sample->gpu_active_ns, own->gpu_active_ns);
}

/* Moves the ledger's results into the window, where they replace other sources' figures for the
 * same devices. */
static void
hand_over(struct source *s, struct vg_window *own, struct vg_window *window)
{
    name_devices(s, own->gpus);
    vg_gpu_window_lead(window->gpus, own->gpus);
    for (unsigned i = 0; i < own->vms->len; i++)
        hand_over_vm(s, &g_array_index(own->vms, struct vg_vm_sample, i), window);
    for (unsigned i = 0; i < own->gpu_processes->len; i++) {
        struct vg_gpu_process_sample *process =
            &g_array_index(own->gpu_processes, struct vg_gpu_process_sample, i);
        name_device(s, &process->gpu);
        g_array_append_vals(window->gpu_processes, process, 1);
    }
    for (unsigned i = 0; i < own->gpu_requests->len; i++) {
        struct vg_gpu_request_sample request =
            g_array_index(own->gpu_requests, struct vg_gpu_request_sample, i);
        const struct vm *vm = gpu_trace_find_vm(s, request.vm);
        request.vm = vm ? vm->seen.id : VG_PROCESS_NO_ID;
        request.gpu =
            vg_gpu_window_row(window, &g_array_index(own->gpus, struct vg_gpu_sample, request.gpu));
        g_array_append_val(window->gpu_requests, request);
    }
}

static void
gpu_trace_set_gpus(GArray *gpus, double confidence)
{
    for (unsigned i = 0; i < gpus->len; i++)
        g_array_index(gpus, struct vg_gpu_sample, i).confidence = confidence;
}

/* Sets the fraction of the window's records that were not lost. */
static void
gpu_trace_set_confidence(const struct source *s, struct vg_window *own)
{
    const struct vg_perf_counts *counts = vg_perf_merge_counts(s->merge);
    double seen = (double)(counts->records - s->told.records), lost = (double)s->lost;
    double confidence = lost > 0 ? seen / (seen + lost) : 1;

    gpu_trace_set_gpus(own->gpus, confidence);
    for (unsigned i = 0; i < own->vms->len; i++)
        gpu_trace_set_gpus(g_array_index(own->vms, struct vg_vm_sample, i).gpus, confidence);
    for (unsigned i = 0; i < own->gpu_processes->len; i++)
        g_array_index(own->gpu_processes, struct vg_gpu_process_sample, i).gpu.confidence =
            confidence;
}

static void
gpu_trace_close_window(struct source *s, int64_t end_ns, struct vg_window *window)
{
    const struct vg_perf_counts *counts = vg_perf_merge_counts(s->merge);
    struct vg_window own;

    vg_window_init(&own, false);
    vg_gpu_ledger_close_window(s->ledger, end_ns, &own);
    gpu_trace_set_confidence(s, &own);
    hand_over(s, &own, window);
    window->lost_events += s->lost;
    window->discontinuities += own.discontinuities + counts->rejected - s->told.rejected;
    vg_window_clear(&own);
    s->lost_last = s->lost > 0;
    s->lost = 0;
    s->spent_ns = (int64_t)(counts->records - s->told.records) * VG_PERF_RECORD_NS;
    s->told = *counts;
    if (s->unknown_device) {
        vg_gpu_cards_read(s->cards);
        memset(s->devices, 0, sizeof(s->devices));
        s->unknown_device = false;
    }
}

/* ---- opening and closing ---- */

static void
gpu_trace_release(struct source *s)
{
    if (s->handle)
        s->rings->close(s->handle);
    s->handle = NULL;
    g_clear_pointer(&s->ledger, vg_gpu_ledger_free);
    g_clear_pointer(&s->topology, vg_topology_free);
    g_clear_pointer(&s->merge, vg_perf_merge_free);
    g_clear_pointer(&s->tracepoints, g_array_unref);
    g_hash_table_remove_all(s->vms);
}

static const char *
tracefs_of(const struct source *s, GError **err)
{
    return s->tracefs ? s->tracefs : vg_tracefs_root(err);
}

static int
open_rings(struct source *s, int64_t now_ns, GError **err)
{
    const char *tracefs = tracefs_of(s, err);

    if (!tracefs || vg_pid_namespace_check(s->proc, err) < 0)
        return -1;
    s->tracepoints = vg_gpu_tracepoints_find(tracefs);
    if (s->tracepoints->len == 0)
        return vg_error(err, VG_E_NOT_FOUND, "no loaded GPU driver has tracepoints for requests");
    const struct vg_perf_set set = {
        .tracepoints = (const struct vg_perf_tracepoint *)(void *)s->tracepoints->data,
        .n = s->tracepoints->len,
        .ring_bytes = RING_BYTES,
        .all_bytes = RINGS_BYTES,
    };
    s->merge = vg_perf_merge_new();
    s->handle = s->rings->open(s->rings_data, s->merge, tracefs, &set, err);
    if (!s->handle)
        return -1;
    s->topology = vg_topology_new();
    vg_topology_only_declared(s->topology);
    s->ledger = vg_gpu_ledger_new(s->topology, vg_perf_merge_names(s->merge));
    vg_gpu_ledger_windows_only(s->ledger, true);
    vg_gpu_ledger_keep_requests(s->ledger, true);
    vg_gpu_ledger_begin(s->ledger, now_ns);
    vg_gpu_cards_read(s->cards);
    memset(s->devices, 0, sizeof(s->devices));
    memset(s->engines, 0, sizeof(s->engines));
    s->unknown_device = false;
    s->told = (struct vg_perf_counts){0};
    s->opened_ns = s->fed_ns = now_ns;
    s->drivers_ns = now_ns + DRIVERS_NS;
    s->lost = 0;
    s->lost_last = false;
    s->drain_ns = s->spent_ns = 0;
    s->expensive_windows = 0;
    return 0;
}

/* Closes the rings for a while. The pause grows if this happens again soon. */
static void
fall(struct source *s, int64_t now_ns, bool less, char *take_problem)
{
    if (s->handle && now_ns - s->opened_ns > s->backoff_ns)
        s->backoff_ns = 0;
    gpu_trace_release(s);
    s->backoff_ns = CLAMP(s->backoff_ns * 2, s->first_retry_ns, s->first_retry_ns * RETRY_MAX);
    s->retry_ns = now_ns + s->backoff_ns;
    g_free(s->problem);
    s->problem = take_problem;
    s->less = less;
}

static void
try_to_open(struct source *s, int64_t now_ns)
{
    g_autoptr(GError) err = NULL;

    const bool is_open = open_rings(s, now_ns, &err) == 0;
    s->base.trouble = (enum vg_trouble)vg_error_detail(err);
    if (is_open) {
        g_clear_pointer(&s->problem, g_free);
        s->less = false;
        return;
    }
    bool none = s->tracepoints && s->tracepoints->len == 0;
    fall(s, now_ns, !none, g_strdup(err->message));
    /* Detect soon a driver that is loaded later. */
    if (none) {
        s->backoff_ns = 0;
        s->retry_ns = now_ns + MIN(DRIVERS_NS, s->first_retry_ns);
    }
}

static bool
are_same(const GArray *a, const GArray *b)
{
    bool same = a->len == b->len;

    for (unsigned i = 0; same && i < a->len; i++)
        same = g_array_index(a, struct vg_perf_tracepoint, i).path ==
               g_array_index(b, struct vg_perf_tracepoint, i).path;
    return same;
}

/* Opens the tracepoints again if a driver was loaded later, to include its own. */
static void
reopen_if_changed(struct source *s, int64_t now_ns)
{
    const char *tracefs = tracefs_of(s, NULL);

    s->drivers_ns = now_ns + DRIVERS_NS;
    g_autoptr(GArray) found = tracefs ? vg_gpu_tracepoints_find(tracefs) : NULL;
    if (!found || are_same(found, s->tracepoints))
        return;
    gpu_trace_release(s);
    try_to_open(s, now_ns);
}

/* Enforces the budget after a window that cost this much. */
static void
keep_budget(struct source *s, int64_t now_ns, int64_t span_ns)
{
    double cost = (double)(s->drain_ns + s->spent_ns) / (double)MAX(span_ns, 1);

    s->drain_ns = 0;
    s->expensive_windows = s->budget > 0 && cost > s->budget ? s->expensive_windows + 1 : 0;
    if (s->expensive_windows >= EXPENSIVE_WINDOWS)
        fall(s, now_ns, true,
             g_strdup_printf("paused: they took %.1f %% of a core, more than the budget of %g %%",
                             cost * 100, s->budget * 100));
}

/* ---- the source ---- */

static bool
gpu_trace_ready(vg_gpu_source *base, int64_t now_ns)
{
    struct source *s = (struct source *)base;

    if (s->handle)
        return true;
    s->has_driver = vg_gpu_cards_can_render(s->drm);
    if (s->has_driver && now_ns >= s->retry_ns)
        try_to_open(s, now_ns);
    return s->handle != NULL;
}

static void
gpu_trace_sample(vg_gpu_source *base, int64_t now_ns)
{
    struct source *s = (struct source *)base;
    int64_t cpu_ns = vg_clock_thread_cpu_ns();

    if (s->handle)
        feed(s, now_ns - SLACK_NS);
    s->drain_ns += vg_clock_thread_cpu_ns() - cpu_ns;
}

static int
gpu_trace_fd_of(const vg_gpu_source *base)
{
    const struct source *s = (const struct source *)base;

    return s->handle ? s->rings->fd(s->handle) : -1;
}

static void
wait_until(int64_t t_ns)
{
    const struct timespec at = {.tv_sec = t_ns / VG_NS_PER_S, .tv_nsec = t_ns % VG_NS_PER_S};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
}

static void
gpu_trace_read_source(vg_gpu_source *base, const GPtrArray *vms, vg_thread *self, int64_t now_ns,
                      struct vg_window *window)
{
    struct source *s = (struct source *)base;
    int64_t end_ns = MAX(window->end_ns, s->fed_ns);
    int64_t cpu_ns = vg_clock_thread_cpu_ns();
    g_autoptr(GError) err = NULL;

    s->generation++;
    for (unsigned i = 0; i < vms->len; i++)
        see_vm(s, vms->pdata[i]);
    vg_thread_beat(self);
    wait_until(end_ns + SLACK_NS);
    feed(s, end_ns);
    gpu_trace_close_window(s, end_ns, window);
    gpu_trace_forget_gone(s);
    s->drain_ns += vg_clock_thread_cpu_ns() - cpu_ns;
    keep_budget(s, now_ns, window->end_ns - window->begin_ns);
    if (s->handle && s->rings->follow_cpus(s->handle, &err) < 0)
        fall(s, now_ns, true, g_strdup(err->message));
    if (s->handle && now_ns >= s->drivers_ns)
        reopen_if_changed(s, now_ns);
}

static int64_t
spent_ns(const vg_gpu_source *base)
{
    return ((const struct source *)base)->spent_ns;
}

static bool
gpu_trace_describe(const vg_gpu_source *base, GString *text)
{
    const struct source *s = (const struct source *)base;

    if (s->handle) {
        g_string_append_printf(text, "%u of ", s->tracepoints->len);
        vg_gpu_tracepoints_describe(s->tracepoints, text);
        if (s->lost_last)
            g_string_append(text, ", whose events came faster than they were read");
        return s->lost_last;
    }
    g_string_append(text, s->problem      ? s->problem
                          : s->has_driver ? "not opened yet"
                                          : "no DRM driver has a render node here");
    return s->less;
}

static void
gpu_trace_close_source(vg_gpu_source *base)
{
    gpu_trace_release((struct source *)base);
}

static void
gpu_trace_free_source(vg_gpu_source *base)
{
    struct source *s = (struct source *)base;

    gpu_trace_release(s);
    vg_gpu_cards_free(s->cards);
    g_hash_table_unref(s->vms);
    g_free(s->problem);
    g_free(s->proc);
    g_free(s->drm);
    g_free(s->tracefs);
    g_free(s);
}

static const struct vg_gpu_source_ops gpu_trace_ops = {
    .name = NAME,
    .ready = gpu_trace_ready,
    .sample = gpu_trace_sample,
    .fd = gpu_trace_fd_of,
    .read = gpu_trace_read_source,
    .spent_ns = spent_ns,
    .describe = gpu_trace_describe,
    .close = gpu_trace_close_source,
    .free = gpu_trace_free_source,
};

vg_gpu_source *
vg_gpu_trace_new(const struct vg_gpu_trace_options *options)
{
    struct source *s = g_new0(struct source, 1);

    s->base.ops = &gpu_trace_ops;
    s->proc = g_strdup(options->proc);
    s->drm = g_strdup(options->drm);
    s->tracefs = g_strdup(options->tracefs);
    s->budget = options->budget;
    s->first_retry_ns = options->retry_ns > 0 ? options->retry_ns : RETRY_NS;
    s->rings = options->rings ? options->rings : &kernel_rings;
    s->rings_data = options->rings_data;
    s->cards = vg_gpu_cards_new(s->drm);
    s->vms = g_hash_table_new_full(NULL, NULL, NULL, vm_free);
    return &s->base;
}
