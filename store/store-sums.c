/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums up windows to minutes, and minutes to hours. The input is always the committed data of an
 * entire period, so that a sum can be repeated at any time.
 */
#include "config.h"

#include "base/error.h"
#include "store/store-took.h"
#include "store/store-total.h"
#include "store/store-write.h"

/* The maximum number of periods per call, so that the thread sends a heartbeat every second. */
#define PERIODS_AT_ONCE 8

/* The minimum number of a VM's aggressors in a sum: an aggressor that is small in each second may
 * be large in an hour. */
#define SUMS_LOST_TOP 16

/* ---- reading ---- */

/* Adds the file's windows of a source. With `bare`, adds only the windows themselves, without
 * VMs. */
static int
add_file(struct vg_store_total_reader *reader, int64_t source, int64_t from_ns, int64_t to_ns,
         bool bare, GError **err)
{
    struct vg_store_win win;
    sqlite3_stmt *range =
        vg_store_file_query(reader->file, VG_SQL_WIN_RANGE, err, "iii", source, from_ns, to_ns);
    int status = range ? 1 : -1;

    while (status > 0) {
        status = vg_store_file_step(reader->file, range, err);
        if (status <= 0)
            break;
        vg_store_row_read_win(range, 0, &win);
        if (bare)
            vg_store_total_add_period(reader->total, &win);
        else if (vg_store_total_add_win(reader, &win, err) != 0)
            return -1;
    }
    return status;
}

/* The minute or hour to sum up. */
struct period {
    struct vg_store_writer *writer;
    struct vg_store_source *source;
    enum vg_store_kind kind; /* the kind of the parts */
    int64_t from_ns;
    int64_t to_ns;
};

/* *ret_file is NULL if there is no such file. */
static int
open_part(const struct period *period, int64_t stamp, struct vg_store_file **ret_file, GError **err)
{
    GError *error = NULL;

    *ret_file = vg_store_writer_open(period->writer, period->kind, stamp, VG_STORE_WRITE, &error);
    if (*ret_file || g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND)) {
        g_clear_error(&error);
        return 0;
    }
    g_propagate_error(err, error);
    return -1;
}

/* Sets *found to true if the file exists. */
static int
read_part(const struct period *period, int64_t stamp, bool bare, struct vg_store_total *sums,
          bool *found, GError **err)
{
    struct vg_store_file *file;

    if (open_part(period, stamp, &file, err) != 0)
        return -1;
    if (!file)
        return 0;
    *found = true;
    struct vg_store_total_reader reader;
    vg_store_total_reader_init(&reader, sums, file);
    int64_t source = vg_store_file_find(file, VG_NAMES_SOURCE, period->source->name, err);
    int status = source < 0 ? -1 : 0;
    if (source > 0)
        status = add_file(&reader, source, period->from_ns, period->to_ns, bare, err);
    vg_store_total_reader_clear(&reader);
    return vg_store_writer_done(period->writer, file, status);
}

/* ---- writing ---- */

static int
insert_vm(struct vg_store_file *file, int64_t win, const struct vg_store_total *sums,
          struct vg_store_total_vm *vm, int64_t took_top, GError **err)
{
    int64_t id = vg_store_file_need(file, VG_NAMES_VM, vm->key, vm->name, err);

    if (id < 0 || vg_store_row_add_sample(file, win, id, &vm->sample, err) != 0)
        return -1;
    for (guint i = 0; i < vm->losses->len; i++) {
        const struct vg_store_loss *loss = &g_array_index(vm->losses, struct vg_store_loss, i);
        int64_t aggressor = vg_store_file_need(file, VG_NAMES_AGGRESSOR,
                                               sums->names->pdata[loss->aggressor], NULL, err);
        if (aggressor < 0 || vg_store_row_add_loss(file, win, id, aggressor, loss, err) != 0)
            return -1;
    }
    return vg_store_took_write(file, win, id, sums, vm->processes, took_top, err);
}

/* Deletes an earlier sum of the period. */
static int
delete_period(struct vg_store_file *file, const struct period *period, int64_t source, GError **err)
{
    struct vg_store_win win;
    sqlite3_stmt *range;
    int status;

    /* There is at most one row, unless another program has written to the file. */
    do {
        range = vg_store_file_query(file, VG_SQL_WIN_RANGE, err, "iii", source, period->from_ns,
                                    period->to_ns);
        status = range ? vg_store_file_step(file, range, err) : -1;
        if (status > 0) {
            vg_store_row_read_win(range, 0, &win);
            sqlite3_reset(range);
            if (vg_store_row_delete_win(file, win.id, err) != 0)
                return -1;
        }
    } while (status > 0);
    return status;
}

/* Retains the processes of a minute that started before this vgpud. The previous vgpud has summed
 * it up at its end, and the processes are stored only there. */
