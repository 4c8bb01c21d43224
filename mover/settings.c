/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that all files of the mover use: settings, commands in messages, and points where a
 * test ends vgpud.
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

char *
mover_command(const struct mover_move *move, bool is_target, const char *verb)
{
    return g_strdup_printf("on '%s', `virsh -c %s %s %s`", move->record->from,
                           is_target ? move->peer_uri : move->settings->libvirt_uri, verb,
                           move->record->uuid);
}

static void
settings_end_at(vg_mover *mover, int64_t write)
{
    g_autoptr(vg_move_settings) settings = vg_mover_settings(mover);

    if (settings->fault_writes == write) {
        vg_log_warn("killing vgpud because of [fault] move_writes");
        kill(getpid(), SIGKILL);
    }
}

void
mover_begin_write(vg_mover *mover)
{
    settings_end_at(mover, -(int64_t)atomic_load(&mover->writes) - 1);
}

void
mover_count_write(vg_mover *mover)
{
    settings_end_at(mover, (int64_t)atomic_fetch_add(&mover->writes, 1) + 1);
}
