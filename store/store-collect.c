/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store-collect.h"

#include <string.h>

#include "base/error.h"
#include "store/store-dir.h"
#include "store/store-row.h"
#include "store/store-step.h"
#include "store/store-took.h"

static void *
key_of(int64_t number)
{
    return (void *)(intptr_t)number;
}

static bool
too_many(const struct vg_store_reading *r)
{
    return r->buckets->len > VG_HISTORY_ROWS_MAX;
}

/* ---- files ---- */

/* Records a file that cannot be read. */
static void
store_leave_out(struct vg_store_reading *r, const char *why)
{
    if (!g_ptr_array_find_with_equal_func(r->left_out, why, g_str_equal, NULL))
        g_ptr_array_add(r->left_out, g_strdup(why));
}

/* Returns NULL if the file does not exist, or is unreadable, which is recorded. */
static struct vg_store_file *
open_file(struct vg_store_reading *r, enum vg_store_kind kind, int64_t stamp)
{
    GError *error = NULL;
    struct vg_store_file *file = vg_store_pool_get(r->pool, kind, stamp, VG_STORE_READ, &error);

    if (file)
        file->deadline_ns = r->query->deadline_ns;
    if (error && !g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND))
        store_leave_out(r, error->message);
    /* A file of a newer version may become readable after an upgrade, and is no failure. */
    if (file || g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND) ||
        g_error_matches(error, VG_ERROR, VG_E_CONFLICT) || r->failed)
        g_clear_error(&error);
    else
        r->failed = error;
    return file;
}

static bool
is_spoilt(const struct vg_store_reading *r, enum vg_store_kind kind, int64_t stamp)
{
    for (guint i = 0; i < r->spoilt->len; i++) {
        const struct vg_store_spoilt *spoilt = &g_array_index(r->spoilt, struct vg_store_spoilt, i);
        if (spoilt->kind == kind && spoilt->stamp == stamp)
            return true;
    }
    return false;
}

static void
close_file(struct vg_store_reading *r, struct vg_store_file *file, int64_t stamp, int status,
           GError *take_error)
{
    const struct vg_store_spoilt spoilt = {file->kind, stamp};

    vg_store_pool_put(r->pool, file, status != 0);
    if (take_error) {
        store_leave_out(r, take_error->message);
        g_array_append_val(r->spoilt, spoilt);
    }
    if (r->failed)
        g_clear_error(&take_error);
    else
        r->failed = take_error;
}

void
vg_store_each_file(struct vg_store_reading *r, enum vg_store_kind kind,
                   const struct vg_store_range *range, bool newest_first, vg_store_on_file *call,
                   void *data)
{
    GError *error = NULL;
    g_autoptr(GArray) stamps =
        vg_store_dir_list(r->directory, kind, range->from_ns, range->to_ns, &error);

    for (guint i = 0; i < stamps->len; i++) {
        guint at = newest_first ? stamps->len - 1 - i : i;
        int64_t stamp = g_array_index(stamps, int64_t, at);
        struct vg_store_file *file = is_spoilt(r, kind, stamp) ? NULL : open_file(r, kind, stamp);
        GError *problem = NULL;
        if (!file)
            continue;
        int status = call(r, file, data, &problem);
        close_file(r, file, stamp, status, problem);
    }
    if (error)
        store_leave_out(r, error->message);
    if (r->failed)
        g_clear_error(&error);
    else
        r->failed = error;
}

/* ---- buckets ---- */

