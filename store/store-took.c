/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store-took.h"

#include <string.h>

#include "base/error.h"

/* The maximum number of processes of a VM or host that are summed up at the same time. */
#define TOOK_ROWS_MAX 512

static void
took_split(const char *key, char comm[VG_COMM_LEN], const char **ret_cgroup)
{
    const size_t length = MIN((size_t)(key[0] - VG_STORE_TOOK_FIRST), VG_COMM_LEN - 1);

    g_strlcpy(comm, key + 1, length + 1);
    *ret_cgroup = key + 1 + length;
}

void
vg_store_took_add_window(struct vg_store_total *total, const struct vg_store_window *window)
{
    for (guint i = 0; i < window->took->len; i++) {
        const struct vg_store_took *took = &g_array_index(window->took, struct vg_store_took, i);
        if (took->slot == VG_STORE_TOOK_PROGRAM) {
            vg_store_losses_add(total->programs, vg_store_total_number(total, took->key), took->ns,
                                0);
            continue;
        }
        const struct vg_store_vm *slot = &window->cast->slots[took->slot];
        struct vg_store_total_vm *vm = g_hash_table_lookup(total->by_key, slot->key);
        uint32_t number = vg_store_total_number(total, took->key);
        if (vm)
            vg_store_losses_add(vm->processes, number, took->ns, took->count);
        vg_store_losses_add(total->processes, number, took->ns, took->count);
    }
}

/* ---- files ---- */

/* Sorts by time in descending order, and cuts the list to this length. */
static void
took_cut(GArray *processes, int64_t top)
{
    vg_store_losses_cut(processes, top);
    /* host:user itself includes all others. */
    if (processes->len > top)
        g_array_set_size(processes, (guint)top);
}

static int64_t
took_most(const struct vg_store_loss *took)
{
    return took->ns + took->error_ns;
}

static int
took_compare_most(const void *a, const void *b)
{
    const struct vg_store_loss *x = a, *y = b;

    if (took_most(x) != took_most(y))
        return took_most(x) > took_most(y) ? -1 : 1;
    return (x->aggressor > y->aggressor) - (x->aggressor < y->aggressor);
}

/* A long period may have any number of processes. As in model/process-sum.h, half of the rows is
 * dropped at a time: those with the smallest maximum. A new process may have been among them, which
 * error_ns records. So no order of arrival excludes a process that took more than others. */
static void
took_add(struct vg_store_total *total, GArray *processes, int64_t *floor_ns, const char *key,
         int64_t ns, uint64_t count)
{
    const guint before = processes->len;

    vg_store_losses_add(processes, vg_store_total_number(total, key), ns, count);
    if (processes->len == before)
        return;
    g_array_index(processes, struct vg_store_loss, before).error_ns = *floor_ns;
    if (processes->len < TOOK_ROWS_MAX)
        return;
    g_array_sort(processes, took_compare_most);
    *floor_ns = took_most(&g_array_index(processes, struct vg_store_loss, TOOK_ROWS_MAX / 2));
    g_array_set_size(processes, TOOK_ROWS_MAX / 2);
}

int
vg_store_took_read(struct vg_store_total_reader *reader, int64_t win, GError **err)
{
    struct vg_store_file *file = reader->file;

    if (!vg_store_file_knows(file, VG_SQL_TOOK))
        return 0;
    sqlite3_stmt *rows = vg_store_file_query(file, VG_SQL_TOOK, err, "i", win);
    int status = rows ? 1 : -1;
    while (status > 0) {
        status = vg_store_file_step(file, rows, err);
        if (status <= 0)
            break;
        const char *comm = vg_store_file_text(file, rows, 1, err);
        const char *cgroup = comm ? vg_store_file_text(file, rows, 2, err) : NULL;
        if (!cgroup)
            return -1;
        g_autofree char *key = vg_store_took_key(comm, cgroup);
        int64_t id = sqlite3_column_int64(rows, 0);
        if (id == VG_STORE_TOOK_PROGRAMS) {
            took_add(reader->total, reader->total->programs, &reader->total->programs_floor_ns, key,
                     sqlite3_column_int64(rows, 3), 0);
            continue;
        }
        struct vg_store_total_vm *vm =
            id > 0 ? g_hash_table_lookup(reader->vms, (void *)(intptr_t)id) : NULL;
        /* If the VM has no sample in this window, there is nothing to add. */
        if (id > 0 && !vm)
            continue;
        took_add(reader->total, vm ? vm->processes : reader->total->processes,
                 vm ? &vm->processes_floor_ns : &reader->total->processes_floor_ns, key,
                 sqlite3_column_int64(rows, 3), (uint64_t)sqlite3_column_int64(rows, 4));
    }
    return status;
}

