/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON helpers: what is refused and what the message says; what is written, to the byte.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "base/error.h"
#include "base/json.h"
#include "tests/unit/chance.h"

static json_object *
parse(const char *text, GError **err)
{
    return vg_json_parse(text, strlen(text), 1000, 3, err);
}

static void
test_accepts(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[\"it's NaN, \\\"Infinity\\\", \\\\u0000\"]",
        "{}",
        " {\"a\":[{}]} \n",
        "[1,2.5,\"x\",null,true]",
        "3 ",
        "3",
        "-0.5e1",
        "true",
        "\"a\"",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autoptr(GError) err = NULL;
        g_autoptr(json_object) value = parse(texts[i], &err);
        if (!value)
            fail_msg("'%s': %s", texts[i], err->message);
    }
}

static void
test_refuses(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        " ",
        "{",
        "{\"a\":1}x",
        "{} {}",
        "/* c */ {}",
        "{\"a\":1,}",
        "[1,]",
        "{\"a\" 1}",
        "[[[[1]]]]", /* depth 4 */
        "\"\xff\"",
        "[nul]",
        "[01]",
        "tru",
        "-",
        "null",
        "{'a':1}",
        "['a']",
        "[NaN]",
        "[-Infinity]",
        "{\"a\\u0000b\":1}",
        "[\"\\u0000\"]",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autoptr(GError) err = NULL;
        g_autoptr(json_object) value = parse(texts[i], &err);
        if (value)
            fail_msg("'%s' was accepted", texts[i]);
        assert_true(g_error_matches(err, VG_ERROR, VG_E_INVALID));
    }
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"", "ends too early, at byte 0"},           {"{\"a\":1", "ends too early, at byte 6"},
        {"{\"a\":5  ", "ends too early, at byte 8"}, {"\"a", "ends too early, at byte 2"},
        {"null", "must be an object, but is null"},  {"null\n", "must be an object, but is null"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) err = NULL;
        assert_null(parse(cases[i].text, &err));
        if (!strstr(err->message, cases[i].message))
            fail_msg("'%s': %s", cases[i].text, err->message);
    }
    g_autoptr(GError) err = NULL;
    assert_null(vg_json_parse("{}\0", 3, 1000, 3, &err));
    assert_non_null(strstr(err->message, "NUL byte at byte 2"));
}

static void
test_limits(void **state)
{
    (void)state;
    g_autoptr(GError) err = NULL;
    g_autoptr(json_object) fits = vg_json_parse("[1,2]", 5, 5, 1, NULL);
    assert_non_null(fits);
    assert_null(vg_json_parse("[1,2]", 5, 4, 1, &err));
    assert_non_null(strstr(err->message, "5 bytes, more than 4"));
    g_autoptr(json_object) deep = parse("[[[1]]]", NULL);
    assert_non_null(deep);
}

static void
test_getters(void **state)
{
    (void)state;
    g_autoptr(json_object) document =
        parse("{\"a\":[{\"i\":5,\"d\":0.5,\"s\":\"abc\",\"b\":true,\"n\":null}]}", NULL);
    struct vg_json_node root = vg_json_root(document);
    struct vg_json_node array;
    struct vg_json_node member;
    int64_t integer = 0;
    double number = 0;
    bool flag = false;
    const char *string = NULL;

    assert_int_equal(vg_json_member(&root, "a", VG_JSON_REQUIRED, &array, NULL), 1);
    assert_int_equal(vg_json_array(&array, 1, NULL), 0);
    struct vg_json_node item = vg_json_item(&array, 0);
    assert_int_equal(vg_json_member(&item, "i", VG_JSON_REQUIRED, &member, NULL), 1);
    assert_int_equal(vg_json_int64(&member, 5, 5, &integer, NULL), 0);
    assert_int_equal(integer, 5);
    assert_int_equal(vg_json_double(&member, 0, 5, &number, NULL), 0);
    assert_true(number == 5.0);
    assert_int_equal(vg_json_member(&item, "b", VG_JSON_REQUIRED, &member, NULL), 1);
    assert_int_equal(vg_json_bool(&member, &flag, NULL), 0);
    assert_true(flag);
    assert_int_equal(vg_json_member(&item, "s", VG_JSON_REQUIRED, &member, NULL), 1);
    assert_int_equal(vg_json_string(&member, 3, &string, NULL), 0);
    assert_string_equal(string, "abc");
    assert_int_equal(vg_json_member(&item, "n", VG_JSON_OPTIONAL, &member, NULL), 0);
    assert_int_equal(vg_json_member(&item, "zz", VG_JSON_OPTIONAL, &member, NULL), 0);
}

