/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/when.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/cli.h"
#include "cli/online-args.h"

#define DAY_S 86400

/* The other machine's clock may be slightly ahead. */
#define FUTURE_NS (2 * VG_NS_PER_S)

/* The maximum number of digits of seconds since the epoch, sufficient until 2286. */
#define EPOCH_DIGITS_MAX 10

/* ---- reading ---- */

/* Reads one to `most` digits. Advances *at. */
static bool
when_take_number(const char **at, size_t most, int64_t *ret)
{
    size_t n = strspn(*at, "0123456789");

    if (n == 0 || n > most)
        return false;
    *ret = 0;
    for (size_t i = 0; i < n; i++)
        *ret = *ret * 10 + (*at)[i] - '0';
    *at += n;
    return true;
}

/* Reads exactly two digits. Advances *at. */
static bool
when_take_two(const char **at, int *ret)
{
    if (!g_ascii_isdigit((*at)[0]) || !g_ascii_isdigit((*at)[1]))
        return false;
    *ret = ((*at)[0] - '0') * 10 + (*at)[1] - '0';
    *at += 2;
    return true;
}

/* Reads "2h30m" up to the end. */
static bool
when_take_duration(const char *at, int64_t *ret_ns)
{
    static const struct {
        const char *unit;
        int64_t s;
    } units[] = {{"min", 60}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", DAY_S}, {"w", 7 * DAY_S}};
    int64_t sum_s = 0;

    while (true) {
        int64_t number;
        size_t i = 0;
        if (!when_take_number(&at, 9, &number))
            return false;
        while (i < G_N_ELEMENTS(units) && !g_str_has_prefix(at, units[i].unit))
            i++;
        if (i == G_N_ELEMENTS(units))
            return false;
        at += strlen(units[i].unit);
        sum_s += number * units[i].s;
        if (sum_s > INT64_C(100) * 366 * DAY_S)
            return false;
        if (!*at)
            break;
    }
    *ret_ns = sum_s * VG_NS_PER_S;
    return true;
}

/* Reads "1795200000", "1795200000.5" or "@1795200000". */
static bool
when_take_epoch(const char *at, int64_t *ret_ns)
{
    int64_t seconds, fraction = 0;

    at += *at == '@';
    if (!when_take_number(&at, EPOCH_DIGITS_MAX, &seconds) || seconds > INT64_MAX / VG_NS_PER_S - 1)
        return false;
    if (*at == '.') {
        const char *begin = ++at;
        if (!when_take_number(&at, 9, &fraction))
            return false;
        for (size_t n = (size_t)(at - begin); n < 9; n++)
            fraction *= 10;
    }
    *ret_ns = seconds * VG_NS_PER_S + fraction;
    return !*at;
}

/* Reads a date or a word such as "today", and sets the date in *ret. */
static bool
when_take_day(const char **at, int64_t now_ns, struct tm *ret)
{
    static const struct {
        const char *word;
        int days;
    } words[] = {{"today", 0}, {"yesterday", 1}};
    time_t now = (time_t)(now_ns / VG_NS_PER_S);
    int64_t year;

    for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
        if (!g_str_has_prefix(*at, words[i].word))
            continue;
        struct tm today;
        localtime_r(&now, &today);
        ret->tm_year = today.tm_year;
        ret->tm_mon = today.tm_mon;
        ret->tm_mday = today.tm_mday - words[i].days;
        *at += strlen(words[i].word);
        return true;
    }
    if (strspn(*at, "0123456789") != 4 || !when_take_number(at, 4, &year) || *(*at)++ != '-' ||
        !when_take_two(at, &ret->tm_mon) || *(*at)++ != '-' || !when_take_two(at, &ret->tm_mday))
        return false;
    ret->tm_year = (int)year - 1900;
    ret->tm_mon--;
    return true;
}

static bool
when_take_clock(const char **at, struct tm *ret, int64_t *ret_fraction_ns)
{
    int64_t fraction = 0;

    if (!when_take_two(at, &ret->tm_hour) || *(*at)++ != ':' || !when_take_two(at, &ret->tm_min))
        return false;
    if (**at == ':') {
        ++*at;
        if (!when_take_two(at, &ret->tm_sec))
            return false;
        if (**at == '.') {
            const char *begin = ++*at;
            if (!when_take_number(at, 9, &fraction))
                return false;
            for (size_t n = (size_t)(*at - begin); n < 9; n++)
                fraction *= 10;
        }
    }
    *ret_fraction_ns = fraction;
    return ret->tm_hour <= 23 && ret->tm_min <= 59 && ret->tm_sec <= 59;
}