int
vg_store_took_read_programs(struct vg_store_file *file, int64_t win, struct vg_store_total *names,
                            GArray *programs, int64_t *floor_ns, GError **err)
{
    if (!vg_store_file_knows(file, VG_SQL_TOOK_OF))
        return 0;
    sqlite3_stmt *rows =
        vg_store_file_query(file, VG_SQL_TOOK_OF, err, "ii", win, VG_STORE_TOOK_PROGRAMS);
    int status = rows ? 1 : -1;
    while (status > 0) {
        status = vg_store_file_step(file, rows, err);
        if (status <= 0)
            break;
        const char *comm = vg_store_file_text(file, rows, 0, err);
        const char *cgroup = comm ? vg_store_file_text(file, rows, 1, err) : NULL;
        if (!cgroup)
            return -1;
        g_autofree char *key = vg_store_took_key(comm, cgroup);
        took_add(names, programs, floor_ns, key, sqlite3_column_int64(rows, 2), 0);
    }
    return status;
}

int
vg_store_took_write(struct vg_store_file *file, int64_t win, int64_t vm,
                    const struct vg_store_total *total, GArray *processes, int64_t top,
                    GError **err)
{
    took_cut(processes, top);
    for (guint i = 0; i < processes->len; i++) {
        const struct vg_store_loss *took = &g_array_index(processes, struct vg_store_loss, i);
        const char *key = total->names->pdata[took->aggressor], *cgroup;
        char comm[VG_COMM_LEN];
        took_split(key, comm, &cgroup);
        int64_t id = vg_store_file_need_process(file, key, comm, cgroup, err);
        if (id < 0 || vg_store_file_run(file, VG_SQL_TOOK_ADD, err, "iiiii", win, vm, id, took->ns,
                                        (int64_t)took->count) != 0)
            return -1;
    }
    return 0;
}

/* ---- sums ---- */

static void
took_add_all(struct vg_store_total *total, GArray *to, const struct vg_store_total *of,
             const GArray *from)
{
    for (guint i = 0; i < from->len; i++) {
        const struct vg_store_loss *loss = &g_array_index(from, struct vg_store_loss, i);
        vg_store_losses_add(to, vg_store_total_number(total, of->names->pdata[loss->aggressor]),
                            loss->ns, loss->count);
    }
}

void
vg_store_took_add(struct vg_store_total *total, const struct vg_store_total *more)
{
    took_add_all(total, total->processes, more, more->processes);
    took_add_all(total, total->programs, more, more->programs);
    for (guint i = 0; i < total->vms->len; i++) {
        struct vg_store_total_vm *vm = total->vms->pdata[i];
        const struct vg_store_total_vm *known = g_hash_table_lookup(more->by_key, vm->key);
        if (known)
            took_add_all(total, vm->processes, more, known->processes);
    }
}

GArray *
vg_store_took_list(const struct vg_store_total *total, GArray *processes, int64_t top)
{
    GArray *list = g_array_new(FALSE, TRUE, sizeof(struct vg_history_process));

    took_cut(processes, top);
    for (guint i = 0; i < processes->len; i++) {
        const struct vg_store_loss *took = &g_array_index(processes, struct vg_store_loss, i);
        struct vg_history_process process = {.ns = took->ns, .count = took->count};
        const char *cgroup;
        took_split(total->names->pdata[took->aggressor], process.comm, &cgroup);
        g_strlcpy(process.cgroup, cgroup, sizeof(process.cgroup));
        g_array_append_val(list, process);
    }
    return list;
}
