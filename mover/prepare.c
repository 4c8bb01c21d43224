/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluates a request before a move starts: what it means, and which problems prevent it.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "host/qemu-tls.h"
#include "model/vm-name.h"
#include "mover/private.h"

/* The time limit for a guest to confirm its proxy. */
#define TELL_NS (20 * VG_NS_PER_S)

/* ---- evaluating a request ---- */

/* Chooses the executor of the move. Only nova may move a VM that nova manages, and only its own
 * manager may move any other managed VM. */
static const struct mover_executor *
prepare_choose_executor(const struct vg_move_settings *settings, const struct vg_inv_vm *vm,
                        struct vg_migration *migration, GError **err)
{
    if (vm->nova_managed && !settings->nova) {
        vg_error(err, VG_E_REFUSED,
                 "OpenStack manages '%s' (instance %s), and nova would not know that libvirt moved "
                 "it; configure [nova] in vgpud.conf so that vgpud moves it through nova",
                 vm->name, vm->nova.name ? vm->nova.name : "without a name");
        return NULL;
    }
    if (vm->manager) {
        vg_error(err, VG_E_REFUSED,
                 "%s manages '%s', and would not know that libvirt moved it: use %s", vm->manager,
                 vm->name, vm->manager_move);
        return NULL;
    }
    migration->executor = vm->nova_managed ? VG_EXECUTOR_NOVA : VG_EXECUTOR_LIBVIRT;
    const struct mover_executor *executor = mover_executor_of(migration->executor);
    return executor->check_devices(vm, NULL, err) < 0 ? NULL : executor;
}

/* Chooses whether QEMU transfers the GPUs' state. It does so where possible, unless the request
 * says otherwise. */
static int
prepare_choose_mode(vg_virt_link *source, const char *wanted, struct vg_migration *migration,
                    GError **err)
{
    g_autofree char *why = NULL;

    if (wanted && strcmp(wanted, vg_migration_mode_names[VG_MODE_DETACH]) != 0 &&
        strcmp(wanted, vg_migration_mode_names[VG_MODE_NATIVE]) != 0)
        return vg_error(err, VG_E_INVALID, "mode '%s' is neither 'detach' nor 'native'", wanted);
    if (migration->devices->len == 0 || migration->executor != VG_EXECUTOR_LIBVIRT)
        return 0;
    if (wanted && strcmp(wanted, vg_migration_mode_names[VG_MODE_DETACH]) == 0) {
        migration->mode_why = g_strdup("it was requested");
        return 0;
    }
    if (vg_virt_ask_native(source, migration->uuid, migration->devices, &why, err) < 0)
        return -1;
    if (why && wanted)
        return vg_error(err, VG_E_REFUSED, "the VM cannot be migrated with its GPUs in it: %s",
                        why);
    migration->mode = why ? VG_MODE_DETACH : VG_MODE_NATIVE;
    migration->mode_why =
        why ? g_steal_pointer(&why) : g_strdup("QEMU can migrate the GPUs' state");
    return 0;
}

/* Adds the VM's current GPUs to the devices of the migration and chooses the mode. mode is the
 * requested mode, or NULL. */
static int
prepare_read_gpus(const struct vg_move_settings *settings, const struct vg_inv_vm *vm,
                  const char *mode, struct vg_migration *migration, GError **err)
{
    g_autoptr(vg_virt_link) source = vg_virt_link_open(settings->libvirt_uri, err);
    g_autoptr(GPtrArray) gpus =
        source ? vg_virt_gpus(source, migration->uuid, settings->named, settings->n_named, err)
               : NULL;

    if (!gpus || mover_executor_of(migration->executor)->check_devices(vm, gpus, err) < 0)
        return -1;
    for (guint i = 0; i < gpus->len; i++)
        g_ptr_array_add(migration->devices, vg_record_copy(&vg_move_device_record, gpus->pdata[i]));
    return prepare_choose_mode(source, mode, migration, err);
}

/* Returns the PCI address of the GPU to which a device of the VM belongs, or NULL if unknown. */
static const char *
prepare_find_gpu(const struct vg_inv_vm *vm, const struct vg_move_device *device)
{
    for (guint i = 0; device->source_address && i < vm->devices->len; i++) {
        const struct vg_inv_device *has = vm->devices->pdata[i];
        if (g_ascii_strcasecmp(has->address, device->source_address) != 0)
            continue;
        return has->parent || device->kind == VG_MOVE_DEVICE_MDEV ? has->parent : has->address;
    }
    return NULL;
}

