/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/store-dir.h"
#include "store/store-private.h"

#define VG_LOG_TAG "store"

#define DAY_NS (86400 * VG_NS_PER_S)

/* The interval of heartbeats. */
#define BEAT_NS (500 * VG_NS_PER_MS)

/* The maximum time for waiting data at the end. */
#define END_NS (3 * VG_NS_PER_S)

#define CLEAN_PAUSE_NS (3600 * VG_NS_PER_S)
#define BYTES_PAUSE_NS (60 * VG_NS_PER_S)

/* A new store is measured sooner, so that it is not reported as empty for a minute. */
#define NEW_WINDOWS        60
#define NEW_BYTES_PAUSE_NS (5 * VG_NS_PER_S)

/* The maximum number of damaged files of the same name. */
#define CORRUPT_MAX 1000

/* ---- trouble ---- */

static bool
may_try(vg_store *store, enum vg_store_part part)
{
    const struct vg_store_trouble *trouble = &store->troubles[part];

    return !trouble->failing || vg_clock_monotonic_ns() >= trouble->retry_ns;
}

/* Records a failure. Called on the thread. Frees the error. */
static void
store_thread_fail(vg_store *store, enum vg_store_part part, GError *take_error)
{
    struct vg_store_trouble *trouble = &store->troubles[part];

    pthread_mutex_lock(&store->lock);
    bool is_new = !trouble->failing || strcmp(trouble->reason, take_error->message) != 0;
    if (!trouble->failing)
        trouble->dropped = store->ring.dropped;
    trouble->failing = true;
    trouble->retry_ns = vg_clock_monotonic_ns() + store->retry_ns;
    trouble->code = (enum vg_trouble)vg_error_detail(take_error);
    g_strlcpy(trouble->reason, take_error->message, sizeof(trouble->reason));
    store->failures++;
    store->opening = false;
    pthread_cond_broadcast(&store->done);
    pthread_mutex_unlock(&store->lock);
    if (is_new)
        vg_log_turn(&trouble->turns, VG_LOG_WARN, VG_LOG_TAG, "%s, trying again",
                    take_error->message);
    g_error_free(take_error);
}

static void
succeed(vg_store *store, enum vg_store_part part)
{
    struct vg_store_trouble *trouble = &store->troubles[part];

    if (!trouble->failing)
        return;
    pthread_mutex_lock(&store->lock);
    trouble->failing = false;
    uint64_t dropped = store->ring.dropped - trouble->dropped;
    guint pending = store->ring.pending;
    pthread_cond_broadcast(&store->done);
    pthread_mutex_unlock(&store->lock);
    if (part == VG_PART_WINDOWS)
        vg_log_turn(&trouble->turns, VG_LOG_NOTICE, VG_LOG_TAG,
                    "writing resumed, waiting=%u dropped=%" PRIu64, pending, dropped);
    else
        vg_log_turn(&trouble->turns, VG_LOG_NOTICE, VG_LOG_TAG, "writing of sums resumed");
}

/* Moves a damaged file aside, so that a new one can be created. Returns false for other errors, or
 * if the file cannot be moved. */
static bool
move_aside(vg_store *store, enum vg_store_kind kind, int64_t stamp, const GError *error)
{
    char name[VG_STORE_NAME_MAX];
    g_autoptr(GError) problem = NULL;

    if (!g_error_matches(error, VG_ERROR, VG_E_INVALID))
        return false;
    vg_store_file_name(kind, stamp, name);
    for (int i = 1; i <= CORRUPT_MAX; i++) {
        g_autofree char *suffix = g_strdup_printf(VG_STORE_ASIDE "%d", i);
        g_autofree char *path = g_strdup_printf("%s/%s%s", store->directory, name, suffix);
        if (g_file_test(path, G_FILE_TEST_EXISTS))
            continue;
        vg_store_pool_forget(store->writer.pool, kind, stamp);
        if (vg_store_pool_take_away(store->readers, kind, stamp, suffix, &problem) != 0)
            break;
        vg_log_err("%s; moved it aside to=\"%s\", starting with an empty store", error->message,
                   path);
        return true;
    }
    vg_log_warn_limited("cannot move the damaged file aside: %s",
                        problem ? problem->message : "there are too many damaged files already");
    return false;
}

