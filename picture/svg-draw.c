/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "picture/svg-draw.h"

#include <math.h>
#include <string.h>

#include "base/printable.h"
#include "picture/svg.h"

#define TITLE_SIZE      18
#define TICKS_MAX       12
#define TOOLTIP_MAX     200 /* characters */
#define LEGEND_NAME_MAX 260.0
#define LEGEND_GAP      22.0
#define SWATCH          12.0
#define SWATCH_GAP      6.0

/* Okabe and Ito, "Color Universal Design" (2008), without black; the lightest colour is last. */
static const uint32_t colours[VG_SVG_COLOURS + 1] = {
    0x0072b2, 0xe69f00, 0x009e73, 0xcc79a7,
    0x56b4e9, 0xd55e00, 0xf0e442, [VG_SVG_COLOUR_OTHERS] = 0x9a9a9a,
};

static const char *const style_classes[] = {
    [VG_SVG_TITLE] = "title",     [VG_SVG_SUBTITLE] = "sub", [VG_SVG_TEXT] = "",
    [VG_SVG_TEXT_MIDDLE] = "m",   [VG_SVG_TEXT_END] = "e",   [VG_SVG_NOTE] = "note",
    [VG_SVG_NOTE_END] = "note e", [VG_SVG_ON_DARK] = "m w",  [VG_SVG_ON_LIGHT] = "m",
};

/* ---- numbers and text ---- */

void
vg_svg_put_number(GString *out, double value)
{
    double limited = isfinite(value) ? CLAMP(value, -1e9, 1e9) : 0;
    int64_t tenths = llround(limited * 10);
    uint64_t size = (uint64_t)(tenths < 0 ? -tenths : tenths);

    g_string_append_printf(out, "%s%" G_GUINT64_FORMAT, tenths < 0 ? "-" : "", size / 10);
    if (size % 10)
        g_string_append_printf(out, ".%d", (int)(size % 10));
}

void
vg_svg_put_attribute(GString *out, const char *name, double value)
{
    g_string_append_printf(out, " %s='", name);
    vg_svg_put_number(out, value);
    g_string_append_c(out, '\'');
}

/* Appends text with XML escapes. Characters that are not allowed in XML become '?'. */
static void
svg_put_escaped(GString *out, const char *text)
{
    g_autofree char *printable = vg_printable_text(text);

    for (const char *at = printable; *at; at = g_utf8_next_char(at)) {
        gunichar c = g_utf8_get_char(at);
        if (c == '&')
            g_string_append(out, "&amp;");
        else if (c == '<')
            g_string_append(out, "&lt;");
        else if (c == '>')
            g_string_append(out, "&gt;");
        else if (c == '\'')
            g_string_append(out, "&#39;");
        else if (c == '"')
            g_string_append(out, "&quot;");
        else
            g_string_append_unichar(out, c == 0xfffe || c == 0xffff ? '?' : c);
    }
}

/* Returns the width at letter size 1: slightly more than DejaVu Sans, which is a wide font. */
static double
char_width(gunichar c)
{
    if (g_unichar_iszerowidth(c))
        return 0.05; /* there is no space for any number of them */
    if (g_unichar_iswide(c))
        return 1.05;
    if (c < 128 && strchr(" !'(),-./:;I[\\]fijlrt|", (int)c))
        return 0.43;
    if (g_unichar_isupper(c) || c == 'm' || c == 'w' || c == '%' || c == '@' || c >= 0x2000)
        return 1.0;
    return 0.65;
}

double
vg_svg_text_width(const char *text, double size)
{
    double width = 0;

    for (const char *at = text; *at; at = g_utf8_next_char(at))
        width += char_width(g_utf8_get_char(at)) * size;
    return width;
}

char *
vg_svg_fit(const char *text, double size, double width)
{
    g_autofree char *printable = vg_printable_text(text);
    double room = width - char_width(0x2026) * size;
    const char *at = printable;

    if (vg_svg_text_width(printable, size) <= width)
        return g_steal_pointer(&printable);
    for (; *at; at = g_utf8_next_char(at)) {
        room -= char_width(g_utf8_get_char(at)) * size;
        if (room < 0)
            break;
    }
    return g_strdup_printf("%.*s\xe2\x80\xa6", (int)(at - printable), printable);
}

