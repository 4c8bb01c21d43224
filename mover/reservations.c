/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#define VG_LOG_TAG "moves"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "model/vm-name.h"
#include "mover/reservations.h"

#define HOLD_PREFIX "res-hold-"
#define HOLD_MOVE   "hold-" /* prefix of the id, followed by the move's id */

/* A reservation. The clock of its end is never set. */
struct reservations_kept {
    struct vg_reservation *what;
    int64_t until_ns; /* CLOCK_MONOTONIC */
};

struct vg_reservations {
    vg_journal *journal;
    pthread_mutex_t picking; /* held while libvirt's free GPUs are listed and taken */
    pthread_mutex_t writing; /* held while the journal is written; taken after picking */
    pthread_mutex_t lock;    /* protects the members below; no thread waits under it */
    GPtrArray *kept;         /* struct reservations_kept that the journal has or may have */
    bool is_loaded;          /* the journal has been read */
};

static void
reservations_kept_free(void *data)
{
    struct reservations_kept *kept = data;

    vg_reservation_free(kept->what);
    g_free(kept);
}

/* Adds a reservation whose lease starts now. Called under the lock. */
static void
reservations_add(vg_reservations *reservations, struct vg_reservation *take_what)
{
    struct reservations_kept *kept = g_new0(struct reservations_kept, 1);

    kept->what = take_what;
    kept->until_ns = vg_clock_monotonic_ns() + take_what->lease_s * VG_NS_PER_S;
    g_ptr_array_add(reservations->kept, kept);
}

/* Adds a reservation that may be in the journal although its client received no answer. It counts
 * as lapsed. */
static void
reservations_add_doubtful(vg_reservations *reservations, const struct vg_reservation *what)
{
    struct reservations_kept *kept = g_new0(struct reservations_kept, 1);

    kept->what = vg_reservation_copy(what);
    VG_LOCK_SCOPE(&reservations->lock);
    g_ptr_array_add(reservations->kept, kept);
}

/* Reads the journal once. Each reservation gets a full lease: it could not be renewed while vgpud
 * was not running, and this machine's clock may have been set. */
static int
reservations_load(vg_reservations *reservations, GError **err)
{
    pthread_mutex_lock(&reservations->lock);
    const bool is_loaded = reservations->is_loaded;
    pthread_mutex_unlock(&reservations->lock);
    if (is_loaded)
        return 0;
    g_autoptr(GPtrArray) list = vg_journal_list_reservations(reservations->journal, err);
    if (!list)
        return -1;
    VG_LOCK_SCOPE(&reservations->lock);
    for (guint i = 0; i < list->len && !reservations->is_loaded; i++)
        reservations_add(reservations, vg_reservation_copy(list->pdata[i]));
    reservations->is_loaded = true;
    return 0;
}

/* Returns the reservation with this id if its lease has not ended, or NULL. Called under the
 * lock. */
static struct reservations_kept *
reservations_find(vg_reservations *reservations, const char *id)
{
    for (guint i = 0; i < reservations->kept->len; i++) {
        struct reservations_kept *kept = reservations->kept->pdata[i];
        if (strcmp(kept->what->id, id) == 0 && kept->until_ns > vg_clock_monotonic_ns())
            return kept;
    }
    return NULL;
}

/* Checks that a reservation belongs to a client. NULL means this vgpud, which may change every
 * reservation. */
static int
reservations_check_owner(const struct vg_reservation *what, const char *client, GError **err)
{
    if (!client || g_strcmp0(what->asked_by, client) == 0)
        return 0;
    return vg_error(err, VG_E_DENIED, "reservation '%s' does not belong to '%s'", what->id, client);
}

/* Puts lapsed reservations back, from the i-th. */
static void
reservations_put_back(vg_reservations *reservations, GPtrArray *lapsed, guint i)
{
    VG_LOCK_SCOPE(&reservations->lock);
    while (lapsed->len > i)
        g_ptr_array_add(reservations->kept, g_ptr_array_steal_index(lapsed, lapsed->len - 1));
}

/* Removes lapsed reservations, also from the journal. If the journal fails, the next call tries
 * again. If vgpud ends before, its next start retains them for one more lease. */
static void
reservations_prune(vg_reservations *reservations)
{
    g_autoptr(GPtrArray) lapsed = g_ptr_array_new_with_free_func(reservations_kept_free);
    const int64_t now_ns = vg_clock_monotonic_ns();

    pthread_mutex_lock(&reservations->lock);
    for (guint i = reservations->kept->len; i > 0; i--) {
        const struct reservations_kept *kept = reservations->kept->pdata[i - 1];
        if (kept->until_ns <= now_ns)
            g_ptr_array_add(lapsed, g_ptr_array_steal_index(reservations->kept, i - 1));
    }
    pthread_mutex_unlock(&reservations->lock);
    VG_LOCK_SCOPE(&reservations->writing);
    for (guint i = 0; i < lapsed->len; i++) {
        const char *id = ((const struct reservations_kept *)lapsed->pdata[i])->what->id;
        g_autoptr(GError) error = NULL;
        pthread_mutex_lock(&reservations->lock);
        const bool is_anew = reservations_find(reservations, id);
        pthread_mutex_unlock(&reservations->lock);
        if (!is_anew && vg_journal_delete_reservation(reservations->journal, id, &error) < 0 &&
            !g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND)) {
            reservations_put_back(reservations, lapsed, i);
            break;
        }
    }
}

