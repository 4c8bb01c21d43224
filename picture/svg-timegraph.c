/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of rectangles and columns are limited, so that a picture has at most
 * VG_SVG_BYTES_MAX. A rectangle with its tooltip takes less than 400 bytes, and a column of one
 * colour less than 14.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "picture/svg-draw.h"
#include "picture/svg.h"

#define LEFT           220.0 /* of the time axis */
#define RIGHT          36.0
#define TOP            60.0
#define PLOT_WIDTH     (VG_SVG_WIDTH - LEFT - RIGHT)
#define LANES_MAX      4
#define LANE_HEIGHT    15.0
#define ROW_HEIGHT     28.0 /* of a row with one lane */
#define DEEP_HEIGHT    56.0 /* of a row with more overlaps than lanes */
#define ROW_GAP        10.0
#define RECTANGLES_MAX 2000
#define CELLS_MAX      56000
#define COLUMNS_MIN    12
#define COLUMNS_MAX    ((size_t)PLOT_WIDTH)
#define NARROW         1.5 /* minimum width of separately drawn intervals */
#define LEAST_WIDTH    1.0 /* minimum visible width */
#define LEAST_HEIGHT   1.5
#define LABEL_MAX      40 /* characters */

/* A colour for waiting or running. */
#define SHADES ((VG_SVG_COLOURS + 1) * 2)

/* An interval in the picture. */
struct item {
    int64_t begin_ns;
    int64_t end_ns;
    int64_t gap_ns; /* to its nearest neighbour on the lane */
    const struct vg_svg_interval *interval;
    unsigned int lane;
    unsigned int shade;
};

struct row {
    const char *name;
    struct item *items; /* sorted by begin */
    size_t n_items;
    size_t depth;    /* maximum overlap; more than LANES_MAX: no lanes */
    uint32_t shades; /* bits of the shades in use */
    double y;
    double height;
};

struct graph {
    const struct vg_svg_timegraph *what;
    struct vg_svg_axis axis;
    unsigned int *colours; /* of names */
    struct item *items;
    size_t n_items;
    struct row *rows;
    size_t n_rows;
    double narrow; /* narrower intervals are joined */
    size_t n_columns;
    bool together; /* some were joined */
    double *cells; /* of a row: lane, shade, column */
    GString *body;
};

/* ---- what is to be drawn ---- */

static unsigned int
shade_of(const struct graph *graph, const struct vg_svg_interval *interval)
{
    unsigned int colour = interval->identity < graph->what->n_names
                              ? graph->colours[interval->identity]
                              : VG_SVG_COLOUR_OTHERS;

    return colour * 2 + (interval->kind == VG_SVG_WAITING);
}

static bool
is_inside(const struct graph *graph, const struct vg_svg_interval *interval)
{
    return interval->row < graph->n_rows && interval->end_ns > interval->begin_ns &&
           interval->end_ns > graph->axis.begin_ns && interval->begin_ns < graph->axis.end_ns;
}

static int
by_begin(const void *left, const void *right)
{
    const struct item *a = left;
    const struct item *b = right;

    if (a->begin_ns != b->begin_ns)
        return a->begin_ns < b->begin_ns ? -1 : 1;
    /* With the same start, keep the given order. */
    return a->interval < b->interval ? -1 : 1;
}

static int
by_time(const void *left, const void *right)
{
    const int64_t *a = left;
    const int64_t *b = right;

    return (*a > *b) - (*a < *b);
}

/* Chooses colours by time: every name has one, if there are enough. */
static void
choose_colours(struct graph *graph)
{
    const struct vg_svg_timegraph *what = graph->what;
    g_autofree double *weights = g_new(double, what->n_names);

    graph->colours = g_new(unsigned int, what->n_names);
    /* Names without intervals need no colour. */
    for (size_t i = 0; i < what->n_names; i++)
        weights[i] = -1;
    for (size_t i = 0; i < what->n_intervals; i++) {
        const struct vg_svg_interval *interval = &what->intervals[i];
        if (!is_inside(graph, interval) || interval->identity >= what->n_names)
            continue;
        double *weight = &weights[interval->identity];
        *weight = MAX(*weight, 0) + (double)MIN(interval->end_ns, graph->axis.end_ns) -
                  (double)MAX(interval->begin_ns, graph->axis.begin_ns);
    }
    vg_svg_choose_colours(weights, what->n_names, graph->colours);
}

