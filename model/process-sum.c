/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/process-sum.h"

#include <string.h>

static int64_t
process_sum_most(const struct vg_lost_process *row)
{
    return vg_time_sum(row->ns, row->error_ns);
}

static bool
process_sum_is_same(const struct vg_lost_process *a, const struct vg_lost_process *b)
{
    return memcmp(a->comm, b->comm, sizeof(a->comm)) == 0 && strcmp(a->cgroup, b->cgroup) == 0;
}

void
vg_process_sum_add(GArray *rows, const struct vg_lost_process *more)
{
    struct vg_lost_process fresh = *more;
    struct vg_lost_process *least = NULL;

    fresh.pids = MAX(more->pids, 1);
    for (guint i = 0; i < rows->len; i++) {
        struct vg_lost_process *row = &g_array_index(rows, struct vg_lost_process, i);
        if (process_sum_is_same(row, more)) {
            row->ns = vg_time_sum(row->ns, more->ns);
            row->error_ns = vg_time_sum(row->error_ns, more->error_ns);
            row->count += more->count;
            row->pids += row->pid == more->pid ? 0 : fresh.pids;
            row->pid = more->pid;
            return;
        }
        if (!least || process_sum_most(row) < process_sum_most(least))
            least = row;
    }
    if (!least || rows->len < VG_SUM_LOST_PROCESSES_MAX) {
        g_array_append_val(rows, fresh);
        return;
    }
    fresh.error_ns = vg_time_sum(fresh.error_ns, process_sum_most(least));
    *least = fresh;
}