static int
sums_keep_processes(struct vg_store_file *file, const struct period *period, int64_t source,
                    struct vg_store_total *sums, const struct vg_store_minute *minute, GError **err)
{
    struct vg_store_total before;
    struct vg_store_total_reader reader;

    vg_store_total_init(&before);
    vg_store_total_reader_init(&reader, &before, file);
    int status = add_file(&reader, source, period->from_ns, period->to_ns, false, err);
    if (status == 0 && before.win.windows > 0 && before.win.end_ns <= minute->total.win.begin_ns)
        vg_store_took_add(sums, &before);
    vg_store_total_reader_clear(&reader);
    vg_store_total_clear(&before);
    return status;
}

/* Completes the sums of windows with the processes that are still in memory. */
static int
sums_complete(struct vg_store_file *file, const struct period *period, int64_t source,
              struct vg_store_total *sums, GError **err)
{
    const struct vg_store_minute *minute = vg_store_source_minute(period->source, period->to_ns);

    if (period->kind != VG_STORE_WINDOWS || !minute || sums == &minute->total)
        return 0;
    vg_store_took_add(sums, &minute->total);
    return sums_keep_processes(file, period, source, sums, minute, err);
}

static int
insert_sums(struct vg_store_file *file, const struct period *period, struct vg_store_total *sums,
            GError **err)
{
    int64_t took_top = period->kind == VG_STORE_WINDOWS ? VG_STORE_TOOK_MINUTE : VG_STORE_TOOK_HOUR;
    int64_t hour = vg_store_period_end(period->to_ns, vg_store_unit_ns(VG_STORE_HOURS));
    int64_t source = vg_store_file_need(file, VG_NAMES_SOURCE, period->source->name, NULL, err);

    if (source < 0 || sums_complete(file, period, source, sums, err) != 0 ||
        delete_period(file, period, source, err) != 0)
        return -1;
    if (period->kind == VG_STORE_WINDOWS &&
        vg_store_file_run(file, VG_SQL_STALE_ADD, err, "ii", source, hour) != 0)
        return -1;
    if (sums->win.windows == 0)
        return 0;
    int64_t win = vg_store_row_add_win(file, source, &sums->win, err);
    if (win < 0 || vg_store_host_write(file, win, &sums->host, err) != 0)
        return -1;
    for (guint i = 0; i < sums->vms->len; i++) {
        struct vg_store_total_vm *vm = sums->vms->pdata[i];
        vg_store_losses_cut(vm->losses, MAX(period->writer->lost_top, SUMS_LOST_TOP));
        if (insert_vm(file, win, sums, vm, took_top, err) != 0)
            return -1;
    }
    if (vg_store_took_write(file, win, 0, sums, sums->processes, took_top, err) != 0)
        return -1;
    return vg_store_took_write(file, win, VG_STORE_TOOK_PROGRAMS, sums, sums->programs, took_top,
                               err);
}

static int
write_sums(const struct period *period, struct vg_store_total *sums, GError **err)
{
    enum vg_store_kind kind = period->kind + 1;
    struct vg_store_file *file = vg_store_writer_open(
        period->writer, kind, vg_store_stamp(kind, period->from_ns), VG_STORE_CREATE, err);

    if (!file)
        return -1;
    int status = vg_store_file_upgrade(file, err);
    if (status == 0)
        status = vg_store_file_run(file, VG_SQL_BEGIN_WRITE, err, "");
    if (status == 0)
        status = insert_sums(file, period, sums, err);
    if (status == 0)
        status = vg_store_file_run(file, VG_SQL_COMMIT, err, "");
    if (status == 0 && period->kind == VG_STORE_WINDOWS)
        vg_store_source_note(period->source, VG_STORE_MINUTES,
                             vg_store_period_end(period->to_ns, vg_store_unit_ns(VG_STORE_HOURS)));
    return vg_store_writer_done(period->writer, file, status);
}

/* Deletes the note after the sum is on disk. */
static int
clear_note(const struct period *period, int64_t stamp, GError **err)
{
    struct vg_store_file *file;

    if (open_part(period, stamp, &file, err) != 0)
        return -1;
    if (!file)
        return 0;
    int64_t source = vg_store_file_find(file, VG_NAMES_SOURCE, period->source->name, err);
    int status = source < 0 ? -1 : 0;
    if (source > 0)
        status = vg_store_file_run(file, VG_SQL_STALE_DELETE, err, "ii", source, period->to_ns);
    return vg_store_writer_done(period->writer, file, status);
}

/* The files with parts of the period. A minute that ends at midnight may have a window in the next
 * day's file, because a window's end determines its file. All minutes of an hour are in the file of
 * its start. */
struct period_files {
    int64_t stamps[2];
    guint n;
};

