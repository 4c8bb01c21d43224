/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/top-draw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

/* The time without an answer after which this is shown. */
#define SLOW_NS (3 * VG_NS_PER_S)

/* The figures are old if no window arrives within this number of window lengths and this time. */
#define OLD_WINDOWS 3
#define OLD_MIN_NS  (5 * VG_NS_PER_S)

#define TROUBLES_MAX 3 /* the maximum number of lines */

/* The width that the name gets before other columns get any. */
#define NAME_WIDTH 30

/* On a smaller screen, all rows are for VMs. */
#define HOST_ROWS_MIN 10

/* A pressure from this fraction of the time is highlighted. */
#define PRESSURE_WARN 0.2

static const struct {
    int min;
    int max;  /* the maximum width; a text column gets what it needs */
    int rank; /* if space is missing, the column with the highest rank is omitted first */
} layouts[VG_TOP_COLUMN_MAX] = {
    /* Long names that differ only at their ends take precedence over other columns. */
    [VG_TOP_VM] = {12, 48, 0},    [VG_TOP_CLASS] = {11, 11, 5},     [VG_TOP_USED] = {6, 6, 2},
    [VG_TOP_LOST] = {6, 6, 1},    [VG_TOP_PREEMPTIONS] = {6, 6, 3}, [VG_TOP_CULPRIT] = {15, 48, 4},
    [VG_TOP_GUEST] = {5, 5, 6},   [VG_TOP_GPU] = {4, 4, 7},         [VG_TOP_GPU_BUSY] = {5, 5, 8},
    [VG_TOP_SOURCE] = {8, 24, 9},
};

/* ---- the head ---- */

static void
draw_time(const struct vg_top_model *model, vg_grid *grid, int row, int column,
          const struct vg_top_now *now)
{
    const vg_top_look *look = model->newest;
    char utc[VG_UTC_LEN], age[VG_TOP_FIGURE_LEN];

    if (look->end_ns <= look->begin_ns) {
        vg_grid_print(grid, row, column, VG_ATTR_WARN, "no window has been measured yet");
        return;
    }
    /* Whole seconds only: changing decimals would flicker. */
    vg_utc_format(look->end_ns / VG_NS_PER_S * VG_NS_PER_S, utc);
    column = vg_grid_print(grid, row, column, VG_ATTR_PLAIN, "%s  ", utc);
    if (look->replay) {
        vg_grid_print(grid, row, column, VG_ATTR_BOLD, "%s",
                      look->replay_ended ? "replay, ended" : "replay");
        return;
    }
    int64_t age_ns = MAX(now->epoch_ns - look->end_ns, 0);
    bool old = age_ns > MAX(OLD_WINDOWS * look->window_ns, OLD_MIN_NS);
    vg_grid_print(grid, row, column, old && !model->paused ? VG_ATTR_BAD : VG_ATTR_DIM, "%s ago",
                  vg_top_duration(age, age_ns));
}

static void
draw_source(const vg_top_look *look, vg_grid *grid, int row)
{
    int column;

    if (!look->source)
        return;
    column = vg_grid_print(grid, row, 0, VG_ATTR_DIM, "measured by ");
    column = vg_grid_print(grid, row, column, VG_ATTR_PLAIN, "%s", look->source);
    column = vg_grid_print(grid, row, column, VG_ATTR_DIM, ", confidence %.0f %%",
                           look->confidence * 100);
    if (!look->aggressors_known)
        column = vg_grid_print(grid, row, column, VG_ATTR_DIM, ", aggressors unknown");
    if (!look->waits_split)
        vg_grid_print(grid, row, column, VG_ATTR_DIM, ", causes of waiting unknown");
}

