/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxy's side: executes one client's calls with the tracker's functions and the vendor's
 * library. This process serves only that client. table.c is generated; serve-*.c have the
 * functions with manual memory handling.
 *
 * Nothing that is received is trusted. A message is received completely before it is parsed, ids
 * are looked up in the client's own table, and sizes are bounded. Input that the library cannot
 * have sent ends the client.
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

#define VG_SERVE_VALUE_MAX (UINT64_C(48) << 20) /* maximum size in bytes of a queried value */

/* A client's limits. */
struct vg_serve_limits {
    uint64_t memory;       /* bytes in memory objects */
    uint64_t objects;      /* of all types */
    uint64_t data;         /* bytes of stored data received or to be sent with messages */
    uint64_t pinned;       /* bytes of the shared memory that the vendor may pin */
    unsigned depth;        /* commands that may wait for an event that is not set yet */
    bool is_with_binaries; /* whether the client may load program binaries that were compiled
                              elsewhere */
    int turns;             /* turn.h: the socket to the proxy */
    struct vg_serve_counts *counts; /* meter.h; NULL if not counted */
    unsigned max_kernel_s;          /* seconds; 0 if unlimited */
    struct vg_serve_pool *pool;     /* pool.h: memory of all of the VM's clients */
    unsigned place;                 /* this client's place in it */
    uint64_t build_memory; /* bytes of private memory that a build may allocate; 0 if unlimited */
    unsigned build_s,
        build_cpu_s; /* limits of a build in elapsed and in CPU seconds; 0 if unlimited */
};

bool vg_serve_may_have_binaries(const struct vg_serve *serve);
struct vg_serve_counts *vg_serve_counts_of(const struct vg_serve *serve);

/* Returns the first queue at *AT or later, retained, and updates *AT. Returns NULL if there are no
 * more queues. */
cl_command_queue vg_serve_next_queue(struct vg_serve *serve, uint64_t *at);

/* Sends the client the reason WHAT (enum vg_wire_said), and ends this process. */
_Noreturn void vg_serve_end(struct vg_serve *serve, uint16_t what, unsigned seconds);

/* As vg_serve_end(), with the reason in words. */
_Noreturn void vg_serve_end_why(struct vg_serve *serve, const char *why);

/* Sends the client the reason. The caller ends the process. */
void vg_serve_say_end(struct vg_serve *serve, const char *why);

/* Makes FD the client's new connection. TAKEN is the number of bytes that the client's side has
 * received until now. */
void vg_serve_replace_link(struct vg_serve *serve, int fd, uint64_t taken);

/* Returns the limit that prevents the allocation of BYTES. Returns NULL if the client may allocate
 * them; they are then reserved in the VM's pool until they are allocated or
 * vg_serve_settle_memory() is called. One thread. */
const char *vg_serve_may_not_have(const struct vg_serve *serve, uint64_t bytes);
void vg_serve_settle_memory(const struct vg_serve *serve);

/* A message that is being processed. */
struct vg_serve_call {
    struct vg_serve *serve;
    struct vg_wire_head head;
    struct vg_wire_in in;
    cl_int refused;         /* the result if a limit was exceeded */
    const char *why;        /* the limit that was exceeded, or NULL */
    struct vg_wire_out out; /* the answer, after its result */
    void *body;             /* owned; NULL if the body is empty */
    void *data;          /* HEAD.data bytes, owned; NULL if empty. Freed by vg_serve_free_data() */
    unsigned char *room; /* in shared memory, for ROOM_SIZE bytes of the answer; may be NULL */
    size_t room_size;
    const void *answer; /* data of the answer, ... */
    size_t answer_size;
    void *owned[8]; /* freed after the answer */
    unsigned n_owned;
    bool is_metered; /* counted as arrived, and its command is not known to be done */
    bool is_beside;  /* the call runs in a separate thread and holds references to its objects: */
    struct vg_cl_object **held;
    size_t n_held, held_room;
    struct vg_serve_command *command; /* of a counted one; owned */
};

/* Allocates memory that is freed with the call. Returns NULL and sets is_bad if memory is
 * exhausted. */
void *vg_serve_memory(struct vg_serve_call *call, size_t size);

/* Allocates SIZE bytes for data, as vg_serve_await_bytes() does. Returns NULL if the client's limit
 * or memory is exhausted. */
void *vg_serve_take_data(struct vg_serve *serve, size_t size);

/* As vg_serve_take_bytes(), but first waits for earlier commands if they use up the limit. It does
 * not wait for commands behind an event that the client has not set. */
bool vg_serve_await_bytes(struct vg_serve *serve, size_t size);

