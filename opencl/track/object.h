/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's OpenCL objects. The program holds them instead of the vendor's handles, and each
 * records what is needed to re-create the vendor's object.
 *
 * An object's address is the program's handle. It never changes, even when the vendor's object
 * behind it (`real`) is released and re-created. Objects are in one address range, in slots of
 * equal size that are reused but never freed. Hence a comparison shows whether a pointer is an
 * object, and a pointer stored together with the object's id can be validated after the object has
 * ended.
 *
 * There are two counts. `refs` is the program's, which it can query. `uses` also has one for each
 * object that needs this object. The last use releases the vendor's object.
 *
 * Any thread may call any function, inside the gate (icd/gate.h). As in the standard, the program
 * must serialise some operations, such as setting arguments of one kernel in two threads.
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

/* Whether kernel arguments that are numbers can be recognised even if the compiler does not report
 * their kind. */
enum vg_cl_numbers {
    VG_CL_NUMBERS_UNKNOWN,
    VG_CL_NUMBERS_SEEN,
    VG_CL_NUMBERS_UNSEEN,
};

/* The program's state for one vendor platform. */
struct vg_cl_track {
    const cl_icd_dispatch *cl; /* the vendor's functions; NULL while it is unloaded */
    struct vg_cl_object *platform;
    char name[128];                /* of the platform, as reported by the vendor */
    struct vg_cl_object **devices; /* the platform's own devices, without sub-devices */
    struct vg_cl_limits *limits;   /* of each device when it was first used */
    cl_uint n_devices;
    atomic_uint numbers; /* enum vg_cl_numbers */
    bool is_other;       /* the devices differ from those that the binaries were built for */
    bool is_remote;      /* the vendor is a proxy */
    atomic_uint tells;   /* enum vg_cl_tells */
    bool as_gpu; /* devices report that they are GPUs, for programs that accept nothing else */
    /* In a process that the program forked: the track of the program's objects, or NULL. */
    struct vg_cl_track *severed;
    bool is_severed; /* this is such a track: its objects do nothing, and are not carried */
};

struct vg_cl_device {
    struct vg_cl_object *parent; /* of a sub-device; otherwise NULL */
    intptr_t *partition;         /* how the parent was partitioned; zero-terminated; owned */
    cl_uint index;               /* among the platform's devices, or among the sub-devices */
};

struct vg_cl_context {
    struct vg_cl_object **devices; /* owned; holds a use of each */
    cl_uint n_devices;
    cl_uint n_properties;              /* including the final 0; 0 if none were given */
    cl_context_properties *properties; /* as the program gave them; owned */
    vg_cl_context_notify notify;
    void *user_data;
    struct vg_cl_destructor *destructors;
};

struct vg_cl_queue {
    struct vg_cl_object *device;
    cl_queue_properties *properties; /* as the program gave them; owned */
    cl_uint n_properties;            /* including the final 0; 0 if none were given */
    cl_command_queue_properties bits;
    bool is_old; /* created by clCreateCommandQueue() */
};

/* A callback that the program registered for an object's end. The newest is first in the list. */
struct vg_cl_destructor {
    struct vg_cl_destructor *next;
    void (*call)(void); /* a vg_cl_mem_notify or a vg_cl_context_destructor */
    void *user_data;
};

/* A mapping of a memory object in the program's memory. */
struct vg_cl_map {
    struct vg_cl_map *next;
    void *pointer; /* the pointer that the program got */
    cl_map_flags flags;
    bool is_shadow;  /* `pointer` belongs to this library and is written back when unmapped */
    bool is_pending; /* a command has yet to write there; MEM is in use until then */
    bool is_left;    /* free it afterwards */
    struct vg_cl_object *mem;
    size_t origin[3], region[3]; /* bytes of a buffer in the first; texels of an image */
    size_t row_pitch, slice_pitch;
    size_t size; /* bytes at `pointer` */
};

/* The part of a memory object that remains until the vendor has released it. */
struct vg_cl_mem_end {
    struct vg_cl_object *object;
    struct vg_cl_destructor *destructors;
    void *own;       /* memory of this library that the vendor used */
    size_t own_size; /* bytes of it */
    atomic_bool is_over;
    bool is_known; /* the current vendor's object knows it */
};