/* Copies a reservation and converts the end of its lease to the realtime clock. */
static struct vg_reservation *
reservations_copy(const struct reservations_kept *kept)
{
    struct vg_reservation *copy = vg_reservation_copy(kept->what);

    copy->expires_ns = vg_clock_realtime_ns() + kept->until_ns - vg_clock_monotonic_ns();
    return copy;
}

static bool
reservation_has_device(const struct vg_reservation *reservation, const char *address)
{
    for (guint i = 0; i < reservation->devices->len; i++) {
        const struct vg_move_device *device = reservation->devices->pdata[i];
        if (g_strcmp0(device->target_address, address) == 0)
            return true;
    }
    return false;
}

/* Checks that no device is reserved for another VM. Called under the lock. */
static int
reservations_check_rivals(vg_reservations *reservations, const struct vg_reservation *what,
                          GError **err)
{
    for (guint i = 0; i < reservations->kept->len; i++) {
        const struct reservations_kept *kept = reservations->kept->pdata[i];
        if (vg_vm_is(what->uuid, NULL, kept->what->uuid) ||
            kept->until_ns <= vg_clock_monotonic_ns())
            continue;
        for (guint k = 0; k < what->devices->len; k++) {
            const struct vg_move_device *device = what->devices->pdata[k];
            if (device->target_address &&
                reservation_has_device(kept->what, device->target_address))
                return vg_error(err, VG_E_CONFLICT, "%s is reserved for the VM '%s' (%s)",
                                device->target_address, kept->what->vm, kept->what->id);
        }
    }
    return 0;
}

/* Records a reservation, which replaces one with the same id. Fails with VG_E_CONFLICT if one of
 * its devices is reserved for another VM. */
static int
reservations_save(vg_reservations *reservations, struct vg_reservation *what, GError **err)
{
    g_autoptr(GError) error = NULL;

    what->expires_ns = vg_clock_realtime_ns() + what->lease_s * VG_NS_PER_S;
    VG_LOCK_SCOPE(&reservations->writing);
    pthread_mutex_lock(&reservations->lock);
    int status = reservations_check_rivals(reservations, what, err);
    pthread_mutex_unlock(&reservations->lock);
    if (status < 0)
        return -1;
    if (vg_journal_save_reservation(reservations->journal, what, &error) < 0) {
        if (g_error_matches(error, VG_ERROR, VG_E_TIMEOUT))
            reservations_add_doubtful(reservations, what);
        g_propagate_error(err, g_steal_pointer(&error));
        return -1;
    }
    pthread_mutex_lock(&reservations->lock);
    struct reservations_kept *old = reservations_find(reservations, what->id);
    if (old)
        g_ptr_array_remove(reservations->kept, old);
    reservations_add(reservations, vg_reservation_copy(what));
    pthread_mutex_unlock(&reservations->lock);
    return 0;
}

vg_reservations *
vg_reservations_new(vg_journal *journal)
{
    vg_reservations *reservations = g_new0(vg_reservations, 1);

    reservations->journal = journal;
    pthread_mutex_init(&reservations->picking, NULL);
    pthread_mutex_init(&reservations->writing, NULL);
    pthread_mutex_init(&reservations->lock, NULL);
    reservations->kept = g_ptr_array_new_with_free_func(reservations_kept_free);
    (void)!reservations_load(reservations, NULL);
    return reservations;
}

void
vg_reservations_free(vg_reservations *reservations)
{
    if (!reservations)
        return;
    g_ptr_array_unref(reservations->kept);
    pthread_mutex_destroy(&reservations->lock);
    pthread_mutex_destroy(&reservations->writing);
    pthread_mutex_destroy(&reservations->picking);
    g_free(reservations);
}