/* Records for each device the target's GPU that the request names, if any. */
static int
prepare_name_gpus(const struct vg_inv_vm *vm, const GPtrArray *targets,
                  struct vg_migration *migration, GError **err)
{
    for (guint t = 0; targets && t < targets->len; t++) {
        const struct vg_gpu_target *target = targets->pdata[t];
        bool found = !target->to;
        for (guint i = 0; target->to && i < migration->devices->len; i++) {
            struct vg_move_device *device = migration->devices->pdata[i];
            if (device->kind == VG_MOVE_DEVICE_NAMED || device->function_of ||
                g_strcmp0(prepare_find_gpu(vm, device), target->from) != 0)
                continue;
            g_free(device->target_gpu);
            device->target_gpu = g_strdup(target->to);
            found = true;
        }
        if (!found)
            return vg_error(err, VG_E_CONFLICT,
                            "VM '%s' has no device on GPU %s that could move to GPU %s", vm->name,
                            target->from, target->to);
    }
    return 0;
}

/* Decides whether QEMU encrypts the data sent to the target. */
static int
prepare_choose_tls(const struct vg_move_settings *settings, const struct vg_peer_info *target,
                   struct vg_migration *migration, GError **err)
{
    if (migration->executor != VG_EXECUTOR_LIBVIRT) {
        migration->tls_why = g_strdup("nova's own configuration decides");
        return 0;
    }
    const struct vg_tls_choice choice = vg_tls_choose(&(struct vg_tls_facts){
        .mode = settings->tls,
        .uri = target->libvirt_uri,
        .from = migration->from,
        .to = migration->to,
        .own = vg_qemu_tls_look(""),
        .other = target->migration_tls,
    });
    migration->tls = choice.tls;
    migration->tls_warns = choice.warns;
    migration->tls_why = choice.why;
    return choice.refused ? vg_error(err, VG_E_REFUSED, "%s", choice.why) : 0;
}

/* Finds the peer of a request by the peer's name or its host's name. */
static struct vg_peer_info *
prepare_find_target(vg_mover *mover, const char *to, const struct mover_executor *executor,
                    GError **err)
{
    if (strcmp(to, mover->parts.host) == 0) {
        vg_error(err, VG_E_CONFLICT, "the VM is already on '%s'", to);
        return NULL;
    }
    struct vg_peer_info *info = vg_peers_find(mover->parts.peers, to);
    if (!info) {
        vg_error(err, VG_E_NOT_FOUND,
                 "this vgpud does not know a host '%s'; add a group [peer NAME] to its "
                 "configuration; `vgpuctl peer list` shows the known hosts",
                 to);
        return NULL;
    }
    if (executor->check_peer && executor->check_peer(mover, info->name, err) < 0) {
        vg_peer_info_free(info);
        return NULL;
    }
    if (!info->host) {
        vg_error(err, VG_E_CONFLICT, "peer '%s' has never answered: %s", info->name,
                 info->reason ? info->reason : "it has not been queried yet");
        vg_peer_info_free(info);
        return NULL;
    }
    if (vg_peers_check_host(info, err) < 0) {
        vg_peer_info_free(info);
        return NULL;
    }
    return info;
}

/* Checks that programs can continue at a proxy during the move, if this is requested. */
static int
prepare_check_during(const struct vg_migration *migration, GError **err)
{
    const char *why = !migration->gpu_during                       ? NULL
                      : migration->no_agent                        ? "the guest's agent is not used"
                      : migration->executor != VG_EXECUTOR_LIBVIRT ? "nova moves the VM"
                      : migration->mode == VG_MODE_NATIVE          ? "QEMU migrates the GPUs' "
                                                                     "state"
                      : migration->devices->len == 0               ? "it has no GPU to lose"
                                                                   : NULL;

    if (!why)
        return 0;
    return vg_error(err, VG_E_REFUSED, "programs in '%s' cannot use a proxy during the move: %s",
                    migration->vm, why);
}