static bool
handle_failed_file(vg_store *store, const GError *error)
{
    const struct vg_store_failed *failed = &store->writer.failed;

    return move_aside(store, failed->kind, failed->stamp, error);
}

/* ---- the directory ---- */

static const enum vg_stored store_thread_stored[] = {
    [VG_STORE_WINDOWS] = VG_STORED_WINDOWS,
    [VG_STORE_MINUTES] = VG_STORED_MINUTES,
    [VG_STORE_HOURS] = VG_STORED_HOURS,
};

/* Returns for how many days files of a kind are retained. */
static int64_t
days_of(vg_store *store, enum vg_store_kind kind)
{
    VG_LOCK_SCOPE(&store->lock);
    int64_t days = kind == VG_STORE_WINDOWS   ? store->limits.raw_days
                   : kind == VG_STORE_MINUTES ? store->limits.minute_days
                                              : store->limits.hour_days;

    return CLAMP(days, 1, VG_STORE_TIME_LIMIT / DAY_NS);
}

/* Returns the newest time in the store, which limits the current time: a clock that is years ahead
 * at boot must not delete everything. */
static int64_t
newest_of(vg_store *store, enum vg_store_kind kind, const GArray *stamps)
{
    int64_t newest_ns = INT64_MIN;

    for (guint i = 0; i < stamps->len; i++) {
        int64_t stamp = g_array_index(stamps, int64_t, i);
        newest_ns = MAX(newest_ns, vg_store_stamp_begin_ns(kind, stamp + 1));
        newest_ns = MAX(newest_ns, vg_store_dir_written_ns(store->directory, kind, stamp));
    }
    return newest_ns;
}

/* Returns whether a file can be removed: neither its period nor its last change is within the
 * retained days. A recording of an old period is thus retained as long as one of today. */
static bool
is_past(vg_store *store, enum vg_store_kind kind, int64_t stamp, int64_t now_ns)
{
    const int64_t kept_ns = days_of(store, kind) * DAY_NS;

    /* No file is that old. now_ns is INT64_MIN if the files were removed in the meantime. */
    if (now_ns < INT64_MIN + kept_ns)
        return false;
    const int64_t limit_ns = now_ns - kept_ns;
    return vg_store_stamp_begin_ns(kind, stamp + 1) <= limit_ns &&
           vg_store_dir_written_ns(store->directory, kind, stamp) <= limit_ns;
}

static void
remove_file(vg_store *store, enum vg_store_kind kind, int64_t stamp)
{
    char name[VG_STORE_NAME_MAX];
    g_autoptr(GError) error = NULL;

    vg_store_file_name(kind, stamp, name);
    vg_store_pool_forget(store->writer.pool, kind, stamp);
    if (vg_store_pool_take_away(store->readers, kind, stamp, NULL, &error) != 0) {
        vg_log_warn_limited("%s", error->message);
        return;
    }
    vg_log_info("removed file=\"%s\" kept_days=%" PRId64, name, days_of(store, kind));
    VG_LOCK_SCOPE(&store->lock);
    store->expired_ns[store_thread_stored[kind]] =
        MAX(store->expired_ns[store_thread_stored[kind]], vg_store_stamp_begin_ns(kind, stamp + 1));
}

static void
remove_old(vg_store *store)
{
    for (enum vg_store_kind kind = VG_STORE_WINDOWS; kind <= VG_STORE_HOURS; kind++) {
        g_autoptr(GArray) stamps =
            vg_store_dir_list(store->directory, kind, INT64_MIN, INT64_MAX, NULL);
        int64_t now_ns = MIN(vg_clock_realtime_ns(), newest_of(store, kind, stamps));
        for (guint i = 0; i < stamps->len; i++) {
            if (is_past(store, kind, g_array_index(stamps, int64_t, i), now_ns))
                remove_file(store, kind, g_array_index(stamps, int64_t, i));
        }
    }
}

