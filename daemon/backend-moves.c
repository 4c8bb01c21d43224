/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers API requests for moves: finds the host that has the VM, checks whether a plan still
 * holds, and chooses the vgpud that runs the move.
 */
#include "config.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cluster/peer-moves.h"
#include "daemon/backend-private.h"
#include "host/path-look.h"
#include "move/effect.h"
#include "move/paths.h"
#include "move/route.h"

/* Another vgpud may query both hosts and the guest before it answers. */
#define CHECK_LIMIT_NS   (60 * VG_NS_PER_S)
#define ASK_LIMIT_NS     (20 * VG_NS_PER_S)
#define READ_LIMIT_NS    (2 * VG_NS_PER_S)
#define SAMPLES_LIMIT_NS (5 * VG_NS_PER_S)

/* ---- which hosts a request is about ---- */

static void
moves_find_hosts(void *data, const char *vm, const char *to, char *ret[VG_BACKEND_HOSTS])
{
    vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    struct vg_peer_info *target = vg_peers_find(backend->parts.peers, to);

    ret[0] = backend_find_here(view, vm) ? g_strdup("")
                                         : vg_peers_likely_owner(backend->parts.peers, vm);
    ret[1] = g_strdup(target ? target->name : to);
    vg_peer_info_free(target);
}

/* ---- passing a request on to another vgpud ---- */

/* Returns the name that the target itself uses for its host, as other vgpuds know it by that name.
 * Returns NULL if unknown. The caller frees it. */
static char *
moves_target_host(vg_daemon_backend *backend, const struct vg_migration_request *request)
{
    struct vg_peer_info *target = vg_peers_find(backend->parts.peers, request->to);
    char *host = target ? g_strdup(target->host) : NULL;

    vg_peer_info_free(target);
    return host;
}

/* Returns the name of the requesting person for another vgpud, since an identity is valid on one
 * host only. The caller frees it. */
static char *
moves_asker(vg_daemon_backend *backend, const struct vg_migration_request *request)
{
    return request->on_behalf_of ? g_strdup(request->on_behalf_of)
                                 : backend_person(backend, request->asked_by);
}

/* Finds the peer that must run the move. Returns NULL and sets *err if there is none, or if the
 * request may not be forwarded. */
static struct vg_peer_info *
moves_forward_to(vg_daemon_backend *backend, const struct vg_migration_request *request,
                 GError **err)
{
    struct vg_peer_info *owner = vg_peers_find_owner(backend->parts.peers, request->vm, err);

    if (owner && !request->forward) {
        vg_error(err, VG_E_CONFLICT,
                 "the VM '%s' is on host '%s': send the request to that host's vgpud, at %s, or "
                 "set `forward`",
                 request->vm, owner->host ? owner->host : owner->name, owner->url);
        vg_peer_info_free(owner);
        return NULL;
    }
    return owner;
}

/* ---- the effect of a move ---- */

void
backend_measure_before(vg_store *store, struct vg_migration *migration)
{
    const int64_t now_ns = vg_clock_realtime_ns();
    const struct vg_history_query query = {
        .vm = migration->uuid,
        .since_ns = now_ns - VG_EFFECT_S * VG_NS_PER_S,
        .until_ns = now_ns,
        .step_ns = VG_NS_PER_S,
        .deadline_ns = vg_clock_monotonic_ns() + READ_LIMIT_NS,
    };
    g_autoptr(GArray) rows = vg_store_read_samples(store, &query, NULL);
    struct vg_effect_sum sum = {0};

    for (guint i = 0; rows && i < rows->len; i++) {
        const struct vg_history_row *row = &g_array_index(rows, struct vg_history_row, i);
        vg_effect_add(&sum, row->cpu.preempt_ns, row->cpu.wake_wait_ns,
                      row->end_ns - row->begin_ns);
    }
    vg_effect_set(&sum, &migration->before);
}

/* Sets the CPU time that the VM has lost since its move, according to the target's vgpud. Returns
 * true once the figure is final. */
