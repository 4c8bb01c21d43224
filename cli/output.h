/* SPDX-License-Identifier: Apache-2.0
 *
 * The common way to print results. A command builds a JSON document, and tables that define which
 * members of which rows to show. The selected format does the rest. An object may contain lists of
 * its members; members of inner objects are listed by dotted paths. Members listed in "unknown" are
 * shown as missing, and tables show members listed in "bounds" with ">=".
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
    VG_OUTPUT_NAME, /* the raw value in the first column of each row of the first table */
    VG_OUTPUT_JSON,
    VG_OUTPUT_YAML,
    VG_OUTPUT_CSV, /* the first table, every column, raw values */
    VG_OUTPUT_MAX
};

/* Prefix of a VG_CELL_FOLD line that is a command. */
#define VG_OUTPUT_COMMAND "$ "

/* The display of a member in a table. CSV always has the raw value. */
enum vg_cell {
    VG_CELL_TEXT, /* wrapped if the terminal is too narrow for it */
    /* A name. VG_OUTPUT_TABLE shows the display name if there is one: member "label" next to
     * "name", or "x_label" beside "x". */
    VG_CELL_NAME,
    VG_CELL_FOLD, /* lines that are created here and always wrapped; commands are not broken */
    VG_CELL_TIME, /* a time in UTC, as stated in the heading: "2026-11-25 12:00:00" */
    VG_CELL_COUNT,
    VG_CELL_SECONDS,      /* from nanoseconds: "2.712" */
    VG_CELL_MILLISECONDS, /* from nanoseconds: "0.301" */
    VG_CELL_PERCENT,      /* from a fraction: "43.6" */
    VG_CELL_SHARE,        /* from a fraction or a rate: "0.44" */
    VG_CELL_MIB,          /* from bytes: "1536" */
    VG_CELL_LIST,         /* from an array of scalars: "0,1" */
    VG_CELL_BOUNDS        /* the same; only a column of CSV */
};

struct vg_column {
    const char *header;
    const char *member; /* a dotted path into objects */
    enum vg_cell cell;
    bool wide; /* only in VG_OUTPUT_WIDE and CSV */
};

struct vg_table {
    const char *title; /* may be NULL */
    json_object *rows; /* an array of objects, borrowed */
    const struct vg_column *columns;
    size_t n_columns;
    const char *when_empty; /* printed instead of an empty table; NULL for nothing */
};

/* These functions set options for all output, and are called once during parsing. columns: those of
 * the first table, by heading in any case or by member, separated by commas; borrowed. An unknown
 * column is an error of vg_output_print(). */
void vg_output_set_columns(const char *columns);
void vg_output_set_no_headers(void);

/* Fails with VG_E_INVALID and the list of formats. */
int vg_output_format_from_name(const char *name, enum vg_output_format *ret, GError **err);

/* Prints doc (json, yaml) or the tables (table, wide, csv). */
int vg_output_print(enum vg_output_format format, json_object *doc, const struct vg_table *tables,
                    size_t n_tables, GError **err);

/* Returns the member of an object at a dotted path, or NULL; borrowed. */
json_object *vg_output_member(json_object *object, const char *path);

/* Returns the number of items of an array, or 0 for NULL or if it is not an array. */
size_t vg_output_length(json_object *array);

#endif
