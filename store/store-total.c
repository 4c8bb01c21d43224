/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store-total.h"

#include <string.h>

#include "base/error.h"
#include "store/store-took.h"

static void
total_vm_free(void *data)
{
    struct vg_store_total_vm *vm = data;

    g_array_unref(vm->losses);
    g_array_unref(vm->processes);
    g_free(vm->key);
    g_free(vm->name);
    g_free(vm);
}

uint32_t
vg_store_total_number(struct vg_store_total *total, const char *name)
{
    void *number;

    if (g_hash_table_lookup_extended(total->numbers, name, NULL, &number))
        return GPOINTER_TO_UINT(number);
    char *copy = g_strdup(name);
    g_hash_table_insert(total->numbers, copy, GUINT_TO_POINTER(total->names->len));
    g_ptr_array_add(total->names, copy);
    return total->names->len - 1;
}

void
vg_store_total_init(struct vg_store_total *total)
{
    *total = (struct vg_store_total){
        .vms = g_ptr_array_new_with_free_func(total_vm_free),
        .by_key = g_hash_table_new(g_str_hash, g_str_equal),
        .names = g_ptr_array_new_with_free_func(g_free),
        .numbers = g_hash_table_new(g_str_hash, g_str_equal),
        .processes = g_array_new(FALSE, FALSE, sizeof(struct vg_store_loss)),
    };
    vg_store_host_init(&total->host);
    (void)vg_store_total_number(total, VG_STORE_REST);
}

void
vg_store_total_clear(struct vg_store_total *total)
{
    vg_store_host_clear(&total->host);
    g_hash_table_unref(total->by_key);
    g_ptr_array_unref(total->vms);
    g_hash_table_unref(total->numbers);
    g_ptr_array_unref(total->names);
    g_array_unref(total->processes);
}

static struct vg_store_total_vm *
total_need_vm(struct vg_store_total *total, const char *key, const char *name, int64_t at_ns)
{
    struct vg_store_total_vm *vm = g_hash_table_lookup(total->by_key, key);

    if (!vm) {
        vm = g_new0(struct vg_store_total_vm, 1);
        vm->named_ns = INT64_MIN;
        vm->key = g_strdup(key);
        vm->losses = g_array_new(FALSE, FALSE, sizeof(struct vg_store_loss));
        vm->processes = g_array_new(FALSE, FALSE, sizeof(struct vg_store_loss));
        g_ptr_array_add(total->vms, vm);
        g_hash_table_insert(total->by_key, vm->key, vm);
    }
    if (!vm->name || (at_ns >= vm->named_ns && strcmp(vm->name, name) != 0)) {
        g_free(vm->name);
        vm->name = g_strdup(name);
    }
    vm->named_ns = MAX(vm->named_ns, at_ns);
    return vm;
}

/* ---- files ---- */

static struct vg_store_total_vm *
total_vm_of_id(struct vg_store_total_reader *reader, int64_t id, int64_t at_ns, GError **err)
{
    struct vg_store_total_vm *vm = g_hash_table_lookup(reader->vms, (void *)(intptr_t)id);

    if (vm)
        return vm;
    sqlite3_stmt *statement = vg_store_file_query(reader->file, VG_SQL_VM_NAME, err, "i", id);
    if (!statement || vg_store_file_step(reader->file, statement, err) < 0)
        return NULL;
    /* A row that names nobody cannot be: it would be damage that sqlite does not see. */
    if (sqlite3_data_count(statement) == 0) {
        vg_error(err, VG_E_INVALID, "cannot read '%s': it has no VM %" G_GINT64_FORMAT,
                 reader->file->path, id);
        return NULL;
    }
    const char *key = vg_store_file_text(reader->file, statement, 0, err);
    const char *name = key ? vg_store_file_text(reader->file, statement, 1, err) : NULL;
    if (!name)
        return NULL;
    vm = total_need_vm(reader->total, key, name, at_ns);
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

void
vg_store_total_add_period(struct vg_store_total *total, const struct vg_store_win *win)
{
    struct vg_store_win *sum = &total->win;

    sum->begin_ns = sum->windows == 0 ? win->begin_ns : MIN(sum->begin_ns, win->begin_ns);
    sum->end_ns = sum->windows == 0 ? win->end_ns : MAX(sum->end_ns, win->end_ns);
    sum->windows += win->windows;
    sum->lost_events += win->lost_events;
    total->length_ns += win->end_ns - win->begin_ns;
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

/* ---- memory ---- */

void
vg_store_total_add_window(struct vg_store_total *total, const struct vg_store_window *window)
{
    const struct vg_store_win win = {
        .begin_ns = window->begin_ns,
        .end_ns = window->end_ns,
        .windows = 1,
        .lost_events = (int64_t)window->lost_events,
    };
    struct vg_store_cursor cursor = {window->packed};
    g_autoptr(GArray) losses = g_array_new(FALSE, FALSE, sizeof(struct vg_store_loss));
    struct vg_store_sample sample;

    vg_store_total_add_period(total, &win);
    vg_store_host_add(&total->host, &window->host);
    for (guint i = 0; i < window->cast->n_slots; i++) {
        const struct vg_store_vm *slot = &window->cast->slots[i];
        struct vg_store_total_vm *vm = total_need_vm(total, slot->key, slot->name, window->end_ns);
        vg_store_window_next(&cursor, &sample, losses);
        vg_store_sample_add(&vm->sample, &sample);
        for (guint k = 0; k < losses->len; k++) {
            const struct vg_store_loss *loss = &g_array_index(losses, struct vg_store_loss, k);
            const char *name = vg_store_window_aggressor(window, loss->aggressor);
            vg_store_losses_add(vm->losses, vg_store_total_number(total, name), loss->ns,
                                loss->count);
        }
    }
}
