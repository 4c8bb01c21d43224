/* SPDX-License-Identifier: Apache-2.0
 *
 * Open connections for reuse. A connection is lent to one thread at a time. Some unused connections
 * are kept open; the least recently used are closed first. A connection whose file was removed or
 * replaced is not lent again. Any thread may call any function, except free.
 */
#ifndef VG_STORE_STORE_POOL_H
#define VG_STORE_STORE_POOL_H

#include "store/store-file.h"

typedef struct vg_store_pool vg_store_pool;

/* Creates a pool. keep is the number of unused connections that stay open. */
vg_store_pool *vg_store_pool_new(const char *directory, const char *vfs, guint keep);
void vg_store_pool_free(vg_store_pool *pool);

/* Lends a connection. All connections of a pool must have the same mode, for reading or for
 * writing. Fails like vg_store_file_open(). */
struct vg_store_file *vg_store_pool_get(vg_store_pool *pool, enum vg_store_kind kind, int64_t stamp,
                                        enum vg_store_mode mode, GError **err);

/* Returns a connection to the pool, or, if failed, closes it without committing. NULL is
 * accepted. */
void vg_store_pool_put(vg_store_pool *pool, struct vg_store_file *file, bool failed);

/* Closes the connections to a file; lent ones are closed when they are returned. */
void vg_store_pool_forget(vg_store_pool *pool, enum vg_store_kind kind, int64_t stamp);

/* Does the same as vg_store_pool_forget(), and moves the file with its log to path + suffix, or
 * removes it if suffix is NULL. The pool cannot open the file in the meantime. Returns -1 if the
 * file still exists. */
int vg_store_pool_take_away(vg_store_pool *pool, enum vg_store_kind kind, int64_t stamp,
                            const char *suffix, GError **err);

#endif
