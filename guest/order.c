/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries out a request or a check, and sends the answer.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "guest/message.h"
#include "guest/opencl-switch.h"
#include "guest/util.h"
#include "guest/work-private.h"
#include "guest/worker.h"

/* Returns the guest memory in use, including the page cache, since a migration copies it. */
static int64_t
order_ram_bytes(const char *root)
{
    vg_guest_auto char *path = vg_guest_format("%s/proc/meminfo", root);
    char text[4096];

    vg_guest_read_file(path, text, sizeof text);
    const char *total = strstr(text, "MemTotal:"), *free_part = strstr(text, "MemFree:");
    if (!total || !free_part)
        return 0;
    return 1024 * (strtoll(total + strlen("MemTotal:"), NULL, 10) -
                   strtoll(free_part + strlen("MemFree:"), NULL, 10));
}

/* Ends with an error and takes its members. The tag shows whether the guest is unchanged. */
static void
order_end_failed(struct vg_guest_work *work, enum vg_guest_tag tag, json_object *failure)
{
    json_object *object = vg_guest_message(work->order->request.id, "error");

    vg_guest_message_add(object, failure);
    json_object_object_add(object, "undone", json_object_new_boolean(tag != VG_GUEST_TAG_BROKEN));
    json_object_object_add(object, "hooks", json_object_get(work->hooks));
    vg_guest_message_add(object, json_object_get(work->details));
    vg_guest_work_report(work, tag, object);
}

static void
order_prepare(struct vg_guest_work *work)
{
    json_object *kept = NULL;
    int result = vg_guest_prepare(work, &kept);

    if (result == 0) {
        json_object *object = vg_guest_message(work->order->request.id, "prepared");
        json_object_object_add(object, "already", json_object_new_boolean(work->order->already));
        json_object_object_add(object, "released", vg_guest_work_devices_json(work));
        json_object_object_add(object, "hooks", json_object_get(work->hooks));
        json_object_object_add(object, "ram_bytes",
                               json_object_new_int64(order_ram_bytes(work->config->root)));
        vg_guest_message_add(object, json_object_get(work->details));
        if (!work->order->already)
            vg_guest_work_report(work, VG_GUEST_TAG_KEEP, json_object_get(kept));
        vg_guest_work_report(work, VG_GUEST_TAG_DONE, object);
    } else {
        json_object *failure = work->failure;
        enum vg_guest_tag tag = VG_GUEST_TAG_UNTOUCHED;
        work->failure = NULL;
        if (kept) {
            vg_guest_undo(work, kept);
            tag = work->failure ? VG_GUEST_TAG_BROKEN : VG_GUEST_TAG_UNDONE;
        }
        if (work->failure)
            json_object_object_add(
                failure, "undo_error",
                json_object_get(json_object_object_get(work->failure, "message")));
        if (tag == VG_GUEST_TAG_BROKEN)
            vg_guest_work_report(work, VG_GUEST_TAG_KEEP, json_object_get(kept));
        order_end_failed(work, tag, failure);
    }
    json_object_put(kept);
}

static void
order_resume(struct vg_guest_work *work)
{
    bool begun = false;

    if (vg_guest_resume(work, &begun) == 0) {
        json_object *object = vg_guest_message(work->order->request.id, "resumed");
        json_object_object_add(object, "already", json_object_new_boolean(work->order->already));
        json_object_object_add(object, "devices", vg_guest_work_devices_json(work));
        json_object_object_add(object, "hooks", json_object_get(work->hooks));
        vg_guest_message_add(object, json_object_get(work->details));
        vg_guest_work_report(work, VG_GUEST_TAG_DONE, object);
        return;
    }
    order_end_failed(work, begun ? VG_GUEST_TAG_BROKEN : VG_GUEST_TAG_UNTOUCHED,
                     json_object_get(work->failure));
}

static void
order_switch(struct vg_guest_work *work)
{
    bool undone;

    if (vg_opencl_switch(work, &undone) == 0) {
        json_object *object = vg_guest_message(work->order->request.id, "switched");
        vg_guest_message_add(object, json_object_get(work->details));
        vg_guest_work_report(work, VG_GUEST_TAG_DONE, object);
        return;
    }
    order_end_failed(work, undone ? VG_GUEST_TAG_UNDONE : VG_GUEST_TAG_BROKEN,
                     json_object_get(work->failure));
}

void
vg_guest_work_run(const struct vg_guest_config *config, const struct vg_guest_order *order, int out)
{
    int64_t now_ms = vg_guest_now_ms();
    struct vg_guest_work work = {.config = config,
                                 .order = order,
                                 .out = out,
                                 .began_ms = now_ms,
                                 .until_ms = now_ms + order->request.deadline_ms,
                                 .hooks = json_object_new_array(),
                                 .details = json_object_new_object()};

    vg_guest_work_progress(&work, "start", NULL);
    if (order->request.type == VG_GUEST_PREPARE)
        order_prepare(&work);
    else if (order->request.type == VG_GUEST_RESUME)
        order_resume(&work);
    else
        order_switch(&work);
    json_object_put(work.failure);
    json_object_put(work.hooks);
    json_object_put(work.details);
}

void
vg_guest_look_run(const struct vg_guest_config *config, const struct vg_guest_order *order, int out)
{
    struct vg_guest_work work = {.config = config, .order = order, .out = out};
    json_object *object = vg_guest_message(order->request.id, "status");

    json_object_object_add(object, "state", json_object_new_string(order->state));
    json_object_object_add(object, "running",
                           order->running ? json_object_new_int64(order->running) : NULL);
    vg_guest_message_add(object, vg_guest_look_json(config, order));
    vg_guest_work_report(&work, VG_GUEST_TAG_DONE, object);
}
