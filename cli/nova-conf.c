/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/nova-conf.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/cli.h"

#define FILE_MAX_BYTES   (1024 * 1024)
#define DEFAULT_ENDPOINT "unix:///run/vgpud/vgpud.sock"

#define FILTER_PATH  "vgpud_nova.filters.VgpudFilter"
#define FILTER_NAME  "VgpudFilter"
#define WEIGHER_PATH "vgpud_nova.weighers.VgpudWeigher"

void
vg_nova_conf_init(struct vg_nova_conf *conf)
{
    *conf = (struct vg_nova_conf){
        .endpoints = g_ptr_array_new_with_free_func(g_free),
        .timeout_ms = VG_NOVA_TIMEOUT_MS,
        .stale_limit_s = 60,
        .weight_multiplier = 1,
        .available = true,
        .filter = true,
        .weigher = true,
    };
}

void
vg_nova_conf_clear(struct vg_nova_conf *conf)
{
    g_free(conf->path);
    g_free(conf->cafile);
    g_free(conf->token_file);
    g_clear_pointer(&conf->endpoints, g_ptr_array_unref);
}

/* ---- values ---- */

/* The origin of a value. */
struct nova_place {
    const char *path;
    unsigned line;
    const char *group, *key;
};

static int
nova_conf_bad(const struct nova_place *at, GError **err, const char *wants, const char *value)
{
    return vg_error(err, VG_E_INVALID, "%s:%u: [%s] %s: %s, not '%s'", at->path, at->line,
                    at->group, at->key, wants, value);
}

/* An empty value is stored as NULL. */
static void
nova_conf_set_text(char **member, const char *value)
{
    g_free(*member);
    *member = *value ? g_strdup(value) : NULL;
}

static int
nova_conf_set_number(const struct nova_place *at, const char *value, double min, double *ret,
                     GError **err)
{
    char *end;
    const double number = g_ascii_strtod(value, &end);

    if (end == value || *end || !isfinite(number) || number < min)
        return nova_conf_bad(at, err,
                             min < 0 ? "it must be a number"
                                     : "it must be a number of at "
                                       "least 0",
                             value);
    *ret = number;
    return 0;
}

/* Returns the items of a list without surrounding blanks. The caller frees it. */
static char **
nova_conf_list(const char *value)
{
    char **items = g_strsplit(value, ",", -1);

    for (char **item = items; *item; item++)
        g_strstrip(*item);
    return items;
}

static bool
nova_conf_has(const char *value, const char *item)
{
    g_auto(GStrv) items = nova_conf_list(value);

    return g_strv_contains((const char *const *)items, item);
}

static void
nova_conf_set_endpoints(struct vg_nova_conf *conf, const char *value)
{
    g_auto(GStrv) items = nova_conf_list(value);

    g_ptr_array_set_size(conf->endpoints, 0);
    for (char **item = items; *item; item++) {
        if (**item)
            g_ptr_array_add(conf->endpoints, g_strdup(*item));
    }
}

static int
nova_conf_set_vgpud(struct vg_nova_conf *conf, const struct nova_place *at, const char *value,
                    GError **err)
{
    if (strchr(value, '$'))
        return nova_conf_bad(at, err, "vgpuctl does not expand $NAME; specify the value itself",
                             value);
    if (strcmp(at->key, "endpoints") == 0)
        nova_conf_set_endpoints(conf, value);
    else if (strcmp(at->key, "cafile") == 0)
        nova_conf_set_text(&conf->cafile, value);
    else if (strcmp(at->key, "token_file") == 0)
        nova_conf_set_text(&conf->token_file, value);
    else if (strcmp(at->key, "stale_limit") == 0)
        return nova_conf_set_number(at, value, 0, &conf->stale_limit_s, err);
    else if (strcmp(at->key, "weight_multiplier") == 0)
        return nova_conf_set_number(at, value, -HUGE_VAL, &conf->weight_multiplier, err);
    else if (strcmp(at->key, "timeout_ms") == 0 &&
             !g_ascii_string_to_signed(value, 10, 1, 60000, &conf->timeout_ms, NULL))
        return nova_conf_bad(at, err, "it must be a number from 1 to 60000", value);
    return 0;
}

/* Every occurrence of available_filters counts. For other keys, the last one does. */
static void
nova_conf_set_scheduler(struct vg_nova_conf *conf, const char *key, const char *value)
{
    if (strcmp(key, "available_filters") == 0)
        conf->available = conf->available || strcmp(value, FILTER_PATH) == 0;
    else if (strcmp(key, "enabled_filters") == 0)
        conf->filter = nova_conf_has(value, FILTER_NAME);
    else if (strcmp(key, "weight_classes") == 0)
        conf->weigher = nova_conf_has(value, WEIGHER_PATH);
}

