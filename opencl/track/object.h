/* SPDX-License-Identifier: Apache-2.0
 *
 * The objects of OpenCL that a program has: what it holds instead of the vendor's handles, each
 * with what re-creates it.
 *
 * An object's address is the program's handle and never changes, also when the vendor's object
 * behind it (`real`) is let go and made again. Objects lie in one range of addresses and in slots
 * of one size that are used again but never returned: whether a pointer is one of them is a
 * comparison, and a pointer that is kept beside an object's id can be checked after the object is
 * gone.
 *
 * Two counts: `refs`, the program's, which it can ask for; and `uses`, which besides has one for
 * each object that needs this one. The vendor's object is released with the last use.
 *
 * All functions may be called by any thread, inside of the gate (icd/gate.h). What the standard
 * leaves to the program, such as two threads that set arguments of one kernel, is not locked.
 */
#ifndef VG_OPENCL_TRACK_OBJECT_H
#define VG_OPENCL_TRACK_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include <stdatomic.h>

#include "opencl/base/cl.h"

typedef void(CL_CALLBACK *vg_cl_context_notify)(const char *, const void *, size_t, void *);
typedef void(CL_CALLBACK *vg_cl_context_destructor)(cl_context, void *);
typedef void(CL_CALLBACK *vg_cl_program_notify)(cl_program, void *);
typedef void(CL_CALLBACK *vg_cl_mem_notify)(cl_mem, void *);
typedef void(CL_CALLBACK *vg_cl_event_notify)(cl_event, cl_int, void *);
typedef void(CL_CALLBACK *vg_cl_native_kernel)(void *);
typedef void(CL_CALLBACK *vg_cl_svm_free_notify)(cl_command_queue, cl_uint, void **, void *);

enum vg_cl_type {
    VG_CL_NONE,
    VG_CL_PLATFORM,
    VG_CL_DEVICE,
    VG_CL_CONTEXT,
    VG_CL_QUEUE,
    VG_CL_MEM,
    VG_CL_SAMPLER,
    VG_CL_PROGRAM,
    VG_CL_KERNEL,
    VG_CL_EVENT,
};

#define VG_CL_TYPES (VG_CL_EVENT + 1)

struct vg_cl_object;
struct vg_cl_limits; /* limits.h */

/* Whether it can be seen that an argument of a kernel is a number where the compiler does not tell
 * it. */
enum vg_cl_numbers {
    VG_CL_NUMBERS_UNKNOWN,
    VG_CL_NUMBERS_SEEN,
    VG_CL_NUMBERS_UNSEEN,
};

/* The state of a program with one vendor's platform. */
struct vg_cl_track {
    const cl_icd_dispatch *cl; /* the vendor's functions; NULL while they are let go */
    struct vg_cl_object *platform;
    char name[128];                /* of the platform, as the vendor says it */
    struct vg_cl_object **devices; /* the platform's own, not parts of them */
    struct vg_cl_limits *limits;   /* of each of them when they were first seen */
    cl_uint n_devices;
    atomic_uint numbers; /* enum vg_cl_numbers */
    bool is_other;       /* the devices are not those of which binaries were made */
    bool is_remote;      /* the vendor is a proxy */
    atomic_uint tells;   /* enum vg_cl_tells */
    bool as_gpu;         /* devices say that they are GPUs, for programs that take nothing else */
    /* In a process that the program forked: the track of the program's objects, or NULL. */
    struct vg_cl_track *severed;
    bool is_severed; /* this is such a track: its objects do nothing, and are not carried */
};

struct vg_cl_device {
    struct vg_cl_object *parent; /* of a part of a device; else NULL */
    intptr_t *partition;         /* how the parent was divided, ended by 0; owned */
    cl_uint index;               /* among the platform's devices, or among the parts */
};

struct vg_cl_context {
    struct vg_cl_object **devices; /* owned; each is in use */
    cl_uint n_devices;
    cl_uint n_properties;              /* with the 0 at the end; 0: none were given */
    cl_context_properties *properties; /* as the program gave them; owned */
    vg_cl_context_notify notify;
    void *user_data;
    struct vg_cl_destructor *destructors;
};

struct vg_cl_queue {
    struct vg_cl_object *device;
    cl_queue_properties *properties; /* as the program gave them; owned */
    cl_uint n_properties;            /* with the 0 at the end; 0: none were given */
    cl_command_queue_properties bits;
    bool is_old; /* made by clCreateCommandQueue() */
};

/* A function that the program wants called when an object ends; the list begins with the last. */
struct vg_cl_destructor {
    struct vg_cl_destructor *next;
    void (*call)(void); /* a vg_cl_mem_notify or a vg_cl_context_destructor */
    void *user_data;
};