/* Sorts the items into one array, row after row. */
static void
sort_items(struct graph *graph)
{
    const struct vg_svg_timegraph *what = graph->what;
    size_t at = 0;

    for (size_t i = 0; i < what->n_intervals; i++) {
        if (is_inside(graph, &what->intervals[i]))
            graph->rows[what->intervals[i].row].n_items++;
    }
    for (size_t r = 0; r < graph->n_rows; r++) {
        graph->rows[r].items = graph->items + at;
        at += graph->rows[r].n_items;
        graph->rows[r].n_items = 0;
    }
    for (size_t i = 0; i < what->n_intervals; i++) {
        const struct vg_svg_interval *interval = &what->intervals[i];
        if (!is_inside(graph, interval))
            continue;
        struct row *row = &graph->rows[interval->row];
        unsigned int shade = shade_of(graph, interval);
        row->shades |= 1u << shade;
        row->items[row->n_items++] = (struct item){
            .shade = shade,
            .begin_ns = MAX(interval->begin_ns, graph->axis.begin_ns),
            .end_ns = MIN(interval->end_ns, graph->axis.end_ns),
            .interval = interval,
        };
    }
    graph->n_items = at;
    for (size_t r = 0; r < graph->n_rows; r++)
        qsort(graph->rows[r].items, graph->rows[r].n_items, sizeof(struct item), by_begin);
}

static size_t
depth_of(const struct row *row)
{
    g_autofree int64_t *ends = g_new(int64_t, row->n_items);
    size_t over = 0;
    size_t depth = 0;

    if (row->n_items == 0)
        return 0;
    for (size_t i = 0; i < row->n_items; i++)
        ends[i] = row->items[i].end_ns;
    qsort(ends, row->n_items, sizeof(*ends), by_time);
    for (size_t i = 0; i < row->n_items; i++) {
        while (ends[over] <= row->items[i].begin_ns)
            over++;
        depth = MAX(depth, i + 1 - over);
    }
    return depth;
}

static int64_t
gap_between(const struct item *left, const struct item *right)
{
    uint64_t gap = (uint64_t)right->begin_ns - (uint64_t)left->end_ns;

    return (int64_t)MIN(gap, INT64_MAX);
}

/* Places each item on the lowest free lane. depth ensures that there is one. */
static void
place_items(struct row *row)
{
    struct item *last[LANES_MAX] = {NULL};

    for (size_t i = 0; i < row->n_items; i++) {
        struct item *item = &row->items[i];
        while (last[item->lane] && last[item->lane]->end_ns > item->begin_ns)
            item->lane++;
        item->gap_ns = INT64_MAX;
        struct item *before = last[item->lane];
        if (before) {
            item->gap_ns = gap_between(before, item);
            before->gap_ns = MIN(before->gap_ns, item->gap_ns);
        }
        last[item->lane] = item;
    }
}

static double
width_of(const struct graph *graph, const struct item *item)
{
    return vg_svg_x(&graph->axis, item->end_ns) - vg_svg_x(&graph->axis, item->begin_ns);
}

/* Returns whether an item is wide enough to be visible, or isolated. */
static bool
is_apart(const struct graph *graph, const struct item *item)
{
    double gap = (double)item->gap_ns * graph->axis.width /
                 (double)((uint64_t)graph->axis.end_ns - (uint64_t)graph->axis.begin_ns);

    return width_of(graph, item) >= graph->narrow || gap >= graph->narrow;
}

/* Chooses the detail so that the picture does not become too large. */
static void
choose_detail(struct graph *graph)
{
    size_t cells_each = 0;
    size_t n;

    graph->narrow = NARROW / 2;
    do {
        graph->narrow *= 2;
        n = 0;
        for (size_t r = 0; r < graph->n_rows; r++) {
            const struct row *row = &graph->rows[r];
            for (size_t i = 0; row->depth <= LANES_MAX && i < row->n_items; i++)
                n += is_apart(graph, &row->items[i]);
        }
    } while (n > RECTANGLES_MAX);
    for (size_t r = 0; r < graph->n_rows; r++) {
        const struct row *row = &graph->rows[r];
        size_t lanes = row->depth <= LANES_MAX ? row->depth : 1;
        cells_each += lanes * (size_t)__builtin_popcount(row->shades);
    }
    graph->n_columns = CLAMP(CELLS_MAX / MAX(cells_each, 1), COLUMNS_MIN, COLUMNS_MAX);
}

/* ---- drawing ---- */

