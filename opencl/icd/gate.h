/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate through which every OpenCL call passes. It is normally open. While the program's state
 * is saved or restored it is closed, and calls wait.
 *
 * Passing costs a store and a load of thread-local memory. The thread that closes the gate calls
 * membarrier(2) to make the other threads' stores visible, and then checks each thread. If the
 * kernel or a container refuses membarrier(2), each thread executes a fence instead, which is
 * slower.
 */
#ifndef VG_OPENCL_ICD_GATE_H
#define VG_OPENCL_ICD_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include <stdatomic.h>

enum vg_cl_gate {
    VG_CL_GATE_OPEN,
    VG_CL_GATE_QUIET,    /* no new commands */
    VG_CL_GATE_DRAINING, /* waiting for commands in flight; user events may still be set */
    VG_CL_GATE_CLOSED,
    VG_CL_GATE_FENCED,  /* state of a thread that checks the gate itself, after a fence */
    VG_CL_GATE_UNKNOWN, /* state of a thread that has made no call yet */
};

struct vg_cl_gate_thread {
    atomic_uint inside; /* nesting depth: a call's callback may make other calls */
    atomic_uint state;  /* enum vg_cl_gate: the gate's state as this thread sees it */
    struct vg_cl_gate_thread *next, **link;
};

extern _Thread_local struct vg_cl_gate_thread vg_cl_gate_self
    __attribute__((tls_model("initial-exec")));

/* Registers for membarrier(2) now. The kernel does that immediately for a process with one thread,
 * but may need 20 ms if there are more. Otherwise the first call registers. */
void vg_cl_gate_begin(void);

void vg_cl_gate_enter_slowly(unsigned limit);

/* Enters and returns true. If it returns false, call vg_cl_gate_enter_slowly(). */
static inline bool
vg_cl_gate_try(unsigned limit)
{
    struct vg_cl_gate_thread *self = &vg_cl_gate_self;
    unsigned inside = atomic_load_explicit(&self->inside, memory_order_relaxed);

    atomic_store_explicit(&self->inside, inside + 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    /* Acquire: objects that were re-created before the gate opened are visible. */
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

/* For calls that enqueue commands. */
static inline void
vg_cl_gate_enter_command(void)
{
    vg_cl_gate_enter_below(VG_CL_GATE_OPEN);
}

/* For calls that unblock other calls which are already inside. */
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

/* Sets the gate's state for all other threads. Opening wakes the waiting threads and cannot fail.
 * Returns false with errno if membarrier(2), which worked at the start, is now refused, for example
 * because the program has installed a seccomp filter. Threads may then be inside that
 * vg_cl_gate_inside() misses: the caller must reopen the gate. */
bool vg_cl_gate_set(enum vg_cl_gate state);

/* Returns the number of other threads inside, except those that run the program's callbacks for
 * the vendor. */
unsigned vg_cl_gate_inside(void);

/* Called before and after a fork, so that no thread changes the gate during it. */
void vg_cl_gate_hold(void);
void vg_cl_gate_let_go(void);

/* Called in the child after vg_cl_gate_hold(): no other thread exists, and the gate is opened.
 * Returns whether it was open. */
bool vg_cl_gate_is_forked(void);

#endif
