/* SPDX-License-Identifier: Apache-2.0
 *
 * Provides all executors with connections to both hosts' libvirt, and with the limits of a verb.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "cluster/peer-moves.h"
#include "mover/private.h"

#define VG_LOG_TAG "mover"

/* The time limit for a guest's status. */
#define STATUS_NS (20 * VG_NS_PER_S)

/* ---- both hosts' libvirt ---- */

char *
mover_peer_uri(vg_mover *mover, const char *peer, GError **err)
{
    g_autoptr(GPtrArray) list = vg_peers_list(mover->parts.peers);

    for (guint i = 0; i < list->len; i++) {
        const struct vg_peer_info *info = list->pdata[i];
        if (strcmp(info->name, peer) != 0)
            continue;
        if (info->libvirt_uri && *info->libvirt_uri)
            return g_strdup(info->libvirt_uri);
        if (info->libvirt_reason) {
            vg_error(err, info->state == VG_PEER_REACHABLE ? VG_E_REFUSED : VG_E_UNREACHABLE,
                     "it is unknown how to reach libvirt on host '%s': %s", peer,
                     info->libvirt_reason);
            return NULL;
        }
        vg_error(err, VG_E_REFUSED,
                 "libvirt_uri, the URI that this host's libvirt uses to reach that host's libvirt, "
                 "is not set in [peer %s]",
                 peer);
        return NULL;
    }
    vg_error(err, VG_E_NOT_FOUND, "[peer %s] no longer exists", peer);
    return NULL;
}

vg_virt_link *
mover_source(struct mover_move *move, GError **err)
{
    if (!move->source)
        move->source = vg_virt_link_open_for(move->settings->libvirt_uri, move->reboots, err);
    return move->source;
}

vg_virt_link *
mover_target(struct mover_move *move, GError **err)
{
    if (!move->peer_uri)
        move->peer_uri = mover_peer_uri(move->mover, move->record->peer, err);
    if (!move->target && move->peer_uri)
        move->target = vg_virt_link_open_for(move->peer_uri, move->reboots, err);
    return move->target;
}

/* ---- while a verb runs ---- */

static bool
reach_is_guest_verb(enum vg_move_verb verb)
{
    return verb == VG_MOVE_QUIESCE || verb == VG_MOVE_RESUME || verb == VG_MOVE_REVIVE;
}

/* Records the progress of a verb. Called on any thread. Only guest verbs record the text. A
 * migration's text without progress names the libvirt that it waits for. */
static void
reach_progress(void *data, const struct vg_migration_progress *progress, const char *text)
{
    struct mover_move *move = data;

    pthread_mutex_lock(&move->mover->lock);
    const enum vg_move_verb verb = move->machine.running;
    if (progress)
        move->record->progress = *progress;
    if (text && reach_is_guest_verb(verb)) {
        g_free(move->record->guest.doing);
        move->record->guest.doing = g_strdup(text);
    }
    pthread_mutex_unlock(&move->mover->lock);
    if (mover_is_left_alone(verb) && text && !progress)
        mover_wait(move, text);
    else if (mover_is_left_alone(verb))
        mover_go_on(move);
}

struct vg_verb
mover_verb(struct mover_move *move, int64_t limit_ns)
{
    return (struct vg_verb){
        .deadline_ns = vg_clock_monotonic_ns() + limit_ns,
        .cancel = &move->cancel,
        .leave = &move->leave,
        .tell = reach_progress,
        .data = move,
    };
}

/* ---- problems ---- */

void
mover_add_silence(GPtrArray *problems, const char *why)
{
    g_ptr_array_add(problems,
                    g_strdup_printf("the guest's agent does not answer (%s); run vgpu-guestd in "
                                    "the guest, or set no_agent",
                                    why));
}

void
mover_check_programs(struct mover_move *move, GPtrArray *problems)
{
    const struct vg_migration *record = move->record;
    struct vg_guest_answer answer = {0};
    g_autoptr(GError) error = NULL;
    const struct vg_verb verb = mover_verb(move, STATUS_NS);

    const int status =
        vg_guest_status(move->source, record->uuid, record->devices, &verb, &answer, &error);
    VG_LOCK_SCOPE(&move->mover->lock);
    if (status < 0 && g_error_matches(error, VG_ERROR, VG_E_BUSY))
        g_ptr_array_add(record->doubts,
                        g_strdup_printf("the guest was not queried: %s", error->message));
    else if (error)
        mover_add_silence(problems, error->message);
    else if (!answer.ok)
        g_ptr_array_add(problems,
                        g_strdup_printf("the guest cannot release its GPUs now: %s", answer.text));
    if (answer.doubt)
        g_ptr_array_add(record->doubts, g_strdup(answer.doubt));
    vg_guest_programs_replace(&move->record->guest, g_steal_pointer(&answer.programs));
    vg_guest_answer_clear(&answer);
}

static char *
reach_join(const GPtrArray *sentences)
{
    GString *text = g_string_new(NULL);

    for (guint i = 0; i < sentences->len; i++)
        g_string_append_printf(text, "%s%s", i > 0 ? "; " : "", (const char *)sentences->pdata[i]);
    return g_string_free(text, FALSE);
}

int
mover_refuse(const struct mover_move *move, const GPtrArray *problems, struct mover_outcome *ret,
             GError **err)
{
    if (problems->len > 0) {
        g_autofree char *text = reach_join(problems);
        return vg_error(err, VG_E_REFUSED, "%s", text);
    }
    g_autofree char *doubts = reach_join(move->record->doubts);
    ret->text = g_strdup_printf("no obstacles found%s%s", *doubts ? "; but " : "", doubts);
    return 0;
}
