/* SPDX-License-Identifier: Apache-2.0
 *
 * The newest GPU requests of a host, for pictures of when which one waited and ran: what windows
 * had of them, with the names that VMs and engines had then. A log never changes: a window more
 * makes another log, which shares all but its newest chunk with the one before, so that any number
 * of threads may read theirs without a lock. Counted references; any thread. NULL is a log of
 * nothing.
 *
 * Each request has a moment of its own, at_ns: its end, or, where several ended at once or the end
 * was told late, the next that nobody has yet. Moments ascend in the order of the log, and are
 * inside or right after the window that had the request: who has read up to a moment goes on after
 * it, and neither misses a request nor gets one twice.
 */
#ifndef VG_MODEL_GPU_LOG_H
#define VG_MODEL_GPU_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "model/event.h"
#include "model/window.h"

/* Requests that are kept, up to 128 bytes each; the oldest are dropped a chunk at a time. */
#define VG_GPU_LOG_REQUESTS_MAX 65536

/* Windows with few requests share a chunk, which is copied for each of them: at most so many. */
#define VG_GPU_LOG_CHUNK_MAX 1024

struct vg_gpu_log_engine {
    char device[VG_GPU_DEVICE_SIZE];
    char engine[VG_GPU_ENGINE_SIZE];
};

struct vg_gpu_log_vm {
    char *name;
    char *uuid; /* empty: not known */
};

struct vg_gpu_log_request {
    int64_t at_ns;
    /* gpu and vm count in the chunk's engines and vms, or vm is VG_PROCESS_NO_ID. */
    struct vg_gpu_request_sample request;
};

/* Of one window, or of several with few. */
struct vg_gpu_log_chunk {
    int refs;         /* atomic */
    GArray *engines;  /* struct vg_gpu_log_engine */
    GArray *vms;      /* struct vg_gpu_log_vm */
    GArray *requests; /* struct vg_gpu_log_request; never empty */
};

struct vg_gpu_log {
    int refs;           /* atomic */
    GPtrArray *chunks;  /* struct vg_gpu_log_chunk, oldest first */
    guint n_requests;   /* in all of them */
    int64_t dropped_ns; /* requests up to this moment were dropped; VG_TIME_UNKNOWN: none was */
};
typedef struct vg_gpu_log vg_gpu_log;

/* The log with the window's requests, too. take_log is given up, and may be what is returned. The
 * window comes after those before. */
vg_gpu_log *vg_gpu_log_add(vg_gpu_log *take_log, const struct vg_window *window);

vg_gpu_log *vg_gpu_log_ref(vg_gpu_log *log);
void vg_gpu_log_unref(vg_gpu_log *log);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_gpu_log, vg_gpu_log_unref)

struct vg_gpu_log_query {
    const char *device; /* as the log has it */
    const char *vm;   /* only of this one, by UUID in any case, or name; NULL: of all and of none */
    int64_t since_ns; /* moments after this one ... */
    int64_t until_ns; /* ... and up to this one */
    size_t limit;     /* the oldest so many; > 0 */
};

struct vg_gpu_log_entry {
    const struct vg_gpu_log_chunk *chunk;
    const struct vg_gpu_log_request *request;
};

struct vg_gpu_log_page {
    GArray *entries;   /* struct vg_gpu_log_entry, oldest first; point into the log */
    bool more;         /* the limit cut it */
    int64_t next_ns;   /* the since_ns of the next page */
    uint64_t left_out; /* of any GPU: there was no room for them in a window, and the next one that
                        * was kept, or else the last one of the window, has its moment between
                        * since_ns and next_ns */
};

/* newest_ns: up to where everything has been added that there will be. */
void vg_gpu_log_read(const vg_gpu_log *log, const struct vg_gpu_log_query *query, int64_t newest_ns,
                     struct vg_gpu_log_page *ret);
void vg_gpu_log_page_clear(struct vg_gpu_log_page *page);

bool vg_gpu_log_has_vm(const vg_gpu_log *log, const char *vm);

#endif
