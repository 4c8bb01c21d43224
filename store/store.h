/* SPDX-License-Identifier: Apache-2.0
 *
 * The store: what has been measured, on disk and, for the newest part, in memory. It owns one
 * thread, `store`, which is the only writer of ts-YYYYMMDD.db          windows; UTC day of their
 * end              synchronous=NORMAL, WAL ts1m-YYYYMM.db          sums over minutes of these;
 * month of ...   synchronous=FULL, WAL ts1h-YYYY.db            sums over hours of minutes; year of
 * ...    likewise
 * ... where the minute or hour begins. A minute is summed when a window of the next one has come,
 * when the store is closed, and after a crash; always of all that is committed. Each file keeps the
 * schema it was born with (PRAGMA user_version); one of a newer version is neither read nor
 * written. One transaction per window; after COMMIT the thread logs `window committed end_ns=N
 * vms=N` (epoch). Writing a window of a source again replaces what that source had stored of that
 * time.
 *
 * Retention is unlink: at the start and each hour go files that lie wholly before the limit and
 * were last written before it, so that a recording of long ago stays for as long as one of today.
 * The limit counts from the clock of this machine, or from the newest that is stored, or was
 * written, if that is earlier. What is noted as not yet summed is summed before, as far as that
 * works.
 *
 * Trouble (full disk, read-only or missing directory, locked or corrupt file, another vgpud in the
 * directory) never reaches who puts: windows wait in memory, up to memory_windows of them, the
 * oldest are dropped and counted, and writing is tried again once a second; one day that cannot be
 * written does not hold up the others. A file that is no database, or a corrupt one, is moved aside
 * (NAME.corrupt-N) and begun anew. Reads that the disk cannot answer are answered from memory.
 *
 * Times are nanoseconds since the epoch. All functions may be called by any thread, but for free.
 */
#ifndef VG_STORE_STORE_H
#define VG_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/thread.h"
#include "model/history.h"
#include "model/window.h"

struct vg_store_options {
    const char *directory; /* made if its parent is there; mode 0750 */
    int64_t raw_days;      /* days of windows, of minutes and of hours that are kept; >= 1 */
    int64_t minute_days;
    int64_t hour_days;
    int64_t lost_top;       /* aggressors stored per VM and row; what others took is "rest" */
    int64_t memory_windows; /* newest windows kept in memory */
    bool log_commits;       /* `window committed` is logged at info, else at debug */
    const char *vfs;        /* sqlite VFS to use, for tests; NULL: the default */
    int64_t retry_ns;       /* pause before writing is tried again; 0: a second */
};

typedef struct vg_store vg_store;

/* Starts the thread and returns at once: what is wrong with the disk is told by
 * vg_store_read_health(). options is copied. NULL and *err only if there is no thread to be had. */
vg_store *vg_store_new(const struct vg_store_options *options, GError **err);

/* Changes retention, lost_top and log_commits; the rest of options is not looked at. */
void vg_store_set_limits(vg_store *store, const struct vg_store_options *options);

/* Writes what is waiting, if the disk lets it, for at most a few seconds; then ends. */
void vg_store_free(vg_store *store);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_store, vg_store_free)

/* One window of a source ("procfs", "replay:NAME"; at most 255 bytes). window is borrowed and has
 * raw times: + clock_offset_ns is the epoch. One without length, or more than 146 years from the
 * epoch, is passed over. VMs with the same UUID (or name, where they have none) are one, their sum.
 * Does not block. */
void vg_store_put_window(vg_store *store, const char *source, const struct vg_window *window,
                         int64_t clock_offset_ns);

/* Windows that wait to be written; 0 while writing does not work, so that who feeds as fast as he
 * can waits for the disk but not for its repair. */
size_t vg_store_backlog(vg_store *store);

/* Waits until everything put so far is committed, writing fails, or the time is over; false: not
 * all is committed. */
bool vg_store_flush(vg_store *store, int64_t timeout_ns);

void vg_store_read_health(vg_store *store, struct vg_store_health *ret);

/* The thread, for its heartbeat. */
const vg_thread *vg_store_thread(const vg_store *store);

/* ---- reading: blocks for as long as the disk takes ---- */

/* Rows (struct vg_history_row, with a clear function) in time order. Gaps stay gaps: begin and end
 * of a row are those of the first and last window of the source in its step. VG_E_NOT_FOUND where
 * the VM was never stored; VG_E_INVALID for more than VG_HISTORY_ROWS_MAX rows, once so many
 * are read: counted are the source's, also those that the VM is not in. What cannot be read is left
 * out and named in query->left_out; VG_E_IO if nothing else is there; VG_E_TIMEOUT if that takes
 * longer than the query allows. */
GArray *vg_store_read_samples(vg_store *store, const struct vg_history_query *query, GError **err);

/* Sums of all VMs over the windows that end in since < t <= until, whatever since and until are;
 * the query's vm and step are not looked at. From hours that lie in the period wholly, minutes at
 * its edges, and windows at theirs, as long as these are kept: of an hour whose minutes are gone
 * already nothing counts unless all of it is in the period. No VM where nothing is stored. Errors
 * as above. */
vg_history_host *vg_store_read_host(vg_store *store, const struct vg_history_query *query,
                                    GError **err);

/* The key, for the queries, of the newest VM that was stored under this name; the caller frees it.
 * VG_E_NOT_FOUND: there was none. VG_E_IO: part of what is stored cannot be read, and it is not in
 * the rest. */
char *vg_store_find_vm(vg_store *store, const char *name, GError **err);

#endif
