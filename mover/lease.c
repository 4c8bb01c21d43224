/* SPDX-License-Identifier: Apache-2.0
 *
 * Maintains the reservations of a move's GPUs on both hosts, and detects when they are lost.
 */
#include "config.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "cluster/peer-moves.h"
#include "mover/private.h"

#define VG_LOG_TAG "mover"

/* The interval at which the thread checks whether a renewal is due. */
#define CHECK_NS (250 * VG_NS_PER_MS)

/* Copies the addresses and names that the devices have on the target. */
static void
lease_take(struct mover_move *move, const struct vg_reservation *given)
{
    struct vg_migration *record = move->record;

    VG_LOCK_SCOPE(&move->mover->lock);
    for (guint i = 0; i < record->devices->len; i++) {
        struct vg_move_device *device = record->devices->pdata[i];
        const struct vg_move_device *there = given->devices->pdata[i];
        g_free(device->target_address);
        g_free(device->target_xml);
        device->target_address = g_strdup(there->target_address);
        device->target_xml = g_strdup(there->target_xml);
    }
}

/* Reserves GPUs on the target, or extends this move's reservation there. */
static struct vg_reservation *
lease_reserve(struct mover_move *move, GError **err)
{
    const int64_t lease_s = move->settings->lease_s, asked_ns = vg_clock_monotonic_ns();
    struct vg_reservation *given = vg_peer_reserve(move->mover->parts.peers, move->record->peer,
                                                   move->record, lease_s, MOVER_PEER_NS, err);

    if (!given)
        return NULL;
    move->kept_until_ns = asked_ns + lease_s * VG_NS_PER_S;
    VG_LOCK_SCOPE(&move->mover->lock);
    g_free(move->record->reservation);
    move->record->reservation = g_strdup(given->id);
    return given;
}

/* Reserves GPUs on the target again for a running move. If the named GPU is no longer available,
 * any other GPU will do. */
static struct vg_reservation *
lease_reserve_any(struct mover_move *move, GError **err)
{
    g_autoptr(GError) error = NULL;
    struct vg_reservation *given = lease_reserve(move, &error);
    bool was_named = false;

    if (given)
        return given;
    pthread_mutex_lock(&move->mover->lock);
    for (guint i = 0; i < move->record->devices->len; i++) {
        struct vg_move_device *device = move->record->devices->pdata[i];
        if (!device->target_gpu || !g_error_matches(error, VG_ERROR, VG_E_CONFLICT))
            continue;
        was_named = true;
        g_clear_pointer(&device->target_gpu, g_free);
        move->record->predicted = false; /* the plan predicted the named GPU's gain */
    }
    pthread_mutex_unlock(&move->mover->lock);
    if (!was_named) {
        g_propagate_error(err, g_steal_pointer(&error));
        return NULL;
    }
    vg_log_warn(
        "the GPU chosen for a move is no longer available, using any other GPU id=%s reason=\"%s\"",
        move->record->id, error->message);
    return lease_reserve(move, err);
}

/* Returns 1 if the target has extended the reservation, 0 if it no longer has one, or -1 and *err
 * if this is unknown. */
static int
lease_prolong(struct mover_move *move, GError **err)
{
    const int64_t lease_s = move->settings->lease_s, asked_ns = vg_clock_monotonic_ns();
    g_autoptr(GError) error = NULL;

    pthread_mutex_lock(&move->mover->lock);
    g_autofree char *id = g_strdup(move->record->reservation);
    pthread_mutex_unlock(&move->mover->lock);
    if (!id)
        return 0;
    if (vg_peer_renew(move->mover->parts.peers, move->record->peer, id, lease_s, MOVER_PEER_NS,
                      &error) == 0) {
        move->kept_until_ns = asked_ns + lease_s * VG_NS_PER_S;
        return 1;
    }
    if (g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND))
        return 0;
    g_propagate_error(err, g_steal_pointer(&error));
    return -1;
}

/* Reserves the source's GPUs in case the VM returns. A separate lock ensures that giving the VM its
 * GPUs back never waits for an unresponsive target. */
static int
lease_hold(struct mover_move *move, GError **err)
{
    VG_LOCK_SCOPE(&move->holding);
    vg_reservations *reservations = move->mover->parts.reservations;
    const int64_t lease_s = move->settings->lease_s;
    g_autofree char *id = vg_reservations_hold_id(move->record->id);
    g_autoptr(GError) error = NULL;
    g_autoptr(vg_reservation) hold = vg_reservations_renew(reservations, id, NULL, lease_s, &error);

    if (hold)
        return 0;
    if (g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND))
        return vg_reservations_hold(reservations, move->settings, move->record, err);
    g_propagate_error(err, g_steal_pointer(&error));
    return -1;
}

/* ---- renewing ---- */