/* Reads "Z", "UTC", "+01:00" or "+0100" up to the end. *ret_local is true if there is no zone. */
static bool
when_take_zone(const char *at, bool *ret_local, int *ret_s)
{
    int hours, minutes;

    *ret_local = !*at;
    *ret_s = 0;
    if (!*at || strcmp(at, "Z") == 0 || strcmp(at, "z") == 0 || strcmp(at, "UTC") == 0 ||
        strcmp(at, " UTC") == 0)
        return true;
    int sign = *at == '+' ? 1 : *at == '-' ? -1 : 0;
    if (sign == 0)
        return false;
    at++;
    if (!when_take_two(&at, &hours))
        return false;
    at += *at == ':';
    if (!when_take_two(&at, &minutes) || *at || hours > 23 || minutes > 59)
        return false;
    *ret_s = sign * (hours * 3600 + minutes * 60);
    return true;
}

/* Checks that the calendar has this day, and the local clock this time. */
static int
when_resolve(const char *text, struct tm *tm, bool local, int zone_s, bool word, int64_t *ret_s,
             GError **err)
{
    const struct tm asked = *tm;
    struct tm day = {.tm_year = tm->tm_year, .tm_mon = tm->tm_mon, .tm_mday = tm->tm_mday};

    (void)timegm(&day);
    if (!word && (day.tm_mday != asked.tm_mday || day.tm_mon != asked.tm_mon))
        return vg_error(err, VG_E_INVALID, "'%s' is not a valid date", text);
    if (!local) {
        *ret_s = (int64_t)timegm(tm) - zone_s;
        return 0;
    }
    tm->tm_isdst = -1;
    *ret_s = (int64_t)mktime(tm);
    if (tm->tm_hour != asked.tm_hour || tm->tm_min != asked.tm_min)
        return vg_error(err, VG_E_INVALID,
                        "'%s' does not exist: clocks in this time zone were set forward past "
                        "that time",
                        text);
    return 0;
}

/* Returns 1 for a date or a time of day, 0 for anything else, or -1 and *err. */
static int
when_take_date(const char *text, int64_t now_ns, int64_t *ret_ns, GError **err)
{
    struct tm tm = {0};
    const char *at = text;
    int64_t fraction = 0, seconds = 0;
    bool local, word = false;
    int zone_s;

    if (strlen(text) > 2 && text[2] == ':') {
        const char *today = "today";
        word = when_take_day(&today, now_ns, &tm);
        if (!when_take_clock(&at, &tm, &fraction))
            return 0;
    } else {
        word = g_ascii_isalpha(text[0]);
        if (!when_take_day(&at, now_ns, &tm))
            return 0;
        if (*at == 'T' || *at == 't' || *at == ' ') {
            at++;
            if (!when_take_clock(&at, &tm, &fraction))
                return 0;
        } else if (*at) {
            return 0;
        }
    }
    if (!when_take_zone(at, &local, &zone_s))
        return 0;
    if (when_resolve(text, &tm, local, zone_s, word, &seconds, err) < 0)
        return -1;
    if (ABS(seconds) >= INT64_MAX / VG_NS_PER_S)
        return vg_error(err, VG_E_INVALID, "'%s' is not between the years 1678 and 2262", text);
    *ret_ns = seconds * VG_NS_PER_S + fraction;
    return 1;
}

/* Reports a time in the future. A time without a date may have been meant for the previous day. */
static int
when_refuse_future(const char *text, int64_t now_ns, GError **err)
{
    char now[VG_WHEN_LEN], zone[VG_WHEN_LEN];
    bool clock = strlen(text) > 2 && text[2] == ':';

    return vg_error(err, VG_E_INVALID, "'%s' is in the future: it is %s (%s)%s%s%s", text,
                    vg_when_format(now_ns, now), vg_when_zone(zone),
                    clock ? "; for the previous day, write 'yesterday " : "", clock ? text : "",
                    clock ? "'" : "");
}

int
vg_when_parse(const char *text, int64_t now_ns, struct vg_when *ret, GError **err)
{
    struct vg_when when = {0};

    if (strcmp(text, "now") == 0 || (text[0] == '-' && when_take_duration(text + 1, &when.ns))) {
        *ret = (struct vg_when){true, when.ns};
        return 0;
    }
    int found = when_take_epoch(text, &when.ns) ? 1 : when_take_date(text, now_ns, &when.ns, err);
    if (found < 0)
        return -1;
    if (found == 0)
        return vg_error(err, VG_E_INVALID, "'%s' is not a time; write %s", text, VG_WHEN_FORMS);
    if (when.ns > now_ns + FUTURE_NS)
        return when_refuse_future(text, now_ns, err);
    *ret = when;
    return 0;
}

