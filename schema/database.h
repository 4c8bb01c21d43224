/* SPDX-License-Identifier: Apache-2.0
 *
 * Interpretation of sqlite errors, shared by the databases of store and journal. Any thread.
 */
#ifndef VG_SCHEMA_DATABASE_H
#define VG_SCHEMA_DATABASE_H

#include <stdbool.h>

#include "base/error.h"

/* Returns whether the error means that the file is damaged, or is not a vgpud database. */
bool vg_database_is_damaged(int rc);

/* Returns the code of an error of the database with this path. It is VG_E_IO unless sqlite reports
 * that permissions are missing, which they are not on a read-only file system, or that another
 * process uses the file. */
enum vg_error_code vg_database_code(int rc, const char *path);

/* Returns whether the file system of a database, which may not exist, is mounted read-only. */
bool vg_database_is_read_only(const char *path);

/* Returns what to do about an error of the database with this path, as the end of a sentence, or
 * "". */
const char *vg_database_advice(int rc, const char *path);

/* Returns a script of schema/ for this version of sqlite, a number as from
 * sqlite3_libversion_number(). The script for versions before 3.37 has no STRICT tables. The caller
 * frees it. */
char *vg_database_script(const char *script, int sqlite_version);

#endif
