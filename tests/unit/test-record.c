/* SPDX-License-Identifier: Apache-2.0
 *
 * Records read from text equal those read from a tree of json-c.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "base/record.h"
#include "tests/unit/chance.h"

#define DEPTH_MAX 6
#define TEXT_MAX  4096

struct part {
    double share;
    char *name;
};

enum kind { KIND_ONE, KIND_TWO };
static const char *const kind_names[] = {"one", "two", NULL};

struct thing {
    char *name;
    int64_t count;
    double share;
    bool on;
    enum kind kind;
    GPtrArray *groups;
    GArray *cpus;
    GArray *values;
    struct part part;
    GPtrArray *parts;
    uint64_t present;
};

#define THIS part
static const struct vg_field part_fields[] = {
    VG_ROW_DOUBLE(share, VG_FIELD_REQUIRED, -1e308, 1e308),
    VG_ROW_STRING(name, 0, 0, 20),
};
static const struct vg_record_type part_record = VG_ROW_TYPE(part_fields);
#undef THIS

#define THIS thing
static const struct vg_field thing_fields[] = {
    VG_ROW_STRING(name, VG_FIELD_REQUIRED, 1, 12),
    VG_ROW_INT(count, 0, -1000, (double)VG_JSON_INT_MAX),
    VG_ROW_DOUBLE(share, 0, -1e308, 1e308),
    VG_ROW_BOOL(on, 0),
    VG_ROW_ENUM("kind", kind, 0, kind_names),
    VG_ROW_STRINGS(groups, 0, 8, 3),
    VG_ROW_INTS(cpus, 0, 255, 4),
    VG_ROW_DOUBLES(values, 0, 100, 5),
    VG_ROW_PART(part, 0, &part_record),
    VG_ROW_LIST(parts, 0, 2, &part_record),
};
static const struct vg_record_type thing_record = VG_ROW_TYPE_PRESENT(thing_fields, present);
#undef THIS

static struct thing *
read_by_text(const char *text)
{
    return vg_record_read_text(&thing_record, text, strlen(text), DEPTH_MAX);
}

static struct thing *
read_by_tree(const char *text)
{
    g_autoptr(json_object) tree = vg_json_parse(text, strlen(text), TEXT_MAX, DEPTH_MAX, NULL);
    struct vg_json_node root = vg_json_root(tree);

    return tree ? vg_record_read(&thing_record, &root, NULL) : NULL;
}

static char *
hash_of(const struct thing *thing)
{
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);

    vg_record_hash(&thing_record, thing, false, checksum);
    return g_strdup(g_checksum_get_string(checksum));
}

/* Returns whether a text has an escaped character such as U+1DE00, whose low 16 bits look like a
 * surrogate: json-c 0.16 reads U+FFFD for these. */
static bool
json_c_misreads(const char *text)
{
    for (const char *at = text; (at = strstr(at, "\\u")); at++) {
        unsigned high = 0, low = 0;
        if (sscanf(at, "\\u%4x\\u%4x", &high, &low) == 2 && (high & 0xfc00) == 0xd800 &&
            (low & 0xfc00) == 0xdc00 &&
            ((((high & 0x3ff) << 10) + (low & 0x3ff)) & 0xf800) == 0xd800)
            return true;
    }
    return false;
}

/* Returns whether the text reader accepts a text. The tree must then have the same. */
static bool
check_same(const char *text)
{
    struct thing *quick = read_by_text(text), *slow = read_by_tree(text);

    if (quick && !slow)
        fail_msg("accepted, and the tree refuses it: %s", text);
    const bool accepted = quick != NULL;
    if (accepted && !json_c_misreads(text)) {
        g_autofree char *a = hash_of(quick), *b = hash_of(slow);
        if (strcmp(a, b) != 0 || quick->present != slow->present ||
            memcmp(&quick->share, &slow->share, sizeof(double)) != 0)
            fail_msg("read differently: %s", text);
    }
    vg_record_free(&thing_record, quick);
    vg_record_free(&thing_record, slow);
    return accepted;
}

static const char *const plain[] = {
    "{\"name\":\"a\"}",
    " {\n\t\"name\" : \"a\" , \"share\" : 0.25 }\r\n",
    "{\"name\":\"a\",\"count\":-1000,\"share\":-1.5e3,\"on\":true,\"kind\":\"two\"}",
    "{\"kind\":\"one\",\"on\":false,\"share\":7,\"count\":4611686018427387,\"name\":\"a\"}",
    "{\"name\":\"a\",\"groups\":[\"x\",\"y\",\"\"],\"cpus\":[0,255],\"values\":[0,1.25,99.999999]}",
    "{\"name\":\"a\",\"groups\":[],\"cpus\":[ ],\"values\":[],\"parts\":[]}",
    "{\"name\":\"a\",\"part\":{\"share\":1,\"name\":\"\"},\"parts\":[{\"share\":2},{\"share\":3}]}",
    "{\"name\":\"a\",\"more\":{\"x\":[1,{\"y\":null}],\"z\":\"\\u00e9\"},\"l\":[true,false,-0.5]}",
    "{\"name\":\"a\",\"share\":null,\"groups\":null,\"part\":null}",
    "{\"name\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}",
    "{\"name\":\"\\u00fc\\ud83d\\ude00\"}",
    "{\"name\":\"B\xc3\xbcro \xf0\x9f\x98\x80\"}",
    "{\"n\\u0061me\":\"a\"}",
};

