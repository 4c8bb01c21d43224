/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/object.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <sched.h>

#define SLOTS_MAX (UINT64_C(1) << 24)

uintptr_t vg_cl_slots;
_Atomic uint64_t vg_cl_slots_n;

static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t details_lock = PTHREAD_MUTEX_INITIALIZER;
static struct vg_cl_object *slots_free;
static uint64_t last_id;
static const cl_icd_dispatch *object_dispatch;
static const struct vg_cl_end *object_ends;

static struct vg_cl_object *
object_slot(uint64_t number)
{
    return (struct vg_cl_object *)(vg_cl_slots + number * VG_CL_SLOT);
}

/* Reserves only address space: a page uses memory when it is first written to. */
static bool
object_reserve(void)
{
    void *range = mmap(NULL, SLOTS_MAX * VG_CL_SLOT, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (range == MAP_FAILED)
        return false;
    vg_cl_slots = (uintptr_t)range;
    return true;
}

void
vg_cl_objects_begin(const cl_icd_dispatch *dispatch, const struct vg_cl_end *ends)
{
    object_dispatch = dispatch;
    object_ends = ends;
}

struct vg_cl_object *
vg_cl_object_new(enum vg_cl_type type, struct vg_cl_track *track, struct vg_cl_object *context,
                 void *real, cl_int *error)
{
    struct vg_cl_object *object = NULL;

    pthread_mutex_lock(&slots_lock);
    if (slots_free) {
        object = slots_free;
        slots_free = object->next_free;
    } else if ((vg_cl_slots || object_reserve()) && vg_cl_slots_n < SLOTS_MAX) {
        object = object_slot(vg_cl_slots_n);
        atomic_fetch_add(&vg_cl_slots_n, 1);
    }
    uint64_t id = ++last_id;
    pthread_mutex_unlock(&slots_lock);
    if (!object) {
        vg_cl_set_error(error, CL_OUT_OF_HOST_MEMORY);
        return NULL;
    }
    memset(object, 0, sizeof *object);
    object->dispatch = object_dispatch;
    object->id = id;
    object->real = real;
    object->track = track;
    object->context = vg_cl_use(context);
    atomic_store_explicit(&object->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&object->uses, 1, memory_order_relaxed);
    object->type = type;
    vg_cl_set_error(error, CL_SUCCESS);
    return object;
}

struct vg_cl_object *
vg_cl_object_next(const struct vg_cl_object *previous)
{
    uint64_t number = previous ? ((uintptr_t)previous - vg_cl_slots) / VG_CL_SLOT + 1 : 0;

    for (; number < vg_cl_slots_n; number++) {
        struct vg_cl_object *object = object_slot(number);
        if (object->type != VG_CL_NONE && !(object->track && object->track->is_severed))
            return object;
    }
    return NULL;
}

uint64_t
vg_cl_objects_last(void)
{
    return last_id;
}

void
vg_cl_object_drop(struct vg_cl_object *object)
{
    const cl_icd_dispatch *cl = object->track->cl;
    void *real = object->real;

    object->real = NULL;
    if (!real || !cl)
        return;
    switch ((enum vg_cl_type)object->type) {
    case VG_CL_DEVICE:
        if (object->device.parent)
            cl->clReleaseDevice(real);
        break;
    case VG_CL_CONTEXT:
        cl->clReleaseContext(real);
        break;
    case VG_CL_QUEUE:
        cl->clReleaseCommandQueue(real);
        break;
    case VG_CL_MEM:
        cl->clReleaseMemObject(real);
        break;
    case VG_CL_SAMPLER:
        cl->clReleaseSampler(real);
        break;
    case VG_CL_PROGRAM:
        cl->clReleaseProgram(real);
        break;
    case VG_CL_KERNEL:
        cl->clReleaseKernel(real);
        break;
    case VG_CL_EVENT:
        cl->clReleaseEvent(real);
        break;
    case VG_CL_NONE:
    case VG_CL_PLATFORM:
        break;
    }
}

void
vg_cl_unuse(struct vg_cl_object *object)
{
    if (!object || atomic_fetch_sub_explicit(&object->uses, 1, memory_order_acq_rel) != 1)
        return;
    const struct vg_cl_end *end = &object_ends[object->type];
    if (end->leave)
        end->leave(object);
    vg_cl_object_drop(object);
    if (end->free)
        end->free(object);
    struct vg_cl_object *context = object->context;
    pthread_mutex_lock(&slots_lock);
    object->type = VG_CL_NONE;
    object->next_free = slots_free;
    slots_free = object;
    pthread_mutex_unlock(&slots_lock);
    vg_cl_unuse(context);
}

cl_int
vg_cl_retain(struct vg_cl_object *object, cl_int invalid)
{
    if (!object)
        return invalid;
    vg_cl_use(object);
    atomic_fetch_add_explicit(&object->refs, 1, memory_order_relaxed);
    return CL_SUCCESS;
}

cl_int
vg_cl_release(struct vg_cl_object *object, cl_int invalid)
{
    /* An object that only other objects still use no longer belongs to the program. */
    if (!object || atomic_load_explicit(&object->refs, memory_order_relaxed) == 0)
        return invalid;
    atomic_fetch_sub_explicit(&object->refs, 1, memory_order_relaxed);
    vg_cl_unuse(object);
    return CL_SUCCESS;
}

void
vg_cl_lock(void)
{
    pthread_mutex_lock(&details_lock);
}

void
vg_cl_unlock(void)
{
    pthread_mutex_unlock(&details_lock);
}

void
vg_cl_objects_hold(void)
{
    pthread_mutex_lock(&details_lock);
    /* Other threads may take them in the other order. */
    while (pthread_mutex_trylock(&slots_lock) != 0) {
        pthread_mutex_unlock(&details_lock);
        sched_yield();
        pthread_mutex_lock(&details_lock);
    }
}

void
vg_cl_objects_let_go(void)
{
    pthread_mutex_unlock(&slots_lock);
    pthread_mutex_unlock(&details_lock);
}

void *
vg_cl_copy(const void *from, size_t n, size_t size)
{
    void *copy = from && n ? calloc(n, size) : NULL;

    if (copy)
        memcpy(copy, from, n * size);
    return copy;
}

cl_uint
vg_cl_count_pairs(const intptr_t *pairs)
{
    cl_uint n = 0;

    if (!pairs)
        return 0;
    while (pairs[n] != 0)
        n += 2;
    return n + 1;
}
