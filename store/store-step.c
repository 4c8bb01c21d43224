/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store-step.h"

#include "model/event.h"

/* Adds the figures of a host's step that are not sums over VMs. */
static void
step_add_host(struct vg_history_step *step, const struct vg_store_win *win,
              const struct vg_store_host *host)
{
    step->windows += win->windows;
    step->length_ns += win->end_ns - win->begin_ns;
    vg_host_figures_add(&step->host, &host->figures);
    for (guint i = 0; i < host->measured->len; i++) {
        const struct vg_history_measured *measured =
            &g_array_index(host->measured, struct vg_history_measured, i);
        vg_history_add_measured(step->measured, measured->by, measured->ns, measured->who_ns);
    }
}

void
vg_store_step_add_window(struct vg_history_step *step, const struct vg_store_window *window)
{
    const struct vg_store_win win = {
        .begin_ns = window->begin_ns, .end_ns = window->end_ns, .windows = 1};
    g_autoptr(GArray) losses = g_array_new(FALSE, FALSE, sizeof(struct vg_store_loss));
    struct vg_store_cursor cursor = {window->packed};
    struct vg_store_sample sample;

    step_add_host(step, &win, &window->host);
    for (guint i = 0; i < window->cast->n_slots; i++) {
        vg_store_window_next(&cursor, &sample, losses);
        step->vm_windows += sample.windows;
        step->run_ns = vg_time_sum(step->run_ns, sample.cpu.run_ns);
        step->preempt_ns = vg_time_sum(step->preempt_ns, sample.cpu.preempt_ns);
        step->wake_wait_ns = vg_time_sum(step->wake_wait_ns, sample.cpu.wake_wait_ns);
        step->preemptions += (int64_t)sample.cpu.preemptions;
        step->lacks |= (unsigned int)(sample.flags >> VG_SAMPLE_LACKS_SHIFT);
    }
}

int
vg_store_step_add_win(struct vg_store_file *file, const struct vg_store_win *win,
                      struct vg_history_step *step, GError **err)
{
    struct vg_store_host host;

    vg_store_host_init(&host);
    int status = vg_store_host_read(file, win->id, &host, err);
    if (status == 0)
        step_add_host(step, win, &host);
    vg_store_host_clear(&host);
    sqlite3_stmt *sums =
        status == 0 ? vg_store_file_query(file, VG_SQL_SAMPLE_SUMS, err, "i", win->id) : NULL;
    status = sums ? vg_store_file_step(file, sums, err) : -1;
    if (status <= 0)
        return status;
    /* The sums are NULL, read as 0, if there was no VM. */
    step->vm_windows += sqlite3_column_int64(sums, 0);
    step->run_ns = vg_time_sum(step->run_ns, sqlite3_column_int64(sums, 1));
    step->preempt_ns = vg_time_sum(step->preempt_ns, sqlite3_column_int64(sums, 2));
    step->wake_wait_ns = vg_time_sum(step->wake_wait_ns, sqlite3_column_int64(sums, 3));
    step->preemptions += sqlite3_column_int64(sums, 4);
    step->lacks |= (unsigned int)(sqlite3_column_int64(sums, 5) >> VG_SAMPLE_LACKS_SHIFT);
    sqlite3_reset(sums);
    return 0;
}
