/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/serve/meter.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opencl/base/clock.h"
#include "opencl/icd/entries.h"
#include "opencl/serve/private.h"
#include "opencl/track/callback.h"
#include "opencl/track/memory.h"
#include "opencl/wire/commands.h"

/* A vendor's callback can be many ms late: up to 20 ms with NVIDIA's library. This side therefore
 * also queries the events before each new command, and after each call that the client waits for.
 * This is the maximum number of unfinished events per pass; callbacks report the others. */
#define METER_OPEN_MAX 8

/* A command that has arrived. */
struct vg_serve_command {
    struct vg_serve_counts *counts;
    int64_t came, entered; /* time of arrival, and of its entry */
    int64_t seen;          /* time of the last query that found it unfinished, or 0 */
    int64_t length;        /* its run time by the vendor's clock, or -1 if unknown */
    struct vg_serve_progress_record told;
    struct vg_serve_command *next; /* next command that was given to the device */
    struct vg_cl_object *event;    /* in use; NULL until the vendor has the command */
    uint64_t queue;
    unsigned n_refs; /* references: its call, the list and a callback */
    bool is_told, is_running;
    bool is_timed;    /* its queue has profiling times */
    bool is_in_order; /* the queue executes in order */
    bool may_await;   /* when it was submitted, the program had user events to set */
    bool is_checked;  /* in this pass of meter_note_waiting() */
    bool is_heard;    /* its final status is known */
    bool is_over;     /* it is ready to be counted */
    bool is_left;     /* the list no longer has it */
};

static atomic_uint meter_n;                                    /* length of the list */
static pthread_mutex_t meter_lock = PTHREAD_MUTEX_INITIALIZER; /* the lock for: */
static int64_t meter_last;    /* time when the last command was done */
static uint32_t meter_number; /* number of the last reported command */
static struct vg_serve_command *meter_given, **meter_end = &meter_given; /* at the device */
static bool meter_is_looking; /* one thread checks the list; only that thread removes commands */
static bool meter_checks_again;

/* ---- what is told ---- */

static enum vg_serve_progress_kind
meter_kind(unsigned op)
{
    switch (op) {
    case VG_WIRE_OP_EnqueueReadBuffer:
    case VG_WIRE_OP_EnqueueReadBufferRect:
    case VG_WIRE_OP_EnqueueReadImage:
        return VG_SERVE_READ;
    case VG_WIRE_OP_EnqueueWriteBuffer:
    case VG_WIRE_OP_EnqueueWriteBufferRect:
    case VG_WIRE_OP_EnqueueWriteImage:
        return VG_SERVE_WRITE;
    case VG_WIRE_OP_EnqueueFillBuffer:
    case VG_WIRE_OP_EnqueueFillImage:
        return VG_SERVE_FILL;
    case VG_WIRE_OP_EnqueueMapBuffer:
    case VG_WIRE_OP_EnqueueMapImage:
        return VG_SERVE_MAP;
    case VG_WIRE_OP_EnqueueUnmapMemObject:
        return VG_SERVE_UNMAP;
    case VG_WIRE_OP_EnqueueMigrateMemObjects:
        return VG_SERVE_MIGRATE;
    case VG_WIRE_OP_EnqueueNDRangeKernel:
    case VG_WIRE_OP_EnqueueTask:
        return VG_SERVE_KERNEL;
    default:
        return VG_SERVE_COPY;
    }
}

/* Called under the lock. */
static void
meter_report(struct vg_serve_command *command, enum vg_serve_progress_state what, int64_t at)
{
    command->told.what = (uint8_t)what;
    command->told.at = at;
    vg_serve_progress_write(&command->counts->told, &command->told);
}

/* ---- what is counted ---- */

static void
meter_count(_Atomic uint64_t *buckets, int64_t ns)
{
    atomic_fetch_add_explicit(&buckets[vg_serve_took_bucket(ns)], 1, memory_order_relaxed);
}

