/* SPDX-License-Identifier: Apache-2.0
 *
 * Who makes programs let go of a GPU and take it back: one row of the table for each way. Preparing
 * asks them in the order of the table, resuming and undoing in the opposite one.
 */
#ifndef VG_GUEST_PROVIDER_H
#define VG_GUEST_PROVIDER_H

#include <stdbool.h>

#include <json-c/json.h>

struct vg_guest_work;

struct vg_guest_provider {
    /* Its word in hello and status. */
    const char *name;
    /* 0, or -1 after vg_guest_work_fail(). What its resume has to know is in *ret_kept, also after
     * a failure; the caller puts it. */
    int (*prepare)(struct vg_guest_work *work, json_object **ret_kept);
    /* kept: what prepare had kept, or NULL if nothing is known of one. undo: what prepare did in
     * this same work, and nothing else, has to be undone. */
    int (*resume)(struct vg_guest_work *work, json_object *kept, bool undo);
    /* Adds members to what status says of it. */
    void (*status)(const struct vg_guest_work *work, json_object *about);
};

/* Ends with NULL. */
extern const struct vg_guest_provider *const vg_guest_providers[];

extern const struct vg_guest_provider vg_guest_provider_hooks;
extern const struct vg_guest_provider vg_guest_provider_cuda;

#endif
