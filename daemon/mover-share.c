/* SPDX-License-Identifier: Apache-2.0
 *
 * Reserves the share of a vgpu-proxy at which programs of a VM go on while it moves.
 */
#include "config.h"

#include <string.h>

#include "base/error.h"
#include "daemon/mover-private.h"

/* What a guest reaches by a path is its own. */
static bool
share_is_shared(const char *place)
{
    return g_str_has_prefix(place, "proxy:tcp:") || g_str_has_prefix(place, "proxy:tls:") ||
           g_str_has_prefix(place, "proxy:vsock:");
}

int
mover_check_share(vg_mover *mover, const struct vg_migration *migration, GError **err)
{
    if (!migration->gpu_during || !share_is_shared(migration->gpu_during))
        return 0;
    VG_LOCK_SCOPE(&mover->lock);
    for (guint i = 0; i < mover->moves->len; i++) {
        const struct mover_move *move = mover->moves->pdata[i];
        if (!move->ended && g_strcmp0(move->record->gpu_during, migration->gpu_during) == 0)
            return vg_error(err, VG_E_CONFLICT,
                            "programs of '%s' compute at %s while it moves, by '%s', and have it "
                            "until then",
                            move->record->vm, migration->gpu_during, move->record->id);
    }
    return 0;
}
