/* SPDX-License-Identifier: Apache-2.0
 *
 * The side of the program: a vendor of OpenCL whose devices are behind a proxy. What track/ calls
 * its vendor by is in table.c, which is generated, and the other files here.
 *
 * Calls that need no answer are gathered, and go out with the next one that does, when there are
 * VG_WIRE_BATCH bytes of them, or VG_WIRE_BATCH_US after the first. All may be called by any
 * thread. When the link breaks, every call returns VG_WIRE_BROKEN.
 */
#ifndef VG_OPENCL_CLIENT_CLIENT_H
#define VG_OPENCL_CLIENT_CLIENT_H

#include "opencl/track/object.h"
#include "opencl/wire/ops.h"
#include "opencl/wire/wire.h"

#define VG_WIRE_BATCH      32768
#define VG_WIRE_BATCH_US   500
#define VG_WIRE_STAGED_MIN 16384 /* fewer bytes of data go with their message */
#define VG_WIRE_BROKEN     CL_DEVICE_NOT_AVAILABLE

struct vg_wire_client;
struct vg_wire_kernel;
struct vg_wire_map;

/* What a proxy's object is here. */
struct vg_wire_object {
    const cl_icd_dispatch *dispatch; /* first */
    struct vg_wire_client *client;
    uint64_t id;
    uint64_t serial; /* never used twice */
    enum vg_cl_type type;
    struct vg_wire_object *context;
    struct vg_wire_object *renewed; /* what this process has instead of a program's root */
    struct vg_wire_mem {
        size_t size; /* of a buffer */
        cl_mem_flags flags;
        size_t element; /* bytes of an element; 0: a buffer */
        cl_mem_object_type kind;
        unsigned char *host; /* the program's, with CL_MEM_USE_HOST_PTR; of an image with: */
        size_t row_pitch, slice_pitch;
        struct vg_wire_map *maps; /* under the client's lock */
        struct vg_wire_end *ends; /* what is called when it is over */
        size_t origin;            /* of a part of a buffer */
    } mem;
    struct vg_wire_kernel *kernel; /* owned; NULL: none, or nothing is known yet */
    size_t *sizes;                 /* of a program's binaries, as it was told; owned; N_SIZES */
    size_t n_sizes;
    bool is_left;           /* the proxy may have it, as nobody waited for it: its id is not free */
    _Atomic int order;      /* of a queue, or of an event's: enum vg_wire_order */
    uint64_t queue, number; /* of an event: the serial of its queue, and its message */
};

enum vg_wire_order {
    VG_WIRE_ORDER_UNKNOWN,
    VG_WIRE_ORDER_IN,
    VG_WIRE_ORDER_OUT,
};

/* A call on its way. */
struct vg_wire_call {
    struct vg_wire_client *client;
    struct vg_wire_out out;
    uint16_t op, flags;
    struct vg_wire_object *lead;
    bool is_later;            /* it can be told */
    bool is_foreign;          /* it names an object of another link */
    _Atomic uint64_t *learns; /* where to note that it did well, and what; NULL: nowhere */
    uint64_t learned;
    const void *data; /* that go with it */
    size_t data_size;
    void *sink; /* where data of the answer go, exactly SINK_SIZE bytes, or none */
    size_t sink_size;
    unsigned char *area;  /* in the place of `data` or `sink`; NULL: none */
    bool has_area;        /* it is freed with the call, if it was not lent */
    struct vg_wire_in in; /* the answer, after its result */
    size_t got;           /* bytes in the sink */
    uint64_t token;       /* of what it reads and does not wait for; 0: none */

    /* the client's own */
    uint64_t number;
    bool is_done, is_broken;
    unsigned n_new; /* what it makes; the last one of it: */
    struct vg_wire_object *made;
    struct vg_wire_call *next;
    unsigned char *answer;
    uint64_t small[64];
};

void vg_wire_call_begin(struct vg_wire_call *call, const void *lead, enum vg_wire_op op);

/* Sends it, and waits for its answer. Returns the result, an error of OpenCL. */
cl_int vg_wire_call_ask(struct vg_wire_call *call);

/* The two halves of it, for calls some of which are on their way at a time. After an error of the
 * first one there is no second. */
cl_int vg_wire_call_send(struct vg_wire_call *call);
cl_int vg_wire_call_wait(struct vg_wire_call *call);

/* Sends it, later; an error comes with a later answer. */
cl_int vg_wire_call_tell(struct vg_wire_call *call);

/* Has what was gathered sent now. */
void vg_wire_flush(struct vg_wire_client *client);

void vg_wire_call_end(struct vg_wire_call *call);

/* Put what CALL names. An object of another link has no meaning at CALL's: it then returns
 * CL_INVALID_CONTEXT, and is not sent. */
void vg_wire_put_object(struct vg_wire_call *call, const void *handle);
void vg_wire_put_objects(struct vg_wire_call *call, uint64_t n, const void *handles);
void vg_wire_put_strings(struct vg_wire_out *out, uint64_t n, const char *const *strings);