static void
draw_totals(const struct vg_top_model *model, vg_grid *grid, int row)
{
    double used = 0, lost = 0, per_s = 0;
    char period[VG_TOP_FIGURE_LEN], a[VG_TOP_FIGURE_LEN], b[VG_TOP_FIGURE_LEN],
        c[VG_TOP_FIGURE_LEN];
    int64_t lost_events = vg_top_model_lost_events(model);

    for (guint i = 0; i < model->rows->len; i++) {
        const struct vg_top_rates *rates = &g_array_index(model->rows, struct vg_top_row, i).rates;
        used += isnan(rates->used) ? 0 : rates->used;
        lost += isnan(rates->lost) ? 0 : rates->lost;
        per_s += isnan(rates->preemptions_per_s) ? 0 : rates->preemptions_per_s;
    }
    vg_top_duration(period, vg_top_model_period_ns(model));
    int column = 0;
    if (model->filter)
        column = vg_grid_print(grid, row, 0, VG_ATTR_BOLD, "%u of ", model->rows->len);
    column = vg_grid_print(grid, row, column, VG_ATTR_PLAIN, "%u VMs, ", model->newest->vms->len);
    column = vg_grid_print(
        grid, row, column, VG_ATTR_BOLD,
        vg_top_model_is_since_start(model) ? "%s since vgpud started" : "last %s", period);
    column =
        vg_grid_print(grid, row, column, VG_ATTR_PLAIN, ": used %s", vg_top_figure(a, used, 2));
    if (model->newest->cpus > 0)
        column = vg_grid_print(grid, row, column, VG_ATTR_PLAIN, " of %" G_GINT64_FORMAT " cores",
                               model->newest->cpus);
    column = vg_grid_print(grid, row, column, VG_ATTR_PLAIN, ", lost %s, preempted %s/s",
                           vg_top_figure(b, lost, 2), vg_top_figure(c, per_s, 1));
    if (lost_events > 0)
        vg_grid_print(grid, row, column, VG_ATTR_WARN, ", %" G_GINT64_FORMAT " events were lost",
                      lost_events);
    else
        vg_grid_print(grid, row, column, VG_ATTR_DIM, ", no events lost");
}

/* Draws a row with the host's figures in the newest window, if known. Returns the next row. */
static int
draw_host(const vg_top_look *look, vg_grid *grid, int row)
{
    static const char *const resources[] = {"cpu", "mem", "io"};
    const struct vg_top_host *use = &look->use;
    const char *before = "; PSI ";
    char vms[VG_TOP_FIGURE_LEN], own[VG_TOP_FIGURE_LEN], idle[VG_TOP_FIGURE_LEN],
        text[VG_TOP_FIGURE_LEN];

    if (!use->known || vg_grid_rows(grid) < HOST_ROWS_MIN)
        return row;
    int column = vg_grid_print(grid, row, 0, VG_ATTR_PLAIN, "VMs %s, host %s, idle %s",
                               vg_top_figure(vms, use->vms, 2), vg_top_figure(own, use->own, 2),
                               vg_top_figure(idle, use->idle, 2));
    if (use->steal > 0)
        column = vg_grid_print(grid, row, column, VG_ATTR_WARN, ", stolen %s",
                               vg_top_figure(text, use->steal, 2));
    column = vg_grid_print(grid, row, column, VG_ATTR_PLAIN, "; load %s",
                           vg_top_figure(text, use->load, 1));
    for (size_t i = 0; i < G_N_ELEMENTS(resources); i++) {
        double pressure = use->pressure[i];
        if (isnan(pressure))
            continue;
        column = vg_grid_print(grid, row, column, VG_ATTR_PLAIN, "%s", before);
        column = vg_grid_print(grid, row, column,
                               pressure >= PRESSURE_WARN ? VG_ATTR_WARN : VG_ATTR_PLAIN, "%s %s",
                               resources[i], vg_top_figure(text, pressure * 100, 0));
        column = vg_grid_print(grid, row, column, VG_ATTR_PLAIN, "%%");
        before = " ";
    }
    return row + 1;
}

/* Returns the next row. */
static int
draw_troubles(const vg_top_look *look, vg_grid *grid, int row)
{
    guint n = look->troubles->len;

    for (guint i = 0; i < MIN(n, TROUBLES_MAX); i++, row++) {
        const struct vg_top_part *part = look->troubles->pdata[i];
        int column = vg_grid_print(grid, row, 0, VG_ATTR_BAD, "%s is %s", part->name, part->state);
        if (part->reason)
            column = vg_grid_print(grid, row, column, VG_ATTR_WARN, ": %s", part->reason);
        if (i + 1 == TROUBLES_MAX && n > TROUBLES_MAX)
            vg_grid_print(grid, row, column, VG_ATTR_WARN, "; and %u more", n - TROUBLES_MAX);
    }
    if (look->alert_names) {
        int column = vg_grid_print(grid, row, 0, VG_ATTR_BAD, "%" G_GINT64_FORMAT " alert%s",
                                   look->alerts, look->alerts == 1 ? "" : "s");
        vg_grid_print(grid, row++, column, VG_ATTR_WARN, ": %s", look->alert_names);
    }
    return row;
}

