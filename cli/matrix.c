/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/matrix.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/printable.h"
#include "cli/grid.h"

#define OTHERS "others"
#define TOTAL  "TOTAL"

/* A row or a column. */
struct line {
    char *key; /* the id of a VM, or the name of another aggressor */
    char *name;
    double now;  /* the sum of its cells */
    double past; /* the sum since the start, for sorting if both current sums are 0 */
    guint place; /* the position after sorting */
};

struct cell {
    struct line *row;
    struct line *column;
    double value;
};

struct lines {
    GPtrArray *all; /* struct line */
    GHashTable *by_key;
};

static void
line_free(void *data)
{
    struct line *line = data;

    g_free(line->key);
    g_free(line->name);
    g_free(line);
}

static void
lines_init(struct lines *lines)
{
    lines->all = g_ptr_array_new_with_free_func(line_free);
    lines->by_key = g_hash_table_new(g_str_hash, g_str_equal);
}

static void
lines_clear(struct lines *lines)
{
    g_hash_table_unref(lines->by_key);
    g_ptr_array_unref(lines->all);
}

static struct line *
add_to_line(struct lines *lines, const char *key, const char *name, double now, double past)
{
    struct line *line = g_hash_table_lookup(lines->by_key, key);

    if (!line) {
        line = g_new0(struct line, 1);
        line->key = g_strdup(key);
        line->name = vg_printable_text(name);
        g_ptr_array_add(lines->all, line);
        g_hash_table_insert(lines->by_key, line->key, line);
    }
    line->now += now;
    line->past += past;
    return line;
}

static const char *
matrix_text_of(json_object *item, const char *path, const char *otherwise)
{
    const char *text = json_object_get_string(vg_output_member(item, path));

    return text ? text : otherwise;
}

static double
matrix_number_of(json_object *item, const char *name)
{
    return MAX(json_object_get_double(vg_output_member(item, name)), 0);
}

static void
read_items(json_object *items, enum vg_matrix_of of, struct lines *rows, struct lines *columns,
           GArray *cells)
{
    bool time = of == VG_MATRIX_TIME;

    for (size_t i = 0; i < vg_output_length(items); i++) {
        json_object *item = json_object_array_get_idx(items, i);
        const char *victim_name = matrix_text_of(item, "victim.name", "?");
        const char *victim = matrix_text_of(item, "victim.label", victim_name);
        const char *victim_id = matrix_text_of(item, "victim.id", victim_name);
        const char *taker = matrix_text_of(item, "aggressor", "?");
        const char *aggressor = matrix_text_of(item, "aggressor_label", taker);
        const char *aggressor_id = matrix_text_of(item, "aggressor_id", taker);
        double now = time ? matrix_number_of(item, "newest.share") * 1000
                          : matrix_number_of(item, "newest.count_per_s");
        double past = matrix_number_of(item, time ? "ns" : "count");
        struct cell cell = {.value = now};
        /* An aggressor that is "self" for the victim is shown as this VM. */
        if (strcmp(victim_id, aggressor_id) == 0)
            aggressor = victim;
        cell.row = add_to_line(rows, victim_id, victim, now, past);
        cell.column = add_to_line(columns, aggressor_id, aggressor, now, past);
        g_array_append_val(cells, cell);
    }
}

static int
compare_lines(const void *a, const void *b)
{
    const struct line *left = *(struct line *const *)a;
    const struct line *right = *(struct line *const *)b;

    if (left->now != right->now)
        return left->now > right->now ? -1 : 1;
    if (left->past != right->past)
        return left->past > right->past ? -1 : 1;
    int by_name = strcmp(left->name, right->name);
    return by_name != 0 ? by_name : strcmp(left->key, right->key);
}

static void
sort_lines(struct lines *lines)
{
    g_ptr_array_sort(lines->all, compare_lines);
    for (guint i = 0; i < lines->all->len; i++)
        ((struct line *)lines->all->pdata[i])->place = i;
}

/* Returns the width of a figure as cli/output prints it. */
static int
figure_width(double value)
{
    return snprintf(NULL, 0, "%.2f", value);
}

/* Includes the blank before the column. No cell is wider than the sum of its column. */
static int
column_width(const struct line *column, bool utf8)
{
    return 1 + MAX(vg_grid_text_columns(column->name, utf8), figure_width(column->now));
}

/* Returns how many columns fit in addition to the name, the total, and the column of the others, if
 * any. */
