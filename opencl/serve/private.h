/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions shared by the files of the proxy's side.
 */
#ifndef VG_OPENCL_SERVE_PRIVATE_H
#define VG_OPENCL_SERVE_PRIVATE_H

#include <pthread.h>

#include <stdatomic.h>

#include "opencl/serve/pinned.h"
#include "opencl/serve/serve.h"

struct vg_serve_output;

struct serve_slot {
    void *handle;
    enum vg_cl_type type;
};

/* A read command whose end the client does not wait for. */
struct serve_read {
    struct serve_read *next;
    uint64_t token;
    cl_event event;
    struct vg_wire_rows rows;
    unsigned char *room; /* NULL if the data are sent with the message */
    void *bytes;
    cl_int status; /* its final status */
};

/* An event's status, yet to be reported to the client. */
struct serve_said {
    struct serve_said *next;
    uint64_t token;
    cl_int status;
};

#define SERVE_LENT_MAX 16

/* A write that no thread has waited for. */
struct serve_lent_write {
    void *data;
    size_t size;
    cl_event event;
};

/* Writes in one queue, in their order. */
struct serve_lent {
    pthread_mutex_t lock; /* also held while a thread waits for them */
    atomic_uint n;        /* only the thread that serves the client adds to it */
    _Atomic uint64_t queue;
    struct serve_lent_write writes[SERVE_LENT_MAX];
};

struct vg_serve {
    struct vg_wire_link *link;
    struct vg_serve_limits limits;
    struct vg_serve_turn *turn;
    struct vg_serve_watch *watch;
    pthread_mutex_t sending; /* always taken before the others */
    pthread_mutex_t listing; /* protects: */
    struct serve_read *reads;
    struct serve_said *said, **said_end;
    bool has_sender, has_more;
    pthread_cond_t more;  /* wakes the sender */
    pthread_mutex_t lock; /* protects the table of objects, and: */
    unsigned n_threads;   /* threads that run calls which wait */
    cl_int late;          /* the first error that has not been reported yet */
    bool is_bad;
    bool takes_output; /* the program's library accepts output, and stdout is not redirected yet */
    struct vg_serve_output *output; /* NULL while stdout is not; set once, under `sending` */
    struct serve_slot *slots;
    uint64_t n_slots, n_roots, n_objects;
    uint64_t n_data; /* bytes, which include the mappings' bytes: */
    uint64_t n_mapped;
    pthread_cond_t less; /* n_data was reduced */
    struct vg_serve_pinned pinned;
    struct serve_lent lent;
};

/* Forgets the client's mappings of MEM, or all mappings if MEM is NULL. */
void vg_serve_drop_maps(struct vg_serve *serve, const void *mem);

/* Discards the data of reads into the mapping at POINTER, which is about to be unmapped. */
void vg_serve_cancel_reads(struct vg_serve *serve, const void *pointer);

/* Ends the connection to the client: its next message is not received. */
void vg_serve_break(struct vg_serve *serve);

/* Starts a thread that sends on behalf of the vendor's threads, which must not block on a broken
 * link. Returns false if the thread cannot be created. */
bool vg_serve_begin_sender(struct vg_serve *serve);

/* Sends the result of CALL, preceded by all reads that are already done. */
void vg_serve_answer(struct vg_serve_call *call, cl_int result);

/* The first function counts SIZE bytes that a mapping uses. The second subtracts them again. */
void vg_serve_map_bytes(struct vg_serve *serve, size_t size);
void vg_serve_unmap_bytes(struct vg_serve *serve, size_t size);

/* Sends the text of OUTPUT from now on. */
void vg_serve_send_output(struct vg_serve *serve, struct vg_serve_output *output);

/* Sends all reads that are already done. */
void vg_serve_flush_reads(struct vg_serve *serve);

#endif
