/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's side: an OpenCL vendor whose devices are behind a proxy. The functions that track/
 * calls are in table.c, which is generated, and in the other files of this directory.
 *
 * Calls that need no answer are batched. A batch is sent with the next call that needs an answer,
 * when it has VG_WIRE_BATCH bytes, or when VG_WIRE_BATCH_US have passed since its first call. Any
 * thread may call any function. After the link breaks, every call returns VG_WIRE_BROKEN.
 */
#ifndef VG_OPENCL_CLIENT_CLIENT_H
#define VG_OPENCL_CLIENT_CLIENT_H

#include "opencl/track/object.h"
#include "opencl/wire/ops.h"
#include "opencl/wire/wire.h"

#define VG_WIRE_BATCH      32768
#define VG_WIRE_BATCH_US   500
#define VG_WIRE_STAGED_MIN 16384 /* fewer bytes of data are sent within their message */
#define VG_WIRE_BROKEN     CL_DEVICE_NOT_AVAILABLE

struct vg_wire_client;
struct vg_wire_kernel;
struct vg_wire_map;

/* The local counterpart of an object at the proxy. */
struct vg_wire_object {
    const cl_icd_dispatch *dispatch; /* must be the first member */
    struct vg_wire_client *client;
    uint64_t id;
    uint64_t serial; /* unique, never reused */
    enum vg_cl_type type;
    struct vg_wire_object *context;
    struct vg_wire_object *renewed; /* this process's replacement for a root of the program */
    struct vg_wire_mem {
        size_t size; /* of a buffer */
        cl_mem_flags flags;
        size_t element; /* bytes of an element, or 0 for a buffer */
        cl_mem_object_type kind;
        unsigned char *host; /* the program's, with CL_MEM_USE_HOST_PTR; of an image with: */
        size_t row_pitch, slice_pitch;
        struct vg_wire_map *maps; /* under the client's lock */
        struct vg_wire_end *ends; /* callbacks to run when the object ends */
        size_t origin;            /* of a part of a buffer */
        atomic_bool
            is_written; /* a synchronous write has succeeded, so the buffer has device memory */
    } mem;
    struct vg_wire_kernel
        *kernel;   /* owned; NULL if there is no kernel or its details are not known yet */
    size_t *sizes; /* sizes of a program's binaries, as last reported to the program; owned; N_SIZES
                      of them */
    size_t n_sizes;
    bool is_left; /* the object may exist at the proxy because no thread waited for the answer; its
                     id must not be reused */
    _Atomic int order; /* of a queue, or of an event's: enum vg_wire_order */
    uint64_t queue,
        number; /* for an event: the serial of its queue and the number of its message */
};

enum vg_wire_order {
    VG_WIRE_ORDER_UNKNOWN,
    VG_WIRE_ORDER_IN,
    VG_WIRE_ORDER_OUT,
};

/* A call in progress. */
struct vg_wire_call {
    struct vg_wire_client *client;
    struct vg_wire_out out;
    uint16_t op, flags;
    struct vg_wire_object *lead;
    bool is_later;            /* the call can be sent without waiting */
    bool is_foreign;          /* the call names an object of another link */
    _Atomic uint64_t *learns; /* where to record success, and the value; NULL if not needed */
    uint64_t learned;
    const void *data; /* sent along with the message */
    size_t data_size;
    void *sink; /* receives exactly SINK_SIZE bytes of data from the answer, or none */
    size_t sink_size;
    unsigned char *area;  /* shared memory used instead of `data` or `sink`; may be NULL */
    bool has_area;        /* freed with the call unless it was lent */
    struct vg_wire_in in; /* the answer, after its result */
    size_t got;           /* bytes in the sink */
    uint64_t token;       /* of a read whose end no thread waits for, or 0 */

    /* the client's own */
    uint64_t number;
    bool is_done, is_broken;
    unsigned n_new; /* number of objects it creates; the last of them is: */
    struct vg_wire_object *made;
    struct vg_wire_call *next;
    unsigned char *answer;
    uint64_t small[64];
};

void vg_wire_call_begin(struct vg_wire_call *call, const void *lead, enum vg_wire_op op);

/* Sends the call and waits for its answer. Returns the result, which is an OpenCL error code. */
cl_int vg_wire_call_ask(struct vg_wire_call *call);

/* The two halves of vg_wire_call_ask(), for calls that overlap. If sending fails, do not wait. */
cl_int vg_wire_call_send(struct vg_wire_call *call);
cl_int vg_wire_call_wait(struct vg_wire_call *call);

/* Sends the call without waiting. An error is reported with a later answer. */
cl_int vg_wire_call_post(struct vg_wire_call *call);

/* Sends all batched calls now. */
void vg_wire_flush(struct vg_wire_client *client);

void vg_wire_call_end(struct vg_wire_call *call);

/* Add an argument to CALL. If the argument is an object of another link, the call returns
 * CL_INVALID_CONTEXT and is not sent. */
void vg_wire_put_object(struct vg_wire_call *call, const void *handle);
void vg_wire_put_objects(struct vg_wire_call *call, uint64_t n, const void *handles);
void vg_wire_put_strings(struct vg_wire_out *out, uint64_t n, const char *const *strings);

/* Creates an object and writes its id to the message. CONTEXT may be NULL. Returns NULL and writes
 * id 0 if memory or the object limit is exhausted. */
struct vg_wire_object *vg_wire_new(struct vg_wire_call *call, enum vg_cl_type type,
                                   const void *context);

/* As vg_wire_new(), for an event. Does nothing if the program requests no event. */
struct vg_wire_object *vg_wire_new_event(struct vg_wire_call *call, const cl_event *event);