/* Count SIZE bytes, or one object, against the client's limits for as long as it is stored. Return
 * false if the limit is exceeded. */
bool vg_serve_take_bytes(struct vg_serve *serve, size_t size);
void vg_serve_leave_bytes(struct vg_serve *serve, size_t size);
bool vg_serve_take_place(struct vg_serve *serve);
void vg_serve_leave_place(struct vg_serve *serve);

/* Frees data or returns them to the client. Any thread. */
void vg_serve_free_data(struct vg_serve *serve, void *data, size_t size);

/* Reads an id. Returns the tracker's handle of the object of TYPE, or NULL if not found. If the
 * object is a queue, first waits for writes that are pending in another queue
 * (opencl/serve/lent.h). */
void *vg_serve_object(struct vg_serve_call *call, enum vg_cl_type type);

/* As vg_serve_object(), for a list of N. Returns NULL if the client sent no list. */
void *vg_serve_objects(struct vg_serve_call *call, enum vg_cl_type type, uint64_t n);

/* Reads a list of N strings. */
const char **vg_serve_strings(struct vg_serve_call *call, uint64_t n);

/* Reads a zero-terminated list of names and values. */
const void *vg_serve_pairs(struct vg_serve_call *call);

/* Reads the id of an object that the client releases. */
void *vg_serve_leaving(struct vg_serve_call *call, enum vg_cl_type type, uint64_t *id);

/* A queried value and its actual size. */
struct vg_serve_value {
    void *bytes;
    size_t size, has;
};
void vg_serve_value_begin(struct vg_serve_call *call, struct vg_serve_value *value);
cl_int vg_serve_value_end(struct vg_serve_call *call, const struct vg_serve_value *value,
                          cl_int result);

/* Reduces a device's reported memory to the client's limits. */
void vg_serve_limit_info(const struct vg_serve *serve, cl_device_info param,
                         const struct vg_serve_value *value);

/* Reads an id for a new object. Returns 0 if the client wants none. */
uint64_t vg_serve_new(struct vg_serve_call *call);

/* Returns whether the client still has a reference to HANDLE. */
bool vg_serve_has(struct vg_serve *serve, uint64_t id, enum vg_cl_type type, const void *handle);

/* Returns where the vendor stores a command's event: if the client wants it as ID, or this side
 * must know when the command ends. Otherwise returns NULL. */
cl_event *vg_serve_event(const struct vg_serve_call *call, uint64_t id, cl_event *made);

/* Stores HANDLE under ID, which must be free. Does nothing if HANDLE is NULL. */
void vg_serve_made(struct vg_serve_call *call, uint64_t id, enum vg_cl_type type, void *handle);

/* As vg_serve_made(), for the event of a command in QUEUE that returned RESULT. If the command
 * failed and is not waited for, the event has failed. */
void vg_serve_made_event(struct vg_serve_call *call, uint64_t id, cl_command_queue queue,
                         cl_event event, cl_int result);

/* Frees the id of an object of TYPE that was read before. */
void vg_serve_forget(struct vg_serve_call *call, enum vg_cl_type type, uint64_t id);

/* Sends ROWS as the client's read TOKEN once EVENT, which is retained, is done, then frees BYTES.
 * Uses the call's area in shared memory, if any. */
bool vg_serve_read_later(struct vg_serve_call *call, uint64_t token, cl_event event,
                         const struct vg_wire_rows *rows, void *bytes);

/* Reports an event's status to the client. Any thread. */
void vg_serve_say_event(struct vg_serve *serve, uint64_t token, cl_int status);

/* Returns ERROR if a compiler option in OPTIONS, which may be NULL, names a local file other than
 * a header folder. Otherwise returns CL_SUCCESS. */
cl_int vg_serve_check_options(struct vg_serve_call *call, const char *options, cl_int error);

/* Returns the handle of the platform or device with ID, or NULL if not found. */
void *vg_serve_root(struct vg_serve *serve, uint64_t id);
uint64_t vg_serve_id_of(struct vg_serve *serve, const void *root);

/* Each executes one function and returns its result. */
typedef cl_int (*vg_serve_function)(struct vg_serve_call *call);
extern const vg_serve_function vg_serve_functions[];
extern const char *const vg_serve_names[]; /* names of the OpenCL functions */

/* Prepares to serve one client. A process serves only one, and its threads run until the process
 * ends. Returns NULL if there is no device or memory is exhausted. */
struct vg_serve *vg_serve_begin(struct vg_wire_link *link, const struct vg_serve_limits *limits);

/* Serves the client until it disconnects, and then shuts the link. Returns false if the client
 * violated the protocol. */
bool vg_serve_run(struct vg_serve *serve);

#endif
