/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store-write.h"

#include "base/error.h"
#include "store/store-dir.h"
#include "store/store-host.h"
#include "store/store-row.h"
#include "store/store-took.h"

/* The number of connections that stay open: two days around midnight, minutes, hours, and
 * state.db. */
#define KEEP_OPEN 4

/* ---- sources ---- */

static void
store_write_minute_free(void *data)
{
    struct vg_store_minute *minute = data;

    vg_store_total_clear(&minute->total);
    g_free(minute);
}

static void
source_free(void *data)
{
    struct vg_store_source *source = data;

    for (int i = 0; i < VG_STORE_HOURS; i++)
        g_array_unref(source->stale[i]);
    g_ptr_array_unref(source->minutes);
    g_free(source->name);
    g_free(source);
}

static struct vg_store_source *
need_source(struct vg_store_writer *writer, const char *name)
{
    struct vg_store_source *source = g_hash_table_lookup(writer->sources, name);

    if (source)
        return source;
    source = g_new0(struct vg_store_source, 1);
    source->name = g_strdup(name);
    source->current_ns = INT64_MIN;
    source->minutes = g_ptr_array_new_with_free_func(store_write_minute_free);
    for (int i = 0; i < VG_STORE_HOURS; i++)
        source->stale[i] = g_array_new(FALSE, FALSE, sizeof(int64_t));
    g_hash_table_insert(writer->sources, source->name, source);
    return source;
}

void
vg_store_source_note(struct vg_store_source *source, enum vg_store_kind kind, int64_t end_ns)
{
    GArray *stale = source->stale[kind];
    guint i = stale->len;

    while (i > 0 && g_array_index(stale, int64_t, i - 1) > end_ns)
        i--;
    if (i == 0 || g_array_index(stale, int64_t, i - 1) != end_ns)
        g_array_insert_val(stale, i, end_ns);
}

void
vg_store_writer_init(struct vg_store_writer *writer, const char *directory, const char *vfs)
{
    *writer = (struct vg_store_writer){
        .directory = g_strdup(directory),
        .pool = vg_store_pool_new(directory, vfs, KEEP_OPEN),
        .sources = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, source_free),
    };
}

void
vg_store_writer_clear(struct vg_store_writer *writer)
{
    g_hash_table_unref(writer->sources);
    vg_store_pool_free(writer->pool);
    g_free(writer->directory);
}

static void
note_failure(struct vg_store_writer *writer, enum vg_store_kind kind, int64_t stamp)
{
    writer->failed = (struct vg_store_failed){kind, stamp};
}

struct vg_store_file *
vg_store_writer_open(struct vg_store_writer *writer, enum vg_store_kind kind, int64_t stamp,
                     enum vg_store_mode mode, GError **err)
{
    struct vg_store_file *file = vg_store_pool_get(writer->pool, kind, stamp, mode, err);

    if (!file)
        note_failure(writer, kind, stamp);
    return file;
}

int
vg_store_writer_done(struct vg_store_writer *writer, struct vg_store_file *file, int status)
{
    if (status != 0)
        note_failure(writer, file->kind, file->stamp);
    vg_store_pool_put(writer->pool, file, status != 0);
    return status;
}

/* ---- recovery ---- */

/* Notes the sums that were lost with a file that is missing or was moved aside, so that they are
 * computed again. */
static int
note_missing(struct vg_store_writer *writer, struct vg_store_file *file, GError **err)
{
    enum vg_store_kind kind = file->kind + 1;
    int64_t begin_ns = vg_store_stamp_begin_ns(file->kind, file->stamp);
    char name[VG_STORE_NAME_MAX];
    g_autofree char *path = g_strdup_printf(
        "%s/%s", writer->directory, vg_store_file_name(kind, vg_store_stamp(kind, begin_ns), name));

    if (g_file_test(path, G_FILE_TEST_EXISTS))
        return 0;
    return vg_store_file_run(file, VG_SQL_STALE_ADD_ALL, err, "i", vg_store_unit_ns(kind));
}

