/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/conf.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/conf-text.h"
#include "base/error.h"

/* A parsed value before it is stored in the struct. */
struct value {
    bool set;
    double number;   /* DOUBLE */
    int64_t integer; /* INT, DURATION (ns), ENUM, BOOL */
    char *string;    /* STRING, owned */
};

static const struct {
    const char *name;
    int64_t ns;
} units[] = {
    {"d", 86400 * INT64_C(1000000000)},
    {"h", 3600 * INT64_C(1000000000)},
    {"min", 60 * INT64_C(1000000000)},
    {"s", INT64_C(1000000000)},
    {"ms", 1000000},
    {"us", 1000},
    {"ns", 1},
};

static int
bad_value(const struct vg_conf_key *key, const char *text, const char *want, GError **err)
{
    return vg_error(err, VG_E_INVALID, "[%s] %s: '%s' is not %s", key->group, key->name, text,
                    want);
}

static char *
range_text(const struct vg_conf_key *key)
{
    g_autofree char *min = conf_limit_text(key->min);
    g_autofree char *max = conf_limit_text(key->max);
    const char *unit = vg_conf_key_type(key) == VG_CONF_DURATION ? "s" : "";
    const char *what = vg_conf_key_type(key) == VG_CONF_STRING  ? " bytes"
                       : vg_conf_key_type(key) == VG_CONF_COUNT ? " or a share such as 10%"
                                                                : "";
    return g_strdup_printf("%s%s to %s%s%s", min, unit, max, unit, what);
}

static int
check_range(const struct vg_conf_key *key, const char *text, double number, GError **err)
{
    if (number >= key->min && number <= key->max)
        return 0;
    g_autofree char *range = range_text(key);
    return vg_error(err, VG_E_INVALID, "[%s] %s: '%s' is out of range (%s)", key->group, key->name,
                    text, range);
}

static int
parse_double(const struct vg_conf_key *key, const char *text, struct value *value, GError **err)
{
    char *end = NULL;
    double number = g_ascii_strtod(text, &end);
    if (end == text || *end || !isfinite(number))
        return bad_value(key, text, "a number", err);
    if (check_range(key, text, number, err) < 0)
        return -1;
    value->number = number;
    return 0;
}

static int
parse_int(const struct vg_conf_key *key, const char *text, struct value *value, GError **err)
{
    char *end = NULL;
    errno = 0;
    int64_t number = g_ascii_strtoll(text, &end, 10);
    if (end == text || *end)
        return bad_value(key, text, "a whole number", err);
    if (errno == ERANGE)
        return check_range(key, text, number < 0 ? -HUGE_VAL : HUGE_VAL, err);
    if (check_range(key, text, (double)number, err) < 0)
        return -1;
    value->integer = number;
    return 0;
}

/* Parses a whole number or a share. A share is stored as negative hundredths of a percent. */
static int
parse_count(const struct vg_conf_key *key, const char *text, struct value *value, GError **err)
{
    char *end = NULL;
    const double percent = g_ascii_strtod(text, &end);
    if (end == text || strcmp(end, "%") != 0)
        return parse_int(key, text, value, err);
    if (!(percent >= 0.01 && percent <= 100))
        return bad_value(key, text, "a whole number or 0.01% to 100%", err);
    value->integer = -llround(percent * 100);
    return 0;
}

static int
parse_bool(const struct vg_conf_key *key, const char *text, struct value *value, GError **err)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};

    for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
        if (g_ascii_strcasecmp(text, words[i]) == 0) {
            value->integer = i & 1;
            return 0;
        }
    }
    return bad_value(key, text, "true or false", err);
}

