/* SPDX-License-Identifier: Apache-2.0
 *
 * The one way results are printed. A command builds a JSON document, and tables that say which
 * members of which rows a person wants to see; the format chosen does the rest. An object may name
 * members of its own, or by dotted paths of objects in it, in "unknown", which are shown as if they
 * were not there, and in "bounds", before which tables have ">=".
 */
#ifndef VG_CLI_OUTPUT_H
#define VG_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>
#include <json-c/json.h>

enum vg_output_format {
    VG_OUTPUT_TABLE,
    VG_OUTPUT_WIDE, /* a table with every column */
    VG_OUTPUT_NAME, /* of each row of the first table what its first column has, raw */
    VG_OUTPUT_JSON,
    VG_OUTPUT_YAML,
    VG_OUTPUT_CSV, /* the first table, every column, raw values */
    VG_OUTPUT_MAX
};

/* What a line of VG_CELL_FOLD begins with that is a command. */
#define VG_OUTPUT_COMMAND "$ "

/* How a member is shown in a table; CSV always has the raw value. */
enum vg_cell {
    VG_CELL_TEXT, /* goes on below where the terminal is too narrow for it */
    /* A name; VG_OUTPUT_TABLE shows what people call that, where it is there: member "label" beside
     * "name", or "x_label" beside "x". */
    VG_CELL_NAME,
    VG_CELL_FOLD, /* lines that are made here, which go on below everywhere; commands stay whole */
    VG_CELL_TIME, /* of a time in UTC, which the heading says: "2026-11-25 12:00:00" */
    VG_CELL_COUNT,
    VG_CELL_SECONDS,      /* of nanoseconds: "2.712" */
    VG_CELL_MILLISECONDS, /* of nanoseconds: "0.301" */
    VG_CELL_PERCENT,      /* of a share: "43.6" */
    VG_CELL_SHARE,        /* of a share or a rate: "0.44" */
    VG_CELL_MIB,          /* of bytes: "1536" */
    VG_CELL_LIST,         /* of an array of scalars: "0,1" */
    VG_CELL_BOUNDS        /* the same; a column of CSV only */
};

struct vg_column {
    const char *header;
    const char *member; /* dots lead into objects */
    enum vg_cell cell;
    bool wide; /* only in VG_OUTPUT_WIDE and CSV */
};

struct vg_table {
    const char *title; /* NULL: none */
    json_object *rows; /* an array of objects, borrowed */
    const struct vg_column *columns;
    size_t n_columns;
    const char *when_empty; /* printed instead of a table without rows; NULL: nothing */
};

/* How everything is printed from now on; set once, while arguments are parsed. columns: of the
 * first table, their headings in any case or their members, with commas between; borrowed. A column
 * that is not there is an error of vg_output_print(). */
void vg_output_set_columns(const char *columns);
void vg_output_set_no_headers(void);

/* VG_E_INVALID naming the formats that there are. */
int vg_output_format_from_name(const char *name, enum vg_output_format *ret, GError **err);

/* Prints doc (json, yaml) or the tables (table, wide, csv). */
int vg_output_print(enum vg_output_format format, json_object *doc, const struct vg_table *tables,
                    size_t n_tables, GError **err);

/* The member of an object that a dotted path leads to, or NULL; borrowed. */
json_object *vg_output_member(json_object *object, const char *path);

/* Its items; 0 for what is no array, as NULL. */
size_t vg_output_length(json_object *array);

#endif