static const char *const odd[] = {
    "",
    "[]",
    "null",
    "{}",
    "{\"name\":\"a\"",
    "{\"name\":\"a\"}x",
    "{\"name\":\"a\",}",
    "{\"name\":\"a\" \"count\":1}",
    "{\"name\":\"\"}",
    "{\"name\":\"1234567890123\"}",
    "{\"name\":\"a\x01\"}",
    "{\"name\":\"\xc3\"}",
    "{\"name\":\"\\u0000\"}",
    "{\"name\":\"\\ud83d\"}",
    "{\"name\":\"\\ude00\"}",
    "{\"name\":\"\\x\"}",
    "{\"name\":\"a\",\"name\":\"b\"}",
    "{\"name\":\"a\",\"name\":null}",
    "{\"name\":\"a\",\"count\":1.0}",
    "{\"name\":\"a\",\"count\":-1001}",
    "{\"name\":\"a\",\"count\":9223372036854775808}",
    "{\"name\":\"a\",\"count\":-0}",
    "{\"name\":\"a\",\"share\":01}",
    "{\"name\":\"a\",\"share\":.5}",
    "{\"name\":\"a\",\"share\":5.}",
    "{\"name\":\"a\",\"share\":1e}",
    "{\"name\":\"a\",\"share\":1e999}",
    "{\"name\":\"a\",\"share\":NaN}",
    "{\"name\":\"a\",\"share\":\"1\"}",
    "{\"name\":\"a\",\"on\":1}",
    "{\"name\":\"a\",\"kind\":\"three\"}",
    "{\"name\":\"a\",\"groups\":[null]}",
    "{\"name\":\"a\",\"groups\":[\"1\",\"2\",\"3\",\"4\"]}",
    "{\"name\":\"a\",\"groups\":[\"123456789\"]}",
    "{\"name\":\"a\",\"cpus\":[256]}",
    "{\"name\":\"a\",\"cpus\":[1,]}",
    "{\"name\":\"a\",\"values\":[100.5]}",
    "{\"name\":\"a\",\"values\":[1,2,3,4,5,6]}",
    "{\"name\":\"a\",\"values\":{}}",
    "{\"name\":\"a\",\"part\":{}}",
    "{\"name\":\"a\",\"parts\":[{\"share\":1},{\"share\":1},{\"share\":1}]}",
    "{\"name\":\"a\",\"more\":[[[[[[1]]]]]]}",
    "{\"name\":\"a\",\"more\":'x'}",
    "{\"name\":\"a\",/* */\"count\":1}",
};

static void
test_plain(void **state)
{
    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(plain); i++) {
        if (!check_same(plain[i]))
            fail_msg("not accepted: %s", plain[i]);
    }
}

static void
test_odd(void **state)
{
    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(odd); i++) {
        if (check_same(odd[i]))
            fail_msg("accepted: %s", odd[i]);
    }
}

/* Both readers give the same number, to the last bit. */
static void
test_numbers(void **state)
{
    (void)state;
    g_autoptr(GRand) rand = chance_rand();
    unsigned n_accepted = 0;

    for (unsigned i = 0; i < 20000; i++) {
        g_autoptr(GString) text = g_string_new("{\"name\":\"a\",\"share\":");
        const int whole = g_rand_int_range(rand, 0, 20), part = g_rand_int_range(rand, 0, 25);
        g_string_append(text, g_rand_boolean(rand) ? "-" : "");
        for (int d = 0; d < MAX(whole, 1); d++)
            g_string_append_c(text, (char)('0' + g_rand_int_range(rand, whole > 1 && d == 0, 10)));
        for (int d = 0; d < part; d++)
            g_string_append_printf(text, "%s%d", d == 0 ? "." : "", g_rand_int_range(rand, 0, 10));
        if (g_rand_int_range(rand, 0, 4) == 0)
            g_string_append_printf(text, "e%d", g_rand_int_range(rand, -300, 280));
        g_string_append_c(text, '}');
        n_accepted += check_same(text->str);
    }
    assert_true(n_accepted > 15000);
}

/* Plain texts with bytes changed, left out or put in. */
static void
test_damaged(void **state)
{
    static const char bytes[] = "{}[]\",:\\ueE+-.0123456789 ntf\x01\x80\xc3";

    (void)state;
    g_autoptr(GRand) rand = chance_rand();
    for (unsigned i = 0; i < chance_rounds(20000, 1000000); i++) {
        const char *from = plain[g_rand_int_range(rand, 0, G_N_ELEMENTS(plain))];
        g_autoptr(GString) text = g_string_new(from);
        for (int n = g_rand_int_range(rand, 1, 4); n > 0 && text->len > 0; n--) {
            const gssize at = g_rand_int_range(rand, 0, (gint32)text->len);
            const char byte = bytes[g_rand_int_range(rand, 0, sizeof(bytes) - 1)];
            if (g_rand_boolean(rand))
                g_string_erase(text, at, 1);
            if (g_rand_boolean(rand))
                g_string_insert_c(text, at, byte);
        }
        check_same(text->str);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_odd),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
