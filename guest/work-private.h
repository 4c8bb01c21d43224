/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the parts of the work share: order, prepare, resume, look.
 */
#ifndef VG_GUEST_WORK_PRIVATE_H
#define VG_GUEST_WORK_PRIVATE_H

#include <stdbool.h>

#include <json-c/json.h>

#include "guest/holder.h"
#include "guest/work.h"
#include "guest/worker.h"

/* Finds the functions that the request names. A function that does not exist, if that is allowed,
 * has an empty dir. */
int vg_guest_work_find(struct vg_guest_work *work, bool may_be_gone);

/* Sends a message through the pipe. */
void vg_guest_work_report(const struct vg_guest_work *work, enum vg_guest_tag tag,
                          json_object *take_object);

/* Describes the devices of the work, including removed ones; the caller puts it. */
json_object *vg_guest_work_devices_json(const struct vg_guest_work *work);

/* Describe a device or a holder in the form of the messages; the caller puts it. */
json_object *vg_guest_device_json(const struct vg_guest_device *device);
json_object *vg_guest_holder_json(const struct vg_guest_holder *holder);

/* Prepares. Returns 0, or -1 with a failure. *ret_kept: the state that resuming needs, or NULL if
 * nothing was changed. */
int vg_guest_prepare(struct vg_guest_work *work, json_object **ret_kept);
/* Undoes the changes of a preparation. Failures are in work. */
void vg_guest_undo(struct vg_guest_work *work, json_object *kept);
/* Resumes. *ret_begun: whether something was done before a failure. */
int vg_guest_resume(struct vg_guest_work *work, bool *ret_begun);

#endif
