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
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/fold.h"
#include "cli/output-known.h"
#include "cli/output-yaml.h"

/* The minimum width of lines that are composed by vgpuctl. */
#define WRAP_MIN 20

/* The minimum width of a text column on the narrowest terminal. */
#define LEVEL_MIN 6

static const char *const format_names[VG_OUTPUT_MAX] = {"table", "wide", "name",
                                                        "json",  "yaml", "csv"};

/* The user's choices. */
static struct {
    const char *columns; /* NULL for all */
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
                    "unknown output format '%s'; use table, wide, name, json, yaml or csv", name);
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

/* Returns the value as in CSV. The caller frees it. */
static char *
raw_text(json_object *value)
{
    if (!value)
        return g_strdup("");
    if (json_object_is_type(value, json_type_array))
        return list_text(value);
    return g_strdup(json_object_get_string(value));
}

/* Returns the text in printable form, but retains line ends. The caller frees it. */
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

/* Returns "2026-11-25 12:00:00" for "2026-11-25T12:00:00Z". The caller frees it. */
static char *
time_text(const char *text)
{
    char *shown = vg_printable_text(text);

    if (g_str_has_suffix(shown, "Z"))
        shown[strlen(shown) - 1] = '\0';
    return g_strdelimit(shown, "T", ' ');
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
    case VG_CELL_NAME:
    case VG_CELL_FOLD:
    case VG_CELL_TIME:
    case VG_CELL_COUNT:
    case VG_CELL_LIST:
    case VG_CELL_BOUNDS:
        break;
    }
    g_autofree char *text = raw_text(value);
    if (cell == VG_CELL_TIME)
        return time_text(text);
    return cell == VG_CELL_FOLD ? lines_text(text) : vg_printable_text(text);
}

/* ---- columns ---- */

/* Headings of earlier versions, and those that replace them. */
static const char *const output_renamed[][2] = {
    {"STOOD STILL", "PAUSED"},
    {"TOLD", "NOTIFIED"},
    {"KEPT HERE", "PINNED HERE"},
    {"GIVEN TO", "ASSIGNED TO"},
};

static bool
output_column_is(const struct vg_column *column, const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(output_renamed); i++) {
        if (g_ascii_strcasecmp(output_renamed[i][0], name) == 0 &&
            strcmp(output_renamed[i][1], column->header) == 0)
            return true;
    }
    return g_ascii_strcasecmp(column->header, name) == 0 ||
           g_ascii_strcasecmp(column->member, name) == 0;
}

static int
output_refuse_column(const struct vg_table *table, const char *name, GError **err)
{
    g_autoptr(GString) names = g_string_new(NULL);

    for (size_t i = 0; i < table->n_columns; i++)
        g_string_append_printf(names, "%s%s", i > 0 ? ", " : "", table->columns[i].header);
    return vg_error(err, VG_E_INVALID, "unknown column '%s'; the columns are: %s", name,
                    names->str);
}