static bool
moves_measure_after(vg_peers *peers, struct vg_migration *migration)
{
    const int64_t end_ns = migration->ended_ns + VG_EFFECT_S * VG_NS_PER_S;
    const int64_t now_ns = vg_clock_realtime_ns();
    struct vg_effect_sum sum = {0};

    if (now_ns - migration->ended_ns < VG_EFFECT_MIN_NS + 2 * VG_NS_PER_S)
        return false;
    g_autoptr(GArray) samples = vg_peer_samples(
        peers, migration->peer, migration->uuid, migration->ended_ns / VG_NS_PER_S + 1,
        MIN(now_ns, end_ns) / VG_NS_PER_S, SAMPLES_LIMIT_NS, NULL);
    for (guint i = 0; samples && i < samples->len; i++) {
        const struct vg_peer_sample *sample = &g_array_index(samples, struct vg_peer_sample, i);
        vg_effect_add(&sum, sample->preempt_ns, sample->wake_wait_ns,
                      sample->end_ns - sample->begin_ns);
    }
    if (samples)
        vg_effect_set(&sum, &migration->after);
    return now_ns >= end_ns && migration->after.known;
}

/* ---- what the API calls ---- */

static char *
moves_request_text(const struct vg_migration_request *request)
{
    g_autoptr(json_object) object = vg_record_write(&vg_migration_request_record, request);

    return vg_json_to_text(object, false);
}

/* A request with its key in the journal. */
struct moves_asked {
    const struct vg_migration_request *request;
    const char *key; /* may be NULL */
    const char *text;
    const vg_move_forecast *forecast; /* may be NULL */
};

static struct vg_migration *
moves_start_here(vg_daemon_backend *backend, const struct vg_inv_vm *vm,
                 const struct moves_asked *asked, GError **err)
{
    const struct vg_mover_order order = {asked->key, asked->text, backend_check_groups, backend};
    g_autoptr(vg_migration) migration = backend_prepare_move(backend, vm, asked->request, err);

    if (!migration)
        return NULL;
    backend_note_forecast(migration, asked->forecast);
    backend_measure_before(backend->parts.store, migration);
    if (vg_asker_check(&asked->request->asker, err) < 0 ||
        vg_mover_start(backend->parts.mover, migration, &order, err) < 0)
        return NULL;
    return g_steal_pointer(&migration);
}

/* Finds the earlier request with this key: a move of this host, or the peer to which the request
 * was forwarded. Both stay NULL if the key is new. */
static int
moves_find_known(vg_daemon_backend *backend, const struct moves_asked *asked,
                 struct vg_migration **ret, char **ret_peer, GError **err)
{
    vg_journal *journal = backend->parts.journal;
    struct vg_migration *known = NULL;

    if (!asked->key)
        return 0;
    if (vg_journal_find_migration(journal, asked->key, asked->text, &known, err) < 0)
        return -1;
    if (!known)
        return vg_journal_find_passed_on(journal, asked->key, asked->text, ret_peer, err);
    *ret = vg_mover_read(backend->parts.mover, known->id, err);
    vg_migration_free(known);
    return *ret ? 0 : -1;
}

/* Forwards the request to a peer. A key is recorded first: the same request then goes to the same
 * peer, which knows the move, even if the VM is elsewhere by then. */
static struct vg_migration *
moves_pass_on(vg_daemon_backend *backend, const struct moves_asked *asked, const char *peer,
              GError **err)
{
    g_autofree char *host = moves_target_host(backend, asked->request);
    g_autofree char *person = moves_asker(backend, asked->request);
    const struct vg_peer_order order = {asked->request, host, person, asked->forecast};

    if (vg_asker_check(&asked->request->asker, err) < 0)
        return NULL;
    if (asked->key &&
        vg_journal_save_passed_on(backend->parts.journal, asked->key, asked->text, peer, err) < 0)
        return NULL;
    return vg_peer_start_move(backend->parts.peers, peer, &order, ASK_LIMIT_NS, err);
}

/* Starts the move here. If this fails, the same request may have started it in the meantime. */
static struct vg_migration *
moves_begin_here(vg_daemon_backend *backend, const struct vg_inv_vm *vm,
                 const struct moves_asked *asked, bool *ret_known, GError **err)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *peer = NULL;
    struct vg_migration *migration = moves_start_here(backend, vm, asked, &error);

    if (!migration && moves_find_known(backend, asked, &migration, &peer, NULL) == 0)
        *ret_known = migration != NULL;
    if (!migration)
        g_propagate_error(err, g_steal_pointer(&error));
    return migration;
}