struct vg_migration *
vg_mover_prepare(vg_mover *mover, const struct vg_inv_vm *vm,
                 const struct vg_migration_request *request, GError **err)
{
    g_autoptr(vg_move_settings) settings = vg_mover_settings(mover);
    g_autoptr(vg_migration) migration = vg_migration_new();

    if (!settings->enabled) {
        vg_error(err, VG_E_REFUSED,
                 "actions are disabled on this host; set [actions] enabled=yes in vgpud.conf to "
                 "enable them");
        return NULL;
    }
    if (request->gpu_during && vg_migration_check_place(request->gpu_during, err) < 0)
        return NULL;
    const struct mover_executor *executor = prepare_choose_executor(settings, vm, migration, err);
    struct vg_peer_info *target =
        executor ? prepare_find_target(mover, request->to, executor, err) : NULL;
    if (!target)
        return NULL;
    migration->id = vg_move_new_id("move");
    migration->vm = g_strdup(vm->name);
    migration->display_name = g_strdup(vg_inv_vm_display_name(vm));
    migration->uuid = g_strdup(vm->uuid);
    migration->from = g_strdup(mover->parts.host);
    migration->to = g_strdup(target->host);
    migration->peer = g_strdup(target->name);
    migration->plan_id = g_strdup(request->plan_id);
    migration->undo_of = g_strdup(request->undo_of);
    migration->act = g_strdup(request->act);
    migration->act_revision = request->act_revision;
    migration->act_until_ns = request->act_until_ns;
    migration->asked_by = g_strdup(request->asked_by);
    migration->begun_by = request->begun_by;
    migration->no_agent = request->no_agent;
    migration->gpu_during = g_strdup(request->gpu_during);
    migration->downtime_limit_ns = settings->downtime_max_ns;
    migration->vm_on = VG_PLACE_SOURCE;
    migration->gpu = VG_GPU_ATTACHED;
    const int chosen = prepare_choose_tls(settings, target, migration, err);
    vg_peer_info_free(target);
    if (chosen < 0 || prepare_read_gpus(settings, vm, request->mode, migration, err) < 0 ||
        prepare_name_gpus(vm, request->gpus, migration, err) < 0 ||
        prepare_check_during(migration, err) < 0)
        return NULL;
    return g_steal_pointer(&migration);
}

/* ---- problems ---- */

char *
mover_find_move(vg_mover *mover, const char *uuid)
{
    char *id = NULL;

    pthread_mutex_lock(&mover->lock);
    for (guint i = 0; i < mover->moves->len && !id; i++) {
        const struct mover_move *move = mover->moves->pdata[i];
        if (!move->ended && vg_vm_is(uuid, NULL, move->record->uuid))
            id = g_strdup(move->record->id);
    }
    pthread_mutex_unlock(&mover->lock);
    return id ? id : vg_reservations_move_of(mover->parts.reservations, uuid);
}

void
mover_begin_asking(vg_mover *mover, const char *uuid)
{
    VG_LOCK_SCOPE(&mover->lock);
    while (!g_hash_table_add(mover->asked, g_strdup(uuid)))
        pthread_cond_wait(&mover->answered, &mover->lock);
}

void
mover_end_asking(vg_mover *mover, const char *uuid)
{
    VG_LOCK_SCOPE(&mover->lock);
    g_hash_table_remove(mover->asked, uuid);
    pthread_cond_broadcast(&mover->answered);
}

/* Returns the id of the VM's queued move, which the caller frees, or NULL. */
static char *
prepare_find_queued(vg_mover *mover, const char *uuid)
{
    VG_LOCK_SCOPE(&mover->lock);
    const struct mover_queued *queued = mover_queue_find_vm(mover, uuid);
    return queued ? g_strdup(queued->record->id) : NULL;
}

static int
prepare_check(vg_mover *mover, struct vg_migration *migration, GPtrArray *problems,
              GPtrArray *paths, GError **err)
{
    struct mover_move move = {
        .mover = mover,
        .executor = mover_executor_of(migration->executor),
        .record = migration,
        .paths = paths,
    };
    g_autofree char *other = mover_find_move(mover, migration->uuid);
    g_autofree char *queued = other ? NULL : prepare_find_queued(mover, migration->uuid);
    int status = 0;

    if (other || queued) {
        g_ptr_array_add(problems,
                        g_strdup_printf(other ? "'%s' is already being moved (%s)"
                                              : "'%s' is already waiting to be moved (%s)",
                                        migration->vm, other ? other : queued));
        return 0;
    }
    move.settings = vg_mover_settings(mover);
    status = move.executor->find_problems(&move, problems, err);
    if (status == 0 && migration->devices->len > 0 && !migration->no_agent &&
        migration->mode != VG_MODE_NATIVE)
        mover_check_programs(&move, problems);
    vg_virt_link_close(move.source);
    vg_virt_link_close(move.target);
    vg_nova_free(move.nova);
    g_free(move.peer_uri);
    vg_move_settings_unref(move.settings);
    return status;
}

