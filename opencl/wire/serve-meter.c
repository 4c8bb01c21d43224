/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/wire/serve-meter.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/icd/entries.h"
#include "opencl/track/clock.h"
#include "opencl/track/memory.h"
#include "opencl/wire/serve-private.h"
#include "opencl/wire/serve-turn.h"

/* A command that is at the device. */
struct meter_command {
    struct vg_serve_counts *counts;
    int64_t came, entered; /* when */
};

static pthread_mutex_t meter_lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t meter_last; /* when a command was done, last; under the lock */

static void
meter_count(_Atomic uint64_t *buckets, int64_t ns)
{
    atomic_fetch_add_explicit(&buckets[vg_serve_took_bucket(ns)], 1, memory_order_relaxed);
}

static void
meter_done(const struct meter_command *command)
{
    struct vg_serve_counts *counts = command->counts;

    pthread_mutex_lock(&meter_lock);
    int64_t now = vg_cl_now();
    int64_t begin = command->entered > meter_last ? command->entered : meter_last;
    meter_last = now;
    pthread_mutex_unlock(&meter_lock);
    atomic_fetch_add_explicit(&counts->wait_ns, begin - command->came, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->run_ns, now - begin, memory_order_relaxed);
    meter_count(counts->took, now - command->came);
    meter_count(counts->waited, begin - command->came);
    meter_count(counts->ran, now - begin);
    atomic_fetch_add_explicit(&counts->done, 1, memory_order_release);
}

static void CL_CALLBACK
meter_hear(cl_event event, cl_int status, void *data)
{
    (void)event;
    (void)status;
    meter_done(data);
    free(data);
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

    call->is_metered = counts && vg_serve_turn_is_command(call->head.op) &&
                       call->head.op != VG_WIRE_OP_SetUserEventStatus &&
                       atomic_load_explicit(&counts->is_wanted, memory_order_relaxed);
    if (!call->is_metered)
        return;
    call->came = vg_cl_now();
    atomic_fetch_add_explicit(&counts->came, 1, memory_order_relaxed);
    atomic_store_explicit(&counts->memory, vg_cl_mem_bytes(), memory_order_relaxed);
    atomic_store_explicit(&counts->objects, call->serve->n_objects, memory_order_relaxed);
}

void
vg_serve_meter_given(struct vg_serve_call *call, cl_command_queue queue, cl_event event)
{
    struct vg_serve_counts *counts = vg_serve_counts_of(call->serve);
    struct meter_command *command = call->is_metered && event ? malloc(sizeof *command) : NULL;

    if (!command)
        return;
    if (!counts->device[0])
        meter_note_device(counts, queue);
    *command = (struct meter_command){counts, call->came, call->entered};
    if (vg_cl_dispatch.clSetEventCallback(event, CL_COMPLETE, meter_hear, command) == CL_SUCCESS)
        call->is_metered = false;
    else
        free(command);
}

void
vg_serve_meter_back(struct vg_serve_call *call)
{
    struct vg_serve_counts *counts = vg_serve_counts_of(call->serve);

    if (call->is_metered)
        meter_done(&(struct meter_command){counts, call->came, call->entered});
    call->is_metered = false;
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