/* COMMAND ran from BEGIN to END. Called under the lock. */
static void
meter_add(struct vg_serve_command *command, int64_t begin, int64_t end)
{
    struct vg_serve_counts *counts = command->counts;
    const int64_t wait = begin - command->came, run = end - begin;

    command->told.wait_ns = wait;
    command->told.run_ns = run;
    if (command->is_told)
        meter_report(command, command->told.status < 0 ? VG_SERVE_FAILED : VG_SERVE_DONE, end);
    atomic_fetch_add_explicit(&counts->wait_ns, wait, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->run_ns, run, memory_order_relaxed);
    meter_count(counts->took, end - command->came);
    meter_count(counts->waited, wait);
    meter_count(counts->ran, run);
    atomic_fetch_add_explicit(&counts->done, 1, memory_order_release);
}

/* Called without the lock, because it may release the vendor's event. */
static void
meter_free(struct vg_serve_command *command)
{
    vg_cl_unuse(command->event);
    free(command);
}

/* Drops a reference. Returns true if it was the last one. Called under the lock. */
static bool
meter_leave(struct vg_serve_command *command)
{
    return --command->n_refs == 0;
}

/* ---- which commands are done ---- */

/* A pass over the list. An unfinished command of an in-order queue blocks the later ones. */
struct meter_check {
    int64_t at;
    uint64_t queues[METER_OPEN_MAX];
    unsigned n_queues, n_open;
};

static bool
meter_may_be_done(const struct meter_check *look, const struct vg_serve_command *command)
{
    if (look->n_open >= METER_OPEN_MAX)
        return false;
    for (unsigned i = 0; i < look->n_queues; i++)
        if (look->queues[i] == command->queue)
            return false;
    return true;
}

static cl_int
meter_query_status(struct vg_cl_object *event)
{
    cl_int status = CL_QUEUED;

    if (vg_cl_dispatch.clGetEventInfo((cl_event)event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                      sizeof status, &status, NULL) != CL_SUCCESS)
        return CL_QUEUED;
    return status;
}

static int64_t
meter_query_length(struct vg_cl_object *event)
{
    cl_ulong begin = 0, end = 0;

    if (vg_cl_dispatch.clGetEventProfilingInfo((cl_event)event, CL_PROFILING_COMMAND_START,
                                               sizeof begin, &begin, NULL) != CL_SUCCESS ||
        vg_cl_dispatch.clGetEventProfilingInfo((cl_event)event, CL_PROFILING_COMMAND_END,
                                               sizeof end, &end, NULL) != CL_SUCCESS ||
        end < begin || end - begin > INT64_MAX)
        return -1;
    return (int64_t)(end - begin);
}

/* Queries COMMAND, which the list holds. Called under the lock, which is released during the
 * query. */
static void
meter_query(struct meter_check *look, struct vg_serve_command *command)
{
    bool is_heard = command->is_heard, is_timed = command->is_timed;
    cl_int status = command->told.status;
    int64_t length = -1;

    pthread_mutex_unlock(&meter_lock);
    if (!is_heard)
        status = meter_query_status(command->event);
    if (status == CL_COMPLETE && is_timed)
        length = meter_query_length(command->event);
    pthread_mutex_lock(&meter_lock);
    if (is_heard || command->is_heard || status <= CL_COMPLETE) {
        command->told.status = status <= CL_COMPLETE ? status : command->told.status;
        command->length = length;
        command->is_heard = true;
        command->is_over = true;
        return;
    }
    command->seen = look->at;
    look->n_open++;
    if (command->is_in_order)
        look->queues[look->n_queues++] = command->queue;
}

/* Counts completed commands. Runs do not overlap, start after submission, and do not end before the
 * last query that found the command unfinished. Commands of unknown length share the remaining time
 * equally. Called under the lock. */
