/* SPDX-License-Identifier: Apache-2.0
 *
 * The side of the proxy: what one client says is done with the tracker's functions, over the
 * vendor's library in this process, which is the client's alone. table.c is generated;
 * serve-*.c have the functions whose memory is handled by hand.
 *
 * Nothing of what comes is trusted: a message is received as a whole before it is looked at, ids
 * are looked up in the client's own table, and sizes are bounded. What cannot have been written by
 * the library ends the client.
 */
#ifndef VG_OPENCL_SERVE_SERVE_H
#define VG_OPENCL_SERVE_SERVE_H

#include "opencl/track/object.h"
#include "opencl/wire/link.h"
#include "opencl/wire/ops.h"
#include "opencl/wire/wire.h"

struct vg_serve;
struct vg_serve_counts;
struct vg_serve_command;
struct vg_serve_pool;

#define VG_SERVE_VALUE_MAX (UINT64_C(48) << 20) /* bytes of a value that is asked for */

/* What a client may have. */
struct vg_serve_limits {
    uint64_t memory;       /* bytes in memory objects */
    uint64_t objects;      /* of all types */
    uint64_t data;         /* bytes that came with messages, or go with them, and are kept */
    uint64_t pinned;       /* bytes of the memory in common that the vendor may know of */
    unsigned depth;        /* commands while an event is not set that others may wait for */
    bool is_with_binaries; /* of programs, which nobody here has compiled */
    int turns;             /* turn.h: the socket to the proxy */
    struct vg_serve_counts *counts; /* meter.h; NULL: nobody asks */
    unsigned max_kernel_s;          /* seconds; 0: any time */
    struct vg_serve_pool *pool;     /* pool.h: what all of the VM's clients have */
    unsigned place;                 /* of this client's in it */
    uint64_t build_memory;          /* bytes of private memory that a build may add; 0: any */
    unsigned build_s, build_cpu_s;  /* that a build may take, by the clock and of CPU; 0: any */
};

bool vg_serve_may_have_binaries(const struct vg_serve *serve);
struct vg_serve_counts *vg_serve_counts_of(const struct vg_serve *serve);

/* Returns a queue at *AT or behind it, which is retained, and where it is; NULL: there is none. */
cl_command_queue vg_serve_next_queue(struct vg_serve *serve, uint64_t *at);

/* Tells the client why, WHAT of enum vg_wire_said, and ends this process. */
_Noreturn void vg_serve_end(struct vg_serve *serve, uint16_t what, unsigned seconds);

/* The same, for what is said in words. */
_Noreturn void vg_serve_end_why(struct vg_serve *serve, const char *why);

/* Tells the client why, and leaves the end to the caller. */
void vg_serve_say_end(struct vg_serve *serve, const char *why);

/* FD is another connection of the client, whose side has taken so many bytes by now. */
void vg_serve_replace_link(struct vg_serve *serve, int fd, uint64_t taken);

/* Returns what the client may not have of BYTES more of memory; NULL: it may have them, and nobody
 * else of its VM may until they are there, or vg_serve_settle_memory() was called. One thread. */
const char *vg_serve_may_not_have(const struct vg_serve *serve, uint64_t bytes);
void vg_serve_settle_memory(const struct vg_serve *serve);

/* A message that is being done. */
struct vg_serve_call {
    struct vg_serve *serve;
    struct vg_wire_head head;
    struct vg_wire_in in;
    cl_int refused;         /* the client may not have so much: the result */
    const char *why;        /* what the client may not have; NULL: it may */
    struct vg_wire_out out; /* the answer, after its result */
    void *body;             /* owned; NULL: of no bytes */
    void *data;             /* likewise, of HEAD.data bytes; vg_serve_free_data() */
    unsigned char *room; /* in the memory in common, for ROOM_SIZE bytes of the answer; or NULL */
    size_t room_size;
    const void *answer; /* data of the answer, ... */
    size_t answer_size;
    void *owned[8]; /* freed after the answer */
    unsigned n_owned;
    bool is_metered; /* it has come, and its command is not known to be done */
    bool is_beside;  /* it is in a thread of its own, and keeps what it has found: */
    struct vg_cl_object **held;
    size_t n_held, held_room;
    struct vg_serve_command *command; /* of one that is metered; owned */
};

/* Memory for as long as the call; NULL, with is_bad, if there is none. */
void *vg_serve_memory(struct vg_serve_call *call, size_t size);

/* Memory for SIZE bytes of data; NULL: the client may not have them, or there is none. */
void *vg_serve_take_data(struct vg_serve *serve, size_t size);

