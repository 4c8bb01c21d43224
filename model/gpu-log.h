/* SPDX-License-Identifier: Apache-2.0
 *
 * The newest GPU requests of a host, for charts of when each one waited and ran. It contains the
 * requests of past windows, with the names that VMs and engines had at the time. A log is
 * immutable: adding a window makes a new log, which shares all but its newest chunk with the
 * previous log. So any number of threads can read their logs without a lock. Reference-counted; any
 * thread. NULL is an empty log.
 *
 * Each request has a unique moment, at_ns. It is the request's end or, if several ended at the same
 * time or the end was reported late, the next free nanosecond. Moments ascend in the order of the
 * log, and lie within or right after the window that had the request. A reader that continues from
 * the last moment it has read gets every request exactly once.
 */
#ifndef VG_MODEL_GPU_LOG_H
#define VG_MODEL_GPU_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "model/event.h"
#include "model/window.h"

/* Maximum number of stored requests, up to 128 bytes each. The oldest are dropped a chunk at a
 * time. */
#define VG_GPU_LOG_REQUESTS_MAX 65536

/* Windows with few requests share a chunk, up to this number of requests. The chunk is copied each
 * time a window is added to it. */
#define VG_GPU_LOG_CHUNK_MAX 1024

struct vg_gpu_log_engine {
    char device[VG_GPU_DEVICE_SIZE];
    char engine[VG_GPU_ENGINE_SIZE];
};

struct vg_gpu_log_vm {
    char *name;
    char *uuid; /* empty if unknown */
};

struct vg_gpu_log_request {
    int64_t at_ns;
    /* gpu and vm are indexes into the chunk's engines and vms; vm may be VG_PROCESS_NO_ID. */
    struct vg_gpu_request_sample request;
};

/* The requests of one window, or of several windows with few requests. */
struct vg_gpu_log_chunk {
    int refs;         /* atomic */
    GArray *engines;  /* struct vg_gpu_log_engine */
    GArray *vms;      /* struct vg_gpu_log_vm */
    GArray *requests; /* struct vg_gpu_log_request; never empty */
};

struct vg_gpu_log {
    int refs;           /* atomic */
    GPtrArray *chunks;  /* struct vg_gpu_log_chunk, oldest first */
    guint n_requests;   /* total of all chunks */
    int64_t dropped_ns; /* requests up to this moment were dropped; VG_TIME_UNKNOWN if none was */
};
typedef struct vg_gpu_log vg_gpu_log;

/* Returns a log that also has the window's requests. Takes over the reference take_log, and may
 * return that log itself. The window must be later than all windows in the log. */
vg_gpu_log *vg_gpu_log_add(vg_gpu_log *take_log, const struct vg_window *window);

vg_gpu_log *vg_gpu_log_ref(vg_gpu_log *log);
void vg_gpu_log_unref(vg_gpu_log *log);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_gpu_log, vg_gpu_log_unref)

struct vg_gpu_log_query {
    const char *device; /* spelled as in the log */
    /* only requests of this VM, by UUID in any case, or by name; NULL for all requests */
    const char *vm;
    int64_t since_ns; /* moments after this time ... */
    int64_t until_ns; /* ... up to and including this time */
    size_t limit;     /* the maximum number of entries, oldest first; > 0 */
};

struct vg_gpu_log_entry {
    const struct vg_gpu_log_chunk *chunk;
    const struct vg_gpu_log_request *request;
};

struct vg_gpu_log_page {
    GArray *entries; /* struct vg_gpu_log_entry, oldest first; they point into the log */
    bool more;       /* the limit was reached */
    int64_t next_ns; /* since_ns of the next page */
    /* number of requests of any GPU that were dropped because a window was full, if the next stored
     * request of the window (or the last, if there is no next) has its moment between since_ns and
     * next_ns */
    uint64_t left_out;
};

/* newest_ns: no request up to this moment will be added any more. */
void vg_gpu_log_read(const vg_gpu_log *log, const struct vg_gpu_log_query *query, int64_t newest_ns,
                     struct vg_gpu_log_page *ret);
void vg_gpu_log_page_clear(struct vg_gpu_log_page *page);

bool vg_gpu_log_has_vm(const vg_gpu_log *log, const char *vm);

#endif