static struct vg_store_bucket *
need_bucket(struct vg_store_reading *r, int64_t end_ns)
{
    int64_t number =
        r->query->step_ns > 0 ? vg_store_period_end(end_ns, r->query->step_ns) : end_ns;
    guint index = GPOINTER_TO_UINT(g_hash_table_lookup(r->by_time, key_of(number)));
    if (index == 0) {
        struct vg_store_bucket bucket = {.row.begin_ns = INT64_MAX, .row.end_ns = INT64_MIN};
        if (r->steps) {
            bucket.step.measured = vg_history_measured_new();
            bucket.programs = g_array_new(FALSE, FALSE, sizeof(struct vg_store_loss));
        }
        g_array_append_val(r->buckets, bucket);
        index = r->buckets->len;
        g_hash_table_insert(r->by_time, key_of(number), GUINT_TO_POINTER(index));
    }
    return &g_array_index(r->buckets, struct vg_store_bucket, index - 1);
}

static void
add_win(struct vg_store_bucket *bucket, int64_t begin_ns, int64_t end_ns, int64_t lost_events)
{
    bucket->row.begin_ns = MIN(bucket->row.begin_ns, begin_ns);
    bucket->row.end_ns = MAX(bucket->row.end_ns, end_ns);
    bucket->row.lost_events += (uint64_t)lost_events;
}

static void
add_sample(struct vg_store_bucket *bucket, const struct vg_store_sample *sample)
{
    struct vg_history_row *row = &bucket->row;

    if (!bucket->present)
        row->lost_to = vg_history_losses_new();
    bucket->present = true;
    row->windows += sample->windows;
    row->guest_known = row->guest_known || (sample->flags & VG_SAMPLE_GUEST_KNOWN);
    row->gpu_known = row->gpu_known || (sample->flags & VG_SAMPLE_GPU_KNOWN);
    row->lacks |= (unsigned int)(sample->flags >> VG_SAMPLE_LACKS_SHIFT);
    row->gpu_active_ns += sample->gpu_active_ns;
    vg_cpu_figures_add(&row->cpu, &sample->cpu);
}

/* Returns whether the query can use sums of this kind. */
static bool
uses_kind(const struct vg_store_reading *r, enum vg_store_kind kind)
{
    return r->total || (r->query->step_ns > 0 && r->query->step_ns % vg_store_unit_ns(kind) == 0);
}

/* ---- windows in memory ---- */

/* Returns whether a window in memory overlaps begin < t <= end. There are many windows only while
 * the disk fails. */
static bool
in_memory(const struct vg_store_reading *r, int64_t begin_ns, int64_t end_ns)
{
    guint low = 0, high = r->windows->len;

    while (low < high) {
        guint mid = (low + high) / 2;
        if (g_array_index(r->windows, struct vg_store_window *, mid)->end_ns > begin_ns)
            high = mid;
        else
            low = mid + 1;
    }
    return low < r->windows->len &&
           g_array_index(r->windows, struct vg_store_window *, low)->begin_ns < end_ns;
}

/* Inserts a window in the order of ends. It replaces the windows that it overlaps. */
static void
take_window(struct vg_store_reading *r, struct vg_store_window *window)
{
    guint at = r->windows->len;

    while (at > 0 &&
           g_array_index(r->windows, struct vg_store_window *, at - 1)->end_ns > window->begin_ns) {
        if (g_array_index(r->windows, struct vg_store_window *, at - 1)->begin_ns < window->end_ns)
            g_array_remove_index(r->windows, at - 1);
        at--;
    }
    g_array_insert_val(r->windows, at, window);
}

static void
store_collect_add_step(struct vg_store_reading *r, const struct vg_store_window *window)
{
    struct vg_store_bucket *bucket = need_bucket(r, window->end_ns);

    add_win(bucket, window->begin_ns, window->end_ns, (int64_t)window->lost_events);
    vg_store_step_add_window(&bucket->step, window);
}

