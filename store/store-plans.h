/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans in state.db.
 */
#ifndef VG_STORE_STORE_PLANS_H
#define VG_STORE_STORE_PLANS_H

#include "model/history.h"
#include "store/store-pool.h"

/* One transaction; the same id again changes nothing; those beyond VG_STORE_PLANS_MAX go. pool: for
 * writing. */
int vg_store_plans_write(vg_store_pool *pool, const struct vg_saved_plan *plan, GError **err);

/* NULL and VG_E_NOT_FOUND if there is no such plan, also when there is no state.db. pool: for
 * reading. */
struct vg_saved_plan *vg_store_plans_read(vg_store_pool *pool, const char *id, GError **err);

/* Appends at most limit plans made before before_ns to the list, the newest first, without text. */
int vg_store_plans_list(vg_store_pool *pool, int64_t before_ns, size_t limit, GPtrArray *list,
                        GError **err);

/* The order of lists: newest first, then by id. Of struct vg_saved_plan **. */
int vg_store_plans_compare(const void *a, const void *b);

#endif