static void
meter_add_over(int64_t now)
{
    int64_t known = 0;
    unsigned n = 0;

    for (const struct vg_serve_command *command = meter_given; command; command = command->next) {
        known += command->is_over && command->length > 0 ? command->length : 0;
        n += command->is_over && command->length < 0;
    }
    for (struct vg_serve_command *command = meter_given; command; command = command->next) {
        if (!command->is_over)
            continue;
        int64_t lower = command->entered > meter_last ? command->entered : meter_last;
        int64_t left = now > lower ? now - lower : 0, run = command->length;
        if (run >= 0)
            known -= run;
        else
            run = left > known ? (left - known) / n-- : 0;
        run = run < left ? run : left;
        int64_t end = lower + run > command->seen ? lower + run : command->seen;
        int64_t begin = command->length >= 0 ? end - run : lower;
        meter_last = end > begin ? end : meter_last;
        if (command->is_told && !command->is_running)
            meter_report(command, VG_SERVE_RUNNING, begin);
        meter_add(command, begin, end);
    }
}

/* Removes completed commands. Returns those without other references. Called under the lock. */
static struct vg_serve_command *
meter_take_over(void)
{
    struct vg_serve_command *unused = NULL, **link = &meter_given, *command;

    while ((command = *link) != NULL) {
        if (!command->is_over) {
            link = &command->next;
            continue;
        }
        *link = command->next;
        command->is_left = true;
        atomic_fetch_sub(&meter_n, 1);
        command->next = NULL;
        if (meter_leave(command)) {
            command->next = unused;
            unused = command;
        }
    }
    meter_end = link;
    return unused;
}

/* The first command in the list that does not wait for the program is running. Called under the
 * lock. */
static void
meter_run_first(void)
{
    struct vg_serve_command *first = meter_given;

    while (first && first->may_await && vg_cl_user_events_n > 0)
        first = first->next;
    if (!first || first->is_running)
        return;
    first->is_running = true;
    if (first->is_told)
        meter_report(first, VG_SERVE_RUNNING,
                     first->entered > meter_last ? first->entered : meter_last);
}

/* Called under the lock, which is released during queries. */
static void
meter_check(void)
{
    struct meter_check look = {.at = vg_cl_now()};

    for (struct vg_serve_command *command = meter_given; command; command = command->next)
        if (command->event && (command->is_heard || meter_may_be_done(&look, command))) {
            meter_query(&look, command);
        } else if (command->is_heard) {
            /* The vendor refused it. */
            command->length = 0;
            command->is_over = true;
        }
    meter_add_over(vg_cl_now());
    struct vg_serve_command *unused = meter_take_over();
    meter_run_first();
    pthread_mutex_unlock(&meter_lock);
    while (unused) {
        struct vg_serve_command *command = unused;
        unused = command->next;
        meter_free(command);
    }
    pthread_mutex_lock(&meter_lock);
}

/* Called under the lock, which is released during queries. */
static void
meter_settle(void)
{
    meter_checks_again = true;
    if (meter_is_looking)
        return;
    meter_is_looking = true;
    while (meter_checks_again) {
        meter_checks_again = false;
        meter_check();
    }
    meter_is_looking = false;
}

