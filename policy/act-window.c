/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/act-window.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define DAYS 7

static const char *const window_days[DAYS] = {"Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"};

/* Reads the name of a day. Returns -1 for any other text. */
static int
window_read_day(const char *text)
{
    for (int i = 0; i < DAYS; i++) {
        if (strcmp(text, window_days[i]) == 0)
            return i;
    }
    return -1;
}

/* Reads "Mo" or "Mo-Fr". "Sa-Mo" wraps around the end of the week. */
static bool
window_read_days(const char *text, unsigned *ret)
{
    g_auto(GStrv) ends = g_strsplit(text, "-", 3);
    const unsigned n = g_strv_length(ends);
    const int first = n > 0 ? window_read_day(ends[0]) : -1;
    const int last = n == 2 ? window_read_day(ends[1]) : first;

    if (n > 2 || first < 0 || last < 0)
        return false;
    for (int day = first;; day = (day + 1) % DAYS) {
        *ret |= 1U << day;
        if (day == last)
            return true;
    }
}

/* Reads "22:00" as minutes of the day, up to 24:00. */
static bool
window_read_time(const char *text, int *ret)
{
    if (strlen(text) != 5 || !g_ascii_isdigit(text[0]) || !g_ascii_isdigit(text[1]) ||
        text[2] != ':' || !g_ascii_isdigit(text[3]) || !g_ascii_isdigit(text[4]))
        return false;
    const int hours = (text[0] - '0') * 10 + text[1] - '0';
    const int minutes = (text[3] - '0') * 10 + text[4] - '0';
    *ret = hours * 60 + minutes;
    return minutes < 60 && *ret <= VG_DAY_MINUTES;
}

static bool
window_read_span(const char *text, struct vg_act_span *ret)
{
    g_auto(GStrv) words = g_strsplit(text, " ", 3);
    const unsigned n = g_strv_length(words);
    g_auto(GStrv) ends = n > 0 ? g_strsplit(words[n - 1], "-", 3) : NULL;

    *ret = (struct vg_act_span){.days = n == 1 ? (1U << DAYS) - 1 : 0};
    return n >= 1 && n <= 2 && (n == 1 || window_read_days(words[0], &ret->days)) &&
           g_strv_length(ends) == 2 && window_read_time(ends[0], &ret->from) &&
           window_read_time(ends[1], &ret->to) && ret->from < VG_DAY_MINUTES &&
           ret->from != ret->to;
}

int
vg_act_window_parse(const char *text, struct vg_act_window *ret, GError **err)
{
    g_auto(GStrv) parts = g_strsplit(text, ",", -1);
    struct vg_act_window window = {0};

    for (size_t i = 0; parts[i]; i++) {
        const char *part = g_strstrip(parts[i]);
        if (!part[0] && !parts[1])
            break;
        if (window.n == VG_ACT_SPANS_MAX)
            return vg_error(err, VG_E_INVALID, "more than %d periods are specified",
                            VG_ACT_SPANS_MAX);
        if (!window_read_span(part, &window.spans[window.n++]))
            return vg_error(err, VG_E_INVALID,
                            "'%s' is not a period such as 'Mo-Fr 22:00-05:00' or '22:00-05:00' "
                            "(days: Mo Tu We Th Fr Sa Su)",
                            part);
    }
    *ret = window;
    return 0;
}

static bool
window_is_open(const struct vg_act_window *window, int minute_of_week)
{
    const int day = minute_of_week / VG_DAY_MINUTES, minute = minute_of_week % VG_DAY_MINUTES;
    const int before = (day + DAYS - 1) % DAYS;

    for (size_t i = 0; i < window->n; i++) {
        const struct vg_act_span *span = &window->spans[i];
        const bool today = span->days & (1U << day), yesterday = span->days & (1U << before);
        if (span->from < span->to
                ? today && minute >= span->from && minute < span->to
                : (today && minute >= span->from) || (yesterday && minute < span->to))
            return true;
    }
    return window->n == 0;
}

int
vg_act_window_left(const struct vg_act_window *window, int minute_of_week)
{
    int left = 0;

    while (left < VG_WEEK_MINUTES &&
           window_is_open(window, (minute_of_week + left) % VG_WEEK_MINUTES))
        left++;
    return left;
}
