/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the program's side share of a client.
 */
#ifndef VG_OPENCL_CLIENT_PRIVATE_H
#define VG_OPENCL_CLIENT_PRIVATE_H

#include <pthread.h>
#include <time.h>

#include "opencl/client/client.h"
#include "opencl/wire/link.h"

struct client_read {
    struct client_read *next;
    uint64_t token;
    uint64_t queue, number; /* the serial of the queue that it is in, and its message */
    struct vg_wire_rows rows;
    unsigned char *area; /* NULL: the data come with the message */
    bool is_coming;      /* it is written to, by the thread that receives */
    bool is_left;        /* nobody wants it any more */
};

struct client_event {
    struct client_event *next;
    uint64_t token;
    vg_wire_notify call;
    cl_event event;                /* which may be gone: */
    uint64_t queue, first, number; /* what is done when it is, as vg_wire_settle() takes it */
    cl_int status;
    void *user_data;
};

#define CLIENT_LEFT_MAX 64

struct vg_wire_client {
    struct vg_wire_link link;
    const cl_icd_dispatch *dispatch; /* of its objects */
    struct vg_wire_object **roots;   /* platforms and their devices */
    cl_uint n_roots;
    size_t memory_most; /* of one object */

    pthread_mutex_t sending; /* taken before the other one */
    uint64_t number;
    size_t n_batch;
    bool is_unbatched; /* for benchmarks: each message goes by itself */
    unsigned char *batch;

    pthread_mutex_t lock;
    pthread_cond_t changed, helps; /* the second one is waited for by the helper alone */
    bool is_receiving, is_broken, is_closing, is_gathering, is_pausing, is_staying;
    struct vg_wire_call *waiting;
    uint64_t left[CLIENT_LEFT_MAX]; /* numbers of calls whose answers nobody waits for any more */
    unsigned n_left;
    struct client_read *reads;
    struct client_event *events, *ready, **ready_end;
    uint64_t token;
    uint64_t *free_ids;
    size_t n_free, free_room;
    uint64_t last_id;
    bool has_helper;
    pthread_t helper;
    struct vg_wire_client *next_of_all; /* of the program; fork.c */
    bool is_inherited, has_said;        /* this process was forked from the program; told so */
};

/* Has CLIENT be left alone by processes that the program forks, from its beginning to its end. */
void vg_wire_fork_list(struct vg_wire_client *client);
void vg_wire_fork_unlist(const struct vg_wire_client *client);

/* Returns what a call that names ROOT, of a client that such a process inherited, names instead. */
struct vg_wire_object *vg_wire_fork_renew(struct vg_wire_object *root);

/* Says once, in such a process, why a call fails. */
void vg_wire_fork_say(struct vg_wire_client *client);

/* Makes an object with an id of its own. NULL: no memory, or too many. */
struct vg_wire_object *vg_wire_object_new(struct vg_wire_client *client, enum vg_cl_type type,
                                          const void *context);

/* The link is broken: all calls fail from now on. */
void vg_wire_client_break(struct vg_wire_client *client);

/* Waits for the answer to CALL, and receives for others meanwhile. */
void vg_wire_client_wait(struct vg_wire_call *call);

/* For a struct vg_wire_client: somebody has to take what the proxy sends while this side does. */
void vg_wire_client_take(void *client);

/* Sends what was gathered, and then the parts, unless HEAD is NULL; with the lock for sending. */
bool vg_wire_client_send(struct vg_wire_client *client, const struct vg_wire_head *head,
                         const void *body, const void *data);

/* The next ones with the client's lock, which those that wait let go of. */

/* Receives one message, unless another thread receives. */
void vg_wire_client_receive(struct vg_wire_client *client);

/* Waits for CHANGED up to US. */
void vg_wire_client_pause(struct vg_wire_client *client, pthread_cond_t *changed, int64_t us);

struct client_read *vg_wire_client_find_read(struct vg_wire_client *client, uint64_t token);

/* READ is over. */
void vg_wire_client_end_read(struct vg_wire_client *client, struct client_read *read);

/* Returns the first message that is done when EVENT is: those that were put into its queue before,
 * where that is in order, are done as well. Without the lock. */
uint64_t vg_wire_client_first(const struct vg_wire_object *event);

/* Has the thread begin that calls the program's functions, receives what nobody waits for, and
 * sends what was gathered; under the client's lock. */
void vg_wire_client_need_helper(struct vg_wire_client *client);

#endif
