/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes the state of a program away from its devices, and puts it back. While either runs, no other
 * thread is inside of the gate.
 */
#ifndef VG_OPENCL_TRACK_EXTRACT_H
#define VG_OPENCL_TRACK_EXTRACT_H

#include "opencl/track/object.h"
#include "opencl/track/stream.h"

#define VG_CL_REASON 256

/* One stop, or one return. */
struct vg_cl_switch {
    int64_t deadline_ns;            /* of CLOCK_MONOTONIC */
    bool (*is_aborted)(void *data); /* asked between steps; may be NULL */
    void *data;
    char reason[VG_CL_REASON]; /* why it failed */
    uint64_t n_bytes;          /* of memory that was read or written */
    char steps[VG_CL_REASON];  /* what took how long, for the log */
    int64_t step_ns;           /* when the step began that is under way; 0: none has */
    const char
        *_Atomic last; /* what had ended when it began; read by other threads; NULL: nothing */
};

/* Notes that the step under way has ended: what it was, and how long it took. */
void vg_cl_step(struct vg_cl_switch *s, const char *what);

/* Notes why S failed. Returns false. */
bool vg_cl_fail(struct vg_cl_switch *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns true if S is to end: it was aborted or its deadline is over, which it notes. */
bool vg_cl_is_over(struct vg_cl_switch *s);

/* Waits until all commands of all queues are done and the program's functions that they call have
 * run. */
bool vg_cl_drain(struct vg_cl_switch *s);

/* Writes all into WRITER, and then releases the vendors' objects. If it fails, nothing was
 * released. */
bool vg_cl_extract(struct vg_cl_switch *s, struct vg_cl_writer *writer);

/* Releases the vendors' objects, as many as there are. */
void vg_cl_release_all(void);

/* Makes the vendors' objects that are not there, from the stream of SIZE bytes at BASE. */
bool vg_cl_inject(struct vg_cl_switch *s, const void *base, size_t size);

#endif
