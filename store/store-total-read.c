/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds the rows of files to a total.
 */
#include "config.h"

#include "base/error.h"
#include "store/store-took.h"

static struct vg_store_total_vm *
total_vm_of_id(struct vg_store_total_reader *reader, int64_t id, int64_t at_ns, GError **err)
{
    struct vg_store_total_vm *vm = g_hash_table_lookup(reader->vms, (void *)(intptr_t)id);

    if (vm)
        return vm;
    sqlite3_stmt *statement = vg_store_file_query(reader->file, VG_SQL_VM_NAME, err, "i", id);
    if (!statement || vg_store_file_step(reader->file, statement, err) < 0)
        return NULL;
    /* A row without a name would be damage that sqlite does not detect. */
    if (sqlite3_data_count(statement) == 0) {
        vg_error(err, VG_E_INVALID, "cannot read '%s': it has no VM with the id %" G_GINT64_FORMAT,
                 reader->file->path, id);
        return NULL;
    }
    const char *key = vg_store_file_text(reader->file, statement, 0, err);
    const char *name = key ? vg_store_file_text(reader->file, statement, 1, err) : NULL;
    if (!name)
        return NULL;
    vm = vg_store_total_need_vm(reader->total, key, name, at_ns);
    sqlite3_reset(statement);
    g_hash_table_insert(reader->vms, (void *)(intptr_t)id, vm);
    return vm;
}

static int
total_aggressor_of_id(struct vg_store_total_reader *reader, int64_t id, uint32_t *ret, GError **err)
{
    void *known;

    if (g_hash_table_lookup_extended(reader->aggressors, (void *)(intptr_t)id, NULL, &known)) {
        *ret = GPOINTER_TO_UINT(known);
        return 0;
    }
    sqlite3_stmt *statement =
        vg_store_file_query(reader->file, VG_SQL_AGGRESSOR_NAME, err, "i", id);
    if (!statement || vg_store_file_step(reader->file, statement, err) < 0)
        return -1;
    const char *name = sqlite3_data_count(statement) > 0
                           ? vg_store_file_text(reader->file, statement, 0, err)
                           : VG_STORE_REST;
    if (!name)
        return -1;
    *ret = vg_store_total_number(reader->total, name);
    sqlite3_reset(statement);
    g_hash_table_insert(reader->aggressors, (void *)(intptr_t)id, GUINT_TO_POINTER(*ret));
    return 0;
}

static int
total_add_samples(struct vg_store_total_reader *reader, const struct vg_store_win *win,
                  GError **err)
{
    sqlite3_stmt *samples = vg_store_file_query(reader->file, VG_SQL_SAMPLES, err, "i", win->id);
    struct vg_store_sample sample;
    int status = samples ? 1 : -1;

    while (status > 0) {
        status = vg_store_file_step(reader->file, samples, err);
        if (status <= 0)
            break;
        struct vg_store_total_vm *vm = total_vm_of_id(
            reader, sqlite3_column_int64(samples, VG_SQL_SAMPLE_COLUMNS), win->end_ns, err);
        if (!vm)
            return -1;
        vg_store_row_read_sample(samples, &sample);
        vg_store_sample_add(&vm->sample, &sample);
    }
    return status;
}

static int
total_add_losses(struct vg_store_total_reader *reader, const struct vg_store_win *win, GError **err)
{
    sqlite3_stmt *losses = vg_store_file_query(reader->file, VG_SQL_LOSSES, err, "i", win->id);
    uint32_t aggressor;
    int status = losses ? 1 : -1;

    while (status > 0) {
        status = vg_store_file_step(reader->file, losses, err);
        if (status <= 0)
            break;
        struct vg_store_total_vm *vm =
            total_vm_of_id(reader, sqlite3_column_int64(losses, 0), win->end_ns, err);
        if (!vm ||
            total_aggressor_of_id(reader, sqlite3_column_int64(losses, 1), &aggressor, err) != 0)
            return -1;
        vg_store_losses_add(vm->losses, aggressor, sqlite3_column_int64(losses, 2),
                            (uint64_t)sqlite3_column_int64(losses, 3));
    }
    return status;
}

void
vg_store_total_reader_init(struct vg_store_total_reader *reader, struct vg_store_total *total,
                           struct vg_store_file *file)
{
    *reader = (struct vg_store_total_reader){
        .total = total,
        .file = file,
        .vms = g_hash_table_new(NULL, NULL),
        .aggressors = g_hash_table_new(NULL, NULL),
    };
}

void
vg_store_total_reader_clear(struct vg_store_total_reader *reader)
{
    g_hash_table_unref(reader->vms);
    g_hash_table_unref(reader->aggressors);
}

int
vg_store_total_add_win(struct vg_store_total_reader *reader, const struct vg_store_win *win,
                       GError **err)
{
    vg_store_total_add_period(reader->total, win);
    if (vg_store_host_read(reader->file, win->id, &reader->total->host, err) != 0 ||
        total_add_samples(reader, win, err) != 0)
        return -1;
    if (total_add_losses(reader, win, err) != 0)
        return -1;
    return vg_store_took_read(reader, win->id, err);
}
