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
#include "opencl/serve/turn.h"
#include "opencl/track/memory.h"

/* A command that has come. */
struct vg_serve_command {
    struct vg_serve_counts *counts;
    int64_t came, entered; /* when */
    /* of one that is told of: */
    struct vg_serve_told_record told;
    struct vg_serve_command *next; /* that was given to the device after it */
    bool is_told, is_given;
};

static pthread_mutex_t meter_lock = PTHREAD_MUTEX_INITIALIZER; /* of: */
static int64_t meter_last;                                     /* when a command was done, last */
static uint32_t meter_number; /* of the last command that was told of */
static struct vg_serve_command *meter_given, **meter_end = &meter_given; /* and told of */

/* ---- what is told ---- */

static enum vg_serve_told_kind
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

/* With the lock. */
static void
meter_tell(struct vg_serve_command *command, enum vg_serve_told_what what, int64_t at)
{
    command->told.what = (uint8_t)what;
    command->told.at = at;
    vg_serve_tell(&command->counts->told, &command->told);
}

/* COMMAND is at the device, and runs when all before it is done. With the lock. */
static void
meter_give(struct vg_serve_command *command)
{
    command->is_given = true;
    meter_tell(command, VG_SERVE_SUBMITTED, command->entered);
    if (!meter_given)
        meter_tell(command, VG_SERVE_RUNNING, command->entered);
    *meter_end = command;
    meter_end = &command->next;
}

/* COMMAND is done; what was given after it runs, if nothing before does. With the lock. */
static void
meter_take(struct vg_serve_command *command, int64_t now)
{
    struct vg_serve_command **link = &meter_given;

    if (command->is_given && meter_given != command)
        meter_tell(command, VG_SERVE_RUNNING, now);
    meter_tell(command, command->told.status < 0 ? VG_SERVE_FAILED : VG_SERVE_DONE, now);
    if (!command->is_given)
        return;
    bool was_running = meter_given == command;
    while (*link != command)
        link = &(*link)->next;
    *link = command->next;
    if (!*link)
        meter_end = link;
    if (was_running && meter_given)
        meter_tell(meter_given, VG_SERVE_RUNNING, now);
}

/* ---- what is counted ---- */

static void
meter_count(_Atomic uint64_t *buckets, int64_t ns)
{
    atomic_fetch_add_explicit(&buckets[vg_serve_took_bucket(ns)], 1, memory_order_relaxed);
}

static void
meter_done(struct vg_serve_command *command, cl_int status)
{
    struct vg_serve_counts *counts = command->counts;

    pthread_mutex_lock(&meter_lock);
    int64_t now = vg_cl_now();
    /* What was refused has not been there. */
    int64_t entered = command->entered ? command->entered : now;
    int64_t begin = entered > meter_last ? entered : meter_last;
    meter_last = now;
    command->told.status = status;
    command->told.wait_ns = begin - command->came;
    command->told.run_ns = now - begin;
    if (command->is_told)
        meter_take(command, now);
    pthread_mutex_unlock(&meter_lock);
    atomic_fetch_add_explicit(&counts->wait_ns, begin - command->came, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->run_ns, now - begin, memory_order_relaxed);
    meter_count(counts->took, now - command->came);
    meter_count(counts->waited, begin - command->came);
    meter_count(counts->ran, now - begin);
    atomic_fetch_add_explicit(&counts->done, 1, memory_order_release);
    free(command);
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

    if (!counts || !vg_serve_turn_is_command(call->head.op) ||
        call->head.op == VG_WIRE_OP_SetUserEventStatus)
        return;
    bool is_told = atomic_load_explicit(&counts->told.is_wanted, memory_order_relaxed);
    call->is_metered = is_told || atomic_load_explicit(&counts->is_wanted, memory_order_relaxed);
    struct vg_serve_command *command = call->is_metered ? calloc(1, sizeof *command) : NULL;
    call->is_metered = command != NULL;
    if (!command)
        return;
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
    meter_tell(command, VG_SERVE_QUEUED, command->came);
    pthread_mutex_unlock(&meter_lock);
}

void
vg_serve_meter_have(struct vg_serve *serve)
{
    struct vg_serve_counts *counts = vg_serve_counts_of(serve);

    if (!counts)
        return;
    /* What is told last is what was so last. */
    pthread_mutex_lock(&serve->lock);
    atomic_store_explicit(&counts->memory, vg_cl_mem_bytes(), memory_order_relaxed);
    atomic_store_explicit(&counts->objects, serve->n_objects, memory_order_relaxed);
    pthread_mutex_unlock(&serve->lock);
}

void
vg_serve_meter_entered(struct vg_serve_call *call)
{
    struct vg_serve_command *command = call->command;

    if (!command || call->refused)
        return;
    if (!command->is_told) {
        command->entered = vg_cl_now();
        return;
    }
    pthread_mutex_lock(&meter_lock);
    command->entered = vg_cl_now();
    meter_give(command);
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
    if (command->is_told) {
        pthread_mutex_lock(&meter_lock);
        command->told.queue = ((const struct vg_cl_object *)queue)->id;
        pthread_mutex_unlock(&meter_lock);
    }
    if (vg_cl_dispatch.clSetEventCallback(event, CL_COMPLETE, meter_hear, command) == CL_SUCCESS) {
        call->is_metered = false;
        call->command = NULL;
    }
}

void
vg_serve_meter_back(struct vg_serve_call *call, cl_int result)
{
    if (call->command)
        meter_done(call->command, result);
    call->is_metered = false;
    call->command = NULL;
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
        vg_wire_session_tell(link->session, &counts->link);
}

/* Whether programs ask it to see what there is. */
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
