/* SPDX-License-Identifier: Apache-2.0
 *
 * The user's file of contexts, which gives each vgpud a name: $XDG_CONFIG_HOME/vgpuctl/config, or
 * else ~/.config/vgpuctl/config.
 */
#ifndef VG_CLIENT_CONTEXTS_H
#define VG_CLIENT_CONTEXTS_H

#include <glib.h>

#include "client/remote-names.h"

struct vg_context {
    char *name;
    char *values[VG_REMOTE_MAX]; /* NULL if not set; paths are absolute */
};

typedef struct vg_contexts vg_contexts;

/* A missing file contains no contexts. Returns NULL if the file cannot be read, or is invalid. */
vg_contexts *vg_contexts_read(GError **err);
void vg_contexts_free(vg_contexts *contexts);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_contexts, vg_contexts_free)

/* struct vg_context, in the order of the file. */
const GPtrArray *vg_contexts_list(const vg_contexts *contexts);

/* Returns the name of the default context, or NULL. */
const char *vg_contexts_current(const vg_contexts *contexts);

/* Borrowed. Returns NULL with VG_E_NOT_FOUND, and a message that lists the existing contexts, if
 * there is no such context. */
const struct vg_context *vg_contexts_find(const vg_contexts *contexts, const char *name,
                                          GError **err);

/* Records the default context in the file. The rest of the file is unchanged, including
 * comments. */
int vg_contexts_use(const vg_contexts *contexts, const char *name, GError **err);

#endif
