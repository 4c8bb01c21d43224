/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store-file.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "model/trouble.h"
#include "schema/database.h"

/* A reader waits for a checkpoint or a recovery by another process. The writer tries again after a
 * second anyway. */
#define BUSY_TIMEOUT_MS 250
#define STEPS_PER_LOOK  64

#define PROCESSES_KNOWN_MAX 1024

/* A negative size is in KiB. A day file is appended to and read in order, so few pages are
 * needed. */
#define CACHE_PRAGMA "PRAGMA cache_size = -2000; PRAGMA temp_store = MEMORY"

/* The log is copied into the file from this number of pages: 16 MB, about ten minutes of 100
 * VMs. */
#define LOG_PRAGMA                                                                                 \
 "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 4000; "                                   \
 "PRAGMA journal_size_limit = 16777216"

/* ---- errors ---- */

static int
set_error(const struct vg_store_file *file, int rc, GError **err)
{
    int errnum = file->db ? sqlite3_system_errno(file->db) : 0;
    /* On a read-only file system, sqlite's last call names a file that sqlite could not create. */
    bool tell =
        errnum != 0 && ((rc & 0xff) == SQLITE_IOERR ||
                        ((rc & 0xff) == SQLITE_CANTOPEN && !vg_database_is_read_only(file->path)));
    bool full = (rc & 0xff) == SQLITE_FULL;

    vg_error(err, vg_database_is_damaged(rc) ? VG_E_INVALID : vg_database_code(rc, file->path),
             "cannot %s '%s': %s%s%s (sqlite error %d)%s", file->writing ? "write" : "read",
             file->path, file->db ? sqlite3_errmsg(file->db) : sqlite3_errstr(rc), tell ? ": " : "",
             tell ? g_strerror(errnum) : "", rc,
             full ? "; free space in its file system, or store fewer days"
                  : vg_database_advice(rc, file->path));
    return vg_error_set_detail(err, full ? VG_TROUBLE_DISK_FULL : VG_TROUBLE_NONE);
}

/* ---- statements ---- */

static sqlite3_stmt *
statement_of(struct vg_store_file *file, enum vg_sql sql, GError **err)
{
    sqlite3_stmt **statement = &file->statements[sql];

    if (*statement)
        return *statement;
    int rc = sqlite3_prepare_v3(file->db, vg_sql_text(file->version, sql), -1,
                                SQLITE_PREPARE_PERSISTENT, statement, NULL);
    if (rc != SQLITE_OK)
        set_error(file, rc, err);
    return *statement;
}

static sqlite3_stmt *
query(struct vg_store_file *file, enum vg_sql sql, GError **err, const char *types, va_list args)
{
    sqlite3_stmt *statement = statement_of(file, sql, err);

    if (!statement)
        return NULL;
    for (int i = 0; types[i]; i++) {
        int rc = types[i] == 'i' ? sqlite3_bind_int64(statement, i + 1, va_arg(args, int64_t))
                                 : sqlite3_bind_text(statement, i + 1, va_arg(args, const char *),
                                                     -1, SQLITE_STATIC);
        if (rc != SQLITE_OK) {
            set_error(file, rc, err);
            return NULL;
        }
    }
    return statement;
}

sqlite3_stmt *
vg_store_file_query(struct vg_store_file *file, enum vg_sql sql, GError **err, const char *types,
                    ...)
{
    va_list args;

    va_start(args, types);
    sqlite3_stmt *statement = query(file, sql, err, types, args);
    va_end(args);
    return statement;
}

/* Checks the deadline only now and then: most queries consist of many short steps. */
static bool
is_too_late(struct vg_store_file *file)
{
    return file->deadline_ns != 0 && ++file->steps % STEPS_PER_LOOK == 0 &&
           vg_clock_monotonic_ns() > file->deadline_ns;
}

