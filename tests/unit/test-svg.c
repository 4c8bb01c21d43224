/* SPDX-License-Identifier: Apache-2.0
 *
 * The pictures are XML, whatever they are told; what is where is worked out by hand from the sizes
 * in picture/svg-*.c; texts do not overlap; size has its limit.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>
#include <libxml/parser.h>
#include <libxml/tree.h>

#include "picture/svg-draw.h"
#include "picture/svg.h"
#include "tests/unit/chance.h"

#define S         INT64_C(1000000000)
#define MANY      150000 /* some for each place of the picture, and more */
#define HOSTILE   "<\"&'>]]>\x01\xff\xef\xbf\xbe"
#define HARMLESS  "<\"&'>]]>???" /* the same as it may be in XML */
#define LONG_NAME "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW"

struct word {
    char *text; /* without that of a tooltip */
    char *class;
    double x;
    double y;
};

/* A picture, read back. */
struct picture {
    GString *svg;
    xmlDoc *doc;
    GArray *words;
    unsigned int n_rects; /* with a tooltip */
};

static double
attribute(xmlNode *node, const char *name)
{
    xmlChar *text = xmlGetProp(node, (const xmlChar *)name);
    double value = text ? g_ascii_strtod((const char *)text, NULL) : (double)NAN;

    xmlFree(text);
    return value;
}

static bool
is_named(const xmlNode *node, const char *name)
{
    return node->type == XML_ELEMENT_NODE && strcmp((const char *)node->name, name) == 0;
}

static void
add_word(struct picture *picture, xmlNode *node)
{
    GString *text = g_string_new(NULL);
    xmlChar *class = xmlGetProp(node, (const xmlChar *)"class");

    for (const xmlNode *child = node->children; child; child = child->next) {
        if (child->type == XML_TEXT_NODE)
            g_string_append(text, (const char *)child->content);
    }
    struct word word = {
        .text = g_string_free(text, FALSE),
        .class = g_strdup(class ? (const char *)class : ""),
        .x = attribute(node, "x"),
        .y = attribute(node, "y"),
    };
    xmlFree(class);
    g_array_append_val(picture->words, word);
}

static void
clear_word(void *data)
{
    struct word *word = data;

    g_free(word->text);
    g_free(word->class);
}

/* Where a text begins and ends; widths are those that the picture reckons with. */
static void
extent(const struct word *word, double *left, double *right)
{
    double size = strstr(word->class, "title") ? 18 : 12;
    double width = vg_svg_text_width(word->text, size);
    bool middle = g_str_has_prefix(word->class, "m");
    bool end = g_str_has_suffix(word->class, "e") && !strstr(word->class, "title") &&
               !g_str_has_suffix(word->class, "note");

    *left = middle ? word->x - width / 2 : end ? word->x - width : word->x;
    *right = *left + width;
}

static void
assert_no_overlap(const struct picture *picture)
{
    for (unsigned int i = 0; i < picture->words->len; i++) {
        const struct word *a = &g_array_index(picture->words, struct word, i);
        double left, right;
        extent(a, &left, &right);
        assert_true(left >= 0 && right <= VG_SVG_WIDTH);
        for (unsigned int k = 0; k < i; k++) {
            const struct word *b = &g_array_index(picture->words, struct word, k);
            double left_b, right_b;
            extent(b, &left_b, &right_b);
            if (fabs(a->y - b->y) < 12 && left < right_b && left_b < right)
                fail_msg("'%s' and '%s' overlap", a->text, b->text);
        }
    }
}

/* Takes what was drawn. */
static struct picture
read_back(GString *svg)
{
    struct picture picture = {
        .svg = svg,
        .words = g_array_new(FALSE, FALSE, sizeof(struct word)),
    };

    assert_true(svg->len < VG_SVG_BYTES_MAX);
    assert_true(g_utf8_validate(svg->str, (gssize)svg->len, NULL));
    g_array_set_clear_func(picture.words, clear_word);
    picture.doc = xmlReadMemory(svg->str, (int)svg->len, "picture", NULL, XML_PARSE_NONET);
    assert_non_null(picture.doc);
    xmlNode *root = xmlDocGetRootElement(picture.doc);
    assert_true(is_named(root, "svg"));
    assert_float_equal(attribute(root, "width"), 1200, 0);
    for (xmlNode *node = root->children; node; node = node->next) {
        if (is_named(node, "text"))
            add_word(&picture, node);
        if (is_named(node, "rect") && node->children)
            picture.n_rects += is_named(node->children, "title");
        /* Everything is inside. */
        if (node->type == XML_ELEMENT_NODE && !isnan(attribute(node, "y")))
            assert_true(attribute(node, "y") <= attribute(root, "height"));
    }
    assert_no_overlap(&picture);
    return picture;
}

