/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads CTF traces through libbabeltrace2. Traces that share a clock are merged into one recording
 * by time, in an own k-way merge, because babeltrace2's muxer gives up on time running backwards.
 *
 * A stream that babeltrace2 refuses or cannot decode to its end is repaired as far as its packet
 * boundaries are known (trace/ctf-repair.h); what cannot be read is a problem of the recording.
 */
#ifndef VG_TRACE_CTF_READ_H
#define VG_TRACE_CTF_READ_H

#include "trace/recording.h"

/* The directories found below the paths of one command. */
struct vg_ctf_tree {
    GPtrArray *dirs;     /* char *: those that hold a file named `metadata`; found once each */
    GPtrArray *troubles; /* struct vg_trace_problem: what could not be looked into */
    GHashTable *seen;    /* "device:inode" of every directory */
};

void vg_ctf_tree_init(struct vg_ctf_tree *tree);
void vg_ctf_tree_clear(struct vg_ctf_tree *tree);

/* Adds the traces at or below path, sorted by name. -1 and *err if there is none that is not known
 * already. */
int vg_ctf_tree_add(struct vg_ctf_tree *tree, const char *path, GError **err);

/* Opens the traces found and appends one recording for each clock. What cannot be read, and a trace
 * that is a copy of another one, is a problem of the first recording; if nothing can be read, that
 * is an error. */
int vg_ctf_open(const struct vg_ctf_tree *tree, vg_aliases *aliases, GPtrArray *recordings,
                GError **err);

#endif