static int
recover_file(struct vg_store_writer *writer, enum vg_store_kind kind, int64_t stamp, GError **err)
{
    struct vg_store_file *file = vg_store_writer_open(writer, kind, stamp, VG_STORE_WRITE, err);

    if (!file)
        return -1;
    int status = note_missing(writer, file, err);
    sqlite3_stmt *list = status == 0 ? vg_store_file_query(file, VG_SQL_STALE_LIST, err, "") : NULL;
    status = list ? 1 : -1;
    while (status > 0) {
        status = vg_store_file_step(file, list, err);
        if (status <= 0)
            break;
        const char *name = vg_store_file_text(file, list, 0, err);
        if (name)
            vg_store_source_note(need_source(writer, name), kind, sqlite3_column_int64(list, 1));
        status = name ? 1 : -1;
    }
    return vg_store_writer_done(writer, file, status);
}

int
vg_store_writer_recover(struct vg_store_writer *writer, GError **err)
{
    struct vg_store_failed first = {.kind = VG_STORE_KIND_MAX};

    for (enum vg_store_kind kind = VG_STORE_WINDOWS; kind < VG_STORE_HOURS; kind++) {
        g_autoptr(GArray) stamps =
            vg_store_dir_list(writer->directory, kind, INT64_MIN, INT64_MAX, NULL);
        for (guint i = 0; i < stamps->len; i++) {
            g_autoptr(GError) error = NULL;
            if (recover_file(writer, kind, g_array_index(stamps, int64_t, i), &error) == 0 ||
                g_error_matches(error, VG_ERROR, VG_E_CONFLICT) || first.kind != VG_STORE_KIND_MAX)
                continue;
            first = (struct vg_store_failed){kind, g_array_index(stamps, int64_t, i)};
            g_propagate_error(err, g_steal_pointer(&error));
        }
    }
    if (first.kind == VG_STORE_KIND_MAX)
        return 0;
    writer->failed = first;
    return -1;
}

/* ---- replaced windows ---- */

/* Deletes the source's windows in begin < t <= end from this file. *ret_next is the start of the
 * next window, or INT64_MAX. */
static int
delete_overlaps(struct vg_store_file *file, struct vg_store_source *source, int64_t source_id,
                const struct vg_store_window *window, int64_t *ret_next, GError **err)
{
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(struct vg_store_win));
    sqlite3_stmt *after =
        vg_store_file_query(file, VG_SQL_WIN_AFTER, err, "ii", source_id, window->begin_ns);
    int status = after ? 1 : -1;

    *ret_next = INT64_MAX;
    while (status > 0) {
        status = vg_store_file_step(file, after, err);
        if (status <= 0)
            break;
        struct vg_store_win win = {.id = sqlite3_column_int64(after, 0),
                                   .begin_ns = sqlite3_column_int64(after, 1),
                                   .end_ns = sqlite3_column_int64(after, 2)};
        if (win.begin_ns >= window->end_ns) {
            *ret_next = win.begin_ns;
            sqlite3_reset(after);
            status = 0;
            break;
        }
        g_array_append_val(found, win);
    }
    for (guint i = 0; i < found->len && status == 0; i++) {
        const struct vg_store_win *win = &g_array_index(found, struct vg_store_win, i);
        int64_t minute = vg_store_period_end(win->end_ns, vg_store_unit_ns(VG_STORE_MINUTES));
        status = vg_store_row_delete_win(file, win->id, err);
        if (status == 0)
            status = vg_store_file_run(file, VG_SQL_STALE_ADD, err, "ii", source_id, minute);
        vg_store_source_note(source, VG_STORE_WINDOWS, minute);
    }
    return status;
}

/* Deletes the overlapped windows from another day's file. *ret_more is true if later days may have
 * some. */
static int
replace_in_day(struct vg_store_writer *writer, int64_t stamp, struct vg_store_source *source,
               const struct vg_store_window *window, bool *ret_more, GError **err)
{
    GError *error = NULL;
    struct vg_store_file *file =
        vg_store_writer_open(writer, VG_STORE_WINDOWS, stamp, VG_STORE_WRITE, &error);
    int64_t next = INT64_MAX;

    if (!file) {
        /* Data stored by a newer version must not be changed. */
        if (g_error_matches(error, VG_ERROR, VG_E_CONFLICT)) {
            g_error_free(error);
            return 0;
        }
        g_propagate_error(err, error);
        return -1;
    }
    int64_t id = vg_store_file_find(file, VG_NAMES_SOURCE, source->name, err);
    int status = id < 0 ? -1 : 0;
    if (id > 0) {
        status = vg_store_file_run(file, VG_SQL_BEGIN_WRITE, err, "");
        if (status == 0)
            status = delete_overlaps(file, source, id, window, &next, err);
        if (status == 0)
            status = vg_store_file_run(file, VG_SQL_COMMIT, err, "");
    }
    *ret_more = next == INT64_MAX;
    return vg_store_writer_done(writer, file, status);
}