/* Adds the chosen columns in the given order. */
static int
output_choose_columns(const struct vg_table *table, GPtrArray *columns, GError **err)
{
    g_auto(GStrv) names = g_strsplit(style.columns, ",", 0);

    if (!names[0])
        return output_refuse_column(table, "", err);
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

/* Returns struct vg_column, borrowed, or NULL and *err if a chosen column does not exist. */
static GPtrArray *
output_columns(const struct vg_table *table, bool first, bool wide, bool csv, GError **err)
{
    g_autoptr(GPtrArray) columns = g_ptr_array_new();

    if (first && style.columns)
        return output_choose_columns(table, columns, err) < 0 ? NULL : g_steal_pointer(&columns);
    for (size_t i = 0; i < table->n_columns; i++) {
        if (table->columns[i].cell == VG_CELL_BOUNDS ? csv : wide || !table->columns[i].wide)
            g_ptr_array_add(columns, (void *)&table->columns[i]);
    }
    return g_steal_pointer(&columns);
}

/* ---- tables ---- */

/* Returns the display name for a name member, or NULL. It is borrowed. */
static json_object *
output_label(json_object *row, const char *member)
{
    g_autofree char *path =
        strcmp(member, "name") == 0 || g_str_has_suffix(member, ".name")
            ? g_strdup_printf("%.*slabel", (int)(strlen(member) - strlen("name")), member)
            : g_strconcat(member, "_label", NULL);

    return vg_output_member(row, path);
}

/* Returns whether the user chose a column by its member name, and therefore wants the raw value. */
static bool
output_is_chosen_raw(const struct vg_column *column)
{
    g_auto(GStrv) names = g_strsplit(style.columns ? style.columns : "", ",", 0);

    for (char **name = names; *name; name++) {
        if (g_ascii_strcasecmp(g_strstrip(*name), column->member) == 0)
            return true;
    }
    return false;
}

static void
add_row(struct libscols_table *out, const GPtrArray *columns, bool wide, json_object *row)
{
    struct libscols_line *line = scols_table_new_line(out, NULL);

    for (guint i = 0; i < columns->len; i++) {
        const struct vg_column *column = columns->pdata[i];
        json_object *label = column->cell == VG_CELL_NAME && !wide && !output_is_chosen_raw(column)
                                 ? output_label(row, column->member)
                                 : NULL;
        json_object *value = label ? label : vg_output_known(row, column->member);
        g_autofree char *text = cell_text(value, column->cell);
        const bool is_bound = value && vg_output_is_bound(row, column->member);
        g_autofree char *bound = is_bound ? g_strconcat(">=", text, NULL) : NULL;
        scols_line_set_data(line, i, bound ? bound : text);
    }
}

static int
cell_flags(enum vg_cell cell)
{
    const bool is_text = cell == VG_CELL_TEXT || cell == VG_CELL_NAME || cell == VG_CELL_FOLD ||
                         cell == VG_CELL_TIME || cell == VG_CELL_LIST;

    return is_text ? 0 : SCOLS_FL_RIGHT;
}

static const char *
cell_data(struct libscols_table *out, size_t line, size_t column)
{
    return scols_cell_get_data(scols_line_get_cell(scols_table_get_line(out, line), column));
}

/* Returns the longest line of a cell, except commands, which are never folded. */
static size_t
output_cell_width(const char *text)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    size_t most = 0;

    for (char **line = lines; *line; line++) {
        if (!g_str_has_prefix(*line, VG_OUTPUT_COMMAND))
            most = MAX(most, vg_fold_columns(*line));
    }
    return most;
}

/* Folds a cell to a width, on a terminal also within words. The caller frees it. */
static char *
output_fold_cell(const char *cell, size_t width)
{
    const bool screen = vg_fold_terminal() > 0;
    g_auto(GStrv) lines = g_strsplit(cell, "\n", -1);
    GString *text = g_string_new(NULL);

    for (char **line = lines; *line; line++) {
        const size_t room = g_str_has_prefix(*line, VG_OUTPUT_COMMAND) ? 0 : width;
        if (line > lines)
            g_string_append_c(text, '\n');
        if (screen)
            vg_fold_append(text, *line, 0, room);
        else
            vg_fold_append_words(text, *line, 0, room);
    }
    return g_string_free(text, FALSE);
}

/* Returns the width of a table column after folding it to a width. */
static size_t
output_width(struct libscols_table *out, size_t at, size_t width)
{
    struct libscols_cell *heading = scols_column_get_header(scols_table_get_column(out, at));
    size_t most = vg_fold_columns(scols_cell_get_data(heading));

    for (size_t k = 0; k < scols_table_get_nlines(out); k++) {
        g_autofree char *folded = output_fold_cell(cell_data(out, k, at), width);
        most = MAX(most, output_cell_width(folded));
    }
    return most;
}

static void
output_fold(struct libscols_table *out, size_t at, size_t width)
{
    struct libscols_column *column = scols_table_get_column(out, at);

    scols_column_set_flags(column, scols_column_get_flags(column) | SCOLS_FL_WRAP);
    scols_column_set_safechars(column, "\n");
    scols_column_set_wrapfunc(column, scols_wrapnl_chunksize, scols_wrapnl_nextchunk, NULL);
    for (size_t k = 0; k < scols_table_get_nlines(out); k++) {
        g_autofree char *folded = output_fold_cell(cell_data(out, k, at), width);
        scols_line_set_data(scols_table_get_line(out, k), at, folded);
    }
}

/* A column whose width is being fitted. */
struct output_fit {
    size_t header;
    size_t wanted;
    bool rigid; /* numbers are never folded */
    bool lines; /* the column may always have several lines */
};

static size_t
output_fit_width(const struct output_fit *fit, size_t level)
{
    return fit->rigid ? fit->wanted : MIN(fit->wanted, MAX(level, fit->header));
}

/* Returns the width to which the widest columns must shrink so that all columns fit. */
static size_t
output_level(const struct output_fit *fits, size_t n, size_t width)
{
    for (size_t level = width; level > LEVEL_MIN; level--) {
        size_t sum = n - 1;
        for (size_t i = 0; i < n; i++)
            sum += output_fit_width(&fits[i], level);
        if (sum <= width)
            return level;
    }
    return LEVEL_MIN;
}

/* Folds text columns so that lines fit into the terminal's `width` columns. Space that remains
 * because words break early goes to columns that need it. */
