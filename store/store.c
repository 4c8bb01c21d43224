/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "store/store-collect.h"
#include "store/store-private.h"
#include "store/store-read.h"

#define VG_LOG_TAG "store"

/* The number of idle reading connections that stay open. */
#define KEEP_READERS 4

vg_store *
vg_store_new(const struct vg_store_options *options, GError **err)
{
    vg_store *store = g_new0(vg_store, 1);

    pthread_mutex_init(&store->lock, NULL);
    vg_cond_init(&store->work);
    vg_cond_init(&store->done);
    store->directory = g_strdup(options->directory);
    store->vfs = g_strdup(options->vfs);
    store->retry_ns = options->retry_ns > 0 ? options->retry_ns : VG_NS_PER_S;
    store->limits = *options;
    store->readers = vg_store_pool_new(store->directory, store->vfs, KEEP_READERS);
    vg_store_writer_init(&store->writer, store->directory, store->vfs);
    store->lock_fd = -1;
    vg_store_ring_init(&store->ring, (guint)CLAMP(options->memory_windows, 1, INT32_MAX));
    store->opening = true;
    store->thread = vg_thread_new("store", vg_store_thread_run, vg_store_thread_wake, store, err);
    if (store->thread)
        return store;
    vg_store_writer_clear(&store->writer);
    vg_store_free(store);
    return NULL;
}

void
vg_store_set_limits(vg_store *store, const struct vg_store_options *options)
{
    VG_LOCK_SCOPE(&store->lock);
    store->limits.raw_days = options->raw_days;
    store->limits.minute_days = options->minute_days;
    store->limits.hour_days = options->hour_days;
    store->limits.lost_top = options->lost_top;
    store->limits.log_commits = options->log_commits;
}

void
vg_store_free(vg_store *store)
{
    if (!store)
        return;
    vg_thread_free(store->thread);
    vg_store_pool_free(store->readers);
    vg_store_ring_clear(&store->ring);
    vg_store_cast_unref(store->cast);
    pthread_cond_destroy(&store->work);
    pthread_cond_destroy(&store->done);
    pthread_mutex_destroy(&store->lock);
    g_free(store->directory);
    g_free(store->vfs);
    g_free(store);
}

/* Converts the times of a window to the epoch. Returns false if there is nothing to store, or if no
 * file name could represent the time. */
static bool
epoch_times(const struct vg_window *window, int64_t offset_ns, int64_t *ret_begin_ns,
            int64_t *ret_end_ns)
{
    return !__builtin_add_overflow(window->begin_ns, offset_ns, ret_begin_ns) &&
           !__builtin_add_overflow(window->end_ns, offset_ns, ret_end_ns) &&
           *ret_begin_ns<*ret_end_ns && * ret_begin_ns> - VG_STORE_TIME_LIMIT &&
           *ret_end_ns < VG_STORE_TIME_LIMIT;
}

void
vg_store_put_window(vg_store *store, const struct vg_provenance *provenance,
                    const struct vg_window *window, int64_t clock_offset_ns)
{
    int64_t begin_ns, end_ns;

    if (!epoch_times(window, clock_offset_ns, &begin_ns, &end_ns))
        return;
    pthread_mutex_lock(&store->lock);
    struct vg_store_cast *cast = store->cast ? vg_store_cast_ref(store->cast) : NULL;
    pthread_mutex_unlock(&store->lock);
    struct vg_store_window *packed =
        vg_store_window_new(provenance, window, begin_ns, end_ns, cast);
    pthread_mutex_lock(&store->lock);
    if (store->cast != packed->cast) {
        vg_store_cast_unref(store->cast);
        store->cast = vg_store_cast_ref(packed->cast);
    }
    vg_store_ring_put(&store->ring, packed);
    pthread_cond_signal(&store->work);
    pthread_mutex_unlock(&store->lock);
    vg_store_cast_unref(cast);
}

size_t
vg_store_backlog(vg_store *store)
{
    VG_LOCK_SCOPE(&store->lock);
    return store->troubles[VG_PART_WINDOWS].failing ? 0 : store->ring.pending;
}

bool
vg_store_flush(vg_store *store, int64_t timeout_ns)
{
    int64_t until = vg_clock_monotonic_ns() + MIN(timeout_ns, VG_STORE_TIME_LIMIT);

    VG_LOCK_SCOPE(&store->lock);
    uint64_t number = store->ring.numbers;
    uint64_t dropped = store->ring.dropped;
    while (vg_store_ring_waits(&store->ring, number)) {
        if (store->troubles[VG_PART_WINDOWS].failing ||
            !vg_cond_wait_until(&store->done, &store->lock, until))
            break;
    }
    return !vg_store_ring_waits(&store->ring, number) && store->ring.dropped == dropped;
}

