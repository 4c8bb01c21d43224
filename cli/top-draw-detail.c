/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/sparkline.h"
#include "cli/top-draw.h"

#define LABEL_COLUMNS 24 /* the width of the label before a sparkline */
#define PROCESSES_MAX 5  /* the maximum number of lines for processes */

/* A page drawn on a grid of sufficient height, of which the screen shows a part. */
struct page {
    vg_grid *grid;
    int row;
};

static void
draw_figures(const struct vg_top_model *model, const struct vg_top_row *row, struct page *page)
{
    const struct vg_top_rates *rates = &row->rates;
    char used[VG_TOP_FIGURE_LEN], guest[VG_TOP_FIGURE_LEN], preempt[VG_TOP_FIGURE_LEN],
        wake[VG_TOP_FIGURE_LEN], per_s[VG_TOP_FIGURE_LEN], gpu[VG_TOP_FIGURE_LEN],
        busy[VG_TOP_FIGURE_LEN], oldest[VG_TOP_FIGURE_LEN];

    vg_grid_print(page->grid, page->row++, 0, VG_ATTR_PLAIN,
                  "used %s cores, %s %% of this in the guest", vg_top_figure(used, rates->used, 2),
                  vg_top_figure(guest, rates->guest * 100, 0));
    if (model->newest->waits_split)
        vg_grid_print(page->grid, page->row++, 0, VG_ATTR_PLAIN,
                      "lost %s cores after a preemption (%s/s), %s after a wakeup",
                      vg_top_figure(preempt, rates->preempt, 2),
                      vg_top_figure(per_s, rates->preemptions_per_s, 1),
                      vg_top_figure(wake, rates->wake_wait, 2));
    else
        vg_grid_print(page->grid, page->row++, 0, VG_ATTR_PLAIN,
                      "lost %s cores; it is unknown which waits followed a preemption",
                      vg_top_figure(wake, rates->lost, 2));
    if (row->vm->gpu_known)
        vg_grid_print(page->grid, page->row++, 0, VG_ATTR_PLAIN,
                      "wanted the GPU %s %% of the time, kept %s engines busy",
                      vg_top_figure(gpu, rates->gpu_wanted * 100, 0),
                      vg_top_figure(busy, rates->gpu_busy, 2));
    if (row->vm->sums.gpu_open_known && row->vm->sums.gpu_open > 0)
        vg_grid_print(page->grid, page->row++, 0, VG_ATTR_PLAIN,
                      "GPU requests open: %" PRId64 ", the oldest for %s", row->vm->sums.gpu_open,
                      vg_top_duration(oldest, row->vm->sums.gpu_oldest_ns));
}

static void
draw_spark(struct page *page, const char *label, enum vg_grid_attr attr, const GArray *points,
           const struct vg_top_detail *detail)
{
    int columns = MAX(vg_grid_columns(page->grid) - LABEL_COLUMNS, 1);
    g_autofree double *values = g_new(double, (size_t)columns);
    char most[VG_TOP_FIGURE_LEN];

    vg_spark_resample(points, detail->since_ns, detail->until_ns, values, (size_t)columns);
    double max = vg_spark_max(values, (size_t)columns);
    g_autofree char *text = vg_spark_text(values, (size_t)columns, max, vg_grid_utf8(page->grid));
    vg_grid_print(page->grid, page->row, 0, VG_ATTR_PLAIN, "%s, up to %s", label,
                  vg_top_figure(most, max, 2));
    vg_grid_print(page->grid, page->row++, LABEL_COLUMNS, attr, "%s", text);
}

static void
draw_history(const struct vg_top_detail *detail, struct page *page)
{
    char span[VG_TOP_FIGURE_LEN];

    page->row++;
    if (detail->no_history) {
        vg_grid_print(page->grid, page->row++, 0, VG_ATTR_WARN, "no history: %s",
                      detail->no_history);
        return;
    }
    vg_grid_print(page->grid, page->row++, 0, VG_ATTR_BOLD, "The last %s, in cores",
                  vg_top_duration(span, detail->until_ns - detail->since_ns));
    if (detail->used->len == 0) {
        vg_grid_print(page->grid, page->row++, 0, VG_ATTR_DIM, "nothing is stored for that time");
        return;
    }
    draw_spark(page, "used", VG_ATTR_USED, detail->used, detail);
    draw_spark(page, "lost", VG_ATTR_LOST, detail->lost, detail);
}

/* Draws a line with an aggressor and its share. */
static void
draw_taker(struct page *page, const char *who, double lost, double all, double per_s)
{
    double share = all > 0 ? lost / all * 100 : (double)NAN;
    char text[VG_TOP_FIGURE_LEN];

    vg_grid_put(page->grid, page->row, 0, 32, false, VG_ATTR_PLAIN, who);
    vg_grid_put(page->grid, page->row, 33, 8, true, VG_ATTR_LOST, vg_top_figure(text, lost, 3));
    vg_grid_put(page->grid, page->row, 42, 8, true, VG_ATTR_PLAIN, vg_top_figure(text, share, 1));
    vg_grid_put(page->grid, page->row++, 51, 8, true, VG_ATTR_PLAIN, vg_top_figure(text, per_s, 1));
}

/* Draws the processes behind host:user: the largest ones, and the sum of the others. */
static void
draw_processes(const struct vg_top_model *model, double all, struct page *page)
{
    const struct vg_top_detail *detail = vg_top_model_detail(model);
    double lost = 0, per_s = 0;

    if (!detail || detail->gone)
        return;
    const GPtrArray *processes =
        vg_top_model_is_since_start(model) ? detail->start_processes : detail->processes;
    for (guint i = 0; i < processes->len; i++) {
        const struct vg_top_process *process = processes->pdata[i];
        if (i >= PROCESSES_MAX || !process->name) {
            lost += process->lost;
            per_s += process->per_s;
            continue;
        }
        g_autofree char *who =
            g_strdup_printf("  %s (%" G_GINT64_FORMAT ")", process->name, process->pid);
        draw_taker(page, who, process->lost, all, process->per_s);
    }
    if (lost > 0 || per_s > 0)
        draw_taker(page, "  others", lost, all, per_s);
}

