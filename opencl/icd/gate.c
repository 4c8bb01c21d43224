/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/icd/gate.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/membarrier.h>

#include "opencl/track/callback.h"

_Thread_local struct vg_cl_gate_thread vg_cl_gate_self
    __attribute__((tls_model("initial-exec"))) = {.state = VG_CL_GATE_UNKNOWN};

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_opened = PTHREAD_COND_INITIALIZER;
static struct vg_cl_gate_thread *gate_threads;
static pthread_key_t gate_key;
static pthread_once_t gate_once = PTHREAD_ONCE_INIT;
static bool gate_has_barrier;
static atomic_uint gate_state; /* set under the lock; threads that need no fence have a copy */

/* Handles the end of a thread. */
static void
gate_forget(void *data)
{
    struct vg_cl_gate_thread *thread = data;

    pthread_mutex_lock(&gate_lock);
    *thread->link = thread->next;
    if (thread->next)
        thread->next->link = thread->link;
    pthread_mutex_unlock(&gate_lock);
    thread->state = VG_CL_GATE_UNKNOWN;
}

static void
gate_init(void)
{
    pthread_key_create(&gate_key, gate_forget);
    gate_has_barrier =
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void
vg_cl_gate_begin(void)
{
    pthread_once(&gate_once, gate_init);
}

static void
gate_get_known(struct vg_cl_gate_thread *self)
{
    vg_cl_gate_begin();
    pthread_setspecific(gate_key, self);
    pthread_mutex_lock(&gate_lock);
    self->next = gate_threads;
    self->link = &gate_threads;
    if (self->next)
        self->next->link = &self->next;
    gate_threads = self;
    self->state = gate_has_barrier ? gate_state : VG_CL_GATE_FENCED;
    pthread_mutex_unlock(&gate_lock);
}

void
vg_cl_gate_enter_slowly(unsigned limit)
{
    struct vg_cl_gate_thread *self = &vg_cl_gate_self;

    if (self->state == VG_CL_GATE_UNKNOWN)
        gate_get_known(self);
    if (vg_cl_in_callback || self->inside > 1)
        return;
    if (!gate_has_barrier) {
        /* Either this thread sees that the gate is closed, or the closing thread sees this
         * thread. */
        atomic_thread_fence(memory_order_seq_cst);
        if (gate_state <= limit)
            return;
    }
    pthread_mutex_lock(&gate_lock);
    while (gate_state > limit) {
        atomic_store(&self->inside, 0);
        pthread_cond_wait(&gate_opened, &gate_lock);
    }
    atomic_store(&self->inside, 1);
    pthread_mutex_unlock(&gate_lock);
}

bool
vg_cl_gate_set(enum vg_cl_gate state)
{
    vg_cl_gate_begin();
    pthread_mutex_lock(&gate_lock);
    gate_state = state;
    for (struct vg_cl_gate_thread *t = gate_threads; gate_has_barrier && t; t = t->next)
        atomic_store(&t->state, state);
    pthread_cond_broadcast(&gate_opened);
    pthread_mutex_unlock(&gate_lock);
    return state == VG_CL_GATE_OPEN || !gate_has_barrier ||
           syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

unsigned
vg_cl_gate_inside(void)
{
    unsigned n = 0;

    pthread_mutex_lock(&gate_lock);
    for (const struct vg_cl_gate_thread *thread = gate_threads; thread; thread = thread->next)
        if (thread != &vg_cl_gate_self && atomic_load(&thread->inside))
            n++;
    pthread_mutex_unlock(&gate_lock);
    return n;
}

void
vg_cl_gate_hold(void)
{
    pthread_mutex_lock(&gate_lock);
}

void
vg_cl_gate_let_go(void)
{
    pthread_mutex_unlock(&gate_lock);
}

bool
vg_cl_gate_is_forked(void)
{
    struct vg_cl_gate_thread *self = &vg_cl_gate_self;
    const bool was_open = gate_state == VG_CL_GATE_OPEN;

    gate_state = VG_CL_GATE_OPEN;
    gate_threads = NULL;
    if (self->state != VG_CL_GATE_UNKNOWN) {
        self->next = NULL;
        self->link = &gate_threads;
        gate_threads = self;
        self->state = gate_has_barrier ? VG_CL_GATE_OPEN : VG_CL_GATE_FENCED;
    }
    /* The waiting threads do not exist in the child. */
    pthread_cond_init(&gate_opened, NULL);
    pthread_mutex_unlock(&gate_lock);
    return was_open;
}