/* Returns 0 if the directory exists and is locked by this vgpud. */
static int
hold_directory(vg_store *store, GError **err)
{
    if (store->lock_fd >= 0) {
        if (vg_store_dir_is_ours(store->directory, store->lock_fd))
            return 0;
        close(store->lock_fd);
    }
    store->lock_fd = vg_store_dir_lock(store->directory, err);
    return store->lock_fd < 0 ? -1 : 0;
}

static void
measure_bytes(vg_store *store)
{
    int64_t bytes = vg_store_dir_bytes(store->directory);
    int64_t free_bytes = vg_store_dir_free_bytes(store->directory);

    VG_LOCK_SCOPE(&store->lock);
    store->bytes = bytes;
    store->free_bytes = free_bytes;
}

/* ---- the thread's work ---- */

/* Returns false if the thread is to end and has tried for long enough. */
static bool
has_time(vg_store *store)
{
    vg_thread_beat(store->self);
    if (store->end_ns == 0 && vg_thread_stopping(store->self))
        store->end_ns = vg_clock_monotonic_ns() + END_NS;
    return store->end_ns == 0 || vg_clock_monotonic_ns() < store->end_ns;
}

static int
try_sums(vg_store *store, bool all, GError **err)
{
    struct vg_store_writer *writer = &store->writer;
    g_autoptr(GError) error = NULL;

    store->recovered = store->recovered || vg_store_writer_recover(writer, &error) == 0;
    if (!error)
        return vg_store_write_sums(writer, all, err);
    /* A damaged file is moved aside immediately. An unreadable file does not stop the others. */
    struct vg_store_failed failed = writer->failed;
    if (!g_error_matches(error, VG_ERROR, VG_E_INVALID))
        (void)!vg_store_write_sums(writer, all, NULL);
    writer->failed = failed;
    g_propagate_error(err, g_steal_pointer(&error));
    return -1;
}

/* Writes the sums of completed minutes and hours, or with `all` also of current ones. */
static void
write_sums(vg_store *store, bool all)
{
    GError *error = NULL;

    if (!may_try(store, VG_PART_SUMS))
        return;
    int status = try_sums(store, all, &error);
    store->sums_left = status == 1;
    if (status >= 0) {
        succeed(store, VG_PART_SUMS);
        return;
    }
    if (!handle_failed_file(store, error)) {
        store_thread_fail(store, VG_PART_SUMS, error);
        return;
    }
    /* The damaged file's sums are computed again, as far as finer data exists. */
    g_error_free(error);
    store->recovered = false;
    store->sums_left = true;
}

static void
log_committed(vg_store *store, const struct vg_store_window *window)
{
    pthread_mutex_lock(&store->lock);
    bool loudly = store->limits.log_commits;
    pthread_mutex_unlock(&store->lock);
    vg_log(loudly ? VG_LOG_INFO : VG_LOG_DEBUG, VG_LOG_TAG,
           "window committed end_ns=%" PRId64 " vms=%u", window->end_ns, window->cast->n_slots);
}

/* Returns 0 if the window is on disk. */
static int
write_window(vg_store *store, const struct vg_store_window *window, GError **err)
{
    GError *error = NULL;

    if (hold_directory(store, err) != 0)
        return -1;
    int status = vg_store_write_window(&store->writer, window, &error);
    if (status != 0 && handle_failed_file(store, error)) {
        g_clear_error(&error);
        status = vg_store_write_window(&store->writer, window, &error);
    }
    if (status == 0)
        log_committed(store, window);
    else
        g_propagate_error(err, error);
    return status;
}

/* Writes the next waiting window of another day than these. Returns false if there is none. On
 * failure, sets *err and adds its day. */
static bool
write_next(vg_store *store, GArray *failed_days, GError **err)
{
    pthread_mutex_lock(&store->lock);
    store->writer.lost_top = store->limits.lost_top;
    struct vg_store_window *window = vg_store_ring_next(&store->ring, failed_days);
    pthread_mutex_unlock(&store->lock);
    if (!window)
        return false;
    int64_t day = vg_store_stamp(VG_STORE_WINDOWS, window->end_ns);
    int status = write_window(store, window, err);
    if (status != 0)
        g_array_append_val(failed_days, day);
    VG_LOCK_SCOPE(&store->lock);
    vg_store_ring_done(&store->ring, window, status == 0);
    store->opening = store->opening && status != 0;
    pthread_cond_broadcast(&store->done);
    return true;
}

