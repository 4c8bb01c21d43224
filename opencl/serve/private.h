/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the proxy's side share of a client.
 */
#ifndef VG_OPENCL_SERVE_PRIVATE_H
#define VG_OPENCL_SERVE_PRIVATE_H

#include <pthread.h>

#include "opencl/serve/pinned.h"
#include "opencl/serve/serve.h"

struct serve_slot {
    void *handle;
    enum vg_cl_type type;
};

/* A command that reads for the client, which does not wait for it. */
struct serve_read {
    struct serve_read *next;
    uint64_t token;
    cl_event event;
    struct vg_wire_rows rows;
    unsigned char *room; /* NULL: the data go with the message */
    void *bytes;
    cl_int status; /* that it came to */
};

/* An event that has come to a status, which the client is to be told of. */
struct serve_said {
    struct serve_said *next;
    uint64_t token;
    cl_int status;
};

struct vg_serve {
    struct vg_wire_link *link;
    struct vg_serve_limits limits;
    struct vg_serve_turn *turn;
    struct vg_serve_watch *watch;
    pthread_mutex_t sending; /* taken before the others */
    pthread_mutex_t listing; /* of: */
    struct serve_read *reads;
    struct serve_said *said, **said_end;
    bool has_sender, has_more;
    pthread_cond_t more;  /* for the sender */
    pthread_mutex_t lock; /* of the table, and of: */
    unsigned n_threads;   /* calls that wait in threads of their own */
    cl_int late;          /* the first error that nobody was told of yet */
    bool is_bad;
    struct serve_slot *slots;
    uint64_t n_slots, n_roots, n_objects;
    uint64_t n_data; /* bytes */
    struct vg_serve_pinned pinned;
};

/* Forgets what the client has mapped of MEM; NULL: of all. */
void vg_serve_drop_maps(struct vg_serve *serve, const void *mem);

/* Has the reads of what is mapped at POINTER, which is about to be unmapped, bring nothing. */
void vg_serve_cancel_reads(struct vg_serve *serve, const void *pointer);

/* Ends the client, whose next message is not received. */
void vg_serve_break(struct vg_serve *serve);

/* Has a thread send what the vendor's threads would otherwise, which must not wait for a link that
 * is broken. False: there is none. */
bool vg_serve_begin_sender(struct vg_serve *serve);

/* Sends what CALL returned, and before it all that was read by now. */
void vg_serve_answer(struct vg_serve_call *call, cl_int result);

#endif
