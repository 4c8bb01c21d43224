/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers queries from the files and from windows in memory. Any thread.
 */
#ifndef VG_STORE_STORE_READ_H
#define VG_STORE_STORE_READ_H

#include "model/history.h"
#include "store/store-pool.h"
#include "store/store-window.h"

/* The windows (struct vg_store_window, in the order in which they were put) replace what they
 * overlap on disk. What cannot be read is left out and *ret_failed (may be NULL on success of the
 * rest) set to the first cause. Errors of the query itself are as in store.h. */
GArray *vg_store_read_rows(const char *directory, vg_store_pool *pool, const GPtrArray *windows,
                           const struct vg_history_query *query, GError **ret_failed, GError **err);

/* Sums of all VMs; step and vm of the query are not looked at. Never NULL; what cannot be read is
 * left out, as above. */
vg_history_host *vg_store_read_total(const char *directory, vg_store_pool *pool,
                                     const GPtrArray *windows, const struct vg_history_query *query,
                                     GError **ret_failed);

/* The key of the newest VM that had this name, in the windows or else in the files; the caller
 * frees it. NULL: there was none, or *ret_failed as above. */
char *vg_store_read_key(const char *directory, vg_store_pool *pool, const GPtrArray *windows,
                        const char *name, GError **ret_failed);

#endif