void
vg_store_read_health(vg_store *store, struct vg_store_health *ret)
{
    VG_LOCK_SCOPE(&store->lock);
    *ret = (struct vg_store_health){
        .state = store->opening ? VG_STORE_OPENING : VG_STORE_OK,
        .committed = store->ring.committed,
        .pending = store->ring.pending,
        .dropped = store->ring.dropped,
        .failures = store->failures,
        .newest_ns = store->ring.newest_ns,
        .bytes = store->bytes,
        .free_bytes = store->free_bytes,
    };
    memcpy(ret->expired_ns, store->expired_ns, sizeof(ret->expired_ns));
    for (int i = 0; i < VG_PART_MAX && ret->state != VG_STORE_FAILING; i++) {
        if (!store->troubles[i].failing)
            continue;
        ret->state = VG_STORE_FAILING;
        ret->trouble = store->troubles[i].code;
        g_strlcpy(ret->reason, store->troubles[i].reason, sizeof(ret->reason));
    }
}

const vg_thread *
vg_store_thread(const vg_store *store)
{
    return store->thread;
}

/* ---- reading ---- */

static GPtrArray *
windows_in_memory(vg_store *store, bool all)
{
    VG_LOCK_SCOPE(&store->lock);
    return vg_store_ring_copy(&store->ring, all);
}

typedef GArray *store_reader(const char *directory, vg_store_pool *pool, const GPtrArray *windows,
                             const struct vg_history_query *query, GError **ret_failed,
                             GError **err);

static GArray *
store_read(vg_store *store, store_reader *read, const struct vg_history_query *query, GError **err)
{
    g_autoptr(GError) failed = NULL, error = NULL, ignored = NULL;
    g_autoptr(GPtrArray) waiting = windows_in_memory(store, false);
    GArray *rows = read(store->directory, store->readers, waiting, query, &failed, &error);

    if (!failed && (rows ? rows->len > 0 : !g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND))) {
        if (error)
            g_propagate_error(err, g_steal_pointer(&error));
        return rows;
    }
    if (g_error_matches(failed, VG_ERROR, VG_E_TIMEOUT)) {
        g_clear_pointer(&rows, g_array_unref);
        g_propagate_error(err, g_steal_pointer(&failed));
        return NULL;
    }
    /* Data that is unreadable on disk, or was in a damaged file that was moved aside, may still be
     * in memory. */
    if (query->left_out)
        g_ptr_array_set_size(query->left_out, 0);
    g_autoptr(GPtrArray) all = windows_in_memory(store, true);
    g_autoptr(GError) failed_again = NULL;
    GArray *kept = read(store->directory, store->readers, all, query, &failed_again, &ignored);
    /* The second answer decides what is missing: the first failure may have been temporary. */
    if (kept && (failed_again ? kept->len > 0 : failed || kept->len > 0 || !rows)) {
        if (failed_again)
            vg_log_warn_limited("part of the history cannot be read and is missing: %s",
                                failed_again->message);
        g_clear_pointer(&rows, g_array_unref);
        return kept;
    }
    g_clear_pointer(&kept, g_array_unref);
    if (failed) {
        g_clear_pointer(&rows, g_array_unref);
        vg_error(err, VG_E_IO, "%s", failed->message);
        return NULL;
    }
    if (error)
        g_propagate_error(err, g_steal_pointer(&error));
    return rows;
}

GArray *
vg_store_read_samples(vg_store *store, const struct vg_history_query *query, GError **err)
{
    return store_read(store, vg_store_read_rows, query, err);
}

GArray *
vg_store_read_steps(vg_store *store, const struct vg_history_query *query, GError **err)
{
    return store_read(store, vg_store_read_steps_of, query, err);
}

vg_history_host *
vg_store_read_host(vg_store *store, const struct vg_history_query *query, GError **err)
{
    g_autoptr(GError) failed = NULL;
    g_autoptr(GPtrArray) waiting = windows_in_memory(store, false);
    g_autoptr(vg_history_host) host =
        vg_store_read_total(store->directory, store->readers, waiting, query, &failed);

    if (failed && !g_error_matches(failed, VG_ERROR, VG_E_TIMEOUT)) {
        /* Data that is unreadable on disk may still be in memory. */
        g_autoptr(GPtrArray) all = windows_in_memory(store, true);
        g_clear_error(&failed);
        g_clear_pointer(&host, vg_history_host_free);
        if (query->left_out)
            g_ptr_array_set_size(query->left_out, 0);
        host = vg_store_read_total(store->directory, store->readers, all, query, &failed);
        if (failed && host->windows > 0) {
            vg_log_warn_limited("part of a host's sums cannot be read and is missing: %s",
                                failed->message);
            g_clear_error(&failed);
        }
    }
    if (!failed)
        return g_steal_pointer(&host);
    if (g_error_matches(failed, VG_ERROR, VG_E_TIMEOUT))
        g_propagate_error(err, g_steal_pointer(&failed));
    else
        vg_error(err, VG_E_IO, "%s", failed->message);
    return NULL;
}

char *
vg_store_find_vm(vg_store *store, const char *name, GError **err)
{
    g_autoptr(GPtrArray) windows = windows_in_memory(store, true);
    g_autoptr(GError) failed = NULL;
    char *key = vg_store_read_key(store->directory, store->readers, windows, name, &failed);

    if (!key && failed)
        vg_error(err, VG_E_IO, "%s", failed->message);
    else if (!key)
        vg_error(err, VG_E_NOT_FOUND, "nothing is stored about VM '%s'", name);
    return key;
}