static int
parse_duration(const struct vg_conf_key *key, const char *text, struct value *value, GError **err)
{
    static const char want[] = "a duration like 30s, 500ms, 10min or 2h";
    char *end = NULL;
    double number = g_ascii_strtod(text, &end);
    if (end == text || !isfinite(number))
        return bad_value(key, text, want, err);
    while (g_ascii_isspace(*end))
        end++;
    int64_t unit_ns = *end ? 0 : INT64_C(1000000000);
    for (size_t i = 0; i < G_N_ELEMENTS(units); i++) {
        if (strcmp(end, units[i].name) == 0)
            unit_ns = units[i].ns;
    }
    if (unit_ns == 0)
        return bad_value(key, text, want, err);
    double ns = number * (double)unit_ns;
    if (check_range(key, text, ns / 1e9, err) < 0)
        return -1;
    value->integer = (int64_t)llround(ns);
    return 0;
}

static int
parse_enum(const struct vg_conf_key *key, const char *text, struct value *value, GError **err)
{
    for (int i = 0; key->values[i]; i++) {
        if (strcmp(text, key->values[i]) == 0) {
            value->integer = i;
            return 0;
        }
    }
    g_autofree char *list = g_strjoinv(", ", (char **)key->values);
    g_autofree char *want = g_strdup_printf("one of: %s", list);
    return bad_value(key, text, want, err);
}

static int
parse_value(const struct vg_conf_key *key, const char *text, struct value *value, GError **err)
{
    switch (vg_conf_key_type(key)) {
    case VG_CONF_DOUBLE:
        return parse_double(key, text, value, err);
    case VG_CONF_INT:
        return parse_int(key, text, value, err);
    case VG_CONF_COUNT:
        return parse_count(key, text, value, err);
    case VG_CONF_BOOL:
        return parse_bool(key, text, value, err);
    case VG_CONF_DURATION:
        return parse_duration(key, text, value, err);
    case VG_CONF_ENUM:
        return parse_enum(key, text, value, err);
    case VG_CONF_STRING:
        if (check_range(key, text, (double)strlen(text), err) < 0)
            return -1;
        value->string = g_strdup(text);
        return 0;
    case VG_CONF_TYPE_MAX:
        break;
    }
    return vg_error(err, VG_E_BUG, "[%s] %s: key type %d", key->group, key->name,
                    (int)vg_conf_key_type(key));
}

/* Moves a string into the struct. The caller has freed the old one. */
static void
store_value(const struct vg_conf_key *key, struct value *value, void *conf)
{
    char *member = (char *)conf + key->offset;

    switch (vg_conf_key_type(key)) {
    case VG_CONF_DOUBLE:
        memcpy(member, &value->number, sizeof(value->number));
        break;
    case VG_CONF_INT:
    case VG_CONF_COUNT:
    case VG_CONF_DURATION:
        memcpy(member, &value->integer, sizeof(value->integer));
        break;
    case VG_CONF_BOOL:
        *(bool *)member = value->integer != 0;
        break;
    case VG_CONF_ENUM: {
        int index = (int)value->integer;
        memcpy(member, &index, sizeof(index));
        break;
    }
    case VG_CONF_STRING:
        memcpy(member, &value->string, sizeof(value->string));
        value->string = NULL;
        break;
    case VG_CONF_TYPE_MAX:
        break;
    }
}

static void
clear_key(const struct vg_conf_key *key, void *conf)
{
    if (vg_conf_key_type(key) != VG_CONF_STRING)
        return;
    char *string = NULL;
    memcpy(&string, (char *)conf + key->offset, sizeof(string));
    g_free(string);
    string = NULL;
    memcpy((char *)conf + key->offset, &string, sizeof(string));
}

void
vg_conf_defaults(const struct vg_conf_key *keys, size_t n_keys, void *conf)
{
    for (size_t i = 0; i < n_keys; i++) {
        struct value value = {0};
        g_autoptr(GError) err = NULL;
        if (parse_value(&keys[i], keys[i].fallback, &value, &err) < 0)
            vg_bug("default of a configuration key: %s", err->message);
        store_value(&keys[i], &value, conf);
    }
}

