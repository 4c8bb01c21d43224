/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <libsmartcols.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/output-yaml.h"
#include "cli/printable.h"

/* Columns of the terminal that a text which goes on below gets at least. */
#define WRAP_MIN 20

static const char *const format_names[VG_OUTPUT_MAX] = {"table", "wide", "name",
                                                        "json",  "yaml", "csv"};

/* What the user chose. */
static struct {
    const char *columns; /* NULL: all */
    bool no_headers;
} style;

void
vg_output_set_columns(const char *columns)
{
    style.columns = columns;
}

void
vg_output_set_no_headers(void)
{
    style.no_headers = true;
}

int
vg_output_format_from_name(const char *name, enum vg_output_format *ret, GError **err)
{
    for (int i = 0; i < VG_OUTPUT_MAX; i++) {
        if (strcmp(name, format_names[i]) == 0) {
            *ret = (enum vg_output_format)i;
            return 0;
        }
    }
    return vg_error(err, VG_E_INVALID,
                    "there is no output format '%s'; use table, wide, name, json, yaml or csv",
                    name);
}

json_object *
vg_output_member(json_object *object, const char *path)
{
    g_auto(GStrv) names = g_strsplit(path, ".", 0);

    for (size_t i = 0; object && names[i]; i++) {
        json_object *next = NULL;
        if (!json_object_is_type(object, json_type_object) ||
            !json_object_object_get_ex(object, names[i], &next))
            return NULL;
        object = next;
    }
    return object;
}

size_t
vg_output_length(json_object *array)
{
    return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}

static char *
list_text(json_object *array)
{
    GString *text = g_string_new(NULL);

    for (size_t i = 0; i < json_object_array_length(array); i++)
        g_string_append_printf(text, "%s%s", i > 0 ? "," : "",
                               json_object_get_string(json_object_array_get_idx(array, i)));
    return g_string_free(text, FALSE);
}

/* The value as CSV has it; the caller frees it. */
static char *
raw_text(json_object *value)
{
    if (!value)
        return g_strdup("");
    if (json_object_is_type(value, json_type_array))
        return list_text(value);
    return g_strdup(json_object_get_string(value));
}

/* Printable, but for the ends of lines. The caller frees it. */
static char *
lines_text(const char *text)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

    for (char **line = lines; *line; line++) {
        char *shown = vg_printable_text(*line);
        g_free(*line);
        *line = shown;
    }
    return g_strjoinv("\n", lines);
}

static char *
cell_text(json_object *value, enum vg_cell cell)
{
    if (!value)
        return g_strdup("-");
    switch (cell) {
    case VG_CELL_SECONDS:
        return g_strdup_printf("%.3f", (double)json_object_get_int64(value) / 1e9);
    case VG_CELL_MILLISECONDS:
        return g_strdup_printf("%.3f", (double)json_object_get_int64(value) / 1e6);
    case VG_CELL_PERCENT:
        return g_strdup_printf("%.1f", json_object_get_double(value) * 100);
    case VG_CELL_SHARE:
        return g_strdup_printf("%.2f", json_object_get_double(value));
    case VG_CELL_MIB:
        return g_strdup_printf("%.0f", (double)json_object_get_int64(value) / (1 << 20));
    case VG_CELL_TEXT:
    case VG_CELL_WRAP:
    case VG_CELL_FOLD:
    case VG_CELL_COUNT:
    case VG_CELL_LIST:
        break;
    }
    g_autofree char *text = raw_text(value);
    return cell == VG_CELL_FOLD ? lines_text(text) : vg_printable_text(text);
}

/* ---- columns ---- */

static bool
output_column_is(const struct vg_column *column, const char *name)
{
    return g_ascii_strcasecmp(column->header, name) == 0 ||
           g_ascii_strcasecmp(column->member, name) == 0;
}

static int
output_refuse_column(const struct vg_table *table, const char *name, GError **err)
{
    g_autoptr(GString) names = g_string_new(NULL);

    for (size_t i = 0; i < table->n_columns; i++)
        g_string_append_printf(names, "%s%s", i > 0 ? ", " : "", table->columns[i].header);
    return vg_error(err, VG_E_INVALID, "there is no column '%s'; there are: %s", name, names->str);
}

/* Those that were chosen, in that order. */
static int
output_choose_columns(const struct vg_table *table, GPtrArray *columns, GError **err)
{
    g_auto(GStrv) names = g_strsplit(style.columns, ",", 0);

    for (size_t i = 0; names[i]; i++) {
        const char *name = g_strstrip(names[i]);
        size_t at = 0;
        while (at < table->n_columns && !output_column_is(&table->columns[at], name))
            at++;
        if (at == table->n_columns)
            return output_refuse_column(table, name, err);
        g_ptr_array_add(columns, (void *)&table->columns[at]);
    }
    return 0;
}