/* Frees the object. The proxy must have no such object, now or later. */
void vg_wire_free(struct vg_wire_object *object);

/* Ends a call that creates OBJECT: sends it, and returns OBJECT, or NULL with *ERROR set. */
void *vg_wire_call_made(struct vg_wire_call *call, struct vg_wire_object *object, cl_int *error);

/* Ends a call that releases OBJECT. */
cl_int vg_wire_call_release(struct vg_wire_call *call, struct vg_wire_object *object);

/* Ends a call that enqueues a command. Stores the new event, if any, in *EVENT. */
cl_int vg_wire_call_enqueued(struct vg_wire_call *call, struct vg_wire_object *made,
                             cl_event *event);

/* Ends a call that queries a value. */
cl_int vg_wire_call_info(struct vg_wire_call *call, size_t size, void *value, size_t *size_ret);

/* Returns an area of the memory shared with the proxy. Returns NULL if the data are too small,
 * there is no shared memory, or no area is free. */
unsigned char *vg_wire_stage(struct vg_wire_client *client, size_t size);
void vg_wire_unstage(struct vg_wire_client *client, const unsigned char *area);

/* Registers a read whose data arrive when the command is done, either in AREA, which it takes over,
 * or with a message. Returns a token. Returns 0 if memory is exhausted; AREA then still belongs to
 * the caller. */
uint64_t vg_wire_expect_read(struct vg_wire_client *client, const struct vg_wire_rows *rows,
                             unsigned char *area);
void vg_wire_forget_read(struct vg_wire_client *client, uint64_t token);

/* Makes the data for TOKEN, which may be 0, be discarded when they are received. Returns false if
 * they have already arrived. */
bool vg_wire_leave_read(struct vg_wire_client *client, uint64_t token);

/* Waits until the data of all reads in messages FIRST to LAST of QUEUE have arrived, after the
 * proxy reported the commands done. The program's memory must not be written afterwards. */
cl_int vg_wire_settle(struct vg_wire_client *client, uint64_t queue, uint64_t first, uint64_t last);

/* Does the same for all commands that are done when EVENT is done. */
cl_int vg_wire_settle_event(const struct vg_wire_object *event);

/* Returns the number of the last message that was sent. */
uint64_t vg_wire_last(struct vg_wire_client *client);

/* Records which command EVENT belongs to. EVENT may be NULL. */
void vg_wire_note_event(struct vg_wire_object *event, const struct vg_wire_call *call);

/* Registers CALL to be called when the proxy reports the event. Returns a token, or 0 if memory is
 * exhausted. */
typedef void(CL_CALLBACK *vg_wire_notify)(cl_event event, cl_int status, void *user_data);
uint64_t vg_wire_expect_event(struct vg_wire_client *client, vg_wire_notify call, cl_event event,
                              void *user_data);
void vg_wire_forget_event(struct vg_wire_client *client, uint64_t token);

void vg_wire_lock(struct vg_wire_client *client);
void vg_wire_unlock(struct vg_wire_client *client);

static inline struct vg_wire_object *
vg_wire_object(const void *handle)
{
    return (struct vg_wire_object *)(uintptr_t)handle;
}

/* The dispatch table of the functions that can be sent to a proxy. */
extern const cl_icd_dispatch vg_wire_dispatch;

/* ---- for icd/ ---- */

#define VG_WIRE_PREFIX "proxy:"

/* Connects to the proxy at ADDRESS. Returns NULL with a one-line reason in *WHY. Until
 * vg_wire_stay() is called, a proxy that does not answer in time breaks the link (link.h), and the
 * program gets no message about it. */
struct vg_wire_client *vg_wire_connect(const char *address, const char **why);
void vg_wire_stay(struct vg_wire_client *client);

/* Returns why the link is permanently broken, or NULL if it is not. */
const char *vg_wire_why(struct vg_wire_client *client);

/* Returns the platforms and stores their number in *N. */
cl_platform_id *vg_wire_platforms(struct vg_wire_client *client, cl_uint *n);

/* The maximum size in bytes of one object in the context, on any device. */
size_t vg_wire_memory_most(const void *context);

/* Returns the platform or device with ID, or NULL if not found. */
struct vg_wire_object *vg_wire_root(struct vg_wire_client *client, uint64_t id);

/* Returns whether the link to the proxy is broken or seems to be. */
bool vg_wire_is_cut(const struct vg_wire_client *client);

/* Applies to this thread. While a link is cut and IS_OVER returns true, calls that create at most
 * one object stop waiting and return VG_WIRE_BROKEN. An object that the proxy created for such a
 * call stays there. If IS_OVER is NULL, calls wait for their results. */
void vg_wire_set_patience(bool (*is_over)(void *data), void *data);

/* For forked processes: called at the first call that names ROOT, a platform or device of the
 * program's link. Creates a link for this process and sets `renewed` of all roots, or leaves ROOT
 * unchanged. Called on any thread. If NULL, forked processes get no link. */
extern void (*vg_wire_on_inherited)(struct vg_wire_object *root);

/* For forked processes: returns a substitute for an object of the program, whose calls return
 * VG_WIRE_BROKEN. CONTEXT is the substitute for its context, or NULL. Returns NULL if memory is
 * exhausted. */
struct vg_wire_object *vg_wire_severed(enum vg_cl_type type, const void *context);

/* Disconnects from the proxy, which releases everything that the program had there. No call may be
 * in progress. */
void vg_wire_disconnect(struct vg_wire_client *client);

#endif
