/* SPDX-License-Identifier: Apache-2.0
 *
 * The user's file of contexts, where each vgpud has a name: $XDG_CONFIG_HOME/vgpuctl/config, else
 * ~/.config/vgpuctl/config.
 */
#ifndef VG_CLIENT_CONTEXTS_H
#define VG_CLIENT_CONTEXTS_H

#include <glib.h>

#include "client/remote-names.h"

struct vg_context {
    char *name;
    char *values[VG_REMOTE_MAX]; /* NULL: not told; paths are absolute */
};

typedef struct vg_contexts vg_contexts;

/* No file is no context. NULL: it cannot be read, or is not right. */
vg_contexts *vg_contexts_read(GError **err);
void vg_contexts_free(vg_contexts *contexts);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_contexts, vg_contexts_free)

/* struct vg_context, in the order of the file. */
const GPtrArray *vg_contexts_list(const vg_contexts *contexts);

/* The name of the one that counts where nothing else is told; NULL: none. */
const char *vg_contexts_current(const vg_contexts *contexts);

/* Borrowed. NULL, VG_E_NOT_FOUND: there is none; the message lists those that there are. */
const struct vg_context *vg_contexts_find(const vg_contexts *contexts, const char *name,
                                          GError **err);

/* Writes into the file which one is the current one; the rest of it stays, comments, too. */
int vg_contexts_use(const vg_contexts *contexts, const char *name, GError **err);

#endif
