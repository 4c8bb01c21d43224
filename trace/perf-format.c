/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/perf-format.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "model/trouble.h"

/* Handles of values that are not fields of the format. */
enum { HANDLE_TID = VG_PERF_FIELDS_MAX, HANDLE_PID };

#define NAME_MAX_BYTES 64
/* perf's own limit. No tracepoint writes more than a page or two. */
#define OFFSET_MAX 65535

enum field_kind {
    FIELD_INT,
    FIELD_TEXT,    /* char NAME[N] */
    FIELD_DATA_LOC /* 32 bits: the text's offset in the record, and its length in the upper half */
};

struct field {
    char name[NAME_MAX_BYTES];
    enum field_kind kind;
    uint32_t offset;
    uint32_t size;
    bool is_signed;
};

struct vg_perf_format {
    char name[NAME_MAX_BYTES];
    uint16_t id;
    unsigned n_fields;
    struct field fields[VG_PERF_FIELDS_MAX];
};

/* ---- the file ---- */

/* Reads the number after "KEY:" in a line. */
static bool
read_number(const char *line, const char *key, uint32_t limit, uint32_t *ret)
{
    const char *at = strstr(line, key);
    char *end;

    if (!at)
        return false;
    at += strlen(key);
    guint64 value = g_ascii_strtoull(at, &end, 10);
    if (end == at || value > limit)
        return false;
    *ret = (uint32_t)value;
    return true;
}

/* Reads "char prev_comm[16]", "pid_t prev_pid", "__data_loc char[] name": the name is the last
 * word, without the brackets. */
static bool
read_declaration(const char *text, size_t length, struct field *field)
{
    bool is_char = strncmp(text, "char ", 5) == 0;
    bool is_data_loc = strncmp(text, "__data_loc char", 15) == 0;
    const char *bracket = memchr(text, '[', length);
    const char *end = bracket && !is_data_loc ? bracket : text + length;
    const char *begin = end;

    while (begin > text && (g_ascii_isalnum(begin[-1]) || begin[-1] == '_'))
        begin--;
    size_t name_length = (size_t)(end - begin);
    if (begin == text || name_length == 0 || name_length >= sizeof(field->name))
        return false;
    memcpy(field->name, begin, name_length);
    field->name[name_length] = '\0';
    field->kind = is_data_loc ? FIELD_DATA_LOC : is_char && bracket ? FIELD_TEXT : FIELD_INT;
    /* Other arrays are not numbers. */
    return is_data_loc || is_char || !bracket;
}

/* Reads "\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;". Returns false if it is of no
 * use. */
static bool
read_field(const char *line, struct field *field)
{
    const char *declaration = strstr(line, "field:");
    uint32_t is_signed = 0;

    *field = (struct field){0};
    if (!declaration)
        return false;
    declaration += strlen("field:");
    const char *end = strchr(declaration, ';');
    if (!end || !read_declaration(declaration, (size_t)(end - declaration), field) ||
        !read_number(end, "offset:", OFFSET_MAX, &field->offset) ||
        !read_number(end, "size:", OFFSET_MAX, &field->size))
        return false;
    /* Kernels before 3.4 do not report this. */
    read_number(end, "signed:", 1, &is_signed);
    field->is_signed = is_signed == 1;
    if (field->kind == FIELD_INT)
        return field->size == 1 || field->size == 2 || field->size == 4 || field->size == 8;
    return field->kind == FIELD_TEXT || field->size == 4;
}

vg_perf_format *
vg_perf_format_parse(const char *text, const char *where, GError **err)
{
    g_autoptr(vg_perf_format) format = g_new0(vg_perf_format, 1);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    uint32_t id = 0;

    for (char **line = lines; *line; line++) {
        if (g_str_has_prefix(*line, "name: "))
            g_strlcpy(format->name, g_strstrip(*line + strlen("name: ")), sizeof(format->name));
        else if (g_str_has_prefix(*line, "ID:"))
            read_number(*line, "ID:", UINT16_MAX, &id);
        else if (g_str_has_prefix(*line, "print fmt:"))
            break;
        else if (format->n_fields < VG_PERF_FIELDS_MAX &&
                 read_field(*line, &format->fields[format->n_fields]))
            format->n_fields++;
    }
    if (!format->name[0] || id == 0 || format->n_fields == 0) {
        vg_error(err, VG_E_INVALID, "'%s' is not a tracepoint format: it has no %s", where,
                 !format->name[0] ? "name"
                 : id == 0        ? "ID"
                                  : "fields");
        return NULL;
    }
    format->id = (uint16_t)id;
    return g_steal_pointer(&format);
}