/* Forwards the request to the peer that has the VM. */
static struct vg_migration *
moves_forward(vg_daemon_backend *backend, const struct moves_asked *asked, char **ret_peer,
              GError **err)
{
    struct vg_peer_info *owner = moves_forward_to(backend, asked->request, err);
    struct vg_migration *migration = owner ? moves_pass_on(backend, asked, owner->name, err) : NULL;

    if (migration)
        *ret_peer = g_strdup(owner->name);
    vg_peer_info_free(owner);
    return migration;
}

static struct vg_migration *
moves_migrate(void *data, const struct vg_migration_request *request, bool *ret_known,
              char **ret_peer, GError **err)
{
    vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    const struct vg_inv_vm *vm = backend_find_here(view, request->vm);
    g_autofree char *text = moves_request_text(request);
    g_autofree char *key =
        request->key ? g_strdup_printf("%s\n%s", request->asked_by, request->key) : NULL;
    struct moves_asked asked = {request, key, text, request->forecast};
    struct vg_migration *migration = NULL;
    g_autofree char *peer = NULL;
    bool checks_plan;
    g_auto(backend_planned) planned = {0};

    if (moves_find_known(backend, &asked, &migration, &peer, err) < 0)
        return NULL;
    const struct vg_route_facts facts = {migration != NULL, peer != NULL, vm != NULL,
                                         request->plan_id != NULL};
    const enum vg_route route = vg_route_choose(&facts, &checks_plan);
    *ret_known = facts.is_known;
    if (checks_plan && backend_check_plan(backend, view, request, &planned, err) < 0)
        return NULL;
    const struct vg_migration_request wanted = backend_with_gpus(request, &planned);
    asked.request = &wanted;
    if (planned.forecast)
        asked.forecast = planned.forecast;
    switch (route) {
    case VG_ROUTE_HERE:
        return moves_begin_here(backend, vm, &asked, ret_known, err);
    case VG_ROUTE_OWNER:
        return moves_forward(backend, &asked, ret_peer, err);
    case VG_ROUTE_AGAIN:
        migration = moves_pass_on(backend, &asked, peer, err);
        if (migration)
            *ret_peer = g_steal_pointer(&peer);
        return migration;
    case VG_ROUTE_ANSWER:
    default:
        return migration;
    }
}

/* ---- a dry run ---- */

static json_object *
moves_texts_to_json(const GPtrArray *texts)
{
    json_object *list = json_object_new_array();

    for (guint i = 0; i < texts->len; i++)
        vg_json_append(list, vg_json_new_string(texts->pdata[i]));
    return list;
}

/* Lists checks that a dry run omits and that only the move itself makes. */
static json_object *
moves_untried_to_json(const struct vg_migration *migration)
{
    json_object *list = json_object_new_array();

    if (migration->executor != VG_EXECUTOR_LIBVIRT)
        return list;
    g_autofree char *way =
        g_strdup_printf("whether libvirt and QEMU on '%s' can connect to '%s': libvirt cannot "
                        "test that; only vgpud's own connections to both hosts were tested",
                        migration->from, migration->to);
    vg_json_append(list, vg_json_new_string(way));
    if (migration->mode != VG_MODE_NATIVE)
        vg_json_append(list, vg_json_new_string("further obstacles that only QEMU knows: querying "
                                                "them would taint the VM"));
    return list;
}