/* Counts SIZE bytes, or one object, beside those that are there, for as long as something is kept.
 * False: the client may not have them. */
bool vg_serve_take_bytes(struct vg_serve *serve, size_t size);
void vg_serve_leave_bytes(struct vg_serve *serve, size_t size);
bool vg_serve_take_place(struct vg_serve *serve);
void vg_serve_leave_place(struct vg_serve *serve);

/* Frees data, or gives them back to the client. From any thread. */
void vg_serve_free_data(struct vg_serve *serve, void *data, size_t size);

/* Reads an id: the tracker's handle of an object of TYPE; NULL: there is none. */
void *vg_serve_object(struct vg_serve_call *call, enum vg_cl_type type);

/* The same of a list that the client says has N; NULL: it gave none. */
void *vg_serve_objects(struct vg_serve_call *call, enum vg_cl_type type, uint64_t n);

/* Reads a list of N strings. */
const char **vg_serve_strings(struct vg_serve_call *call, uint64_t n);

/* Reads a list of names and values that ends with 0. */
const void *vg_serve_pairs(struct vg_serve_call *call);

/* Reads the id of an object that the client has no use for any more. */
void *vg_serve_leaving(struct vg_serve_call *call, enum vg_cl_type type, uint64_t *id);

/* A value that is asked for, and what there is of it. */
struct vg_serve_value {
    void *bytes;
    size_t size, has;
};
void vg_serve_value_begin(struct vg_serve_call *call, struct vg_serve_value *value);
cl_int vg_serve_value_end(struct vg_serve_call *call, const struct vg_serve_value *value,
                          cl_int result);

/* What a device has is no more than the client may have. */
void vg_serve_limit_info(const struct vg_serve *serve, cl_device_info param,
                         const struct vg_serve_value *value);

/* Reads an id for a new object; 0: none is wanted. */
uint64_t vg_serve_new(struct vg_serve_call *call);

/* Whether the client still has HANDLE. */
bool vg_serve_has(struct vg_serve *serve, uint64_t id, enum vg_cl_type type, const void *handle);

/* Where the vendor puts the event of a command, if the client wants it as ID, or its end is to be
 * known here. */
cl_event *vg_serve_event(const struct vg_serve_call *call, uint64_t id, cl_event *made);

/* Puts HANDLE, unless it is NULL, in the place of ID, which was free. */
void vg_serve_made(struct vg_serve_call *call, uint64_t id, enum vg_cl_type type, void *handle);

/* The same of an event of a command in QUEUE, whose result was RESULT: what fails and is not
 * waited for is an event that has failed. */
void vg_serve_made_event(struct vg_serve_call *call, uint64_t id, cl_command_queue queue,
                         cl_event event, cl_int result);

/* Frees the place of the id of an object of TYPE that was read. */
void vg_serve_forget(struct vg_serve_call *call, enum vg_cl_type type, uint64_t id);

/* Has ROWS sent to the read TOKEN of the client when EVENT is done, which is kept, by way of the
 * call's room, if there is any, and BYTES freed afterwards. */
bool vg_serve_read_later(struct vg_serve_call *call, uint64_t token, cl_event event,
                         const struct vg_wire_rows *rows, void *bytes);

/* Sends that an event has come to a status. From any thread. */
void vg_serve_say_event(struct vg_serve *serve, uint64_t token, cl_int status);

/* Returns ERROR if one of the OPTIONS of a compiler, which may be NULL, names a file of this
 * machine other than a folder of headers, and else CL_SUCCESS. */
cl_int vg_serve_check_options(struct vg_serve_call *call, const char *options, cl_int error);

/* Returns the handle of the platform or device that has ID; NULL: there is none. */
void *vg_serve_root(struct vg_serve *serve, uint64_t id);
uint64_t vg_serve_id_of(struct vg_serve *serve, const void *root);

/* Each does one function, and returns its result. */
typedef cl_int (*vg_serve_function)(struct vg_serve_call *call);
extern const vg_serve_function vg_serve_functions[];
extern const char *const vg_serve_names[]; /* of the program's functions */

/* Begins to serve one client, of which a process has no other, and whose threads are there to its
 * end. NULL: there is no device, or no memory. */
struct vg_serve *vg_serve_begin(struct vg_wire_link *link, const struct vg_serve_limits *limits);

/* Serves it until it leaves. The link is shut then. Returns false if the client was not what it
 * should be. */
bool vg_serve_run(struct vg_serve *serve);

#endif