void
vg_serve_meter_settle(void)
{
    if (atomic_load_explicit(&meter_n, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&meter_lock);
    meter_settle();
    pthread_mutex_unlock(&meter_lock);
}

/* ---- commands that wait for the program ---- */

/* Returns the next command of this pass, or NULL. Called under the lock. */
static struct vg_serve_command *
meter_next_unchecked(void)
{
    for (struct vg_serve_command *command = meter_given; command; command = command->next)
        if (command->may_await && !command->is_checked && !command->is_heard)
            return command;
    return NULL;
}

/* Called before the program's user event is set. A command that has not started by now has not used
 * the device until now. Queries without the lock, because the vendor may hold its own lock when it
 * calls back. */
static void
meter_note_waiting(void)
{
    struct vg_serve_command *command;

    if (atomic_load_explicit(&meter_n, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&meter_lock);
    for (command = meter_given; command; command = command->next)
        command->is_checked = false;
    const int64_t now = vg_cl_now();
    while ((command = meter_next_unchecked()) != NULL) {
        struct vg_cl_object *event = command->event;
        command->is_checked = true;
        command->n_refs++;
        pthread_mutex_unlock(&meter_lock);
        /* A blocking call has its event when it returns. */
        cl_int status = event ? meter_query_status(event) : CL_QUEUED;
        pthread_mutex_lock(&meter_lock);
        if (status > CL_RUNNING)
            command->entered = now;
        bool is_last = meter_leave(command);
        if (!is_last)
            continue;
        pthread_mutex_unlock(&meter_lock);
        meter_free(command);
        pthread_mutex_lock(&meter_lock);
    }
    pthread_mutex_unlock(&meter_lock);
}

/* ---- calls ---- */

/* COMMAND is done with STATUS. Drops a reference. */
static void
meter_done(struct vg_serve_command *command, cl_int status)
{
    pthread_mutex_lock(&meter_lock);
    if (!command->is_heard) {
        command->told.status = status;
        command->is_heard = true;
    }
    if (!command->is_left)
        meter_settle();
    bool is_last = meter_leave(command);
    pthread_mutex_unlock(&meter_lock);
    if (is_last)
        meter_free(command);
}

static void CL_CALLBACK
meter_hear(cl_event event, cl_int status, void *data)
{
    (void)event;
    meter_done(data, status);
}

static void
meter_note_device(struct vg_serve_counts *counts, cl_command_queue queue)
{
    cl_device_id device = NULL;

    if (vg_cl_dispatch.clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device,
                                             NULL) == CL_SUCCESS)
        vg_cl_dispatch.clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof counts->device - 1,
                                       counts->device, NULL);
}

void
vg_serve_meter_came(struct vg_serve_call *call)
{
    struct vg_serve_counts *counts = vg_serve_counts_of(call->serve);

    if (!counts || !vg_wire_is_command(call->head.op) ||
        call->head.op == VG_WIRE_OP_SetUserEventStatus)
        return;
    bool is_told = atomic_load_explicit(&counts->told.is_wanted, memory_order_relaxed);
    call->is_metered = is_told || atomic_load_explicit(&counts->is_wanted, memory_order_relaxed);
    vg_serve_meter_settle();
    struct vg_serve_command *command = call->is_metered ? calloc(1, sizeof *command) : NULL;
    call->is_metered = command != NULL;
    if (!command)
        return;
    command->n_refs = 1;
    command->length = -1;
    call->command = command;
    command->counts = counts;
    command->is_told = is_told;
    atomic_fetch_add_explicit(&counts->came, 1, memory_order_relaxed);
    if (!is_told) {
        command->came = vg_cl_now();
        return;
    }
    command->told.kind = (uint8_t)meter_kind(call->head.op);
    command->told.bytes = call->head.data ? call->head.data : call->room_size;
    pthread_mutex_lock(&meter_lock);
    command->came = vg_cl_now();
    command->told.request = (uint64_t)getpid() << 32 | ++meter_number;
    meter_report(command, VG_SERVE_QUEUED, command->came);
    pthread_mutex_unlock(&meter_lock);
}

void
vg_serve_meter_have(struct vg_serve *serve)
{
    struct vg_serve_counts *counts = vg_serve_counts_of(serve);

    if (!counts)
        return;
    /* Reports the latest value last. */
    pthread_mutex_lock(&serve->lock);
    atomic_store_explicit(&counts->memory, vg_cl_mem_bytes(), memory_order_relaxed);
    atomic_store_explicit(&counts->objects, serve->n_objects, memory_order_relaxed);
    pthread_mutex_unlock(&serve->lock);
}