/* Formats a number with three significant digits. */
static char *
three_digits(double value, const char *unit)
{
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    const char *format = value < 9.995 ? "%.2f" : value < 99.95 ? "%.1f" : "%.0f";

    return g_strdup_printf("%s %s", g_ascii_formatd(number, sizeof(number), format, value), unit);
}

char *
vg_svg_duration(uint64_t ns)
{
    if (ns < 1000)
        return g_strdup_printf("%d ns", (int)ns);
    if (ns < 999500)
        return three_digits((double)ns / 1e3, "\xc2\xb5s");
    if (ns < 999500000)
        return three_digits((double)ns / 1e6, "ms");
    return three_digits((double)ns / 1e9, "s");
}

char *
vg_svg_percent(double share)
{
    char number[G_ASCII_DTOSTR_BUF_SIZE];

    return g_strdup_printf("%s %%", g_ascii_formatd(number, sizeof(number), "%.1f", share * 100));
}

/* ---- colours ---- */

void
vg_svg_choose_colours(const double *weights, size_t n, unsigned int *ret)
{
    size_t chosen[VG_SVG_COLOURS];
    size_t n_chosen = 0;
    bool used[VG_SVG_COLOURS] = {false};

    for (size_t i = 0; i < n; i++) {
        size_t at = n_chosen;
        ret[i] = VG_SVG_COLOUR_OTHERS;
        while (at > 0 && weights[i] > weights[chosen[at - 1]])
            at--;
        if (weights[i] < 0 || at == VG_SVG_COLOURS)
            continue;
        n_chosen = MIN(n_chosen + 1, VG_SVG_COLOURS);
        memmove(chosen + at + 1, chosen + at, (n_chosen - at - 1) * sizeof(*chosen));
        chosen[at] = i;
    }
    /* Its own colour, or else the first free one. */
    for (size_t i = 0; i < n_chosen; i++) {
        if (chosen[i] < VG_SVG_COLOURS) {
            ret[chosen[i]] = (unsigned int)chosen[i];
            used[chosen[i]] = true;
        }
    }
    for (size_t i = 0; i < n_chosen; i++) {
        for (unsigned int c = 0; ret[chosen[i]] == VG_SVG_COLOUR_OTHERS; c++) {
            if (!used[c]) {
                ret[chosen[i]] = c;
                used[c] = true;
            }
        }
    }
}

static uint32_t
rgb(unsigned int colour, bool pale)
{
    uint32_t full = colours[colour];
    uint32_t mixed = 0;

    if (!pale)
        return full;
    for (unsigned int shift = 0; shift < 24; shift += 8) {
        uint32_t part = full >> shift & 0xff;
        mixed |= (part + (255 - part) * 13 / 20) << shift;
    }
    return mixed;
}

void
vg_svg_put_colour(GString *out, unsigned int colour, bool pale)
{
    g_string_append_printf(out, "#%06x", rgb(colour, pale));
}

bool
vg_svg_colour_is_dark(unsigned int colour, bool pale)
{
    uint32_t c = rgb(colour, pale);

    /* ITU-R BT.601 luma */
    return 0.299 * (c >> 16) + 0.587 * (c >> 8 & 0xff) + 0.114 * (c & 0xff) < 125;
}

/* ---- elements ---- */

static void
begin_text(GString *out, double x, double y, enum vg_svg_style style)
{
    g_string_append(out, "<text");
    if (*style_classes[style])
        g_string_append_printf(out, " class='%s'", style_classes[style]);
    vg_svg_put_attribute(out, "x", x);
    vg_svg_put_attribute(out, "y", y);
    g_string_append_c(out, '>');
}

void
vg_svg_put_text(GString *out, double x, double y, enum vg_svg_style style, const char *text)
{
    begin_text(out, x, y, style);
    svg_put_escaped(out, text);
    g_string_append(out, "</text>\n");
}

void
vg_svg_put_tooltip(GString *out, const char *text)
{
    g_autofree char *part = vg_printable_text(text);

    if (g_utf8_strlen(part, -1) > TOOLTIP_MAX)
        *g_utf8_offset_to_pointer(part, TOOLTIP_MAX) = '\0';
    g_string_append(out, "<title>");
    svg_put_escaped(out, part);
    g_string_append(out, "</title>");
}

