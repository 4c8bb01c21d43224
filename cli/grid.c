/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/grid.h"

#include <stdarg.h>
#include <string.h>

#include "base/printable.h"

struct vg_grid {
    int rows;
    int columns;
    bool utf8;
    struct vg_grid_cell *cells;
};

static struct vg_grid_cell *
cell_at(const vg_grid *grid, int row, int column)
{
    return &grid->cells[(size_t)row * (size_t)grid->columns + (size_t)column];
}

static void
set_cell(struct vg_grid_cell *cell, wchar_t text, enum vg_grid_attr attr)
{
    *cell = (struct vg_grid_cell){.text = {text}, .attr = (uint8_t)attr};
}

vg_grid *
vg_grid_new(int rows, int columns, bool utf8)
{
    vg_grid *grid = g_new0(vg_grid, 1);

    grid->rows = MAX(rows, 1);
    grid->columns = MAX(columns, 1);
    grid->utf8 = utf8;
    grid->cells = g_new(struct vg_grid_cell, (size_t)grid->rows * (size_t)grid->columns);
    for (int row = 0; row < grid->rows; row++) {
        for (int column = 0; column < grid->columns; column++)
            set_cell(cell_at(grid, row, column), L' ', VG_ATTR_PLAIN);
    }
    return grid;
}

void
vg_grid_free(vg_grid *grid)
{
    if (!grid)
        return;
    g_free(grid->cells);
    g_free(grid);
}

int
vg_grid_rows(const vg_grid *grid)
{
    return grid->rows;
}

int
vg_grid_columns(const vg_grid *grid)
{
    return grid->columns;
}

bool
vg_grid_utf8(const vg_grid *grid)
{
    return grid->utf8;
}

const struct vg_grid_cell *
vg_grid_row(const vg_grid *grid, int row)
{
    return cell_at(grid, row, 0);
}

/* Returns the character to display, and its columns according to the C library, as in curses. */
static wchar_t
shown(gunichar c, bool utf8, int *ret_columns)
{
    int columns = c < 0x80 || utf8 ? wcwidth((wchar_t)c) : -1;

    *ret_columns = columns < 0 ? 1 : columns;
    return columns < 0 ? L'?' : (wchar_t)c;
}

int
vg_grid_text_columns(const char *text, bool utf8)
{
    g_autofree char *printable = vg_printable_text(text);
    int all = 0;

    for (const char *at = printable; *at; at = g_utf8_next_char(at)) {
        int columns;
        shown(g_utf8_get_char(at), utf8, &columns);
        all += columns;
    }
    return all;
}

/* Removes a wide character of which one half was overwritten. */
static void
break_wide(vg_grid *grid, int row, int column)
{
    if (column < 0 || column >= grid->columns || cell_at(grid, row, column)->text[0] != 0)
        return;
    cell_at(grid, row, column)->text[0] = L' ';
    if (column > 0) {
        struct vg_grid_cell *first = cell_at(grid, row, column - 1);
        set_cell(first, L' ', (enum vg_grid_attr)first->attr);
    }
}

static void
put_character(vg_grid *grid, int row, int column, wchar_t c, int columns, enum vg_grid_attr attr)
{
    if (column < 0 || column + columns > grid->columns)
        return;
    break_wide(grid, row, column);
    break_wide(grid, row, column + columns);
    set_cell(cell_at(grid, row, column), c, attr);
    if (columns == 2)
        set_cell(cell_at(grid, row, column + 1), 0, attr);
}

static void
add_combining(vg_grid *grid, int row, int column, wchar_t c)
{
    struct vg_grid_cell *cell = cell_at(grid, row, column);

    size_t n = wcslen(cell->text);
    if (n < VG_GRID_CHARS)
        cell->text[n] = c;
}

/* Writes at most max columns of printable text. Returns the number of columns. */
static int
put_some(vg_grid *grid, int row, int column, int max, enum vg_grid_attr attr, const char *text)
{
    int taken = 0, last = -1;

    for (; *text; text = g_utf8_next_char(text)) {
        int columns;
        wchar_t c = shown(g_utf8_get_char(text), grid->utf8, &columns);
        if (columns == 0) {
            if (last >= 0)
                add_combining(grid, row, last, c);
            continue;
        }
        if (taken + columns > max)
            break;
        put_character(grid, row, column + taken, c, columns, attr);
        last = column + taken + columns <= grid->columns ? column + taken : -1;
        taken += columns;
    }
    return taken;
}

void
vg_grid_put(vg_grid *grid, int row, int column, int width, bool right, enum vg_grid_attr attr,
            const char *text)
{
    if (row < 0 || row >= grid->rows || column < 0 || column >= grid->columns)
        return;
    g_autofree char *printable = vg_printable_text(text);
    int columns = vg_grid_text_columns(printable, grid->utf8);
    bool cut;

    width = MIN(width, grid->columns - column);
    if (width <= 0)
        return;
    cut = columns > width;
    int at = right && !cut ? width - columns : 0;
    for (int i = 0; i < at; i++)
        put_character(grid, row, column + i, L' ', 1, attr);
    at += put_some(grid, row, column + at, cut ? width - 1 : width, attr, printable);
    if (cut)
        at += put_some(grid, row, column + at, 1, attr, grid->utf8 ? "\xe2\x80\xa6" : "~");
    for (; at < width; at++)
        put_character(grid, row, column + at, L' ', 1, attr);
}

int
vg_grid_print(vg_grid *grid, int row, int column, enum vg_grid_attr attr, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    g_autofree char *text = g_strdup_vprintf(fmt, args);
    va_end(args);
    int columns = vg_grid_text_columns(text, grid->utf8);
    vg_grid_put(grid, row, column, columns, false, attr, text);
    return column + columns;
}

void
vg_grid_set_attr(vg_grid *grid, int row, enum vg_grid_attr attr)
{
    for (int column = 0; row >= 0 && row < grid->rows && column < grid->columns; column++)
        cell_at(grid, row, column)->attr = (uint8_t)attr;
}

void
vg_grid_copy(vg_grid *to, int to_row, const vg_grid *from, int from_row, int n_rows)
{
    int columns = MIN(to->columns, from->columns);

    for (int i = 0; i < n_rows; i++) {
        if (to_row + i >= 0 && to_row + i < to->rows && from_row + i >= 0 &&
            from_row + i < from->rows)
            memcpy(cell_at(to, to_row + i, 0), cell_at(from, from_row + i, 0),
                   (size_t)columns * sizeof(struct vg_grid_cell));
    }
}

char *
vg_grid_text(const vg_grid *grid, int row)
{
    GString *text = g_string_new(NULL);

    for (int column = 0; column < grid->columns; column++) {
        const wchar_t *at = cell_at(grid, row, column)->text;
        for (; *at; at++)
            g_string_append_unichar(text, (gunichar)*at);
    }
    while (text->len > 0 && text->str[text->len - 1] == ' ')
        g_string_truncate(text, text->len - 1);
    return g_string_free(text, FALSE);
}
