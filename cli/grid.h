/* SPDX-License-Identifier: Apache-2.0
 *
 * A grid of character cells, which a screen displays unchanged. Full-screen views draw on it, and
 * their tests inspect it. Drawing never exceeds the given width, and every character has as many
 * columns as in the terminal. To that end, text is first made printable (base/printable.h), wide
 * characters have two cells, and combining characters share the previous character's cell.
 */
#ifndef VG_CLI_GRID_H
#define VG_CLI_GRID_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>
#include <wchar.h>

/* The meaning of a cell, which a screen translates into colours. */
enum vg_grid_attr {
    VG_ATTR_PLAIN,
    VG_ATTR_BOLD,
    VG_ATTR_DIM,
    VG_ATTR_HEADER, /* of a table */
    VG_ATTR_SORTED, /* the same, for the column that a table is sorted by */
    VG_ATTR_SELECTED,
    VG_ATTR_USED, /* CPU time that a VM got */
    VG_ATTR_LOST, /* CPU time that it did not get */
    VG_ATTR_WARN,
    VG_ATTR_BAD,
    VG_ATTR_MAX
};

/* A character and the maximum number of its combining characters. */
#define VG_GRID_CHARS 4

struct vg_grid_cell {
    wchar_t text[VG_GRID_CHARS +
                 1]; /* terminated by 0; empty for the second half of a wide character */
    uint8_t attr;
};

typedef struct vg_grid vg_grid;

/* Creates a blank grid of at least one cell. utf8: the locale can display non-ASCII characters. */
vg_grid *vg_grid_new(int rows, int columns, bool utf8);
void vg_grid_free(vg_grid *grid);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_grid, vg_grid_free)

int vg_grid_rows(const vg_grid *grid);
int vg_grid_columns(const vg_grid *grid);
bool vg_grid_utf8(const vg_grid *grid);

/* Returns vg_grid_columns() cells. row must be in range. */
const struct vg_grid_cell *vg_grid_row(const vg_grid *grid, int row);

/* Puts text into `width` columns, padded with blanks on the right, or on the left if `right` is
 * set. Text that is too long is truncated with an ellipsis. Parts outside the grid are dropped. */
void vg_grid_put(vg_grid *grid, int row, int column, int width, bool right, enum vg_grid_attr attr,
                 const char *text);

/* Puts text without padding. Returns the column after it. */
int vg_grid_print(vg_grid *grid, int row, int column, enum vg_grid_attr attr, const char *fmt, ...)
    G_GNUC_PRINTF(5, 6);

/* Sets the attribute of all cells in a row. */
void vg_grid_set_attr(vg_grid *grid, int row, enum vg_grid_attr attr);

/* Copies rows between grids with the same number of columns. */
void vg_grid_copy(vg_grid *to, int to_row, const vg_grid *from, int from_row, int n_rows);

/* Returns the row as UTF-8 without trailing blanks; the caller frees it. */
char *vg_grid_text(const vg_grid *grid, int row);

/* Returns the number of columns that the text occupies. */
int vg_grid_text_columns(const char *text, bool utf8);

#endif
