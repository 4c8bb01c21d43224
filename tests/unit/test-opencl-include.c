/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that a source of OpenCL includes, in the places of their lines.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <glib.h>
#include <glib/gstdio.h>

#include "opencl/track/include.h"

static char *folder;

static void
put(const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);

    assert_true(g_file_set_contents(path, text, -1, NULL));
}

static int
set_up(void **state)
{
    (void)state;
    folder = g_dir_make_tmp("vgpu-include-XXXXXX", NULL);
    return chdir(folder);
}

static int
tear_down(void **state)
{
    g_autofree char *command = g_strdup_printf("rm -r '%s'", folder);

    (void)state;
    g_free(folder);
    return chdir("/") != 0 || !g_spawn_command_line_sync(command, NULL, NULL, NULL, NULL);
}

/* NULL: the source stays as it is. */
static void
assert_becomes(const char *source, const char *options, const char *expected)
{
    char *text = vg_cl_include(source, options, NULL, 0);

    if (expected)
        assert_string_equal(text, expected);
    else
        assert_null(text);
    free(text);
}

static void
test_where(void **state)
{
    (void)state;
    put("here.h", "H");
    assert_int_equal(g_mkdir("a", 0700), 0);
    assert_int_equal(g_mkdir("a b", 0700), 0);
    put("a/one.h", "A\n");
    put("a b/one.h", "AB\n");
    assert_becomes("x\n#include \"here.h\"\ny", NULL,
                   "x\n#line 1 \"here.h\"\nH\n#line 3 \"program.cl\"\ny");
    /* In the order of the folders; the working directory comes last, and for "..." alone. */
    assert_becomes("#include <one.h>", "-Ia -I 'a b'",
                   "#line 1 \"a/one.h\"\nA\n#line 2 \"program.cl\"\n");
    assert_becomes("#include \"one.h\"", "-DX=1 -I \"a b\" -I a",
                   "#line 1 \"a b/one.h\"\nAB\n#line 2 \"program.cl\"\n");
    assert_becomes("#include <here.h>", "-I a", NULL);
    assert_becomes("#include <here.h>", "-I", NULL);
    assert_becomes("#include \"one.h\"", NULL, NULL);
    /* A folder, and what is no file's name. */
    assert_becomes("#include \"a\"\n#include \"\"\n#include\n#include HERE\n", "-I.", NULL);
}

static void
test_which_lines(void **state)
{
    static const char *const none[] = {
        "// #include \"h\"\n",     "/* #include \"h\"\n#include \"h\"\n*/",
        "\"/*\" #include \"h\"\n", "a \\\n#include \"h\"\n",
        "#includes \"h\"\n",       "#import \"h\"\n",
        "x #include \"h\"\n",      "#include \"h\n",
    };

    (void)state;
    put("h", "H\n");
    for (size_t i = 0; i < G_N_ELEMENTS(none); i++)
        assert_becomes(none[i], "-I.", NULL);
    assert_becomes(" /* a */ # /* b */ include /**/ <h> // c\r\n'\\'' /* \" */\n#include\"h\"",
                   "-I.",
                   "#line 1 \"./h\"\nH\n#line 2 \"program.cl\"\n'\\'' /* \" */\n"
                   "#line 1 \"./h\"\nH\n#line 4 \"program.cl\"\n");
}

/* Those that include each other end, and those that would not are left to the compiler. */
static void
test_circles(void **state)
{
    (void)state;
    put("once.h", "#pragma once\nO\n#include \"once.h\"\n");
    put("guard.h", "/* of\nG */\n#ifndef G\n#define G\n#include \"guard.h\"\n#endif\n");
    put("late.h", "L\n#ifndef G\n#define G\n#include \"late.h\"\n#endif\n");
    put("self.h", "#include \"self.h\"\n");
    assert_becomes("#include \"once.h\"\n", NULL,
                   "#ifndef VGPU_OPENCL_ONCE_0\n#define VGPU_OPENCL_ONCE_0\n"
                   "#line 1 \"once.h\"\n\nO\n#line 4 \"once.h\"\n#endif\n#line 2 \"program.cl\"\n");
    assert_becomes(
        "#include \"guard.h\"\n", NULL,
        "#line 1 \"guard.h\"\n/* of\nG */\n#ifndef G\n#define G\n#line 6 \"guard.h\"\n#endif\n"
        "#line 2 \"program.cl\"\n");
    assert_becomes("#include \"late.h\"\n", NULL, NULL);
    assert_becomes("#include \"self.h\"\n", NULL, NULL);
}

static void
test_limits(void **state)
{
    g_autofree char *large = g_malloc(VG_CL_INCLUDE_MAX + 1);
    const char *const names[] = {"header.h"};
    const char nul[] = {'a', '\0', 'b'};

    (void)state;
    put("header.h", "H\n");
    put("other.h", "#include \"header.h\"\n");
    char *text = vg_cl_include("#include \"header.h\"\n#include \"other.h\"\n", "-I .", names, 1);
    assert_string_equal(text,
                        "#include \"header.h\"\n#line 1 \"./other.h\"\n#include \"header.h\"\n"
                        "#line 3 \"program.cl\"\n");
    free(text);
    assert_true(g_file_set_contents("nul.h", nul, sizeof nul, NULL));
    assert_becomes("#include \"nul.h\"\n", NULL, NULL);
    assert_int_equal(mkfifo("fifo.h", 0600), 0);
    assert_becomes("#include \"fifo.h\"\n", NULL, NULL);
    memset(large, 'x', VG_CL_INCLUDE_MAX);
    large[VG_CL_INCLUDE_MAX] = '\0';
    put("large.h", large);
    assert_becomes("#include \"large.h\"\n", NULL, NULL);
    /* The last: from then on, this process reads none. */
    vg_cl_include_forbid();
    assert_becomes("#include \"header.h\"\n", NULL, NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_where, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_which_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_circles, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_limits, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
