/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/open.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "trace/ctf-read.h"
#include "trace/ctf-room.h"
#include "trace/text-read.h"

/* Opens text traces immediately, but collects directories first: their traces may share a clock. */
static int
open_path(const char *path, vg_aliases *aliases, GPtrArray *recordings, struct vg_ctf_tree *tree,
          GError **err)
{
    struct stat st;

    if (strcmp(path, "-") == 0)
        path = "/dev/stdin";
    if (stat(path, &st) != 0)
        return vg_error_errno(err, errno, "cannot open trace '%s'", path);
    if (S_ISDIR(st.st_mode))
        return vg_ctf_tree_add(tree, path, err);
    vg_recording *text = vg_text_open(path, aliases, err);
    if (!text)
        return -1;
    g_ptr_array_add(recordings, text);
    return 0;
}

GPtrArray *
vg_recordings_open(const char *const *paths, size_t n_paths, vg_aliases *aliases, GError **err)
{
    g_autoptr(GPtrArray) recordings =
        g_ptr_array_new_with_free_func((GDestroyNotify)vg_recording_free);
    struct vg_ctf_tree tree;
    int status = 0;

    vg_ctf_tree_init(&tree);
    for (size_t i = 0; status == 0 && i < n_paths; i++)
        status = open_path(paths[i], aliases, recordings, &tree, err);
    if (status == 0)
        status = vg_ctf_check_room(&tree, err);
    if (status == 0)
        status = vg_ctf_open(&tree, aliases, recordings, err);
    vg_ctf_tree_clear(&tree);
    if (status < 0)
        return NULL;
    return g_steal_pointer(&recordings);
}
