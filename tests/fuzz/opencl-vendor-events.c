/* SPDX-License-Identifier: Apache-2.0
 *
 * The vendor's queues and events.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/opencl-vendor-private.h"

struct fake_command {
    struct fake_command *next;
    struct fake_object *queue, *mem, *event;
    struct fake_object **waits; /* events */
    cl_uint n;
    struct fake_rows copy;
    enum fake_kind kind;
};

bool (*fake_wait)(bool (*is_done)(const void *), const void *data);

static struct fake_command *command_all;

/* ---- events ---- */

static void
command_call_back(struct fake_object *event)
{
    event->refs++;
    while (event->callbacks) {
        struct fake_callback *callback = event->callbacks;
        event->callbacks = callback->next;
        callback->call((cl_event)event, event->status < 0 ? event->status : callback->type,
                       callback->data);
        free(callback);
    }
    fake_release(event);
}

static bool
command_is_ready(const struct fake_command *command)
{
    for (cl_uint i = 0; i < command->n; i++)
        if (command->waits[i]->status > 0)
            return false;
    for (const struct fake_command *other = command_all; other != command; other = other->next)
        if (other->queue == command->queue && !command->queue->is_out_of_order)
            return false;
    return true;
}

static void
command_copy(const struct fake_command *command)
{
    const struct fake_rows *copy = &command->copy;

    for (size_t z = 0; z < copy->slices; z++)
        for (size_t y = 0; y < copy->rows; y++) {
            unsigned char *host = copy->host + z * copy->host_slice + y * copy->host_row;
            unsigned char *mem = copy->mem + z * copy->mem_slice + y * copy->mem_row;
            if (command->kind == FAKE_READ)
                memcpy(host, mem, copy->row);
            else
                memcpy(mem, host, copy->row);
        }
}

static void
command_free(struct fake_command *command)
{
    for (cl_uint i = 0; i < command->n; i++)
        fake_release(command->waits[i]);
    fake_release(command->mem);
    fake_release(command->queue);
    fake_release(command->event);
    free(command->waits);
    free(command);
}

static void
command_take(struct fake_command *command)
{
    struct fake_command **link = &command_all;

    while (*link != command)
        link = &(*link)->next;
    *link = command->next;
}

void
fake_settle(void)
{
    struct fake_command *command = command_all;

    while (command) {
        if (!command_is_ready(command)) {
            command = command->next;
            continue;
        }
        cl_int status = CL_COMPLETE;
        for (cl_uint i = 0; i < command->n; i++)
            if (command->waits[i]->status < 0)
                status = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
        command_take(command);
        if (status == CL_COMPLETE && command->kind != FAKE_NOTHING)
            command_copy(command);
        command->event->status = status;
        command_call_back(command->event);
        command_free(command);
        command = command_all;
    }
}

static cl_event CL_API_CALL
fake_clCreateUserEvent(cl_context context, cl_int *error)
{
    struct fake_object *event = fake_in_context(context, VG_CL_EVENT, error);

    if (event) {
        event->is_user = true;
        event->status = CL_SUBMITTED;
    }
    return (cl_event)event;
}

static cl_int CL_API_CALL
fake_clSetUserEventStatus(cl_event handle, cl_int status)
{
    struct fake_object *event = fake_as(handle, VG_CL_EVENT);

    if (!event || !event->is_user)
        return CL_INVALID_EVENT;
    if (status > 0)
        return CL_INVALID_VALUE;
    if (event->status <= 0)
        return CL_INVALID_OPERATION;
    event->status = status;
    command_call_back(event);
    return CL_SUCCESS;
}

void
fake_settle_all(void)
{
    struct fake_object *event;

    while ((event = fake_user_event()) != NULL) {
        event->status = CL_COMPLETE;
        command_call_back(event);
    }
    fake_settle();
}