static guint
fitting_columns(const struct lines *rows, const struct lines *columns, double total, int width,
                bool utf8)
{
    int name = (int)strlen(OTHERS), figure = figure_width(total), all = 0;
    guint n = 0;

    for (guint i = 0; i < rows->all->len; i++)
        name = MAX(name, vg_grid_text_columns(((struct line *)rows->all->pdata[i])->name, utf8));
    for (guint i = 0; i < columns->all->len; i++)
        all += column_width(columns->all->pdata[i], utf8);
    int room = width - name - 1 - MAX(figure, (int)strlen(TOTAL));
    if (width <= 0 || all <= room)
        return columns->all->len;
    room -= 1 + MAX(figure, (int)strlen(OTHERS));
    for (; n < columns->all->len; n++) {
        room -= column_width(columns->all->pdata[n], utf8);
        if (room < 0)
            break;
    }
    return n;
}

static void
add_column(vg_matrix *matrix, const char *header, const char *member, enum vg_cell cell)
{
    struct vg_column column = {.cell = cell};

    g_ptr_array_add(matrix->texts, g_strdup(header));
    column.header = g_ptr_array_index(matrix->texts, matrix->texts->len - 1);
    g_ptr_array_add(matrix->texts, g_strdup(member));
    column.member = g_ptr_array_index(matrix->texts, matrix->texts->len - 1);
    g_array_append_val(matrix->columns, column);
}

static void
add_columns(vg_matrix *matrix, const struct lines *columns, guint n)
{
    add_column(matrix, "VM", "name", VG_CELL_TEXT);
    for (guint i = 0; i < n; i++) {
        const struct line *column = columns->all->pdata[i];
        char member[16];
        snprintf(member, sizeof(member), "c%u", i);
        add_column(matrix, column->name, member, VG_CELL_SHARE);
    }
    if (n < columns->all->len)
        add_column(matrix, OTHERS, OTHERS, VG_CELL_SHARE);
    add_column(matrix, TOTAL, "total", VG_CELL_SHARE);
}

static void
add_value(json_object *row, const char *member, double value)
{
    vg_json_add_double(row, member, json_object_get_double(vg_output_member(row, member)) + value);
}

static void
add_cell(json_object *row, guint column, guint n_columns, double value)
{
    char member[16];

    snprintf(member, sizeof(member), "c%u", column);
    add_value(row, column < n_columns ? member : OTHERS, value);
    add_value(row, "total", value);
}

/* Adds n rows of victims, a row of the others if there are more, and a row of all. */
static void
add_rows(vg_matrix *matrix, const struct lines *rows, const GArray *cells, guint n, guint n_columns)
{
    guint last = n < rows->all->len ? n + 1 : n;

    for (guint i = 0; i <= last; i++) {
        json_object *row = json_object_new_object();
        const struct line *line = i < n ? rows->all->pdata[i] : NULL;
        vg_json_add_string(row, "name", line ? line->name : i < last ? OTHERS : TOTAL);
        vg_json_append(matrix->rows, row);
    }
    for (guint i = 0; i < cells->len; i++) {
        const struct cell *cell = &g_array_index(cells, struct cell, i);
        guint at = MIN(cell->row->place, n);
        add_cell(json_object_array_get_idx(matrix->rows, at), cell->column->place, n_columns,
                 cell->value);
        add_cell(json_object_array_get_idx(matrix->rows, last), cell->column->place, n_columns,
                 cell->value);
    }
}

vg_matrix *
vg_matrix_new(json_object *items, enum vg_matrix_of of, int width, int n_rows, bool utf8)
{
    vg_matrix *matrix = g_new0(vg_matrix, 1);
    g_autoptr(GArray) cells = g_array_new(FALSE, FALSE, sizeof(struct cell));
    struct lines rows, columns;
    double total = 0;

    matrix->rows = json_object_new_array();
    matrix->columns = g_array_new(FALSE, FALSE, sizeof(struct vg_column));
    matrix->texts = g_ptr_array_new_with_free_func(g_free);
    lines_init(&rows);
    lines_init(&columns);
    read_items(items, of, &rows, &columns, cells);
    sort_lines(&rows);
    sort_lines(&columns);
    for (guint i = 0; i < rows.all->len; i++)
        total += ((const struct line *)rows.all->pdata[i])->now;
    guint n_columns = fitting_columns(&rows, &columns, total, width, utf8);
    guint n = rows.all->len;
    if (n_rows > 0 && n + 1 > (guint)n_rows)
        n = (guint)MAX(n_rows - 2, 0);
    add_columns(matrix, &columns, n_columns);
    if (cells->len > 0)
        add_rows(matrix, &rows, cells, n, n_columns);
    lines_clear(&rows);
    lines_clear(&columns);
    return matrix;
}

void
vg_matrix_free(vg_matrix *matrix)
{
    if (!matrix)
        return;
    json_object_put(matrix->rows);
    g_array_unref(matrix->columns);
    g_ptr_array_unref(matrix->texts);
    g_free(matrix);
}