static void
add_window(struct vg_store_reading *r, const struct vg_store_window *window)
{
    struct vg_store_bucket *bucket = need_bucket(r, window->end_ns);
    struct vg_store_cursor cursor = {window->packed};
    struct vg_store_sample sample;
    int slot = vg_store_slot_of(window, r->query->vm);

    add_win(bucket, window->begin_ns, window->end_ns, (int64_t)window->lost_events);
    if (slot < 0)
        return;
    g_autoptr(GArray) losses = g_array_new(FALSE, FALSE, sizeof(struct vg_store_loss));
    for (int i = 0; i <= slot; i++)
        vg_store_window_next(&cursor, &sample, losses);
    add_sample(bucket, &sample);
    for (guint i = 0; i < losses->len; i++) {
        const struct vg_store_loss *loss = &g_array_index(losses, struct vg_store_loss, i);
        GRefString *name = g_ref_string_new(vg_store_window_aggressor(window, loss->aggressor));
        vg_history_add_loss(bucket->row.lost_to, name, loss->ns, loss->count);
        g_ref_string_release(name);
    }
}

static void
add_windows(struct vg_store_reading *r)
{
    for (guint i = 0; i < r->windows->len && !too_many(r); i++) {
        const struct vg_store_window *window =
            g_array_index(r->windows, struct vg_store_window *, i);
        if (window->end_ns <= r->whole.from_ns || window->end_ns > r->whole.to_ns)
            continue;
        if (r->total)
            vg_store_total_add_window(r->total, window);
        else if (r->steps)
            store_collect_add_step(r, window);
        else
            add_window(r, window);
    }
}

/* ---- rows in files ---- */

static void
release_name(void *name)
{
    g_ref_string_release(name);
}

/* Returns the name of an aggressor in a file by its id. */
static GRefString *
aggressor_name(struct vg_store_file *file, GHashTable *names, int64_t id, GError **err)
{
    GRefString *name = g_hash_table_lookup(names, key_of(id));

    if (name)
        return name;
    sqlite3_stmt *statement = vg_store_file_query(file, VG_SQL_AGGRESSOR_NAME, err, "i", id);
    int status = statement ? vg_store_file_step(file, statement, err) : -1;
    if (status < 0)
        return NULL;
    const char *text = status > 0 ? vg_store_file_text(file, statement, 0, err) : VG_STORE_REST;
    if (!text)
        return NULL;
    name = g_ref_string_new(text);
    sqlite3_reset(statement);
    g_hash_table_insert(names, key_of(id), name);
    return name;
}

/* A pass over the rows in one kind of file within a range. */
struct pass {
    enum vg_store_kind kind;
    struct vg_store_range range;
    int64_t covered_ns; /* the end of the rows used so far */
    GArray *gaps;       /* struct vg_store_range, left for finer files; NULL for windows */
    int64_t source;     /* ids in the current file, or 0 if missing */
    int64_t vm;
    GHashTable *names;
    sqlite3_stmt *losses; /* the VM's, in the order of the windows; NULL until needed */
    int64_t loss_end_ns;  /* the end of the current row's window, or INT64_MAX */
    struct vg_store_total_reader reader; /* for all VMs */
};

/* Advances pass->losses to the next row. */
static int
next_loss(struct vg_store_file *file, struct pass *pass, GError **err)
{
    int status = vg_store_file_step(file, pass->losses, err);

    pass->loss_end_ns = status > 0 ? sqlite3_column_int64(pass->losses, 0) : INT64_MAX;
    return status < 0 ? -1 : 0;
}

static sqlite3_stmt *
query_range(struct vg_store_file *file, enum vg_sql sql, const struct pass *pass, GError **err)
{
    return vg_store_file_query(file, sql, err, "iiii", pass->source, pass->range.from_ns,
                               pass->range.to_ns, pass->vm);
}

static int
start_losses(struct vg_store_file *file, struct pass *pass, GError **err)
{
    pass->losses = query_range(file, VG_SQL_LOST_OF_VM, pass, err);
    return pass->losses ? next_loss(file, pass, err) : -1;
}

/* Adds the losses of the window with this end. Skips those of earlier, unused windows. */
static int
store_collect_read_losses(struct vg_store_file *file, struct pass *pass,
                          struct vg_store_bucket *bucket, int64_t end_ns, GError **err)
{
    int status = pass->losses ? 0 : start_losses(file, pass, err);

