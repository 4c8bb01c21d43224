/* SPDX-License-Identifier: Apache-2.0
 *
 * Serves all parts of the work: failures, messages, and their JSON.
 */
#include "config.h"

#include "guest/work.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/child.h"
#include "guest/message.h"
#include "guest/util.h"
#include "guest/work-private.h"
#include "guest/worker.h"

/* 512 MiB a second. */
#define COPY_BYTES_PER_MS (((int64_t)512 << 20) / 1000)

int
vg_guest_work_fail(struct vg_guest_work *work, enum vg_guest_code code, const char *format, ...)
{
    char text[VG_GUEST_FAILURE_MAX];
    va_list args;

    if (work->failure)
        return -1;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    vg_guest_auto char *clean = vg_guest_clean(text, sizeof text);
    work->failure = json_object_new_object();
    json_object_object_add(work->failure, "code", json_object_new_string(vg_guest_code_word(code)));
    json_object_object_add(work->failure, "message", json_object_new_string(clean));
    return -1;
}

void
vg_guest_work_add(struct vg_guest_work *work, const char *format, ...)
{
    char more[VG_GUEST_FAILURE_MAX], text[VG_GUEST_FAILURE_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(more, sizeof more, format, args);
    va_end(args);
    vg_guest_put(text, sizeof text, "%s%s",
                 json_object_get_string(json_object_object_get(work->failure, "message")), more);
    vg_guest_auto char *clean = vg_guest_clean(text, sizeof text);
    json_object_object_add(work->failure, "message", json_object_new_string(clean));
}

static void
work_add_number(json_object *object, const char *name, int64_t n)
{
    n += json_object_get_int64(json_object_object_get(object, name));
    json_object_object_add(object, name, json_object_new_int64(n));
}

/* Removes a provider's programs from a list. */
static void
work_remove_programs(json_object *list, const char *by)
{
    for (size_t i = json_object_array_length(list); i-- > 0;) {
        json_object *program = json_object_array_get_idx(list, i);
        if (strcmp(json_object_get_string(json_object_object_get(program, "by")), by) == 0)
            json_object_array_del_idx(list, i, 1);
    }
}

json_object *
vg_guest_programs_add(json_object *message, const char *by, int64_t n, int64_t bytes,
                      struct vg_guest_reported *told)
{
    json_object *programs = json_object_object_get(message, "programs");

    if (!programs) {
        programs = json_object_new_object();
        json_object_object_add(programs, "list", json_object_new_array());
        json_object_object_add(message, "programs", programs);
    }
    if (told && told->message == message) {
        work_remove_programs(json_object_object_get(programs, "list"), by);
        work_add_number(programs, "total", -told->n);
        work_add_number(programs, "bytes", -told->bytes);
    }
    if (told)
        *told = (struct vg_guest_reported){.message = message, .n = n, .bytes = bytes};
    work_add_number(programs, "total", n);
    work_add_number(programs, "bytes", bytes);
    return json_object_object_get(programs, "list");
}

int64_t
vg_guest_copy_ms(int64_t bytes)
{
    return bytes > 0 ? bytes / COPY_BYTES_PER_MS : 0;
}

void
vg_guest_work_allow_copy(struct vg_guest_work *work, int64_t bytes)
{
    if (work->out < 0)
        work->until_ms += vg_guest_copy_ms(bytes);
}

void
vg_guest_work_allow_undo(struct vg_guest_work *work)
{
    json_object *programs = json_object_object_get(work->details, "programs");
    int64_t bytes = json_object_get_int64(json_object_object_get(programs, "bytes"));
    int64_t ms = VG_GUEST_UNDO_MS + 2 * vg_guest_copy_ms(bytes);
    vg_guest_auto char *line = vg_guest_format("%lld", (long long)ms);

    work->until_ms = vg_guest_now_ms() + ms;
    vg_guest_worker_report(work->out, VG_GUEST_TAG_TIME, line);
}

int64_t
vg_guest_free_memory(const char *root)
{
    vg_guest_auto char *path = vg_guest_format("%s/proc/meminfo", root);
    char text[4096];

    vg_guest_read_file(path, text, sizeof text);
    const char *found = strstr(text, "MemAvailable:");
    return found ? 1024 * strtoll(found + strlen("MemAvailable:"), NULL, 10) : -1;
}

int
vg_guest_work_check(struct vg_guest_work *work, const char *what)
{
    if (vg_guest_child_stop() == VG_GUEST_STOP_CANCEL)
        return vg_guest_work_fail(work, VG_GUEST_CANCELLED, "cancelled by the host at step '%s'",
                                  what);
    if (vg_guest_now_ms() >= work->until_ms)
        return vg_guest_work_fail(work, VG_GUEST_TIMEOUT, "the deadline passed at step '%s'", what);
    return 0;
}

void
vg_guest_work_report(const struct vg_guest_work *work, enum vg_guest_tag tag,
                     json_object *take_object)
{
    vg_guest_auto char *line = vg_guest_object_line(take_object);

    vg_guest_worker_report(work->out, tag, line);
}

void
vg_guest_work_progress(struct vg_guest_work *work, const char *step, json_object *more)
{
    json_object *object = vg_guest_message(work->order->request.id, "progress");

    json_object_object_add(object, "step", json_object_new_string(step));
    json_object_object_add(object, "elapsed_ms",
                           json_object_new_int64(vg_guest_now_ms() - work->began_ms));
    vg_guest_message_add(object, more);
    vg_guest_work_report(work, VG_GUEST_TAG_PROGRESS, object);
}

static json_object *
work_hex(int number)
{
    char text[16];

    vg_guest_put(text, sizeof text, "0x%04x", (unsigned int)number);
    return json_object_new_string(text);
}

json_object *
vg_guest_device_json(const struct vg_guest_device *device)
{
    json_object *object = json_object_new_object();

    json_object_object_add(object, "path", json_object_new_string(device->path));
    json_object_object_add(object, "address", json_object_new_string(device->address));
    json_object_object_add(object, "vendor", work_hex(device->vendor));
    json_object_object_add(object, "device", work_hex(device->device));
    json_object_object_add(object, "driver",
                           *device->driver ? json_object_new_string(device->driver) : NULL);
    return object;
}

/* Describes a device that was released before and no longer exists. */
static json_object *
work_gone_json(const struct vg_guest_match *match)
{
    json_object *object = json_object_new_object();

    json_object_object_add(object, "path",
                           *match->path ? json_object_new_string(match->path) : NULL);
    json_object_object_add(object, "address",
                           *match->address ? json_object_new_string(match->address) : NULL);
    json_object_object_add(object, "vendor", match->vendor < 0 ? NULL : work_hex(match->vendor));
    json_object_object_add(object, "device", match->device < 0 ? NULL : work_hex(match->device));
    json_object_object_add(object, "driver", NULL);
    json_object_object_add(object, "gone", json_object_new_boolean(true));
    return object;
}

json_object *
vg_guest_work_devices_json(const struct vg_guest_work *work)
{
    json_object *list = json_object_new_array();

    for (size_t i = 0; i < work->n_devices; i++) {
        const struct vg_guest_device *device = &work->devices[i];
        json_object_array_add(list, *device->dir
                                        ? vg_guest_device_json(device)
                                        : work_gone_json(&work->order->request.devices[i]));
    }
    return list;
}

json_object *
vg_guest_holder_json(const struct vg_guest_holder *holder)
{
    json_object *object = json_object_new_object();
    vg_guest_auto char *comm = vg_guest_clean(holder->comm, sizeof holder->comm);
    vg_guest_auto char *path = vg_guest_clean(holder->path, sizeof holder->path);

    json_object_object_add(object, "pid", json_object_new_int(holder->pid));
    json_object_object_add(object, "comm", json_object_new_string(comm));
    json_object_object_add(object, "path", json_object_new_string(path));
    json_object_object_add(object, "how",
                           json_object_new_string(holder->mapped ? "mapped" : "open"));
    return object;
}

int
vg_guest_work_find(struct vg_guest_work *work, bool may_be_gone)
{
    const struct vg_guest_request *request = &work->order->request;
    size_t n, used = 0;
    vg_guest_auto struct vg_guest_device *all = vg_guest_devices_read(work->config->root, &n);

    work->addresses[0] = '\0';
    work->n_devices = request->n_devices;
    for (size_t i = 0; i < request->n_devices; i++) {
        char text[VG_GUEST_MESSAGE_MAX];
        struct vg_guest_device *device = &work->devices[i];
        *device = (struct vg_guest_device){0};
        size_t found = vg_guest_devices_match(all, n, &request->devices[i], device);
        vg_guest_match_text(&request->devices[i], text, sizeof text);
        if (found == 0 && may_be_gone)
            continue;
        if (found == 0)
            return vg_guest_work_fail(work, VG_GUEST_NOT_FOUND, "there is no PCI device with %s",
                                      text);
        if (found > 1)
            return vg_guest_work_fail(work, VG_GUEST_AMBIGUOUS, "%zu PCI devices have %s", found,
                                      text);
        if (vg_guest_device_is_bridge(device))
            return vg_guest_work_fail(work, VG_GUEST_BAD_REQUEST, "%s is a bridge, not a device",
                                      device->address);
        for (size_t j = 0; j < i; j++) {
            if (strcmp(work->devices[j].address, device->address) == 0)
                return vg_guest_work_fail(work, VG_GUEST_AMBIGUOUS, "%s is named twice",
                                          device->address);
        }
        vg_guest_put(work->addresses + used, sizeof work->addresses - used, "%s%s", used ? " " : "",
                     device->address);
        used = strlen(work->addresses);
    }
    return 0;
}
