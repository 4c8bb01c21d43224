/* SPDX-License-Identifier: Apache-2.0
 *
 * The store: what has been measured, on disk and, for the newest part, in memory. It owns one
 * thread, `store`, which is the only writer of ts-YYYYMMDD.db          windows; UTC day of their
 * end              synchronous=NORMAL, WAL ts1m-YYYYMM.db          sums over minutes of these;
 * month of ...   synchronous=FULL, WAL ts1h-YYYY.db            sums over hours of minutes; year of
 * ...    likewise
 * ... where the minute or hour begins. A minute is summed when a window of the next one has come,
 * when the store is closed, and after a crash; always of all that is committed. Each file keeps the
 * schema it was born with (PRAGMA user_version) until something is added to it; one of a newer
 * version is neither read nor written. One transaction per window; after COMMIT the thread logs
 * `window committed end_ns=N vms=N` (epoch). Writing a window of a source again replaces what that
 * source had stored of that time.
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
#include "model/provenance.h"
#include "model/window.h"

struct vg_store_options {
    const char *directory; /* made if its parent is there; mode 0750 */
    int64_t raw_days;      /* the days for which windows, minutes and hours are kept; >= 1 */
    int64_t minute_days;
    int64_t hour_days;
    /* the number of aggressors that are stored per VM and row; the losses to others are "rest" */
    int64_t lost_top;
    int64_t memory_windows; /* the number of the newest windows that are kept in memory */
    bool log_commits;       /* `window committed` is logged at info, otherwise at debug */
    const char *vfs;        /* the sqlite VFS to use, for tests; NULL for the default */
    int64_t retry_ns;       /* the pause before writing is tried again; 0 for a second */
};

typedef struct vg_store vg_store;

/* Starts the thread and returns at once; vg_store_read_health() reports trouble with the disk.
 * options is copied. Returns NULL and sets *err only if no thread can be started. */
vg_store *vg_store_new(const struct vg_store_options *options, GError **err);

/* Changes retention, lost_top and log_commits; the other options are ignored. */
void vg_store_set_limits(vg_store *store, const struct vg_store_options *options);

/* Writes the windows that wait, if the disk permits, for at most a few seconds, and ends. */
void vg_store_free(vg_store *store);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_store, vg_store_free)

/* Puts one window of a source, which is the series that the provenance names ("live",
 * "replay:NAME"). provenance and window are borrowed; the window has raw times; plus
 * clock_offset_ns they are since the epoch. One without length, or more than 146 years from the
 * epoch, is passed over. VMs with the same UUID (or name, if they have none) become one, their sum.
 * Does not block. */
void vg_store_put_window(vg_store *store, const struct vg_provenance *provenance,
                         const struct vg_window *window, int64_t clock_offset_ns);

/* Returns the number of windows that wait to be written; 0 while writing does not work, so that a
 * fast caller waits for the disk but not for its repair. */
size_t vg_store_backlog(vg_store *store);

/* Waits until every window so far is committed, writing fails, or the time is over. Returns false
 * if not all are committed. */
bool vg_store_flush(vg_store *store, int64_t timeout_ns);

void vg_store_read_health(vg_store *store, struct vg_store_health *ret);

/* Returns the thread, whose heartbeat is watched. */
const vg_thread *vg_store_thread(const vg_store *store);

/* ---- reading: blocks for as long as the disk takes ---- */

/* Reads rows (struct vg_history_row, with a clear function) in the order of time. Gaps stay gaps: a
 * row begins and ends with the first and last window of the source in its step. Fails with
 * VG_E_NOT_FOUND if the VM was never stored, and with VG_E_INVALID for more than
 * VG_HISTORY_ROWS_MAX rows, once so many are read; rows of the source count even if the VM is not
 * in them. What cannot be read is left out and named in query->left_out. Fails with VG_E_IO if
 * nothing else is there, and with VG_E_TIMEOUT if reading takes longer than the query allows. */
GArray *vg_store_read_samples(vg_store *store, const struct vg_history_query *query, GError **err);

/* Reads the sums of all VMs over the windows that end in since < t <= until, whatever since and
 * until are; the query's vm and step are ignored. They are made of hours that lie in the period
 * wholly, of minutes at its edges, and of windows at theirs, as long as these are kept: an hour
 * whose minutes are gone counts only if all of it is in the period. There is no VM if nothing is
 * stored. Errors are as above. */
vg_history_host *vg_store_read_host(vg_store *store, const struct vg_history_query *query,
                                    GError **err);

/* Reads the sums of the whole host (struct vg_history_step, with a clear function) in the order of
 * time, one for each multiple of the query's step in which a window of the source ends; the query's
 * vm is ignored. Errors are as those of samples; an empty array if there is nothing. */
GArray *vg_store_read_steps(vg_store *store, const struct vg_history_query *query, GError **err);

/* Returns the key, for the queries, of the newest VM that was stored under this name; the caller
 * frees it. Fails with VG_E_NOT_FOUND if there was none, or with VG_E_IO if a part of the store
 * cannot be read, and the VM is not in the rest. */
char *vg_store_find_vm(vg_store *store, const char *name, GError **err);

#endif