/* Deletes the overlapped windows in other files. The window itself must be on disk before, so that
 * a crash in between loses nothing. */
static int
replace_elsewhere(struct vg_store_writer *writer, struct vg_store_source *source,
                  const struct vg_store_window *window, GError **err)
{
    GError *error = NULL;
    g_autoptr(GArray) stamps = vg_store_dir_list(writer->directory, VG_STORE_WINDOWS,
                                                 window->begin_ns, source->newest_ns, &error);
    int64_t own = vg_store_stamp(VG_STORE_WINDOWS, window->end_ns);
    bool more = true;

    for (guint i = 0; i < stamps->len && more && !error; i++) {
        int64_t stamp = g_array_index(stamps, int64_t, i);
        if (stamp != own)
            (void)replace_in_day(writer, stamp, source, window, &more, &error);
    }
    if (!error)
        return 0;
    g_propagate_error(err, error);
    return -1;
}

/* Determines the end of a source's newest window over all days. Later windows overlap no others. A
 * day that cannot be read may contain anything. */
static void
write_find_newest(struct vg_store_writer *writer, struct vg_store_source *source)
{
    g_autoptr(GArray) stamps =
        vg_store_dir_list(writer->directory, VG_STORE_WINDOWS, INT64_MIN, INT64_MAX, NULL);
    int64_t newest = INT64_MIN;

    for (guint i = stamps->len; i > 0 && newest == INT64_MIN; i--) {
        int64_t stamp = g_array_index(stamps, int64_t, i - 1);
        struct vg_store_file *file =
            vg_store_pool_get(writer->pool, VG_STORE_WINDOWS, stamp, VG_STORE_WRITE, NULL);
        int64_t id = file ? vg_store_file_find(file, VG_NAMES_SOURCE, source->name, NULL) : -1;
        int status =
            id > 0 ? vg_store_file_get(file, VG_SQL_WIN_NEWEST, &newest, NULL, "i", id) : (int)id;
        if (status < 0)
            newest = vg_store_stamp_begin_ns(VG_STORE_WINDOWS, stamp + 1) - 1;
        vg_store_pool_put(writer->pool, file, status < 0);
    }
    source->newest_ns = newest;
    source->looked_up = true;
}

/* ---- windows ---- */

static int
insert_vm(struct vg_store_file *file, int64_t win, const struct vg_store_window *window, guint slot,
          const struct vg_store_sample *sample, const GArray *losses, GError **err)
{
    const struct vg_store_vm *vm = &window->cast->slots[slot];
    int64_t id = vg_store_file_need(file, VG_NAMES_VM, vm->key, vm->name, err);

    if (id < 0 || vg_store_row_add_sample(file, win, id, sample, err) != 0)
        return -1;
    for (guint i = 0; i < losses->len; i++) {
        const struct vg_store_loss *loss = &g_array_index(losses, struct vg_store_loss, i);
        int64_t aggressor =
            vg_store_file_need(file, VG_NAMES_AGGRESSOR,
                               vg_store_window_aggressor(window, loss->aggressor), NULL, err);
        if (aggressor < 0 || vg_store_row_add_loss(file, win, id, aggressor, loss, err) != 0)
            return -1;
    }
    return 0;
}

