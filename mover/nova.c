/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves a VM through nova, which manages it. The VM has no GPU: a GPU from its flavor cannot be
 * unplugged, so vg_mover_prepare() refuses such a VM. Until nova has named both hosts, it has
 * received no request, and this host's libvirt reports the place of the VM.
 */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "move/place.h"
#include "mover/private.h"

#define VG_LOG_TAG "mover"

#define CALL_OFF_NS (120 * VG_NS_PER_S)

static vg_nova *
nova_open(struct mover_move *move, GError **err)
{
    if (!move->nova && !move->settings->nova)
        vg_error(err, VG_E_REFUSED,
                 "nova is no longer configured: set cloud or auth_url in [nova]");
    else if (!move->nova)
        move->nova = vg_nova_settings_open(move->settings->nova, &move->leave, err);
    return move->nova;
}

/* ---- checks before anything is touched ---- */

static int
nova_refuse_gpu(const char *vm, const char *kind, const char *what, GError **err)
{
    return vg_error(
        err, VG_E_REFUSED,
        "OpenStack manages '%s', and its GPU (%s %s) comes from its flavor: nova has no call that "
        "detaches it, and vgpud detaches nothing without nova's knowledge",
        vm, kind, what);
}

/* Refuses a VM with GPUs, reported by the inventory or by libvirt: libvirt may not know the type of
 * a device. */
static int
nova_check_devices(const struct vg_inv_vm *vm, const GPtrArray *gpus, GError **err)
{
    for (guint i = 0; i < vm->devices->len; i++) {
        const struct vg_inv_device *device = vm->devices->pdata[i];
        if (device->is_gpu)
            return nova_refuse_gpu(vm->name, device->kind, device->address, err);
    }
    if (!gpus || gpus->len == 0)
        return 0;
    const struct vg_move_device *first = gpus->pdata[0];
    return nova_refuse_gpu(vm->name, vg_move_device_kind_names[first->kind], first->type, err);
}

static int
nova_query_problems(struct mover_move *move, struct vg_nova_precheck *check, GPtrArray *problems,
                    GError **err)
{
    const struct vg_migration *record = move->record;
    vg_nova *nova = nova_open(move, err);

    if (!nova)
        return -1;
    const struct vg_nova_settings *settings = move->settings->nova;
    check->uuid = record->uuid;
    check->from = settings->host[0] ? settings->host : record->from;
    check->to = record->to;
    check->to_host = vg_nova_settings_name(settings, record->peer);
    return vg_nova_precheck(nova, check, problems, err);
}

/* Adds the problems that nova reports. Never fails: if nova does not answer, denies access, or is
 * too old, this is also a problem. */
static int
nova_find_problems(struct mover_move *move, GPtrArray *problems, GError **err)
{
    struct vg_nova_precheck check = {0};
    g_autoptr(GError) error = NULL;
    (void)err;

    /* Without a target, nova cannot check anything. */
    if (!move->record->peer)
        return 0;
    int status = nova_query_problems(move, &check, problems, &error);
    if (status == 0 && problems->len == 0) {
        VG_LOCK_SCOPE(&move->mover->lock);
        g_free(move->record->nova_from);
        g_free(move->record->nova_to);
        move->record->nova_from = g_steal_pointer(&check.ret_from);
        move->record->nova_to = g_steal_pointer(&check.ret_to);
    }
    g_free(check.ret_from);
    g_free(check.ret_to);
    if (status < 0)
        g_ptr_array_add(problems, g_strdup(error->message));
    return 0;
}

/* ---- the place of the VM ---- */

/* Queries this host's libvirt for the VM's place, because nova has not received the request yet. */
static int
nova_look_here(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    struct vg_domain_look look = {.place = VG_DOMAIN_ABSENT};
    vg_virt_link *source = mover_source(move, err);

    if (!source || vg_virt_look(source, move->record->uuid, NULL, &look, err) < 0)
        return -1;
    ret->facts.place = look.place == VG_DOMAIN_HERE || look.place == VG_DOMAIN_STILL
                           ? VG_PLACE_SOURCE
                           : VG_PLACE_UNKNOWN;
    ret->facts.final = ret->facts.place == VG_PLACE_UNKNOWN;
    ret->text =
        ret->facts.final
            ? g_strdup("the VM is not running here, or libvirt is moving it without nova")
            : g_strdup("the VM is on the source; the request to nova has not been sent yet");
    return 0;
}