/* A part of a memory object that the program sees in its own memory. */
struct vg_cl_map {
    struct vg_cl_map *next;
    void *pointer; /* what the program has */
    cl_map_flags flags;
    bool is_shadow;  /* `pointer` is ours and is written back by unmapping */
    bool is_pending; /* a command is yet to write there, until when MEM is in use */
    bool is_left;    /* it is freed after that */
    struct vg_cl_object *mem;
    size_t origin[3], region[3]; /* bytes of a buffer in the first; texels of an image */
    size_t row_pitch, slice_pitch;
    size_t size; /* bytes at `pointer` */
};

/* What outlives a memory object until the vendor has let go of it. */
struct vg_cl_mem_end {
    struct vg_cl_object *object;
    struct vg_cl_destructor *destructors;
    void *own;       /* memory of ours that the vendor used */
    size_t own_size; /* bytes of it */
    atomic_bool is_over;
    bool is_known; /* to the vendor's object that there is now */
};

struct vg_cl_image {
    cl_image_format format;
    cl_image_desc desc; /* its mem_object is the parent's, and not used */
};

struct vg_cl_mem {
    cl_mem_object_type kind;
    bool is_sub;            /* a sub-buffer */
    atomic_bool is_written; /* the vendor's may hold what no memory of the host does */
    cl_mem_flags flags;     /* as the program gave them */
    size_t size;            /* bytes; of a sub-buffer and a buffer */
    size_t origin;          /* of a sub-buffer, in its parent */
    size_t counted;         /* bytes of it in vg_cl_mem_bytes() */
    void *host_ptr;         /* the program's, which is used for as long as the object is there */
    struct vg_cl_object *parent;
    struct vg_cl_image *image;     /* owned */
    cl_mem_properties *properties; /* ended by 0; owned */
    cl_uint n_properties;          /* with the 0 at the end; 0: none were given */
    struct vg_cl_mem_end *end;     /* NULL: nothing is to be done at its end */
    struct vg_cl_map *maps;        /* under the lock of details */
};

struct vg_cl_sampler {
    cl_sampler_properties *properties; /* ended by 0; owned */
    cl_uint n_properties;              /* with the 0 at the end; 0: none were given */
    bool is_old;                       /* made by clCreateSampler(), of whose three: */
    cl_bool normalized;
    cl_addressing_mode addressing;
    cl_filter_mode filter;
};

enum vg_cl_arg_kind {
    VG_CL_ARG_UNSET,
    VG_CL_ARG_BYTES,
    VG_CL_ARG_OBJECT,
    VG_CL_ARG_EMPTY, /* no bytes: local memory of a size, or no object */
};

/* What an argument may be set to by its declaration. */
enum vg_cl_declared {
    VG_CL_DECLARED_UNKNOWN, /* any object, or a number */
    VG_CL_DECLARED_VALUE,   /* no object */
    VG_CL_DECLARED_OPAQUE,  /* an image or a sampler, or a number */
};

/* What the compiler says of it. */
enum vg_cl_takes {
    VG_CL_TAKES_UNKNOWN,
    VG_CL_TAKES_VALUE,
    VG_CL_TAKES_MEM,
    VG_CL_TAKES_SAMPLER,
};

struct vg_cl_arg {
    uint8_t kind;     /* enum vg_cl_arg_kind, of the value that is set */
    uint8_t declared; /* enum vg_cl_declared */
    uint8_t takes;    /* enum vg_cl_takes */
    bool is_read;     /* by its declaration: the kernel does not write to the object */
    bool is_const;    /* likewise, but it may: where the object may be written to at all */
    bool is_long;     /* `bytes` is in use */
    size_t size;
    uint64_t id; /* the object's; another one has its slot when they differ */
    union {
        struct vg_cl_object *object;
        unsigned char small[16];
        unsigned char *bytes; /* owned, where more than fit in `small` */
    };
};

typedef cl_int(CL_API_CALL *vg_cl_set_arg)(cl_kernel, cl_uint, size_t, const void *);

/* What setting an argument needs comes first, near the head of the object. */
struct vg_cl_kernel {
    struct vg_cl_arg *args;
    vg_cl_set_arg set; /* the vendor's, of the library that is loaded now */
    cl_uint n_args;
    struct vg_cl_object *program;
    char *name;          /* owned */
    atomic_uint native;  /* enum vg_cl_native (program.h), of a program that was linked */
    atomic_bool is_told; /* that an argument may be taken for a handle wrongly */
};

struct vg_cl_event {
    struct vg_cl_object *queue; /* NULL: a user event */
    cl_command_type command;
    cl_int status;     /* of a user event; of others once the vendor's is gone */
    cl_ulong *profile; /* the five times, once the vendor's is gone; owned; NULL: not to be had */
};

struct vg_cl_program; /* program.h */

