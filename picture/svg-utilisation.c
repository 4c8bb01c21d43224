/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <math.h>

#include "picture/svg-draw.h"
#include "picture/svg.h"

#define LEFT        72.0 /* of the axes */
#define RIGHT       36.0
#define TOP         60.0
#define PLOT_WIDTH  (VG_SVG_WIDTH - LEFT - RIGHT)
#define PLOT_HEIGHT 200.0
#define PANEL_GAP   28.0
#define COLUMNS_MAX 1092  /* one per pixel */
#define VALUE_MAX   100.0 /* 10000 % */

/* A series as drawn: one value per column, or NAN if unknown. */
struct course {
    char *name;
    unsigned int colour;
    double *values;
    double mean;
};

struct plot {
    unsigned int *colours; /* of identities */
    size_t n_steps;
    size_t n_columns;
    struct vg_svg_axis axis;
    GString *body;
};

/* ---- values ---- */

static double
mean_of(const double *values, size_t begin, size_t end)
{
    double sum = 0;
    size_t known = 0;

    for (size_t i = begin; i < end; i++) {
        if (isfinite(values[i])) {
            sum += CLAMP(values[i], 0, VALUE_MAX);
            known++;
        }
    }
    return known > 0 ? sum / (double)known : (double)NAN;
}

static unsigned int
colour_of(const struct plot *plot, const struct vg_svg_series *series)
{
    return series->identity < VG_SVG_IDENTITIES_MAX ? plot->colours[series->identity]
                                                    : VG_SVG_COLOUR_OTHERS;
}

static struct course
course_of(const struct plot *plot, const struct vg_svg_series *series)
{
    struct course course = {
        .name = g_strdup(series->name),
        .colour = colour_of(plot, series),
        .values = g_new(double, plot->n_columns),
        .mean = mean_of(series->values, 0, series->n),
    };

    for (size_t i = 0; i < plot->n_columns; i++) {
        size_t begin = i * plot->n_steps / plot->n_columns;
        size_t end = (i + 1) * plot->n_steps / plot->n_columns;
        course.values[i] = mean_of(series->values, MIN(begin, series->n), MIN(end, series->n));
    }
    return course;
}

static void
clear_course(void *data)
{
    struct course *course = data;

    g_free(course->name);
    g_free(course->values);
}

/* Returns the sum of a stack, otherwise the mean. */
static double
together(const struct course *courses, size_t n, size_t column, bool sum)
{
    double value = 0;
    size_t known = 0;

    for (size_t i = 0; i < n; i++) {
        if (!isnan(courses[i].values[column])) {
            value += courses[i].values[column];
            known++;
        }
    }
    if (known == 0)
        return (double)NAN;
    return sum ? value : value / (double)known;
}

static struct course
others_of(const struct plot *plot, const GArray *courses, bool sum)
{
    struct course others = {
        .name = g_strdup_printf(sum ? "%u others" : "mean of %u others", courses->len),
        .colour = VG_SVG_COLOUR_OTHERS,
        .values = g_new(double, plot->n_columns),
    };

    for (size_t i = 0; i < plot->n_columns; i++)
        others.values[i] =
            together((const struct course *)(void *)courses->data, courses->len, i, sum);
    others.mean = mean_of(others.values, 0, plot->n_columns);
    return others;
}

/* Returns the courses (struct course): those with a colour, and one for all others. */
static GArray *
courses_of(const struct plot *plot, const struct vg_svg_panel *panel)
{
    GArray *courses = g_array_new(FALSE, FALSE, sizeof(struct course));
    g_autoptr(GArray) grey = g_array_new(FALSE, FALSE, sizeof(struct course));

    g_array_set_clear_func(courses, clear_course);
    g_array_set_clear_func(grey, clear_course);
    for (size_t i = 0; i < panel->n_series; i++) {
        struct course course = course_of(plot, &panel->series[i]);
        g_array_append_val(course.colour == VG_SVG_COLOUR_OTHERS ? grey : courses, course);
    }
    if (grey->len > 1) {
        struct course others = others_of(plot, grey, panel->stacked);
        g_array_append_val(courses, others);
    } else if (grey->len == 1) {
        g_array_append_val(courses, g_array_index(grey, struct course, 0));
        g_array_set_clear_func(grey, NULL);
    }
    return courses;
}

static double
largest(const GArray *courses, const struct course *total, size_t n_columns, bool stacked)
{
    double max = 0;

    for (size_t column = 0; column < n_columns; column++) {
        double sum = 0;
        for (unsigned int i = 0; i < courses->len; i++) {
            double value = g_array_index(courses, struct course, i).values[column];
            if (isnan(value))
                continue;
            sum += value;
            max = stacked ? max : MAX(max, value);
        }
        max = stacked ? MAX(max, sum) : max;
        if (total && !isnan(total->values[column]))
            max = MAX(max, total->values[column]);
    }
    return max;
}