    while (status == 0 && pass->loss_end_ns <= end_ns) {
        if (pass->loss_end_ns == end_ns && sqlite3_column_type(pass->losses, 1) != SQLITE_NULL) {
            GRefString *name =
                aggressor_name(file, pass->names, sqlite3_column_int64(pass->losses, 1), err);
            if (!name)
                return -1;
            vg_history_add_loss(bucket->row.lost_to, name, sqlite3_column_int64(pass->losses, 2),
                                (uint64_t)sqlite3_column_int64(pass->losses, 3));
        }
        status = next_loss(file, pass, err);
    }
    return status;
}

/* Returns whether to use the row. If so, it covers its period. */
static bool
use_row(struct vg_store_reading *r, struct pass *pass, int64_t begin_ns, int64_t end_ns)
{
    int64_t unit = vg_store_unit_ns(pass->kind);

    if (pass->kind == VG_STORE_WINDOWS)
        return !in_memory(r, begin_ns, end_ns);
    int64_t period = vg_store_period_end(end_ns, unit);
    if (g_hash_table_contains(r->stale[pass->kind], key_of(period)))
        return false;
    struct vg_store_range gap = {pass->covered_ns, period - unit};
    if (gap.from_ns < gap.to_ns)
        g_array_append_val(pass->gaps, gap);
    pass->covered_ns = period;
    return true;
}

static int
store_collect_read_step(struct vg_store_reading *r, struct vg_store_file *file,
                        const struct vg_store_win *win, struct vg_store_bucket *bucket,
                        GError **err)
{
    if (vg_store_step_add_win(file, win, &bucket->step, err) != 0)
        return -1;
    return vg_store_took_read_programs(file, win->id, &r->names, bucket->programs,
                                       &bucket->programs_floor_ns, err);
}

/* Reads the window at the current row. */
static int
read_row(struct vg_store_reading *r, struct vg_store_file *file, struct pass *pass,
         sqlite3_stmt *row, GError **err)
{
    struct vg_store_sample sample;
    struct vg_store_win win;

    vg_store_row_read_win(row, pass->vm > 0 ? VG_SQL_SAMPLE_COLUMNS : 0, &win);
    if (!use_row(r, pass, win.begin_ns, win.end_ns))
        return 0;
    if (r->total)
        return vg_store_total_add_win(&pass->reader, &win, err);
    struct vg_store_bucket *bucket = need_bucket(r, win.end_ns);
    add_win(bucket, win.begin_ns, win.end_ns, win.lost_events);
    if (r->steps)
        return store_collect_read_step(r, file, &win, bucket, err);
    if (pass->vm == 0 || sqlite3_column_type(row, 0) == SQLITE_NULL)
        return 0;
    vg_store_row_read_sample(row, &sample);
    add_sample(bucket, &sample);
    return store_collect_read_losses(file, pass, bucket, win.end_ns, err);
}

static int
read_rows(struct vg_store_reading *r, struct vg_store_file *file, struct pass *pass, GError **err)
{
    sqlite3_stmt *rows = pass->vm > 0
                             ? query_range(file, VG_SQL_SAMPLES_OF_VM, pass, err)
                             : vg_store_file_query(file, VG_SQL_WIN_RANGE, err, "iii", pass->source,
                                                   pass->range.from_ns, pass->range.to_ns);
    int status = rows ? 1 : -1;

    pass->losses = NULL;
    while (status > 0 && !too_many(r)) {
        status = vg_store_file_step(file, rows, err);
        if (status > 0 && read_row(r, file, pass, rows, err) != 0)
            return -1;
    }
    /* A statement that is not at its end would keep the transaction open. */
    sqlite3_reset(rows);
    sqlite3_reset(pass->losses);
    return MIN(status, 0);
}

/* Reads a file in one transaction, which does not see windows that the writer replaces in the
 * meantime. */
