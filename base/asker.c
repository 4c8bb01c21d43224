/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/asker.h"

#include "base/clock.h"
#include "base/error.h"

bool
vg_asker_waits(const struct vg_asker *asker)
{
    return !asker || !asker->waits || asker->waits(asker->data);
}

int
vg_asker_check(const struct vg_asker *asker, GError **err)
{
    if (!vg_asker_waits(asker))
        return vg_error(err, VG_E_TIMEOUT, "nothing was started: the client has disconnected");
    if (asker && asker->waits && vg_clock_monotonic_ns() > asker->begin_by_ns)
        return vg_error(err, VG_E_TIMEOUT, "nothing was started: the check took too long");
    return 0;
}
