/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection to one database of the store: opening, making and upgrading it, its statements,
 * and what sqlite says as errors. One thread at a time.
 *
 * Errors name the path. VG_E_NOT_FOUND: there is no such file; VG_E_CONFLICT: a newer version made
 * it; VG_E_INVALID: it is damaged, or no database of ours; else what the disk says.
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
    VG_STORE_READ,  /* changes nothing, makes no database */
    VG_STORE_WRITE, /* what is there */
    VG_STORE_CREATE /* likewise, and makes it if it is not there */
};

/* Tables of names and their numbers. */
enum vg_store_names { VG_NAMES_SOURCE, VG_NAMES_VM, VG_NAMES_AGGRESSOR, VG_NAMES_MAX };

struct vg_store_file {
    enum vg_store_kind kind;
    int64_t stamp;
    bool writing;
    char *path;
    sqlite3 *db;
    int version;
    dev_t device; /* of the file that was opened: another one may have its name by now */
    ino_t inode;
    sqlite3_stmt *statements[VG_SQL_MAX];
    GHashTable *ids[VG_NAMES_MAX]; /* names (of VMs: keys) -> ids that were looked up */
    int64_t deadline_ns; /* CLOCK_MONOTONIC, after which steps fail with VG_E_TIMEOUT; 0: none */
    unsigned steps;      /* made under a deadline */
    bool lent;           /* the pool's: somebody has it */
    bool doomed;         /* the pool's: close it when it comes back */
};

/* vfs: NULL for sqlite's default. */
struct vg_store_file *vg_store_file_open(const char *directory, const char *vfs,
                                         enum vg_store_kind kind, int64_t stamp,
                                         enum vg_store_mode mode, GError **err);

/* Rolls back what is not committed. NULL is fine. */
void vg_store_file_close(struct vg_store_file *file);

/* Is the file that was opened still there under its name? */
bool vg_store_file_is_current(const struct vg_store_file *file);

/* A statement with its parameters bound, ready to be stepped; owned by the file. types: 'i' for
 * int64_t, 's' for const char * (borrowed until the statement is done). NULL: *err. */
sqlite3_stmt *vg_store_file_query(struct vg_store_file *file, enum vg_sql sql, GError **err,
                                  const char *types, ...);

/* 1: a row; 0: done (and reset); -1: *err (and reset). */
int vg_store_file_step(struct vg_store_file *file, sqlite3_stmt *statement, GError **err);

/* A text of the row that the statement stands on, in a column that is never NULL: where it is, NULL
 * and *err, because the file is damaged; the statement is not reset, so the file goes back to its
 * pool as failed. Good until the next step. */
const char *vg_store_file_text(struct vg_store_file *file, sqlite3_stmt *statement, int column,
                               GError **err);

/* Query and step until done: 0 or -1. */
int vg_store_file_run(struct vg_store_file *file, enum vg_sql sql, GError **err, const char *types,
                      ...);

/* Steps a bound statement until done: 0 or -1. */
int vg_store_file_finish(struct vg_store_file *file, sqlite3_stmt *statement, GError **err);

/* First column of the first row: 1, 0 if there is no row (or it is NULL), -1. */
int vg_store_file_get(struct vg_store_file *file, enum vg_sql sql, int64_t *ret, GError **err,
                      const char *types, ...);

/* The id of a name, 0: not there. For writing: made if it is not there; a VM that is called
 * otherwise now (name, else NULL) is renamed. -1: *err. */
int64_t vg_store_file_find(struct vg_store_file *file, enum vg_store_names table, const char *key,
                           GError **err);
int64_t vg_store_file_need(struct vg_store_file *file, enum vg_store_names table, const char *key,
                           const char *name, GError **err);

#endif
