/* SPDX-License-Identifier: Apache-2.0
 *
 * Providers make programs release a GPU and resume its use. The table has a row for each method. To
 * prepare, they are called in the table's order; to resume or undo, in reverse order.
 */
#ifndef VG_GUEST_PROVIDER_H
#define VG_GUEST_PROVIDER_H

#include <stdbool.h>

#include <json-c/json.h>

struct vg_guest_config;
struct vg_guest_work;

#define VG_GUEST_PROVIDER_LOOK_MS 1000

struct vg_guest_provider {
    /* The name in hello and status. */
    const char *name;
    /* These run in the agent, for as long as it runs; all may be NULL. load returns a cookie for
     * the others, or NULL. look is called every VG_GUEST_PROVIDER_LOOK_MS, and after SIGUSR2.
     * ready is called when the descriptor returned by fd is readable. None may block. Work is done
     * in other processes, which start as copies of the agent, without its files. */
    void *(*load)(const struct vg_guest_config *config);
    void (*look)(void *cookie);
    int (*fd)(void *cookie);
    void (*ready)(void *cookie);
    void (*unload)(void *cookie);
    /* Returns 0, or -1 after vg_guest_work_fail(). *ret_kept: the state that its resume requires,
     * even after a failure; the caller releases it. */
    int (*prepare)(struct vg_guest_work *work, json_object **ret_kept);
    /* kept: the state from prepare, or NULL if none is known. undo: undo only what prepare did in
     * this same work. */
    int (*resume)(struct vg_guest_work *work, json_object *kept, bool undo);
    /* Adds members to its part of a status. */
    void (*status)(const struct vg_guest_work *work, json_object *about);
};

/* The table, which ends with NULL. */
extern const struct vg_guest_provider *const vg_guest_providers[];
#define VG_GUEST_PROVIDERS_MAX 8

extern const struct vg_guest_provider vg_guest_provider_hooks;
extern const struct vg_guest_provider vg_guest_provider_units;
extern const struct vg_guest_provider vg_guest_provider_opencl;
extern const struct vg_guest_provider vg_guest_provider_cuda;

#endif