/* Struct vg_column, borrowed. NULL and *err: a chosen one is not there. */
static GPtrArray *
output_columns(const struct vg_table *table, bool first, bool wide, GError **err)
{
    g_autoptr(GPtrArray) columns = g_ptr_array_new();

    if (first && style.columns)
        return output_choose_columns(table, columns, err) < 0 ? NULL : g_steal_pointer(&columns);
    for (size_t i = 0; i < table->n_columns; i++) {
        if (wide || !table->columns[i].wide)
            g_ptr_array_add(columns, (void *)&table->columns[i]);
    }
    return g_steal_pointer(&columns);
}

/* ---- tables ---- */

static void
add_row(struct libscols_table *out, const GPtrArray *columns, json_object *row)
{
    struct libscols_line *line = scols_table_new_line(out, NULL);

    for (guint i = 0; i < columns->len; i++) {
        const struct vg_column *column = columns->pdata[i];
        g_autofree char *text = cell_text(vg_output_member(row, column->member), column->cell);
        scols_line_set_data(line, i, text);
    }
}

static int
cell_flags(enum vg_cell cell)
{
    if (cell == VG_CELL_WRAP || cell == VG_CELL_FOLD)
        return SCOLS_FL_WRAP;
    return cell == VG_CELL_TEXT || cell == VG_CELL_LIST ? 0 : SCOLS_FL_RIGHT;
}

static const char *
cell_data(struct libscols_table *out, size_t line, size_t column)
{
    return scols_cell_get_data(scols_line_get_cell(scols_table_get_line(out, line), column));
}

/* Columns of the terminal that others leave for one; lines are filled in. */
static size_t
width_left(struct libscols_table *out, size_t at)
{
    const size_t width = scols_table_get_termwidth(out);
    size_t used = 0;

    for (size_t i = 0; i < scols_table_get_ncols(out); i++) {
        long most = g_utf8_strlen(scols_column_get_name(scols_table_get_column(out, i)), -1);
        for (size_t k = 0; k < scols_table_get_nlines(out); k++)
            most = MAX(most, g_utf8_strlen(cell_data(out, k, i), -1));
        if (i != at)
            used += (size_t)most + 1;
    }
    return width > used + WRAP_MIN ? width - used : WRAP_MIN;
}

static void
wrap_line(GString *text, const char *line, size_t width)
{
    g_auto(GStrv) words = g_strsplit(line, " ", -1);
    size_t used = 0;

    for (char **word = words; *word; word++) {
        const size_t length = (size_t)g_utf8_strlen(*word, -1);
        const bool fits = used + 1 + length <= width;
        if (word > words)
            g_string_append_c(text, fits ? ' ' : '\n');
        g_string_append(text, *word);
        used = fits && word > words ? used + 1 + length : length;
    }
}

/* Breaks lines between words where they would pass the end of the terminal. */
static void
wrap_words(struct libscols_table *out, size_t at)
{
    struct libscols_column *column = scols_table_get_column(out, at);
    const size_t width = width_left(out, at);

    scols_column_set_safechars(column, "\n");
    scols_column_set_wrapfunc(column, scols_wrapnl_chunksize, scols_wrapnl_nextchunk, NULL);
    for (size_t k = 0; k < scols_table_get_nlines(out); k++) {
        g_auto(GStrv) lines = g_strsplit(cell_data(out, k, at), "\n", -1);
        g_autoptr(GString) text = g_string_new(NULL);
        for (char **line = lines; *line; line++) {
            if (line > lines)
                g_string_append_c(text, '\n');
            if (g_str_has_prefix(*line, VG_OUTPUT_COMMAND))
                g_string_append(text, *line);
            else
                wrap_line(text, *line, width);
        }
        scols_line_set_data(scols_table_get_line(out, k), at, text->str);
    }
}

static int
output_draw(const struct vg_table *table, const GPtrArray *columns, GError **err)
{
    struct libscols_table *out = scols_new_table();

    if (!out)
        return vg_error(err, VG_E_EXTERNAL, "cannot make a table");
    scols_table_enable_noheadings(out, style.no_headers);
    for (guint i = 0; i < columns->len; i++) {
        const struct vg_column *column = columns->pdata[i];
        const bool last = column->cell == VG_CELL_TEXT && i + 1 == columns->len;
        scols_table_new_column(out, column->header, 0,
                               cell_flags(last ? VG_CELL_WRAP : column->cell));
    }
    for (size_t i = 0; i < json_object_array_length(table->rows); i++)
        add_row(out, columns, json_object_array_get_idx(table->rows, i));
    /* On a terminal, reasons and the like fold; most of them are last. */
    for (guint i = 0; i < columns->len; i++) {
        const struct vg_column *column = columns->pdata[i];
        if (column->cell == VG_CELL_FOLD ||
            (isatty(STDOUT_FILENO) && scols_column_is_wrap(scols_table_get_column(out, i))))
            wrap_words(out, i);
    }
    int status = scols_print_table(out);
    scols_unref_table(out);
    return status == 0 ? 0 : vg_error_errno(err, -status, "cannot print a table");
}

