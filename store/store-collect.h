/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers one query: adds up rows of all kinds of files, and windows in memory, in buckets that are
 * multiples of the step, or returns single windows. A bucket consists of hours if whole hours fit
 * into it, otherwise of minutes, otherwise of windows. Sums noted as stale are replaced by finer
 * ones, so that an answer does not depend on the progress of summing. Alternatively, a bucket is
 * the sum of the whole host, or all VMs are added up in one sum over any period. This sum also
 * consists of whole hours, then minutes, then windows.
 */
#ifndef VG_STORE_STORE_COLLECT_H
#define VG_STORE_STORE_COLLECT_H

#include "model/history.h"
#include "store/store-pool.h"
#include "store/store-total.h"
#include "store/store-window.h"

struct vg_store_bucket {
    struct vg_history_row row;
    bool present; /* the bucket has data of the VM; if false, it only has data of the source, and
                     lost_to is NULL */
    struct vg_history_step step; /* if steps are requested; otherwise measured is NULL */
    GArray *programs; /* if steps are requested: struct vg_store_loss, whose aggressors are numbers
                         in `names` */
    int64_t programs_floor_ns; /* maximum CPU time of a program that is not in `programs` */
};

struct vg_store_reading {
    const char *directory;
    vg_store_pool *pool;
    const struct vg_history_query *query;
    const char *source;
    struct vg_store_range whole; /* multiples of step */
    /* struct vg_store_window *, the source's windows in memory, sorted by end, without overlaps */
    GArray *windows;
    /* a set of the ends of minutes and hours that must not be used */
    GHashTable *stale[VG_STORE_KIND_MAX];
    /* the end of the period, or of the window -> 1 + the index in buckets */
    GHashTable *by_time;
    GArray *buckets; /* struct vg_store_bucket */
    bool known;      /* the VM is in one of the files */
    /* the requested sum of all VMs, borrowed; NULL for buckets */
    struct vg_store_total *total;
    bool steps;                  /* buckets are steps of the whole host */
    struct vg_store_total names; /* used only for numbers of programs */
    GError *failed;              /* the first failure */
    /* char *, borrowed: files that could not be read, with the reason; each once */
    GPtrArray *left_out;
    GArray *spoilt; /* struct vg_store_spoilt, borrowed: files that are no longer read */
};

/* A file that failed during a read, so that the buckets contain a part of it and are invalid. */
struct vg_store_spoilt {
    enum vg_store_kind kind;
    int64_t stamp;
};

/* Prepares a reading. Everything is borrowed; the caller sets source, once it is known. */
void vg_store_reading_init(struct vg_store_reading *reading, const char *directory,
                           vg_store_pool *pool, const struct vg_history_query *query,
                           GPtrArray *left_out, GArray *spoilt);

/* Clears the reading, except `failed`, which the caller now owns. */
void vg_store_reading_clear(struct vg_store_reading *reading);

/* Handles one file of a kind that overlaps a time. Returns 0, or -1 and sets *err. Failures are
 * recorded in reading->failed, left_out and spoilt; the other files are still read. */
typedef int vg_store_on_file(struct vg_store_reading *reading, struct vg_store_file *file,
                             void *data, GError **err);
void vg_store_each_file(struct vg_store_reading *reading, enum vg_store_kind kind,
                        const struct vg_store_range *range, bool newest_first,
                        vg_store_on_file *call, void *data);

/* Fills the buckets from the files and from these windows (struct vg_store_window), which replace
 * the data that they overlap. Returns false if there are more than VG_HISTORY_ROWS_MAX buckets; the
 * remaining ones are then not read. */
bool vg_store_collect(struct vg_store_reading *reading, const GPtrArray *windows);

#endif
