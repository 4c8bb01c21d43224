/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes windows into files of days, and their sums into files of minutes and hours. Called by the
 * store's thread only.
 *
 * A window replaces those of its source that it overlaps. Each transaction that changes windows
 * notes in the same file (table `stale`) whose minutes have to be summed again; the note goes when
 * the sum is on disk. So a crash at any point leaves either right sums or a note.
 */
#ifndef VG_STORE_STORE_WRITE_H
#define VG_STORE_STORE_WRITE_H

#include "store/store-pool.h"
#include "store/store-total.h"
#include "store/store-window.h"

/* A file with which something failed. */
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

/* A minute that is not summed yet, as its windows told it: with all who took CPU time, of which
 * files of windows have a part, and with processes, of which they have none. */
struct vg_store_minute {
    int64_t end_ns;
    struct vg_store_total total;
};

/* Minutes of a source that wait to be summed. */
#define VG_STORE_MINUTES_KEPT 4

/* The state of a source. */
struct vg_store_source {
    char *name;
    bool looked_up;
    int64_t newest_ns; /* no window ends after this, if looked_up */
    /* the end of the window that was written last; INT64_MIN if there is none in this run */
    int64_t current_ns;
    /* int64_t, the ends of minutes (in VG_STORE_WINDOWS) and of hours (in VG_STORE_MINUTES) that
     * have to be summed; ascending */
    GArray *stale[VG_STORE_HOURS];
    GPtrArray *minutes; /* struct vg_store_minute, in the order of their first windows */
    int64_t failed_ns[VG_STORE_HOURS]; /* the one of them that failed last, or 0 */
};

void vg_store_writer_init(struct vg_store_writer *writer, const char *directory, const char *vfs);
void vg_store_writer_clear(struct vg_store_writer *writer);

/* Finds out what an earlier run has left to be summed. A file that cannot be read is passed over,
 * but *err is set for the first one. */
int vg_store_writer_recover(struct vg_store_writer *writer, GError **err);

/* Writes a window, in one transaction, and one more for each other day in which it replaces
 * something. After a failure it may be on disk or not; writing it again is right in any case. */
int vg_store_write_window(struct vg_store_writer *writer, const struct vg_store_window *window,
                          GError **err);

/* Sums the minutes and hours that are noted, except for those that the source's last window is in,
 * unless `all`. Returns 0 if all is done, 1 if there is more to do, or -1 if something failed,
 * which stays noted. */
int vg_store_write_sums(struct vg_store_writer *writer, bool all, GError **err);

/* ---- for store-write.c and store-sums.c ---- */

/* Lends a file of the pool, and notes which one failed. */
struct vg_store_file *vg_store_writer_open(struct vg_store_writer *writer, enum vg_store_kind kind,
                                           int64_t stamp, enum vg_store_mode mode, GError **err);

/* Gives the file back; returns status. */
int vg_store_writer_done(struct vg_store_writer *writer, struct vg_store_file *file, int status);

/* Returns the minute with this end, or NULL. */
struct vg_store_minute *vg_store_source_minute(const struct vg_store_source *source,
                                               int64_t end_ns);

/* Notes in memory that the period with this end has to be summed. */
void vg_store_source_note(struct vg_store_source *source, enum vg_store_kind kind, int64_t end_ns);

#endif
