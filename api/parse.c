/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/parse.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "model/happening.h"

#define INT_DIGITS 19 /* the number of digits of VG_JSON_INT_MAX */
#define WORDS_MAX  16

/* Decodes needlessly encoded characters of a path in place (RFC 3986, 6.2.2.2). */
static void
decode_unreserved(char *uri)
{
    const char *query = uri + strcspn(uri, "?");
    char *to = uri;

    for (const char *at = uri; *at; at++) {
        int high = at < query && *at == '%' ? g_ascii_xdigit_value(at[1]) : -1;
        int low = high >= 0 ? g_ascii_xdigit_value(at[2]) : -1;
        char byte = (char)(high * 16 + low);
        bool plain = low >= 0 && byte > 0 && (g_ascii_isalnum(byte) || strchr("-._~", byte));
        *to++ = plain ? byte : *at;
        at += plain ? 2 : 0;
    }
    *to = '\0';
}

char *
vg_parse_target(const char *target, size_t most)
{
    static const char scheme[] = "http://";
    char *uri;

    if (g_ascii_strncasecmp(target, scheme, strlen(scheme)) == 0) {
        target += strlen(scheme);
        target += strcspn(target, "/?");
        uri =
            *target == '/' ? g_strndup(target, most) : g_strdup_printf("/%.*s", (int)most, target);
    } else {
        uri = g_strndup(target, most);
    }
    decode_unreserved(uri);
    return uri;
}

char *
vg_parse_percent(const char *text, size_t size, GError **err)
{
    g_autofree char *decoded = g_malloc(size + 1);
    size_t n = 0;

    for (size_t i = 0; i < size; i++) {
        int byte = (unsigned char)text[i];
        if (byte == '%') {
            int high = i + 1 < size ? g_ascii_xdigit_value(text[i + 1]) : -1;
            int low = i + 2 < size ? g_ascii_xdigit_value(text[i + 2]) : -1;
            if (high < 0 || low < 0) {
                vg_error(err, VG_E_INVALID, "the URL has a '%%' without two hexadecimal digits");
                return NULL;
            }
            byte = high * 16 + low;
            i += 2;
        } else if (byte < 0x20 || byte == 0x7f) {
            vg_error(err, VG_E_INVALID, "the URL has the control character 0x%02x", byte);
            return NULL;
        }
        if (byte == 0) {
            vg_error(err, VG_E_INVALID, "the URL has a NUL");
            return NULL;
        }
        decoded[n++] = (char)byte;
    }
    decoded[n] = '\0';
    if (!g_utf8_validate(decoded, (gssize)n, NULL)) {
        vg_error(err, VG_E_INVALID, "the URL is not UTF-8");
        return NULL;
    }
    return g_steal_pointer(&decoded);
}

void
vg_query_clear(struct vg_query *query)
{
    for (unsigned i = 0; i < query->n; i++) {
        g_free(query->params[i].name);
        g_free(query->params[i].value);
    }
    query->n = 0;
}

const char *
vg_query_get(const struct vg_query *query, const char *name)
{
    for (unsigned i = 0; i < query->n; i++) {
        if (strcmp(query->params[i].name, name) == 0)
            return query->params[i].value;
    }
    return NULL;
}

static int
refuse_name(const char *name, const char *const *names, GError **err)
{
    g_autofree char *known = g_strjoinv(", ", (char **)names);

    if (!*names)
        return vg_error(err, VG_E_INVALID, "%s: this path accepts no query parameters", name);
    return vg_error(err, VG_E_INVALID, "%s: this path accepts only the query parameters %s", name,
                    known);
}

static int
add_param(struct vg_query *query, const char *part, size_t size, const char *const *names,
          GError **err)
{
    const char *equals = memchr(part, '=', size);
    size_t name_size = equals ? (size_t)(equals - part) : size;
    g_autofree char *name = vg_parse_percent(part, name_size, err);

    if (!name)
        return -1;
    if (!g_strv_contains(names, name))
        return refuse_name(name, names, err);
    if (!equals)
        return vg_error(err, VG_E_INVALID, "%s: the value is missing", name);
    if (vg_query_get(query, name))
        return vg_error(err, VG_E_INVALID, "%s: it is given twice", name);
    char *value = vg_parse_percent(equals + 1, size - name_size - 1, err);
    if (!value)
        return -1;
    query->params[query->n].name = g_steal_pointer(&name);
    query->params[query->n++].value = value;
    return 0;
}