static json_object *
moves_check_to_json(const struct vg_migration *migration, const GPtrArray *problems,
                    const GPtrArray *paths)
{
    json_object *object = json_object_new_object();
    json_object *devices = json_object_new_array();
    json_object *checks = json_object_new_array();

    vg_json_add_bool(object, "dry_run", true);
    vg_json_add_string(object, "vm", migration->vm);
    vg_json_add_string(object, "uuid", migration->uuid);
    vg_json_add_string(object, "from", migration->from);
    vg_json_add_string(object, "to", migration->to);
    vg_json_add_string(object, "executor", vg_migration_executor_names[migration->executor]);
    vg_json_add_string(object, "mode", vg_migration_mode_names[migration->mode]);
    vg_json_add_string(object, "mode_why", migration->mode_why);
    vg_json_add_string(object, "tls", vg_move_tls_names[migration->tls]);
    vg_json_add_bool(object, "tls_warns", migration->tls_warns);
    vg_json_add_string(object, "tls_why", migration->tls_why);
    if (migration->gpu_during)
        vg_json_add_string(object, "gpu_during", migration->gpu_during);
    if (migration->gpu_during_why)
        vg_json_add_string(object, "gpu_during_why", migration->gpu_during_why);
    vg_json_add(object, "problems", moves_texts_to_json(problems));
    vg_json_add(object, "doubts", moves_texts_to_json(migration->doubts));
    vg_json_add(object, "untried", moves_untried_to_json(migration));
    for (guint i = 0; i < paths->len; i++)
        vg_json_append(checks, vg_record_write(&vg_path_check_record, paths->pdata[i]));
    vg_json_add(object, "paths", checks);
    for (guint i = 0; i < migration->devices->len; i++) {
        json_object *device = vg_record_write(&vg_move_device_record, migration->devices->pdata[i]);
        json_object_object_del(device, "source_xml");
        json_object_object_del(device, "target_xml");
        vg_json_append(devices, device);
    }
    vg_json_add(object, "devices", devices);
    vg_json_add(object, "guest", vg_record_write(&vg_guest_programs_record, &migration->guest));
    return object;
}

int
backend_check_gpus(vg_daemon_backend *backend, const struct vg_migration *migration, GError **err)
{
    return migration->devices->len == 0 ? 0
                                        : vg_peer_check_gpus(backend->parts.peers, migration->peer,
                                                             migration, ASK_LIMIT_NS, err);
}

static json_object *
moves_check(void *data, const struct vg_migration_request *request, GError **err)
{
    vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    const struct vg_inv_vm *vm = backend_find_here(view, request->vm);
    g_autoptr(GPtrArray) problems = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func(vg_path_check_free);
    g_autoptr(GError) no_gpu = NULL;
    g_auto(backend_planned) planned = {0};

    if (request->plan_id && backend_check_plan(backend, view, request, &planned, err) < 0)
        return NULL;
    const struct vg_migration_request wanted = backend_with_gpus(request, &planned);
    if (!vm) {
        struct vg_peer_info *owner = moves_forward_to(backend, request, err);
        if (!owner)
            return NULL;
        g_autofree char *host = moves_target_host(backend, request);
        g_autofree char *asker = moves_asker(backend, request);
        const struct vg_peer_order order = {&wanted, host, asker, NULL};
        json_object *answer =
            vg_peer_check_move(backend->parts.peers, owner->name, &order, CHECK_LIMIT_NS, err);
        vg_peer_info_free(owner);
        return answer;
    }
    g_autoptr(vg_migration) migration = backend_prepare_move(backend, vm, &wanted, err);
    if (!migration || vg_mover_check(backend->parts.mover, migration, problems, paths, err) < 0)
        return NULL;
    if (backend_check_gpus(backend, migration, &no_gpu) < 0)
        g_ptr_array_add(problems, g_strdup(no_gpu->message));
    json_object *document = moves_check_to_json(migration, problems, paths);
    backend_add_forecast(backend, document, vm, migration);
    return document;
}

/* ---- whether a VM can be moved at all ---- */

static struct vg_movable *
moves_movable(void *data, const char *id, GError **err)
{
    vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    const struct vg_inv_vm *vm = backend_find_here(view, id);

    if (!vm) {
        vg_error(err, VG_E_NOT_FOUND, "this host's libvirt has no VM '%s'", id);
        return NULL;
    }
    return vg_mover_movable(backend->parts.mover, vm);
}

/* ---- reading and aborting a move ---- */

static struct vg_migration *
moves_read(void *data, const char *id, const char *peer, GError **err)
{
    vg_daemon_backend *backend = data;

    if (!peer) {
        struct vg_migration *migration = vg_mover_read(backend->parts.mover, id, err);
        if (migration && migration->state == VG_MIGRATION_DONE && migration->after.seconds == 0 &&
            moves_measure_after(backend->parts.peers, migration))
            (void)!vg_journal_save_outcome(backend->parts.journal, id, &migration->after, NULL,
                                           NULL);
        return migration;
    }
    return vg_peer_read_move(backend->parts.peers, peer, id, ASK_LIMIT_NS, err);
}