/* ---- drawing ---- */

static double
column_x(const struct plot *plot, size_t column)
{
    return plot->axis.x + plot->axis.width * (double)column / (double)plot->n_columns;
}

static void
put_xy(GString *out, char command, double x, double y)
{
    g_string_append_c(out, command);
    vg_svg_put_number(out, x);
    g_string_append_c(out, ' ');
    vg_svg_put_number(out, y);
}

static void
put_step(GString *out, char command, double to)
{
    g_string_append_c(out, command);
    vg_svg_put_number(out, to);
}

/* Draws steps through known values, with gaps in between. An area returns to the bottom. */
static void
put_steps(const struct plot *plot, const double *values, double max, double bottom, bool area)
{
    bool open = false;
    double last = 0;

    for (size_t i = 0; i <= plot->n_columns; i++) {
        bool known = i < plot->n_columns && !isnan(values[i]);
        double x = column_x(plot, i);
        double y = known ? bottom - PLOT_HEIGHT * values[i] / max : bottom;
        if (open && (!known || y != last))
            put_step(plot->body, 'H', x);
        if (open && known && y != last)
            put_step(plot->body, 'V', y);
        if (open && !known && area)
            g_string_append_printf(plot->body, "V%dZ", (int)bottom);
        if (!open && known) {
            put_xy(plot->body, 'M', x, area ? bottom : y);
            if (area)
                put_step(plot->body, 'V', y);
        }
        open = known;
        last = y;
    }
}

static void
put_course(const struct plot *plot, const struct course *course, const double *values, double max,
           double bottom, bool area)
{
    g_autofree char *mean = isnan(course->mean) ? NULL : vg_svg_percent(course->mean);
    g_autofree char *tip =
        g_strdup_printf("%s: %s%s", course->name, mean ? "mean " : "not known", mean ? mean : "");

    g_string_append(plot->body, area ? "<path fill='" : "<path class='line' stroke='");
    vg_svg_put_colour(plot->body, course->colour, false);
    g_string_append(plot->body, "' d='");
    put_steps(plot, values, max, bottom, area);
    g_string_append(plot->body, "'>");
    vg_svg_put_tooltip(plot->body, tip);
    g_string_append(plot->body, "</path>\n");
}

/* Draws from the highest sum to the lowest, each down to the bottom, so that there are no seams. */
static void
put_stack(const struct plot *plot, const GArray *courses, double max, double bottom)
{
    g_autofree double *sums = g_new(double, plot->n_columns);

    for (unsigned int n = courses->len; n > 0; n--) {
        for (size_t column = 0; column < plot->n_columns; column++)
            sums[column] = together((const struct course *)(void *)courses->data, n, column, true);
        put_course(plot, &g_array_index(courses, struct course, n - 1), sums, max, bottom, true);
    }
}

static void
put_scale(const struct plot *plot, double top, double max)
{
    double right = plot->axis.x + plot->axis.width;

    vg_svg_put_time_grid(plot->body, &plot->axis, top, top + PLOT_HEIGHT);
    for (int i = 0; i <= 4; i++) {
        double y = top + PLOT_HEIGHT * (4 - i) / 4;
        g_autofree char *label = g_strdup_printf("%d %%", (int)lround(max * 25 * i));
        vg_svg_put_line(plot->body, plot->axis.x, y, right, y, "grid");
        vg_svg_put_text(plot->body, plot->axis.x - 8, y + 4, VG_SVG_TEXT_END, label);
    }
    vg_svg_put_line(plot->body, plot->axis.x, top, plot->axis.x, top + PLOT_HEIGHT, "axis");
}

static double
put_legend(const struct plot *plot, const GArray *courses, const struct course *total, double y)
{
    g_autoptr(GArray) items = g_array_new(FALSE, FALSE, sizeof(struct vg_svg_legend_item));
    g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);

    for (unsigned int i = 0; i < courses->len + (total ? 1 : 0); i++) {
        const struct course *course =
            i < courses->len ? &g_array_index(courses, struct course, i) : total;
        g_autofree char *mean = isnan(course->mean) ? NULL : vg_svg_percent(course->mean);
        struct vg_svg_legend_item item = {
            .colour = course->colour,
            .line = course == total,
            .name = course->name,
            .note = mean ? g_strdup_printf("mean %s", mean) : NULL,
        };
        g_ptr_array_add(notes, (char *)item.note);
        g_array_append_val(items, item);
    }
    return vg_svg_put_legend(plot->body, LEFT, y, (const void *)items->data, items->len);
}