static int
print_table(const struct vg_table *table, bool first, bool wide, GError **err)
{
    g_autoptr(GPtrArray) columns = output_columns(table, first, wide, err);
    size_t n_rows = vg_output_length(table->rows);

    if (!columns)
        return -1;
    if (table->title && !style.no_headers && (n_rows > 0 || table->when_empty))
        printf("%s\n", table->title);
    if (n_rows > 0)
        return output_draw(table, columns, err);
    if (table->when_empty && !style.no_headers)
        printf("%s\n", table->when_empty);
    return 0;
}

static int
print_tables(const struct vg_table *tables, size_t n_tables, bool wide, GError **err)
{
    for (size_t i = 0; i < n_tables; i++) {
        if (i > 0 && (vg_output_length(tables[i].rows) > 0 || tables[i].when_empty))
            putchar('\n');
        if (print_table(&tables[i], i == 0, wide, err) < 0)
            return -1;
    }
    return 0;
}

static char *
name_text(const struct vg_table *table)
{
    GString *text = g_string_new(NULL);

    for (size_t i = 0; i < vg_output_length(table->rows); i++) {
        json_object *row = json_object_array_get_idx(table->rows, i);
        g_autofree char *name = raw_text(vg_output_member(row, table->columns[0].member));
        g_autofree char *shown = vg_printable_text(name);
        g_string_append_printf(text, "%s\n", shown);
    }
    return g_string_free(text, FALSE);
}

/* RFC 4180: quoted where it must be, quotes doubled. */
static void
append_csv(GString *line, const char *text)
{
    if (line->len > 0 && line->str[line->len - 1] != '\n')
        g_string_append_c(line, ',');
    if (!strpbrk(text, ",\"\r\n")) {
        g_string_append(line, text);
        return;
    }
    g_string_append_c(line, '"');
    for (; *text; text++) {
        if (*text == '"')
            g_string_append_c(line, '"');
        g_string_append_c(line, *text);
    }
    g_string_append_c(line, '"');
}

/* NULL and *err: a chosen column is not there. */
static char *
csv_text(const struct vg_table *table, GError **err)
{
    g_autoptr(GPtrArray) columns = output_columns(table, true, true, err);

    if (!columns)
        return NULL;
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < columns->len && !style.no_headers; i++)
        g_string_append_printf(text, "%s%s%s", i > 0 ? "," : "",
                               ((const struct vg_column *)columns->pdata[i])->member,
                               i + 1 == columns->len ? "\n" : "");
    for (size_t r = 0; r < vg_output_length(table->rows); r++) {
        json_object *row = json_object_array_get_idx(table->rows, r);
        for (guint i = 0; i < columns->len; i++) {
            const struct vg_column *column = columns->pdata[i];
            g_autofree char *raw = raw_text(vg_output_member(row, column->member));
            /* Many look at CSV in a terminal, or open it in a program that takes a line for a row.
             */
            g_autofree char *cell = vg_printable_text(raw);
            if (i == 0 && cell[0] == '\0')
                g_string_append(text, "\"\"");
            else
                append_csv(text, cell);
        }
        g_string_append_c(text, '\n');
    }
    return g_string_free(text, FALSE);
}

int
vg_output_print(enum vg_output_format format, json_object *doc, const struct vg_table *tables,
                size_t n_tables, GError **err)
{
    g_autofree char *text = NULL;

    switch (format) {
    case VG_OUTPUT_JSON:
        text = vg_json_to_text(doc, true);
        break;
    case VG_OUTPUT_YAML:
        text = vg_yaml_to_text(doc, err);
        if (!text)
            return -1;
        break;
    case VG_OUTPUT_CSV:
        text = n_tables > 0 ? csv_text(&tables[0], err) : g_strdup("");
        if (!text)
            return -1;
        break;
    case VG_OUTPUT_NAME:
        text = n_tables > 0 ? name_text(&tables[0]) : g_strdup("");
        break;
    case VG_OUTPUT_TABLE:
    case VG_OUTPUT_WIDE:
    case VG_OUTPUT_MAX:
        if (print_tables(tables, n_tables, format == VG_OUTPUT_WIDE, err) < 0)
            return -1;
        text = g_strdup("");
        break;
    }
    return vg_cli_print(text, err);
}