static void
clear_picture(struct picture *picture)
{
    xmlFreeDoc(picture->doc);
    g_array_unref(picture->words);
    g_string_free(picture->svg, TRUE);
}

static bool
says(const struct picture *picture, const char *text)
{
    for (unsigned int i = 0; i < picture->words->len; i++) {
        if (strcmp(g_array_index(picture->words, struct word, i).text, text) == 0)
            return true;
    }
    return false;
}

static struct picture
draw_utilisation(const struct vg_svg_utilisation *what)
{
    GString *svg = g_string_new(NULL);

    vg_svg_utilisation(svg, what);
    return read_back(svg);
}

static struct picture
draw_timegraph(const struct vg_svg_timegraph *what)
{
    GString *svg = g_string_new(NULL);

    vg_svg_timegraph(svg, what);
    return read_back(svg);
}

static void
test_numbers(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {1, "1"},
        {-1, "-1"},
        {0.25, "0.3"},
        {-0.04, "0"},
        {-0.06, "-0.1"},
        {10.96, "11"},
        {1199.9, "1199.9"},
        {(double)NAN, "0"},
        {(double)INFINITY, "0"},
        {1e300, "1000000000"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GString) out = g_string_new(NULL);
        vg_svg_put_number(out, cases[i].value);
        assert_string_equal(out->str, cases[i].text);
    }
}