int
vg_parse_query(const char *text, const char *const *names, struct vg_query *ret, GError **err)
{
    struct vg_query query = {0};
    int result = 0;

    for (const char *part = text; part && *part && result == 0;) {
        size_t size = strcspn(part, "&");
        /* Each name is known and occurs once, so there cannot be more parameters than names. */
        result = query.n < VG_QUERY_PARAMS_MAX
                     ? add_param(&query, part, size, names, err)
                     : vg_error(err, VG_E_INVALID, "there are too many query parameters");
        part += size;
        if (*part == '&' && !*++part && result == 0)
            result = vg_error(err, VG_E_INVALID, "the query ends with '&'");
    }
    if (result < 0)
        vg_query_clear(&query);
    else
        *ret = query;
    return result;
}

int
vg_query_length(const struct vg_query *query, const char *name, size_t most, GError **err)
{
    const char *text = vg_query_get(query, name);

    if (text && (!*text || (size_t)g_utf8_strlen(text, -1) > most))
        return vg_error(err, VG_E_INVALID, "%s: it must have 1 to %zu characters", name, most);
    return 0;
}

/* Reads at most `most` digits that fit into an int64_t. Refuses other characters. */
static int
parse_digits(const char *text, size_t size, size_t most, int64_t *ret)
{
    int64_t value = 0;

    if (size == 0 || size > most)
        return -1;
    for (size_t i = 0; i < size; i++) {
        if (!g_ascii_isdigit(text[i]) || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text[i] - '0', &value))
            return -1;
    }
    *ret = value;
    return 0;
}

int
vg_query_int(const struct vg_query *query, const char *name, int64_t min, int64_t max, int64_t *ret,
             GError **err)
{
    const char *text = vg_query_get(query, name);
    int64_t value;

    if (!text)
        return 0;
    if (parse_digits(text, strlen(text), INT_DIGITS, &value) < 0)
        value = -1;
    if (value < min || value > max)
        return vg_error(err, VG_E_INVALID,
                        "%s: '%s' is not an integer from %" PRId64 " to %" PRId64, name, text, min,
                        max);
    *ret = value;
    return 0;
}

bool
vg_parse_int(const char *text, int64_t *ret)
{
    return parse_digits(text, strlen(text), INT_DIGITS, ret) == 0;
}

