/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts rows of the tables `sample`, `lost` and `win` to structs and back. Only this module
 * knows the order of columns.
 */
#ifndef VG_STORE_STORE_ROW_H
#define VG_STORE_STORE_ROW_H

#include "store/store-file.h"
#include "store/store-window.h"

/* A row of `win`. */
struct vg_store_win {
    int64_t id;
    int64_t begin_ns;
    int64_t end_ns;
    int64_t windows;
    int64_t lost_events;
};

/* Reads the columns of VG_SQL_WIN_RANGE from a statement, starting at `first`. */
void vg_store_row_read_win(sqlite3_stmt *statement, int first, struct vg_store_win *ret);

/* Reads the columns of samples, which the statement selects first. */
void vg_store_row_read_sample(sqlite3_stmt *statement, struct vg_store_sample *ret);

/* The first function inserts a row of `sample`. The second adds to a row of `lost`. Return 0 or -1.
 */
int vg_store_row_add_sample(struct vg_store_file *file, int64_t win, int64_t vm,
                            const struct vg_store_sample *sample, GError **err);
int vg_store_row_add_loss(struct vg_store_file *file, int64_t win, int64_t vm, int64_t aggressor,
                          const struct vg_store_loss *loss, GError **err);

/* Inserts the row. Returns its id, or -1. */
int64_t vg_store_row_add_win(struct vg_store_file *file, int64_t source,
                             const struct vg_store_win *win, GError **err);

/* Deletes the window and all its rows. */
int vg_store_row_delete_win(struct vg_store_file *file, int64_t win, GError **err);

#endif