static int
insert_window(struct vg_store_file *file, struct vg_store_source *source,
              const struct vg_store_window *window, int64_t lost_top, GError **err)
{
    g_autoptr(GArray) losses = g_array_new(FALSE, FALSE, sizeof(struct vg_store_loss));
    const struct vg_store_win win = {.begin_ns = window->begin_ns,
                                     .end_ns = window->end_ns,
                                     .windows = 1,
                                     .lost_events = (int64_t)window->lost_events};
    int64_t minute = vg_store_period_end(window->end_ns, vg_store_unit_ns(VG_STORE_MINUTES));
    struct vg_store_cursor cursor = {window->packed};
    struct vg_store_sample sample;
    int64_t next;

    int64_t source_id = vg_store_file_need(file, VG_NAMES_SOURCE, source->name, NULL, err);
    if (source_id < 0)
        return -1;
    if (window->begin_ns < source->newest_ns &&
        delete_overlaps(file, source, source_id, window, &next, err) != 0)
        return -1;
    int64_t id = vg_store_row_add_win(file, source_id, &win, err);
    if (id < 0 || vg_store_file_run(file, VG_SQL_STALE_ADD, err, "ii", source_id, minute) != 0 ||
        vg_store_host_write(file, id, &window->host, err) != 0)
        return -1;
    for (guint slot = 0; slot < window->cast->n_slots; slot++) {
        vg_store_window_next(&cursor, &sample, losses);
        vg_store_losses_cut(losses, lost_top);
        if (insert_vm(file, id, window, slot, &sample, losses, err) != 0)
            return -1;
    }
    vg_store_source_note(source, VG_STORE_WINDOWS, minute);
    return 0;
}

static int
write_window(struct vg_store_writer *writer, struct vg_store_source *source,
             const struct vg_store_window *window, GError **err)
{
    int64_t stamp = vg_store_stamp(VG_STORE_WINDOWS, window->end_ns);
    struct vg_store_file *file =
        vg_store_writer_open(writer, VG_STORE_WINDOWS, stamp, VG_STORE_CREATE, err);

    if (!file)
        return -1;
    int status = vg_store_file_upgrade(file, err);
    if (status == 0)
        status = vg_store_file_run(file, VG_SQL_BEGIN_WRITE, err, "");
    if (status == 0)
        status = insert_window(file, source, window, writer->lost_top, err);
    if (status == 0)
        status = vg_store_file_run(file, VG_SQL_COMMIT, err, "");
    if (vg_store_writer_done(writer, file, status) != 0)
        return -1;
    return window->begin_ns < source->newest_ns ? replace_elsewhere(writer, source, window, err)
                                                : 0;
}

struct vg_store_minute *
vg_store_source_minute(const struct vg_store_source *source, int64_t end_ns)
{
    for (guint i = 0; i < source->minutes->len; i++) {
        struct vg_store_minute *minute = source->minutes->pdata[i];
        if (minute->end_ns == end_ns)
            return minute;
    }
    return NULL;
}

/* Adds a stored window to the current minute. A window that does not follow the previous one
 * restarts the minute: the processes of earlier windows are no longer known. */
static void
store_write_add_minute(struct vg_store_source *source, const struct vg_store_window *window)
{
    int64_t end_ns = vg_store_period_end(window->end_ns, vg_store_unit_ns(VG_STORE_MINUTES));
    struct vg_store_minute *minute = vg_store_source_minute(source, end_ns);

    if (minute && window->begin_ns < minute->total.win.end_ns) {
        g_ptr_array_remove(source->minutes, minute);
        minute = NULL;
    }
    if (!minute) {
        if (source->minutes->len >= VG_STORE_MINUTES_KEPT)
            g_ptr_array_remove_index(source->minutes, 0);
        minute = g_new0(struct vg_store_minute, 1);
        minute->end_ns = end_ns;
        vg_store_total_init(&minute->total);
        g_ptr_array_add(source->minutes, minute);
    }
    vg_store_total_add_window(&minute->total, window);
    vg_store_took_add_window(&minute->total, window);
    g_array_set_size(window->took, 0);
}

int
vg_store_write_window(struct vg_store_writer *writer, const struct vg_store_window *window,
                      GError **err)
{
    struct vg_store_source *source = need_source(writer, window->source);

    if (!source->looked_up)
        write_find_newest(writer, source);
    if (write_window(writer, source, window, err) != 0) {
        /* A failed COMMIT may have reached the disk, and a file may be replaced soon. */
        source->looked_up = false;
        return -1;
    }
    store_write_add_minute(source, window);
    source->newest_ns = MAX(source->newest_ns, window->end_ns);
    source->current_ns = window->end_ns;
    return 0;
}