/* Returns the next row. */
static int
draw_head(const struct vg_top_model *model, vg_grid *grid, const struct vg_top_now *now)
{
    const vg_top_look *look = model->newest;
    int column = vg_grid_print(grid, 0, 0, VG_ATTR_BOLD, "vgpuctl top  ");

    if (!look)
        return 1;
    column = vg_grid_print(grid, 0, column, VG_ATTR_BOLD, "%s", look->host);
    if (model->paused)
        column = vg_grid_print(grid, 0, column, VG_ATTR_WARN, "  PAUSED");
    draw_time(model, grid, 0, column + 2, now);
    draw_source(look, grid, 1);
    draw_totals(model, grid, 2);
    return draw_troubles(look, grid, draw_host(look, grid, 3));
}

/* ---- the table ---- */

static const char *
top_draw_text_of(const struct vg_top_model *model, const struct vg_top_row *row,
                 enum vg_top_column column)
{
    const char *text = column == VG_TOP_VM      ? row->vm->name
                       : column == VG_TOP_CLASS ? row->vm->vm_class
                                                : model->newest->source;

    return text ? text : "-";
}

/* The culprit's name and its figure have separate columns. */
static void
draw_culprit(const struct vg_top_row *row, vg_grid *grid, int at, int column, int width,
             enum vg_grid_attr attr)
{
    char figure[VG_TOP_FIGURE_LEN];

    if (!row->culprit) {
        vg_grid_put(grid, at, column, width, false, attr, "-");
        return;
    }
    vg_grid_put(grid, at, column, width - 6, false, attr, row->culprit);
    vg_grid_put(grid, at, column + width - 6, 6, true, attr,
                vg_top_figure(figure, row->culprit_lost, 2));
}

static void
draw_cell(const struct vg_top_model *model, const struct vg_top_row *row, vg_grid *grid, int at,
          int column, int width, enum vg_top_column what, bool selected)
{
    enum vg_grid_attr attr = selected ? VG_ATTR_SELECTED : VG_ATTR_PLAIN;
    double value = vg_top_row_value(row, what);
    char figure[VG_TOP_FIGURE_LEN];

    if (!selected && what == VG_TOP_LOST && value >= 0.005)
        attr = VG_ATTR_LOST;
    if (!selected && what == VG_TOP_USED && value >= 0.005)
        attr = VG_ATTR_USED;
    if (what == VG_TOP_CULPRIT) {
        draw_culprit(row, grid, at, column, width, attr);
    } else if (vg_top_columns[what].text) {
        vg_grid_put(grid, at, column, width, false, attr, top_draw_text_of(model, row, what));
    } else {
        bool percent = what == VG_TOP_GUEST || what == VG_TOP_GPU;
        int decimals = percent ? 0 : what == VG_TOP_PREEMPTIONS ? 1 : 2;
        vg_grid_put(grid, at, column, width, true, attr,
                    vg_top_figure(figure, percent ? value * 100 : value, decimals));
    }
}

/* Returns the width for the longest text of a column. */
static int
needed(const struct vg_top_model *model, enum vg_top_column column, bool utf8)
{
    int most = 0;

    for (guint i = 0; i < model->rows->len; i++) {
        const struct vg_top_row *row = &g_array_index(model->rows, struct vg_top_row, i);
        int columns = column == VG_TOP_CULPRIT
                          ? 7 + (row->culprit ? vg_grid_text_columns(row->culprit, utf8) : 0)
                          : vg_grid_text_columns(top_draw_text_of(model, row, column), utf8);
        most = MAX(most, columns);
    }
    return CLAMP(most, layouts[column].min, layouts[column].max);
}

/* Returns whether a column is unknown in all rows. */
static bool
is_empty(const struct vg_top_model *model, enum vg_top_column column)
{
    for (guint i = 0; i < model->rows->len; i++) {
        const struct vg_top_row *row = &g_array_index(model->rows, struct vg_top_row, i);
        const bool known = column == VG_TOP_CULPRIT ? row->culprit != NULL
                           : vg_top_columns[column].text
                               ? strcmp(top_draw_text_of(model, row, column), "-") != 0
                               : !isnan(vg_top_row_value(row, column));
        if (known)
            return false;
    }
    return model->rows->len > 0;
}

/* Returns the rank for omitting a column: empty columns are omitted before all others. */
static int
rank_of(const struct vg_top_model *model, enum vg_top_column column)
{
    return layouts[column].rank +
           (column != VG_TOP_VM && is_empty(model, column) ? VG_TOP_COLUMN_MAX : 0);
}

static int
min_width(const struct vg_top_model *model, enum vg_top_column column, bool utf8)
{
    return column == VG_TOP_VM ? MIN(needed(model, column, utf8), NAME_WIDTH) : layouts[column].min;
}