/* Adds the share of each column that an item takes. */
static void
add_cells(const struct graph *graph, const struct item *item, double *columns)
{
    double scale = (double)graph->n_columns / graph->axis.width;
    double begin = (vg_svg_x(&graph->axis, item->begin_ns) - graph->axis.x) * scale;
    double end = (vg_svg_x(&graph->axis, item->end_ns) - graph->axis.x) * scale;

    for (size_t c = (size_t)begin; c < graph->n_columns && (double)c < end; c++)
        columns[c] += MIN(end, (double)(c + 1)) - MAX(begin, (double)c);
}

static void
put_shade_name(const struct graph *graph, GString *tip, unsigned int shade)
{
    if (shade / 2 == VG_SVG_COLOUR_OTHERS)
        g_string_append(tip, "others, ");
    for (size_t i = 0; shade / 2 != VG_SVG_COLOUR_OTHERS && i < graph->what->n_names; i++) {
        if (graph->colours[i] == shade / 2)
            g_string_append_printf(tip, "%s, ", graph->what->names[i]);
    }
    g_string_append(tip, shade % 2 ? "waiting" : "running");
}

/* Draws columns as steps above the bottom. */
static void
put_steps(const struct graph *graph, const double *sums, double scale, double bottom)
{
    double column = graph->axis.width / (double)graph->n_columns;
    double last = 0;

    for (size_t c = 0; c <= graph->n_columns; c++) {
        double height = c < graph->n_columns ? sums[c] * scale : 0;
        if (height > 0)
            height = MAX(height, LEAST_HEIGHT);
        if (height == last)
            continue;
        g_string_append_c(graph->body, last > 0 ? 'H' : 'M');
        vg_svg_put_number(graph->body, graph->axis.x + (double)c * column);
        if (!(last > 0)) {
            g_string_append_c(graph->body, ' ');
            vg_svg_put_number(graph->body, bottom);
        }
        g_string_append_c(graph->body, 'V');
        vg_svg_put_number(graph->body, bottom - height);
        last = height;
    }
}

/* Stacks the shades, drawing the highest sum first. scale is the number of pixels for 1. */
static void
put_cells(const struct graph *graph, const struct row *row, const double *cells, double scale,
          double bottom)
{
    size_t n = graph->n_columns;
    g_autofree double *sums = g_new0(double, n);

    for (size_t i = 0; i < SHADES * n; i++)
        sums[i % n] += cells[i];
    for (unsigned int shade = SHADES; shade-- > 0;) {
        g_autoptr(GString) tip = NULL;
        if (!(row->shades & 1u << shade))
            continue;
        tip = g_string_new(NULL);
        put_shade_name(graph, tip, shade);
        g_string_append(tip, ": drawn together");
        g_string_append(graph->body, "<path fill='");
        vg_svg_put_colour(graph->body, shade / 2, shade % 2);
        g_string_append(graph->body, "' d='");
        put_steps(graph, sums, scale, bottom);
        g_string_append(graph->body, "'>");
        vg_svg_put_tooltip(graph->body, tip->str);
        g_string_append(graph->body, "</path>\n");
        for (size_t c = 0; c < n; c++) {
            sums[c] -= cells[shade * n + c];
            /* Values from rounding count as 0. */
            sums[c] = sums[c] > 1e-9 ? sums[c] : 0;
        }
    }
}

static void
put_item(const struct graph *graph, const struct item *item, double y, double height)
{
    const struct vg_svg_interval *interval = item->interval;
    double x = vg_svg_x(&graph->axis, item->begin_ns);
    double width = MAX(width_of(graph, item), LEAST_WIDTH);
    unsigned int colour = item->shade / 2;
    bool pale = item->shade % 2;
    g_autofree char *label = vg_printable_text(interval->label ? interval->label : "");
    g_autoptr(GString) tip = g_string_new(NULL);
    g_autofree char *took =
        vg_svg_duration((uint64_t)interval->end_ns - (uint64_t)interval->begin_ns);
    char since[G_ASCII_DTOSTR_BUF_SIZE];

    if (g_utf8_strlen(label, -1) > LABEL_MAX)
        *g_utf8_offset_to_pointer(label, LABEL_MAX) = '\0';
    g_ascii_formatd(since, sizeof(since), "%.6f",
                    (double)((uint64_t)item->begin_ns - (uint64_t)graph->axis.begin_ns) / 1e9);
    g_string_append_printf(tip, "%s%s%s %s, at %s s", label, *label ? ": " : "",
                           pale ? "waiting" : "running", took, since);
    g_string_append_printf(graph->body, "<rect class='%c%u'", pale ? 'p' : 'c', colour);
    vg_svg_put_attribute(graph->body, "x", x);
    vg_svg_put_attribute(graph->body, "y", y);
    vg_svg_put_attribute(graph->body, "width", width);
    vg_svg_put_attribute(graph->body, "height", height);
    g_string_append_c(graph->body, '>');
    vg_svg_put_tooltip(graph->body, tip->str);
    g_string_append(graph->body, "</rect>\n");
    if (*label && vg_svg_text_width(label, VG_SVG_TEXT_SIZE) + 8 <= width)
        vg_svg_put_text(graph->body, x + width / 2, y + height / 2 + 4,
                        vg_svg_colour_is_dark(colour, pale) ? VG_SVG_ON_DARK : VG_SVG_ON_LIGHT,
                        label);
}

