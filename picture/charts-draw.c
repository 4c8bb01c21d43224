/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts the collected data to the input of picture/svg.h.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "picture/charts-private.h"
#include "picture/svg.h"

#define ENGINE_PANELS_MAX (VG_SVG_PANELS_MAX - 1)

/* A panel and its data. */
struct panel {
    struct vg_svg_panel panel;
    char *title;
    GArray *series; /* struct vg_svg_series */
    struct vg_svg_series total;
};

struct drawing {
    const struct vg_charts *charts;
    size_t n;
    int64_t step_ns;
    GPtrArray *values; /* double[n], owned */
};

/* Adds a series as shares of time. The drawing owns the values. */
static double *
shares_of(const struct drawing *drawing, unsigned int series)
{
    double *values = g_new(double, drawing->n);

    vg_step_sums_read(drawing->charts->sums, series, drawing->charts->end_ns, drawing->n,
                      drawing->step_ns, values);
    for (size_t i = 0; i < drawing->n; i++)
        values[i] /= (double)drawing->step_ns;
    g_ptr_array_add(drawing->values, values);
    return values;
}

static double
sum_of(const double *values, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return sum;
}

static void
add_values(double *to, const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += values[i];
}

static void
add_series(struct panel *panel, const struct drawing *drawing, const struct chart_user *user,
           const double *values)
{
    const struct vg_svg_series series = {user->name, user->index, values, drawing->n};

    g_array_append_val(panel->series, series);
}

static struct panel *
panel_new(char *take_title, bool stacked)
{
    struct panel *panel = g_new0(struct panel, 1);

    panel->title = take_title;
    panel->series = g_array_new(FALSE, FALSE, sizeof(struct vg_svg_series));
    panel->panel = (struct vg_svg_panel){.title = panel->title, .stacked = stacked};
    return panel;
}

static void
panel_free(void *data)
{
    struct panel *panel = data;

    g_array_unref(panel->series);
    g_free(panel->title);
    g_free(panel);
}

/* ---- use of GPUs and CPUs ---- */

static struct panel *
engine_panel(const struct drawing *drawing, const struct chart_engine *engine)
{
    const struct vg_charts *charts = drawing->charts;
    g_autofree char *name = charts_engine_name(charts, engine);
    struct panel *panel =
        panel_new(g_strdup_printf("GPU %s: share of time it was busy, by user", name), true);

    for (guint i = 0; i < charts->uses->len; i++) {
        const struct chart_use *use = g_ptr_array_index(charts->uses, i);
        if (use->engine != engine || use->same != use)
            continue;
        double *values = shares_of(drawing, use->busy.series);
        for (guint k = i + 1; k < charts->uses->len; k++) {
            const struct chart_use *other = g_ptr_array_index(charts->uses, k);
            if (other->same == use)
                add_values(values, shares_of(drawing, other->busy.series), drawing->n);
        }
        if (sum_of(values, drawing->n) > 0)
            add_series(panel, drawing, use->user->same, values);
    }
    panel->total = (struct vg_svg_series){
        .name = "all together",
        .values = shares_of(drawing, engine->busy.series),
        .n = drawing->n,
    };
    panel->panel.total = &panel->total;
    return panel;
}

static struct panel *
cpu_panel(const struct drawing *drawing)
{
    const struct vg_charts *charts = drawing->charts;
    struct panel *panel = panel_new(
        g_strdup("CPU intensity: share of time a VM's vCPUs ran or waited for a CPU"), false);

    for (guint i = 0; i < charts->users->len; i++) {
        const struct chart_user *user = g_ptr_array_index(charts->users, i);
        if (user->same != user)
            continue;
        double *demand = g_new0(double, drawing->n);
        g_autofree double *observed = g_new0(double, drawing->n);
        bool any = false;
        g_ptr_array_add(drawing->values, demand);
        for (guint k = i; k < charts->users->len; k++) {
            const struct chart_user *other = g_ptr_array_index(charts->users, k);
            if (other->same != user || !other->has_cpu)
                continue;
            any = true;
            add_values(demand, shares_of(drawing, other->demand), drawing->n);
            add_values(observed, shares_of(drawing, other->observed), drawing->n);
        }
        for (size_t s = 0; s < drawing->n; s++)
            demand[s] = observed[s] > 0 ? MIN(demand[s] / observed[s], 1) : (double)NAN;
        if (any)
            add_series(panel, drawing, user, demand);
    }
    return panel;
}