/* Returns the y below it. */
static double
put_panel(const struct plot *plot, const struct vg_svg_panel *panel, double y)
{
    g_autoptr(GArray) courses = courses_of(plot, panel);
    struct course total = {0};
    double max = 1;

    if (panel->total)
        total = course_of(plot, panel->total);
    const struct course *line = panel->total ? &total : NULL;
    double most = largest(courses, line, plot->n_columns, panel->stacked);
    /* 100 %, 200 %, 400 %, ... have round quarters. A mean may be off by an ulp. */
    while (most > max + 1e-9)
        max *= 2;
    vg_svg_put_fitting(plot->body, LEFT, y + 12, VG_SVG_SUBTITLE, PLOT_WIDTH, panel->title);
    y += 22;
    y += put_legend(plot, courses, line, y);
    put_scale(plot, y, max);
    if (panel->stacked)
        put_stack(plot, courses, max, y + PLOT_HEIGHT);
    for (unsigned int i = 0; !panel->stacked && i < courses->len; i++) {
        const struct course *course = &g_array_index(courses, struct course, i);
        put_course(plot, course, course->values, max, y + PLOT_HEIGHT, false);
    }
    if (line) {
        g_string_append(plot->body, "<path class='total' d='");
        put_steps(plot, line->values, max, y + PLOT_HEIGHT, false);
        g_string_append(plot->body, "'>");
        vg_svg_put_tooltip(plot->body, line->name);
        g_string_append(plot->body, "</path>\n");
    }
    clear_course(&total);
    return y + PLOT_HEIGHT;
}

static size_t
count_steps(const struct vg_svg_utilisation *what)
{
    size_t n = 0;

    for (size_t i = 0; i < MIN(what->n_panels, VG_SVG_PANELS_MAX); i++) {
        const struct vg_svg_panel *panel = &what->panels[i];
        for (size_t k = 0; k < panel->n_series; k++)
            n = MAX(n, panel->series[k].n);
        n = MAX(n, panel->total ? panel->total->n : 0);
    }
    return n;
}

/* Sets the sum of each identity's means, or -1. */
static void
weigh(const struct vg_svg_utilisation *what, double *weights)
{
    for (size_t i = 0; i < VG_SVG_IDENTITIES_MAX; i++)
        weights[i] = -1;
    for (size_t i = 0; i < MIN(what->n_panels, VG_SVG_PANELS_MAX); i++) {
        for (size_t k = 0; k < what->panels[i].n_series; k++) {
            const struct vg_svg_series *series = &what->panels[i].series[k];
            double mean = mean_of(series->values, 0, series->n);
            if (series->identity >= VG_SVG_IDENTITIES_MAX)
                continue;
            weights[series->identity] = MAX(weights[series->identity], 0);
            weights[series->identity] += isnan(mean) ? 0 : mean;
        }
    }
}

void
vg_svg_utilisation(GString *out, const struct vg_svg_utilisation *what)
{
    g_autoptr(GString) body = g_string_new(NULL);
    struct plot plot = {.n_steps = count_steps(what), .body = body};
    g_autofree double *weights = NULL;
    double y = TOP;
    int64_t span;

    if (plot.n_steps == 0) {
        vg_svg_put_text(body, LEFT, y + 12, VG_SVG_NOTE, "Nothing was measured.");
        vg_svg_finish(out, what->title, y + 36, body);
        return;
    }
    weights = g_new(double, VG_SVG_IDENTITIES_MAX);
    weigh(what, weights);
    plot.colours = g_new(unsigned int, VG_SVG_IDENTITIES_MAX);
    vg_svg_choose_colours(weights, VG_SVG_IDENTITIES_MAX, plot.colours);
    plot.n_columns = MIN(plot.n_steps, COLUMNS_MAX);
    plot.axis = (struct vg_svg_axis){what->begin_ns, INT64_MAX, LEFT, PLOT_WIDTH};
    if (!__builtin_mul_overflow((int64_t)plot.n_steps, MAX(what->step_ns, 1), &span) &&
        __builtin_add_overflow(what->begin_ns, span, &plot.axis.end_ns))
        plot.axis.end_ns = INT64_MAX;
    for (size_t i = 0; i < MIN(what->n_panels, VG_SVG_PANELS_MAX); i++)
        y = put_panel(&plot, &what->panels[i], y) + PANEL_GAP;
    y += vg_svg_put_time_axis(body, &plot.axis, y - PANEL_GAP) - PANEL_GAP;
    vg_svg_finish(out, what->title, y + VG_SVG_EDGE, body);
    g_free(plot.colours);
}
