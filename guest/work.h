/* SPDX-License-Identifier: Apache-2.0
 *
 * Preparing, resuming, looking: what one process of the agent does for one request. It tells
 * through a pipe what to send to the host (guest/worker.h).
 */
#ifndef VG_GUEST_WORK_H
#define VG_GUEST_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>

#include "guest/conf.h"
#include "guest/device.h"
#include "guest/session.h"

/* The time for undoing what was begun, after the deadline or before it. */
#define VG_GUEST_UNDO_MS 30000
/* How many holders an error or a progress lists, and a status for each GPU. */
#define VG_GUEST_HOLDERS_MAX        32
#define VG_GUEST_STATUS_HOLDERS_MAX 8
#define VG_GUEST_STATUS_NODES_MAX   16

struct vg_guest_work {
    const struct vg_guest_config *config;
    const struct vg_guest_order *order;
    /* The pipe to the agent. */
    int out;
    int64_t began_ms, until_ms;
    /* The functions that were found, in the order of the request. */
    size_t n_devices;
    struct vg_guest_device devices[VG_GUEST_DEVICES_MAX];
    /* The addresses of those, separated by blanks. */
    char addresses[VG_GUEST_DEVICES_MAX * VG_GUEST_ADDRESS_MAX];
    /* Whether the kernel is still unbinding one, which nothing can end. */
    bool stuck;
    /* The members of the first error's message, or NULL. */
    json_object *failure;
    /* The hooks that ran: a list of {name, ms, exit}. */
    json_object *hooks;
    /* Further members of the answer, from providers. */
    json_object *details;
};

/* Keeps a failure, if it is the first. Returns -1. */
int vg_guest_work_fail(struct vg_guest_work *work, enum vg_guest_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds to the text of the failure. */
void vg_guest_work_add(struct vg_guest_work *work, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds to the member `programs` of a message, which it makes if it is not there, this many programs
 * with so much GPU memory. Returns its list, for those that are told one by one. */
json_object *vg_guest_programs_add(json_object *message, int64_t n, int64_t bytes);

/* Returns -1 with a failure if the time is over or the work is cancelled, else 0. what: the step at
 * which that was found. */
int vg_guest_work_check(struct vg_guest_work *work, const char *what);

/* Tells the host which step begins. more: further members, or NULL; it is freed. */
void vg_guest_work_progress(struct vg_guest_work *work, const char *step, json_object *more);

/* Carry out an order, in a process of its own; its lines go to out. */
void vg_guest_work_run(const struct vg_guest_config *config, const struct vg_guest_order *order,
                       int out);
void vg_guest_look_run(const struct vg_guest_config *config, const struct vg_guest_order *order,
                       int out);

/* Describes the GPUs of an order, or all of them, and who holds them. The caller puts it. */
json_object *vg_guest_look_json(const struct vg_guest_config *config,
                                const struct vg_guest_order *order);

#endif