/* Returns the index of a key in keys, or n_keys. */
static size_t
find_key(const struct vg_conf_key *keys, size_t n_keys, const char *group, const char *name)
{
    size_t i = 0;
    while (i < n_keys && (strcmp(keys[i].group, group) != 0 || strcmp(keys[i].name, name) != 0))
        i++;
    return i;
}

static bool
known_group(const struct vg_conf_key *keys, size_t n_keys, const char *group)
{
    for (size_t i = 0; i < n_keys; i++) {
        if (strcmp(keys[i].group, group) == 0)
            return true;
    }
    return false;
}

/* The text that is being read. */
struct reading {
    const struct vg_conf_schema *schema;
    void *conf;
    const char *file; /* or NULL */
    struct value *values;
    struct vg_conf_place *places;    /* or NULL */
    char *group;                     /* NULL: none yet, or an unknown one */
    const struct vg_conf_list *list; /* the list that the group is an element of, or NULL */
    void *element;
    bool in_group;
    unsigned line;
    GString *errors; /* one on each line */
    unsigned n_errors;
};

static void conf_complain(struct reading *reading, const char *format, ...) G_GNUC_PRINTF(2, 3);

static void
conf_complain(struct reading *reading, const char *format, ...)
{
    va_list args;
    size_t start;

    if (reading->n_errors++ >= VG_CONF_ERRORS_MAX)
        return;
    if (reading->n_errors > 1)
        g_string_append_c(reading->errors, '\n');
    start = reading->errors->len;
    if (reading->file)
        g_string_append_printf(reading->errors, "%s:%u: ", reading->file, reading->line);
    else
        g_string_append_printf(reading->errors, "line %u: ", reading->line);
    va_start(args, format);
    g_string_append_vprintf(reading->errors, format, args);
    va_end(args);
    /* Quoted text must not be able to start a new line. */
    g_strdelimit(reading->errors->str + start, "\n", '?');
}

/* Replaces the escapes \s, \n, \t, \r and \\ of a value. Returns NULL if there are others. */
static char *
conf_unescape(const char *text)
{
    static const char letters[] = "sntr\\", meanings[] = " \n\t\r\\";
    GString *value = g_string_new(NULL);

    for (; *text; text++) {
        const char *letter = NULL;
        if (*text == '\\') {
            text++;
            letter = *text ? strchr(letters, *text) : NULL;
            if (!letter) {
                g_string_free(value, TRUE);
                return NULL;
            }
        }
        g_string_append_c(value, letter ? meanings[letter - letters] : *text);
    }
    return g_string_free(value, FALSE);
}

/* Sets a key of an element. This takes effect immediately, not at the end of the text. */
static void
conf_set_element(const struct reading *reading, size_t at, struct value *value)
{
    clear_key(&reading->list->keys[at], reading->element);
    store_value(&reading->list->keys[at], value, reading->element);
}

/* Reads a value below a known group. */
static void
conf_read_value(struct reading *reading, char *name, const char *text)
{
    const struct vg_conf_list *list = reading->list;
    const struct vg_conf_key *keys = list ? list->keys : reading->schema->keys;
    size_t n_keys = list ? list->n_keys : reading->schema->n_keys;
    size_t at =
        find_key(keys, n_keys, list ? list->kind : reading->group, g_strdelimit(name, "-", '_'));
    g_autoptr(GError) bad = NULL;

    if (at == n_keys) {
        conf_complain(reading, "unknown key '%s' in [%s]", name, reading->group);
        return;
    }
    struct value value = {.set = true};
    g_autofree char *plain = conf_unescape(text);
    if (!plain)
        conf_complain(reading,
                      "[%s] %s: '%s' has an unknown escape sequence; valid are \\s, \\n"
                      ", \\t, \\r and \\\\",
                      reading->group, name, text);
    else if (parse_value(&keys[at], g_strchomp(plain), &value, &bad) < 0)
        conf_complain(reading, "%s", bad->message);
    if (list) {
        if (plain && !bad)
            conf_set_element(reading, at, &value);
        return;
    }
    if (reading->places) {
        g_free(reading->places[at].file);
        reading->places[at] =
            (struct vg_conf_place){g_strdup(reading->file), reading->line, !plain || bad};
    }
    if (!plain || bad)
        return;
    g_free(reading->values[at].string);
    reading->values[at] = value;
}