/* Describes where nova has the instance. The caller frees the text. */
static char *
nova_place_text(const struct vg_nova_server *server)
{
    if (!server->known)
        return g_strdup("nova no longer has this instance");
    if (strcmp(server->status, "ERROR") == 0)
        return g_strdup_printf("nova reports the instance in state ERROR on '%s': %s", server->host,
                               server->fault ? server->fault : "it gave no reason");
    if (vg_nova_is_migrating(server))
        return g_strdup("nova is moving it");
    return g_strdup_printf("nova reports it on '%s' in state %s", server->host, server->status);
}

static struct vg_move_facts
nova_place(const struct vg_migration *record, const struct vg_nova_server *server)
{
    const struct vg_place_nova nova = {
        .known = server->known,
        .is_error = server->known && strcmp(server->status, "ERROR") == 0,
        .is_migrating = server->known && vg_nova_is_migrating(server),
        .host = server->host};

    return vg_place_of_nova(&nova, record->nova_from, record->nova_to);
}

static int
nova_look_once(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    struct vg_nova_server server;
    vg_nova *nova = nova_open(move, err);

    g_clear_pointer(&ret->text, g_free);
    ret->facts = (struct vg_move_facts){VG_PLACE_UNKNOWN, VG_GPU_UNKNOWN, false};
    if (!nova || vg_nova_look(nova, move->record->uuid, &server, err) < 0)
        return -1;
    ret->facts = nova_place(move->record, &server);
    ret->text = nova_place_text(&server);
    vg_nova_server_clear(&server);
    return 0;
}

/* Returns the deadline of the migration in the journal. */
static int64_t
nova_until_ns(const struct mover_move *move)
{
    const GPtrArray *steps = move->record->steps;
    const char *verb = vg_move_verb_names[VG_MOVE_MIGRATE];

    for (guint i = steps->len; i > 0; i--) {
        const struct vg_migration_step *step = steps->pdata[i - 1];
        if (strcmp(step->verb, verb) == 0)
            return step->began_ns + move->settings->migrate_deadline_ns;
    }
    return INT64_MAX;
}

/* Monitors a migration that an earlier vgpud started. Cancels it if the move is to be aborted or
 * the deadline has passed. */
static void
nova_monitor(struct mover_move *move)
{
    struct vg_migration_progress progress = {0};
    g_autoptr(GError) error = NULL;
    bool back;

    if (vg_nova_progress(move->nova, move->record->uuid, &progress, NULL) == 1) {
        VG_LOCK_SCOPE(&move->mover->lock);
        move->record->progress = progress;
    }
    pthread_mutex_lock(&move->mover->lock);
    back = move->machine.back || move->machine.aborted;
    pthread_mutex_unlock(&move->mover->lock);
    if (!back && vg_clock_realtime_ns() < nova_until_ns(move))
        return;
    if (vg_nova_abort(move->nova, move->record->uuid, &error) < 0)
        vg_log_warn("nova cannot abort the migration now id=%s reason=\"%s\"", move->record->id,
                    error->message);
}

/* Waits until nova can be queried again. Returns false if no further query makes sense. The limit
 * is the migration's deadline plus some time to cancel it. */
static bool
nova_look_continues(struct mover_move *move, enum vg_migration_place place, const GError *error,
                    int64_t until_ns)
{
    const int64_t now_ns = vg_clock_monotonic_ns();
    const int64_t poll_ns = move->settings->nova ? move->settings->nova->poll_ns : VG_NS_PER_S;

    if (!error && place != VG_PLACE_MOVING)
        return false;
    if (!error && vg_clock_realtime_ns() > nova_until_ns(move) &&
        vg_clock_realtime_ns() - nova_until_ns(move) > CALL_OFF_NS)
        return false;
    if (error && (!vg_nova_may_pass(error) || now_ns >= until_ns))
        return false;
    return vg_thread_sleep_until(move->thread, now_ns + poll_ns);
}