void
vg_svg_put_fitting(GString *out, double x, double y, enum vg_svg_style style, double width,
                   const char *text)
{
    double size = style == VG_SVG_TITLE ? TITLE_SIZE : VG_SVG_TEXT_SIZE;
    g_autofree char *whole = vg_printable_text(text);
    g_autofree char *part = vg_svg_fit(text, size, width);

    begin_text(out, x, y, style);
    if (strcmp(part, whole) != 0)
        vg_svg_put_tooltip(out, text);
    svg_put_escaped(out, part);
    g_string_append(out, "</text>\n");
}

void
vg_svg_put_line(GString *out, double x1, double y1, double x2, double y2, const char *class)
{
    g_string_append_printf(out, "<line class='%s'", class);
    vg_svg_put_attribute(out, "x1", x1);
    vg_svg_put_attribute(out, "y1", y1);
    vg_svg_put_attribute(out, "x2", x2);
    vg_svg_put_attribute(out, "y2", y2);
    g_string_append(out, "/>\n");
}

/* ---- time ---- */

static uint64_t
span_of(const struct vg_svg_axis *axis)
{
    return (uint64_t)axis->end_ns - (uint64_t)axis->begin_ns;
}

double
vg_svg_x(const struct vg_svg_axis *axis, int64_t t_ns)
{
    double since =
        (double)((uint64_t)CLAMP(t_ns, axis->begin_ns, axis->end_ns) - (uint64_t)axis->begin_ns);

    return axis->x + axis->width * since / (double)span_of(axis);
}

/* Returns 1, 2 or 5 times a power of ten, for at most TICKS_MAX ticks. */
static uint64_t
step_of(const struct vg_svg_axis *axis)
{
    uint64_t least = span_of(axis) / TICKS_MAX;
    uint64_t power = 1;

    while (power <= least / 10)
        power *= 10;
    for (uint64_t factor = 1; factor <= 5; factor = factor == 2 ? 5 : factor * 2) {
        if (factor * power > least)
            return factor * power;
    }
    return 10 * power;
}

void
vg_svg_put_time_grid(GString *out, const struct vg_svg_axis *axis, double top, double bottom)
{
    uint64_t step = step_of(axis);

    for (uint64_t i = 0; i <= span_of(axis) / step; i++) {
        double x = vg_svg_x(axis, (int64_t)((uint64_t)axis->begin_ns + i * step));
        vg_svg_put_line(out, x, top, x, bottom, "grid");
    }
}

double
vg_svg_put_time_axis(GString *out, const struct vg_svg_axis *axis, double y)
{
    static const struct {
        double ns;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "\xc2\xb5s"}, {1, "ns"}};
    uint64_t step = step_of(axis);
    size_t unit = 0;
    int decimals = 0;
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    char format[8];

    while (unit + 1 < G_N_ELEMENTS(units) && (double)span_of(axis) < units[unit].ns)
        unit++;
    for (double part = (double)step / units[unit].ns; part < 0.999; part *= 10)
        decimals++;
    g_snprintf(format, sizeof(format), "%%.%df", decimals);
    vg_svg_put_line(out, axis->x, y, axis->x + axis->width, y, "axis");
    for (uint64_t i = 0; i <= span_of(axis) / step; i++) {
        double x = vg_svg_x(axis, (int64_t)((uint64_t)axis->begin_ns + i * step));
        vg_svg_put_line(out, x, y, x, y + 5, "tick");
        g_ascii_formatd(number, sizeof(number), format, (double)(i * step) / units[unit].ns);
        vg_svg_put_text(out, x, y + 18, VG_SVG_TEXT_MIDDLE, number);
    }
    g_ascii_formatd(number, sizeof(number), "%.6f", (double)axis->begin_ns / 1e9);
    g_autofree char *label = g_strdup_printf("time in %s, starting at %s s on the trace clock",
                                             units[unit].name, number);
    vg_svg_put_text(out, axis->x + axis->width / 2, y + 38, VG_SVG_TEXT_MIDDLE, label);
    return 44;
}

/* ---- legend, picture ---- */