static void
draw_takers(const struct vg_top_model *model, const struct vg_top_row *row, struct page *page)
{
    page->row++;
    vg_grid_set_attr(page->grid, page->row, VG_ATTR_HEADER);
    vg_grid_put(page->grid, page->row, 0, 32, false, VG_ATTR_HEADER, "LOST CPU TO");
    vg_grid_put(page->grid, page->row, 33, 8, true, VG_ATTR_HEADER, "cores");
    vg_grid_put(page->grid, page->row, 42, 8, true, VG_ATTR_HEADER, "% of it");
    vg_grid_put(page->grid, page->row++, 51, 8, true, VG_ATTR_HEADER, "PRE/s");
    if (model->takers->len == 0)
        vg_grid_print(page->grid, page->row++, 0, VG_ATTR_DIM, "nobody");
    for (guint i = 0; i < model->takers->len; i++) {
        const struct vg_top_taker *taker = &g_array_index(model->takers, struct vg_top_taker, i);
        draw_taker(page, taker->who, taker->lost, row->rates.lost, taker->per_s);
        if (strcmp(taker->who, "host:user") == 0)
            draw_processes(model, row->rates.lost, page);
    }
}

static void
draw_vcpu_headers(struct page *page, bool since_start)
{
    static const char *const headers[] = {"VCPU",    "TID",  "USED", "GUEST",
                                          "PREEMPT", "WAKE", "PRE/s"};

    page->row++;
    vg_grid_set_attr(page->grid, page->row, VG_ATTR_HEADER);
    for (int i = 0; i < (int)G_N_ELEMENTS(headers); i++)
        vg_grid_put(page->grid, page->row, i * 9, 8, true, VG_ATTR_HEADER, headers[i]);
    if (since_start)
        vg_grid_print(page->grid, page->row, 65, VG_ATTR_HEADER, "since vgpud started");
    page->row++;
}

static void
draw_vcpus(const struct vg_top_model *model, const struct vg_top_detail *detail, struct page *page)
{
    for (guint i = 0; i < detail->vcpus->len; i++) {
        const struct vg_top_vcpu *vcpu = &g_array_index(detail->vcpus, struct vg_top_vcpu, i);
        struct vg_top_rates rates;
        bool since_start;
        char text[VG_TOP_FIGURE_LEN];
        vg_top_model_vcpu(model, i, &rates, &since_start);
        if (i == 0)
            draw_vcpu_headers(page, since_start);
        const struct {
            double value;
            int decimals;
        } cells[] = {
            {vcpu->vcpu < 0 ? (double)NAN : (double)vcpu->vcpu, 0},
            {0, 0}, /* the tid, which is never cut */
            {rates.used, 3},
            {rates.guest * 100, 0},
            {rates.preempt, 3},
            {rates.wake_wait, 3},
            {rates.preemptions_per_s, 1},
        };
        for (int c = 0; c < (int)G_N_ELEMENTS(cells); c++)
            vg_grid_put(page->grid, page->row, c * 9, 8, true, VG_ATTR_PLAIN,
                        vg_top_figure(text, cells[c].value, cells[c].decimals));
        g_autofree char *tid = g_strdup_printf("%" G_GINT64_FORMAT, vcpu->tid);
        vg_grid_put(page->grid, page->row++, 9, 8, true, VG_ATTR_PLAIN, tid);
    }
}

void
vg_top_draw_detail(struct vg_top_model *model, vg_grid *grid, int row)
{
    const struct vg_top_row *vm = vg_top_model_detail_row(model);
    const struct vg_top_detail *detail = vg_top_model_detail(model);
    int room = MAX(vg_grid_rows(grid) - 1 - (row + 1), 1);
    int lines =
        16 + PROCESSES_MAX + 1 + (int)model->takers->len + (detail ? (int)detail->vcpus->len : 0);
    g_autoptr(vg_grid) tall = vg_grid_new(lines, vg_grid_columns(grid), vg_grid_utf8(grid));
    struct page page = {tall, 0};

    vg_grid_set_attr(grid, row, VG_ATTR_HEADER);
    int column = vg_grid_print(grid, row, 0, VG_ATTR_SORTED, "%s", model->detail_name);
    if (vm)
        vg_grid_print(grid, row, column, VG_ATTR_HEADER,
                      "  %s, class %s, pid %" G_GINT64_FORMAT ", %s", vm->vm->state,
                      vm->vm->vm_class ? vm->vm->vm_class : "-", vm->vm->pid, vm->vm->id);
    if (!vm || (detail && detail->gone))
        vg_grid_print(tall, page.row++, 0, VG_ATTR_WARN, "vgpud no longer sees this VM");
    if (vm) {
        draw_figures(model, vm, &page);
        if (detail && !detail->gone)
            draw_history(detail, &page);
        draw_takers(model, vm, &page);
    }
    if (detail)
        draw_vcpus(model, detail, &page);
    else if (vm)
        vg_grid_print(tall, page.row++, 0, VG_ATTR_DIM,
                      "querying vgpud for its vCPUs and its "
                      "history");
    model->page = room;
    model->detail_first = CLAMP(model->detail_first, 0, MAX(page.row - room, 0));
    vg_grid_copy(grid, row + 1, tall, model->detail_first, room);
}
