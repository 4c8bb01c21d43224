/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/session.h"

#include <stdlib.h>
#include <string.h>

#include "guest/message.h"
#include "guest/provider.h"
#include "guest/util.h"

static const char *const state_words[VG_GUEST_STATE_MAX] = {
    [VG_GUEST_IDLE] = "idle",
    [VG_GUEST_PREPARED] = "prepared",
    [VG_GUEST_RESUMED] = "resumed",
    [VG_GUEST_FAILED] = "failed",
};

const char *
vg_guest_session_state_word(const struct vg_guest_session *session)
{
    if (!session->working || session->running.type == VG_GUEST_SWITCH)
        return state_words[session->state];
    return session->running.type == VG_GUEST_PREPARE ? "preparing" : "resuming";
}

static void
session_send(struct vg_guest_session *session, const char *line)
{
    session->ops->send(session->user, line);
}

static void
session_send_object(struct vg_guest_session *session, json_object *object)
{
    vg_guest_auto char *line = vg_guest_object_line(object);

    session_send(session, line);
}

static void
session_refuse(struct vg_guest_session *session, int64_t id, enum vg_guest_code code,
               const char *message)
{
    vg_guest_auto char *line = vg_guest_error_line(id, code, message);

    session_send(session, line);
}

/* Returns whether two requests are for the same action and devices. */
static bool
session_same_devices(const struct vg_guest_request *a, const struct vg_guest_request *b)
{
    if (a->n_devices != b->n_devices)
        return false;
    for (size_t i = 0; i < a->n_devices; i++) {
        const struct vg_guest_match *x = &a->devices[i], *y = &b->devices[i];
        if (strcmp(x->path, y->path) != 0 || strcmp(x->address, y->address) != 0 ||
            x->vendor != y->vendor || x->device != y->device)
            return false;
    }
    return true;
}

static bool
session_same(const struct vg_guest_request *a, const struct vg_guest_request *b)
{
    return a->id == b->id && a->type == b->type && a->deadline_ms == b->deadline_ms &&
           strcmp(a->opencl_at, b->opencl_at) == 0 && session_same_devices(a, b);
}

static void
session_add_running(const struct vg_guest_session *session, json_object *object)
{
    json_object_object_add(object, "running",
                           session->working ? json_object_new_int64(session->running.id) : NULL);
}

static void
session_hello(struct vg_guest_session *session, const struct vg_guest_request *request)
{
    json_object *object, *versions = json_object_new_array(), *names = json_object_new_array();

    if (request->version == 0) {
        json_object_put(versions);
        json_object_put(names);
        session_refuse(session, request->id, VG_GUEST_BAD_VERSION,
                       "this agent supports version 1 only");
        return;
    }
    session->version = request->version;
    json_object_array_add(versions, json_object_new_int(VG_GUEST_VERSION));
    for (size_t i = 0; vg_guest_providers[i]; i++)
        json_object_array_add(names, json_object_new_string(vg_guest_providers[i]->name));
    object = vg_guest_message(request->id, "hello");
    json_object_object_add(object, "version", json_object_new_int(request->version));
    json_object_object_add(object, "minor", json_object_new_int(VG_GUEST_MINOR));
    json_object_object_add(object, "versions", versions);
    json_object_object_add(object, "agent", json_object_new_string(PACKAGE_VERSION));
    json_object_object_add(object, "providers", names);
    json_object_object_add(object, "boot_id",
                           session->boot_id ? json_object_new_string(session->boot_id) : NULL);
    json_object_object_add(object, "state",
                           json_object_new_string(vg_guest_session_state_word(session)));
    session_add_running(session, object);
    session_send_object(session, object);
}

/* Answers a request whose id is already known. Returns whether it did. */
static bool
session_again(struct vg_guest_session *session, const struct vg_guest_request *request)
{
    const struct vg_guest_request *known = session->working && session->running.id == request->id
                                               ? &session->running
                                           : session->ended.id == request->id ? &session->ended
                                                                              : NULL;

    if (!known)
        return false;
    if (!session_same(known, request))
        session_refuse(session, request->id, VG_GUEST_ID_REUSED,
                       "another request used this id: each request needs its own");
    else if (known == &session->ended)
        session_send(session, session->answer);
    else if (session->last_progress)
        session_send(session, session->last_progress);
    return true;
}

static void
session_work(struct vg_guest_session *session, const struct vg_guest_request *request)
{
    bool open = session->state == VG_GUEST_PREPARED || session->state == VG_GUEST_FAILED;
    struct vg_guest_order order = {.request = *request, .kept = open ? session->kept : NULL};
    bool same = session_same_devices(request, &session->devices_of);

    if (session_again(session, request))
        return;
    if (session->working) {
        json_object *object = vg_guest_message(request->id, "error");
        json_object_object_add(object, "code",
                               json_object_new_string(vg_guest_code_word(VG_GUEST_BUSY)));
        json_object_object_add(object, "message",
                               json_object_new_string("another request is in progress"));
        session_add_running(session, object);
        session_send_object(session, object);
        return;
    }
    if (request->type == VG_GUEST_PREPARE && session->state == VG_GUEST_PREPARED && !same) {
        session_refuse(session, request->id, VG_GUEST_BAD_STATE,
                       "other devices are prepared: resume those first");
        return;
    }
    if (request->type == VG_GUEST_SWITCH && session->state == VG_GUEST_PREPARED &&
        strcmp(request->opencl_at, VG_GUEST_PLACE_DIRECT) == 0) {
        session_refuse(session, request->id, VG_GUEST_BAD_STATE,
                       "the GPUs are being released: resume them first");
        return;
    }
    order.already =
        same && session->state ==
                    (request->type == VG_GUEST_PREPARE ? VG_GUEST_PREPARED : VG_GUEST_RESUMED);
    if (session->ops->work(session->user, &order) != 0) {
        session_refuse(session, request->id, VG_GUEST_INTERNAL, "a process cannot be started");
        return;
    }
    session->working = true;
    session->running = *request;
    free(session->last_progress);
    session->last_progress = NULL;
}

