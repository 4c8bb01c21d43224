/* SPDX-License-Identifier: Apache-2.0
 *
 * Saves the program's state from its devices and restores it. No other thread may be inside the
 * gate.
 */
#ifndef VG_OPENCL_TRACK_EXTRACT_H
#define VG_OPENCL_TRACK_EXTRACT_H

#include "opencl/track/object.h"
#include "opencl/track/stream.h"

#define VG_CL_REASON 256

/* One save or one restore. */
struct vg_cl_switch {
    int64_t deadline_ns;            /* of CLOCK_MONOTONIC */
    bool (*is_aborted)(void *data); /* called between steps; may be NULL */
    void *data;
    const char *place;         /* the proxy where the program is to resume; NULL if not known yet */
    char reason[VG_CL_REASON]; /* why it failed */
    uint64_t n_bytes;          /* bytes of memory contents read or written */
    char steps[VG_CL_REASON];  /* the duration of each step, for the log */
    int64_t step_ns;           /* start of the current step; 0 before the first */
    const char *_Atomic last;  /* the step before that; NULL if none. Other threads may read it */
};

/* Records the name and duration of the step that has just ended. */
void vg_cl_step(struct vg_cl_switch *s, const char *what);

/* Records why S failed. Returns false. */
bool vg_cl_fail(struct vg_cl_switch *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns true if S must end because it was aborted or its deadline has passed, and records the
 * reason. */
bool vg_cl_is_over(struct vg_cl_switch *s);

/* Waits until all commands in all queues are done and their callbacks have returned. */
bool vg_cl_drain(struct vg_cl_switch *s);

/* Writes the state to WRITER and then releases the vendors' objects. If it fails, no object was
 * released. */
bool vg_cl_extract(struct vg_cl_switch *s, struct vg_cl_writer *writer);

/* Releases all existing vendors' objects. */
void vg_cl_release_all(void);

/* Creates the missing vendors' objects from the stream of SIZE bytes at BASE. */
bool vg_cl_inject(struct vg_cl_switch *s, const void *base, size_t size);

#endif