static int
read_file(struct vg_store_reading *r, struct vg_store_file *file, void *data, GError **err)
{
    struct pass *pass = data;

    if (too_many(r))
        return 0;
    if (vg_store_file_run(file, VG_SQL_BEGIN_READ, err, "") != 0)
        return -1;
    pass->source = vg_store_file_find(file, VG_NAMES_SOURCE, r->source, err);
    pass->vm = pass->source > 0 && !r->total && !r->steps
                   ? vg_store_file_find(file, VG_NAMES_VM, r->query->vm, err)
                   : 0;
    pass->names = g_hash_table_new_full(NULL, NULL, NULL, release_name);
    vg_store_total_reader_init(&pass->reader, r->total, file);
    int status = pass->source < 0 || pass->vm < 0 ? -1 : 0;
    if (status == 0 && pass->source > 0)
        status = read_rows(r, file, pass, err);
    vg_store_total_reader_clear(&pass->reader);
    g_hash_table_unref(pass->names);
    return status != 0 ? -1 : vg_store_file_run(file, VG_SQL_COMMIT, err, "");
}

/* Reads rows of a kind in these ranges. Returns the ranges without rows. */
static GArray *
read_kind(struct vg_store_reading *r, enum vg_store_kind kind, GArray *take_ranges)
{
    GArray *gaps = g_array_new(FALSE, FALSE, sizeof(struct vg_store_range));

    for (guint i = 0; i < take_ranges->len; i++) {
        struct vg_store_range range = g_array_index(take_ranges, struct vg_store_range, i);
        if (!vg_store_range_cut(kind, &range, gaps))
            continue;
        struct pass pass = {
            .kind = kind, .range = range, .covered_ns = range.from_ns, .gaps = gaps};
        vg_store_each_file(r, kind, &range, false, read_file, &pass);
        struct vg_store_range gap = {pass.covered_ns, range.to_ns};
        if (gap.from_ns < gap.to_ns)
            g_array_append_val(gaps, gap);
    }
    g_array_unref(take_ranges);
    return gaps;
}

/* Records damaged files with windows that were moved aside. Their data is missing from the files
 * that followed. */
static void
note_aside(struct vg_store_reading *r)
{
    g_autoptr(GPtrArray) names =
        vg_store_dir_list_aside(r->directory, VG_STORE_WINDOWS, r->whole.from_ns, r->whole.to_ns);

    for (guint i = 0; i < names->len; i++) {
        g_autofree char *why = g_strdup_printf("'%s/%s' is a damaged file; it was moved aside",
                                               r->directory, (const char *)names->pdata[i]);
        store_leave_out(r, why);
    }
}

static void
read_all(struct vg_store_reading *r)
{
    GArray *ranges = g_array_new(FALSE, FALSE, sizeof(struct vg_store_range));

    g_array_append_val(ranges, r->whole);
    for (int kind = VG_STORE_HOURS; kind > VG_STORE_WINDOWS; kind--) {
        if (uses_kind(r, kind))
            ranges = read_kind(r, kind, ranges);
    }
    note_aside(r);
    ranges = read_kind(r, VG_STORE_WINDOWS, ranges);
    g_array_unref(ranges);
    add_windows(r);
}

/* ---- stale sums ---- */

static void
add_stale(struct vg_store_reading *r, enum vg_store_kind kind, int64_t end_ns)
{
    for (enum vg_store_kind k = kind; k <= VG_STORE_HOURS; k++)
        g_hash_table_add(r->stale[k], key_of(vg_store_period_end(end_ns, vg_store_unit_ns(k))));
}

static int
read_stale(struct vg_store_reading *r, struct vg_store_file *file, void *data, GError **err)
{
    int64_t source = vg_store_file_find(file, VG_NAMES_SOURCE, r->source, err);
    sqlite3_stmt *list =
        source > 0 ? vg_store_file_query(file, VG_SQL_STALE_OF_SOURCE, err, "i", source) : NULL;
    int status = list ? 1 : source == 0 ? 0 : -1;

    (void)data;
    while (status > 0) {
        status = vg_store_file_step(file, list, err);
        if (status > 0)
            add_stale(r, file->kind + 1, sqlite3_column_int64(list, 0));
    }
    return status;
}

