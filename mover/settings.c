/* SPDX-License-Identifier: Apache-2.0
 *
 * What all files of the mover ask for: its settings, and whether a test wants vgpud to end here.
 */
#include "config.h"

#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "mover/private.h"

#define VG_LOG_TAG "mover"

vg_move_settings *
vg_mover_settings(vg_mover *mover)
{
    VG_LOCK_SCOPE(&mover->lock);
    return vg_move_settings_ref(mover->settings);
}

void
mover_count_write(vg_mover *mover)
{
    g_autoptr(vg_move_settings) settings = vg_mover_settings(mover);
    unsigned n = atomic_fetch_add(&mover->writes, 1) + 1;

    if (settings->fault_writes > 0 && n == (unsigned)settings->fault_writes) {
        vg_log_warn("killing vgpud, as [fault] move_writes says");
        kill(getpid(), SIGKILL);
    }
}
