/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store-row.h"

#include <stddef.h>

#define MEMBER(name) offsetof(struct vg_store_sample, name)
#define EXITS(n)     MEMBER(cpu.exits) + (n) * sizeof(uint64_t)

/* The members in the order of the columns. All are 8-byte integers. */
static const size_t columns[] = {
    MEMBER(windows),           MEMBER(flags),
    MEMBER(cpu.observed_ns),   MEMBER(cpu.run_ns),
    MEMBER(cpu.guest_ns),      MEMBER(cpu.preempt_ns),
    MEMBER(cpu.wake_wait_ns),  MEMBER(gpu_active_ns),
    MEMBER(cpu.entries),       MEMBER(cpu.preemptions),
    MEMBER(cpu.wakeups),       MEMBER(cpu.blocks),
    MEMBER(cpu.switches_out),  MEMBER(cpu.unseen_migrations),
    MEMBER(cpu.clipped),       EXITS(VG_EXIT_HLT),
    EXITS(VG_EXIT_IO),         EXITS(VG_EXIT_MMIO),
    EXITS(VG_EXIT_PAGE_FAULT), EXITS(VG_EXIT_INTERRUPT),
    EXITS(VG_EXIT_MSR),        EXITS(VG_EXIT_CPUID),
    EXITS(VG_EXIT_HYPERCALL),  EXITS(VG_EXIT_PREEMPTION_TIMER),
    EXITS(VG_EXIT_PAUSE),      EXITS(VG_EXIT_OTHER),
};
G_STATIC_ASSERT(G_N_ELEMENTS(columns) == VG_SQL_SAMPLE_COLUMNS);
/* A new member needs a column. Only blocked_ns has none. */
G_STATIC_ASSERT(sizeof(struct vg_store_sample) == (VG_SQL_SAMPLE_COLUMNS + 1) * sizeof(int64_t));

static int64_t *
member(const struct vg_store_sample *sample, int column)
{
    return (int64_t *)sample + columns[column] / sizeof(int64_t);
}

void
vg_store_row_read_win(sqlite3_stmt *statement, int first, struct vg_store_win *ret)
{
    *ret = (struct vg_store_win){
        .id = sqlite3_column_int64(statement, first),
        .begin_ns = sqlite3_column_int64(statement, first + 1),
        .end_ns = sqlite3_column_int64(statement, first + 2),
        .windows = sqlite3_column_int64(statement, first + 3),
        .lost_events = sqlite3_column_int64(statement, first + 4),
    };
}

void
vg_store_row_read_sample(sqlite3_stmt *statement, struct vg_store_sample *ret)
{
    for (int i = 0; i < VG_SQL_SAMPLE_COLUMNS; i++)
        *member(ret, i) = sqlite3_column_int64(statement, i);
    ret->cpu.blocked_ns =
        ret->cpu.observed_ns - ret->cpu.run_ns - ret->cpu.preempt_ns - ret->cpu.wake_wait_ns;
}

int
vg_store_row_add_sample(struct vg_store_file *file, int64_t win, int64_t vm,
                        const struct vg_store_sample *sample, GError **err)
{
    sqlite3_stmt *statement = vg_store_file_query(file, VG_SQL_SAMPLE_ADD, err, "ii", win, vm);

    if (!statement)
        return -1;
    for (int i = 0; i < VG_SQL_SAMPLE_COLUMNS; i++)
        sqlite3_bind_int64(statement, 3 + i, *member(sample, i));
    return vg_store_file_finish(file, statement, err);
}

int
vg_store_row_add_loss(struct vg_store_file *file, int64_t win, int64_t vm, int64_t aggressor,
                      const struct vg_store_loss *loss, GError **err)
{
    return vg_store_file_run(file, VG_SQL_LOST_ADD, err, "iiiii", win, vm, aggressor, loss->ns,
                             (int64_t)loss->count);
}

int64_t
vg_store_row_add_win(struct vg_store_file *file, int64_t source, const struct vg_store_win *win,
                     GError **err)
{
    if (vg_store_file_run(file, VG_SQL_WIN_ADD, err, "iiiii", source, win->begin_ns, win->end_ns,
                          win->windows, win->lost_events) != 0)
        return -1;
    return sqlite3_last_insert_rowid(file->db);
}

int
vg_store_row_delete_win(struct vg_store_file *file, int64_t win, GError **err)
{
    static const enum vg_sql parts[] = {VG_SQL_LOST_DELETE, VG_SQL_SAMPLE_DELETE,
                                        VG_SQL_HOST_DELETE, VG_SQL_MEASURED_DELETE,
                                        VG_SQL_TOOK_DELETE, VG_SQL_WIN_DELETE};

    for (guint i = 0; i < G_N_ELEMENTS(parts); i++) {
        if (!vg_store_file_knows(file, parts[i]))
            continue;
        if (vg_store_file_run(file, parts[i], err, "i", win) != 0)
            return -1;
    }
    return 0;
}
