/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "journal/journal-db.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "schema/database.h"
#include "schema/schema.h"

#define VG_LOG_TAG "journal"

/* The lock file next to the store's `lock`. The process that writes the files holds it. */
#define LOCK_NAME "state.lock"

/* Another program may occasionally read the file with sqlite3, but none writes to it. */
#define BUSY_TIMEOUT_MS 1000

struct journal_db {
    sqlite3 *db;
    char *path;
    int lock_fd;
    /* the device and inode of the opened file; another file may have its name now */
    dev_t device;
    ino_t inode;
    /* the length of the write-ahead log at the last commit, or 0 if unknown */
    int wal_pages;
    int64_t room_bytes; /* the space reserved for moves */
    /* the size to which the log can grow within its allocated space */
    int64_t wal_has_room;
};

/* The size of a page in the log with its header, for sqlite's default page size. */
#define WAL_PAGE_BYTES (4096 + 24)
/* More than the space for one transaction that does not belong to a move. */
#define SPARE_BYTES (INT64_C(1) << 20)
/* The number of pages after which the log is copied into the database. This is sqlite's own
 * default. */
#define WAL_PAGES_MAX 1000

/* The script that upgrades the previous version to each version. */
static const char *const journal_db_scripts[] = {NULL,
                                                 vg_schema_state_001,
                                                 vg_schema_state_002,
                                                 vg_schema_state_003,
                                                 vg_schema_state_004,
                                                 vg_schema_state_005,
                                                 vg_schema_state_006,
                                                 vg_schema_state_007};
#define NEWEST_VERSION ((int)G_N_ELEMENTS(journal_db_scripts) - 1)

/* ---- errors ---- */

static int
journal_db_error(const struct journal_db *db, int rc, GError **err)
{
    bool taken = (rc & 0xff) == SQLITE_CONSTRAINT;
    const char *damaged =
        "; it is damaged: stop vgpud, keep a copy, and restore a backup, or move the file away to "
        "start without tokens and plans";

    return vg_error(err,
                    taken                        ? VG_E_CONFLICT
                    : vg_database_is_damaged(rc) ? VG_E_UNUSABLE
                                                 : vg_database_code(rc, db->path),
                    "the journal '%s': %s (sqlite error %d)%s", db->path,
                    db->db ? sqlite3_errmsg(db->db) : sqlite3_errstr(rc), rc,
                    vg_database_is_damaged(rc) ? damaged : vg_database_advice(rc, db->path));
}

/* ---- statements ---- */

static int
journal_db_bind(sqlite3_stmt *statement, int at, char type, va_list *args)
{
    switch (type) {
    case 'i':
        return sqlite3_bind_int64(statement, at, va_arg(*args, int64_t));
    case 's':
        return sqlite3_bind_text(statement, at, va_arg(*args, const char *), -1, SQLITE_STATIC);
    case 'b': {
        const void *data = va_arg(*args, const void *);
        return sqlite3_bind_blob64(statement, at, data, va_arg(*args, size_t), SQLITE_STATIC);
    }
    default:
        return sqlite3_bind_null(statement, at);
    }
}

static sqlite3_stmt *
journal_db_prepare(struct journal_db *db, GError **err, const char *sql, const char *types,
                   va_list *args)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db->db, sql, -1, &statement, NULL);

    for (int i = 0; rc == SQLITE_OK && types[i]; i++)
        rc = journal_db_bind(statement, i + 1, types[i], args);
    if (rc == SQLITE_OK)
        return statement;
    journal_db_error(db, rc, err);
    sqlite3_finalize(statement);
    return NULL;
}

sqlite3_stmt *
journal_db_query(struct journal_db *db, GError **err, const char *sql, const char *types, ...)
{
    va_list args;

    va_start(args, types);
    sqlite3_stmt *statement = journal_db_prepare(db, err, sql, types, &args);
    va_end(args);
    return statement;
}

int
journal_db_step(struct journal_db *db, sqlite3_stmt *statement, GError **err)
{
    int rc = sqlite3_step(statement);

    if (rc == SQLITE_ROW)
        return 1;
    return rc == SQLITE_DONE ? 0 : journal_db_error(db, rc, err);
}

void
journal_db_end(sqlite3_stmt *statement)
{
    sqlite3_finalize(statement);
}

const char *
journal_db_text(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);

    return text ? text : "";
}