/* Writes windows until none is waiting. A day that fails does not delay the others. */
static void
write_windows(vg_store *store)
{
    g_autoptr(GArray) failed_days = g_array_new(FALSE, FALSE, sizeof(int64_t));
    GError *first = NULL;
    bool more = true;

    while (more && has_time(store)) {
        GError *error = NULL;
        more = write_next(store, failed_days, &error);
        if (error && first)
            g_error_free(error);
        else if (error)
            first = error;
        if (error)
            continue;
        write_sums(store, false);
    }
    if (first)
        store_thread_fail(store, VG_PART_WINDOWS, first);
    else
        succeed(store, VG_PART_WINDOWS);
}

/* Performs all due work. */
static void
work(vg_store *store)
{
    GError *error = NULL;
    int64_t now = vg_clock_monotonic_ns();

    if (!may_try(store, VG_PART_WINDOWS))
        return;
    if (hold_directory(store, &error) != 0) {
        store_thread_fail(store, VG_PART_WINDOWS, error);
        return;
    }
    write_windows(store);
    if (has_time(store))
        write_sums(store, false);
    /* Only after all noted sums were written, as far as this is possible. */
    if (now >= store->next_clean_ns && !store->sums_left) {
        store->next_clean_ns = now + CLEAN_PAUSE_NS;
        remove_old(store);
    }
    pthread_mutex_lock(&store->lock);
    const bool is_new = store->ring.committed < NEW_WINDOWS;
    pthread_mutex_unlock(&store->lock);
    if (now >= store->next_bytes_ns) {
        store->next_bytes_ns = now + (is_new ? NEW_BYTES_PAUSE_NS : BYTES_PAUSE_NS);
        measure_bytes(store);
    }
}

/* Waits until there is work. */
static void
wait_for_work(vg_store *store)
{
    int64_t pause = BEAT_NS;

    VG_LOCK_SCOPE(&store->lock);
    store->opening = false;
    for (int i = 0; i < VG_PART_MAX; i++) {
        if (store->troubles[i].failing)
            pause = MIN(pause, store->retry_ns);
    }
    bool windows = store->ring.pending > 0 && !store->troubles[VG_PART_WINDOWS].failing;
    bool sums = store->sums_left && !store->troubles[VG_PART_WINDOWS].failing;
    if (!windows && !sums && !vg_thread_stopping(store->self))
        vg_cond_wait_until(&store->work, &store->lock, vg_clock_monotonic_ns() + pause);
}

/* Makes a last attempt, whenever the previous one was, and writes the sums of incomplete minutes
 * and hours. */
static void
store_thread_finish(vg_store *store)
{
    for (int i = 0; i < VG_PART_MAX; i++)
        store->troubles[i].retry_ns = 0;
    work(store);
    store->troubles[VG_PART_SUMS].retry_ns = 0;
    do
        write_sums(store, true);
    while (store->sums_left && has_time(store));
}

void
vg_store_thread_run(vg_thread *self, void *arg)
{
    vg_store *store = arg;

    store->self = self;
    while (!vg_thread_stopping(self)) {
        vg_thread_beat(self);
        work(store);
        for (int i = 0; i < VG_PART_MAX; i++)
            vg_log_turns_settle(&store->troubles[i].turns, VG_LOG_TAG);
        wait_for_work(store);
    }
    store_thread_finish(store);
    for (int i = 0; i < VG_PART_MAX; i++)
        vg_log_turns_clear(&store->troubles[i].turns, VG_LOG_TAG);
    vg_store_writer_clear(&store->writer);
    if (store->lock_fd >= 0)
        close(store->lock_fd);
}

void
vg_store_thread_wake(void *arg)
{
    vg_store *store = arg;

    VG_LOCK_SCOPE(&store->lock);
    pthread_cond_broadcast(&store->work);
}
