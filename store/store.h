/* SPDX-License-Identifier: Apache-2.0
 *
 * The store keeps measurements on disk, and the newest ones also in memory. It owns one thread,
 * `store`, which is the only writer of these files:
 *
 *   - ts-YYYYMMDD.db has windows, by the UTC day of their end (synchronous=NORMAL, WAL);
 *   - ts1m-YYYYMM.db has sums over minutes, by the month of their start (synchronous=FULL, WAL);
 *   - ts1h-YYYY.db has sums over hours, by the year of their start (synchronous=FULL, WAL).
 *
 * A minute is summed when a window of the next minute has arrived, when the store is closed, and
 * after a crash, always from everything that is committed. Each file keeps its original schema
 * (PRAGMA user_version) until data is added. A file of a newer version is neither read nor written.
 * Each window is one transaction; after COMMIT the thread logs `window committed end_ns=N vms=N`
 * (epoch). A window replaces what its source had stored for the same time.
 *
 * Expired files are unlinked at the start and each hour: files whose data and last write are all
 * before the limit. An imported old recording is therefore kept for as long as new data. The limit
 * counts from this machine's clock, or from the newest stored or written data if that is earlier.
 * Before that, pending sums are made if possible.
 *
 * Callers that put windows are not affected by problems (full disk, read-only or missing directory,
 * locked or corrupt file, another vgpud in the directory). Windows wait in memory, up to
 * memory_windows; if there are more, the oldest are dropped and counted. Writing is tried again
 * once a second, and a day that cannot be written does not delay the others. A corrupt file, or one
 * that is no database, is moved aside (NAME.corrupt-N) and created again. If a query cannot be
 * answered from disk, it is answered from memory.
 *
 * Times are nanoseconds since the epoch. Any thread may call any function, except free.
 */
#ifndef VG_STORE_STORE_H
#define VG_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/thread.h"
#include "model/history.h"
#include "model/provenance.h"
#include "model/window.h"

struct vg_store_options {
    const char *directory; /* created if its parent exists; mode 0750 */
    int64_t raw_days; /* number of days that windows are kept, then for minutes and hours; >= 1 */
    int64_t minute_days;
    int64_t hour_days;
    /* number of aggressors stored per VM and row; losses to others are "rest" */
    int64_t lost_top;
    int64_t memory_windows; /* number of newest windows kept in memory */
    bool log_commits;       /* `window committed` is logged at info, otherwise at debug */
    const char *vfs;        /* the sqlite VFS to use, for tests; NULL for the default */
    int64_t retry_ns;       /* pause before writing is tried again; 0 for a second */
};

typedef struct vg_store vg_store;

/* Starts the thread and returns immediately; vg_store_read_health() reports problems with the disk.
 * options is copied. Returns NULL and sets *err only if no thread can be started. */
vg_store *vg_store_new(const struct vg_store_options *options, GError **err);

/* Changes retention, lost_top and log_commits; the other options are ignored. */
void vg_store_set_limits(vg_store *store, const struct vg_store_options *options);

/* Writes waiting windows, if the disk permits, for at most a few seconds, and ends. */
void vg_store_free(vg_store *store);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_store, vg_store_free)

/* Puts one window of a source, which is the provenance's series ("live", "replay:NAME"). provenance
 * and window are borrowed. The window has raw times; adding clock_offset_ns gives time since the
 * epoch. Windows without length, or more than 146 years from the epoch, are skipped. VMs with the
 * same UUID (or name, if they have none) are added up. Does not block. */
void vg_store_put_window(vg_store *store, const struct vg_provenance *provenance,
                         const struct vg_window *window, int64_t clock_offset_ns);

/* Returns the number of windows that are waiting to be written. It is 0 while writing fails, so
 * that a fast caller waits for a slow disk, but not for a failed disk. */
size_t vg_store_backlog(vg_store *store);

/* Waits until every window put until now is committed, writing fails, or the time limit has passed.
 * Returns false if not all are committed. */
bool vg_store_flush(vg_store *store, int64_t timeout_ns);

void vg_store_read_health(vg_store *store, struct vg_store_health *ret);

/* Returns the thread, for monitoring its heartbeat. */
const vg_thread *vg_store_thread(const vg_store *store);

/* ---- reading: blocks for as long as the disk takes ---- */

/* Reads rows (struct vg_history_row, with a clear function) in chronological order. Gaps are not
 * filled: a row starts and ends with the source's first and last window in its step. Fails with
 * VG_E_NOT_FOUND if the VM was never stored. Fails with VG_E_INVALID after reading
 * VG_HISTORY_ROWS_MAX rows if there are more; rows of the source count even without the VM.
 * Unreadable data is omitted and named in query->left_out. Fails with VG_E_IO if no other data
 * exist, and with VG_E_TIMEOUT if the query's deadline passes. */
GArray *vg_store_read_samples(vg_store *store, const struct vg_history_query *query, GError **err);

/* Reads the sums of all VMs over the windows that end in since < t <= until, for any since and
 * until; the query's vm and step are ignored. The sums use whole hours in the period, minutes at
 * the edges of the period, and windows at the edges of these, as long as they are kept. An hour
 * whose minutes have expired counts only if all of it is in the period. There is no VM if nothing
 * is stored. Errors are as above. */
vg_history_host *vg_store_read_host(vg_store *store, const struct vg_history_query *query,
                                    GError **err);

/* Reads the sums of the whole host (struct vg_history_step, with a clear function) in order of
 * time, one for each multiple of the query's step in which a window of the source ends; the query's
 * vm is ignored. Errors are those of samples; returns an empty array if there is nothing. */
GArray *vg_store_read_steps(vg_store *store, const struct vg_history_query *query, GError **err);

/* Returns the key, for queries, of the newest VM stored under this name; the caller frees it. Fails
 * with VG_E_NOT_FOUND if there was none, or with VG_E_IO if a part of the store is unreadable and
 * the rest does not have the VM. */
char *vg_store_find_vm(vg_store *store, const char *name, GError **err);

#endif