char *
vg_when_parameter(const struct vg_when *when)
{
    if (when->relative)
        return g_strdup_printf("-%" PRId64 "s", when->ns / VG_NS_PER_S);
    char utc[VG_UTC_LEN];
    return g_strdup(vg_utc_format(when->ns, utc));
}

/* ---- options ---- */

static int64_t
when_epoch(const struct vg_when *when, int64_t now_ns)
{
    return when->relative ? now_ns - when->ns : when->ns;
}

/* Returns whether a time without a date is later today, such as the end of a shift. "Until" this
 * time then means until now. */
static bool
when_is_later_today(const char *text, int64_t now_ns)
{
    int64_t ns;

    return strlen(text) > 2 && text[2] == ':' && when_take_date(text, now_ns, &ns, NULL) > 0 &&
           ns > now_ns;
}

static int
when_parse_both(const struct vg_when_args *args, struct vg_when *ret_since,
                struct vg_when *ret_until, GError **err)
{
    const int64_t now_ns = vg_clock_realtime_ns();
    char since[VG_WHEN_LEN], until[VG_WHEN_LEN];

    *ret_since = *ret_until = (struct vg_when){.relative = true};
    if (args->since && vg_when_parse(args->since, now_ns, ret_since, err) < 0) {
        g_prefix_error(err, "--since: ");
        return -1;
    }
    if (args->until && !when_is_later_today(args->until, now_ns) &&
        vg_when_parse(args->until, now_ns, ret_until, err) < 0) {
        g_prefix_error(err, "--until: ");
        return -1;
    }
    int64_t since_ns = when_epoch(ret_since, now_ns), until_ns = when_epoch(ret_until, now_ns);
    if (args->since && since_ns >= until_ns)
        return vg_error(err, VG_E_INVALID, "--since (%s) must be before --until (%s)",
                        vg_when_format(since_ns, since),
                        args->until ? vg_when_format(until_ns, until) : "now");
    return 0;
}

error_t
vg_when_take(struct vg_when_args *args, int key, const char *arg)
{
    if (key == VG_WHEN_SINCE)
        args->since = arg;
    else if (key == VG_WHEN_UNTIL)
        args->until = arg;
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

void
vg_when_check(const struct vg_when_args *args, const struct argp_state *state)
{
    g_autoptr(GError) error = NULL;
    struct vg_when since, until;

    if (when_parse_both(args, &since, &until, &error) < 0)
        vg_cli_usage(state, "%s", error->message);
}

int
vg_when_add(GString *path, const struct vg_when_args *args, GError **err)
{
    struct vg_when since, until;

    if (when_parse_both(args, &since, &until, err) < 0)
        return -1;
    g_autofree char *from = args->since ? vg_when_parameter(&since) : NULL;
    g_autofree char *to = args->until ? vg_when_parameter(&until) : NULL;
    vg_online_add_parameter(path, "since", from);
    vg_online_add_parameter(path, "until", to);
    return 0;
}

/* ---- formatting ---- */

static void
when_offset(long offset_s, char buf[VG_WHEN_LEN])
{
    long minutes = ABS(offset_s) / 60;

    snprintf(buf, VG_WHEN_LEN, "%c%02ld:%02ld", offset_s < 0 ? '-' : '+', minutes / 60,
             minutes % 60);
}

static void
when_local(int64_t epoch_ns, struct tm *ret)
{
    time_t seconds = (time_t)(epoch_ns / VG_NS_PER_S - (epoch_ns % VG_NS_PER_S < 0));

    localtime_r(&seconds, ret);
}

const char *
vg_when_format(int64_t epoch_ns, char buf[VG_WHEN_LEN])
{
    struct tm now, tm;

    when_local(vg_clock_realtime_ns(), &now);
    when_local(epoch_ns, &tm);
    size_t used = strftime(buf, VG_WHEN_LEN, "%Y-%m-%d %H:%M:%S", &tm);
    if (tm.tm_gmtoff != now.tm_gmtoff) {
        char offset[VG_WHEN_LEN];
        when_offset(tm.tm_gmtoff, offset);
        g_strlcpy(buf + used, offset, VG_WHEN_LEN - used);
    }
    return buf;
}

const char *
vg_when_zone(char buf[VG_WHEN_LEN])
{
    char offset[VG_WHEN_LEN];
    struct tm now;

    when_local(vg_clock_realtime_ns(), &now);
    when_offset(now.tm_gmtoff, offset);
    if (now.tm_gmtoff == 0)
        g_strlcpy(buf, "UTC", VG_WHEN_LEN);
    else if (g_ascii_isalpha(now.tm_zone[0]))
        snprintf(buf, VG_WHEN_LEN, "%.20s, UTC%.10s", now.tm_zone, offset);
    else
        snprintf(buf, VG_WHEN_LEN, "UTC%.10s", offset);
    return buf;
}