int
vg_store_file_step(struct vg_store_file *file, sqlite3_stmt *statement, GError **err)
{
    if (is_too_late(file)) {
        sqlite3_reset(statement);
        return vg_error(err, VG_E_TIMEOUT,
                        "reading '%s' takes too long; request a shorter period, or a step of whole "
                        "minutes or hours",
                        file->path);
    }
    int rc = sqlite3_step(statement);

    if (rc == SQLITE_ROW)
        return 1;
    if (rc == SQLITE_DONE)
        rc = SQLITE_OK;
    else
        set_error(file, rc, err);
    sqlite3_reset(statement);
    return rc == SQLITE_OK ? 0 : -1;
}

/* A single changed byte on disk can turn a text into NULL, which sqlite does not detect. */
const char *
vg_store_file_text(struct vg_store_file *file, sqlite3_stmt *statement, int column, GError **err)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);

    if (!text)
        vg_error(err, VG_E_INVALID,
                 "cannot %s '%s': a text value in it is NULL; the file is damaged",
                 file->writing ? "write" : "read", file->path);
    return text;
}

int
vg_store_file_finish(struct vg_store_file *file, sqlite3_stmt *statement, GError **err)
{
    int status = 1;

    while (status > 0)
        status = vg_store_file_step(file, statement, err);
    return status;
}

int
vg_store_file_run(struct vg_store_file *file, enum vg_sql sql, GError **err, const char *types, ...)
{
    va_list args;

    va_start(args, types);
    sqlite3_stmt *statement = query(file, sql, err, types, args);
    va_end(args);
    return statement ? vg_store_file_finish(file, statement, err) : -1;
}

int
vg_store_file_get(struct vg_store_file *file, enum vg_sql sql, int64_t *ret, GError **err,
                  const char *types, ...)
{
    va_list args;

    va_start(args, types);
    sqlite3_stmt *statement = query(file, sql, err, types, args);
    va_end(args);
    int status = statement ? vg_store_file_step(file, statement, err) : -1;
    if (status <= 0)
        return status;
    bool there = sqlite3_column_type(statement, 0) != SQLITE_NULL;
    if (there)
        *ret = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return there;
}

/* ---- names ---- */

static const enum vg_sql find_sql[] = {
    [VG_NAMES_SOURCE] = VG_SQL_SOURCE_FIND,
    [VG_NAMES_VM] = VG_SQL_VM_FIND,
    [VG_NAMES_AGGRESSOR] = VG_SQL_AGGRESSOR_FIND,
    [VG_NAMES_COLLECTOR] = VG_SQL_COLLECTOR_FIND,
};

static const enum vg_sql add_sql[] = {
    [VG_NAMES_SOURCE] = VG_SQL_SOURCE_ADD,
    [VG_NAMES_VM] = VG_SQL_VM_ADD,
    [VG_NAMES_AGGRESSOR] = VG_SQL_AGGRESSOR_ADD,
    [VG_NAMES_COLLECTOR] = VG_SQL_COLLECTOR_ADD,
};

int64_t
vg_store_file_find(struct vg_store_file *file, enum vg_store_names table, const char *key,
                   GError **err)
{
    int64_t id = 0;

    return vg_store_file_get(file, find_sql[table], &id, err, "s", key) < 0 ? -1 : id;
}

/* A cached name. It is the name of a VM, to detect changes. */
struct known {
    int64_t id;
    char name[];
};

static int64_t
add_name(struct vg_store_file *file, enum vg_store_names table, const char *key, const char *name,
         GError **err)
{
    int status =
        vg_store_file_run(file, add_sql[table], err, table == VG_NAMES_VM ? "ss" : "s", key, name);

    return status != 0 ? -1 : sqlite3_last_insert_rowid(file->db);
}

