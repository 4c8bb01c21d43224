/* SPDX-License-Identifier: Apache-2.0
 *
 * Scripts of the databases as older versions of sqlite accept them.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>
#include <sqlite3.h>

#include "schema/database.h"
#include "schema/schema.h"

static const char *const scripts[] = {vg_schema_ts_001,    vg_schema_ts_002,    vg_schema_ts_003,
                                      vg_schema_ts_004,    vg_schema_state_001, vg_schema_state_002,
                                      vg_schema_state_003, vg_schema_state_004, vg_schema_state_005,
                                      vg_schema_state_006, vg_schema_state_007};

/* Returns the number of STRICT tables after a kind of scripts. */
static int
strict_tables(const char *const *kind, size_t n, int sqlite_version)
{
    sqlite3 *db;
    sqlite3_stmt *count;

    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    for (size_t i = 0; i < n; i++) {
        g_autofree char *script = vg_database_script(kind[i], sqlite_version);
        assert_int_equal(sqlite3_exec(db, script, NULL, NULL, NULL), SQLITE_OK);
    }
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT count(*) FROM sqlite_schema WHERE sql LIKE "
                                        "'%STRICT%'",
                                        -1, &count, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(count), SQLITE_ROW);
    int tables = sqlite3_column_int(count, 0);
    sqlite3_finalize(count);
    sqlite3_close(db);
    return tables;
}

static void
test_older(void **state)
{
    (void)state;
    assert_int_equal(strict_tables(scripts, 4, 3036000), 0);
    assert_int_equal(strict_tables(scripts + 4, 7, 3036000), 0);
}

static void
test_this_one(void **state)
{
    (void)state;
    bool strict = sqlite3_libversion_number() >= 3037000;
    assert_int_equal(strict_tables(scripts, 4, sqlite3_libversion_number()) > 0, strict);
    assert_int_equal(strict_tables(scripts + 4, 7, sqlite3_libversion_number()) > 0, strict);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_older),
        cmocka_unit_test(test_this_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