/* Member "x" of an item, read as the given type, and the message that is expected. */
static void
test_messages(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        char type;
        const char *message;
    } cases[] = {
        {"{}", 'i', "a[0].x: is missing"},
        {"{\"x\":null}", 'i', "a[0].x: is missing"},
        {"{\"x\":11}", 'i', "a[0].x: 11 is out of range (-3 to 10)"},
        {"{\"x\":-4}", 'i', "out of range"},
        {"{\"x\":1.0}", 'i', "a[0].x: must be a whole number, but is double"},
        {"{\"x\":99999999999999999999}", 'i', "out of range"},
        {"{\"x\":10.5}", 'd', "a[0].x: 10.5 is out of range (-3 to 10)"},
        {"{\"x\":1e999}", 'd', "out of range"},
        {"{\"x\":NaN}", 'd', "out of range"},
        {"{\"x\":\"1\"}", 'd', "must be a number, but is string"},
        {"{\"x\":1}", 's', "must be a string, but is int"},
        {"{\"x\":\"abcd\"}", 's', "a[0].x: the string has 4 bytes, more than 3"},
        {"{\"x\":\"a\\u0000\"}", 's', "contains a NUL"},
        {"{\"x\":0}", 'b', "must be true or false, but is int"},
        {"{\"x\":[]}", 'o', "must be an object, but is array"},
        {"{\"x\":{}}", 'l', "must be an array, but is object"},
        {"{\"x\":[1,2]}", 'l', "a[0].x: 2 items, more than 1"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) err = NULL;
        g_autofree char *text = g_strdup_printf("{\"a\":[%s]}", cases[i].text);
        g_autoptr(json_object) document = vg_json_parse(text, strlen(text), 1000, 8, NULL);
        if (!document)
            continue; /* refused even earlier, by the parser */
        struct vg_json_node root = vg_json_root(document);
        struct vg_json_node array;
        struct vg_json_node x;
        int64_t integer = 77;
        double number = 77;
        const char *string = NULL;
        bool flag = false;
        assert_int_equal(vg_json_member(&root, "a", VG_JSON_REQUIRED, &array, NULL), 1);
        struct vg_json_node item = vg_json_item(&array, 0);
        int result = vg_json_member(&item, "x", VG_JSON_REQUIRED, &x, &err);
        if (result > 0 && cases[i].type == 'i')
            result = vg_json_int64(&x, -3, 10, &integer, &err);
        else if (result > 0 && cases[i].type == 'd')
            result = vg_json_double(&x, -3, 10, &number, &err);
        else if (result > 0 && cases[i].type == 's')
            result = vg_json_string(&x, 3, &string, &err);
        else if (result > 0 && cases[i].type == 'b')
            result = vg_json_bool(&x, &flag, &err);
        else if (result > 0 && cases[i].type == 'o')
            result = vg_json_object(&x, &err);
        else if (result > 0)
            result = vg_json_array(&x, 1, &err);
        assert_int_equal(result, -1);
        if (!strstr(err->message, cases[i].message))
            fail_msg("'%s' does not say '%s'", err->message, cases[i].message);
        assert_true(integer == 77 && number == 77.0);
    }
}

static void
test_doubles(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0.0"},
        {-0.0, "0.0"},
        {1, "1.0"},
        {0.25, "0.25"},
        {1.0 / 3, "0.333333"},
        {-1e-9, "0.0"},
        {100, "100.0"},
        {12345678.5, "12345678.5"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        char buf[VG_JSON_DOUBLE_LEN];
        assert_string_equal(vg_json_format_double(buf, cases[i].value), cases[i].text);
    }
}

/* The same as printf() writes, for numbers of every size, and halves of the last digit. */
static void
test_doubles_like_printf(void **state)
{
    (void)state;
    g_autoptr(GRand) random = chance_rand();

    for (unsigned i = 0; i < chance_rounds(20000, 2000000); i++) {
        char is[VG_JSON_DOUBLE_LEN], like[VG_JSON_DOUBLE_LEN];
        double value = 0;
        switch (i % 4) {
        case 0: {
            const uint64_t bits = (uint64_t)g_rand_int(random) << 32 | g_rand_int(random);
            memcpy(&value, &bits, sizeof(value));
            break;
        }
        case 1:
            value = ldexp(g_rand_double_range(random, -1, 1), g_rand_int_range(random, -40, 34));
            break;
        case 2: /* odd multiples of 2^-7 are halves of a millionth */
            value = (double)g_rand_int_range(random, -1000000, 1000000) / 128;
            break;
        default:
            value = g_rand_int_range(random, -2000000000, 2000000000) / 1e6;
        }
        if (!isfinite(value))
            continue;
        snprintf(like, sizeof(like), "%.6f", value);
        for (size_t n = strlen(like); like[n - 1] == '0' && like[n - 2] != '.'; n--)
            like[n - 1] = '\0';
        assert_string_equal(vg_json_format_double(is, value),
                            strcmp(like, "-0.0") == 0 ? "0.0" : like);
    }
}

static void
test_writing(void **state)
{
    (void)state;
    g_autoptr(json_object) object = json_object_new_object();
    vg_json_add_int64(object, "i", INT64_MIN);
    vg_json_add_double(object, "d", 0.5);
    vg_json_add_double(object, "nan", (double)NAN);
    vg_json_add_bool(object, "b", false);
    vg_json_add_string(object, "s", "a/\"\xff");
    vg_json_add_string(object, "null", NULL);
    g_autofree char *text = vg_json_to_text(object, false);
    assert_string_equal(text, "{\"i\":-9223372036854775808,\"d\":0.5,\"nan\":null,\"b\":false,"
                              "\"s\":\"a/\\\"\xef\xbf\xbd\",\"null\":null}\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_getters),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_doubles_like_printf),
        cmocka_unit_test(test_writing),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
