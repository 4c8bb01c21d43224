/* SPDX-License-Identifier: Apache-2.0
 *
 * Switches a VM's OpenCL programs to another vgpu-proxy while the VM stays on its host. The guest's
 * agent performs the switch, and ensures that no program stays stopped even if this vgpud ends. The
 * next vgpud has nothing to resume.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "mover/private.h"

/* Reports why some programs have not switched, and how many have. */
static int
switch_refused(const struct vg_guest_answer *answer, const char *to, GError **err)
{
    int64_t there = 0;

    for (guint i = 0; answer->programs && i < answer->programs->programs->len; i++) {
        const struct vg_guest_program *program = answer->programs->programs->pdata[i];
        if (g_strcmp0(program->at, to) == 0)
            there++;
    }
    if (answer->unknown)
        return vg_error(err, VG_E_REFUSED,
                        "the agent in the guest is too old to move programs to another proxy");
    if (there == 0)
        return vg_error(err, VG_E_REFUSED, "the guest: %s", answer->text);
    return vg_error(err, VG_E_REFUSED, "the guest: %s; %lld of %lld programs have switched",
                    answer->text, (long long)there, (long long)answer->programs->total);
}

static int
switch_request(const vg_move_settings *settings, struct vg_proxy_move *move, int64_t gpu_bytes,
               GError **err)
{
    g_autoptr(vg_virt_link) link = vg_virt_link_open(settings->libvirt_uri, err);
    const int64_t allowed_ns = vg_guest_allowed_ns(settings->guest_deadline_ns, gpu_bytes, true);
    const struct vg_verb verb = {.deadline_ns = vg_clock_monotonic_ns() + allowed_ns,
                                 .gpu_bytes = gpu_bytes};
    struct vg_guest_answer answer = {0};

    if (!link || vg_guest_switch(link, move->uuid, move->to, &verb, &answer, err) < 0)
        return -1;
    const int status = answer.ok ? 0 : switch_refused(&answer, move->to, err);
    vg_guest_programs_replace(&move->guest, g_steal_pointer(&answer.programs));
    vg_guest_answer_clear(&answer);
    return status;
}

static int
switch_run(vg_mover *mover, const vg_move_settings *settings, struct vg_proxy_move *move,
           GError **err)
{
    g_autofree char *other = mover_find_move(mover, move->uuid);

    if (other)
        return vg_error(err, VG_E_CONFLICT, "'%s' is being moved (%s)", move->vm, other);
    if (move->dry_run)
        return 0;
    const struct mover_goal goal = {move->vm, move->uuid, move->to, -1};
    struct mover_share share;
    if (mover_keep_share(mover, settings, &goal, &share, err) < 0)
        return -1;
    const int status = switch_request(settings, move, share.bytes, err);
    mover_leave_share(mover, settings, &share);
    return status;
}

int
vg_mover_switch(vg_mover *mover, struct vg_proxy_move *move, GError **err)
{
    g_autoptr(vg_move_settings) settings = vg_mover_settings(mover);

    if (!settings->enabled)
        return vg_error(err, VG_E_REFUSED,
                        "actions are disabled on this host (set [actions] enabled=yes), so guests "
                        "cannot be queried");
    mover_begin_asking(mover, move->uuid);
    const int status = switch_run(mover, settings, move, err);
    mover_end_asking(mover, move->uuid);
    return status;
}
