/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions shared by the files of the program's side.
 */
#ifndef VG_OPENCL_CLIENT_PRIVATE_H
#define VG_OPENCL_CLIENT_PRIVATE_H

#include <pthread.h>
#include <time.h>

#include "opencl/client/client.h"
#include "opencl/client/copier.h"
#include "opencl/wire/link.h"

struct client_read {
    struct client_read *next;
    uint64_t token;
    uint64_t queue, number; /* the serial of the read's queue and the number of its message */
    struct vg_wire_rows rows;
    unsigned char *area; /* NULL if the data come with the message */
    bool is_coming;      /* the receiving thread is writing to it */
    bool is_left;        /* no thread is waiting for it any more */
};

struct client_event {
    struct client_event *next;
    uint64_t token;
    vg_wire_notify call;
    cl_event event;                /* may already be released. When it is done, so are: */
    uint64_t queue, first, number; /* these commands, as in vg_wire_settle() */
    cl_int status;
    void *user_data;
};

#define CLIENT_LEFT_MAX 64

struct vg_wire_client {
    struct vg_wire_link link;
    const cl_icd_dispatch *dispatch; /* for its objects */
    struct vg_wire_object **roots;   /* platforms and their devices */
    cl_uint n_roots;
    size_t memory_most; /* maximum size of one object in bytes */

    pthread_mutex_t sending; /* always taken before `lock` */
    uint64_t number;
    size_t n_batch;
    bool is_unbatched; /* for benchmarks: sends each message separately */
    unsigned char *batch;

    pthread_mutex_t lock;
    pthread_cond_t changed, helps; /* only the helper thread waits for the second */
    bool is_receiving, is_broken, is_closing, is_gathering, is_pausing, is_staying;
    struct vg_wire_call *waiting;
    uint64_t left[CLIENT_LEFT_MAX]; /* numbers of abandoned calls, whose answers are discarded */
    unsigned n_left;
    struct client_read *reads;
    struct client_event *events, *ready, **ready_end;
    uint64_t token;
    uint64_t *free_ids;
    size_t n_free, free_room;
    uint64_t last_id;
    bool has_helper;
    pthread_t helper;
    struct client_copier copier;
    struct vg_wire_client *next_of_all; /* list of all clients in the program; fork.c */
    bool is_inherited, has_said; /* this process was forked from the program; it has logged that */
};

/* Makes processes that the program forks leave CLIENT alone, until it is unlisted. */
void vg_wire_fork_list(struct vg_wire_client *client);
void vg_wire_fork_unlist(const struct vg_wire_client *client);

/* For a call in a forked process that names ROOT, of an inherited client: returns the object that
 * the call uses instead. */
struct vg_wire_object *vg_wire_fork_renew(struct vg_wire_object *root);

/* In a forked process, logs once why a call fails. */
void vg_wire_fork_say(struct vg_wire_client *client);

/* Creates an object with a new id. Returns NULL if memory or the object limit is exhausted. */
struct vg_wire_object *vg_wire_object_new(struct vg_wire_client *client, enum vg_cl_type type,
                                          const void *context);

/* Marks the link as broken: all calls fail from now on. */
void vg_wire_client_break(struct vg_wire_client *client);

/* Waits for the answer to CALL and handles messages for other threads in the meantime. */
void vg_wire_client_wait(struct vg_wire_call *call);

/* Receives the rest of a VG_WIRE_OUTPUT message, and writes it to stdout. */
bool vg_wire_client_output(struct vg_wire_client *client, const struct vg_wire_head *head);

/* Receives what the proxy sends while this side is sending, because otherwise both would block.
 * CLIENT is a struct vg_wire_client. */
void vg_wire_client_take(void *client);

/* Sends the batch, and then the given parts unless HEAD is NULL. The caller holds the lock for
 * sending. */
bool vg_wire_client_send(struct vg_wire_client *client, const struct vg_wire_head *head,
                         const void *body, const void *data);

/* The following functions are called with the client's lock held. Those that wait release it during
 * the wait. */

/* Receives one message, unless another thread is receiving. */
void vg_wire_client_receive(struct vg_wire_client *client);

/* Waits for CHANGED up to US. */
void vg_wire_client_pause(struct vg_wire_client *client, pthread_cond_t *changed, int64_t us);

struct client_read *vg_wire_client_find_read(struct vg_wire_client *client, uint64_t token);

/* Ends READ. */
void vg_wire_client_end_read(struct vg_wire_client *client, struct client_read *read);

/* Returns the number of the first message whose command is done when EVENT is. In an in-order
 * queue, all earlier commands are done as well. Call without the lock. */
uint64_t vg_wire_client_first(const struct vg_wire_object *event);

/* Starts the helper thread, which calls the program's callbacks, receives messages that no other
 * thread is waiting for, and sends batches. The caller holds the client's lock. */
void vg_wire_client_need_helper(struct vg_wire_client *client);

#endif
