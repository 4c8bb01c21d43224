/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that can be monitored and stopped. All threads of the tree are created here. A thread
 * calls vg_thread_beat() at least every few seconds; its supervisor checks the time since the last
 * beat. Threads block all signals, which only the main thread handles.
 */
#ifndef VG_BASE_THREAD_H
#define VG_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/* The maximum length of a thread's name in bytes, without the NUL, as in the kernel. */
#define VG_THREAD_NAME_MAX 15

typedef struct vg_own_thread vg_thread; /* model/topology.h has the threads of other programs */

/* Does the thread's work. It must return when vg_thread_stopping() is true, or when its work is
 * done. */
typedef void vg_thread_run(vg_thread *self, void *arg);

/* Starts a thread. If wake is not NULL, the thread that stops this one calls it, to end a wait that
 * vg_thread does not know about. arg is borrowed. Returns NULL and sets *err if no thread can be
 * created. */
vg_thread *vg_thread_new(const char *name, vg_thread_run *run, void (*wake)(void *arg), void *arg,
                         GError **err);

/* For the thread itself. sleep_until takes a CLOCK_MONOTONIC time, and beats in the meantime. It
 * returns false if the thread should stop. */
bool vg_thread_stopping(vg_thread *self);
void vg_thread_beat(vg_thread *self);
bool vg_thread_sleep_until(vg_thread *self, int64_t monotonic_ns);

/* For any thread. */
const char *vg_thread_name(const vg_thread *thread);
bool vg_thread_ended(const vg_thread *thread);
int64_t
/* the time since the last beat; 0 if the thread has ended */
vg_thread_silence_ns(const vg_thread *thread);

/* For the owner. stop requests that the thread ends, and does not wait; join stops and waits; free
 * joins. NULL is fine. */
void vg_thread_stop(vg_thread *thread);
void vg_thread_join(vg_thread *thread);
void vg_thread_free(vg_thread *thread);
/* Abandons the thread instead of freeing it. It frees its memory when it ends. */
void vg_thread_leave(vg_thread *thread);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_thread, vg_thread_free)

/* Initialises a condition whose timed waits use CLOCK_MONOTONIC. */
void vg_cond_init(pthread_cond_t *cond);

/* Waits until the condition is signalled or the time is reached. Returns false in the latter case.
 */
bool vg_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t monotonic_ns);

/* Locks a mutex for the rest of the block. */
static inline pthread_mutex_t *
vg_lock_scope_enter(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    return mutex;
}

static inline void
vg_lock_scope_leave(pthread_mutex_t **mutex)
{
    pthread_mutex_unlock(*mutex);
}

#define VG_LOCK_PASTE_(a, b) a##b
#define VG_LOCK_NAME_(line)  VG_LOCK_PASTE_(vg_lock_, line)
#define VG_LOCK_SCOPE(mutex)                                                                       \
 __attribute__((cleanup(vg_lock_scope_leave), unused)) pthread_mutex_t *VG_LOCK_NAME_(__LINE__) =  \
     vg_lock_scope_enter(mutex)

#endif
