/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of CPU time taken, with a row per victim and a column per aggressor, most important
 * first. Pure.
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
    json_object *rows; /* an array of objects; pairs without events have no member */
    GArray *columns;   /* struct vg_column, of the rows */
    GPtrArray *texts;  /* texts that the columns borrow */
};
typedef struct vg_matrix vg_matrix;

/* Built from items of /v1/preemptions. At most width columns on the screen and n_rows rows,
 * including totals; 0 means no limit. The remaining entries are combined as "others". The name, the
 * others and the total always fit. utf8: as in vg_grid_text_columns(). */
vg_matrix *vg_matrix_new(json_object *items, enum vg_matrix_of of, int width, int n_rows,
                         bool utf8);
void vg_matrix_free(vg_matrix *matrix);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_matrix, vg_matrix_free)

#endif