/* Checks that the journal has space for the move's records. */
static void
prepare_check_room(vg_mover *mover, GPtrArray *problems)
{
    g_autoptr(GError) error = NULL;

    if (vg_journal_check_room(mover->parts.journal, &error) < 0)
        g_ptr_array_add(problems, g_strdup(error->message));
}

/* A guest gets only one request at a time, and none during a move. A move that starts in the
 * meantime takes over the channel. */
int
vg_mover_check(vg_mover *mover, struct vg_migration *migration, GPtrArray *problems,
               GPtrArray *paths, GError **err)
{
    mover_begin_asking(mover, migration->uuid);
    int status = prepare_check(mover, migration, problems, paths, err);
    mover_end_asking(mover, migration->uuid);
    prepare_check_room(mover, problems);
    return status;
}

static int
prepare_send_proxy(vg_mover *mover, const vg_move_settings *settings, const char *uuid,
                   const char *at, const char *token, const atomic_bool *cancel, GError **err)
{
    const struct vg_verb verb = {.deadline_ns = vg_clock_monotonic_ns() + TELL_NS,
                                 .cancel = cancel};
    g_autofree char *move = mover_find_move(mover, uuid);
    struct vg_guest_answer answer = {0};

    if (move)
        return vg_error(err, VG_E_BUSY, "it is being moved (%s)", move);
    g_autoptr(vg_virt_link) link = vg_virt_link_open(settings->libvirt_uri, err);
    if (!link || vg_guest_send_proxy(link, uuid, at, token, &verb, &answer, err) < 0)
        return -1;
    int status = answer.ok ? 0 : vg_error(err, VG_E_EXTERNAL, "%s", answer.text);
    vg_guest_answer_clear(&answer);
    return status;
}

int
vg_mover_send_proxy(vg_mover *mover, const char *uuid, const char *at, const char *token,
                    const atomic_bool *cancel, GError **err)
{
    g_autoptr(vg_move_settings) settings = vg_mover_settings(mover);

    if (!settings->enabled)
        return vg_error(err, VG_E_REFUSED,
                        "actions are disabled on this host (set [actions] enabled=yes), so guests "
                        "cannot be notified");
    mover_begin_asking(mover, uuid);
    int status = prepare_send_proxy(mover, settings, uuid, at, token, cancel, err);
    mover_end_asking(mover, uuid);
    return status;
}

void
vg_mover_measure(vg_mover *mover, const char *uuid, int64_t *ret_touched_bytes,
                 int64_t *ret_dirty_bytes_per_s)
{
    g_autoptr(vg_move_settings) settings = vg_mover_settings(mover);
    g_autoptr(vg_virt_link) source = vg_virt_link_open(settings->libvirt_uri, NULL);

    if (source)
        (void)!vg_virt_measure(source, uuid, ret_touched_bytes, ret_dirty_bytes_per_s, NULL);
}

static int
prepare_check_movable(vg_mover *mover, const struct vg_inv_vm *vm, struct vg_migration *migration,
                      GPtrArray *problems, GError **err)
{
    g_autoptr(vg_move_settings) settings = vg_mover_settings(mover);
    g_autoptr(GError) refused = NULL;

    if (!settings->enabled)
        return vg_error(err, VG_E_REFUSED,
                        "actions are disabled on this host (set [actions] enabled=yes), so guests "
                        "cannot be queried");
    if (!prepare_choose_executor(settings, vm, migration, &refused)) {
        g_ptr_array_add(problems, g_strdup(refused->message));
        return 0;
    }
    if (prepare_read_gpus(settings, vm, NULL, migration, err) < 0)
        return -1;
    return vg_mover_check(mover, migration, problems, NULL, err);
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
    if (prepare_check_movable(mover, vm, migration, movable->reasons, &error) < 0)
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