static struct vg_migration *
moves_abort(void *data, const char *id, const char *peer, const char *asked_by, GError **err)
{
    vg_daemon_backend *backend = data;

    if (!peer)
        return vg_mover_abort(backend->parts.mover, id, err);
    g_autofree char *person = backend_person(backend, asked_by);
    return vg_peer_change_move(backend->parts.peers, peer, id, "abort", person, ASK_LIMIT_NS, err);
}

static struct vg_migration *
moves_retry(void *data, const char *id, const char *peer, const char *asked_by, GError **err)
{
    vg_daemon_backend *backend = data;

    if (!peer)
        return vg_mover_retry(backend->parts.mover, id, asked_by, err);
    g_autofree char *person = backend_person(backend, asked_by);
    return vg_peer_change_move(backend->parts.peers, peer, id, "retry", person, ASK_LIMIT_NS, err);
}

static GPtrArray *
moves_list(void *data, bool active, int64_t before_ns, size_t limit, char **ret_lacks, GError **err)
{
    return vg_mover_list(((const vg_daemon_backend *)data)->parts.mover, active, before_ns, limit,
                         ret_lacks, err);
}

static GPtrArray *
moves_list_bare(void *data)
{
    return vg_mover_bare(((const vg_daemon_backend *)data)->parts.mover);
}

static int
moves_reserve(void *data, struct vg_reservation *reservation, GError **err)
{
    vg_daemon_backend *backend = data;
    g_autoptr(vg_move_settings) settings = vg_mover_settings(backend->parts.mover);
    struct vg_peer_info *from = vg_peers_find(backend->parts.peers, reservation->from);
    const int status = from ? vg_peers_check_host(from, err) : 0;

    vg_peer_info_free(from);
    if (status < 0)
        return -1;

    return vg_reservations_make(backend->parts.reservations, settings, reservation,
                                backend_check_arrivals, backend, err);
}

static struct vg_reservation *
moves_renew(void *data, const char *id, const char *asked_by, int64_t lease_s, GError **err)
{
    vg_daemon_backend *backend = data;

    return vg_reservations_renew(backend->parts.reservations, id, asked_by, lease_s, err);
}

static int
moves_release(void *data, const char *id, const char *asked_by, GError **err)
{
    vg_daemon_backend *backend = data;
    g_autoptr(vg_move_settings) settings = vg_mover_settings(backend->parts.mover);

    return vg_reservations_release(backend->parts.reservations, settings, id, asked_by, err);
}

static GPtrArray *
moves_list_reservations(void *data, GError **err)
{
    vg_daemon_backend *backend = data;

    return vg_reservations_list(backend->parts.reservations, err);
}

static GPtrArray *
moves_look_at_paths(void *data, const GPtrArray *paths, GError **err)
{
    vg_daemon_backend *backend = data;
    g_autoptr(vg_move_settings) settings = vg_mover_settings(backend->parts.mover);

    if (settings->enabled)
        return vg_path_look(paths, NULL);
    vg_error(err, VG_E_REFUSED,
             "actions are disabled on this host (set [actions] enabled=yes), so it does not check "
             "paths for other hosts");
    return NULL;
}

const struct vg_backend_moves backend_moves = {
    .find_hosts = moves_find_hosts,
    .migrate = moves_migrate,
    .check_migration = moves_check,
    .movable = moves_movable,
    .read_migration = moves_read,
    .list_migrations = moves_list,
    .list_all_migrations = backend_list_all_migrations,
    .abort_migration = moves_abort,
    .retry_migration = moves_retry,
    .list_bare = moves_list_bare,
    .reserve = moves_reserve,
    .renew = moves_renew,
    .release = moves_release,
    .list_reservations = moves_list_reservations,
    .look_at_paths = moves_look_at_paths,
    .read_drain = backend_read_drain,
    .begin_drain = backend_begin_drain,
    .end_drain = backend_end_drain,
    .set_vulkan = backend_set_vulkan,
    .limit_proxy = backend_limit_proxy,
    .reserve_room = backend_reserve_room,
    .release_room = backend_release_room,
    .move_proxy = backend_move_proxy,
};
