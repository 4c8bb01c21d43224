/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads CTF traces through libbabeltrace2. Traces that share a clock are merged into one recording
 * by time. The k-way merge is our own, because babeltrace2's muxer fails when time runs backwards.
 *
 * A stream that babeltrace2 rejects or cannot decode completely is repaired as far as its packet
 * boundaries are known (trace/ctf-repair.h). Parts that cannot be read become problems of the
 * recording.
 */
#ifndef VG_TRACE_CTF_READ_H
#define VG_TRACE_CTF_READ_H

#include "trace/recording.h"

/* The directories found below one command's paths. */
struct vg_ctf_tree {
    GPtrArray *dirs;     /* char *: directories with a file named `metadata`, without duplicates */
    GPtrArray *troubles; /* struct vg_trace_problem: directories that could not be read */
    GHashTable *seen;    /* "device:inode" of every directory */
};

void vg_ctf_tree_init(struct vg_ctf_tree *tree);
void vg_ctf_tree_clear(struct vg_ctf_tree *tree);

/* Adds the traces at or below path, sorted by name. Returns -1 and *err if it finds no new
 * trace. */
int vg_ctf_tree_add(struct vg_ctf_tree *tree, const char *path, GError **err);

/* Opens the traces found and appends one recording per clock. Unreadable parts and duplicate
 * traces become problems of the first recording. Fails if nothing can be read. */
int vg_ctf_open(const struct vg_ctf_tree *tree, vg_aliases *aliases, GPtrArray *recordings,
                GError **err);

#endif
