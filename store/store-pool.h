/* SPDX-License-Identifier: Apache-2.0
 *
 * Open connections, for whoever needs one next. Lent to one thread at a time; those that nobody
 * has are kept, a few of them, the last used longest. A connection whose file has been removed or
 * replaced is not lent again. Any thread may call any function, but for free.
 */
#ifndef VG_STORE_STORE_POOL_H
#define VG_STORE_STORE_POOL_H

#include "store/store-file.h"

typedef struct vg_store_pool vg_store_pool;

/* keep: connections that stay open while nobody uses them. */
vg_store_pool *vg_store_pool_new(const char *directory, const char *vfs, guint keep);
void vg_store_pool_free(vg_store_pool *pool);

/* mode: one pool is for reading or for writing. Errors as of vg_store_file_open(). */
struct vg_store_file *vg_store_pool_get(vg_store_pool *pool, enum vg_store_kind kind, int64_t stamp,
                                        enum vg_store_mode mode, GError **err);

/* Gives it back. failed: it is closed, with what it has not committed. NULL is fine. */
void vg_store_pool_put(vg_store_pool *pool, struct vg_store_file *file, bool failed);

/* Closes the connections to a file, those that are lent when they come back. */
void vg_store_pool_forget(vg_store_pool *pool, enum vg_store_kind kind, int64_t stamp);

/* Likewise, and takes the file away with its log: to path + suffix, or for good (NULL). Meanwhile
 * nobody opens it here. -1: the file is still there. */
int vg_store_pool_take_away(vg_store_pool *pool, enum vg_store_kind kind, int64_t stamp,
                            const char *suffix, GError **err);

#endif