GPtrArray *
vg_reservations_list(vg_reservations *reservations, GError **err)
{
    g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func(vg_reservation_free);

    if (reservations_load(reservations, err) < 0)
        return NULL;
    reservations_prune(reservations);
    const int64_t now_ns = vg_clock_monotonic_ns();
    VG_LOCK_SCOPE(&reservations->lock);
    for (guint i = 0; i < reservations->kept->len; i++) {
        const struct reservations_kept *kept = reservations->kept->pdata[i];
        if (kept->until_ns > now_ns)
            g_ptr_array_add(list, reservations_copy(kept));
    }
    return g_steal_pointer(&list);
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

/* Returns whether a VM already has its GPUs here. libvirt then reports them as used, so its
 * reservation must not count in addition. */
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

/* Lists the reserved devices. Returns 1 if the move already has a reservation, which is renewed and
 * copied. */
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
            struct vg_reservation *mine = vg_reservations_renew(
                reservations, other->id, reservation->asked_by, reservation->lease_s, err);
            if (!mine)
                return -1;
            vg_record_clear(&vg_reservation_record, reservation);
            *reservation = *mine;
            g_free(mine);
            return 1;
        }
        if (!reservation_is_used(host, other))
            reservations_add_taken(taken, other->devices);
    }
    return 0;
}

/* Checks the number of other arriving VMs. If one other client has all places, this client gets an
 * additional one, so that the other cannot lock it out. */
static int
reservations_check_arrivals(vg_reservations *reservations, const struct vg_move_settings *settings,
                            const struct vg_reservation *wanted, vg_reservations_check *check,
                            void *data, GError **err)
{
    g_autoptr(GPtrArray) list = vg_reservations_list(reservations, err);
    g_autoptr(GString) names = g_string_new(NULL);
    const char *uuid = wanted->uuid, *owner = NULL;
    bool is_one = true; /* whether one other client owns them all */
    int64_t n = 0;

    for (guint i = 0; list && i < list->len; i++) {
        const struct vg_reservation *other = list->pdata[i];
        if (g_str_has_prefix(other->move_id, HOLD_MOVE) || vg_vm_is(uuid, NULL, other->uuid))
            continue;
        owner = n == 0 ? other->asked_by : owner;
        is_one &= g_strcmp0(other->asked_by, owner) == 0 &&
                  g_strcmp0(other->asked_by, wanted->asked_by) != 0;
        n++;
        g_string_append_printf(names, "%s'%s' from '%s'", n > 1 ? ", " : "", other->vm,
                               other->from);
        if (check && check(data, uuid, other->uuid, err) < 0)
            return -1;
    }
    if (n >= settings->moves + is_one)
        return vg_error(
            err, VG_E_CONFLICT,
            "%" PRId64
            " VMs are already moving here (%s); [actions] moves on this host allows %" PRId64,
            n, names->str, settings->moves);
    return list ? 0 : -1;
}

int
vg_reservations_make(vg_reservations *reservations, const struct vg_move_settings *settings,
                     struct vg_reservation *reservation, vg_reservations_check *check, void *data,
                     GError **err)
{
    g_autoptr(GPtrArray) taken = g_ptr_array_new_with_free_func(g_free);

    if (!settings->enabled)
        return vg_error(err, VG_E_REFUSED,
                        "actions are disabled on this host; set [actions] enabled=yes in its "
                        "vgpud.conf to enable them");
    g_autoptr(vg_virt_link) host = vg_virt_link_open(settings->libvirt_uri, err);
    if (!host)
        return -1;
    VG_LOCK_SCOPE(&reservations->picking);
    int found = reservations_find_taken(reservations, host, reservation, taken, err);
    if (found != 0)
        return found < 0 ? -1 : 0;
    if (reservations_check_arrivals(reservations, settings, reservation, check, data, err) < 0)
        return -1;
    if (vg_virt_pick(host, reservation->devices, taken, reservation->dry_run, settings->packs_gpus,
                     settings->named, settings->n_named, err) < 0)
        return -1;
    if (reservation->dry_run)
        return 0;
    g_free(reservation->id);
    reservation->id = vg_move_new_id("res");
    reservation->made_ns = vg_clock_realtime_ns();
    return reservations_save(reservations, reservation, err);
}

/* ---- holding, renewing and releasing ---- */

char *
vg_reservations_hold_id(const char *move_id)
{
    return g_strconcat(HOLD_PREFIX, move_id, NULL);
}

int
vg_reservations_hold(vg_reservations *reservations, const struct vg_move_settings *settings,
                     const struct vg_migration *migration, GError **err)
{
    g_autoptr(vg_reservation) hold = vg_reservation_new();

    hold->id = vg_reservations_hold_id(migration->id);
    hold->move_id = g_strconcat(HOLD_MOVE, migration->id, NULL);
    hold->vm = g_strdup(migration->vm);
    hold->uuid = g_strdup(migration->uuid);
    hold->from = g_strdup(migration->from);
    hold->made_ns = vg_clock_realtime_ns();
    hold->lease_s = settings->lease_s;
    for (guint i = 0; i < migration->devices->len; i++) {
        struct vg_move_device *device =
            vg_record_copy(&vg_move_device_record, migration->devices->pdata[i]);
        g_free(device->target_address);
        device->target_address = g_strdup(device->source_address);
        g_ptr_array_add(hold->devices, device);
    }
    if (reservations_load(reservations, err) < 0)
        return -1;
    g_autoptr(vg_virt_link) host = vg_virt_link_open(settings->libvirt_uri, err);
    if (!host)
        return -1;
    VG_LOCK_SCOPE(&reservations->picking);
    if (vg_virt_check_others(host, migration->uuid, migration->devices, settings->named,
                             settings->n_named, err) < 0)
        return -1;
    return reservations_save(reservations, hold, err);
}

