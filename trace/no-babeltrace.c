/* SPDX-License-Identifier: Apache-2.0
 *
 * Replaces trace/ctf-*.c in a build without babeltrace2: refuses to read and write CTF.
 */
#include "config.h"

#include "base/error.h"
#include "trace/ctf-live.h"
#include "trace/ctf-read.h"
#include "trace/ctf-room.h"
#include "trace/ctf-write.h"

#define BUILT_WITHOUT "this build of vgpud has no babeltrace2 (configure --without-babeltrace2)"

void
vg_ctf_tree_init(struct vg_ctf_tree *tree)
{
    *tree = (struct vg_ctf_tree){NULL, NULL, NULL};
}

void
vg_ctf_tree_clear(struct vg_ctf_tree *tree)
{
    (void)tree;
}

int
vg_ctf_tree_add(struct vg_ctf_tree *tree, const char *path, GError **err)
{
    (void)tree;
    return vg_error(err, VG_E_EXTERNAL, "cannot read directory '%s' as a CTF trace: " BUILT_WITHOUT,
                    path);
}

int
vg_ctf_check_room(const struct vg_ctf_tree *tree, GError **err)
{
    (void)tree, (void)err;
    return 0;
}

/* The tree is empty, because vg_ctf_tree_add() adds nothing. */
int
vg_ctf_open(const struct vg_ctf_tree *tree, vg_aliases *aliases, GPtrArray *recordings,
            GError **err)
{
    (void)tree, (void)aliases, (void)recordings, (void)err;
    return 0;
}

int
vg_ctf_write(const char *dir, const struct vg_ctf_plan *plan, GError **err)
{
    (void)plan;
    return vg_error(err, VG_E_EXTERNAL, "cannot write CTF trace '%s': " BUILT_WITHOUT, dir);
}

vg_recording *
vg_ctf_live_open(const struct vg_ctf_live_options *options, GError **err)
{
    vg_error(err, VG_E_EXTERNAL, "cannot read '%s': " BUILT_WITHOUT, options->url);
    return NULL;
}

/* ---- there is no live recording ---- */

bool
vg_ctf_live_is_here(const vg_recording *live)
{
    (void)live;
    return false;
}

void
vg_ctf_live_close(vg_recording *live)
{
    (void)live;
}

unsigned int
vg_ctf_live_pull(const vg_recording *live)
{
    (void)live;
    return 0;
}

void
vg_ctf_live_interrupt(vg_recording *live)
{
    (void)live;
}