static int
compare_busy(const void *a, const void *b)
{
    const struct panel *x = *(struct panel *const *)a, *y = *(struct panel *const *)b;
    double more = sum_of(y->total.values, y->total.n) - sum_of(x->total.values, x->total.n);

    return (more > 0) - (more < 0);
}

static int
compare_titles(const void *a, const void *b)
{
    const struct panel *x = *(struct panel *const *)a, *y = *(struct panel *const *)b;

    return strcmp(x->title, y->title);
}

/* Returns the engines that worked, by name, but only the busiest ones if there are too many. */
static GPtrArray *
panels_of(const struct drawing *drawing, unsigned int *ret_left_out)
{
    GPtrArray *panels = g_ptr_array_new_with_free_func(panel_free);

    for (guint i = 0; i < drawing->charts->engines->len; i++)
        g_ptr_array_add(panels,
                        engine_panel(drawing, g_ptr_array_index(drawing->charts->engines, i)));
    *ret_left_out = panels->len > ENGINE_PANELS_MAX ? panels->len - ENGINE_PANELS_MAX : 0;
    if (*ret_left_out > 0) {
        g_ptr_array_sort(panels, compare_busy);
        g_ptr_array_set_size(panels, ENGINE_PANELS_MAX);
    }
    g_ptr_array_sort(panels, compare_titles);
    struct panel *cpu = cpu_panel(drawing);
    if (cpu->series->len > 0)
        g_ptr_array_add(panels, cpu);
    else
        panel_free(cpu);
    return panels;
}

void
vg_charts_draw_utilisation(const vg_charts *charts, const char *host, GString *out)
{
    struct drawing drawing = {
        .charts = charts,
        .values = g_ptr_array_new_with_free_func(g_free),
    };
    g_autoptr(GArray) panels = g_array_new(FALSE, FALSE, sizeof(struct vg_svg_panel));
    unsigned int left_out;

    drawing.n = vg_step_sums_steps(charts->sums, charts->end_ns, &drawing.step_ns);
    g_autoptr(GPtrArray) made = panels_of(&drawing, &left_out);
    for (guint i = 0; i < made->len; i++) {
        struct panel *panel = g_ptr_array_index(made, i);
        panel->panel.series = (const void *)panel->series->data;
        panel->panel.n_series = panel->series->len;
        g_array_append_val(panels, panel->panel);
    }
    g_autofree char *more =
        left_out > 0 ? g_strdup_printf(" (%u less busy engines are not shown)", left_out) : NULL;
    g_autofree char *title =
        g_strdup_printf("Use of GPUs and CPUs of host %s%s", host, more ? more : "");
    const struct vg_svg_utilisation what = {
        .title = title,
        .begin_ns = charts->begin_ns,
        .step_ns = drawing.step_ns,
        .panels = (const void *)panels->data,
        .n_panels = panels->len,
    };
    vg_svg_utilisation(out, &what);
    g_ptr_array_unref(drawing.values);
}

/* ---- requests ---- */

/* A row of the picture: an engine, or a user's requests to one. */
struct row {
    char *name;
    bool of_use;
    uint32_t number; /* index in the charts */
};

