/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of a move that nova makes, of a VM that it manages. The VM has no GPU: one from its
 * flavor cannot be taken off it, and so vg_mover_prepare() refuses. Until nova has told what it
 * calls both hosts nothing was asked of it, and libvirt of this host says where the VM is.
 */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "daemon/mover-private.h"
#include "move/place.h"

#define VG_LOG_TAG "mover"

#define CALL_OFF_NS (120 * VG_NS_PER_S)

static vg_nova *
nova_open(struct mover_move *move, GError **err)
{
    if (!move->nova && !move->settings->nova)
        vg_error(err, VG_E_REFUSED,
                 "nova is not configured any more: cloud or auth_url in [nova] says where it is");
    else if (!move->nova)
        move->nova = vg_nova_settings_open(move->settings->nova, &move->mover->stopping, err);
    return move->nova;
}

/* ---- before anything is touched ---- */

static int
nova_find_problems(struct mover_move *move, struct vg_nova_precheck *check, GPtrArray *problems,
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

void
mover_nova_find_problems(struct mover_move *move, GPtrArray *problems)
{
    struct vg_nova_precheck check = {0};
    g_autoptr(GError) error = NULL;
    int status = nova_find_problems(move, &check, problems, &error);

    if (status == 0 && problems->len == 0) {
        VG_LOCK_SCOPE(&move->mover->lock);
        g_free(move->record->nova_from);
        g_free(move->record->nova_to);
        move->record->nova_from = g_steal_pointer(&check.ret_from);
        move->record->nova_to = g_steal_pointer(&check.ret_to);
    }
    g_free(check.ret_from);
    g_free(check.ret_to);
    /* A nova that does not answer, lets nobody in, or is too old speaks against the move. */
    if (status < 0)
        g_ptr_array_add(problems, g_strdup(error->message));
}

/* ---- looking ---- */

/* Nothing was asked of nova yet. */
static void
nova_look_here(struct mover_move *move, struct mover_outcome *ret)
{
    struct vg_domain_look look = {.place = VG_DOMAIN_ABSENT};
    g_autoptr(GError) error = NULL;

    if (!move->source)
        move->source = vg_virt_host_open(move->settings->libvirt_uri, &error);
    if (move->source)
        (void)!vg_virt_look(move->source, move->record->uuid, NULL, &look, &error);
    ret->ok = !error;
    ret->facts.place = look.place == VG_DOMAIN_HERE ? VG_PLACE_SOURCE : VG_PLACE_UNKNOWN;
    ret->facts.final = ret->ok && ret->facts.place == VG_PLACE_UNKNOWN;
    ret->text = error ? g_strdup(error->message)
                : ret->facts.final
                    ? g_strdup("the VM does not run here, or libvirt moves it without nova")
                    : g_strdup("the VM is on the source; nova was not asked to move it yet");
}

/* Puts what nova says of the instance into words (owned). */
static char *
nova_place_text(const struct vg_nova_server *server)
{
    if (!server->known)
        return g_strdup("nova has no such instance any more");
    if (strcmp(server->status, "ERROR") == 0)
        return g_strdup_printf("nova has the instance in ERROR, on '%s': %s", server->host,
                               server->fault ? server->fault : "it does not tell why");
    if (vg_nova_is_migrating(server))
        return g_strdup("nova is moving it");
    return g_strdup_printf("nova has it on '%s', %s", server->host, server->status);
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

/* When the migration that the journal tells of must be through. */
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

/* A migration that goes on without anybody who watched it: it is watched now, and called off if
 * somebody wanted that, or its time is up. */
static void
nova_look_after(struct mover_move *move)
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
        vg_log_warn("nova does not abort the migration now id=%s reason=\"%s\"", move->record->id,
                    error->message);
}

/* Is it worth looking again? A migration is waited for as long as one may take, and some time to
 * call it off. */
static bool
nova_look_goes_on(struct mover_move *move, const struct mover_outcome *look, const GError *error,
                  int64_t until_ns)
{
    const int64_t now_ns = vg_clock_monotonic_ns();
    const int64_t poll_ns = move->settings->nova ? move->settings->nova->poll_ns : VG_NS_PER_S;

    if (look->ok && look->facts.place != VG_PLACE_MOVING)
        return false;
    if (look->ok && vg_clock_realtime_ns() > nova_until_ns(move) &&
        vg_clock_realtime_ns() - nova_until_ns(move) > CALL_OFF_NS)
        return false;
    if (!look->ok && (!vg_nova_may_pass(error) || now_ns >= until_ns))
        return false;
    return vg_thread_sleep_until(move->thread, now_ns + poll_ns);
}

static void
nova_look(struct mover_move *move, struct mover_outcome *ret)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + vg_move_deadline_ns(VG_MOVE_LOOK);
    g_autoptr(GError) error = NULL;

    do {
        g_clear_error(&error);
        ret->ok = nova_look_once(move, ret, &error) == 0;
        if (ret->facts.place == VG_PLACE_MOVING)
            nova_look_after(move);
    } while (nova_look_goes_on(move, ret, error, until_ns));
    if (ret->ok)
        return;
    /* Who is not let in will not be let in by asking again. */
    ret->facts.final = !vg_nova_may_pass(error);
    ret->ok = ret->facts.final;
    ret->text = g_strdup(error->message);
}