int
journal_db_run(struct journal_db *db, int *ret_changes, GError **err, const char *sql,
               const char *types, ...)
{
    va_list args;
    int status = 1;

    va_start(args, types);
    sqlite3_stmt *statement = journal_db_prepare(db, err, sql, types, &args);
    va_end(args);
    if (!statement)
        return -1;
    while (status > 0)
        status = journal_db_step(db, statement, err);
    journal_db_end(statement);
    if (status == 0 && ret_changes)
        *ret_changes = sqlite3_changes(db->db);
    return status;
}

int
journal_db_list(struct journal_db *db, sqlite3_stmt *take_statement,
                void *(*read_row)(sqlite3_stmt *statement, GError **err), GDestroyNotify free_row,
                void **ret, GError **err)
{
    g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func(free_row);
    int status = take_statement ? 1 : -1;

    while (status > 0 && (status = journal_db_step(db, take_statement, err)) > 0) {
        g_autoptr(GError) error = NULL;
        void *row = read_row(take_statement, &error);
        if (row)
            g_ptr_array_add(list, row);
        if (error)
            vg_log_warn_limited("%s; the others are listed without it", error->message);
    }
    journal_db_end(take_statement);
    if (status == 0)
        *ret = g_steal_pointer(&list);
    return status;
}

/* ---- room ---- */

/* Records the length of the log. */
static int
journal_db_on_commit(void *arg, sqlite3 *sqlite, const char *name, int pages)
{
    struct journal_db *db = arg;

    db->wal_pages = pages;
    if (pages >= WAL_PAGES_MAX)
        sqlite3_wal_checkpoint_v2(sqlite, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return SQLITE_OK;
}

/* Allocates space in the file system after the end of the log. Fails with EOPNOTSUPP if it does not
 * support this. */
static int
journal_db_allocate(struct journal_db *db, int fd, int64_t bytes)
{
    struct stat status;

    if (fstat(fd, &status) != 0)
        return errno;
    const int64_t end =
        db->wal_pages > 0 ? (int64_t)db->wal_pages * WAL_PAGE_BYTES : (int64_t)status.st_size;
    if (end + bytes <= db->wal_has_room)
        return 0;
    if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, end + bytes) != 0)
        return errno;
    db->wal_has_room = end + bytes;
    return 0;
}

/* Ensures that the log can grow by this number of bytes. */
static int
journal_db_need_room(struct journal_db *db, int64_t bytes, GError **err)
{
    g_autofree char *path = g_strconcat(db->path, "-wal", NULL);
    int persists = 1;

    /* The log and its allocated space must persist after this connection is closed. */
    sqlite3_file_control(db->db, "main", SQLITE_FCNTL_PERSIST_WAL, &persists);
    const int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    const int number = fd < 0 ? errno : journal_db_allocate(db, fd, bytes);
    if (fd >= 0)
        close(fd);
    if (number == ENOSPC || number == EDQUOT)
        return vg_error(err, VG_E_REFUSED,
                        "the disk that holds '%s' is full: the journal's remaining space is "
                        "reserved for VM moves",
                        db->path);
    if (number != 0)
        vg_log_warn_limited("cannot reserve space for moves path=\"%s\" reason=\"%s\"", path,
                            g_strerror(number));
    return 0;
}

int
journal_db_keep_room(struct journal_db *db, int64_t bytes, GError **err)
{
    db->room_bytes = bytes;
    return bytes > 0 ? journal_db_need_room(db, bytes, err) : 0;
}

int
journal_db_spare_room(struct journal_db *db, GError **err)
{
    return db->room_bytes > 0 ? journal_db_need_room(db, db->room_bytes + SPARE_BYTES, err) : 0;
}

int
journal_db_changes(const struct journal_db *db)
{
    return sqlite3_total_changes(db->db);
}

/* ---- opening ---- */

