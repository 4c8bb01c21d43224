/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers queries from the files and from windows in memory. Any thread.
 */
#ifndef VG_STORE_STORE_READ_H
#define VG_STORE_STORE_READ_H

#include "model/history.h"
#include "store/store-pool.h"
#include "store/store-window.h"

/* Reads rows. The windows (struct vg_store_window, in put order) replace the data on disk that they
 * overlap. Unreadable data is omitted, and *ret_failed (which may be NULL) is set to the first
 * cause. Errors of the query itself are as in store.h. */
GArray *vg_store_read_rows(const char *directory, vg_store_pool *pool, const GPtrArray *windows,
                           const struct vg_history_query *query, GError **ret_failed, GError **err);

/* Reads steps (struct vg_history_step) of the whole host; the query's vm is ignored. Works as
 * vg_store_read_rows(), except that an empty result is no error. */
GArray *vg_store_read_steps_of(const char *directory, vg_store_pool *pool, const GPtrArray *windows,
                               const struct vg_history_query *query, GError **ret_failed,
                               GError **err);

/* Reads the sums of all VMs; the query's step and vm are ignored. Never returns NULL; unreadable
 * data is omitted, as above. */
vg_history_host *vg_store_read_total(const char *directory, vg_store_pool *pool,
                                     const GPtrArray *windows, const struct vg_history_query *query,
                                     GError **ret_failed);

/* Returns the key of the newest VM that had this name, in the windows or otherwise in the files;
 * the caller frees it. Returns NULL if there was none; *ret_failed is as above. */
char *vg_store_read_key(const char *directory, vg_store_pool *pool, const GPtrArray *windows,
                        const char *name, GError **ret_failed);

#endif