/* Returns whether the VM still needs the target's GPUs. */
static bool
lease_is_needed(struct mover_move *move)
{
    VG_LOCK_SCOPE(&move->mover->lock);
    return !move->machine.back && (move->machine.facts.place != VG_PLACE_TARGET ||
                                   move->machine.facts.gpu != VG_GPU_ATTACHED);
}

/* Turns the move back: the target no longer has a GPU for the VM, so it stays where it has one. */
static void
lease_turn_back(struct mover_move *move, const char *why)
{
    struct vg_migration *record = move->record;

    VG_LOCK_SCOPE(&move->mover->lock);
    if (!vg_move_turn_back(&move->machine))
        return; /* too late: attaching the GPUs will report the failure */
    if (!record->cause)
        record->cause = g_strdup_printf(
            "reserve: '%s' no longer reserves a GPU for the VM and could not reserve one again: %s",
            record->to, why);
    atomic_store(&move->cancel, true);
}

/* Reserves GPUs on the target again after it has lost the reservation. mover_check_lease() adopts
 * the new devices. */
static void
lease_reserve_again(struct mover_move *move)
{
    g_autoptr(GError) error = NULL;

    if (!lease_is_needed(move))
        return;
    struct vg_reservation *given = lease_reserve_any(move, &error);
    if (given) {
        vg_log_warn(
            "'%s' had lost the reservation of a move's GPUs and has reserved GPUs again id=%s",
            move->record->to, move->record->id);
        vg_reservation_free(move->given);
        move->given = given;
        return;
    }
    vg_log_warn("'%s' no longer reserves the GPUs of a move id=%s reason=\"%s\"", move->record->to,
                move->record->id, error->message);
    if (!g_error_matches(error, VG_ERROR, VG_E_UNREACHABLE) &&
        !g_error_matches(error, VG_ERROR, VG_E_TIMEOUT))
        lease_turn_back(move, error->message);
}

static void
lease_renew_if_due(struct mover_move *move)
{
    g_autoptr(GError) error = NULL;

    if (move->renew_ns == 0 || vg_clock_monotonic_ns() < move->renew_ns)
        return;
    VG_LOCK_SCOPE(&move->leasing);
    if (move->renew_ns == 0 || vg_clock_monotonic_ns() < move->renew_ns)
        return;
    move->renew_ns = vg_clock_monotonic_ns() + move->settings->lease_s * VG_NS_PER_S / 4;
    if (lease_hold(move, &error) < 0)
        vg_log_warn("cannot keep GPUs reserved on the source in case the move is rolled back id=%s "
                    "reason=\"%s\"",
                    move->record->id, error->message);
    g_clear_error(&error);
    int kept = lease_prolong(move, &error);
    if (kept == 0)
        lease_reserve_again(move);
    else if (kept < 0)
        vg_log_warn("the reservation on the target cannot be renewed now id=%s reason=\"%s\"",
                    move->record->id, error->message);
}

void
mover_renew_run(vg_thread *self, void *arg)
{
    do
        lease_renew_if_due(arg);
    while (vg_thread_sleep_until(self, vg_clock_monotonic_ns() + CHECK_NS));
}

/* ---- calls by the verbs ---- */

int
mover_begin_lease(struct mover_move *move, GError **err)
{
    VG_LOCK_SCOPE(&move->leasing);
    if (lease_hold(move, err) < 0)
        return -1;
    g_autoptr(vg_reservation) given =
        move->record->retries > 0 ? lease_reserve_any(move, err) : lease_reserve(move, err);
    if (!given)
        return -1;
    lease_take(move, given);
    move->renew_ns = vg_clock_monotonic_ns() + move->settings->lease_s * VG_NS_PER_S / 4;
    return 0;
}

void
mover_end_lease(struct mover_move *move)
{
    VG_LOCK_SCOPE(&move->leasing);
    move->renew_ns = 0;
}

int
mover_check_hold(struct mover_move *move, GError **err)
{
    return lease_hold(move, err);
}

int
mover_check_lease(struct mover_move *move, GError **err)
{
    g_autoptr(GError) error = NULL;

    VG_LOCK_SCOPE(&move->leasing);
    const int kept = lease_prolong(move, &error);
    if (kept < 0 && vg_clock_monotonic_ns() >= move->kept_until_ns) {
        g_propagate_prefixed_error(
            err, g_steal_pointer(&error),
            "it is unknown whether '%s' still reserves a GPU for the VM: ", move->record->to);
        return -1;
    }
    if (kept == 0) {
        vg_reservation_free(move->given);
        move->given = lease_reserve_any(move, err);
        if (!move->given) {
            g_prefix_error(
                err, "'%s' no longer reserves a GPU for the VM and could not reserve one again: ",
                move->record->to);
            return -1;
        }
    }
    if (move->given)
        lease_take(move, move->given);
    g_clear_pointer(&move->given, vg_reservation_free);
    return 0;
}