void
vg_perf_format_free(vg_perf_format *format)
{
    g_free(format);
}

const char *
vg_perf_format_name(const vg_perf_format *format)
{
    return format->name;
}

uint16_t
vg_perf_format_id(const vg_perf_format *format)
{
    return format->id;
}

uint16_t
vg_perf_raw_id(const void *raw, size_t size)
{
    uint16_t id = 0;

    if (size >= sizeof(id))
        memcpy(&id, raw, sizeof(id));
    return id;
}

/* ---- records ---- */

static int
perf_format_find(void *event_class, enum vg_field_scope scope, const char *name)
{
    const vg_perf_format *format = event_class;

    if (scope == VG_SCOPE_CONTEXT)
        return strcmp(name, "tid") == 0 ? HANDLE_TID : strcmp(name, "pid") == 0 ? HANDLE_PID : -1;
    for (unsigned i = 0; i < format->n_fields; i++) {
        if (strcmp(format->fields[i].name, name) == 0)
            return (int)i;
    }
    return -1;
}

static int64_t
extend(uint64_t value, uint32_t size, bool is_signed)
{
    unsigned unused = 64 - 8 * size;

    return is_signed ? (int64_t)(value << unused) >> unused : (int64_t)value;
}

static bool
perf_format_get_int(const void *data, int handle, int64_t *ret)
{
    const struct vg_perf_record *record = data;
    uint64_t value = 0;

    if (handle == HANDLE_TID || handle == HANDLE_PID) {
        *ret = handle == HANDLE_TID ? record->tid : record->pid;
        return true;
    }
    const struct field *field = &record->format->fields[handle];
    if (field->kind != FIELD_INT || field->offset + field->size > record->size)
        return false;
    const char *at = (const char *)record->raw + field->offset;
    /* The kernel has this machine's byte order. */
    if (G_BYTE_ORDER == G_LITTLE_ENDIAN)
        memcpy(&value, at, field->size);
    else
        memcpy((char *)&value + sizeof(value) - field->size, at, field->size);
    *ret = extend(value, field->size, field->is_signed);
    return true;
}

static bool
get_str(const void *data, int handle, char *buf, size_t size)
{
    const struct vg_perf_record *record = data;

    if (handle >= VG_PERF_FIELDS_MAX)
        return false;
    const struct field *field = &record->format->fields[handle];
    size_t offset = field->offset, length = field->size;
    if (field->kind == FIELD_INT || offset + length > record->size)
        return false;
    if (field->kind == FIELD_DATA_LOC) {
        uint32_t place;
        memcpy(&place, (const char *)record->raw + offset, sizeof(place));
        offset = place & 0xffff;
        length = place >> 16;
        if (offset + length > record->size)
            return false;
    }
    const char *text = (const char *)record->raw + offset;
    length = strnlen(text, MIN(length, size - 1));
    memcpy(buf, text, length);
    memset(buf + length, 0, size - length);
    return true;
}

const struct vg_field_reader vg_perf_fields = {
    .find = perf_format_find,
    .get_int = perf_format_get_int,
    .get_str = get_str,
};

/* ---- tracefs ---- */

const char *
vg_tracefs_root(GError **err)
{
    static const char *const roots[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
    bool denied = false;

    for (size_t i = 0; i < G_N_ELEMENTS(roots); i++) {
        g_autofree char *events = g_build_filename(roots[i], "events", NULL);
        /* access() would ignore the capabilities of a user other than root. */
        if (faccessat(AT_FDCWD, events, R_OK | X_OK, AT_EACCESS) == 0)
            return roots[i];
        denied |= errno == EACCES;
    }
    if (denied) {
        vg_error(err, VG_E_DENIED,
                 "cannot read '%s': only root can read tracefs unless it is mounted with gid= and "
                 "mode=; run as root or with CAP_DAC_READ_SEARCH",
                 roots[0]);
    } else {
        vg_error(err, VG_E_NOT_FOUND,
                 "'%s' contains no tracepoints; if the kernel supports them, run `mount -t tracefs "
                 "none %s` as root",
                 roots[0], roots[0]);
        vg_error_set_detail(err, VG_TROUBLE_TRACEFS_ABSENT);
    }
    return NULL;
}
