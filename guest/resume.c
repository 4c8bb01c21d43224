/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes GPUs available again: they appear, get their drivers, and programs use them. Undoing a
 * preparation is the same without waiting.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "guest/child.h"
#include "guest/provider.h"
#include "guest/util.h"
#include "guest/work-private.h"

enum {
    /* The pause between two searches for the devices. */
    LOOK_MS = 50,
    /* The pause between two checks whether the kernel has completely added one of them. */
    ADDED_POLL_MS = 5,
    /* The time for the kernel to bind a driver automatically, which may load a module, and the time
     * after a request. */
    DRIVER_MS = 2000,
    PROBED_MS = 500,
};

static int
resume_wait_for_devices(struct vg_guest_work *work)
{
    bool told = false;

    while (vg_guest_work_find(work, false) != 0) {
        if (vg_guest_child_stop() == VG_GUEST_STOP_CANCEL) {
            json_object_put(work->failure);
            work->failure = NULL;
            return vg_guest_work_check(work, "device");
        }
        /* At that time, a missing or duplicate device is a failure. */
        if (vg_guest_now_ms() >= work->until_ms)
            return -1;
        if (!told)
            vg_guest_work_progress(work, "device", json_object_get(work->failure));
        told = true;
        json_object_put(work->failure);
        work->failure = NULL;
        vg_guest_child_sleep(vg_guest_now_ms() + LOOK_MS);
    }
    return 0;
}

/* Waits until the kernel has completely added the device, for up to half of the remaining time:
 * some kernels may never show it. */
static void
resume_wait_until_added(struct vg_guest_work *work, const struct vg_guest_device *device)
{
    const int64_t now_ms = vg_guest_now_ms(), until_ms = now_ms + (work->until_ms - now_ms) / 2;
    bool told = false;

    while (!vg_guest_device_is_added(device) && vg_guest_now_ms() < until_ms &&
           vg_guest_child_stop() == VG_GUEST_STOP_NONE) {
        if (!told) {
            json_object *more = json_object_new_object();
            json_object_object_add(more, "address", json_object_new_string(device->address));
            vg_guest_work_progress(work, "device", more);
        }
        told = true;
        vg_guest_child_sleep(vg_guest_now_ms() + ADDED_POLL_MS);
    }
}

/* Returns the driver that device i had when it was released, "" for none, or NULL if unknown. */
static const char *
resume_known_driver(const struct vg_guest_work *work, json_object *kept, size_t i)
{
    json_object *drivers = json_object_object_get(kept, "drivers");

    if (!drivers || json_object_array_length(drivers) != work->n_devices)
        return NULL;
    return json_object_get_string(json_object_array_get_idx(drivers, i));
}

/* Requests the kernel to search for a driver, and then to use the previous one. */
static int
resume_request_driver(struct vg_guest_work *work, struct vg_guest_device *device, const char *known)
{
    const char *root = work->config->root;
    vg_guest_auto char *probe = vg_guest_format("%s/sys/bus/pci/drivers_probe", root);
    vg_guest_auto char *bind =
        vg_guest_format("%s/sys/bus/pci/drivers/%s/bind", root, known ? known : "");
    int error = vg_guest_child_write(probe, device->address, work->until_ms);

    if (error >= 0 && vg_guest_device_wait(device, true, vg_guest_now_ms() + PROBED_MS))
        return 0;
    if (error >= 0 && known)
        error = vg_guest_child_write(bind, device->address, work->until_ms);
    /* If no previous driver is known, none is needed. */
    if ((error >= 0 && !known) ||
        (error == 0 && vg_guest_device_wait(device, true, work->until_ms)))
        return 0;
    if (error <= 0 && vg_guest_work_check(work, "driver") != 0)
        return -1;
    return vg_guest_work_fail(work, VG_GUEST_BIND_FAILED, "driver '%s' does not bind %s: %s", known,
                              device->address, strerror(error));
}

/* Waits until the device has its driver again. wait_ms is the time for the kernel to bind one
 * automatically. */
static int
resume_bind(struct vg_guest_work *work, struct vg_guest_device *device, const char *known,
            int64_t wait_ms)
{
    int64_t wait_until_ms = vg_guest_now_ms() + wait_ms;
    json_object *more = json_object_new_object();

    json_object_object_add(more, "address", json_object_new_string(device->address));
    vg_guest_work_progress(work, "driver", more);
    vg_guest_device_read_driver(device);
    if (known && !*known)
        return 0;
    if (vg_guest_device_wait(device, true,
                             wait_until_ms < work->until_ms ? wait_until_ms : work->until_ms))
        return 0;
    return resume_request_driver(work, device, known);
}

/* Calls the providers in reverse order. If one fails, or its programs do not answer, the others
 * still try: each except the last has three quarters of the remaining time, so that units and hooks
 * always have theirs. */
static int
resume_providers(struct vg_guest_work *work, json_object *kept, bool undo)
{
    json_object *states = json_object_object_get(kept, "providers");
    const int64_t until_ms = work->until_ms;
    size_t n = 0;

    while (vg_guest_providers[n])
        n++;
    while (n-- > 0) {
        json_object *state = NULL;
        bool asked =
            states && json_object_object_get_ex(states, vg_guest_providers[n]->name, &state);
        int64_t left_ms = until_ms - vg_guest_now_ms();
        work->until_ms = n == 0 || left_ms <= 0 ? until_ms : until_ms - left_ms / 4;
        if (asked || !undo)
            vg_guest_providers[n]->resume(work, state, undo);
    }
    work->until_ms = until_ms;
    return work->failure ? -1 : 0;
}

int
vg_guest_resume(struct vg_guest_work *work, bool *ret_begun)
{
    json_object *kept = work->order->kept;

    if (resume_wait_for_devices(work) != 0)
        return -1;
    if (work->order->already)
        return 0;
    *ret_begun = true;
    for (size_t i = 0; i < work->n_devices; i++) {
        resume_wait_until_added(work, &work->devices[i]);
        if (resume_bind(work, &work->devices[i], resume_known_driver(work, kept, i), DRIVER_MS) !=
            0)
            return -1;
    }
    return resume_providers(work, kept, false);
}

void
vg_guest_undo(struct vg_guest_work *work, json_object *kept)
{
    vg_guest_child_ignore_cancel();
    vg_guest_work_allow_undo(work);
    vg_guest_work_progress(work, "undo", NULL);
    if (work->stuck)
        vg_guest_work_fail(work, VG_GUEST_INTERNAL, "the kernel is still unbinding a driver");
    for (size_t i = 0; i < work->n_devices; i++) {
        struct vg_guest_device *device = &work->devices[i];
        if (*device->driver && !work->stuck)
            resume_bind(work, device, resume_known_driver(work, kept, i), 0);
    }
    resume_providers(work, kept, true);
}