static int
sums_read(const struct period *period, const struct period_files *files, bool bare,
          struct vg_store_total *sums, bool *found, GError **err)
{
    int status = 0;

    for (guint i = 0; i < files->n && status == 0; i++)
        status = read_part(period, files->stamps[i], bare, sums, found, err);
    return status;
}

/* Returns the minute in memory if it equals the files' data, or NULL. Reading the windows of a
 * hundred VMs again would cost as much as writing them. */
static struct vg_store_total *
sums_in_memory(const struct period *period, const struct period_files *files)
{
    struct vg_store_minute *minute = vg_store_source_minute(period->source, period->to_ns);
    struct vg_store_total stored;
    bool found = false;

    if (period->kind != VG_STORE_WINDOWS || !minute)
        return NULL;
    vg_store_total_init(&stored);
    const int status = sums_read(period, files, true, &stored, &found, NULL);
    const bool is_whole = status == 0 && stored.win.windows == minute->total.win.windows &&
                          stored.win.begin_ns == minute->total.win.begin_ns &&
                          stored.win.end_ns == minute->total.win.end_ns &&
                          stored.length_ns == minute->total.length_ns;
    vg_store_total_clear(&stored);
    return is_whole ? &minute->total : NULL;
}

static int
sum_period(const struct period *period, GError **err)
{
    struct period_files files = {.stamps = {vg_store_stamp(period->kind, period->from_ns),
                                            vg_store_stamp(period->kind, period->to_ns)}};
    struct vg_store_total sums;
    bool found = false;
    int status = 0;

    files.n = period->kind == VG_STORE_WINDOWS && files.stamps[0] != files.stamps[1] ? 2 : 1;
    struct vg_store_total *in_memory = sums_in_memory(period, &files);
    vg_store_total_init(&sums);
    if (!in_memory)
        status = sums_read(period, &files, false, &sums, &found, err);
    /* If the input no longer exists, the old sum remains. */
    if (status == 0 && (in_memory || found))
        status = write_sums(period, in_memory ? in_memory : &sums, err);
    vg_store_total_clear(&sums);
    for (guint i = 0; i < files.n && status == 0; i++)
        status = clear_note(period, files.stamps[i], err);
    return status;
}

/* Returns the index of the first noted period after the last failed one, so that others are not
 * blocked. */
static guint
first_to_sum(const struct vg_store_source *source, enum vg_store_kind kind)
{
    const GArray *stale = source->stale[kind];
    guint i = 0;

    while (i < stale->len && g_array_index(stale, int64_t, i) <= source->failed_ns[kind])
        i++;
    return i;
}

/* Sums up the noted periods of a source in files of this kind, except the one that contains
 * current_ns. Returns 1 if *budget is used up before all are done, otherwise 0. */
static int
sum_source(struct vg_store_writer *writer, struct vg_store_source *source, enum vg_store_kind kind,
           bool all, int *budget, GError **err)
{
    GArray *stale = source->stale[kind];
    int64_t unit = vg_store_unit_ns(kind + 1);
    int64_t open = all || source->current_ns == INT64_MIN
                       ? INT64_MIN
                       : vg_store_period_end(source->current_ns, unit);

    guint i = first_to_sum(source, kind);
    for (guint left = stale->len; left > 0; left--) {
        if (i >= stale->len)
            i = 0;
        int64_t to_ns = g_array_index(stale, int64_t, i);
        struct period period = {
            .writer = writer,
            .source = source,
            .kind = kind,
            .from_ns = to_ns - unit,
            .to_ns = to_ns,
        };
        if (to_ns == open) {
            i++;
            continue;
        }
        if ((*budget)-- == 0)
            return 1;
        if (sum_period(&period, err) != 0) {
            source->failed_ns[kind] = to_ns;
            return -1;
        }
        g_array_remove_index(stale, i);
    }
    return 0;
}

int
vg_store_write_sums(struct vg_store_writer *writer, bool all, GError **err)
{
    GHashTableIter iter;
    void *source;
    int budget = PERIODS_AT_ONCE;
    int status = 0;
    struct vg_store_failed first = {.kind = VG_STORE_KIND_MAX};

    /* Minutes of all sources come first, since hours are computed from them. A failure does not
     * stop the others. */
    for (enum vg_store_kind kind = VG_STORE_WINDOWS; kind < VG_STORE_HOURS && status < 1; kind++) {
        g_hash_table_iter_init(&iter, writer->sources);
        while (status < 1 && g_hash_table_iter_next(&iter, NULL, &source)) {
            bool failed = first.kind != VG_STORE_KIND_MAX;
            status = sum_source(writer, source, kind, all, &budget, failed ? NULL : err);
            if (status < 0 && !failed)
                first = writer->failed;
        }
    }
    if (first.kind == VG_STORE_KIND_MAX)
        return status;
    writer->failed = first;
    return -1;
}