int64_t
vg_store_file_need(struct vg_store_file *file, enum vg_store_names table, const char *key,
                   const char *name, GError **err)
{
    struct known *known = g_hash_table_lookup(file->ids[table], key);
    const char *now = name ? name : "";

    if (known && strcmp(known->name, now) == 0)
        return known->id;
    int64_t id = known ? known->id : vg_store_file_find(file, table, key, err);
    if (id == 0)
        id = add_name(file, table, key, now, err);
    else if (id > 0 && table == VG_NAMES_VM &&
             vg_store_file_run(file, VG_SQL_VM_RENAME, err, "is", id, now) != 0)
        id = -1;
    if (id < 0)
        return -1;
    known = g_malloc(sizeof(*known) + strlen(now) + 1);
    known->id = id;
    strcpy(known->name, now);
    g_hash_table_replace(file->ids[table], g_strdup(key), known);
    return id;
}

int64_t
vg_store_file_need_process(struct vg_store_file *file, const char *key, const char *comm,
                           const char *cgroup, GError **err)
{
    GHashTable *ids = file->ids[VG_NAMES_PROCESS];
    struct known *known = g_hash_table_lookup(ids, key);
    int64_t id = 0;

    if (known)
        return known->id;
    int found = vg_store_file_get(file, VG_SQL_PROCESS_FIND, &id, err, "ss", comm, cgroup);
    if (found < 0 ||
        (found == 0 && vg_store_file_run(file, VG_SQL_PROCESS_ADD, err, "ss", comm, cgroup) != 0))
        return -1;
    if (found == 0)
        id = sqlite3_last_insert_rowid(file->db);
    /* Processes are more numerous than other names, and most do not occur again. */
    if (g_hash_table_size(ids) >= PROCESSES_KNOWN_MAX)
        g_hash_table_remove_all(ids);
    known = g_malloc0(sizeof(*known) + 1);
    known->id = id;
    g_hash_table_insert(ids, g_strdup(key), known);
    return id;
}

/* ---- opening ---- */

static int
execute(struct vg_store_file *file, const char *text, GError **err)
{
    int rc = sqlite3_exec(file->db, text, NULL, NULL, NULL);

    return rc == SQLITE_OK ? 0 : set_error(file, rc, err);
}

