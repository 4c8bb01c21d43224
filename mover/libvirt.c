/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves a VM through both hosts' libvirt, the guest, and the target's vgpud.
 */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "cluster/peer-moves.h"
#include "mover/private.h"

#define HELLO_NS (15 * VG_NS_PER_S)

/* Connects to the host where the VM was last found. */
static vg_virt_link *
libvirt_here(struct mover_move *move, GError **err)
{
    return move->machine.facts.place == VG_PLACE_TARGET ? mover_target(move, err)
                                                        : mover_source(move, err);
}

/* ---- checks before anything is touched ---- */

static int
libvirt_check_peer(vg_mover *mover, const char *peer, GError **err)
{
    g_autofree char *uri = mover_peer_uri(mover, peer, err);

    return uri ? 0 : -1;
}

static int
libvirt_check_devices(const struct vg_inv_vm *vm, const GPtrArray *gpus, GError **err)
{
    (void)vm;
    if (gpus && gpus->len > VG_MIGRATION_DEVICES_MAX)
        return vg_error(err, VG_E_REFUSED, "the VM has %u GPUs, but a move supports at most %d",
                        gpus->len, VG_MIGRATION_DEVICES_MAX);
    return 0;
}

/* Other threads read the record at the same time. */
static void
libvirt_set_doubts(struct mover_move *move, const GPtrArray *doubts)
{
    VG_LOCK_SCOPE(&move->mover->lock);
    g_ptr_array_set_size(move->record->doubts, 0);
    for (guint i = 0; i < doubts->len; i++)
        g_ptr_array_add(move->record->doubts, g_strdup(doubts->pdata[i]));
}

/* Adds the problems that both hosts' libvirt and vgpud report. Without a peer, only the source is
 * checked. */
static int
libvirt_find_problems(struct mover_move *move, GPtrArray *problems, GError **err)
{
    vg_virt_link *source = mover_source(move, err), *target = NULL;
    struct vg_precheck check = {.uuid = move->record->uuid,
                                .devices = move->record->devices,
                                .native = move->record->mode == VG_MODE_NATIVE};

    if (!source)
        return -1;
    if (move->record->peer) {
        target = mover_target(move, err);
        if (!target)
            return -1;
        check.peer_uri = move->peer_uri;
    }
    g_autoptr(GPtrArray) doubts = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func(vg_path_need_free);
    check.doubts = doubts;
    check.paths = paths;
    const int status = vg_virt_precheck(source, target, &check, problems, err);
    if (move->record->tls_warns)
        g_ptr_array_add(doubts, g_strdup_printf("the VM's memory is sent unencrypted: %s",
                                                move->record->tls_why));
    libvirt_set_doubts(move, doubts);
    if (status == 0)
        mover_check_paths(move, paths, problems);
    return status;
}

/* Checks that the guest's agent answers. The move needs it. */
static void
libvirt_check_agent(struct mover_move *move, GPtrArray *problems)
{
    struct vg_guest_answer answer = {0};
    g_autoptr(GError) error = NULL;
    const struct vg_verb verb = mover_verb(move, HELLO_NS);

    if (vg_guest_hello(move->source, move->record->uuid, &verb, &answer, &error) < 0 || !answer.ok)
        mover_add_silence(problems, error ? error->message : answer.text);
    else
        mover_check_programs(move, problems);
    vg_guest_answer_clear(&answer);
}

static int
libvirt_precheck(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    g_autoptr(GPtrArray) problems = g_ptr_array_new_with_free_func(g_free);

    if (libvirt_find_problems(move, problems, err) < 0)
        return -1;
    if (move->machine.has_agent)
        libvirt_check_agent(move, problems);
    return mover_refuse(move, problems, ret, err);
}

/* ---- reserving ---- */

static int
libvirt_reserve(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    const struct vg_migration *record = move->record;

    if (mover_begin_lease(move, err) < 0)
        return -1;
    ret->text =
        g_strdup_printf("'%s' has reserved %u GPU%s as %s", record->to, record->devices->len,
                        record->devices->len == 1 ? "" : "s", record->reservation);
    return 0;
}

static int
libvirt_release(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    struct vg_migration *record = move->record;
    g_autofree char *hold = vg_reservations_hold_id(record->id);
    g_autoptr(GError) error = NULL;

    mover_end_lease(move);
    if (vg_reservations_release(move->mover->parts.reservations, move->settings, hold, NULL,
                                &error) < 0 &&
        !g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND)) {
        g_propagate_error(err, g_steal_pointer(&error));
        return -1;
    }
    g_clear_error(&error);
    if (record->reservation && vg_peer_release(move->mover->parts.peers, record->peer,
                                               record->reservation, MOVER_PEER_NS, err) < 0) {
        g_prefix_error(err, "it will be released when its lease ends: ");
        return -1;
    }
    pthread_mutex_lock(&move->mover->lock);
    g_clear_pointer(&record->reservation, g_free);
    pthread_mutex_unlock(&move->mover->lock);
    ret->text = g_strdup("the reservation is released");
    return 0;
}

