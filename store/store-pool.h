/* SPDX-License-Identifier: Apache-2.0
 *
 * Open connections, for the next caller that needs one. They are lent to one thread at a time. Some
 * of those that are not lent are kept, the last used ones longest. A connection whose file has been
 * removed or replaced is not lent again. Any thread may call any function, except free.
 */
#ifndef VG_STORE_STORE_POOL_H
#define VG_STORE_STORE_POOL_H

#include "store/store-file.h"

typedef struct vg_store_pool vg_store_pool;

/* Makes a pool. keep is the number of connections that stay open while they are not used. */
vg_store_pool *vg_store_pool_new(const char *directory, const char *vfs, guint keep);
void vg_store_pool_free(vg_store_pool *pool);

/* Lends a connection. mode: one pool is for reading or for writing. Errors are those of
 * vg_store_file_open(). */
struct vg_store_file *vg_store_pool_get(vg_store_pool *pool, enum vg_store_kind kind, int64_t stamp,
                                        enum vg_store_mode mode, GError **err);

/* Takes a connection back. failed: it is closed, and not committed. NULL is fine. */
void vg_store_pool_put(vg_store_pool *pool, struct vg_store_file *file, bool failed);

/* Closes the connections to a file, and those that are lent when they come back. */
void vg_store_pool_forget(vg_store_pool *pool, enum vg_store_kind kind, int64_t stamp);

/* Does the same, and moves the file with its log to path + suffix, or removes it if that is NULL.
 * Meanwhile it is not opened here. Returns -1 if the file is still there. */
int vg_store_pool_take_away(vg_store_pool *pool, enum vg_store_kind kind, int64_t stamp,
                            const char *suffix, GError **err);

#endif