static int
charts_draw_compare_rows(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    if (x->of_use != y->of_use)
        return x->of_use ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void
clear_row(void *data)
{
    g_free(((struct row *)data)->name);
}

static GArray *
rows_of(const struct vg_charts *charts)
{
    GArray *rows = g_array_new(FALSE, FALSE, sizeof(struct row));

    g_array_set_clear_func(rows, clear_row);
    for (guint i = 0; i < charts->engines->len; i++) {
        const struct chart_engine *engine = g_ptr_array_index(charts->engines, i);
        const struct row row = {charts_engine_name(charts, engine), false, engine->row};
        g_array_append_val(rows, row);
    }
    for (guint i = 0; i < charts->uses->len; i++) {
        const struct chart_use *use = g_ptr_array_index(charts->uses, i);
        if (use->same != use || !use->seen)
            continue;
        g_autofree char *engine = charts_engine_name(charts, use->engine);
        const struct row row = {g_strdup_printf("%s: %s", use->user->same->name, engine), true,
                                use->row};
        g_array_append_val(rows, row);
    }
    g_array_sort(rows, charts_draw_compare_rows);
    return rows;
}

/* Maps the numbers in the charts to places in the picture. The caller frees it. */
static uint32_t *
places_of(const struct vg_charts *charts, const GArray *rows)
{
    uint32_t *places = g_new0(uint32_t, MAX(charts->rows, 1));

    for (guint i = 0; i < rows->len; i++)
        places[g_array_index(rows, struct row, i).number] = i;
    for (guint i = 0; i < charts->uses->len; i++) {
        const struct chart_use *use = g_ptr_array_index(charts->uses, i);
        places[use->row] = places[use->same->row];
    }
    return places;
}

static const char *
label_of(const struct vg_charts *charts, const struct vg_interval *interval, bool of_use)
{
    const struct chart_user *user = g_ptr_array_index(charts->users, interval->identity);

    if (interval->joined)
        return NULL;
    if (!of_use)
        return user->same->name;
    switch ((enum vg_gpu_stage)interval->kind) {
    case VG_GPU_STAGE_QUEUED:
        return "queued";
    case VG_GPU_STAGE_SUBMITTED:
        return "submitted";
    case VG_GPU_STAGE_READY:
        return "ready";
    case VG_GPU_STAGE_NONE:
    case VG_GPU_STAGE_RUNNING:
    case VG_GPU_STAGE_OVER:
        break;
    }
    return NULL;
}

/* Returns the title, with the number of stages if they are not all drawn separately. */
static char *
title_of(const struct vg_charts *charts, const char *host)
{
    g_autoptr(GString) title = g_string_new(NULL);
    uint64_t left_out = vg_intervals_left_out(charts->intervals);

    g_string_append_printf(title, "GPU requests of host %s", host);
    if (left_out > 0 || vg_intervals_were_joined(charts->intervals))
        g_string_append_printf(title, ": %" G_GUINT64_FORMAT " stages, with short ones combined",
                               charts->stages);
    if (left_out > 0)
        g_string_append_printf(title, ", %" G_GUINT64_FORMAT " marks omitted", left_out);
    return g_string_free(g_steal_pointer(&title), FALSE);
}

void
vg_charts_draw_requests(vg_charts *charts, const char *host, GString *out)
{
    g_autoptr(GArray) rows = rows_of(charts);
    g_autofree uint32_t *places = places_of(charts, rows);
    const GArray *kept = vg_intervals_all(charts->intervals);
    g_autoptr(GArray) intervals = g_array_new(FALSE, FALSE, sizeof(struct vg_svg_interval));
    g_autofree const char **row_names = g_new0(const char *, rows->len + 1);
    g_autofree const char **names = g_new0(const char *, charts->users->len + 1);
    g_autofree char *title = title_of(charts, host);

    for (guint i = 0; i < rows->len; i++)
        row_names[i] = g_array_index(rows, struct row, i).name;
    for (guint i = 0; i < charts->users->len; i++)
        names[i] = ((struct chart_user *)g_ptr_array_index(charts->users, i))->name;
    for (guint i = 0; i < kept->len; i++) {
        const struct vg_interval *interval = &g_array_index(kept, struct vg_interval, i);
        const struct chart_user *user = g_ptr_array_index(charts->users, interval->identity);
        uint32_t place = places[interval->row];
        const struct vg_svg_interval drawn = {
            .row = place,
            .identity = user->same->index,
            .begin_ns = interval->begin_ns,
            .end_ns = interval->end_ns,
            .kind = interval->kind == VG_GPU_STAGE_RUNNING ? VG_SVG_RUNNING : VG_SVG_WAITING,
            .label = label_of(charts, interval, g_array_index(rows, struct row, place).of_use),
        };
        g_array_append_val(intervals, drawn);
    }
    const struct vg_svg_timegraph what = {
        .title = title,
        .begin_ns = charts->begin_ns,
        .end_ns = charts->end_ns,
        .rows = row_names,
        .n_rows = rows->len,
        .names = names,
        .n_names = charts->users->len,
        .intervals = (const void *)intervals->data,
        .n_intervals = intervals->len,
    };
    vg_svg_timegraph(out, &what);
}
