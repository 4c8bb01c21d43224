/* SPDX-License-Identifier: Apache-2.0
 *
 * A host's figures in one or more windows, and their sources: the tables `host` and `measured`,
 * which files of version 1 do not have.
 */
#ifndef VG_STORE_STORE_HOST_H
#define VG_STORE_STORE_HOST_H

#include "model/history.h"
#include "model/provenance.h"
#include "model/window.h"
#include "store/store-file.h"

struct vg_store_host {
    struct vg_host_figures figures;
    GArray *measured; /* struct vg_history_measured */
};

void vg_store_host_init(struct vg_store_host *host);
void vg_store_host_clear(struct vg_store_host *host);

void vg_store_host_add(struct vg_store_host *sum, const struct vg_store_host *more);
void vg_store_host_add_window(struct vg_store_host *sum, const struct vg_window *window,
                              const struct vg_provenance *provenance);

/* Adds the file's data for a row of `win`. Returns 0 or -1. */
int vg_store_host_read(struct vg_store_file *file, int64_t win, struct vg_store_host *sum,
                       GError **err);

/* Inserts the rows that belong to a new row of `win`. Returns 0 or -1. */
int vg_store_host_write(struct vg_store_file *file, int64_t win, const struct vg_store_host *host,
                        GError **err);

#endif
