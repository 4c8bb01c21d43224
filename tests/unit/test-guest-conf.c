/* SPDX-License-Identifier: Apache-2.0
 *
 * What the agent's configuration file sets. What it says of a wrong one: tests/guest/test_conf.py.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "guest/conf.h"

/* The configuration of a file with this text, with the units joined by blanks. */
static struct vg_guest_config
read_text(const char *text, char *ret_units, size_t size)
{
    char path[] = "/tmp/test-guest-conf-XXXXXX";
    struct vg_guest_config config = {.root = "/nowhere", .hooks = "stays"};
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    assert_int_equal(vg_guest_config_read(&config, path), 0);
    unlink(path);
    assert_string_equal(config.hooks, "stays");
    ret_units[0] = '\0';
    for (size_t i = 0; i < config.n_units; i++)
        snprintf(ret_units + strlen(ret_units), size - strlen(ret_units), "%s%s", i ? " " : "",
                 config.units[i]);
    vg_guest_config_clear(&config);
    return config;
}

#define DEFAULT_UNITS                                                                              \
 "nvidia-dcgm-exporter.service dcgm-exporter.service nvidia-dcgm.service dcgm.service "            \
 "nvidia-persistenced.service"

static void
test_defaults(void **state)
{
    char units[1024];
    struct vg_guest_config config = read_text("", units, sizeof units);

    (void)state;
    assert_false(config.cuda_unwatched_allowed);
    assert_true(config.cuda_release_forked);
    assert_true(config.cuda_huge_pages);
    assert_true(config.cuda_hold_faults);
    assert_false(config.cuda_faults_allowed);
    assert_string_equal(units, DEFAULT_UNITS);

    /* The default file is not there. */
    struct vg_guest_config none = {.root = "/nowhere"};
    assert_int_equal(vg_guest_config_read(&none, NULL), 0);
    assert_true(none.cuda_huge_pages);
    assert_int_equal(none.n_units, 5);
    vg_guest_config_clear(&none);
}

static void
test_values(void **state)
{
    char units[1024];
    struct vg_guest_config config = read_text("# a comment\n"
                                              "[cuda]\n"
                                              "  unwatched = allow\n"
                                              "\tforked=refuse ; another one\n"
                                              "huge_pages=no\n"
                                              "hold_faults=no\n"
                                              "driver_faults=allow\n"
                                              "[units]\r\n"
                                              "stop=b.service  a@1.service\tc.socket\r\n",
                                              units, sizeof units);

    (void)state;
    assert_true(config.cuda_unwatched_allowed);
    assert_false(config.cuda_release_forked);
    assert_false(config.cuda_huge_pages);
    assert_false(config.cuda_hold_faults);
    assert_true(config.cuda_faults_allowed);
    assert_string_equal(units, "b.service a@1.service c.socket");
}

static void
test_units(void **state)
{
    char units[1024];

    (void)state;
    read_text("[units]\nstop=a.service\nstop=b.service c.service\n", units, sizeof units);
    assert_string_equal(units, "a.service b.service c.service");
    read_text("[units]\nstop=\n", units, sizeof units);
    assert_string_equal(units, "");
    read_text("[units]\nstop=a.service\nstop=\nstop=b.service\n", units, sizeof units);
    assert_string_equal(units, "b.service");
    read_text("[units]\n[cuda]\nforked=release\n", units, sizeof units);
    assert_string_equal(units, DEFAULT_UNITS);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_units),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