/* ---- lines ---- */

struct nova_reader {
    struct vg_nova_conf *conf;
    const char *path;
    char *group; /* NULL before the first group */
    char *key;   /* NULL before the first key */
    GString *value;
    unsigned line, key_line;
};

static int
nova_reader_end_value(struct nova_reader *reader, GError **err)
{
    g_autofree char *key = g_steal_pointer(&reader->key);
    const char *group = reader->group;

    if (!key)
        return 0;
    const struct nova_place at = {reader->path, reader->key_line, group, key};
    g_autofree char *value = g_strstrip(g_strdup(reader->value->str));
    const size_t length = strlen(value);
    /* Quotes are not part of the value. */
    if (length >= 2 && strchr("'\"", value[0]) && value[length - 1] == value[0]) {
        value[length - 1] = '\0';
        memmove(value, value + 1, length - 1);
    }
    if (g_ascii_strcasecmp(group, "vgpud") == 0)
        return nova_conf_set_vgpud(reader->conf, &at, value, err);
    if (g_ascii_strcasecmp(group, "filter_scheduler") == 0)
        nova_conf_set_scheduler(reader->conf, key, value);
    return 0;
}

static int
nova_reader_begin_group(struct nova_reader *reader, const char *line, GError **err)
{
    const char *end = strchr(line, ']');

    if (!end || end == line + 1)
        return vg_error(err, VG_E_INVALID, "%s:%u: '%s' is not a group of the form [GROUP]",
                        reader->path, reader->line, line);
    g_free(reader->group);
    reader->group = g_strndup(line + 1, (size_t)(end - line - 1));
    return 0;
}

static int
nova_reader_begin_value(struct nova_reader *reader, const char *line, GError **err)
{
    const size_t length = strcspn(line, "=:");

    if (!line[length])
        return vg_error(err, VG_E_INVALID, "%s:%u: '%s' does not have the form KEY = VALUE",
                        reader->path, reader->line, line);
    if (!reader->group)
        return vg_error(err, VG_E_INVALID, "%s:%u: a [GROUP] must precede the first KEY = VALUE",
                        reader->path, reader->line);
    reader->key = g_strdelimit(g_strstrip(g_strndup(line, length)), "-", '_');
    reader->key_line = reader->line;
    g_string_assign(reader->value, line + length + 1);
    return 0;
}

static int
nova_reader_take_line(struct nova_reader *reader, char *line, GError **err)
{
    const bool goes_on = g_ascii_isspace(line[0]);

    reader->line++;
    g_strchomp(line);
    if (line[0] == '#' || line[0] == ';')
        return 0;
    if (goes_on && line[0] && reader->key) {
        g_string_append_printf(reader->value, "\n%s", line);
        return 0;
    }
    if (nova_reader_end_value(reader, err) < 0)
        return -1;
    g_strchug(line);
    if (!line[0])
        return 0;
    return line[0] == '[' ? nova_reader_begin_group(reader, line, err)
                          : nova_reader_begin_value(reader, line, err);
}

static int
nova_conf_parse(struct vg_nova_conf *conf, const char *text, GError **err)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    struct nova_reader reader = {.conf = conf, .path = conf->path, .value = g_string_new(NULL)};
    int status = 0;

    for (char **line = lines; status == 0 && *line; line++)
        status = nova_reader_take_line(&reader, *line, err);
    if (status == 0)
        status = nova_reader_end_value(&reader, err);
    g_free(reader.group);
    g_free(reader.key);
    g_string_free(reader.value, TRUE);
    return status;
}

int
vg_nova_conf_read(const char *path, struct vg_nova_conf *ret, GError **err)
{
    g_autofree char *text = NULL;
    size_t size;

    vg_nova_conf_init(ret);
    ret->path = g_strdup(path);
    ret->available = ret->filter = ret->weigher = false;
    g_ptr_array_add(ret->endpoints, g_strdup(DEFAULT_ENDPOINT));
    if (vg_file_read(path, FILE_MAX_BYTES, &text, &size, err) < 0)
        return -1;
    if (strlen(text) != size || !g_utf8_validate(text, (gssize)size, NULL))
        return vg_error(err, VG_E_INVALID, "'%s' is not UTF-8 text", path);
    return nova_conf_parse(ret, text, err);
}
