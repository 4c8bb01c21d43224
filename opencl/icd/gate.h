/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate through which every call of OpenCL goes. It stands open; while the program's state is
 * taken away or brought back it is closed, and calls wait in front of it.
 *
 * Passing costs a store and a load of the thread's own: whoever closes it makes the other threads'
 * stores visible by membarrier(2), and then looks at each thread. Where the kernel or a container
 * refuses membarrier(2), each thread does that itself, by a fence, which takes longer.
 */
#ifndef VG_OPENCL_ICD_GATE_H
#define VG_OPENCL_ICD_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include <stdatomic.h>

enum vg_cl_gate {
    VG_CL_GATE_OPEN,
    VG_CL_GATE_QUIET,    /* no new commands */
    VG_CL_GATE_DRAINING, /* what was begun is waited for; user events may be set */
    VG_CL_GATE_CLOSED,
    VG_CL_GATE_FENCED,  /* of a thread that looks at the gate itself, after a fence */
    VG_CL_GATE_UNKNOWN, /* of a thread that has not been here yet */
};

struct vg_cl_gate_thread {
    atomic_uint inside; /* how often: a call's callback may make others */
    atomic_uint state;  /* enum vg_cl_gate: the gate's, as far as this thread is told */
    struct vg_cl_gate_thread *next, **link;
};

extern _Thread_local struct vg_cl_gate_thread vg_cl_gate_self
    __attribute__((tls_model("initial-exec")));

void vg_cl_gate_enter_slowly(unsigned limit);

/* Enters, or else returns false: then vg_cl_gate_enter_slowly() is to be called. */
static inline bool
vg_cl_gate_try(unsigned limit)
{
    struct vg_cl_gate_thread *self = &vg_cl_gate_self;
    unsigned inside = atomic_load_explicit(&self->inside, memory_order_relaxed);

    atomic_store_explicit(&self->inside, inside + 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    /* What was made anew before it opened is seen. */
    return __builtin_expect(atomic_load_explicit(&self->state, memory_order_acquire) <= limit, 1);
}

static inline void
vg_cl_gate_enter_below(unsigned limit)
{
    if (!vg_cl_gate_try(limit))
        vg_cl_gate_enter_slowly(limit);
}

static inline void
vg_cl_gate_enter(void)
{
    vg_cl_gate_enter_below(VG_CL_GATE_QUIET);
}

/* For calls that put commands into queues. */
static inline void
vg_cl_gate_enter_command(void)
{
    vg_cl_gate_enter_below(VG_CL_GATE_OPEN);
}

/* For calls without which others that are inside would never end. */
static inline void
vg_cl_gate_enter_through(void)
{
    vg_cl_gate_enter_below(VG_CL_GATE_DRAINING);
}

static inline void
vg_cl_gate_leave(void)
{
    struct vg_cl_gate_thread *self = &vg_cl_gate_self;
    unsigned inside = atomic_load_explicit(&self->inside, memory_order_relaxed);

    atomic_store_explicit(&self->inside, inside - 1, memory_order_release);
}

/* Sets the gate's state for other threads than this one. Opening wakes those that wait, and does
 * not fail. False, with errno: membarrier(2) is refused now, and was not at first, as when the
 * program has put itself under a filter meanwhile. Threads may be inside then that
 * vg_cl_gate_inside() does not count: the gate has to be opened again. */
bool vg_cl_gate_set(enum vg_cl_gate state);

/* Counts the other threads that are inside, but for those that run the program's functions for the
 * vendor and those that the caller is told not to count. */
unsigned vg_cl_gate_inside(void);

/* Around a fork, which comes while nobody changes the gate. */
void vg_cl_gate_hold(void);
void vg_cl_gate_let_go(void);

/* In the child of a fork that was held: no other thread is there, and the gate is open. Returns
 * whether it was. */
bool vg_cl_gate_is_forked(void);

#endif