static int
journal_db_execute(struct journal_db *db, const char *sql, GError **err)
{
    int rc = sqlite3_exec(db->db, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? 0 : journal_db_error(db, rc, err);
}

static int
journal_db_lock(struct journal_db *db, const char *directory, GError **err)
{
    g_autofree char *path = g_strdup_printf("%s/" LOCK_NAME, directory);

    if (mkdir(directory, 0750) != 0 && errno != EEXIST)
        return vg_error_errno(err, errno, "cannot create the directory '%s'", directory);
    db->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (db->lock_fd < 0)
        return vg_error_errno(err, errno, "cannot write '%s'", path);
    if (flock(db->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno != EWOULDBLOCK)
        return vg_error_errno(err, errno, "cannot lock '%s'", path);
    return vg_error(err, VG_E_BUSY,
                    "another vgpud has its journal in '%s': one of them needs another directory",
                    directory);
}

/* Reads the first column of the first row. */
static int
journal_db_int(struct journal_db *db, const char *sql, int *ret, GError **err)
{
    sqlite3_stmt *statement = journal_db_query(db, err, sql, "");
    int status = statement ? journal_db_step(db, statement, err) : -1;

    if (status > 0)
        *ret = sqlite3_column_int(statement, 0);
    journal_db_end(statement);
    return status > 0 ? 0 : -1;
}

/* Upgrades the file in one transaction, so that it never contains a part of a version. */
static int
journal_db_upgrade(struct journal_db *db, int version, GError **err)
{
    if (journal_db_execute(db, "BEGIN IMMEDIATE", err) != 0)
        return -1;
    while (++version <= NEWEST_VERSION) {
        g_autofree char *script =
            vg_database_script(journal_db_scripts[version], sqlite3_libversion_number());
        if (journal_db_execute(db, script, err) != 0)
            return -1;
    }
    g_autofree char *set = g_strdup_printf("PRAGMA user_version = %d; COMMIT", NEWEST_VERSION);
    return journal_db_execute(db, set, err);
}

int
journal_db_try_write(struct journal_db *db, GError **err)
{
    g_autofree char *set = g_strdup_printf("PRAGMA user_version = %d", NEWEST_VERSION);

    return journal_db_spare_room(db, err) < 0 ? -1 : journal_db_execute(db, set, err);
}

static int
journal_db_set_up(struct journal_db *db, GError **err)
{
    int version = 0, tables = 0;

    if (journal_db_int(db, "PRAGMA user_version", &version, err) != 0 ||
        journal_db_int(db, "SELECT count(*) FROM sqlite_schema", &tables, err) != 0)
        return -1;
    if (version > NEWEST_VERSION)
        return vg_error(err, VG_E_UNUSABLE,
                        "a newer vgpud wrote the journal '%s': it has version %d, and this program "
                        "reads versions up to %d",
                        db->path, version, NEWEST_VERSION);
    if (version < 0 || (version == 0) != (tables == 0))
        return vg_error(err, VG_E_UNUSABLE, "the journal '%s' is a database, but not vgpud's",
                        db->path);
    if (journal_db_execute(db,
                           "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
                           "PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = ON",
                           err) != 0)
        return -1;
    return version == NEWEST_VERSION ? 0 : journal_db_upgrade(db, version, err);
}

static int
journal_db_connect(struct journal_db *db, const char *directory, const char *vfs, GError **err)
{
    struct stat status;

    if (journal_db_lock(db, directory, err) != 0)
        return -1;
    int rc = sqlite3_open_v2(db->path, &db->db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, vfs);
    if (rc != SQLITE_OK)
        return journal_db_error(db, db->db ? sqlite3_extended_errcode(db->db) : rc, err);
    sqlite3_extended_result_codes(db->db, 1);
    sqlite3_busy_timeout(db->db, BUSY_TIMEOUT_MS);
    sqlite3_wal_hook(db->db, journal_db_on_commit, db);
    if (journal_db_set_up(db, err) != 0)
        return -1;
    if (stat(db->path, &status) != 0)
        return vg_error_errno(err, errno, "cannot read '%s'", db->path);
    db->device = status.st_dev;
    db->inode = status.st_ino;
    return 0;
}

struct journal_db *
journal_db_open(const char *directory, const char *vfs, GError **err)
{
    struct journal_db *db = g_new0(struct journal_db, 1);

    db->lock_fd = -1;
    db->path = g_strdup_printf("%s/" VG_JOURNAL_DB_NAME, directory);
    if (journal_db_connect(db, directory, vfs, err) == 0)
        return db;
    journal_db_close(db);
    return NULL;
}

void
journal_db_close(struct journal_db *db)
{
    if (!db)
        return;
    sqlite3_close(db->db);
    if (db->lock_fd >= 0)
        close(db->lock_fd);
    g_free(db->path);
    g_free(db);
}

bool
journal_db_is_current(const struct journal_db *db)
{
    struct stat status;

    return stat(db->path, &status) == 0 && status.st_dev == db->device &&
           status.st_ino == db->inode;
}
