/* SPDX-License-Identifier: Apache-2.0
 *
 * What speaks against a move, before anything is touched.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "daemon/mover-private.h"

#define HELLO_NS  (15 * VG_NS_PER_S)
#define STATUS_NS (20 * VG_NS_PER_S)

static char *
mover_join(const GPtrArray *sentences)
{
    GString *text = g_string_new(NULL);

    for (guint i = 0; i < sentences->len; i++)
        g_string_append_printf(text, "%s%s", i > 0 ? "; " : "", (const char *)sentences->pdata[i]);
    return g_string_free(text, FALSE);
}

static void
mover_add_silence(GPtrArray *problems, const char *why)
{
    g_ptr_array_add(problems,
                    g_strdup_printf("the guest's agent does not answer (%s); vgpu-guestd must run "
                                    "in the guest, or no_agent leave it out",
                                    why));
}

/* The agent that will be asked is there. */
static void
mover_check_agent(struct mover_move *move, GPtrArray *problems)
{
    struct vg_guest_answer answer = {0};
    g_autoptr(GError) error = NULL;
    const struct vg_verb verb = mover_verb(move, HELLO_NS);

    if (vg_guest_hello(move->source, move->record->uuid, &verb, &answer, &error) < 0 || !answer.ok)
        mover_add_silence(problems, error ? error->message : answer.text);
    vg_guest_answer_clear(&answer);
}

/* It could release the GPUs now. What it tells of programs goes into the record. */
static void
mover_check_programs(struct mover_move *move, GPtrArray *problems)
{
    const struct vg_migration *record = move->record;
    struct vg_guest_answer answer = {0};
    g_autoptr(GError) error = NULL;
    const struct vg_verb verb = mover_verb(move, STATUS_NS);

    if (vg_guest_status(move->source, record->uuid, record->devices, &verb, &answer, &error) < 0)
        mover_add_silence(problems, error->message);
    else if (!answer.ok)
        g_ptr_array_add(problems,
                        g_strdup_printf("the guest cannot release its GPUs now: %s", answer.text));
    vg_guest_programs_replace(&move->record->guest, g_steal_pointer(&answer.programs));
    vg_guest_answer_clear(&answer);
}

/* Of the source alone if there is no peer. */
static int
mover_find_problems(struct mover_move *move, GPtrArray *problems, GError **err)
{
    if (move->record->executor == VG_EXECUTOR_NOVA) {
        /* It says more once it knows where to. */
        if (move->record->peer)
            mover_nova_find_problems(move, problems);
        return 0;
    }
    vg_virt_host *source = mover_source(move, err), *target = NULL;
    struct vg_precheck check = {.uuid = move->record->uuid, .devices = move->record->devices};

    if (!source)
        return -1;
    if (move->record->peer) {
        target = mover_target(move, err);
        if (!target)
            return -1;
        check.peer_uri = move->peer_uri;
    }
    g_ptr_array_set_size(move->record->doubts, 0);
    check.doubts = move->record->doubts;
    return vg_virt_precheck(source, target, &check, problems, err);
}

int
mover_precheck(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    g_autoptr(GPtrArray) problems = g_ptr_array_new_with_free_func(g_free);

    if (mover_find_problems(move, problems, err) < 0)
        return -1;
    if (move->machine.has_agent)
        mover_check_agent(move, problems);
    if (problems->len > 0) {
        g_autofree char *text = mover_join(problems);
        return vg_error(err, VG_E_REFUSED, "%s", text);
    }
    g_autofree char *doubts = mover_join(move->record->doubts);
    ret->text = g_strdup_printf("nothing speaks against it%s%s", *doubts ? "; but " : "", doubts);
    return 0;
}

/* ---- without a move ---- */

static bool
mover_is_on_its_way(vg_mover *mover, const char *uuid)
{
    g_autoptr(GPtrArray) moving = vg_mover_moving(mover);

    return g_ptr_array_find_with_equal_func(moving, uuid, g_str_equal, NULL);
}

/* Two that ask a guest at once would take its channel from each other, and a move's must not be
 * taken from it. */
int
vg_mover_check(vg_mover *mover, struct vg_migration *migration, GPtrArray *problems, GError **err)
{
    struct mover_move move = {.mover = mover, .record = migration};
    int status = 0;

    VG_LOCK_SCOPE(&mover->asking);
    if (mover_is_on_its_way(mover, migration->uuid)) {
        g_ptr_array_add(problems, g_strdup_printf("'%s' is being moved already", migration->vm));
        return 0;
    }
    move.settings = vg_mover_settings(mover);
    status = mover_find_problems(&move, problems, err);
    if (status == 0 && migration->devices->len > 0 && !migration->no_agent)
        mover_check_programs(&move, problems);
    vg_virt_host_close(move.source);
    vg_virt_host_close(move.target);
    vg_nova_free(move.nova);
    g_free(move.peer_uri);
    vg_move_settings_unref(move.settings);
    return status;
}

static int
mover_look_at_vm(vg_mover *mover, const struct vg_inv_vm *vm, struct vg_migration *migration,
                 GPtrArray *problems, GError **err)
{
    g_autoptr(vg_move_settings) settings = vg_mover_settings(mover);
    g_autoptr(GError) refused = NULL;

    if (!settings->enabled)
        return vg_error(err, VG_E_REFUSED,
                        "acting is off on this host ([actions] enabled=yes allows it), and so is "
                        "asking guests");
    if (mover_set_executor(settings, vm, migration, &refused) < 0) {
        g_ptr_array_add(problems, g_strdup(refused->message));
        return 0;
    }
    if (mover_read_gpus(settings, migration, err) < 0)
        return -1;
    return vg_mover_check(mover, migration, problems, err);
}

struct vg_movable *
vg_mover_movable(vg_mover *mover, const struct vg_inv_vm *vm)
{
    struct vg_movable *movable = vg_record_new(&vg_movable_record);
    g_autoptr(vg_migration) migration = vg_migration_new();
    g_autoptr(GError) error = NULL;

    movable->vm = g_strdup(vm->name);
    movable->uuid = g_strdup(vm->uuid);
    migration->vm = g_strdup(vm->name);
    migration->uuid = g_strdup(vm->uuid);
    if (mover_look_at_vm(mover, vm, migration, movable->reasons, &error) < 0)
        g_ptr_array_add(movable->reasons, g_strdup(error->message));
    else
        movable->movable = movable->reasons->len > 0 ? VG_MOVABLE_NO : VG_MOVABLE_YES;
    if (movable->reasons->len > VG_MOVABLE_REASONS_MAX)
        g_ptr_array_set_size(movable->reasons, VG_MOVABLE_REASONS_MAX);
    for (guint i = 0; i < migration->doubts->len && i < VG_MOVABLE_REASONS_MAX; i++)
        g_ptr_array_add(movable->doubts, g_strdup(migration->doubts->pdata[i]));
    for (guint i = 0; i < migration->devices->len; i++)
        g_ptr_array_add(movable->devices,
                        vg_record_copy(&vg_move_device_record, migration->devices->pdata[i]));
    vg_guest_programs_replace(&movable->guest,
                              vg_record_copy(&vg_guest_programs_record, &migration->guest));
    return movable;
}
