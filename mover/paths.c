/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks whether the target has the disks, media, firmware and kernel that the VM uses by path.
 */
#include "config.h"

#include <string.h>

#include "cluster/peer-moves.h"
#include "host/path-look.h"
#include "mover/private.h"

/* The maximum number of paths named in doubts, and the maximum length of a doubt. */
#define DOUBTS_MAX      8
#define DOUBT_BYTES_MAX 2048

static const struct vg_path_seen *
paths_at(const GPtrArray *seen, guint i)
{
    return seen && i < seen->len ? seen->pdata[i] : NULL;
}

/* Adds a doubt, cut to the maximum length. */
static void
paths_add_doubt(struct mover_move *move, const char *text)
{
    char *doubt = g_strndup(text, DOUBT_BYTES_MAX);
    const char *end = doubt;

    g_utf8_validate(doubt, -1, &end);
    doubt[end - doubt] = '\0';
    VG_LOCK_SCOPE(&move->mover->lock);
    g_ptr_array_add(move->record->doubts, doubt);
}

/* Judges a path by what is known of both hosts. Returns whether the path is still unchecked. */
static bool
paths_judge(struct mover_move *move, const struct vg_path_need *need,
            const struct vg_path_seen *here, const struct vg_path_seen *there, bool is_named,
            GPtrArray *problems)
{
    const struct vg_migration *record = move->record;
    char *immobile = vg_path_judge_source(need, here, move->mover->parts.host);

    if (immobile)
        g_ptr_array_add(problems, immobile);
    if (immobile || !there)
        return false;
    struct vg_path_check *check = vg_path_judge(need, here, there, record->from, record->to);
    if (check->verdict == VG_PATH_REFUSED)
        g_ptr_array_add(problems, g_strdup(check->text));
    else if (check->verdict == VG_PATH_UNTRIED && is_named)
        paths_add_doubt(move, check->text);
    const bool is_untried = check->verdict == VG_PATH_UNTRIED;
    if (move->paths)
        g_ptr_array_add(move->paths, check);
    else
        vg_path_check_free(check);
    return is_untried;
}

/* Requests the state of the paths from the target's vgpud. Returns NULL and adds a doubt on
 * failure. */
static GPtrArray *
paths_query_target(struct mover_move *move, const GPtrArray *paths)
{
    const struct vg_migration *record = move->record;
    g_autoptr(GError) error = NULL;
    GPtrArray *there =
        vg_peer_look_at_paths(move->mover->parts.peers, record->peer, paths, MOVER_PEER_NS, &error);

    if (there)
        return there;
    g_autofree char *text = g_strdup_printf(
        "cannot check whether '%s' has the disks and other paths that the VM needs: %s", record->to,
        error->message);
    paths_add_doubt(move, text);
    return NULL;
}

void
mover_check_paths(struct mover_move *move, const GPtrArray *needs, GPtrArray *problems)
{
    const bool is_local = strstr(move->settings->libvirt_uri, ":///") != NULL;
    g_autoptr(GPtrArray) paths = g_ptr_array_new();
    g_autoptr(GPtrArray) here = NULL, there = NULL;

    for (guint i = 0; i < MIN(needs->len, VG_PATHS_MAX); i++)
        g_ptr_array_add(paths, ((const struct vg_path_need *)needs->pdata[i])->path);
    if (paths->len == 0)
        return;
    if (is_local)
        here = vg_path_look(paths, NULL);
    if (move->record->peer)
        there = paths_query_target(move, paths);
    guint untried = 0;
    for (guint i = 0; i < paths->len; i++)
        untried += paths_judge(move, needs->pdata[i], paths_at(here, i), paths_at(there, i),
                               untried < DOUBTS_MAX, problems);
    untried += there ? needs->len - paths->len : 0;
    if (untried > DOUBTS_MAX) {
        g_autofree char *text =
            g_strdup_printf("%u of the %u paths that the VM needs on '%s' could not be verified",
                            untried, needs->len, move->record->to);
        paths_add_doubt(move, text);
    }
}
