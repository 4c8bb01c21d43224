/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/client/copier.h"

#include <signal.h>
#include <string.h>

#include <sched.h>

#include "opencl/wire/link.h"

#define COPIER_CHUNK ((size_t)64 << 10)  /* bytes */
#define COPIER_FROM  ((size_t)256 << 10) /* bytes of the smallest copy with two threads */
#define COPIER_MOST                                                                                \
 ((size_t)1 << 40)        /* maximum in bytes; the number of chunks fits into half of claim */
#define COPIER_SPINS 2000 /* number of spins before the thread sleeps, or the other one yields */

#define COPIER_NUMBER(claim)   ((claim) >> 32)
#define COPIER_CHUNK_OF(claim) ((claim)&UINT32_MAX)

static void
copier_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static unsigned
copier_chunks(size_t size)
{
    return (unsigned)((size + COPIER_CHUNK - 1) / COPIER_CHUNK);
}

/* Returns whether a chunk is unclaimed. */
static bool
copier_has_work(struct client_copier *copier)
{
    return COPIER_CHUNK_OF(atomic_load(&copier->claim)) <
           copier_chunks(atomic_load_explicit(&copier->size, memory_order_relaxed));
}

/* Copies one chunk. Returns false if none is left. */
static bool
copier_do(struct client_copier *copier)
{
    uint64_t claim = atomic_load_explicit(&copier->claim, memory_order_acquire);
    unsigned char *to = atomic_load_explicit(&copier->to, memory_order_relaxed);
    const unsigned char *from = atomic_load_explicit(&copier->from, memory_order_relaxed);
    size_t size = atomic_load_explicit(&copier->size, memory_order_relaxed);
    const size_t at = COPIER_CHUNK_OF(claim) * COPIER_CHUNK;

    if (at >= size)
        return false;
    /* If this is another copy by now, the values belong to neither. */
    if (!atomic_compare_exchange_strong(&copier->claim, &claim, claim + 1))
        return true;
    memcpy(to + at, from + at, size - at < COPIER_CHUNK ? size - at : COPIER_CHUNK);
    atomic_fetch_add_explicit(&copier->done, 1, memory_order_release);
    return true;
}

static void
copier_sleep(struct client_copier *copier)
{
    pthread_mutex_lock(&copier->lock);
    atomic_store(&copier->is_asleep, true);
    while (!atomic_load(&copier->is_closing) && !copier_has_work(copier))
        pthread_cond_wait(&copier->wakes, &copier->lock);
    atomic_store(&copier->is_asleep, false);
    pthread_mutex_unlock(&copier->lock);
}

static void *
copier_run(void *data)
{
    struct client_copier *copier = data;
    unsigned idle = 0;

    while (!atomic_load_explicit(&copier->is_closing, memory_order_relaxed)) {
        if (copier_do(copier)) {
            idle = 0;
        } else if (++idle < COPIER_SPINS) {
            copier_pause();
        } else {
            copier_sleep(copier);
            idle = 0;
        }
    }
    return NULL;
}

static void
copier_wake(struct client_copier *copier)
{
    if (!atomic_load(&copier->is_asleep))
        return;
    pthread_mutex_lock(&copier->lock);
    pthread_cond_signal(&copier->wakes);
    pthread_mutex_unlock(&copier->lock);
}

static bool
copier_need_thread(struct client_copier *copier)
{
    sigset_t all, before;

    if (copier->has_thread || copier->is_refused)
        return copier->has_thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    copier->has_thread = pthread_create(&copier->thread, NULL, copier_run, copier) == 0;
    copier->is_refused = !copier->has_thread;
    if (copier->has_thread)
        pthread_setname_np(copier->thread, "vgpu-copy");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return copier->has_thread;
}

static void
copier_init(struct client_copier *copier, bool is_refused)
{
    *copier = (struct client_copier){.is_refused = is_refused};
    pthread_mutex_init(&copier->busy, NULL);
    pthread_mutex_init(&copier->lock, NULL);
    pthread_cond_init(&copier->wakes, NULL);
}

void
vg_wire_copier_begin(struct client_copier *copier)
{
    /* With few processors, the proxy's side needs all of them. */
    copier_init(copier, vg_wire_link_processors() < 4);
}

void
vg_wire_copier_copy(struct client_copier *copier, void *to, const void *from, size_t size)
{
    const unsigned chunks = copier_chunks(size);

    if (size < COPIER_FROM || size > COPIER_MOST || pthread_mutex_trylock(&copier->busy) != 0) {
        memcpy(to, from, size);
        return;
    }
    if (!copier_need_thread(copier)) {
        pthread_mutex_unlock(&copier->busy);
        memcpy(to, from, size);
        return;
    }
    uint64_t number = COPIER_NUMBER(atomic_load(&copier->claim)) + 1;
    /* No chunk is left until all members describe this copy. */
    atomic_store(&copier->claim, number << 32 | UINT32_MAX);
    atomic_store_explicit(&copier->to, to, memory_order_relaxed);
    atomic_store_explicit(&copier->from, from, memory_order_relaxed);
    atomic_store_explicit(&copier->size, size, memory_order_relaxed);
    atomic_store_explicit(&copier->done, 0, memory_order_relaxed);
    atomic_store(&copier->claim, number << 32);
    copier_wake(copier);
    while (copier_do(copier))
        continue;
    for (unsigned spins = 0; atomic_load_explicit(&copier->done, memory_order_acquire) < chunks;
         spins++) {
        if (spins < COPIER_SPINS)
            copier_pause();
        else
            sched_yield();
    }
    pthread_mutex_unlock(&copier->busy);
}

void
vg_wire_copier_end(struct client_copier *copier)
{
    if (copier->has_thread) {
        pthread_mutex_lock(&copier->lock);
        atomic_store(&copier->is_closing, true);
        pthread_cond_signal(&copier->wakes);
        pthread_mutex_unlock(&copier->lock);
        pthread_join(copier->thread, NULL);
    }
    pthread_cond_destroy(&copier->wakes);
    pthread_mutex_destroy(&copier->lock);
    pthread_mutex_destroy(&copier->busy);
}

void
vg_wire_copier_is_forked(struct client_copier *copier)
{
    copier_init(copier, true);
}