/* ---- the guest ---- */

/* Checks that no program was lost. The guest continues even if a process cannot be restored, but
 * the move has then lost data. */
static int
libvirt_check_lost(const struct vg_guest_programs *programs, GError **err)
{
    const struct vg_guest_program *lost = vg_guest_programs_lost(programs);

    if (!lost)
        return 0;
    return vg_error(err, VG_E_EXTERNAL,
                    "the guest: the driver can never restore process %" PRId64
                    " (%s)%s%s; end it in "
                    "the guest with "
                    "`vgpu-guestd end %" PRId64 "`",
                    lost->pid, lost->comm ? lost->comm : "?", lost->why ? ": " : "",
                    lost->why ? lost->why : "", lost->pid);
}

/* Reserves GPU memory at the proxy where the guest's OpenCL programs continue during the move. */
static int
libvirt_keep_share(struct mover_move *move, struct mover_share *share, GError **err)
{
    const struct vg_migration *record = move->record;
    struct mover_goal goal = {record->vm, record->uuid, record->gpu_during, 0};

    pthread_mutex_lock(&move->mover->lock);
    for (guint i = 0; i < record->guest.programs->len; i++) {
        const struct vg_guest_program *program = record->guest.programs->pdata[i];
        if (g_strcmp0(program->by, "opencl") == 0 && g_strcmp0(program->at, goal.place) != 0)
            goal.bytes += program->gpu_bytes;
    }
    pthread_mutex_unlock(&move->mover->lock);
    if (mover_keep_share(move->mover, move->settings, &goal, share, err) == 0)
        return 0;
    vg_move_guest_as_before(&move->machine);
    return -1;
}

static int
libvirt_call_guest(struct mover_move *move, enum vg_move_verb verb, struct mover_outcome *ret,
                   GError **err)
{
    vg_virt_link *host = libvirt_here(move, err);
    const struct vg_migration *record = move->record;
    const int64_t bytes = record->guest.gpu_bytes;
    struct vg_verb limits = mover_verb(move, vg_guest_allowed_ns(move->settings->guest_deadline_ns,
                                                                 bytes, verb == VG_MOVE_QUIESCE));
    struct vg_guest_answer answer = {0};

    struct mover_share share = {.id = NULL};
    limits.gpu_bytes = bytes;
    if (!host || (verb == VG_MOVE_QUIESCE && libvirt_keep_share(move, &share, err) < 0))
        return -1;
    int status = verb == VG_MOVE_QUIESCE
                     ? vg_guest_prepare(host, record->uuid, record->devices, record->gpu_during,
                                        &limits, &answer, err)
                     : vg_guest_resume(host, record->uuid, record->devices, &limits, &answer, err);
    mover_leave_share(move->mover, move->settings, &share);
    if (status == 0 && !answer.ok && answer.undone && verb == VG_MOVE_QUIESCE)
        vg_move_guest_as_before(&move->machine);
    if (status == 0 && !answer.ok)
        status = vg_error(err, VG_E_REFUSED, "the guest: %s", answer.text);
    if (status == 0 && answer.programs && verb != VG_MOVE_QUIESCE)
        status = libvirt_check_lost(answer.programs, err);
    ret->is_final = status < 0 && verb != VG_MOVE_QUIESCE && answer.programs &&
                    vg_guest_programs_are_final(answer.programs);
    if (status == 0)
        ret->text = g_strdup(answer.text);
    /* All programs that used a proxy may have ended. */
    if (answer.ok && !answer.programs && verb != VG_MOVE_QUIESCE)
        answer.programs = vg_record_new(&vg_guest_programs_record);
    pthread_mutex_lock(&move->mover->lock);
    vg_guest_programs_replace(&move->record->guest, g_steal_pointer(&answer.programs));
    move->record->guest_pause_ns = MAX(move->record->guest_pause_ns, answer.pause_ns);
    pthread_mutex_unlock(&move->mover->lock);
    vg_guest_answer_clear(&answer);
    return status;
}

/* ---- libvirt ---- */

static int
libvirt_detach(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    vg_virt_link *host = libvirt_here(move, err);
    const struct vg_verb limits = mover_verb(move, move->settings->unplug_deadline_ns);

    if (!host || vg_virt_detach(host, move->record->uuid, move->record->devices, &limits, err) < 0)
        return -1;
    ret->text = g_strdup("unplugged");
    return 0;
}