static cl_int CL_API_CALL
fake_clSetEventCallback(cl_event handle, cl_int type,
                        void(CL_CALLBACK *call)(cl_event, cl_int, void *), void *data)
{
    struct fake_object *event = fake_as(handle, VG_CL_EVENT);
    struct fake_callback *callback = event ? malloc(sizeof *callback) : NULL;

    if (!callback)
        return CL_INVALID_EVENT;
    *callback = (struct fake_callback){event->callbacks, call, type, data};
    event->callbacks = callback;
    if (event->status <= 0)
        command_call_back(event);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_clGetEventInfo(cl_event handle, cl_event_info param, size_t size, void *value,
                    size_t *size_ret)
{
    const struct fake_object *event = fake_as(handle, VG_CL_EVENT);
    const cl_ulong none = 0;

    if (!event)
        return CL_INVALID_EVENT;
    if (param == CL_EVENT_COMMAND_EXECUTION_STATUS)
        return fake_give(&event->status, sizeof event->status, size, value, size_ret);
    return fake_give(&none, sizeof none, size, value, size_ret);
}

static cl_int CL_API_CALL
fake_clGetEventProfilingInfo(cl_event event, cl_profiling_info param, size_t size, void *value,
                             size_t *size_ret)
{
    const cl_ulong time = param;

    return fake_as(event, VG_CL_EVENT) ? fake_give(&time, sizeof time, size, value, size_ret)
                                       : CL_INVALID_EVENT;
}

struct command_events {
    const cl_event *events;
    cl_uint n;
};

static bool
command_are_over(const void *data)
{
    const struct command_events *all = data;

    for (cl_uint i = 0; i < all->n; i++)
        if (((const struct fake_object *)all->events[i])->status > 0)
            return false;
    return true;
}

/* Does what can be done, and waits for the rest; false: it cannot be waited for. */
static bool
command_wait(bool (*is_done)(const void *), const void *data)
{
    fake_settle();
    return is_done(data) || (fake_wait && fake_wait(is_done, data));
}

static cl_int CL_API_CALL
fake_clWaitForEvents(cl_uint n, const cl_event *events)
{
    struct command_events all = {events, n};

    if (n == 0 || !events)
        return CL_INVALID_VALUE;
    if (!fake_are((const void *const *)events, n, VG_CL_EVENT))
        return CL_INVALID_EVENT;
    if (!command_wait(command_are_over, &all))
        return CL_OUT_OF_RESOURCES;
    /* They have to be there for as long as they are waited for. */
    return fake_are((const void *const *)events, n, VG_CL_EVENT) ? CL_SUCCESS : CL_INVALID_EVENT;
}

static bool
command_is_empty(const void *queue)
{
    for (const struct fake_command *command = command_all; command; command = command->next)
        if (command->queue == queue)
            return false;
    return true;
}

static cl_int CL_API_CALL
fake_clFinish(cl_command_queue queue)
{
    if (!fake_as(queue, VG_CL_QUEUE))
        return CL_INVALID_COMMAND_QUEUE;
    if (!command_wait(command_is_empty, queue))
        return CL_OUT_OF_RESOURCES;
    return fake_as(queue, VG_CL_QUEUE) ? CL_SUCCESS : CL_INVALID_COMMAND_QUEUE;
}

static cl_int CL_API_CALL
fake_clFlush(cl_command_queue queue)
{
    return fake_as(queue, VG_CL_QUEUE) ? CL_SUCCESS : CL_INVALID_COMMAND_QUEUE;
}

/* ---- commands ---- */

static bool
command_is_over(const void *event)
{
    return ((const struct fake_object *)event)->status <= 0;
}

cl_int
fake_add(cl_command_queue handle, struct fake_object *mem, enum fake_kind kind,
         const struct fake_rows *copy, bool is_blocking, cl_uint n, const cl_event *list,
         cl_event *event)
{
    struct fake_object *queue = fake_as(handle, VG_CL_QUEUE);
    struct fake_command **link = &command_all, *command;
    cl_int error;

    if (!queue)
        return CL_INVALID_COMMAND_QUEUE;
    if ((n == 0) != (list == NULL) || !fake_are((const void *const *)list, n, VG_CL_EVENT))
        return CL_INVALID_EVENT_WAIT_LIST;
    struct fake_object *made = fake_new(VG_CL_EVENT, queue->parent, &error);
    if (!made)
        return error;
    made->status = CL_QUEUED;
    command = calloc(1, sizeof *command);
    if (!command || !(command->waits = calloc(n + 1, sizeof *command->waits)))
        fake_die("there is no memory for this test");
    command->queue = queue;
    command->mem = mem;
    command->event = made;
    command->n = n;
    command->kind = kind;
    if (copy)
        command->copy = *copy;
    queue->refs++;
    made->refs++;
    if (mem)
        mem->refs++;
    for (cl_uint i = 0; i < n; i++) {
        command->waits[i] = (struct fake_object *)list[i];
        command->waits[i]->refs++;
    }
    while (*link)
        link = &(*link)->next;
    *link = command;
    if (is_blocking && !command_wait(command_is_over, made)) {
        command_take(command);
        command_free(command);
        fake_release(made);
        return CL_OUT_OF_RESOURCES;
    }
    if (event)
        *event = (cl_event)made;
    else
        fake_release(made);
    return CL_SUCCESS;
}

void
fake_add_events(cl_icd_dispatch *table)
{
    table->clCreateUserEvent = fake_clCreateUserEvent;
    table->clSetUserEventStatus = fake_clSetUserEventStatus;
    table->clSetEventCallback = fake_clSetEventCallback;
    table->clGetEventInfo = fake_clGetEventInfo;
    table->clGetEventProfilingInfo = fake_clGetEventProfilingInfo;
    table->clWaitForEvents = fake_clWaitForEvents;
    table->clFinish = fake_clFinish;
    table->clFlush = fake_clFlush;
}