/* Sets the width of each column, or 0 to omit it. */
static void
choose_widths(const struct vg_top_model *model, int room, bool utf8, int ret[VG_TOP_COLUMN_MAX])
{
    static const enum vg_top_column growing[] = {VG_TOP_VM, VG_TOP_CULPRIT, VG_TOP_SOURCE};
    int rank = 2 * VG_TOP_COLUMN_MAX, used;

    do {
        used = -1;
        for (int i = 0; i < VG_TOP_COLUMN_MAX; i++) {
            ret[i] = rank_of(model, (enum vg_top_column)i) < rank
                         ? min_width(model, (enum vg_top_column)i, utf8)
                         : 0;
            used += ret[i] > 0 ? ret[i] + 1 : 0;
        }
        rank--;
    } while (used > room && rank > 0);
    for (size_t i = 0; i < G_N_ELEMENTS(growing); i++) {
        enum vg_top_column column = growing[i];
        if (ret[column] == 0)
            continue;
        int more = CLAMP(needed(model, column, utf8) - ret[column], 0, MAX(room - used, 0));
        ret[column] += more;
        used += more;
    }
}

static void
draw_headers(const struct vg_top_model *model, vg_grid *grid, int row, const int *widths)
{
    bool up = model->reverse != vg_top_columns[model->sort].text;
    const char *arrow =
        vg_grid_utf8(grid) ? (up ? "\xe2\x96\xb2" : "\xe2\x96\xbc") : (up ? "^" : "v");

    vg_grid_set_attr(grid, row, VG_ATTR_HEADER);
    for (int i = 0, column = 0; i < VG_TOP_COLUMN_MAX; i++) {
        bool text = vg_top_columns[i].text || i == VG_TOP_CULPRIT;
        bool sorted = (int)model->sort == i;
        if (widths[i] == 0)
            continue;
        g_autofree char *header = g_strconcat(vg_top_columns[i].header, sorted ? arrow : "", NULL);
        vg_grid_put(grid, row, column, widths[i], !text, sorted ? VG_ATTR_SORTED : VG_ATTR_HEADER,
                    header);
        column += widths[i] + 1;
    }
}

static void
scroll(struct vg_top_model *model, int n_rows)
{
    int last_first = MAX((int)model->rows->len - n_rows, 0);

    model->page = n_rows;
    if (model->selected_row < model->first_row)
        model->first_row = model->selected_row;
    if (model->selected_row >= model->first_row + n_rows)
        model->first_row = model->selected_row - n_rows + 1;
    model->first_row = CLAMP(model->first_row, 0, last_first);
}

static void
draw_list(struct vg_top_model *model, vg_grid *grid, int row)
{
    int widths[VG_TOP_COLUMN_MAX];
    int n_rows = MAX(vg_grid_rows(grid) - 1 - (row + 1), 1);

    choose_widths(model, vg_grid_columns(grid), vg_grid_utf8(grid), widths);
    draw_headers(model, grid, row++, widths);
    scroll(model, n_rows);
    if (model->rows->len == 0)
        vg_grid_print(grid, row, 0, VG_ATTR_DIM, "%s",
                      model->filter ? "no VM name contains this text"
                                    : "vgpud has found no VM yet");
    for (int i = 0; i < n_rows && model->first_row + i < (int)model->rows->len; i++) {
        int index = model->first_row + i;
        bool selected = index == model->selected_row;
        if (selected)
            vg_grid_set_attr(grid, row + i, VG_ATTR_SELECTED);
        for (int c = 0, column = 0; c < VG_TOP_COLUMN_MAX; c++) {
            if (widths[c] == 0)
                continue;
            draw_cell(model, &g_array_index(model->rows, struct vg_top_row, index), grid, row + i,
                      column, widths[c], (enum vg_top_column)c, selected);
            column += widths[c] + 1;
        }
    }
}

/* ---- help and foot ---- */

static const char *const help_keys[][2] = {
    {"Up Down j k", "select a VM; Page Up, Page Down, Home, End"},
    {"Enter", "show the VM in detail; Esc or q to go back"},
    {"/", "filter by name; Esc shows all VMs"},
    {"space", "pause, continue"},
    {"d", "set the seconds between updates"},
    {"m", "switch between figures of the last interval and since vgpud started"},
    {"r", "reverse the order, as does a second press of a column's key"},
    {"< >", "sort by the column to the left or right"},
    {"+ -", "in the detail view: show a longer or shorter period"},
    {"q", "quit"},
};

/* The keys, a title, and the columns. */
#define HELP_LINES ((int)G_N_ELEMENTS(help_keys) + 1 + VG_TOP_COLUMN_MAX)