/* ---- lists ---- */

static GPtrArray *
conf_list_elements(const struct vg_conf_list *list, const void *conf)
{
    GPtrArray *elements;

    memcpy(&elements, (const char *)conf + list->offset, sizeof(elements));
    return elements;
}

static bool
conf_item_name_is_good(const char *name)
{
    size_t length = strlen(name);

    return length > 0 && length <= VG_CONF_ITEM_NAME_MAX &&
           strspn(name, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "._-") == length;
}

/* Finds or adds an element. Returns NULL if there are too many. */
static void *
conf_list_element(const struct vg_conf_list *list, const struct reading *reading, const char *name)
{
    GPtrArray *elements = conf_list_elements(list, reading->conf);

    for (guint i = 0; i < elements->len; i++) {
        if (strcmp(((const struct vg_conf_item *)elements->pdata[i])->name, name) == 0)
            return elements->pdata[i];
    }
    if (elements->len >= list->max)
        return NULL;
    struct vg_conf_item *item = g_malloc0(list->size);
    *item = (struct vg_conf_item){g_strdup(name), g_strdup(reading->file), reading->line};
    vg_conf_defaults(list->keys, list->n_keys, item);
    g_ptr_array_add(elements, item);
    return item;
}

/* Reads a group such as "peer a" as an element of a list, and reports it if it cannot be one. */
static bool
conf_read_item(struct reading *reading, const char *group)
{
    const struct vg_conf_schema *schema = reading->schema;

    for (size_t i = 0; i < schema->n_lists; i++) {
        const struct vg_conf_list *list = &schema->lists[i];
        size_t length = strlen(list->kind);
        if (strncmp(group, list->kind, length) != 0 || (group[length] && group[length] != ' '))
            continue;
        g_autofree char *name = g_strstrip(g_strdup(group + length));
        if (!conf_item_name_is_good(name)) {
            conf_complain(reading,
                          "[%s] needs a name, like [%s a], of 1 to %d letters, digits, '.', '-' "
                          "and '_'",
                          group, list->kind, VG_CONF_ITEM_NAME_MAX);
            return true;
        }
        reading->element = conf_list_element(list, reading, name);
        if (!reading->element) {
            conf_complain(reading, "there are more than %zu groups [%s ...]", list->max,
                          list->kind);
            return true;
        }
        reading->list = list;
        reading->group = g_strdup(group);
        return true;
    }
    return false;
}

void
vg_conf_lists_init(const struct vg_conf_list *lists, size_t n_lists, void *conf)
{
    for (size_t i = 0; i < n_lists; i++) {
        GPtrArray *elements = g_ptr_array_new();
        memcpy((char *)conf + lists[i].offset, &elements, sizeof(elements));
    }
}

void
vg_conf_lists_clear(const struct vg_conf_list *lists, size_t n_lists, void *conf)
{
    for (size_t i = 0; i < n_lists; i++) {
        GPtrArray *elements = conf_list_elements(&lists[i], conf);
        for (guint k = 0; k < elements->len; k++) {
            struct vg_conf_item *item = elements->pdata[k];
            vg_conf_clear(lists[i].keys, lists[i].n_keys, item);
            g_free(item->name);
            g_free(item->file);
            g_free(item);
        }
        g_ptr_array_unref(elements);
    }
}