struct vg_reservation *
vg_reservations_renew(vg_reservations *reservations, const char *id, const char *client,
                      int64_t lease_s, GError **err)
{
    if (reservations_load(reservations, err) < 0)
        return NULL;
    VG_LOCK_SCOPE(&reservations->lock);
    struct reservations_kept *kept = reservations_find(reservations, id);
    if (!kept) {
        vg_error(err, VG_E_NOT_FOUND, "there is no reservation '%s'; its lease may have ended", id);
        return NULL;
    }
    if (reservations_check_owner(kept->what, client, err) < 0)
        return NULL;
    kept->what->lease_s = lease_s;
    kept->until_ns = vg_clock_monotonic_ns() + lease_s * VG_NS_PER_S;
    return reservations_copy(kept);
}

GPtrArray *
vg_reservations_taken(vg_reservations *reservations)
{
    GPtrArray *taken = g_ptr_array_new_with_free_func(g_free);
    const int64_t now_ns = vg_clock_monotonic_ns();

    VG_LOCK_SCOPE(&reservations->lock);
    for (guint i = 0; i < reservations->kept->len; i++) {
        const struct reservations_kept *kept = reservations->kept->pdata[i];
        if (kept->until_ns > now_ns)
            reservations_add_taken(taken, kept->what->devices);
    }
    return taken;
}

/* Removes the mediated devices of an ended reservation that a vgpud created and no VM uses. Devices
 * that remain are free for the next arriving VM. */
static void
reservations_drop_mdevs(vg_reservations *reservations, const struct vg_move_settings *settings,
                        const GPtrArray *devices)
{
    g_autoptr(GError) error = NULL;
    bool has_mdevs = false;

    for (guint i = 0; i < devices->len; i++) {
        const struct vg_move_device *device = devices->pdata[i];
        has_mdevs = has_mdevs || device->kind == VG_MOVE_DEVICE_MDEV;
    }
    if (!has_mdevs)
        return;
    g_autoptr(vg_virt_link) host = vg_virt_link_open(settings->libvirt_uri, &error);
    VG_LOCK_SCOPE(&reservations->picking);
    g_autoptr(GPtrArray) taken = vg_reservations_taken(reservations);
    if (!host || vg_virt_drop_mdevs(host, devices, taken, &error) < 0)
        vg_log_warn("cannot remove mediated devices that were created for a VM reason=\"%s\"",
                    error->message);
}

int
vg_reservations_release(vg_reservations *reservations, const struct vg_move_settings *settings,
                        const char *id, const char *client, GError **err)
{
    g_autoptr(vg_reservation) released = NULL;

    if (reservations_load(reservations, err) < 0)
        return -1;
    reservations_prune(reservations);
    pthread_mutex_lock(&reservations->lock);
    const struct reservations_kept *wanted = reservations_find(reservations, id);
    const int owned = wanted ? reservations_check_owner(wanted->what, client, err) : 0;
    pthread_mutex_unlock(&reservations->lock);
    if (owned < 0)
        return -1;
    pthread_mutex_lock(&reservations->writing);
    const int status = vg_journal_delete_reservation(reservations->journal, id, err);
    pthread_mutex_lock(&reservations->lock);
    struct reservations_kept *kept = status == 0 ? reservations_find(reservations, id) : NULL;
    if (kept) {
        released = vg_reservation_copy(kept->what);
        g_ptr_array_remove(reservations->kept, kept);
    }
    pthread_mutex_unlock(&reservations->lock);
    pthread_mutex_unlock(&reservations->writing);
    if (released)
        reservations_drop_mdevs(reservations, settings, released->devices);
    return status;
}

char *
vg_reservations_move_of(vg_reservations *reservations, const char *uuid)
{
    const int64_t now_ns = vg_clock_monotonic_ns();

    VG_LOCK_SCOPE(&reservations->lock);
    for (guint i = 0; i < reservations->kept->len; i++) {
        const struct reservations_kept *kept = reservations->kept->pdata[i];
        const char *move_id = kept->what->move_id;
        const bool is_hold = g_str_has_prefix(move_id, HOLD_MOVE);
        if (kept->until_ns > now_ns && vg_vm_is(uuid, NULL, kept->what->uuid))
            return g_strdup(move_id + (is_hold ? strlen(HOLD_MOVE) : 0));
    }
    return NULL;
}
