/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing: windows into files of days, and their sums into files of minutes and hours. By the
 * store's thread only.
 *
 * A window replaces those of its source that it overlaps. Each transaction that changes windows
 * notes in the same file (table `stale`) whose minutes have to be summed again; the note goes when
 * the sum is on disk. So a crash at any point leaves either right sums or a note.
 */
#ifndef VG_STORE_STORE_WRITE_H
#define VG_STORE_STORE_WRITE_H

#include "store/store-pool.h"
#include "store/store-window.h"

/* A file that something failed with. */
struct vg_store_failed {
    enum vg_store_kind kind;
    int64_t stamp;
};

struct vg_store_writer {
    char *directory;
    vg_store_pool *pool;
    int64_t lost_top;
    GHashTable *sources;           /* name -> struct vg_store_source */
    struct vg_store_failed failed; /* what the last failure was about */
};

/* What is known of a source. */
struct vg_store_source {
    char *name;
    bool looked_up;
    int64_t newest_ns;             /* no window ends after this; if looked_up */
    int64_t current_ns;            /* end of the window written last; INT64_MIN: none in this run */
    GArray *stale[VG_STORE_HOURS]; /* int64_t: ends of minutes (in VG_STORE_WINDOWS), of hours (in
                                    * VG_STORE_MINUTES) that have to be summed; ascending */
    int64_t failed_ns[VG_STORE_HOURS]; /* the one of them that failed last; 0: none */
};

void vg_store_writer_init(struct vg_store_writer *writer, const char *directory, const char *vfs);
void vg_store_writer_clear(struct vg_store_writer *writer);

/* Learns what a run before this one has left to be summed. A file that cannot be read is passed
 * over, but *err tells about the first one. */
int vg_store_writer_recover(struct vg_store_writer *writer, GError **err);

/* One transaction, and one for each other day in which the window replaces something. After a
 * failure it may be on disk or not; writing it again is right in any case. */
int vg_store_write_window(struct vg_store_writer *writer, const struct vg_store_window *window,
                          GError **err);

/* Sums the minutes and hours that are noted, but for those which the source's last window is in,
 * unless `all`. 0: all done; 1: a part of it, go on; -1: what has failed stays noted. */
int vg_store_write_sums(struct vg_store_writer *writer, bool all, GError **err);

/* ---- for store-write.c and store-sums.c ---- */

/* The pool's, with the failed file noted. */
struct vg_store_file *vg_store_writer_open(struct vg_store_writer *writer, enum vg_store_kind kind,
                                           int64_t stamp, enum vg_store_mode mode, GError **err);

/* Gives the file back; returns status. */
int vg_store_writer_done(struct vg_store_writer *writer, struct vg_store_file *file, int status);

/* Notes in memory that the period with this end has to be summed. */
void vg_store_source_note(struct vg_store_source *source, enum vg_store_kind kind, int64_t end_ns);

#endif