int
vg_parse_duration(const char *text, int64_t *ret_ns, GError **err)
{
    static const struct {
        const char *unit;
        int64_t s;
    } units[] = {{"s", 1}, {"min", 60}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    size_t digits = strspn(text, "0123456789");
    int64_t value;

    if (parse_digits(text, digits, 9, &value) == 0) {
        for (size_t i = 0; i < G_N_ELEMENTS(units); i++) {
            if (strcmp(text + digits, units[i].unit) == 0) {
                /* 9 digits of days exceed the range of nanoseconds. */
                if (value > VG_JSON_INT_MAX / INT64_C(1000000000) / units[i].s)
                    break;
                *ret_ns = value * units[i].s * INT64_C(1000000000);
                return 0;
            }
        }
    }
    return vg_error(
        err, VG_E_INVALID,
        "'%s' is not a number of at most 9 digits followed by s, min, h or d, or it exceeds 53375d",
        text);
}

/* Reads "12" or "12.5", after an optional '-'. Returns false if it is malformed. */
static bool
parse_epoch(const char *text, int64_t *ret_ns)
{
    bool negative = *text == '-';
    const char *digits = text + negative;
    size_t whole = strspn(digits, "0123456789");
    int64_t seconds;
    int64_t fraction = 0;

    if (parse_digits(digits, whole, 10, &seconds) < 0 || seconds >= VG_JSON_INT_MAX / 1000000000)
        return false;
    if (digits[whole] == '.') {
        const char *decimals = digits + whole + 1;
        size_t n = strlen(decimals);
        if (parse_digits(decimals, n, 9, &fraction) < 0)
            return false;
        for (; n < 9; n++)
            fraction *= 10;
    } else if (digits[whole]) {
        return false;
    }
    *ret_ns = (seconds * INT64_C(1000000000) + fraction) * (negative ? -1 : 1);
    return true;
}

/* Returns the days from the epoch to a date of the proleptic Gregorian calendar. */
static int64_t
days_from_civil(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = year / 400;
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* Reads a field of a date: `size` digits at *at, followed by the character `after`. Advances
 * *at. */
static bool
take_field(const char **at, size_t size, const char *after, int64_t max, int64_t *ret)
{
    if (strnlen(*at, size) < size || parse_digits(*at, size, size, ret) < 0 || *ret > max)
        return false;
    *at += size;
    if (after && (!**at || !strchr(after, **at)))
        return false;
    *at += after != NULL;
    return true;
}

static bool
take_zone(const char **at, int64_t *ret_s)
{
    char sign = **at;
    int64_t hours;
    int64_t minutes;

    if (sign)
        ++*at;
    if (sign == 'Z' || sign == 'z')
        return true;
    if (sign != '+' && sign != '-')
        return false;
    if (!take_field(at, 2, ":", 23, &hours) || !take_field(at, 2, NULL, 59, &minutes))
        return false;
    *ret_s = (hours * 3600 + minutes * 60) * (sign == '-' ? -1 : 1);
    return true;
}

static bool
parse_rfc3339(const char *text, int64_t *ret_ns)
{
    static const int month_days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t year, month, day, hour, minute, second;
    int64_t fraction = 0;
    int64_t zone_s = 0;
    const char *at = text;

    if (!take_field(&at, 4, "-", 9999, &year) || !take_field(&at, 2, "-", 12, &month) ||
        !take_field(&at, 2, "Tt ", 31, &day) || !take_field(&at, 2, ":", 23, &hour) ||
        !take_field(&at, 2, ":", 59, &minute) || !take_field(&at, 2, NULL, 60, &second))
        return false;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (month < 1 || day < 1 || day > month_days[month - 1] || (month == 2 && day == 29 && !leap))
        return false;
    if (*at == '.') {
        size_t n = strspn(++at, "0123456789");
        if (parse_digits(at, n, 9, &fraction) < 0)
            return false;
        at += n;
        for (; n < 9; n++)
            fraction *= 10;
    }
    if (!take_zone(&at, &zone_s) || *at)
        return false;
    int64_t seconds =
        days_from_civil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - zone_s;
    if (ABS(seconds) >= VG_JSON_INT_MAX / 1000000000)
        return false;
    *ret_ns = seconds * INT64_C(1000000000) + fraction;
    return true;
}

int
vg_parse_time(const char *text, int64_t now_ns, int64_t *ret_ns, GError **err)
{
    int64_t duration;

    if (strcmp(text, "now") == 0) {
        *ret_ns = now_ns;
        return 0;
    }
    if (text[0] == '-' && vg_parse_duration(text + 1, &duration, NULL) == 0) {
        *ret_ns = MAX(now_ns, -VG_JSON_INT_MAX + duration) - duration;
        return 0;
    }
    if (parse_epoch(text, ret_ns) || parse_rfc3339(text, ret_ns))
        return 0;
    return vg_error(err, VG_E_INVALID,
                    "'%s' is not a time from 1823-11-13 to 2116-02-19: RFC 3339 "
                    "(2026-11-20T10:00:00Z), seconds since the epoch, or relative (-1h)",
                    text);
}

int
vg_parse_raw_time(const char *text, int64_t newest_ns, int64_t *ret_ns, GError **err)
{
    int64_t value;

    if (text[0] == '-' && vg_parse_duration(text + 1, &value, NULL) == 0) {
        *ret_ns = MAX(newest_ns, -VG_JSON_INT_MAX + value) - value;
        return 0;
    }
    if (!vg_parse_int(text, &value) || value > VG_JSON_INT_MAX)
        return vg_error(err, VG_E_INVALID,
                        "'%s' is neither nanoseconds of the raw clock (0 to 2^62) nor relative to "
                        "the newest window's end (-10s)",
                        text);
    *ret_ns = value;
    return 0;
}

bool
vg_parse_etag_match(const char *header, const char *etag)
{
    size_t size = strlen(etag);

    for (const char *at = header; *at;) {
        at += strspn(at, " \t,");
        if (*at == '*' && (at[1] == '\0' || at[1] == ' ' || at[1] == ','))
            return true;
        if (g_str_has_prefix(at, "W/"))
            at += 2;
        if (strncmp(at, etag, size) == 0 && (!at[size] || strchr(" \t,", at[size])))
            return true;
        at += strcspn(at, ",");
    }
    return false;
}

bool
vg_parse_is_request_id(const char *text)
{
    return g_str_has_prefix(text, "req-") && g_uuid_string_is_valid(text + strlen("req-"));
}

enum vg_event_id
vg_parse_event_id(const char *text, const char *boot_id, uint64_t *ret_seq)
{
    const char *dash = strrchr(text, '-');
    int64_t seq;

    if (!dash || parse_digits(dash + 1, strlen(dash + 1), 18, &seq) < 0)
        return VG_EVENT_ID_INVALID;
    g_autofree char *boot = g_strndup(text, (size_t)(dash - text));
    if (!g_uuid_string_is_valid(boot))
        return VG_EVENT_ID_INVALID;
    if (g_ascii_strcasecmp(boot, boot_id) != 0)
        return VG_EVENT_ID_RESTART;
    *ret_seq = (uint64_t)seq;
    return VG_EVENT_ID_OK;
}

bool
vg_parse_in_list(const char *list, const char *word)
{
    size_t size = strlen(word);

    for (const char *at = list; *at;) {
        size_t n = strcspn(at, ",");
        if (n == size && memcmp(at, word, size) == 0)
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

int
vg_parse_types(const char *text, GError **err)
{
    g_auto(GStrv) words = g_strsplit(text, ",", WORDS_MAX + 1);
    g_autofree char *known = vg_happening_list_types();

    if (!words[0] || g_strv_length(words) > WORDS_MAX)
        return vg_error(err, VG_E_INVALID,
                        "types: '%s' is not a comma-separated list of at most %d types", text,
                        WORDS_MAX);
    for (size_t i = 0; words[i]; i++) {
        if (!vg_happening_type(words[i]))
            return vg_error(err, VG_E_INVALID,
                            "types: there is no event type '%s'; the types are %s", words[i],
                            known);
    }
    return 0;
}

char *
vg_marker_new(const char *content)
{
    char *text = g_base64_encode((const guchar *)content, strlen(content));

    for (char *at = text; *at; at++) {
        if (*at == '+')
            *at = '-';
        else if (*at == '/')
            *at = '_';
        else if (*at == '=')
            *at = '\0';
    }
    return text;
}

char *
vg_marker_read(const char *marker, GError **err)
{
    size_t size = strlen(marker);
    gsize n = 0;

    for (size_t i = 0; i < size; i++) {
        if (!g_ascii_isalnum(marker[i]) && marker[i] != '-' && marker[i] != '_')
            size = 0;
    }
    g_autofree char *text = g_strnfill(size + 3, '=');
    for (size_t i = 0; i < size; i++)
        text[i] = marker[i] == '-' ? '+' : marker[i] == '_' ? '/' : marker[i];
    text[(size + 3) / 4 * 4] = '\0';
    g_autofree guchar *bytes = size > 0 && size % 4 != 1 ? g_base64_decode(text, &n) : NULL;
    if (!bytes || n == 0 || memchr(bytes, '\0', n) ||
        !g_utf8_validate((const char *)bytes, (gssize)n, NULL)) {
        vg_error(err, VG_E_INVALID, "marker: '%s' is not the `next` value of a page", marker);
        return NULL;
    }
    return g_strndup((const char *)bytes, n);
}