/* Draws line i of the help. Returns false if there is no such line. */
static bool
draw_help_line(vg_grid *grid, int row, size_t i)
{
    if (i < G_N_ELEMENTS(help_keys)) {
        vg_grid_put(grid, row, 2, 12, false, VG_ATTR_BOLD, help_keys[i][0]);
        vg_grid_print(grid, row, 15, VG_ATTR_PLAIN, "%s", help_keys[i][1]);
        return true;
    }
    i -= G_N_ELEMENTS(help_keys);
    if (i == 0)
        vg_grid_print(grid, row, 0, VG_ATTR_BOLD, "Columns, and the keys that sort by them");
    if (i == 0 || i > VG_TOP_COLUMN_MAX)
        return i == 0;
    const struct vg_top_column_info *info = &vg_top_columns[i - 1];
    vg_grid_print(grid, row, 2, VG_ATTR_BOLD, "%c", info->key);
    vg_grid_put(grid, row, 5, 13, false, VG_ATTR_PLAIN, info->header);
    vg_grid_print(grid, row, 19, VG_ATTR_DIM, "%s", info->meaning);
    return true;
}

static void
draw_help(struct vg_top_model *model, vg_grid *grid, int row)
{
    const int room = MAX(vg_grid_rows(grid) - 1 - row, 1);

    model->help_first = CLAMP(model->help_first, 0, MAX(HELP_LINES - room, 0));
    for (int i = 0; i < room && draw_help_line(grid, row, (size_t)(model->help_first + i)); i++)
        row++;
}

/* Draws the position in the list at the right end of the foot, unless all rows are visible. */
static void
draw_position(const struct vg_top_model *model, vg_grid *grid, int row)
{
    const int n = (int)model->rows->len;
    const int last = MIN(model->first_row + model->page, n);
    g_autofree char *text = g_strdup_printf(" %d-%d of %d", model->first_row + 1, last, n);
    const int width = (int)strlen(text);

    if (model->view == VG_TOP_LIST && n > model->page)
        vg_grid_put(grid, row, MAX(vg_grid_columns(grid) - width, 0), width, true, VG_ATTR_BOLD,
                    text);
}

static void
draw_typing(const struct vg_top_model *model, vg_grid *grid, int row)
{
    vg_grid_print(grid, row, 0, VG_ATTR_BOLD, "%s%s_",
                  model->typing == VG_TOP_TYPING_FILTER ? "name has: "
                                                        : "seconds between updates: ",
                  model->typed->str);
}

static void
draw_foot(const struct vg_top_model *model, vg_grid *grid, const struct vg_top_now *now)
{
    static const char *const hints[] = {
        [VG_TOP_LIST] = "q quit  Enter detail  / filter  space pause  d delay  < > sort  ? help",
        [VG_TOP_DETAIL] = "Esc back  Up Down scroll  + - past  space pause  m period  ? help",
        [VG_TOP_HELP] = "Up Down scroll, any other key: back",
    };
    int row = vg_grid_rows(grid) - 1;
    char waited[VG_TOP_FIGURE_LEN];

    if (model->typing != VG_TOP_NOT_TYPING) {
        draw_typing(model, grid, row);
    } else if (model->wrong_typed) {
        vg_grid_print(grid, row, 0, VG_ATTR_WARN, "enter a number of seconds from 0.1 to 86400");
    } else if (model->trouble) {
        g_autofree char *text = g_strconcat("retrying: ", model->trouble, NULL);
        vg_grid_put(grid, row, 0, vg_grid_columns(grid), false, VG_ATTR_BAD, text);
    } else if (now->asking_ns > SLOW_NS) {
        vg_grid_print(grid, row, 0, VG_ATTR_WARN, "vgpud has not answered for %s",
                      vg_top_duration(waited, now->asking_ns));
    } else {
        vg_grid_put(grid, row, 0, vg_grid_columns(grid), false, VG_ATTR_DIM, hints[model->view]);
        draw_position(model, grid, row);
    }
}

void
vg_top_draw(struct vg_top_model *model, vg_grid *grid, const struct vg_top_now *now)
{
    if (model->view == VG_TOP_HELP) {
        vg_grid_print(grid, 0, 0, VG_ATTR_BOLD, "vgpuctl top: keys");
        draw_help(model, grid, 1);
    } else {
        int row = draw_head(model, grid, now);
        if (model->view == VG_TOP_DETAIL)
            vg_top_draw_detail(model, grid, row);
        else
            draw_list(model, grid, row);
    }
    /* Drawn last, as it covers other rows on a low screen. */
    vg_grid_put(grid, vg_grid_rows(grid) - 1, 0, vg_grid_columns(grid), false, VG_ATTR_PLAIN, "");
    draw_foot(model, grid, now);
}