static void
put_deep_row(struct graph *graph, const struct row *row)
{
    memset(graph->cells, 0, SHADES * graph->n_columns * sizeof(double));
    for (size_t i = 0; i < row->n_items; i++)
        add_cells(graph, &row->items[i], graph->cells + row->items[i].shade * graph->n_columns);
    put_cells(graph, row, graph->cells, row->height / (double)row->depth, row->y + row->height);
}

static void
put_lanes(struct graph *graph, const struct row *row)
{
    double height = row->height / (double)MAX(row->depth, 1);
    size_t lane_cells = SHADES * graph->n_columns;
    bool used[LANES_MAX] = {false};

    memset(graph->cells, 0, LANES_MAX * lane_cells * sizeof(double));
    for (size_t i = 0; i < row->n_items; i++) {
        const struct item *item = &row->items[i];
        if (is_apart(graph, item))
            continue;
        used[item->lane] = graph->together = true;
        add_cells(graph, item,
                  graph->cells + item->lane * lane_cells + item->shade * graph->n_columns);
    }
    for (unsigned int lane = 0; lane < LANES_MAX; lane++) {
        if (used[lane])
            put_cells(graph, row, graph->cells + lane * lane_cells, height - 1,
                      row->y + (lane + 1) * height - 0.5);
    }
    for (size_t i = 0; i < row->n_items; i++) {
        const struct item *item = &row->items[i];
        if (is_apart(graph, item))
            put_item(graph, item, row->y + item->lane * height + 0.5, height - 1);
    }
}

static void
put_row_name(const struct graph *graph, const struct row *row)
{
    double middle = row->y + row->height / 2 + 4;
    bool deep = row->depth > LANES_MAX;

    vg_svg_put_fitting(graph->body, LEFT - 12, deep ? middle - 8 : middle, VG_SVG_TEXT_END,
                       LEFT - 12 - VG_SVG_EDGE, row->name);
    if (deep) {
        g_autofree char *note = g_strdup_printf("up to %d together", (int)row->depth);
        vg_svg_put_text(graph->body, LEFT - 12, middle + 9, VG_SVG_NOTE_END, note);
    }
}

/* Sets the positions of rows. Returns the y below them. */
static double
lay_out(struct graph *graph, double y)
{
    for (size_t r = 0; r < graph->n_rows; r++) {
        struct row *row = &graph->rows[r];
        row->y = y;
        row->height = row->depth > LANES_MAX ? DEEP_HEIGHT
                      : row->depth > 1       ? LANE_HEIGHT * (double)row->depth
                                             : ROW_HEIGHT;
        y += row->height + ROW_GAP;
    }
    return y;
}

static double
put_legend(const struct graph *graph, double y)
{
    struct vg_svg_legend_item items[VG_SVG_COLOURS + 3];
    size_t n = 0;
    uint32_t shades = 0;

    for (size_t r = 0; r < graph->n_rows; r++)
        shades |= graph->rows[r].shades;
    for (size_t i = 0; i < graph->what->n_names; i++) {
        if (graph->colours[i] != VG_SVG_COLOUR_OTHERS)
            items[n++] = (struct vg_svg_legend_item){.colour = graph->colours[i],
                                                     .name = graph->what->names[i]};
    }
    if (shades >> (2 * VG_SVG_COLOUR_OTHERS))
        items[n++] = (struct vg_svg_legend_item){.colour = VG_SVG_COLOUR_OTHERS, .name = "others"};
    /* The bits for running and waiting. */
    if (shades & 0x55555555)
        items[n++] = (struct vg_svg_legend_item){.colour = VG_SVG_COLOUR_OTHERS,
                                                 .name = "full colour: running"};
    if (shades & 0xaaaaaaaa)
        items[n++] = (struct vg_svg_legend_item){
            .colour = VG_SVG_COLOUR_OTHERS, .pale = true, .name = "pale: waiting"};
    return vg_svg_put_legend(graph->body, VG_SVG_EDGE, y, items, n);
}