static int
nova_look_there(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + vg_move_deadline_ns(VG_MOVE_LOOK);
    g_autoptr(GError) error = NULL;

    do {
        g_clear_error(&error);
        (void)!nova_look_once(move, ret, &error);
        if (ret->facts.place == VG_PLACE_MOVING)
            nova_monitor(move);
    } while (nova_look_continues(move, ret->facts.place, error, until_ns));
    if (!error)
        return 0;
    if (vg_nova_may_pass(error)) {
        g_propagate_error(err, g_steal_pointer(&error));
        return -1;
    }
    /* A user without permission is refused every time. */
    ret->facts.final = true;
    ret->text = g_strdup(error->message);
    return 0;
}

static int
nova_look(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    int status =
        move->record->nova_to ? nova_look_there(move, ret, err) : nova_look_here(move, ret, err);

    if (status < 0 || !ret->facts.final)
        return status;
    VG_LOCK_SCOPE(&move->mover->lock);
    if (!move->record->cause)
        move->record->cause = g_strdup_printf("look: %s", ret->text);
    return 0;
}

static int
nova_verify(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    if (nova_look_there(move, ret, err) < 0)
        return -1;
    if (ret->facts.place == VG_PLACE_TARGET)
        return 0;
    return vg_error(err, VG_E_CONFLICT, "the VM is not on '%s': %s", move->record->to, ret->text);
}

/* ---- moving ---- */

static int
nova_migrate(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    vg_nova *nova = nova_open(move, err);
    struct vg_verb limits = mover_verb(move, move->settings->migrate_deadline_ns);
    const struct vg_nova_migration migration = {move->record->uuid, move->record->nova_from,
                                                move->record->nova_to};
    struct vg_migration_progress progress = {0};

    if (!nova)
        return -1;
    int status = vg_nova_migrate(nova, &migration, &limits, &progress, err);
    limits.tell(limits.data, &progress, NULL);
    if (status < 0)
        return -1;
    ret->text = g_strdup_printf("nova moved it to '%s' in %.2f s", migration.to,
                                (double)progress.elapsed_ns / (double)VG_NS_PER_S);
    return 0;
}

/* ---- the table ---- */

static int
nova_precheck(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    g_autoptr(GPtrArray) problems = g_ptr_array_new_with_free_func(g_free);

    if (nova_find_problems(move, problems, err) < 0 || mover_refuse(move, problems, ret, err) < 0)
        return -1;
    g_free(ret->text);
    ret->text = g_strdup_printf("no obstacles found; nova calls them '%s' and '%s'",
                                move->record->nova_from, move->record->nova_to);
    return 0;
}

static int
nova_do_verb(struct mover_move *move, enum vg_move_verb verb, struct mover_outcome *ret,
             GError **err)
{
    switch ((int)verb) {
    case VG_MOVE_LOOK:
        return nova_look(move, ret, err);
    case VG_MOVE_PRECHECK:
        return nova_precheck(move, ret, err);
    case VG_MOVE_MIGRATE:
        return nova_migrate(move, ret, err);
    case VG_MOVE_VERIFY:
        return nova_verify(move, ret, err);
    default:
        vg_bug("verb %d does not apply to a VM without GPUs", (int)verb);
    }
}

static char *
nova_describe(const struct mover_move *move, enum vg_move_verb verb)
{
    const struct vg_migration *record = move->record;

    switch ((int)verb) {
    case VG_MOVE_LOOK:
        return record->nova_to ? g_strdup("nova: find the VM")
                               : g_strdup_printf("libvirt on '%s': find the VM", record->from);
    case VG_MOVE_PRECHECK:
        return g_strdup_printf("nova: check that it can move from '%s' to '%s'", record->from,
                               record->to);
    case VG_MOVE_MIGRATE:
        return g_strdup_printf("nova: migrate it live to '%s'", record->nova_to);
    case VG_MOVE_VERIFY:
        return g_strdup_printf("nova: check that it is on '%s'", record->nova_to);
    default:
        return NULL;
    }
}

const struct mover_executor mover_nova = {
    .describe = nova_describe,
    .do_verb = nova_do_verb,
    .find_problems = nova_find_problems,
    .check_devices = nova_check_devices,
};
