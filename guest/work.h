/* SPDX-License-Identifier: Apache-2.0
 *
 * Preparing, resuming and querying: the work of one process of the agent for one request. It sends
 * the messages for the host through a pipe (guest/worker.h).
 */
#ifndef VG_GUEST_WORK_H
#define VG_GUEST_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>

#include "guest/conf.h"
#include "guest/device.h"
#include "guest/session.h"

/* The time for undoing unfinished work, before or after the deadline, excluding the time to copy
 * GPU memory (vg_guest_copy_ms()). */
#define VG_GUEST_UNDO_MS 30000
/* The maximum number of holders that an error or a progress lists, and that a status lists for each
 * GPU. */
#define VG_GUEST_HOLDERS_MAX        32
#define VG_GUEST_STATUS_HOLDERS_MAX 8
#define VG_GUEST_STATUS_NODES_MAX   16

/* The maximum size of a failure's message. A host reads 1023 bytes of it, an older one 511. */
#define VG_GUEST_FAILURE_MAX 1024

struct vg_guest_work {
    const struct vg_guest_config *config;
    const struct vg_guest_order *order;
    /* The pipe to the agent, or -1 without an agent, if a user gives the orders. */
    int out;
    int64_t began_ms, until_ms;
    /* The functions that were found, in the order of the request. */
    size_t n_devices;
    struct vg_guest_device devices[VG_GUEST_DEVICES_MAX];
    /* The addresses of these functions, separated by blanks. */
    char addresses[VG_GUEST_DEVICES_MAX * VG_GUEST_ADDRESS_MAX];
    /* The kernel is still unbinding a device, and nothing can end that. */
    bool stuck;
    /* The members of the first error's message, or NULL. */
    json_object *failure;
    /* The hooks that ran: a list of {name, ms, exit}. */
    json_object *hooks;
    /* Further members of the answer, from providers. */
    json_object *details;
};

/* Stores a failure, if it is the first. Returns -1. */
int vg_guest_work_fail(struct vg_guest_work *work, enum vg_guest_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds to the text of the failure. */
void vg_guest_work_add(struct vg_guest_work *work, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A provider's previous additions to the member `programs` of a message. */
struct vg_guest_reported {
    json_object *message;
    int64_t n, bytes;
};

/* Adds a provider's number of programs and their GPU memory to the member `programs` of a message,
 * creating it if necessary. Returns its list, for programs that are described individually. `told`
 * has what this replaces if the provider has added to this message before; may be NULL. */
json_object *vg_guest_programs_add(json_object *message, const char *by, int64_t n, int64_t bytes,
                                   struct vg_guest_reported *told);

/* Returns the time allowed for copying this much GPU memory in one direction, at 0.5 GiB/s.
 * Drivers copy 1 to 8 GiB/s. A program with many small allocations reached 0.3, which the rest of
 * the deadline covers. The host allows the same (vg_guest_allowed_ns() of model/migration.h). */
int64_t vg_guest_copy_ms(int64_t bytes);

/* Extends the deadline of a manual command by the time for copying this much GPU memory in one
 * direction. A host includes that in the deadline of its orders. */
void vg_guest_work_allow_copy(struct vg_guest_work *work, int64_t bytes);

/* Sets the deadline for undoing: programs that were requested to stop may still be copied to the
 * guest's memory, and must then be copied back. Reports this to the agent, which abandons the
 * process only after that. */
void vg_guest_work_allow_undo(struct vg_guest_work *work);

/* Returns the guest's MemAvailable in bytes, or -1. */
int64_t vg_guest_free_memory(const char *root);

/* Returns 0, or -1 with a failure if the deadline has passed or the work is cancelled. `what` names
 * the step that was interrupted. */
int vg_guest_work_check(struct vg_guest_work *work, const char *what);

/* Reports a new step to the host. more has further members, or is NULL; it is freed. */
void vg_guest_work_progress(struct vg_guest_work *work, const char *step, json_object *more);

/* Carry out an order, in a separate process; its lines are written to out. */
void vg_guest_work_run(const struct vg_guest_config *config, const struct vg_guest_order *order,
                       int out);
void vg_guest_look_run(const struct vg_guest_config *config, const struct vg_guest_order *order,
                       int out);

/* Describes the GPUs of an order, or all of them, and their holders. The caller puts it. */
json_object *vg_guest_look_json(const struct vg_guest_config *config,
                                const struct vg_guest_order *order);

#endif