static double
put_notes(const struct graph *graph, double y)
{
    bool deep = false;
    double top = y;
    size_t hidden = graph->what->n_rows - graph->n_rows;
    double span_ns = (double)((uint64_t)graph->axis.end_ns - (uint64_t)graph->axis.begin_ns);

    for (size_t r = 0; r < graph->n_rows; r++)
        deep = deep || graph->rows[r].depth > LANES_MAX;
    if (graph->together) {
        g_autofree char *least =
            vg_svg_duration((uint64_t)MIN(graph->narrow / graph->axis.width * span_ns, 9e18));
        g_autofree char *note = g_strdup_printf(
            "Where items shorter than %s are close together, the height is their share of the "
            "time.",
            least);
        vg_svg_put_text(graph->body, LEFT, y += 16, VG_SVG_NOTE, note);
    }
    if (deep)
        vg_svg_put_text(graph->body, LEFT, y += 16, VG_SVG_NOTE,
                        "Where more items overlap than there are lanes, the height is their "
                        "number.");
    if (hidden > 0) {
        g_autofree char *note = g_strdup_printf("%d more rows are not shown.", (int)hidden);
        vg_svg_put_text(graph->body, LEFT, y += 16, VG_SVG_NOTE, note);
    }
    return y - top;
}

static double
put_graph(struct graph *graph)
{
    double y = TOP;

    y += put_legend(graph, y) + 8;
    double bottom = lay_out(graph, y);
    for (size_t r = 0; r < graph->n_rows; r += 2)
        g_string_append_printf(
            graph->body, "<rect class='band' x='%d' y='%d' width='%d' height='%d'/>\n", VG_SVG_EDGE,
            (int)(graph->rows[r].y - ROW_GAP / 2), (int)(LEFT + PLOT_WIDTH) - VG_SVG_EDGE,
            (int)(graph->rows[r].height + ROW_GAP));
    vg_svg_put_time_grid(graph->body, &graph->axis, y - ROW_GAP / 2, bottom - ROW_GAP / 2);
    for (size_t r = 0; r < graph->n_rows; r++) {
        const struct row *row = &graph->rows[r];
        put_row_name(graph, row);
        if (row->depth > LANES_MAX)
            put_deep_row(graph, row);
        else
            put_lanes(graph, row);
    }
    bottom -= ROW_GAP / 2;
    bottom += vg_svg_put_time_axis(graph->body, &graph->axis, bottom);
    return bottom + put_notes(graph, bottom);
}

void
vg_svg_timegraph(GString *out, const struct vg_svg_timegraph *what)
{
    g_autoptr(GString) body = g_string_new(NULL);
    struct graph graph = {
        .what = what,
        .axis = {what->begin_ns, what->end_ns, LEFT, PLOT_WIDTH},
        .n_rows = MIN(what->n_rows, VG_SVG_ROWS_MAX),
        .body = body,
    };

    if (graph.n_rows == 0 || what->end_ns <= what->begin_ns) {
        vg_svg_put_text(body, VG_SVG_EDGE, TOP + 12, VG_SVG_NOTE, "Nothing was recorded.");
        vg_svg_finish(out, what->title, TOP + 36, body);
        return;
    }
    graph.rows = g_new0(struct row, graph.n_rows);
    /* This is never NULL, because empty rows also point into it. */
    graph.items = g_new(struct item, what->n_intervals + 1);
    choose_colours(&graph);
    sort_items(&graph);
    for (size_t r = 0; r < graph.n_rows; r++) {
        struct row *row = &graph.rows[r];
        row->name = what->rows[r];
        row->depth = depth_of(row);
        if (row->depth <= LANES_MAX)
            place_items(row);
    }
    choose_detail(&graph);
    graph.cells = g_new(double, LANES_MAX *SHADES *graph.n_columns);
    double height = put_graph(&graph);
    vg_svg_finish(out, what->title, height + VG_SVG_EDGE, body);
    g_free(graph.colours);
    g_free(graph.cells);
    g_free(graph.items);
    g_free(graph.rows);
}
