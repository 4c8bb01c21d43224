/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes windows into files of days, and their sums into files of minutes and hours. Called by the
 * store's thread only.
 *
 * A window replaces windows of its source that it overlaps. Each transaction that changes windows
 * records in the same file (table `stale`) the minutes to sum again. The record is removed when the
 * sum is on disk. So a crash at any point leaves either correct sums or a record.
 */
#ifndef VG_STORE_STORE_WRITE_H
#define VG_STORE_STORE_WRITE_H

#include "store/store-pool.h"
#include "store/store-total.h"
#include "store/store-window.h"

/* A file after a failed operation. */
struct vg_store_failed {
    enum vg_store_kind kind;
    int64_t stamp;
};

struct vg_store_writer {
    char *directory;
    vg_store_pool *pool;
    int64_t lost_top;
    GHashTable *sources;           /* name -> struct vg_store_source */
    struct vg_store_failed failed; /* the file of the last failure */
};

/* A minute that is not summed yet, made from its windows. It has all aggressors, of which files of
 * windows only have a part, and the processes, which those files do not have. */
struct vg_store_minute {
    int64_t end_ns;
    struct vg_store_total total;
};

/* Maximum number of minutes of a source that are kept until they are summed. */
#define VG_STORE_MINUTES_KEPT 4

/* The state of a source. */
struct vg_store_source {
    char *name;
    bool looked_up;
    int64_t newest_ns; /* if looked_up, no window ends after this */
    /* end of the last written window; INT64_MIN if there is none in this run */
    int64_t current_ns;
    /* int64_t, ascending: ends of the minutes (in VG_STORE_WINDOWS) and hours (in VG_STORE_MINUTES)
     * to sum */
    GArray *stale[VG_STORE_HOURS];
    GPtrArray *minutes;                /* struct vg_store_minute, ordered by their first windows */
    int64_t failed_ns[VG_STORE_HOURS]; /* the last one that failed, or 0 */
};

void vg_store_writer_init(struct vg_store_writer *writer, const char *directory, const char *vfs);
void vg_store_writer_clear(struct vg_store_writer *writer);

/* Determines which sums an earlier run did not complete. Skips unreadable files, but sets *err for
 * the first one. */
int vg_store_writer_recover(struct vg_store_writer *writer, GError **err);

/* Writes a window in one transaction, plus one for each other day in which it replaces data. After
 * a failure, the window may or may not be on disk; it can be written again in either case. */
int vg_store_write_window(struct vg_store_writer *writer, const struct vg_store_window *window,
                          GError **err);

/* Sums the recorded minutes and hours, except those of the source's last window, unless `all`.
 * Returns 0 if all is done, 1 if there is more to do, or -1 if something failed; the failed minutes
 * and hours stay recorded. */
int vg_store_write_sums(struct vg_store_writer *writer, bool all, GError **err);

/* ---- for store-write.c and store-sums.c ---- */

/* Lends a file from the pool. If this fails, records the file. */
struct vg_store_file *vg_store_writer_open(struct vg_store_writer *writer, enum vg_store_kind kind,
                                           int64_t stamp, enum vg_store_mode mode, GError **err);

/* Returns the file to the pool; returns status. */
int vg_store_writer_done(struct vg_store_writer *writer, struct vg_store_file *file, int status);

/* Returns the minute with this end, or NULL. */
struct vg_store_minute *vg_store_source_minute(const struct vg_store_source *source,
                                               int64_t end_ns);

/* Records in memory that the period with this end must be summed. */
void vg_store_source_note(struct vg_store_source *source, enum vg_store_kind kind, int64_t end_ns);

#endif