char *
vg_conf_lists_dump(const struct vg_conf_list *lists, size_t n_lists, const void *conf)
{
    GString *out = g_string_new(NULL);

    for (size_t i = 0; i < n_lists; i++) {
        const GPtrArray *elements = conf_list_elements(&lists[i], conf);
        for (guint k = 0; k < elements->len; k++) {
            const struct vg_conf_item *item = elements->pdata[k];
            g_autofree char *group = g_strdup_printf("%s %s", lists[i].kind, item->name);
            g_autofree struct vg_conf_key *keys =
                g_memdup2(lists[i].keys, lists[i].n_keys * sizeof(*keys));
            for (size_t j = 0; j < lists[i].n_keys; j++)
                keys[j].group = group;
            g_autofree char *text = vg_conf_dump(keys, lists[i].n_keys, item);
            g_string_append_printf(out, "\n%s", text);
        }
    }
    return g_string_free(out, FALSE);
}

/* ---- the text ---- */

static void
conf_read_line(struct reading *reading, char *line)
{
    char *equals;
    size_t length;

    g_strstrip(line);
    length = strlen(line);
    reading->line++;
    if (length == 0 || line[0] == '#')
        return;
    if (line[0] == '[' && line[length - 1] == ']' && length > 2) {
        line[length - 1] = '\0';
        g_clear_pointer(&reading->group, g_free);
        reading->in_group = true;
        reading->list = NULL;
        if (known_group(reading->schema->keys, reading->schema->n_keys, line + 1))
            reading->group = g_strdup(line + 1);
        else if (!conf_read_item(reading, line + 1))
            conf_complain(reading, "unknown group [%s]", line + 1);
        return;
    }
    equals = strchr(line, '=');
    if (!equals || equals == line) {
        conf_complain(reading, "'%s' is not a key-value pair, a group or a comment", line);
        return;
    }
    if (!reading->in_group)
        conf_complain(reading, "the file does not start with a group");
    reading->in_group = true;
    *equals = '\0';
    if (reading->group)
        conf_read_value(reading, g_strchomp(line), g_strchug(equals + 1));
}

/* Checks the text as a whole. */
static int
conf_check_text(const char *file, const char *text, size_t size, GError **err)
{
    const char *end = file ? ": " : "";

    file = file ? file : "";
    if (size > VG_CONF_TEXT_MAX)
        return vg_error(err, VG_E_INVALID, "%s%sthe configuration has %zu bytes, more than %d",
                        file, end, size, VG_CONF_TEXT_MAX);
    if (!g_utf8_validate_len(text, size, NULL))
        return vg_error(err, VG_E_INVALID, "%s%sthe configuration is not UTF-8 text", file, end);
    return 0;
}

static int
conf_fail(const struct reading *reading, GError **err)
{
    if (reading->n_errors > VG_CONF_ERRORS_MAX)
        g_string_append_printf(reading->errors, "\n... and %u more",
                               reading->n_errors - VG_CONF_ERRORS_MAX);
    return vg_error(err, VG_E_INVALID, "%s", reading->errors->str);
}

static int
conf_read(const struct vg_conf_schema *schema, const char *file, const char *text, size_t size,
          void *conf, struct vg_conf_place *places, bool take_good, GError **err)
{
    const struct vg_conf_key *keys = schema->keys;
    const size_t n_keys = schema->n_keys;

    if (conf_check_text(file, text, size, err) < 0)
        return -1;
    g_autofree struct value *values = g_new0(struct value, n_keys);
    g_autoptr(GString) errors = g_string_new(NULL);
    g_autofree char *copy = g_strndup(text, size);
    struct reading reading = {.schema = schema,
                              .conf = conf,
                              .file = file,
                              .values = values,
                              .places = places,
                              .errors = errors};

    for (char *line = copy, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        conf_read_line(&reading, line);
    }
    g_free(reading.group);
    for (size_t i = 0; i < n_keys; i++) {
        if (values[i].set && (take_good || reading.n_errors == 0)) {
            clear_key(&keys[i], conf);
            store_value(&keys[i], &values[i], conf);
        }
        g_free(values[i].string);
    }
    return reading.n_errors > 0 ? conf_fail(&reading, err) : 0;
}

