/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection to one database of the store: opens, creates and upgrades it, runs its statements,
 * and translates sqlite's errors. One thread at a time.
 *
 * Errors name the path. VG_E_NOT_FOUND: the file does not exist; VG_E_CONFLICT: a newer version
 * created it; VG_E_INVALID: it is damaged, or another program's database; otherwise the disk's
 * error.
 */
#ifndef VG_STORE_STORE_FILE_H
#define VG_STORE_STORE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <glib.h>
#include <sqlite3.h>

#include "store/store-sql.h"
#include "store/store-time.h"

enum vg_store_mode {
    VG_STORE_READ,  /* for reading; changes and creates nothing */
    VG_STORE_WRITE, /* for writing to an existing database */
    VG_STORE_CREATE /* the same, and creates it if it does not exist */
};

/* Tables of names and their numbers. */
enum vg_store_names {
    VG_NAMES_SOURCE,
    VG_NAMES_VM,
    VG_NAMES_AGGRESSOR,
    VG_NAMES_COLLECTOR,
    VG_NAMES_PROCESS, /* only the entries that were looked up */
    VG_NAMES_MAX
};

struct vg_store_file {
    enum vg_store_kind kind;
    int64_t stamp;
    bool writing;
    char *path;
    sqlite3 *db;
    int version;
    dev_t device; /* identity of the opened file: another file may have its name by now */
    ino_t inode;
    sqlite3_stmt *statements[VG_SQL_MAX];
    GHashTable *ids[VG_NAMES_MAX]; /* names (VMs: keys) -> ids that were looked up */
    /* CLOCK_MONOTONIC, after which steps fail with VG_E_TIMEOUT; 0 for no deadline */
    int64_t deadline_ns;
    unsigned steps; /* number of steps made under a deadline */
    bool lent;      /* for the pool: the connection is in use */
    bool doomed;    /* for the pool: close it when it is returned */
};

/* Opens a database. vfs: NULL for sqlite's default. */
struct vg_store_file *vg_store_file_open(const char *directory, const char *vfs,
                                         enum vg_store_kind kind, int64_t stamp,
                                         enum vg_store_mode mode, GError **err);

/* Closes the database, and rolls back uncommitted changes. NULL is accepted. */
void vg_store_file_close(struct vg_store_file *file);

/* Upgrades a file of an older version, open for writing, to the newest one. Returns 0 or -1. */
int vg_store_file_upgrade(struct vg_store_file *file, GError **err);

/* Returns whether the file has the tables of this statement. For statements whose tables did not
 * exist in version 1. */
bool vg_store_file_knows(const struct vg_store_file *file, enum vg_sql sql);

/* Returns whether the path still names the file that was opened. */
bool vg_store_file_is_current(const struct vg_store_file *file);

/* Returns a statement with its parameters bound, ready to be stepped; owned by the file. types: 'i'
 * for int64_t, 's' for const char * (borrowed until the statement is done). Returns NULL and sets
 * *err on failure. */
sqlite3_stmt *vg_store_file_query(struct vg_store_file *file, enum vg_sql sql, GError **err,
                                  const char *types, ...);

/* Returns 1 for a row, 0 when done (and reset), or -1 and *err (and reset). */
int vg_store_file_step(struct vg_store_file *file, sqlite3_stmt *statement, GError **err);

/* Returns a text of the statement's current row, in a column that is never NULL. If it is NULL, the
 * file is damaged: returns NULL and sets *err; the statement is not reset, so the file returns to
 * its pool as failed. Valid until the next step. */
const char *vg_store_file_text(struct vg_store_file *file, sqlite3_stmt *statement, int column,
                               GError **err);

/* Prepares a statement and steps until it is done. Returns 0 or -1. */
int vg_store_file_run(struct vg_store_file *file, enum vg_sql sql, GError **err, const char *types,
                      ...);

/* Steps a bound statement until it is done. Returns 0 or -1. */
int vg_store_file_finish(struct vg_store_file *file, sqlite3_stmt *statement, GError **err);

/* Reads the first column of the first row. Returns 1, or 0 if there is no row (or it is NULL), or
 * -1. */
int vg_store_file_get(struct vg_store_file *file, enum vg_sql sql, int64_t *ret, GError **err,
                      const char *types, ...);

/* Returns the id of a process, which is created if necessary. key: the key of the process in memory
 * (store/store-took.h). Returns -1 and sets *err on failure. */
int64_t vg_store_file_need_process(struct vg_store_file *file, const char *key, const char *comm,
                                   const char *cgroup, GError **err);

/* Return the id of a name; find returns 0 if there is none. need creates it if necessary, and
 * renames a VM whose name (name, otherwise NULL) has changed. Return -1 and set *err on failure. */
int64_t vg_store_file_find(struct vg_store_file *file, enum vg_store_names table, const char *key,
                           GError **err);
int64_t vg_store_file_need(struct vg_store_file *file, enum vg_store_names table, const char *key,
                           const char *name, GError **err);

#endif
