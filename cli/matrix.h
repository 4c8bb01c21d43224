/* SPDX-License-Identifier: Apache-2.0
 *
 * Who takes the CPU from whom as a table with a row for each victim and a column for each
 * aggressor, those that matter most first. Pure.
 */
#ifndef VG_CLI_MATRIX_H
#define VG_CLI_MATRIX_H

#include <stdbool.h>

#include <glib.h>
#include <json-c/json.h>

#include "cli/output.h"

enum vg_matrix_of {
    VG_MATRIX_TIME, /* lost, in milliseconds per second */
    VG_MATRIX_COUNT /* preemptions per second */
};

struct vg_matrix {
    json_object *rows; /* an array of objects; what never happened has no member */
    GArray *columns;   /* struct vg_column, of the rows */
    GPtrArray *texts;  /* what the columns borrow */
};
typedef struct vg_matrix vg_matrix;

/* Of items of /v1/preemptions. At most width columns on the screen and n_rows rows, totals
 * included; what has no place is summed up as "others"; 0: no limit. There is always place for the
 * name, the others and the total. utf8: as in vg_grid_text_columns(). */
vg_matrix *vg_matrix_new(json_object *items, enum vg_matrix_of of, int width, int n_rows,
                         bool utf8);
void vg_matrix_free(vg_matrix *matrix);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_matrix, vg_matrix_free)

#endif