struct vg_cl_image {
    cl_image_format format;
    cl_image_desc desc; /* its mem_object belongs to the parent and is not used */
};

struct vg_cl_mem {
    cl_mem_object_type kind;
    bool is_sub;            /* a sub-buffer */
    atomic_bool is_written; /* the vendor may have contents that no host memory has */
    cl_mem_flags flags;     /* as the program gave them */
    size_t size;            /* bytes of a sub-buffer or a buffer */
    size_t origin;          /* offset of a sub-buffer in its parent */
    size_t counted;         /* bytes counted in vg_cl_mem_bytes() */
    void *host_ptr;         /* the program's memory, used for the object's lifetime */
    struct vg_cl_object *parent;
    struct vg_cl_image *image;     /* owned */
    cl_mem_properties *properties; /* zero-terminated; owned */
    cl_uint n_properties;          /* including the final 0; 0 if none were given */
    struct vg_cl_mem_end *end;     /* NULL if nothing must be done at its end */
    struct vg_cl_map *maps;        /* protected by vg_cl_lock() */
};

struct vg_cl_sampler {
    cl_sampler_properties *properties; /* zero-terminated; owned */
    cl_uint n_properties;              /* including the final 0; 0 if none were given */
    bool is_old;                       /* created by clCreateSampler() with these three values: */
    cl_bool normalized;
    cl_addressing_mode addressing;
    cl_filter_mode filter;
};

enum vg_cl_arg_kind {
    VG_CL_ARG_UNSET,
    VG_CL_ARG_BYTES,
    VG_CL_ARG_OBJECT,
    VG_CL_ARG_EMPTY, /* size only: local memory, or a NULL object */
};

/* The declared kind of an argument. */
enum vg_cl_declared {
    VG_CL_DECLARED_UNKNOWN, /* any object, or a number */
    VG_CL_DECLARED_VALUE,   /* no object */
    VG_CL_DECLARED_OPAQUE,  /* an image, a sampler, or a number */
};

/* The kind that the compiler reports. */
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
    bool is_read;     /* declared such that the kernel does not write to the object */
    bool is_const;    /* declared const, but the kernel may write if the object is writable */
    bool is_long;     /* `bytes` is in use */
    size_t size;
    uint64_t id; /* id of the object; if it differs from the object's, the slot was reused */
    union {
        struct vg_cl_object *object;
        unsigned char small[16];
        unsigned char *bytes; /* owned, if the value does not fit in `small` */
    };
};

typedef cl_int(CL_API_CALL *vg_cl_set_arg)(cl_kernel, cl_uint, size_t, const void *);

/* The members needed to set an argument come first, near the start of the object. */
struct vg_cl_kernel {
    struct vg_cl_arg *args;
    vg_cl_set_arg set; /* the vendor's function, in the currently loaded library */
    cl_uint n_args;
    struct vg_cl_object *program;
    char *name;          /* owned */
    atomic_uint native;  /* enum vg_cl_native (program.h), for a linked program */
    atomic_bool is_told; /* the warning about mistaking a number for a handle was logged */
};

struct vg_cl_event {
    struct vg_cl_object *queue; /* NULL for a user event */
    cl_command_type command;
    cl_int status;     /* of a user event; of other events after the vendor's event was released */
    cl_ulong *profile; /* the five timestamps, after the vendor's event was released; owned; NULL if
                          not available */
};

struct vg_cl_program; /* program.h */

