/* SPDX-License-Identifier: Apache-2.0
 *
 * The files below /run that name the tracers of held processes, one for each process. A tracer
 * writes its file; any process of the agent can read it, even one that was started later. The file
 * of a tracer that has ended has no meaning.
 */
#ifndef VG_GUEST_HOLD_FILE_H
#define VG_GUEST_HOLD_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The directory of the files, whose names are the pids of the held processes. */
#define VG_GUEST_HOLD_DIR "/run/vgpu-guestd-hold"

struct vg_guest_hold {
    /* The process and its tracer, and their starts as in struct vg_guest_process. */
    pid_t pid, tracer;
    uint64_t start, tracer_start;
    /* The number of threads that are held now, and the total until now. */
    size_t now, total;
    /* The tracer has released all threads and will end soon. */
    bool ended;
};

/* Writes the file atomically. root is as in vg_guest_devices_read(). Returns 0, or an errno. */
int vg_guest_hold_write(const char *root, const struct vg_guest_hold *hold);

/* Reads the file of the process pid. Returns 0, or -1 if it does not exist. */
int vg_guest_hold_read(const char *root, pid_t pid, struct vg_guest_hold *ret);

/* Removes the files of tracers that have ended. No tracer may be starting concurrently. */
void vg_guest_holds_sweep(const char *root);

/* Returns whether the tracer still exists. */
bool vg_guest_hold_lives(const struct vg_guest_hold *hold);

/* Calls `found` for each file whose tracer still exists. */
void vg_guest_holds_each(const char *root,
                         void (*found)(void *user, const struct vg_guest_hold *hold), void *user);

#endif
