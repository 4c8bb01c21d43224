/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/reservations.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#define HOLD_PREFIX "res-hold-"
#define HOLD_MOVE   "hold-" /* before the id of the move */

struct vg_reservations {
    vg_journal *journal;
    pthread_mutex_t lock; /* held while free GPUs are looked for and taken */
    pthread_mutex_t known_lock;
    /* vg_reservation, a copy of the journal's for callers that must not wait for it */
    GPtrArray *known;
};

/* Copies the reservations in the journal after a change. */
static void
reservations_learn(vg_reservations *reservations)
{
    GPtrArray *list = vg_reservations_list(reservations, NULL);

    if (!list)
        return;
    VG_LOCK_SCOPE(&reservations->known_lock);
    g_ptr_array_unref(reservations->known);
    reservations->known = list;
}

static int
reservations_save(vg_reservations *reservations, const struct vg_reservation *reservation,
                  GError **err)
{
    int result = vg_journal_save_reservation(reservations->journal, reservation, err);

    reservations_learn(reservations);
    return result;
}

vg_reservations *
vg_reservations_new(vg_journal *journal)
{
    vg_reservations *reservations = g_new0(vg_reservations, 1);

    reservations->journal = journal;
    pthread_mutex_init(&reservations->lock, NULL);
    pthread_mutex_init(&reservations->known_lock, NULL);
    reservations->known = g_ptr_array_new_with_free_func(vg_reservation_free);
    reservations_learn(reservations);
    return reservations;
}

void
vg_reservations_free(vg_reservations *reservations)
{
    if (!reservations)
        return;
    g_ptr_array_unref(reservations->known);
    pthread_mutex_destroy(&reservations->known_lock);
    pthread_mutex_destroy(&reservations->lock);
    g_free(reservations);
}

GPtrArray *
vg_reservations_list(vg_reservations *reservations, GError **err)
{
    return vg_journal_list_reservations(reservations->journal, vg_clock_realtime_ns(), err);
}

static void
reservation_set_lease(struct vg_reservation *reservation, int64_t lease_s)
{
    reservation->lease_s = lease_s;
    reservation->expires_ns = vg_clock_realtime_ns() + lease_s * VG_NS_PER_S;
}

/* ---- GPUs that are taken ---- */

static GStrv
reservation_aliases(const GPtrArray *devices)
{
    g_autoptr(GPtrArray) list = g_ptr_array_new();

    for (guint i = 0; i < devices->len; i++) {
        const struct vg_move_device *device = devices->pdata[i];
        if (device->alias)
            g_ptr_array_add(list, g_strdup(device->alias));
    }
    g_ptr_array_add(list, NULL);
    return (GStrv)g_ptr_array_free(g_steal_pointer(&list), FALSE);
}

/* Returns whether a VM already has its GPUs here, which shows that they are taken, so that its
 * reservation must not count as well. */
static bool
reservation_is_used(vg_virt_link *host, const struct vg_reservation *reservation)
{
    g_auto(GStrv) aliases = reservation_aliases(reservation->devices);
    struct vg_domain_look look;

    return vg_virt_look(host, reservation->uuid, (const char *const *)aliases, &look, NULL) == 0 &&
           look.place != VG_DOMAIN_ABSENT && look.present == reservation->devices->len;
}

static void
reservations_add_taken(GPtrArray *taken, const GPtrArray *devices)
{
    for (guint i = 0; i < devices->len; i++) {
        const struct vg_move_device *device = devices->pdata[i];
        const char *what =
            device->kind == VG_MOVE_DEVICE_NAMED ? device->type : device->target_address;
        if (what)
            g_ptr_array_add(taken, g_strdup(what));
    }
}

/* ---- making a reservation ---- */

/* Lists the devices that are taken. Returns 1 if the move already has a reservation, which is then
 * copied. Called under the lock. */
static int
reservations_find_taken(vg_reservations *reservations, vg_virt_link *host,
                        struct vg_reservation *reservation, GPtrArray *taken, GError **err)
{
    g_autoptr(GPtrArray) list = vg_reservations_list(reservations, err);

    if (!list)
        return -1;
    for (guint i = 0; i < list->len; i++) {
        const struct vg_reservation *other = list->pdata[i];
        if (strcmp(other->move_id, reservation->move_id) == 0) {
            struct vg_reservation *copy = vg_reservation_copy(other);
            vg_record_clear(&vg_reservation_record, reservation);
            *reservation = *copy;
            g_free(copy);
            return 1;
        }
        if (!reservation_is_used(host, other))
            reservations_add_taken(taken, other->devices);
    }
    return 0;
}

