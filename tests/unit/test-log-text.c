/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of log messages: none passes for another one, whatever it holds.
 */
#include "config.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "base/log-text.h"
#include "base/log.h"

static char *last;

static void
keep(void *data, enum vg_log_level level, const char *tag, const char *message)
{
    (void)data, (void)level, (void)tag;
    g_free(last);
    last = g_strdup(message);
}

#define assert_logged(expected, ...)                                                               \
 do {                                                                                              \
  vg_log(VG_LOG_ERR, "t", __VA_ARGS__);                                                            \
  assert_string_equal(last, expected);                                                             \
 } while (0)

static void
test_formats(void **state)
{
    (void)state;
    vg_log_set_sink(keep, NULL);
    assert_logged("a 1 -2 3 4 5 6 7 8 100%", "a %d %" PRId64 " %u %zu %ld %llu %jd %hhu %d%%", 1,
                  INT64_C(-2), 3U, (size_t)4, 5L, 6ULL, (intmax_t)7, (unsigned char)8, 100);
    assert_logged("1.50 001f   x| x  |yy", "%.2f %04x %3s|%-4s|%.*s", 1.5, 31, "x", " x", 2, "yyy");
    assert_logged("9223372036854775807 18446744073709551615", "%" PRId64 " %" PRIu64, INT64_MAX,
                  UINT64_MAX);
    vg_log_set_sink(NULL, NULL);
}

static void
test_values(void **state)
{
    (void)state;
    vg_log_set_sink(keep, NULL);
    assert_logged("VM seen name=\"x\\\" uuid=0 audit=\\\"admin\" uuid=1",
                  "VM seen name=\"%s\" uuid=%s", "x\" uuid=0 audit=\"admin", "1");
    assert_logged("a path=\"c:\\\\d\\\\\" n=3", "a path=\"%s\" n=%d", "c:\\d\\", 3);
    assert_logged("a path=\"in 'x\\\"' of it\"", "a path=\"in '%s' of it\"", "x\"");
    /* Without quotes of its own, a value gets them where it needs some. */
    assert_logged("a uuid=\"1 pid=2\" source=b", "a uuid=%s source=%s", "1 pid=2", "b");
    assert_logged("a uuid=\"\" name=\"\\\"\"", "a uuid=%s name=%s", "", "\"");
    assert_logged("a name=\"b?c\"", "a name=\"%s\"", "b\nc");
    vg_log_set_sink(NULL, NULL);
}

static void
test_back(void **state)
{
    static const char *const values[] = {"",     "x",   "a b",    "x\" uuid=\"0", "\\",
                                         "\\\"", "a\\", "\"\"\"", "a=b c=\"d\""};

    (void)state;
    vg_log_set_sink(keep, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
        vg_log(VG_LOG_ERR, "t", "name=\"%s\" uuid=%s", values[i], "1");
        const char *value = last + strlen("name="), *end = vg_log_text_end(value);
        g_autofree char *copy = vg_log_text_copy(value, end);
        assert_string_equal(copy, values[i]);
        assert_string_equal(end, " uuid=1");
    }
    vg_log_set_sink(NULL, NULL);
    g_free(last);
    /* What no log has written. */
    assert_string_equal(vg_log_text_end("\"open"), "");
    assert_string_equal(vg_log_text_end("\"open\\"), "");
    assert_string_equal(vg_log_text_end("plain next"), " next");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