struct vg_cl_object {
    const void *dispatch; /* must be first: the loader dispatches through it */
    uint32_t type;        /* enum vg_cl_type */
    atomic_uint refs, uses;
    uint64_t id; /* unique in the process, never reused */
    void *real;  /* the vendor's handle; NULL while it is released */
    struct vg_cl_track *track;
    struct vg_cl_object
        *context; /* NULL for a platform, a device or a context; otherwise holds a use of it */
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
extern VG_CL_OURS _Atomic uint64_t vg_cl_slots_n; /* slots used at least once */

/* Returns the object of any type at POINTER, or NULL if not an object. */
static inline struct vg_cl_object *
vg_cl_any(const void *pointer)
{
    uintptr_t offset = (uintptr_t)pointer - vg_cl_slots;
    struct vg_cl_object *object = (struct vg_cl_object *)(uintptr_t)pointer;

    /* The slot's number. If the address is not a slot's start, the low bits make it too large. */
    uint64_t slot = offset / VG_CL_SLOT | offset << (64 - VG_CL_SLOT_BITS);
    if (slot >= atomic_load_explicit(&vg_cl_slots_n, memory_order_relaxed) ||
        object->type == VG_CL_NONE)
        return NULL;
    return object;
}

/* Returns the object at POINTER if it has TYPE, or NULL. */
static inline struct vg_cl_object *
vg_cl_as(const void *pointer, enum vg_cl_type type)
{
    struct vg_cl_object *object = vg_cl_any(pointer);

    return object && object->type == type ? object : NULL;
}

/* Returns the properties that QUEUE was created with. */
cl_command_queue_properties vg_cl_queue_bits(const struct vg_cl_object *queue);

/* Returns the vendor's handle of OBJECT, or NULL if OBJECT is NULL. The dispatch table's functions
 * accept it as the handle that they expect. */
static inline void *
vg_cl_real(const struct vg_cl_object *object)
{
    return object ? object->real : NULL;
}

/* Functions that end objects of a type; either may be NULL. */
struct vg_cl_end {
    void (*leave)(struct vg_cl_object *object); /* before the vendor's object is released */
    void (*free)(struct vg_cl_object *object);  /* after that: frees its details */
};

/* Call before the first object is created. DISPATCH is the table that every handle points to. ENDS
 * has the functions for each type. */
void vg_cl_objects_begin(const cl_icd_dispatch *dispatch, const struct vg_cl_end *ends);

/* Creates an object of TYPE with one reference and one use. CONTEXT, which may be NULL, gets one
 * more use. If memory is exhausted, returns NULL and sets *ERROR, which may be NULL; the caller
 * then releases REAL. */
struct vg_cl_object *vg_cl_object_new(enum vg_cl_type type, struct vg_cl_track *track,
                                      struct vg_cl_object *context, void *real, cl_int *error);

/* Iterates over all objects except those of severed tracks. Returns the object after PREVIOUS, or
 * the first if PREVIOUS is NULL; NULL after the last. Call only while no other thread is inside the
 * gate, or for objects that no other thread ends. */
struct vg_cl_object *vg_cl_object_next(const struct vg_cl_object *previous);

static inline struct vg_cl_object *
vg_cl_use(struct vg_cl_object *object)
{
    if (object)
        atomic_fetch_add_explicit(&object->uses, 1, memory_order_relaxed);
    return object;
}

/* Ends a use of OBJECT, which may be NULL. The last use releases the vendor's object. */
void vg_cl_unuse(struct vg_cl_object *object);

/* Count the program's references. They return INVALID if the object is NULL. */
cl_int vg_cl_retain(struct vg_cl_object *object, cl_int invalid);
cl_int vg_cl_release(struct vg_cl_object *object, cl_int invalid);

/* Releases OBJECT's vendor object and clears the handle. */
void vg_cl_object_drop(struct vg_cl_object *object);

/* Returns the id of the newest object. */
uint64_t vg_cl_objects_last(void);

/* Called before and after a fork. In between, no other thread changes objects, or holds the lock of
 * their details. */
void vg_cl_objects_hold(void);
void vg_cl_objects_let_go(void);

/* Protect lists that rarely change: maps and destructors. */
void vg_cl_lock(void);
void vg_cl_unlock(void);

/* Copies N elements of SIZE bytes. Returns NULL if N is 0 or memory is exhausted. */
void *vg_cl_copy(const void *from, size_t n, size_t size);

/* Counts the elements of a zero-terminated list of pairs, including the 0. Returns 0 for NULL. */
cl_uint vg_cl_count_pairs(const intptr_t *pairs);

static inline void
vg_cl_set_error(cl_int *errcode_ret, cl_int error)
{
    if (errcode_ret)
        *errcode_ret = error;
}

#endif