struct vg_cl_object {
    const void *dispatch; /* first: the loader jumps through it */
    uint32_t type;        /* enum vg_cl_type */
    atomic_uint refs, uses;
    uint64_t id; /* never used twice in a process */
    void *real;  /* the vendor's handle; NULL while it is let go */
    struct vg_cl_track *track;
    struct vg_cl_object *context; /* NULL: a platform, a device, a context; in use by this one */
    union {
        struct vg_cl_device device;
        struct vg_cl_context ctx;
        struct vg_cl_queue queue;
        struct vg_cl_mem mem;
        struct vg_cl_sampler sampler;
        struct vg_cl_program *program; /* owned */
        struct vg_cl_kernel kernel;
        struct vg_cl_event event;
        struct vg_cl_object *next_free;
    };
};

#define VG_CL_SLOT_BITS 8
#define VG_CL_SLOT      (UINT64_C(1) << VG_CL_SLOT_BITS) /* bytes */
_Static_assert(sizeof(struct vg_cl_object) <= VG_CL_SLOT, "an object fits in its slot");

#define VG_CL_OURS __attribute__((visibility("hidden"))) /* reached without a table */

extern VG_CL_OURS uintptr_t vg_cl_slots;          /* the address of the first slot */
extern VG_CL_OURS _Atomic uint64_t vg_cl_slots_n; /* that were used at least once */

/* Returns the object at POINTER if there is one, of whichever type, else NULL. */
static inline struct vg_cl_object *
vg_cl_any(const void *pointer)
{
    uintptr_t offset = (uintptr_t)pointer - vg_cl_slots;
    struct vg_cl_object *object = (struct vg_cl_object *)(uintptr_t)pointer;

    /* Its number, which the bits of an address inside of a slot make greater than all. */
    uint64_t slot = offset / VG_CL_SLOT | offset << (64 - VG_CL_SLOT_BITS);
    if (slot >= atomic_load_explicit(&vg_cl_slots_n, memory_order_relaxed) ||
        object->type == VG_CL_NONE)
        return NULL;
    return object;
}

/* Returns the object at POINTER if it is one of TYPE, else NULL. */
static inline struct vg_cl_object *
vg_cl_as(const void *pointer, enum vg_cl_type type)
{
    struct vg_cl_object *object = vg_cl_any(pointer);

    return object && object->type == type ? object : NULL;
}

/* Returns the vendor's handle of OBJECT; NULL of NULL. The functions of the dispatch table take it
 * as the handle that they expect. */
static inline void *
vg_cl_real(const struct vg_cl_object *object)
{
    return object ? object->real : NULL;
}

/* How an object of a type ends; either may be NULL. */
struct vg_cl_end {
    void (*leave)(struct vg_cl_object *object); /* before the vendor's object is released */
    void (*free)(struct vg_cl_object *object);  /* after that: frees its details */
};

/* Before the first object: DISPATCH is the table that every handle begins with, and ENDS has the
 * end of each type. */
void vg_cl_objects_begin(const cl_icd_dispatch *dispatch, const struct vg_cl_end *ends);

/* Makes an object of TYPE with one reference and one use; CONTEXT, which may be NULL, gets one
 * more. Returns NULL with *ERROR, which may be NULL, set if there is no memory; then the caller
 * releases REAL. */
struct vg_cl_object *vg_cl_object_new(enum vg_cl_type type, struct vg_cl_track *track,
                                      struct vg_cl_object *context, void *real, cl_int *error);

/* Walks through all objects but those of severed tracks: returns the one after PREVIOUS, or the
 * first; NULL after the last. Only while no other thread is inside of the gate, or for objects that
 * no other thread ends. */
struct vg_cl_object *vg_cl_object_next(const struct vg_cl_object *previous);

static inline struct vg_cl_object *
vg_cl_use(struct vg_cl_object *object)
{
    if (object)
        atomic_fetch_add_explicit(&object->uses, 1, memory_order_relaxed);
    return object;
}

/* Ends a use of OBJECT, which may be NULL; the last one releases the vendor's object. */
void vg_cl_unuse(struct vg_cl_object *object);

/* Count the program's references; INVALID is what they return for NULL. */
cl_int vg_cl_retain(struct vg_cl_object *object, cl_int invalid);
cl_int vg_cl_release(struct vg_cl_object *object, cl_int invalid);

/* Releases the vendor's object of OBJECT and forgets its handle. */
void vg_cl_object_drop(struct vg_cl_object *object);

/* Returns the id of the newest object. */
uint64_t vg_cl_objects_last(void);

/* Around a fork: nobody else changes objects, or has the lock of their details. */
void vg_cl_objects_hold(void);
void vg_cl_objects_let_go(void);

/* Guards lists of details that are rarely changed: maps, destructors. */
void vg_cl_lock(void);
void vg_cl_unlock(void);

/* Copies N elements of SIZE bytes; NULL of none or without memory. */
void *vg_cl_copy(const void *from, size_t n, size_t size);

/* Counts the elements of a list of pairs that ends with 0, the 0 included; 0 of NULL. */
cl_uint vg_cl_count_pairs(const intptr_t *pairs);

static inline void
vg_cl_set_error(cl_int *errcode_ret, cl_int error)
{
    if (errcode_ret)
        *errcode_ret = error;
}

#endif