int
vg_conf_parse(const struct vg_conf_key *keys, size_t n_keys, const char *file, const char *text,
              size_t size, void *conf, GError **err)
{
    const struct vg_conf_schema schema = {.keys = keys, .n_keys = n_keys};

    return conf_read(&schema, file, text, size, conf, NULL, false, err);
}

int
vg_conf_parse_some(const struct vg_conf_schema *schema, const char *file, const char *text,
                   size_t size, void *conf, struct vg_conf_place *places, GError **err)
{
    return conf_read(schema, file, text, size, conf, places, true, err);
}

static char *
duration_text(int64_t ns)
{
    size_t i = 0;
    while (i < G_N_ELEMENTS(units) - 1 && (ns == 0 || ns % units[i].ns != 0))
        i++;
    if (ns == 0)
        return g_strdup("0s");
    return g_strdup_printf("%" G_GINT64_FORMAT "%s", ns / units[i].ns, units[i].name);
}

/* Formats a value for the file. The caller's key file escapes strings. */
static void
dump_value(const struct vg_conf_key *key, const void *conf, GKeyFile *file)
{
    const char *member = (const char *)conf + key->offset;
    g_autofree char *text = NULL;
    int64_t integer = 0;

    switch (vg_conf_key_type(key)) {
    case VG_CONF_DOUBLE: {
        double number = 0;
        memcpy(&number, member, sizeof(number));
        text = conf_number_text(number);
        break;
    }
    case VG_CONF_INT:
        memcpy(&integer, member, sizeof(integer));
        text = g_strdup_printf("%" G_GINT64_FORMAT, integer);
        break;
    case VG_CONF_COUNT:
        memcpy(&integer, member, sizeof(integer));
        text = conf_count_text(integer);
        break;
    case VG_CONF_DURATION:
        memcpy(&integer, member, sizeof(integer));
        text = duration_text(integer);
        break;
    case VG_CONF_BOOL:
        text = g_strdup(*(const bool *)member ? "true" : "false");
        break;
    case VG_CONF_ENUM: {
        int index = 0;
        memcpy(&index, member, sizeof(index));
        text = g_strdup(key->values[index]);
        break;
    }
    case VG_CONF_STRING: {
        char *string = NULL;
        memcpy(&string, member, sizeof(string));
        text = g_strdup(string);
        break;
    }
    case VG_CONF_TYPE_MAX:
        break;
    }
    g_key_file_set_string(file, key->group, key->name, text);
}

/* Formats " Help. Range 0 to 1, default 0.3." GKeyFile puts a '#' before every line. */
static char *
help_text(const struct vg_conf_key *key)
{
    const bool at_start = key->type & VG_CONF_START;
    g_autofree char *help = g_strdup_printf("%.*s%s", (int)strlen(key->help) - 1, key->help,
                                            at_start ? " (at start)." : ".");

    if (vg_conf_key_type(key) == VG_CONF_BOOL)
        return g_strdup_printf(" %s Default %s.", help, key->fallback);
    if (vg_conf_key_type(key) == VG_CONF_ENUM) {
        g_autofree char *list = g_strjoinv(", ", (char **)key->values);
        return g_strdup_printf(" %s One of: %s; default %s.", help, list, key->fallback);
    }
    g_autofree char *range = range_text(key);
    return g_strdup_printf(" %s Range %s, default %s.", help, range,
                           *key->fallback ? key->fallback : "empty");
}

char *
vg_conf_dump(const struct vg_conf_key *keys, size_t n_keys, const void *conf)
{
    g_autoptr(GKeyFile) file = g_key_file_new();
    for (size_t i = 0; i < n_keys; i++) {
        dump_value(&keys[i], conf, file);
        g_autofree char *help = help_text(&keys[i]);
        g_key_file_set_comment(file, keys[i].group, keys[i].name, help, NULL);
    }
    return g_key_file_to_data(file, NULL, NULL);
}

void
vg_conf_clear(const struct vg_conf_key *keys, size_t n_keys, void *conf)
{
    for (size_t i = 0; i < n_keys; i++)
        clear_key(&keys[i], conf);
}