static void
find_stale(struct vg_store_reading *r)
{
    const int64_t minute = vg_store_unit_ns(VG_STORE_MINUTES);

    if (!uses_kind(r, VG_STORE_MINUTES))
        return;
    vg_store_each_file(r, VG_STORE_WINDOWS, &r->whole, false, read_stale, NULL);
    vg_store_each_file(r, VG_STORE_MINUTES, &r->whole, false, read_stale, NULL);
    /* Every minute that overlaps a window in memory is stale: the window may replace one that ends
     * in it. */
    for (guint i = 0; i < r->windows->len; i++) {
        const struct vg_store_window *window =
            g_array_index(r->windows, struct vg_store_window *, i);
        int64_t first = MAX(window->begin_ns + 1, r->whole.from_ns);
        int64_t last = MIN(window->end_ns, r->whole.to_ns);
        for (int64_t t = first; t <= last; t = vg_store_period_end(t, minute) + 1)
            add_stale(r, VG_STORE_MINUTES, t);
        if (first <= last)
            add_stale(r, VG_STORE_MINUTES, last);
    }
}

/* ---- a query ---- */

static void
clear_bucket(void *data)
{
    struct vg_store_bucket *bucket = data;

    g_clear_pointer(&bucket->row.lost_to, g_array_unref);
    g_clear_pointer(&bucket->step.measured, g_array_unref);
    g_clear_pointer(&bucket->programs, g_array_unref);
}

void
vg_store_reading_init(struct vg_store_reading *r, const char *directory, vg_store_pool *pool,
                      const struct vg_history_query *query, GPtrArray *left_out, GArray *spoilt)
{
    int64_t since = CLAMP(query->since_ns, -VG_STORE_TIME_LIMIT, VG_STORE_TIME_LIMIT);
    int64_t until = CLAMP(query->until_ns, -VG_STORE_TIME_LIMIT, VG_STORE_TIME_LIMIT);

    *r = (struct vg_store_reading){
        .directory = directory,
        .pool = pool,
        .query = query,
        .left_out = left_out,
        .spoilt = spoilt,
    };
    r->whole.from_ns = query->step_ns > 0 ? vg_store_period_begin(since, query->step_ns) : since;
    r->whole.to_ns = query->step_ns > 0 ? vg_store_period_end(until, query->step_ns) : until;
    r->windows = g_array_new(FALSE, FALSE, sizeof(struct vg_store_window *));
    r->stale[VG_STORE_MINUTES] = g_hash_table_new(NULL, NULL);
    r->stale[VG_STORE_HOURS] = g_hash_table_new(NULL, NULL);
    r->by_time = g_hash_table_new(NULL, NULL);
    r->buckets = g_array_new(FALSE, FALSE, sizeof(struct vg_store_bucket));
    g_array_set_clear_func(r->buckets, clear_bucket);
    vg_store_total_init(&r->names);
}

void
vg_store_reading_clear(struct vg_store_reading *r)
{
    g_array_unref(r->windows);
    g_hash_table_unref(r->stale[VG_STORE_MINUTES]);
    g_hash_table_unref(r->stale[VG_STORE_HOURS]);
    g_hash_table_unref(r->by_time);
    g_array_unref(r->buckets);
    vg_store_total_clear(&r->names);
}

bool
vg_store_collect(struct vg_store_reading *r, const GPtrArray *windows)
{
    for (guint i = 0; i < windows->len; i++) {
        struct vg_store_window *window = windows->pdata[i];
        if (strcmp(window->source, r->source) == 0)
            take_window(r, window);
    }
    find_stale(r);
    read_all(r);
    return !too_many(r);
}
