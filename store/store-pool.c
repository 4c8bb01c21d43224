/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store-pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread.h"
#include "store/store-sql.h"

struct vg_store_pool {
    pthread_mutex_t lock;
    char *directory;
    char *vfs;
    guint keep;
    GPtrArray *files; /* struct vg_store_file; the idle ones are sorted by last use, newest last */
};

vg_store_pool *
vg_store_pool_new(const char *directory, const char *vfs, guint keep)
{
    vg_store_pool *pool = g_new0(vg_store_pool, 1);

    pthread_mutex_init(&pool->lock, NULL);
    pool->directory = g_strdup(directory);
    pool->vfs = g_strdup(vfs);
    pool->keep = keep;
    pool->files = g_ptr_array_new();
    return pool;
}

void
vg_store_pool_free(vg_store_pool *pool)
{
    if (!pool)
        return;
    for (guint i = 0; i < pool->files->len; i++)
        vg_store_file_close(pool->files->pdata[i]);
    g_ptr_array_unref(pool->files);
    pthread_mutex_destroy(&pool->lock);
    g_free(pool->directory);
    g_free(pool->vfs);
    g_free(pool);
}

/* Returns an idle connection to the current file, or NULL. Called under the lock. */
static struct vg_store_file *
find_free(vg_store_pool *pool, enum vg_store_kind kind, int64_t stamp)
{
    for (guint i = pool->files->len; i > 0; i--) {
        struct vg_store_file *file = pool->files->pdata[i - 1];
        if (file->lent || file->kind != kind || file->stamp != stamp)
            continue;
        if (vg_store_file_is_current(file))
            return file;
        g_ptr_array_remove_index(pool->files, i - 1);
        vg_store_file_close(file);
    }
    return NULL;
}

struct vg_store_file *
vg_store_pool_get(vg_store_pool *pool, enum vg_store_kind kind, int64_t stamp,
                  enum vg_store_mode mode, GError **err)
{
    /* Open under the lock: if a file were removed between opening its database and its log, an
     * orphaned log would remain. */
    VG_LOCK_SCOPE(&pool->lock);
    struct vg_store_file *file = find_free(pool, kind, stamp);

    if (!file) {
        file = vg_store_file_open(pool->directory, pool->vfs, kind, stamp, mode, err);
        if (!file)
            return NULL;
        g_ptr_array_add(pool->files, file);
    }
    file->lent = true;
    return file;
}

/* Closes the idle connections with the oldest last use. Called under the lock. */
static void
close_surplus(vg_store_pool *pool)
{
    guint unused = 0;

    for (guint i = pool->files->len; i > 0; i--) {
        struct vg_store_file *file = pool->files->pdata[i - 1];
        if (file->lent || ++unused <= pool->keep)
            continue;
        g_ptr_array_remove_index(pool->files, i - 1);
        vg_store_file_close(file);
    }
}

void
vg_store_pool_put(vg_store_pool *pool, struct vg_store_file *file, bool failed)
{
    if (!file)
        return;
    VG_LOCK_SCOPE(&pool->lock);
    g_ptr_array_remove(pool->files, file);
    /* A reader of an older version would not see what the writer adds. */
    if (failed || file->doomed || file->version < vg_sql_newest_version()) {
        vg_store_file_close(file);
        return;
    }
    file->lent = false;
    g_ptr_array_add(pool->files, file);
    close_surplus(pool);
}

/* Called under the lock. */
static void
forget(vg_store_pool *pool, enum vg_store_kind kind, int64_t stamp)
{
    for (guint i = pool->files->len; i > 0; i--) {
        struct vg_store_file *file = pool->files->pdata[i - 1];
        if (file->kind != kind || file->stamp != stamp)
            continue;
        file->doomed = true;
        if (file->lent)
            continue;
        g_ptr_array_remove_index(pool->files, i - 1);
        vg_store_file_close(file);
    }
}

void
vg_store_pool_forget(vg_store_pool *pool, enum vg_store_kind kind, int64_t stamp)
{
    VG_LOCK_SCOPE(&pool->lock);
    forget(pool, kind, stamp);
}

int
vg_store_pool_take_away(vg_store_pool *pool, enum vg_store_kind kind, int64_t stamp,
                        const char *suffix, GError **err)
{
    static const char *const parts[] = {"", "-wal", "-shm"};
    char name[VG_STORE_NAME_MAX];

    vg_store_file_name(kind, stamp, name);
    VG_LOCK_SCOPE(&pool->lock);
    forget(pool, kind, stamp);
    for (guint i = 0; i < G_N_ELEMENTS(parts); i++) {
        g_autofree char *from = g_strdup_printf("%s/%s%s", pool->directory, name, parts[i]);
        g_autofree char *to =
            suffix ? g_strdup_printf("%s/%s%s%s", pool->directory, name, suffix, parts[i]) : NULL;
        int status = to ? rename(from, to) : unlink(from);
        /* sqlite drops a log without a database when it creates a new one. */
        if (status != 0 && errno != ENOENT && i == 0)
            return vg_error_errno(err, errno, "cannot %s '%s'", to ? "rename" : "remove", from);
    }
    return 0;
}