int
vg_reservations_make(vg_reservations *reservations, const struct vg_move_settings *settings,
                     struct vg_reservation *reservation, GError **err)
{
    g_autoptr(GPtrArray) taken = g_ptr_array_new_with_free_func(g_free);

    if (!settings->enabled)
        return vg_error(err, VG_E_REFUSED,
                        "acting is off on this host; [actions] enabled=yes in its vgpud.conf "
                        "allows it");
    g_autoptr(vg_virt_link) host = vg_virt_link_open(settings->libvirt_uri, err);
    if (!host)
        return -1;
    VG_LOCK_SCOPE(&reservations->lock);
    int found = reservations_find_taken(reservations, host, reservation, taken, err);
    if (found != 0)
        return found < 0 ? -1 : 0;
    if (vg_virt_pick(host, reservation->devices, taken, settings->named, settings->n_named, err) <
        0)
        return -1;
    g_free(reservation->id);
    reservation->id = vg_move_new_id("res");
    reservation->made_ns = vg_clock_realtime_ns();
    reservation_set_lease(reservation, reservation->lease_s);
    return reservations_save(reservations, reservation, err);
}

/* ---- holding, renewing and releasing ---- */

char *
vg_reservations_hold_id(const char *move_id)
{
    return g_strconcat(HOLD_PREFIX, move_id, NULL);
}

int
vg_reservations_hold(vg_reservations *reservations, const struct vg_migration *migration,
                     int64_t lease_s, GError **err)
{
    g_autoptr(vg_reservation) hold = vg_reservation_new();

    hold->id = vg_reservations_hold_id(migration->id);
    hold->move_id = g_strconcat(HOLD_MOVE, migration->id, NULL);
    hold->vm = g_strdup(migration->vm);
    hold->uuid = g_strdup(migration->uuid);
    hold->from = g_strdup(migration->from);
    hold->made_ns = vg_clock_realtime_ns();
    reservation_set_lease(hold, lease_s);
    for (guint i = 0; i < migration->devices->len; i++) {
        struct vg_move_device *device =
            vg_record_copy(&vg_move_device_record, migration->devices->pdata[i]);
        g_free(device->target_address);
        device->target_address = g_strdup(device->source_address);
        g_ptr_array_add(hold->devices, device);
    }
    VG_LOCK_SCOPE(&reservations->lock);
    return reservations_save(reservations, hold, err);
}

struct vg_reservation *
vg_reservations_renew(vg_reservations *reservations, const char *id, int64_t lease_s, GError **err)
{
    VG_LOCK_SCOPE(&reservations->lock);
    g_autoptr(GPtrArray) list = vg_reservations_list(reservations, err);

    for (guint i = 0; list && i < list->len; i++) {
        struct vg_reservation *one = list->pdata[i];
        if (strcmp(one->id, id) != 0)
            continue;
        reservation_set_lease(one, lease_s);
        if (reservations_save(reservations, one, err) < 0)
            return NULL;
        return vg_reservation_copy(one);
    }
    if (list)
        vg_error(err, VG_E_NOT_FOUND, "there is no reservation '%s'; its lease may be over", id);
    return NULL;
}

int
vg_reservations_release(vg_reservations *reservations, const char *id, GError **err)
{
    VG_LOCK_SCOPE(&reservations->lock);
    int result = vg_journal_delete_reservation(reservations->journal, id, err);
    reservations_learn(reservations);
    return result;
}

GPtrArray *
vg_reservations_taken(vg_reservations *reservations)
{
    GPtrArray *taken = g_ptr_array_new_with_free_func(g_free);
    const int64_t now_ns = vg_clock_realtime_ns();

    VG_LOCK_SCOPE(&reservations->known_lock);
    for (guint i = 0; i < reservations->known->len; i++) {
        const struct vg_reservation *one = reservations->known->pdata[i];
        if (one->expires_ns > now_ns)
            reservations_add_taken(taken, one->devices);
    }
    return taken;
}

char *
vg_reservations_move_of(vg_reservations *reservations, const char *uuid)
{
    const int64_t now_ns = vg_clock_realtime_ns();

    VG_LOCK_SCOPE(&reservations->known_lock);
    for (guint i = 0; i < reservations->known->len; i++) {
        const struct vg_reservation *one = reservations->known->pdata[i];
        const bool is_hold = g_str_has_prefix(one->move_id, HOLD_MOVE);
        if (one->expires_ns > now_ns && strcmp(one->uuid, uuid) == 0)
            return g_strdup(one->move_id + (is_hold ? strlen(HOLD_MOVE) : 0));
    }
    return NULL;
}