static int
libvirt_attach(struct mover_move *move, bool is_target, struct mover_outcome *ret, GError **err)
{
    const struct vg_migration *record = move->record;
    vg_virt_link *host = is_target ? mover_target(move, err) : mover_source(move, err);
    const struct vg_verb limits = mover_verb(move, vg_move_deadline_ns(VG_MOVE_ATTACH));

    if (!host || (is_target ? mover_check_lease(move, err) : mover_check_hold(move, err)) < 0)
        return -1;
    for (guint i = 0; i < record->devices->len; i++) {
        const struct vg_move_device *device = record->devices->pdata[i];
        const char *xml = is_target ? device->target_xml : device->source_xml;
        if (vg_virt_attach(host, record->uuid, device, xml, &limits, err) < 0)
            return -1;
    }
    ret->text = g_strdup("plugged in");
    return 0;
}

/* Composes the URI that the target's libvirt uses to connect to this host's libvirt. If none is
 * configured, it is the target's URI with the name of this host. */
static char *
libvirt_own_uri(const struct mover_move *move)
{
    const char *own = move->settings->own_uri, *peer = move->peer_uri;
    const char *host = strstr(peer, "://");
    const char *end = host ? strchr(host + 3, '/') : NULL;

    if (own[0] || !end)
        return g_strdup(own);
    const char *at = memchr(host + 3, '@', (size_t)(end - host - 3));
    host = at ? at + 1 : host + 3;
    /* The address of an IPv6 host is in brackets because it contains colons. */
    const char *port = memchr(host, host[0] == '[' ? ']' : ':', (size_t)(end - host));
    const char *rest = !port ? end : *port == ']' ? port + 1 : port;
    return g_strdup_printf("%.*s%s%s", (int)(host - peer), peer, move->record->from, rest);
}

/* Checks that the destination host answers. Otherwise, the other host's libvirt would wait for it
 * indefinitely, and the migration could not be cancelled. */
static int
libvirt_check_answers(struct mover_move *move, vg_virt_link *link, GError **err)
{
    struct vg_domain_look look;

    return vg_virt_look(link, move->record->uuid, NULL, &look, err);
}

static int
libvirt_migrate(struct mover_move *move, bool is_back, struct mover_outcome *ret, GError **err)
{
    vg_virt_link *source = mover_source(move, err);
    vg_virt_link *target = source ? mover_target(move, err) : NULL;
    const struct vg_verb limits = mover_verb(move, move->settings->migrate_deadline_ns);
    struct vg_migration_progress progress = {0};

    /* A VM migrates back only without GPUs. */
    const bool native = move->machine.native && !is_back;

    if (!target || libvirt_check_answers(move, is_back ? source : target, err) < 0 ||
        (native && mover_check_lease(move, err) < 0))
        return -1;
    g_autofree char *uri = is_back ? libvirt_own_uri(move) : g_strdup(move->peer_uri);
    bool was_paused = false;
    const struct vg_virt_migration migration = {
        .uuid = move->record->uuid,
        .peer_uri = uri,
        .target = is_back ? source : target,
        .devices = move->record->devices,
        .native = native,
        .tls = move->record->tls == VG_MOVE_TLS_YES,
        .bandwidth_bytes_per_s = move->settings->bandwidth_bytes_per_s,
        .downtime_max_ns = move->settings->downtime_max_ns,
        .ret_paused = &was_paused,
    };
    g_autoptr(GError) error = NULL;
    move->called_off = false;
    if (vg_virt_migrate(is_back ? target : source, &migration, &limits, &progress, &error) < 0) {
        move->called_off = g_error_matches(error, VG_ERROR, VG_E_IO) ||
                           vg_clock_monotonic_ns() >= limits.deadline_ns;
        g_propagate_error(err, g_steal_pointer(&error));
        return -1;
    }
    limits.tell(limits.data, &progress, NULL);
    const int64_t wanted_ns = move->record->downtime_limit_ns;
    g_autofree char *over = wanted_ns > 0 && progress.downtime_ns > wanted_ns
                                ? g_strdup_printf(", more than the %.0f ms of [actions] downtime",
                                                  (double)wanted_ns / 1e6)
                                : g_strdup("");
    g_autofree char *command = mover_command(move, !is_back, "suspend");
    g_autofree char *paused =
        was_paused ? g_strdup_printf("; the VM had been paused during the migration, and libvirt "
                                     "has resumed it: %s pauses it again",
                                     command)
                   : g_strdup("");
    ret->text = g_strdup_printf("in %.2f s, %.0f MiB copied, downtime %.0f ms%s%s",
                                (double)progress.elapsed_ns / (double)VG_NS_PER_S,
                                (double)progress.processed_bytes / 1048576,
                                (double)progress.downtime_ns / 1e6, over, paused);
    return 0;
}

