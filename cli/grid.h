/* SPDX-License-Identifier: Apache-2.0
 *
 * A grid of character cells, which a screen shows as it is: what a full-screen view draws on, and
 * what its tests look at. Whatever is put, nothing is written outside of the width it may have, and
 * every character has the columns that the terminal gives it: text is first made printable
 * (base/printable.h), wide characters have two cells, combining ones go with the character before.
 */
#ifndef VG_CLI_GRID_H
#define VG_CLI_GRID_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>
#include <wchar.h>

/* What a cell means; a screen knows how to show it. */
enum vg_grid_attr {
    VG_ATTR_PLAIN,
    VG_ATTR_BOLD,
    VG_ATTR_DIM,
    VG_ATTR_HEADER, /* of a table */
    VG_ATTR_SORTED, /* the same, of the column that is sorted by */
    VG_ATTR_SELECTED,
    VG_ATTR_USED, /* CPU time that a VM got */
    VG_ATTR_LOST, /* CPU time that it did not get */
    VG_ATTR_WARN,
    VG_ATTR_BAD,
    VG_ATTR_MAX
};

/* A character and at most so many combining ones. */
#define VG_GRID_CHARS 4

struct vg_grid_cell {
    wchar_t text[VG_GRID_CHARS + 1]; /* ends with 0; empty: the second half of a wide character */
    uint8_t attr;
};

typedef struct vg_grid vg_grid;

/* Blank, of at least one cell. utf8: what is not ASCII can be shown, as the locale has it. */
vg_grid *vg_grid_new(int rows, int columns, bool utf8);
void vg_grid_free(vg_grid *grid);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_grid, vg_grid_free)

int vg_grid_rows(const vg_grid *grid);
int vg_grid_columns(const vg_grid *grid);
bool vg_grid_utf8(const vg_grid *grid);

/* vg_grid_columns() cells; row must be inside. */
const struct vg_grid_cell *vg_grid_row(const vg_grid *grid, int row);

/* Puts text into `width` columns, filled up with blanks behind it, or before it with right. What is
 * too long is cut, which an ellipsis shows. What is outside of the grid is left out. */
void vg_grid_put(vg_grid *grid, int row, int column, int width, bool right, enum vg_grid_attr attr,
                 const char *text);

/* Puts text without blanks around it; the column behind it. */
int vg_grid_print(vg_grid *grid, int row, int column, enum vg_grid_attr attr, const char *fmt, ...)
    G_GNUC_PRINTF(5, 6);

/* All cells of a row. */
void vg_grid_set_attr(vg_grid *grid, int row, enum vg_grid_attr attr);

/* Rows of a grid with as many columns. */
void vg_grid_copy(vg_grid *to, int to_row, const vg_grid *from, int from_row, int n_rows);

/* The row as UTF-8 without blanks at its end; the caller frees it. */
char *vg_grid_text(const vg_grid *grid, int row);

/* Columns that the text takes. */
int vg_grid_text_columns(const char *text, bool utf8);

#endif