static void
test_durations(void **state)
{
    (void)state;
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {
        {0, "0 ns"},
        {999, "999 ns"},
        {1000, "1.00 \xc2\xb5s"},
        {18200000, "18.2 ms"},
        {999499999, "999 ms"},
        {999500000, "1.00 s"},
        {12345678901, "12.3 s"},
        {UINT64_MAX, "18446744074 s"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *text = vg_svg_duration(cases[i].ns);
        assert_string_equal(text, cases[i].text);
    }
}

static void
test_fit(void **state)
{
    (void)state;
    /* A letter takes 0.65 of the size, the ellipsis all of it. */
    g_autofree char *whole = vg_svg_fit("abcd", 10, 26);
    g_autofree char *part = vg_svg_fit("abcde", 10, 23);
    g_autofree char *nothing = vg_svg_fit("abcde", 10, 5);
    g_autofree char *wide = vg_svg_fit("\xe6\x97\xa5\xe6\x9c\xac", 10, 21);
    g_autofree char *bad = vg_svg_fit("a\nb\xff", 10, 100);

    assert_string_equal(whole, "abcd");
    assert_string_equal(part, "ab\xe2\x80\xa6");
    assert_string_equal(nothing, "\xe2\x80\xa6");
    assert_string_equal(wide, "\xe6\x97\xa5\xe6\x9c\xac");
    assert_string_equal(bad, "a?b?");
}

static void
test_colours(void **state)
{
    (void)state;
    static const double few[] = {0, -1, 5, 0.5};
    static const double many[] = {3, -1, 1, 4, 0, 5, 9, 2, 6, 5};
    static const unsigned int of_few[] = {0, VG_SVG_COLOUR_OTHERS, 2, 3};
    /* The largest are 6 (9), 8 (6), 5 and 9 (5), 3 (4), 0 (3), 7 (2); 1, 2 and 4 are left for those
     * that have none of their own. */
    static const unsigned int of_many[] = {
        0, VG_SVG_COLOUR_OTHERS, VG_SVG_COLOUR_OTHERS, 3, VG_SVG_COLOUR_OTHERS, 5, 6, 4, 1, 2,
    };
    unsigned int got[G_N_ELEMENTS(many)];

    vg_svg_choose_colours(few, G_N_ELEMENTS(few), got);
    assert_memory_equal(got, of_few, sizeof(of_few));
    vg_svg_choose_colours(many, G_N_ELEMENTS(many), got);
    assert_memory_equal(got, of_many, sizeof(of_many));
}

/* The numbers at the axis, with how many there are. */
static void
test_time_axis(void **state)
{
    (void)state;
    static const struct {
        int64_t span_ns;
        const char *first;
        const char *second;
        const char *last;
        const char *label;
    } cases[] = {
        {10 * S, "0", "1", "10", "time in s, starting at 1.500000 s on the trace clock"},
        {12 * S - 1, "0", "1", "11", "time in s, starting at 1.500000 s on the trace clock"},
        {13 * S, "0", "2", "12", "time in s, starting at 1.500000 s on the trace clock"},
        {1200000000, "0.0", "0.2", "1.2", "time in s, starting at 1.500000 s on the trace clock"},
        {S - 1, "0", "100", "900", "time in ms, starting at 1.500000 s on the trace clock"},
        {50000, "0", "5", "50", "time in \xc2\xb5s, starting at 1.500000 s on the trace clock"},
        {1, "0", "1", "1", "time in ns, starting at 1.500000 s on the trace clock"},
        {3600 * S, "0", "500", "3500", "time in s, starting at 1.500000 s on the trace clock"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        static const char *const rows[] = {"row"};
        struct vg_svg_timegraph what = {
            .title = "t",
            .begin_ns = 1500000000,
            .end_ns = 1500000000 + cases[i].span_ns,
            .rows = rows,
            .n_rows = 1,
        };
        struct picture picture = draw_timegraph(&what);
        /* Title, row, numbers, label. */
        const struct word *words = (const struct word *)(void *)picture.words->data;
        unsigned int n = picture.words->len;
        assert_in_range(n, 3 + 2, 3 + 13);
        assert_string_equal(words[0].text, "t");
        assert_string_equal(words[1].text, "row");
        assert_string_equal(words[2].text, cases[i].first);
        assert_string_equal(words[3].text, cases[i].second);
        assert_string_equal(words[n - 2].text, cases[i].last);
        assert_string_equal(words[n - 1].text, cases[i].label);
        clear_picture(&picture);
    }
}

static void
test_intervals(void **state)
{
    (void)state;
    static const char *const rows[] = {"vm-a", "rcs0"};
    static const char *const names[] = {"vm-a", "vm-b"};
    /* The axis goes from 220 to 1164. Queue: two lanes of 15; engine: one of 28, 40 below. */
    static const struct vg_svg_interval intervals[] = {
        {1, 0, 5 * S, 12 * S, VG_SVG_RUNNING, "late"},
        {0, 0, 0, 5 * S, VG_SVG_WAITING, "request"},
        {0, 1, 4 * S, 6 * S, VG_SVG_WAITING, NULL},
        {0, 0, 5 * S, 5 * S, VG_SVG_WAITING, "without length"},
        {0, 0, 10 * S, 11 * S, VG_SVG_WAITING, "after the end"},
        {2, 0, 1 * S, 2 * S, VG_SVG_WAITING, "no such row"},
        {0, 0, 8 * S, 7 * S, VG_SVG_WAITING, "backwards"},
    };
    struct vg_svg_timegraph what = {
        "Requests", 0, 10 * S, rows, 2, names, 2, intervals, G_N_ELEMENTS(intervals),
    };
    struct picture picture = draw_timegraph(&what);

    assert_int_equal(picture.n_rects, 3);
    assert_non_null(strstr(picture.svg->str, "<rect class='p0' x='220' y='88.5' width='472' "
                                             "height='14'><title>request: waiting 5.00 s, at "
                                             "0.000000 s</title></rect>"));
    assert_non_null(strstr(picture.svg->str, "<rect class='p1' x='597.6' y='103.5' "
                                             "width='188.8' height='14'><title>waiting 2.00 s, "
                                             "at 4.000000 s</title></rect>"));
    assert_non_null(strstr(picture.svg->str, "<rect class='c0' x='692' y='128.5' width='472' "
                                             "height='27'><title>late: running 7.00 s, at "
                                             "5.000000 s</title></rect>"));
    assert_true(says(&picture, "request"));
    assert_true(says(&picture, "late"));
    assert_true(says(&picture, "vm-b"));
    assert_true(says(&picture, "pale: waiting"));
    assert_true(says(&picture, "full colour: running"));
    clear_picture(&picture);
}

/* A pixel is 1 us, a column of the picture likewise. */
static void
test_drawn_together(void **state)
{
    (void)state;
    static const char *const rows[] = {"rcs0"};
    static const char *const names[] = {"vm-a"};
    static const struct vg_svg_interval close[] = {
        {0, 0, 0, 500, VG_SVG_RUNNING, "1"},
        {0, 0, 500, 750, VG_SVG_RUNNING, "2"},
        {0, 0, 10000, 10010, VG_SVG_RUNNING, "alone"},
    };
    struct vg_svg_interval deep[6];
    struct vg_svg_timegraph what = {"t", 0, 944000, rows, 1, names, 1, close, 3};
    struct picture picture = draw_timegraph(&what);

    /* Three quarters of the first column; the row is from 88 to 116, half a pixel is left free. */
    assert_non_null(strstr(picture.svg->str, "d='M220 115.5V95.3H221V115.5'><title>vm-a, running: "
                                             "drawn together</title>"));
    assert_int_equal(picture.n_rects, 1);
    assert_non_null(strstr(picture.svg->str, "x='230' y='88.5' width='1' height='27'"));
    assert_true(says(&picture, "Where items shorter than 1.50 \xc2\xb5s are close together, the "
                               "height is their share of the time."));
    clear_picture(&picture);

    /* Six at once up to 6 us, one less after each us more: more than there are lanes for. */
    for (int i = 0; i < 6; i++)
        deep[i] = (struct vg_svg_interval){0, 0, 0, 6000 + 1000 * i, VG_SVG_WAITING, "x"};
    what.intervals = deep;
    what.n_intervals = 6;
    picture = draw_timegraph(&what);
    assert_int_equal(picture.n_rects, 0);
    assert_true(says(&picture, "up to 6 together"));
    /* 56 for six, from 144 up. */
    assert_non_null(strstr(picture.svg->str, "d='M220 144V88H226V97.3H227V106.7H228V116H229V125.3"
                                             "H230V134.7H231V144'"));
    clear_picture(&picture);
}

static void
test_steps(void **state)
{
    (void)state;
    static const double first[] = {0.5, (double)NAN, 1, 1};
    static const double second[] = {0.25, 0.25, -1, (double)INFINITY};
    static const struct vg_svg_series series[] = {{"a", 0, first, 4}, {"b", 1, second, 4}};
    static const struct vg_svg_series total = {"all", 0, first, 2};
    static const struct vg_svg_panel panels[] = {
        {"lines", false, series, 2, NULL},
        {"areas", true, series, 2, &total},
    };
    struct vg_svg_utilisation what = {"t", 0, S, panels, 2};
    struct picture picture = draw_utilisation(&what);

    /* Columns of 273 from 72 on; the first panel goes from 302 up to 102. */
    assert_non_null(strstr(picture.svg->str, "<path class='line' stroke='#0072b2' "
                                             "d='M72 202H345M618 102H1164'><title>a: mean "
                                             "83.3 %</title></path>"));
    assert_non_null(strstr(picture.svg->str, "<path class='line' stroke='#e69f00' "
                                             "d='M72 252H618V302H891'>"));
    /* The second from 572 up to 372. */
    assert_non_null(strstr(picture.svg->str, "<path fill='#e69f00' d='M72 572V422H345V522H618V372"
                                             "H1164V572Z'>"));
    assert_non_null(strstr(picture.svg->str, "<path fill='#0072b2' d='M72 572V472H345V572ZM618 "
                                             "572V372H1164V572Z'>"));
    assert_non_null(strstr(picture.svg->str, "<path class='total' d='M72 472H345'>"));
    assert_true(says(&picture, "mean 83.3 %"));
    assert_true(says(&picture, "100 %"));
    assert_true(says(&picture, "all"));
    clear_picture(&picture);
}

static void
test_more_than_all(void **state)
{
    (void)state;
    static const double much[] = {1.5};
    static const struct vg_svg_series series[] = {{"a", 0, much, 1}, {"b", 1, much, 1}};
    static const struct vg_svg_panel panel = {"stack", true, series, 2, NULL};
    struct vg_svg_utilisation what = {"t", 0, S, &panel, 1};
    struct picture picture = draw_utilisation(&what);

    assert_true(says(&picture, "400 %"));
    assert_true(says(&picture, "300 %"));
    clear_picture(&picture);
}

static void
test_nothing(void **state)
{
    (void)state;
    static const char *const rows[] = {"row"};
    static const double values[] = {(double)NAN};
    struct vg_svg_series series[] = {{"a", 0, NULL, 0}};
    struct vg_svg_panel panel = {"empty", true, series, 1, NULL};
    struct vg_svg_utilisation no_panels = {.title = "t"};
    struct vg_svg_utilisation no_values = {"t", 0, S, &panel, 1};
    struct vg_svg_timegraph no_rows = {.title = "t", .end_ns = S};
    struct vg_svg_timegraph no_time = {.title = "t", .rows = rows, .n_rows = 1};
    struct picture pictures[] = {
        draw_utilisation(&no_panels),
        draw_utilisation(&no_values),
        draw_timegraph(&no_rows),
        draw_timegraph(&no_time),
    };
    for (size_t i = 0; i < G_N_ELEMENTS(pictures); i++) {
        assert_true(says(&pictures[i], i < 2 ? "Nothing was measured." : "Nothing was recorded."));
        clear_picture(&pictures[i]);
    }
    series[0] = (struct vg_svg_series){"a", 0, values, 1};
    struct picture picture = draw_utilisation(&no_values);
    assert_non_null(strstr(picture.svg->str, "<title>a: not known</title>"));
    clear_picture(&picture);
}

static void
test_hostile_names(void **state)
{
    (void)state;
    static const char *const rows[] = {HOSTILE, LONG_NAME};
    static const struct vg_svg_interval interval = {0, 0, 0, 9 * S, VG_SVG_RUNNING, HOSTILE};
    static const double values[] = {0.5};
    struct vg_svg_series series[12];
    struct vg_svg_panel panel = {LONG_NAME LONG_NAME, true, series, G_N_ELEMENTS(series), series};
    struct vg_svg_utilisation use = {LONG_NAME LONG_NAME, INT64_MAX - 1, INT64_MAX, &panel, 1};
    struct vg_svg_timegraph graph = {HOSTILE, 0, 10 * S, rows, 2, rows, 2, &interval, 1};

    for (size_t i = 0; i < G_N_ELEMENTS(series); i++)
        series[i] = (struct vg_svg_series){i % 2 ? HOSTILE : LONG_NAME, UINT32_MAX, values, 1};
    for (uint32_t i = 0; i < 10; i++)
        series[i].identity = i;
    struct picture picture = draw_utilisation(&use);
    assert_true(says(&picture, HARMLESS));
    assert_true(says(&picture, "5 others"));
    clear_picture(&picture);

    picture = draw_timegraph(&graph);
    assert_true(says(&picture, HARMLESS));
    xmlNode *title = xmlDocGetRootElement(picture.doc)->children;
    while (title && !is_named(title, "title"))
        title = title->next;
    assert_non_null(title);
    xmlChar *text = xmlNodeGetContent(title);
    assert_string_equal((const char *)text, HARMLESS);
    xmlFree(text);
    clear_picture(&picture);
}

static void
test_extremes(void **state)
{
    (void)state;
    static const char *const rows[] = {"row"};
    static const struct vg_svg_interval intervals[] = {
        {0, UINT32_MAX, INT64_MIN, INT64_MAX, VG_SVG_RUNNING, "ever"},
        {0, 0, INT64_MIN, INT64_MIN + 1, VG_SVG_WAITING, "first"},
        {0, 0, INT64_MAX - 1, INT64_MAX, VG_SVG_WAITING, "last"},
        {UINT32_MAX, 0, 0, 1, VG_SVG_WAITING, "nowhere"},
    };
    static const int64_t ranges[][2] = {
        {INT64_MIN, INT64_MAX},
        {INT64_MIN, INT64_MIN + 1},
        {INT64_MAX - 1, INT64_MAX},
        {0, 1},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(ranges); i++) {
        struct vg_svg_timegraph what = {
            "t", ranges[i][0], ranges[i][1], rows, 1, rows, 1, intervals, 4,
        };
        struct picture picture = draw_timegraph(&what);
        assert_true(picture.n_rects > 0);
        clear_picture(&picture);
    }
}

/* More than there is room for, in different ways: each is drawn, and no picture is too large. */
static void
test_very_many(void **state)
{
    (void)state;
    GRand *rand = chance_rand();
    struct vg_svg_interval *intervals = g_new(struct vg_svg_interval, MANY);
    const char *names[VG_SVG_ROWS_MAX + 9];
    /* For each: rows, longest, whether they follow each other. */
    static const struct {
        uint32_t rows;
        int32_t longest_ns;
        bool follow;
    } cases[] = {
        {1, 1000, false},
        {3, 1000000, false},
        {VG_SVG_ROWS_MAX + 9, 1000000000, false},
        {VG_SVG_ROWS_MAX + 9, 1000000, true},
        {VG_SVG_ROWS_MAX, 1000000000, true},
        {4, 20000, true},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        names[i] = "\"''''''''''''''''''''''''''''''''''''''''''''''''''''''''''''''''''\"";
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        int64_t at[VG_SVG_ROWS_MAX + 9] = {0};
        for (size_t k = 0; k < MANY; k++) {
            struct vg_svg_interval *interval = &intervals[k];
            interval->row = (uint32_t)k % cases[i].rows;
            interval->identity = g_rand_int(rand) % 20;
            interval->kind = g_rand_boolean(rand) ? VG_SVG_WAITING : VG_SVG_RUNNING;
            interval->label = names[0];
            interval->begin_ns =
                cases[i].follow ? at[interval->row] : (int64_t)(g_rand_double(rand) * 1e10);
            interval->end_ns = interval->begin_ns + g_rand_int_range(rand, 1, cases[i].longest_ns);
            at[interval->row] = interval->end_ns;
        }
        struct vg_svg_timegraph what = {
            "t", 0, 10 * S, names, cases[i].rows, names, G_N_ELEMENTS(names), intervals, MANY,
        };
        struct picture picture = draw_timegraph(&what);
        print_message("%u rows: %zu bytes\n", cases[i].rows, picture.svg->len);
        clear_picture(&picture);
    }
    g_free(intervals);
    g_rand_free(rand);
}

/* As many values as there may be windows, of more VMs than there are colours. */
static void
test_many_values(void **state)
{
    (void)state;
    double *values = g_new(double, MANY);
    struct vg_svg_series series[40];
    struct vg_svg_panel panels[VG_SVG_PANELS_MAX + 1];
    struct vg_svg_utilisation what = {"t", 0, S, panels, G_N_ELEMENTS(panels)};

    for (size_t i = 0; i < MANY; i++)
        values[i] = (double)(i * 7919 % 1000) / 40000;
    for (uint32_t i = 0; i < G_N_ELEMENTS(series); i++)
        series[i] = (struct vg_svg_series){"name", i, values + i * 1000, MANY - i * 1000};
    for (size_t i = 0; i < G_N_ELEMENTS(panels); i++)
        panels[i] = (struct vg_svg_panel){"panel", i % 2, series, G_N_ELEMENTS(series), series};
    struct picture picture = draw_utilisation(&what);
    print_message("%zu bytes\n", picture.svg->len);
    assert_true(says(&picture, "33 others"));
    assert_true(says(&picture, "mean of 33 others"));
    clear_picture(&picture);
    g_free(values);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_colours),
        cmocka_unit_test(test_time_axis),
        cmocka_unit_test(test_intervals),
        cmocka_unit_test(test_drawn_together),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_more_than_all),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_very_many),
        cmocka_unit_test(test_many_values),
    };
    return cmocka_run_group_tests_name("svg", tests, NULL, NULL);
}
