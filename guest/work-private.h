/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of a work share: work (what is told), prepare, resume, look.
 */
#ifndef VG_GUEST_WORK_PRIVATE_H
#define VG_GUEST_WORK_PRIVATE_H

#include <stdbool.h>

#include <json-c/json.h>

#include "guest/holder.h"
#include "guest/work.h"

/* Finds the functions that the request means. One that may be gone and is has an empty dir. */
int vg_guest_work_find(struct vg_guest_work *work, bool may_be_gone);

/* As messages have them; the caller puts it. */
json_object *vg_guest_device_json(const struct vg_guest_device *device);
json_object *vg_guest_holder_json(const struct vg_guest_holder *holder);

/* 0, or -1 and the failure. *ret_kept: what resuming has to know; NULL if nothing was begun. */
int vg_guest_prepare(struct vg_guest_work *work, json_object **ret_kept);
/* Takes back what prepare began. Failures are in work. */
void vg_guest_undo(struct vg_guest_work *work, json_object *kept);
/* *ret_begun: whether something was done before it failed. */
int vg_guest_resume(struct vg_guest_work *work, bool *ret_begun);

#endif