/* Makes an object whose id is put; CONTEXT may be NULL. NULL: no memory, or too many; then 0 is
 * put. */
struct vg_wire_object *vg_wire_new(struct vg_wire_call *call, enum vg_cl_type type,
                                   const void *context);

/* The same for an event, if one is wanted. */
struct vg_wire_object *vg_wire_new_event(struct vg_wire_call *call, const cl_event *event);

/* Frees it, when the proxy has no such object (any more), or will not have. */
void vg_wire_free(struct vg_wire_object *object);

/* The end of a call that makes OBJECT: asks, and gives it, or an error. */
void *vg_wire_call_made(struct vg_wire_call *call, struct vg_wire_object *object, cl_int *error);

/* The end of a call that ends OBJECT. */
cl_int vg_wire_call_release(struct vg_wire_call *call, struct vg_wire_object *object);

/* The end of a command's call, with an event, if there is one, for *EVENT. */
cl_int vg_wire_call_enqueued(struct vg_wire_call *call, struct vg_wire_object *made,
                             cl_event *event);

/* The end of a call that asks for a value. */
cl_int vg_wire_call_info(struct vg_wire_call *call, size_t size, void *value, size_t *size_ret);

/* Returns an area of the memory that the proxy sees as well; NULL: the data are few, there is no
 * such memory, or none is free. */
unsigned char *vg_wire_stage(struct vg_wire_client *client, size_t size);
void vg_wire_unstage(struct vg_wire_client *client, const unsigned char *area);

/* Data that come when a command is done, by way of AREA, which is taken, or else with a message.
 * Returns a token for it, or 0: there is no memory, and AREA is the caller's. */
uint64_t vg_wire_expect_read(struct vg_wire_client *client, const struct vg_wire_rows *rows,
                             unsigned char *area);
void vg_wire_forget_read(struct vg_wire_client *client, uint64_t token);

/* Has what comes for TOKEN, which may be 0, be taken and left. Returns false if it has come. */
bool vg_wire_leave_read(struct vg_wire_client *client, uint64_t token);

/* Waits for what is read by QUEUE, of messages FIRST to LAST, as the proxy has said that it is
 * done: the program's memory must not be written to after that. */
cl_int vg_wire_settle(struct vg_wire_client *client, uint64_t queue, uint64_t first, uint64_t last);

/* The same for what is done when EVENT is. */
cl_int vg_wire_settle_event(const struct vg_wire_object *event);

/* Returns the number of the last message that was sent. */
uint64_t vg_wire_last(struct vg_wire_client *client);

/* Notes of which command EVENT, which may be NULL, is the event. */
void vg_wire_note_event(struct vg_wire_object *event, const struct vg_wire_call *call);

/* Has CALL called when the proxy says so. Returns a token, or 0. */
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

/* The table of those functions that are carried. */
extern const cl_icd_dispatch vg_wire_dispatch;

/* ---- for icd/ ---- */

#define VG_WIRE_PREFIX "proxy:"

/* Connects to the proxy at ADDRESS. NULL, with a line of what is wrong in *WHY. Until
 * vg_wire_stay(), what the proxy does not answer in time breaks the link (link.h), of which the
 * program is not told. */
struct vg_wire_client *vg_wire_connect(const char *address, const char **why);
void vg_wire_stay(struct vg_wire_client *client);

/* Returns why the link is broken for good; NULL: it is not. */
const char *vg_wire_why(struct vg_wire_client *client);

/* The platforms; N of them. */
cl_platform_id *vg_wire_platforms(struct vg_wire_client *client, cl_uint *n);

/* The most bytes that the program may have in one object of the context, on any device. */
size_t vg_wire_memory_most(const void *context);

/* The platform or device that has ID; NULL: none. */
struct vg_wire_object *vg_wire_root(struct vg_wire_client *client, uint64_t id);

/* Whether the link to the proxy is broken, or seems to be. */
bool vg_wire_is_cut(const struct vg_wire_client *client);

/* Of this thread: as long as a link is cut and IS_OVER, it leaves calls that make one object at
 * most, which return VG_WIRE_BROKEN; what the proxy makes for one stays there. NULL: it waits for
 * what comes of them. */
void vg_wire_set_patience(bool (*is_over)(void *data), void *data);

/* In a process that the program forked: called at the first call that names ROOT, a platform or
 * device of the program's link. It makes a link for this process and sets `renewed` of all roots,
 * or leaves ROOT as it is. Any thread; NULL: no process gets a link of its own. */
extern void (*vg_wire_on_inherited)(struct vg_wire_object *root);

/* In such a process: what stands for an object of the program's, whose calls return VG_WIRE_BROKEN.
 * CONTEXT is what stands for its context, or NULL. NULL: there is no memory. */
struct vg_wire_object *vg_wire_severed(enum vg_cl_type type, const void *context);

/* Leaves the proxy, which forgets all that the program had there. No call is inside. */
void vg_wire_disconnect(struct vg_wire_client *client);

#endif