static void
output_fit_all(struct libscols_table *out, const GPtrArray *columns, size_t width)
{
    const size_t n = columns->len;
    g_autofree struct output_fit *fits = g_new0(struct output_fit, n);

    for (size_t i = 0; i < n; i++) {
        const struct vg_column *column = columns->pdata[i];
        fits[i] = (struct output_fit){
            .header = vg_fold_columns(column->header),
            .wanted = output_width(out, i, 0),
            .rigid = (cell_flags(column->cell) & SCOLS_FL_RIGHT) != 0,
            .lines = column->cell == VG_CELL_FOLD,
        };
    }
    size_t level = output_level(fits, n, width);
    for (size_t i = 0; i < n; i++) {
        const size_t most = output_fit_width(&fits[i], level);
        const size_t used = most < fits[i].wanted ? output_width(out, i, most) : most;
        fits[i].lines = fits[i].lines || most < fits[i].wanted;
        if (used < most)
            fits[i].wanted = used;
    }
    level = output_level(fits, n, width);
    for (size_t i = 0; i < n; i++) {
        if (fits[i].lines)
            output_fold(out, i, output_fit_width(&fits[i], level));
    }
}

/* Folds composed lines, even if the output is not a terminal. */
static void
output_fold_made(struct libscols_table *out, const GPtrArray *columns)
{
    const size_t width = scols_table_get_termwidth(out);

    for (guint at = 0; at < columns->len; at++) {
        size_t others = 0;
        if (((const struct vg_column *)columns->pdata[at])->cell != VG_CELL_FOLD)
            continue;
        for (guint i = 0; i < columns->len; i++)
            others += i == at ? 0 : output_width(out, i, 0) + 1;
        output_fold(out, at, width > others + WRAP_MIN ? width - others : WRAP_MIN);
    }
}

static int
output_draw(const struct vg_table *table, const GPtrArray *columns, bool wide, GError **err)
{
    struct libscols_table *out = scols_new_table();

    if (!out)
        return vg_error(err, VG_E_EXTERNAL, "cannot create a table");
    scols_table_enable_noheadings(out, style.no_headers);
    for (guint i = 0; i < columns->len; i++) {
        const struct vg_column *column = columns->pdata[i];
        scols_table_new_column(out, column->header, 0, cell_flags(column->cell));
    }
    for (size_t i = 0; i < json_object_array_length(table->rows); i++)
        add_row(out, columns, wide, json_object_array_get_idx(table->rows, i));
    if (vg_fold_terminal() > 0 && !wide)
        output_fit_all(out, columns, vg_fold_terminal());
    else
        output_fold_made(out, columns);
    int status = scols_print_table(out);
    scols_unref_table(out);
    return status == 0 ? 0 : vg_error_errno(err, -status, "cannot print a table");
}

static void
print_line(const char *line)
{
    g_autoptr(GString) text = g_string_new(NULL);

    vg_fold_append(text, line, 0, vg_fold_terminal());
    puts(text->str);
}

static int
print_table(const struct vg_table *table, bool first, bool wide, GError **err)
{
    g_autoptr(GPtrArray) columns = output_columns(table, first, wide, false, err);
    size_t n_rows = vg_output_length(table->rows);

    if (!columns)
        return -1;
    if (table->title && !style.no_headers && (n_rows > 0 || table->when_empty))
        print_line(table->title);
    if (n_rows > 0)
        return output_draw(table, columns, wide, err);
    if (table->when_empty && !style.no_headers)
        print_line(table->when_empty);
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

/* Appends a CSV cell, quoted if necessary, with doubled quotes (RFC 4180). */
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

/* Returns whether a spreadsheet would interpret the text of a cell as a formula. Numbers start with
 * the same characters, but are not formulas. */
static bool
csv_is_formula(json_object *value, const char *raw)
{
    char *end;

    if (!json_object_is_type(value, json_type_string) &&
        !json_object_is_type(value, json_type_array))
        return false;
    if (!*raw || !strchr("=+-@\t\r", *raw))
        return false;
    g_ascii_strtod(raw, &end);
    return *end != '\0' || end == raw;
}

/* Returns NULL and *err if a chosen column does not exist. */
static char *
csv_text(const struct vg_table *table, GError **err)
{
    g_autoptr(GPtrArray) columns = output_columns(table, true, true, true, err);

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
            json_object *value = vg_output_known(row, column->member);
            g_autofree char *raw = raw_text(value);
            /* CSV is often shown in a terminal, or opened in a program that reads one line as one
             * row. */
            g_autofree char *shown = vg_printable_text(raw);
            g_autofree char *cell = g_strconcat(csv_is_formula(value, raw) ? "'" : "", shown, NULL);
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
