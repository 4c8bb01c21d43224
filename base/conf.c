/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/conf.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/error.h"

/* A parsed value on its way into the struct. */
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

/* Short decimal text that reads back as the same double, whatever the locale. */
static char *
number_text(double number)
{
    char buf[G_ASCII_DTOSTR_BUF_SIZE];
    for (int digits = 6; digits < 17; digits++) {
        char format[8];
        g_snprintf(format, sizeof(format), "%%.%dg", digits);
        g_ascii_formatd(buf, sizeof(buf), format, number);
        if (!(g_ascii_strtod(buf, NULL) < number) && !(g_ascii_strtod(buf, NULL) > number))
            return g_strdup(buf);
    }
    return g_strdup(g_ascii_dtostr(buf, sizeof(buf), number));
}

/* Whole numbers in full: 134217728 rather than 1.34217728e+08. */
static char *
limit_text(double limit)
{
    if (fabs(limit) < 9e15 && !(limit < trunc(limit)) && !(limit > trunc(limit)))
        return g_strdup_printf("%" G_GINT64_FORMAT, (int64_t)limit);
    return number_text(limit);
}

static char *
range_text(const struct vg_conf_key *key)
{
    g_autofree char *min = limit_text(key->min);
    g_autofree char *max = limit_text(key->max);
    const char *unit = key->type == VG_CONF_DURATION ? "s" : "";
    return g_strdup_printf("%s%s to %s%s%s", min, unit, max, unit,
                           key->type == VG_CONF_STRING ? " bytes" : "");
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
    switch (key->type) {
    case VG_CONF_DOUBLE:
        return parse_double(key, text, value, err);
    case VG_CONF_INT:
        return parse_int(key, text, value, err);
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
    return vg_error(err, VG_E_BUG, "[%s] %s: key type %d", key->group, key->name, (int)key->type);
}

/* Hands a string over to the struct, whose old one the caller has freed. */
static void
store_value(const struct vg_conf_key *key, struct value *value, void *conf)
{
    char *member = (char *)conf + key->offset;

    switch (key->type) {
    case VG_CONF_DOUBLE:
        memcpy(member, &value->number, sizeof(value->number));
        break;
    case VG_CONF_INT:
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
    if (key->type != VG_CONF_STRING)
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

/* Index into keys, or n_keys. */
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

static int
parse_group(const struct vg_conf_key *keys, size_t n_keys, GKeyFile *file, const char *group,
            struct value *values, GError **err)
{
    if (!known_group(keys, n_keys, group))
        return vg_error(err, VG_E_INVALID, "unknown group [%s]", group);

    g_auto(GStrv) names = g_key_file_get_keys(file, group, NULL, NULL);
    for (size_t i = 0; names && names[i]; i++) {
        size_t at = find_key(keys, n_keys, group, names[i]);
        if (at == n_keys)
            return vg_error(err, VG_E_INVALID, "unknown key '%s' in [%s]", names[i], group);
        g_autoptr(GError) bad = NULL;
        g_autofree char *text = g_key_file_get_string(file, group, names[i], &bad);
        /* A bad escape sets the error and may still return a string. */
        if (bad || !text)
            return vg_error(err, VG_E_INVALID, "[%s] %s: %s", group, names[i],
                            bad ? bad->message : "no value");
        /* A key that is written twice is in the list twice, each time with its last value. */
        g_clear_pointer(&values[at].string, g_free);
        if (parse_value(&keys[at], g_strchomp(text), &values[at], err) < 0)
            return -1;
        values[at].set = true;
    }
    return 0;
}

static GKeyFile *
load(const char *text, size_t size, GError **err)
{
    if (size > VG_CONF_TEXT_MAX) {
        vg_error(err, VG_E_INVALID, "the configuration has %zu bytes, more than %d", size,
                 VG_CONF_TEXT_MAX);
        return NULL;
    }
    if (!g_utf8_validate_len(text, size, NULL)) {
        vg_error(err, VG_E_INVALID, "the configuration is not UTF-8 text");
        return NULL;
    }
    /* Without this flag keys like name[de] vanish before anyone could call them unknown. */
    g_autoptr(GKeyFile) file = g_key_file_new();
    g_autoptr(GError) bad = NULL;
    if (size > 0 &&
        !g_key_file_load_from_data(file, text, size, G_KEY_FILE_KEEP_TRANSLATIONS, &bad)) {
        vg_error(err, VG_E_INVALID, "%s", bad->message);
        return NULL;
    }
    return g_steal_pointer(&file);
}

int
vg_conf_parse(const struct vg_conf_key *keys, size_t n_keys, const char *text, size_t size,
              void *conf, GError **err)
{
    g_autoptr(GKeyFile) file = load(text, size, err);
    if (!file)
        return -1;

    int result = 0;
    struct value *values = g_new0(struct value, n_keys);
    g_auto(GStrv) groups = g_key_file_get_groups(file, NULL);
    for (size_t i = 0; groups[i] && result == 0; i++)
        result = parse_group(keys, n_keys, file, groups[i], values, err);
    for (size_t i = 0; i < n_keys; i++) {
        if (result == 0 && values[i].set) {
            clear_key(&keys[i], conf);
            store_value(&keys[i], &values[i], conf);
        }
        g_free(values[i].string);
    }
    g_free(values);
    return result;
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

/* The value as the file would have it; strings are escaped by the caller's key file. */
static void
dump_value(const struct vg_conf_key *key, const void *conf, GKeyFile *file)
{
    const char *member = (const char *)conf + key->offset;
    g_autofree char *text = NULL;
    int64_t integer = 0;

    switch (key->type) {
    case VG_CONF_DOUBLE: {
        double number = 0;
        memcpy(&number, member, sizeof(number));
        text = number_text(number);
        break;
    }
    case VG_CONF_INT:
        memcpy(&integer, member, sizeof(integer));
        text = g_strdup_printf("%" G_GINT64_FORMAT, integer);
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

/* " Help. Range 0 to 1, default 0.3." GKeyFile puts the '#' before every line. */
static char *
help_text(const struct vg_conf_key *key)
{
    if (key->type == VG_CONF_BOOL)
        return g_strdup_printf(" %s Default %s.", key->help, key->fallback);
    if (key->type == VG_CONF_ENUM) {
        g_autofree char *list = g_strjoinv(", ", (char **)key->values);
        return g_strdup_printf(" %s One of: %s; default %s.", key->help, list, key->fallback);
    }
    g_autofree char *range = range_text(key);
    return g_strdup_printf(" %s Range %s, default %s.", key->help, range,
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

static size_t
member_size(enum vg_conf_type type)
{
    switch (type) {
    case VG_CONF_DOUBLE:
        return sizeof(double);
    case VG_CONF_INT:
    case VG_CONF_DURATION:
        return sizeof(int64_t);
    case VG_CONF_BOOL:
        return sizeof(bool);
    case VG_CONF_ENUM:
        return sizeof(int);
    case VG_CONF_STRING:
    case VG_CONF_TYPE_MAX:
        break;
    }
    return sizeof(char *);
}

bool
vg_conf_same(const struct vg_conf_key *key, const void *a, const void *b)
{
    const char *x = (const char *)a + key->offset, *y = (const char *)b + key->offset;
    char *x_string, *y_string;

    if (key->type != VG_CONF_STRING)
        return memcmp(x, y, member_size(key->type)) == 0;
    memcpy(&x_string, x, sizeof(x_string));
    memcpy(&y_string, y, sizeof(y_string));
    return strcmp(x_string, y_string) == 0;
}

void
vg_conf_clear(const struct vg_conf_key *keys, size_t n_keys, void *conf)
{
    for (size_t i = 0; i < n_keys; i++)
        clear_key(&keys[i], conf);
}