static void
nova_do_look(struct mover_move *move, struct mover_outcome *ret)
{
    if (move->record->nova_to)
        nova_look(move, ret);
    else
        nova_look_here(move, ret);
    if (!ret->facts.final)
        return;
    VG_LOCK_SCOPE(&move->mover->lock);
    if (!move->record->cause)
        move->record->cause = g_strdup_printf("look: %s", ret->text);
}

static int
nova_verify(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    if (nova_look_once(move, ret, err) < 0)
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

/* ---- all of them ---- */

static int
nova_precheck(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    if (mover_precheck(move, ret, err) < 0)
        return -1;
    g_free(ret->text);
    ret->text = g_strdup_printf("nothing speaks against it; nova calls them '%s' and '%s'",
                                move->record->nova_from, move->record->nova_to);
    return 0;
}

static int
nova_do_verb(struct mover_move *move, enum vg_move_verb verb, struct mover_outcome *ret,
             GError **err)
{
    switch ((int)verb) {
    case VG_MOVE_PRECHECK:
        return nova_precheck(move, ret, err);
    case VG_MOVE_MIGRATE:
        return nova_migrate(move, ret, err);
    case VG_MOVE_VERIFY:
        return nova_verify(move, ret, err);
    default:
        vg_bug("verb %d is none of a VM without GPUs", (int)verb);
    }
}

void
mover_nova_do(struct mover_move *move, enum vg_move_verb verb, struct mover_outcome *ret)
{
    g_autoptr(GError) error = NULL;

    if (verb == VG_MOVE_LOOK) {
        nova_do_look(move, ret);
        return;
    }
    ret->ok = nova_do_verb(move, verb, ret, &error) == 0;
    if (ret->ok)
        return;
    g_free(ret->text);
    ret->text = g_strdup(error->message);
}

char *
mover_nova_describe(const struct mover_move *move, enum vg_move_verb verb)
{
    const struct vg_migration *record = move->record;

    switch ((int)verb) {
    case VG_MOVE_LOOK:
        return record->nova_to ? g_strdup("nova: where is the VM?")
                               : g_strdup_printf("libvirt of '%s': is the VM there?", record->from);
    case VG_MOVE_PRECHECK:
        return g_strdup_printf("nova: can it move from '%s' to '%s'?", record->from, record->to);
    case VG_MOVE_MIGRATE:
        return g_strdup_printf("nova: migrate it live to '%s'", record->nova_to);
    case VG_MOVE_VERIFY:
        return g_strdup_printf("nova: is it on '%s'?", record->nova_to);
    default:
        return NULL;
    }
}