void
vg_serve_meter_entered(struct vg_serve_call *call)
{
    struct vg_serve_command *command = call->command;

    if (call->head.op == VG_WIRE_OP_SetUserEventStatus)
        meter_note_waiting();
    if (!command || call->refused)
        return;
    pthread_mutex_lock(&meter_lock);
    command->entered = vg_cl_now();
    command->may_await = vg_cl_user_events_n > 0;
    command->n_refs++;
    if (command->is_told)
        meter_report(command, VG_SERVE_SUBMITTED, command->entered);
    *meter_end = command;
    meter_end = &command->next;
    atomic_fetch_add(&meter_n, 1);
    meter_run_first();
    pthread_mutex_unlock(&meter_lock);
}

void
vg_serve_meter_given(struct vg_serve_call *call, cl_command_queue queue, cl_event event)
{
    struct vg_serve_counts *counts = vg_serve_counts_of(call->serve);
    struct vg_serve_command *command = event ? call->command : NULL;

    if (!command)
        return;
    if (!counts->device[0])
        meter_note_device(counts, queue);
    const cl_command_queue_properties bits = vg_cl_queue_bits((const struct vg_cl_object *)queue);
    pthread_mutex_lock(&meter_lock);
    command->told.queue = command->queue = ((const struct vg_cl_object *)queue)->id;
    command->is_timed = bits & CL_QUEUE_PROFILING_ENABLE;
    command->is_in_order = !(bits & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    command->event = vg_cl_use((struct vg_cl_object *)event);
    command->n_refs++;
    pthread_mutex_unlock(&meter_lock);
    bool is_well =
        vg_cl_dispatch.clSetEventCallback(event, CL_COMPLETE, meter_hear, command) == CL_SUCCESS;
    pthread_mutex_lock(&meter_lock);
    /* If there is no callback, the command is done when its call returns. */
    bool is_last = meter_leave(command);
    pthread_mutex_unlock(&meter_lock);
    if (is_last)
        meter_free(command);
    if (is_well) {
        call->is_metered = false;
        call->command = NULL;
    }
}

void
vg_serve_meter_back(struct vg_serve_call *call, cl_int result)
{
    struct vg_serve_command *command = call->command;

    call->is_metered = false;
    call->command = NULL;
    if (command && !command->entered) {
        /* A refused command did not reach the device. */
        pthread_mutex_lock(&meter_lock);
        int64_t now = vg_cl_now();
        command->told.status = result;
        meter_add(command, now, now);
        pthread_mutex_unlock(&meter_lock);
        meter_free(command);
    } else if (command) {
        meter_done(command, result);
    }
    /* The call may have waited for other commands. */
    if (!(call->head.flags & VG_WIRE_LATER))
        vg_serve_meter_settle();
}

/* ---- what goes wrong ---- */

void
vg_serve_note(struct vg_serve_note *note, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(note->text, sizeof note->text, format, args);
    va_end(args);
    atomic_store_explicit(&note->at, vg_cl_now(), memory_order_relaxed);
    atomic_fetch_add_explicit(&note->n, 1, memory_order_release);
}

void
vg_serve_meter_link(struct vg_serve_counts *counts, const struct vg_wire_link *link)
{
    if (!counts)
        return;
    counts->way = link->session  ? VG_SERVE_WAY_SESSION
                  : link->shared ? VG_SERVE_WAY_SHARED
                                 : VG_SERVE_WAY_SOCKET;
    if (link->session)
        vg_wire_session_publish(link->session, &counts->link);
}

/* Returns whether programs use OP to poll for changes. */
static bool
meter_is_question(const char *name)
{
    return strncmp(name, "clGet", 5) == 0;
}

void
vg_serve_meter_result(const struct vg_serve_call *call, cl_int result)
{
    struct vg_serve_counts *counts = vg_serve_counts_of(call->serve);
    const char *name = vg_serve_names[call->head.op];

    if (!counts || result == CL_SUCCESS || (!call->why && meter_is_question(name)))
        return;
    pthread_mutex_lock(&meter_lock);
    if (call->why)
        vg_serve_note(&counts->refused, "%s: %s", name, call->why);
    else
        vg_serve_note(&counts->failed, "%s: error %d", name, (int)result);
    pthread_mutex_unlock(&meter_lock);
}