static void
put_swatch(GString *out, double x, double y, const struct vg_svg_legend_item *item)
{
    if (item->line) {
        vg_svg_put_line(out, x, y + SWATCH / 2, x + SWATCH, y + SWATCH / 2, "total");
        return;
    }
    g_string_append(out, "<rect");
    vg_svg_put_attribute(out, "x", x);
    vg_svg_put_attribute(out, "y", y);
    vg_svg_put_attribute(out, "width", SWATCH);
    vg_svg_put_attribute(out, "height", SWATCH);
    g_string_append(out, " fill='");
    vg_svg_put_colour(out, item->colour, item->pale);
    g_string_append(out, "' stroke='");
    vg_svg_put_colour(out, item->colour, false);
    g_string_append(out, "'/>\n");
}

double
vg_svg_put_legend(GString *out, double x, double y, const struct vg_svg_legend_item *items,
                  size_t n)
{
    double right = VG_SVG_WIDTH - VG_SVG_EDGE;
    double at = x;
    double line = y;

    for (size_t i = 0; i < n; i++) {
        g_autofree char *name = vg_svg_fit(items[i].name, VG_SVG_TEXT_SIZE, LEGEND_NAME_MAX);
        double name_width = vg_svg_text_width(name, VG_SVG_TEXT_SIZE);
        double note_width =
            items[i].note ? vg_svg_text_width(items[i].note, VG_SVG_TEXT_SIZE) + SWATCH_GAP : 0;
        double width = SWATCH + SWATCH_GAP + name_width + note_width;
        if (at > x && at + width > right) {
            at = x;
            line += VG_SVG_LEGEND_LINE;
        }
        put_swatch(out, at, line, &items[i]);
        vg_svg_put_fitting(out, at + SWATCH + SWATCH_GAP, line + SWATCH - 2, VG_SVG_TEXT,
                           LEGEND_NAME_MAX, items[i].name);
        if (items[i].note)
            vg_svg_put_text(out, at + SWATCH + SWATCH_GAP + name_width + SWATCH_GAP,
                            line + SWATCH - 2, VG_SVG_NOTE, items[i].note);
        at += width + LEGEND_GAP;
    }
    return n > 0 ? line + VG_SVG_LEGEND_LINE - y : 0;
}

void
vg_svg_finish(GString *out, const char *title, double height, const GString *body)
{
    static const char style[] = "<style>"
                                "text{font-family:sans-serif;font-size:12px;fill:#222}"
                                ".title{font-size:18px;font-weight:bold}"
                                ".sub{font-weight:bold}"
                                ".note{fill:#666}"
                                ".m{text-anchor:middle}"
                                ".e{text-anchor:end}"
                                ".w{fill:#fff}"
                                ".grid{stroke:#e2e2e2}"
                                ".axis,.tick{stroke:#555}"
                                ".total{stroke:#222;stroke-width:2;fill:none}"
                                ".line{stroke-width:2;fill:none}"
                                ".band{fill:#f6f6f6}";

    g_string_append(out, "<?xml version='1.0' encoding='UTF-8'?>\n"
                         "<svg xmlns='http://www.w3.org/2000/svg' role='img'");
    vg_svg_put_attribute(out, "width", VG_SVG_WIDTH);
    vg_svg_put_attribute(out, "height", height);
    g_string_append_printf(out, " viewBox='0 0 %d ", VG_SVG_WIDTH);
    vg_svg_put_number(out, height);
    g_string_append(out, "'>\n");
    vg_svg_put_tooltip(out, title);
    g_string_append(out, style);
    for (unsigned int i = 0; i <= VG_SVG_COLOUR_OTHERS; i++) {
        g_string_append_printf(out, ".c%u{stroke:#fff;stroke-width:.6;fill:", i);
        vg_svg_put_colour(out, i, false);
        g_string_append_printf(out, "}.p%u{stroke-width:.6;stroke:", i);
        vg_svg_put_colour(out, i, false);
        g_string_append(out, ";fill:");
        vg_svg_put_colour(out, i, true);
        g_string_append_c(out, '}');
    }
    g_string_append(out, "</style>\n");
    g_string_append(out, "<rect width='100%' height='100%' fill='#fff'/>\n");
    vg_svg_put_fitting(out, VG_SVG_EDGE, 36, VG_SVG_TITLE, VG_SVG_WIDTH - 2 * VG_SVG_EDGE, title);
    g_string_append_len(out, body->str, (gssize)body->len);
    g_string_append(out, "</svg>\n");
}