/* ---- the table ---- */

static int
libvirt_do_verb(struct mover_move *move, enum vg_move_verb verb, struct mover_outcome *ret,
                GError **err)
{
    switch (verb) {
    case VG_MOVE_PRECHECK:
        return libvirt_precheck(move, ret, err);
    case VG_MOVE_RESERVE:
        return libvirt_reserve(move, ret, err);
    case VG_MOVE_RELEASE:
        return libvirt_release(move, ret, err);
    case VG_MOVE_QUIESCE:
    case VG_MOVE_RESUME:
    case VG_MOVE_REVIVE:
        return libvirt_call_guest(move, verb, ret, err);
    case VG_MOVE_DETACH:
        return libvirt_detach(move, ret, err);
    case VG_MOVE_ATTACH:
    case VG_MOVE_REATTACH:
        return libvirt_attach(move, verb == VG_MOVE_ATTACH, ret, err);
    case VG_MOVE_MIGRATE:
    case VG_MOVE_RETURN:
        return libvirt_migrate(move, verb == VG_MOVE_RETURN, ret, err);
    case VG_MOVE_VERIFY:
        return mover_verify(move, ret, err);
    case VG_MOVE_TIDY:
        return mover_tidy(move, ret, err);
    case VG_MOVE_LOOK:
        mover_look(move, ret);
        return 0;
    case VG_MOVE_VERB_MAX:
    default:
        vg_bug("verb %d does not apply here", (int)verb);
    }
}

static char *
libvirt_describe(const struct mover_move *move, enum vg_move_verb verb)
{
    const struct vg_migration *record = move->record;
    g_auto(GStrv) aliases = mover_aliases(record);
    g_autofree char *gpus = g_strjoinv(", ", aliases);
    const char *here = move->machine.facts.place == VG_PLACE_TARGET ? record->to : record->from;

    switch (verb) {
    case VG_MOVE_LOOK:
        return g_strdup_printf("libvirt on '%s' and '%s': find the VM", record->from, record->to);
    case VG_MOVE_PRECHECK:
        return g_strdup_printf("libvirt on '%s' and '%s', and the guest: check that the VM can "
                               "move",
                               record->from, record->to);
    case VG_MOVE_RESERVE:
        return g_strdup_printf("vgpud on '%s': reserve %u GPU%s (%s)", record->to,
                               record->devices->len, record->devices->len == 1 ? "" : "s", gpus);
    case VG_MOVE_QUIESCE:
        return g_strdup_printf("the guest on '%s': release %s", record->from, gpus);
    case VG_MOVE_DETACH:
        return g_strdup_printf("libvirt on '%s': unplug %s", here, gpus);
    case VG_MOVE_MIGRATE:
        return g_strdup_printf("libvirt on '%s': migrate to '%s'%s%s", record->from, record->to,
                               move->machine.native ? " with " : "",
                               move->machine.native ? gpus : "");
    case VG_MOVE_ATTACH:
        return g_strdup_printf("libvirt on '%s': plug in %s", record->to, gpus);
    case VG_MOVE_RESUME:
        return g_strdup_printf("the guest on '%s': resume with %s", record->to, gpus);
    case VG_MOVE_VERIFY:
        return g_strdup_printf("libvirt on '%s' and '%s': verify the result", record->from,
                               record->to);
    case VG_MOVE_RETURN:
        return g_strdup_printf("libvirt on '%s': migrate back to '%s'", record->to, record->from);
    case VG_MOVE_REATTACH:
        return g_strdup_printf("libvirt on '%s': plug in %s again", record->from, gpus);
    case VG_MOVE_REVIVE:
        return g_strdup_printf("the guest on '%s': resume with %s again", record->from, gpus);
    case VG_MOVE_TIDY:
        return g_strdup_printf("libvirt on '%s' and '%s': verify the VM's definition", record->from,
                               record->to);
    case VG_MOVE_RELEASE:
        return g_strdup_printf("vgpud on '%s': release the reservation", record->to);
    case VG_MOVE_VERB_MAX:
    default:
        return NULL;
    }
}

const struct mover_executor mover_libvirt = {
    .describe = libvirt_describe,
    .do_verb = libvirt_do_verb,
    .find_problems = libvirt_find_problems,
    .check_peer = libvirt_check_peer,
    .check_devices = libvirt_check_devices,
};
