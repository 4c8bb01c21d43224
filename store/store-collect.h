/* SPDX-License-Identifier: Apache-2.0
 *
 * One query being answered: rows of all kinds of files and windows in memory added up in buckets,
 * which are multiples of the step, or single windows. What a bucket holds comes from hours where
 * whole hours fit into it, else from minutes, else from windows; where a sum is noted as stale it
 * is passed over for what is finer, so that an answer does not depend on what has been summed
 * already. Or all VMs are added up in one sum over a time that need not be a multiple of anything:
 * from hours that lie in it wholly, and so on.
 */
#ifndef VG_STORE_STORE_COLLECT_H
#define VG_STORE_STORE_COLLECT_H

#include "model/history.h"
#include "store/store-pool.h"
#include "store/store-total.h"
#include "store/store-window.h"

/* Times from < t <= to. */
struct vg_store_range {
    int64_t from_ns;
    int64_t to_ns;
};

struct vg_store_bucket {
    struct vg_history_row row;
    bool present; /* the VM is in it; else only the source is, and lost_to is NULL */
};

struct vg_store_reading {
    const char *directory;
    vg_store_pool *pool;
    const struct vg_history_query *query;
    const char *source;
    struct vg_store_range whole; /* multiples of step */
    GArray *windows; /* struct vg_store_window *: the source's in memory, by end, no overlaps */
    GHashTable *stale[VG_STORE_KIND_MAX]; /* ends of minutes and hours not to be used; a set */
    GHashTable *by_time;          /* the period's end, or the window's -> index in buckets + 1 */
    GArray *buckets;              /* struct vg_store_bucket */
    bool known;                   /* the VM is in one of the files */
    struct vg_store_total *total; /* all VMs are asked for, in one sum; borrowed. NULL: buckets */
    GError *failed;               /* the first */
    GPtrArray *left_out; /* char *, borrowed: files that could not be read, and why; each once */
    GArray *spoilt;      /* struct vg_store_spoilt, borrowed: not read any more */
};

/* A file that failed while it was read: part of it is in the buckets, which are no answer. */
struct vg_store_spoilt {
    enum vg_store_kind kind;
    int64_t stamp;
};

/* All is borrowed; source is set by the caller, once it is known. */
void vg_store_reading_init(struct vg_store_reading *reading, const char *directory,
                           vg_store_pool *pool, const struct vg_history_query *query,
                           GPtrArray *left_out, GArray *spoilt);

/* Not `failed`, which the caller takes. */
void vg_store_reading_clear(struct vg_store_reading *reading);

/* What is done with each file of a kind that touches a time; 0, or -1 and *err. What goes wrong is
 * noted in reading->failed, left_out and spoilt, and the other files are still read. */
typedef int vg_store_on_file(struct vg_store_reading *reading, struct vg_store_file *file,
                             void *data, GError **err);
void vg_store_each_file(struct vg_store_reading *reading, enum vg_store_kind kind,
                        const struct vg_store_range *range, bool newest_first,
                        vg_store_on_file *call, void *data);

/* Fills the buckets from the files and from these windows (struct vg_store_window), which replace
 * what they overlap. false: they are more than VG_HISTORY_ROWS_MAX; not all is read then. */
bool vg_store_collect(struct vg_store_reading *reading, const GPtrArray *windows);

/* The slot of a VM in a window in memory, or -1. */
int vg_store_slot_of(const struct vg_store_window *window, const char *vm);

#endif