/* Returns the first column of a statement that is used only once. */
static int
store_file_get_int(struct vg_store_file *file, const char *text, int *ret, GError **err)
{
    sqlite3_stmt *statement;
    int rc = sqlite3_prepare_v2(file->db, text, -1, &statement, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        *ret = sqlite3_column_int(statement, 0);
    else
        set_error(file, rc, err);
    sqlite3_finalize(statement);
    return rc == SQLITE_ROW ? 0 : -1;
}

bool
vg_store_file_knows(const struct vg_store_file *file, enum vg_sql sql)
{
    return vg_sql_text(file->version, sql) != NULL;
}

/* Upgrades an older or empty file to the newest version, in one transaction, so that it never
 * contains a part of a version. */
static int
migrate(struct vg_store_file *file, GError **err)
{
    int newest = vg_sql_newest_version();

    if (execute(file, "BEGIN IMMEDIATE", err) != 0)
        return -1;
    for (int version = file->version + 1; version <= newest; version++) {
        g_autofree char *script =
            vg_database_script(vg_sql_script(version), sqlite3_libversion_number());
        if (execute(file, script, err) != 0)
            return -1;
    }
    g_autofree char *set = g_strdup_printf("PRAGMA user_version = %d; COMMIT", newest);
    if (execute(file, set, err) != 0)
        return -1;
    file->version = newest;
    return 0;
}

int
vg_store_file_upgrade(struct vg_store_file *file, GError **err)
{
    return file->version < vg_sql_newest_version() ? migrate(file, err) : 0;
}

/* Reads version and tables in one transaction, as another connection may be creating the tables. */
static int
read_version(struct vg_store_file *file, int *ret_tables, GError **err)
{
    if (execute(file, "BEGIN", err) != 0 ||
        store_file_get_int(file, "PRAGMA user_version", &file->version, err) != 0 ||
        store_file_get_int(file, "SELECT count(*) FROM sqlite_schema", ret_tables, err) != 0)
        return -1;
    return execute(file, "COMMIT", err);
}

/* Checks the version before anything is changed. */
static int
check_version(struct vg_store_file *file, GError **err)
{
    int newest = vg_sql_newest_version();
    const char *verb = file->writing ? "write" : "read";
    int tables;

    if (read_version(file, &tables, err) != 0)
        return -1;
    if (file->version > newest)
        return vg_error(err, VG_E_CONFLICT,
                        "cannot %s '%s': a newer vgpud wrote it: it has version %d, and this "
                        "program reads versions up to %d",
                        verb, file->path, file->version, newest);
    if (file->version < 0 || (file->version == 0) != (tables == 0))
        return vg_error(err, VG_E_INVALID, "cannot %s '%s': it is a database, but not vgpud's",
                        verb, file->path);
    if (file->version == 0 && !file->writing)
        return vg_error(err, VG_E_NOT_FOUND, "'%s' has no tables yet", file->path);
    return 0;
}

static int
set_up(struct vg_store_file *file, GError **err)
{
    const char *pragmas = !file->writing ? "PRAGMA query_only = ON"
                          : file->kind == VG_STORE_WINDOWS
                              ? LOG_PRAGMA "; PRAGMA synchronous = NORMAL"
                              : LOG_PRAGMA "; PRAGMA synchronous = FULL";

    if (execute(file, pragmas, err) != 0)
        return -1;
    /* An existing file keeps its version until something is added. */
    if (file->writing && file->version == 0)
        return migrate(file, err);
    return 0;
}

static int
open_db(struct vg_store_file *file, const char *vfs, enum vg_store_mode mode, GError **err)
{
    /* A read-only connection could neither recover a log nor remove it at the end. Readers
     * therefore open the file for writing, and set query_only. */
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    struct stat status;

    if (mode != VG_STORE_CREATE && stat(file->path, &status) != 0 && errno == ENOENT)
        return vg_error(err, VG_E_NOT_FOUND, "'%s' does not exist", file->path);
    if (mode == VG_STORE_CREATE)
        flags |= SQLITE_OPEN_CREATE;
    int rc = sqlite3_open_v2(file->path, &file->db, flags, vfs);
    if (rc != SQLITE_OK)
        return set_error(file, file->db ? sqlite3_extended_errcode(file->db) : rc, err);
    sqlite3_extended_result_codes(file->db, 1);
    sqlite3_busy_timeout(file->db, BUSY_TIMEOUT_MS);
    if (execute(file, CACHE_PRAGMA, err) != 0 || check_version(file, err) != 0 ||
        set_up(file, err) != 0)
        return -1;
    if (stat(file->path, &status) != 0)
        return vg_error_errno(err, errno, "cannot read '%s'", file->path);
    file->device = status.st_dev;
    file->inode = status.st_ino;
    return 0;
}

struct vg_store_file *
vg_store_file_open(const char *directory, const char *vfs, enum vg_store_kind kind, int64_t stamp,
                   enum vg_store_mode mode, GError **err)
{
    struct vg_store_file *file = g_new0(struct vg_store_file, 1);
    char name[VG_STORE_NAME_MAX];

    file->kind = kind;
    file->stamp = stamp;
    file->writing = mode != VG_STORE_READ;
    file->path = g_strdup_printf("%s/%s", directory, vg_store_file_name(kind, stamp, name));
    for (int i = 0; i < VG_NAMES_MAX; i++)
        file->ids[i] = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    if (open_db(file, vfs, mode, err) == 0)
        return file;
    vg_store_file_close(file);
    return NULL;
}

void
vg_store_file_close(struct vg_store_file *file)
{
    if (!file)
        return;
    for (int i = 0; i < VG_SQL_MAX; i++)
        sqlite3_finalize(file->statements[i]);
    for (int i = 0; i < VG_NAMES_MAX; i++)
        g_hash_table_unref(file->ids[i]);
    sqlite3_close(file->db);
    g_free(file->path);
    g_free(file);
}

bool
vg_store_file_is_current(const struct vg_store_file *file)
{
    struct stat status;

    return stat(file->path, &status) == 0 && status.st_dev == file->device &&
           status.st_ino == file->inode;
}
