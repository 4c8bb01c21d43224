/* SPDX-License-Identifier: Apache-2.0
 *
 * Prepares GPUs for removal: programs release them, no process has them open or mapped, and their
 * drivers are unbound.
 */
#include "config.h"

#include <string.h>

#include "guest/child.h"
#include "guest/node.h"
#include "guest/provider.h"
#include "guest/util.h"
#include "guest/work-private.h"

/* The pause between two scans of all processes, which grows. */
enum { LOOK_MS_MIN = 100, LOOK_MS_MAX = 1000 };

static json_object *
prepare_holders_json(const struct vg_guest_holder *holders, size_t total)
{
    json_object *object = json_object_new_object(), *list = json_object_new_array();

    for (size_t i = 0; i < total && i < VG_GUEST_HOLDERS_MAX; i++)
        json_object_array_add(list, vg_guest_holder_json(&holders[i]));
    json_object_object_add(object, "holders", list);
    json_object_object_add(object, "holders_total", json_object_new_int64((int64_t)total));
    return object;
}

/* Fails because the deadline has come, or the host has cancelled the request. */
static int
prepare_held(struct vg_guest_work *work, const struct vg_guest_holder *holders, size_t total)
{
    bool cancelled = vg_guest_child_stop() == VG_GUEST_STOP_CANCEL;

    vg_guest_work_fail(work, cancelled ? VG_GUEST_CANCELLED : VG_GUEST_HELD,
                       "%s process %d (%s) had %s %s%s",
                       cancelled ? "cancelled by the host while" : "the deadline passed while",
                       (int)holders[0].pid, holders[0].comm, holders[0].path,
                       holders[0].mapped ? "mapped" : "open", total > 1 ? ", among others" : "");
    json_object *about = prepare_holders_json(holders, total);
    json_object_object_foreach(about, name, value)
    {
        json_object_object_add(work->failure, name, json_object_get(value));
    }
    json_object_put(about);
    return -1;
}

static int
prepare_wait_for_holders(struct vg_guest_work *work, const struct vg_guest_nodes *nodes)
{
    struct vg_guest_holder holders[VG_GUEST_HOLDERS_MAX] = {0}, told[VG_GUEST_HOLDERS_MAX];
    bool first = true;

    for (int64_t pause_ms = LOOK_MS_MIN;; pause_ms *= 2) {
        memcpy(told, holders, sizeof told);
        memset(holders, 0, sizeof holders);
        size_t total =
            vg_guest_holders_find(work->config->root, nodes, holders, VG_GUEST_HOLDERS_MAX);
        if (first || memcmp(told, holders, sizeof told) != 0)
            vg_guest_work_progress(work, "holders", prepare_holders_json(holders, total));
        first = false;
        if (total == 0)
            return 0;
        int64_t now_ms = vg_guest_now_ms();
        if (now_ms >= work->until_ms || vg_guest_child_stop() == VG_GUEST_STOP_CANCEL)
            return prepare_held(work, holders, total);
        pause_ms = pause_ms > LOOK_MS_MAX ? LOOK_MS_MAX : pause_ms;
        vg_guest_child_sleep(now_ms + pause_ms < work->until_ms ? now_ms + pause_ms
                                                                : work->until_ms);
    }
}

static int
prepare_unbind(struct vg_guest_work *work, struct vg_guest_device *device)
{
    vg_guest_auto char *path = vg_guest_format("%s/driver/unbind", device->dir);
    json_object *more = json_object_new_object();

    json_object_object_add(more, "address", json_object_new_string(device->address));
    json_object_object_add(more, "driver", json_object_new_string(device->driver));
    vg_guest_work_progress(work, "unbind", more);
    int error = vg_guest_child_write(path, device->address, work->until_ms);
    struct vg_guest_device now = *device;
    work->stuck = error == VG_GUEST_WRITE_STUCK;
    if (error > 0)
        return vg_guest_work_fail(work, VG_GUEST_UNBIND_FAILED,
                                  "driver '%s' does not release %s: %s", device->driver,
                                  device->address, strerror(error));
    if ((error < 0 || !vg_guest_device_wait(&now, false, work->until_ms)) &&
        vg_guest_child_stop() == VG_GUEST_STOP_CANCEL)
        return vg_guest_work_check(work, "unbind");
    if (error < 0 || *now.driver)
        return vg_guest_work_fail(work, VG_GUEST_UNBIND_FAILED,
                                  "driver '%s' had not released %s at the deadline", device->driver,
                                  device->address);
    vg_guest_log(LOG_NOTICE, "driver released device=%s driver=%s", device->address,
                 device->driver);
    return 0;
}

/* Calls the providers in their order. *kept gets the state that each needs to resume. */
static int
prepare_providers(struct vg_guest_work *work, json_object *kept)
{
    json_object *states = json_object_new_object();

    json_object_object_add(kept, "providers", states);
    for (size_t i = 0; vg_guest_providers[i]; i++) {
        json_object *state = NULL;
        int result = vg_guest_providers[i]->prepare(work, &state);
        json_object_object_add(states, vg_guest_providers[i]->name, state);
        if (result != 0)
            return -1;
    }
    return 0;
}

static int
prepare_release(struct vg_guest_work *work, const struct vg_guest_nodes *nodes)
{
    bool unbound = false;

    if (prepare_wait_for_holders(work, nodes) != 0)
        return -1;
    for (size_t i = 0; i < work->n_devices; i++) {
        struct vg_guest_device *device = &work->devices[i];
        if (!*device->driver)
            continue;
        if (prepare_unbind(work, device) != 0)
            return -1;
        unbound = true;
    }
    /* A process may have opened a node in the meantime. */
    return unbound ? prepare_wait_for_holders(work, nodes) : 0;
}

int
vg_guest_prepare(struct vg_guest_work *work, json_object **ret_kept)
{
    struct vg_guest_nodes nodes;
    int result = 0;

    if (vg_guest_work_find(work, work->order->already) != 0)
        return -1;
    /* The nodes are read first, since unbinding the drivers removes them. */
    vg_guest_nodes_read(work->config->root, work->devices, work->n_devices, &nodes);
    if (!work->order->already) {
        json_object *drivers = json_object_new_array();
        for (size_t i = 0; i < work->n_devices; i++)
            json_object_array_add(drivers, json_object_new_string(work->devices[i].driver));
        *ret_kept = json_object_new_object();
        json_object_object_add(*ret_kept, "drivers", drivers);
        result = prepare_providers(work, *ret_kept);
    }
    if (result == 0)
        result = prepare_release(work, &nodes);
    vg_guest_nodes_clear(&nodes);
    return result;
}