static void
session_look(struct vg_guest_session *session, const struct vg_guest_request *request)
{
    struct vg_guest_order order = {.request = *request,
                                   .state = vg_guest_session_state_word(session),
                                   .running = session->working ? session->running.id : 0};

    if (session->looking) {
        session_refuse(session, request->id, VG_GUEST_BUSY, "another status is being collected");
        return;
    }
    if (session->ops->look(session->user, &order) != 0) {
        session_refuse(session, request->id, VG_GUEST_INTERNAL, "a process cannot be started");
        return;
    }
    session->looking = true;
    session->look = *request;
}

static void
session_cancel(struct vg_guest_session *session, const struct vg_guest_request *request)
{
    json_object *object = vg_guest_message(request->id, "cancelled");

    session_add_running(session, object);
    session_send_object(session, object);
    if (session->working)
        session->ops->cancel(session->user);
}

static void
session_proxy(struct vg_guest_session *session, const struct vg_guest_request *request)
{
    bool changed;
    int error =
        session->ops->note_proxy(session->user, request->opencl_at, request->token, &changed);

    if (error != 0) {
        char text[VG_GUEST_MESSAGE_MAX];
        vg_guest_put(text, sizeof text, "the proxy's address cannot be stored: %s",
                     strerror(error));
        session_refuse(session, request->id, VG_GUEST_INTERNAL, text);
        return;
    }
    json_object *object = vg_guest_message(request->id, "proxy");
    json_object_object_add(object, "at",
                           *request->opencl_at ? json_object_new_string(request->opencl_at) : NULL);
    json_object_object_add(object, "changed", json_object_new_boolean(changed));
    session_send_object(session, object);
}

static void
session_request(struct vg_guest_session *session, const struct vg_guest_request *request)
{
    if (request->type != VG_GUEST_HELLO && session->version == 0) {
        session_refuse(session, request->id, VG_GUEST_HELLO_FIRST,
                       "no protocol version is agreed on: send hello first");
        return;
    }
    switch (request->type) {
    case VG_GUEST_HELLO:
        session_hello(session, request);
        break;
    case VG_GUEST_PREPARE:
    case VG_GUEST_RESUME:
    case VG_GUEST_SWITCH:
        session_work(session, request);
        break;
    case VG_GUEST_STATUS:
        session_look(session, request);
        break;
    case VG_GUEST_CANCEL:
        session_cancel(session, request);
        break;
    case VG_GUEST_PROXY:
        session_proxy(session, request);
        break;
    case VG_GUEST_TYPE_MAX:
    default:
        break;
    }
}

void
vg_guest_session_line(void *user, const char *text, size_t size)
{
    struct vg_guest_session *session = user;
    struct vg_guest_request request;
    struct vg_guest_fault fault;

    if (!text) {
        session_refuse(session, 0, VG_GUEST_TOO_LONG, "a line may have at most 65536 bytes");
        return;
    }
    if (vg_guest_request_parse(text, size, &request, &fault) != 0)
        session_refuse(session, fault.id, fault.code, fault.message);
    else
        session_request(session, &request);
}

void
vg_guest_session_hangup(struct vg_guest_session *session)
{
    session->version = 0;
}

void
vg_guest_session_progress(struct vg_guest_session *session, const char *line)
{
    free(session->last_progress);
    session->last_progress = vg_guest_copy(line);
    session_send(session, line);
}

void
vg_guest_session_beat(struct vg_guest_session *session)
{
    if (session->working && session->last_progress)
        session_send(session, session->last_progress);
}

void
vg_guest_session_ended(struct vg_guest_session *session, enum vg_guest_end end, const char *line)
{
    bool prepare = session->running.type == VG_GUEST_PREPARE;

    session->working = false;
    if (end != VG_GUEST_END_UNTOUCHED && session->running.type != VG_GUEST_SWITCH) {
        session->devices_of = session->running;
        session->state = end == VG_GUEST_END_BROKEN            ? VG_GUEST_FAILED
                         : end == VG_GUEST_END_DONE && prepare ? VG_GUEST_PREPARED
                                                               : VG_GUEST_RESUMED;
    }
    session->ended = session->running;
    free(session->answer);
    session->answer = vg_guest_copy(line);
    session_send(session, line);
}

void
vg_guest_session_looked(struct vg_guest_session *session, const char *line)
{
    session->looking = false;
    session_send(session, line);
}

void
vg_guest_session_keep(struct vg_guest_session *session, const char *json)
{
    json_object_put(session->kept);
    session->kept = json_tokener_parse(json);
}

void
vg_guest_session_init(struct vg_guest_session *session, const struct vg_guest_session_ops *ops,
                      void *user)
{
    *session = (struct vg_guest_session){.ops = ops, .user = user};
}

void
vg_guest_session_clear(struct vg_guest_session *session)
{
    free(session->boot_id);
    free(session->last_progress);
    free(session->answer);
    json_object_put(session->kept);
    *session = (struct vg_guest_session){0};
}
