/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the program's side share of a client.
 */
#ifndef VG_OPENCL_WIRE_CLIENT_PRIVATE_H
#define VG_OPENCL_WIRE_CLIENT_PRIVATE_H

#include <pthread.h>
#include <time.h>

#include "opencl/wire/client.h"
#include "opencl/wire/link.h"

struct client_read {
    struct client_read *next;
    uint64_t token;
    struct vg_wire_rows rows;
};

struct client_event {
    struct client_event *next;
    uint64_t token;
    vg_wire_notify call;
    cl_event event;
    cl_int status;
    void *user_data;
};

struct vg_wire_client {
    struct vg_wire_link link;
    struct vg_wire_object **roots; /* platforms and their devices */
    cl_uint n_roots;
    size_t memory_most; /* of one object */

    pthread_mutex_t sending; /* taken before the other one */
    uint64_t number;
    size_t n_batch;
    struct timespec batch_begin;
    unsigned char *batch;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_receiving, is_broken, is_closing, is_gathering;
    struct vg_wire_call *waiting;
    struct client_read *reads;
    struct client_event *events, *ready, **ready_end;
    uint64_t token;
    uint64_t *free_ids;
    size_t n_free, free_room;
    uint64_t last_id;
    bool has_helper;
    pthread_t helper;
};

/* Makes an object with an id of its own. NULL: no memory, or too many. */
struct vg_wire_object *vg_wire_object_new(struct vg_wire_client *client, enum vg_cl_type type,
                                          const void *context);

#endif
