/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves of alpha to anywhere but "full", "off" and "away"; each look brings one a step further.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/tools/fake-private.h"

static bool
host_hangs(const fake_backend *fake, const char *host)
{
    return fake->options.hung && g_str_has_prefix(host, "hung") &&
           access(fake->options.hung, F_OK) == 0;
}

/* Does not return while the host hangs, and says so for a test that waits for it. */
static void
ask_host(const fake_backend *fake, const char *host)
{
    if (host_hangs(fake, host))
        fprintf(stderr, "%s hangs\n", host);
    while (host_hangs(fake, host))
        g_usleep(10000);
}

static int
check_request(const struct vg_migration_request *request, GError **err)
{
    g_autofree char *uuid = g_strdup_printf(FAKE_UUID, 0);

    if (strcmp(request->vm, "alpha") != 0 && strcmp(request->vm, uuid) != 0)
        return vg_error(err, VG_E_NOT_FOUND, "there is no VM '%s'", request->vm);
    if (strcmp(request->to, "full") == 0)
        return vg_error(err, VG_E_CONFLICT, "host 'full' has no GPU left");
    if (strcmp(request->to, "off") == 0)
        return vg_error(err, VG_E_REFUSED, "actions are disabled; [actions] enabled=yes allows it");
    if (strcmp(request->to, "away") == 0)
        return vg_error(err, VG_E_UNREACHABLE, "cannot connect to 'qemu+tls://away/system'");
    return 0;
}

static struct vg_migration *
new_move(const struct vg_migration_request *request, unsigned n)
{
    struct vg_migration *move = vg_migration_new();
    struct vg_move_device *device = vg_record_new(&vg_move_device_record);

    move->id = g_strdup_printf("move-%016x", n);
    move->vm = g_strdup("alpha");
    move->uuid = g_strdup_printf(FAKE_UUID, 0);
    move->from = g_strdup("test-host");
    move->to = g_strdup(request->to);
    move->peer = g_strdup(request->to);
    move->plan_id = g_strdup(request->plan_id);
    move->undo_of = g_strdup(request->undo_of);
    move->asked_by = g_strdup(request->asked_by);
    move->no_agent = request->no_agent;
    move->predicted = request->plan_id != NULL;
    move->predicted_gain_ns_per_s = request->plan_id ? 1200 * VG_NS_PER_MS : 0;
    move->rule = g_strdup(request->plan_id ? "complement" : NULL);
    move->before = (struct vg_migration_effect){true, 1250 * VG_NS_PER_MS, 300};
    move->vm_on = VG_PLACE_SOURCE;
    move->gpu = VG_GPU_ATTACHED;
    move->made_ns = FAKE_BEGIN_NS + n;
    device->type = g_strdup("standin");
    device->alias = g_strdup("ua-gpu0");
    device->source_xml = g_strdup("<shmem/>");
    /* A VM on its way to this host has no GPU. */
    if (strcmp(request->to, "bare") != 0)
        g_ptr_array_add(move->devices, g_steal_pointer(&device));
    vg_record_free(&vg_move_device_record, device);
    return move;
}

static void
judge_move(struct vg_migration *move)
{
    struct vg_move_verdict *verdict = &move->verdict;

    verdict->result = VG_VERDICT_HELPED;
    verdict->why = g_strdup("the VMs of its hosts lose 1.10 cores less");
    verdict->judged_ns = move->ended_ns + 330 * VG_NS_PER_S;
    verdict->seconds = 300;
    g_ptr_array_add(verdict->hosts, g_strdup(move->from));
    g_ptr_array_add(verdict->hosts, g_strdup(move->to));
    g_ptr_array_add(verdict->others, g_strdup("host-c"));
    verdict->measured = true;
    verdict->before_ns_per_s = 1400 * VG_NS_PER_MS;
    verdict->after_ns_per_s = 250 * VG_NS_PER_MS;
    verdict->others_ns_per_s = -50 * VG_NS_PER_MS;
    verdict->gain_ns_per_s = 1100 * VG_NS_PER_MS;
    verdict->low_ns_per_s = 980 * VG_NS_PER_MS;
    verdict->high_ns_per_s = 1220 * VG_NS_PER_MS;
    verdict->predicted = move->predicted;
    verdict->predicted_ns_per_s = move->predicted_gain_ns_per_s;
}

/* From state to state until the end; the same verbs as a real one, a second each. */
static void
step_move(struct vg_migration *move)
{
    static const char *const verbs[] = {
        [VG_MIGRATION_PRECHECKING] = "precheck", [VG_MIGRATION_RESERVING] = "reserve",
        [VG_MIGRATION_QUIESCING] = "quiesce",    [VG_MIGRATION_DETACHING] = "detach",
        [VG_MIGRATION_MIGRATING] = "migrate",    [VG_MIGRATION_ATTACHING] = "attach",
        [VG_MIGRATION_RESUMING] = "resume",      [VG_MIGRATION_VERIFYING] = "verify",
        [VG_MIGRATION_ROLLING_BACK] = "revive",
    };
    const int64_t now_ns = FAKE_BEGIN_NS + (int64_t)(move->steps->len + 1) * VG_NS_PER_S;

    if (vg_migration_has_ended(move->state))
        return;
    if (move->steps->len > 0) {
        struct vg_migration_step *last = move->steps->pdata[move->steps->len - 1];
        last->ended_ns = now_ns;
        last->ok = true;
        last->answer = g_strdup("done");
    }
    if (move->state == VG_MIGRATION_ROLLING_BACK || move->state == VG_MIGRATION_VERIFYING) {
        move->state =
            move->state == VG_MIGRATION_VERIFYING ? VG_MIGRATION_DONE : VG_MIGRATION_ABORTED;
        move->ended_ns = now_ns;
        if (!move->abort_asked) {
            move->after = (struct vg_migration_effect){true, 100 * VG_NS_PER_MS, 300};
            judge_move(move);
        }
        move->standstill_ns = (move->abort_asked ? 1 : 5) * VG_NS_PER_S;
        move->vm_on = move->abort_asked ? VG_PLACE_SOURCE : VG_PLACE_TARGET;
        g_clear_pointer(&move->step, g_free);
        return;
    }
    move->state = move->abort_asked ? VG_MIGRATION_ROLLING_BACK : move->state + 1;
    struct vg_migration_step *step = vg_record_new(&vg_migration_step_record);
    step->verb = g_strdup(verbs[move->state]);
    step->began_ns = now_ns;
    step->undoes = move->abort_asked;
    step->asked = g_strdup_printf("alpha: %s", step->verb);
    g_ptr_array_add(move->steps, step);
    g_free(move->step);
    move->step = g_strdup(step->verb);
    if (move->state == VG_MIGRATION_MIGRATING)
        move->progress = (struct vg_migration_progress){.total_bytes = 1 << 30,
                                                        .remaining_bytes = 1 << 28,
                                                        .processed_bytes = 3 << 28,
                                                        .dirty_bytes_per_s = 1 << 20,
                                                        .bytes_per_s = 1 << 27,
                                                        .iteration = 2,
                                                        .eta_ns = 2 * VG_NS_PER_S,
                                                        .downtime_ns = 80 * VG_NS_PER_MS,
                                                        .elapsed_ns = VG_NS_PER_S};
}

static struct vg_migration *
start_move(void *data, const struct vg_migration_request *request, bool *ret_known, char **ret_peer,
           GError **err)
{
    fake_backend *fake = data;

    (void)ret_known, (void)ret_peer;
    ask_host(fake, request->to);
    if (check_request(request, err) < 0 || vg_asker_check(&request->asker, err) < 0)
        return NULL;
    VG_LOCK_SCOPE(&fake->lock);
    struct vg_migration *move = new_move(request, fake->moves->len + 1);
    g_ptr_array_add(fake->moves, move);
    return vg_migration_copy(move);
}

static json_object *
check_paths(void)
{
    json_object *paths = json_object_new_array(), *one = json_object_new_object();

    vg_json_add_string(one, "path", "/images/alpha.qcow2");
    vg_json_add_string(one, "use", "the disk 'vda'");
    vg_json_add_bool(one, "writable", true);
    vg_json_add_string(one, "verdict", "ok");
    vg_json_add_string(one, "text", "it is there");
    vg_json_append(paths, one);
    return paths;
}

static json_object *
check_move(void *data, const struct vg_migration_request *request, GError **err)
{
    static const char *const verbs[] = {"precheck", "reserve", "quiesce", "detach",
                                        "migrate",  "attach",  "resume",  "verify"};
    json_object *object, *problems, *steps, *devices;

    ask_host(data, request->to);
    if (strcmp(request->to, "full") != 0 && check_request(request, err) < 0)
        return NULL;
    object = json_object_new_object();
    problems = json_object_new_array();
    steps = json_object_new_array();
    devices = json_object_new_array();
    vg_json_add_bool(object, "dry_run", true);
    vg_json_add_string(object, "vm", "alpha");
    vg_json_add_string(object, "uuid", "5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c0000");
    vg_json_add_string(object, "from", "test-host");
    vg_json_add_string(object, "to", request->to);
    vg_json_add_string(object, "executor", "libvirt");
    vg_json_add_string(object, "mode", "detach");
    vg_json_add_string(object, "mode_why", "it was requested");
    if (strcmp(request->to, "full") == 0)
        vg_json_append(problems, vg_json_new_string("host 'full' has no GPU left"));
    vg_json_add(object, "problems", problems);
    vg_json_add(object, "devices", devices);
    json_object *untried = json_object_new_array();
    vg_json_append(untried, vg_json_new_string("only vgpud's own connection was tried"));
    vg_json_add(object, "untried", untried);
    vg_json_add(object, "paths", check_paths());
    g_autoptr(vg_migration) none = vg_migration_new();
    vg_json_add(object, "guest", vg_record_write(&vg_guest_programs_record, &none->guest));
    for (size_t i = 0; i < G_N_ELEMENTS(verbs); i++) {
        json_object *step = json_object_new_object();
        vg_json_add_string(step, "verb", verbs[i]);
        vg_json_add_double(step, "expected_s", 0.5);
        vg_json_add_double(step, "deadline_s", 30);
        vg_json_append(steps, step);
    }
    vg_json_add(object, "steps", steps);
    vg_json_add_double(object, "expected_s", 4);
    vg_json_add_double(object, "standstill_s", 2.5);
    return object;
}

/* Locked. */
static struct vg_migration *
find_move(fake_backend *fake, const char *id, GError **err)
{
    for (guint i = 0; i < fake->moves->len; i++) {
        struct vg_migration *move = fake->moves->pdata[i];
        if (strcmp(move->id, id) == 0)
            return move;
    }
    vg_error(err, VG_E_NOT_FOUND, "there is no move '%s'", id);
    return NULL;
}

static struct vg_migration *
read_move(void *data, const char *id, const char *peer, GError **err)
{
    fake_backend *fake = data;

    (void)peer;
    VG_LOCK_SCOPE(&fake->lock);
    struct vg_migration *move = find_move(fake, id, err);
    if (!move)
        return NULL;
    step_move(move);
    return vg_migration_copy(move);
}

static struct vg_migration *
abort_move(void *data, const char *id, const char *peer, const char *asked_by, GError **err)
{
    fake_backend *fake = data;

    (void)peer, (void)asked_by;
    VG_LOCK_SCOPE(&fake->lock);
    struct vg_migration *move = find_move(fake, id, err);
    if (!move)
        return NULL;
    if (move->state > VG_MIGRATION_MIGRATING) {
        vg_error(err, VG_E_CONFLICT, "it is too late to abort the move: the VM is on its target");
        return NULL;
    }
    move->abort_asked = true;
    return vg_migration_copy(move);
}

/* One that was aborted can be taken up again, and then gets to its target. */
static struct vg_migration *
retry_move(void *data, const char *id, const char *peer, const char *asked_by, GError **err)
{
    fake_backend *fake = data;

    (void)peer;
    VG_LOCK_SCOPE(&fake->lock);
    struct vg_migration *move = find_move(fake, id, err);
    if (!move)
        return NULL;
    if (move->state != VG_MIGRATION_ABORTED) {
        vg_error(err, VG_E_CONFLICT, "the move has not failed: it is %s",
                 vg_migration_state_names[move->state]);
        return NULL;
    }
    move->state = VG_MIGRATION_PENDING;
    move->ended_ns = 0;
    move->abort_asked = false;
    move->retries++;
    g_free(move->retried_by);
    move->retried_by = g_strdup(asked_by);
    return vg_migration_copy(move);
}

static GPtrArray *
list_bare(void *data)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_bare_vm_free);
    struct vg_bare_vm *vm = vg_record_new(&vg_bare_vm_record);

    (void)data;
    vm->vm = g_strdup("gamma/\"x\"");
    vm->uuid = g_strdup_printf(FAKE_UUID, 2);
    vm->host = g_strdup("node-b");
    vm->move = g_strdup("move-00000000000000ff");
    g_ptr_array_add(list, vm);
    return list;
}

static GPtrArray *
list_moves(void *data, bool active, int64_t before_ns, size_t limit, char **ret_lacks, GError **err)
{
    fake_backend *fake = data;
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_migration_free);

    (void)err;
    *ret_lacks = NULL;
    VG_LOCK_SCOPE(&fake->lock);
    for (guint i = fake->moves->len; i > 0 && list->len < limit; i--) {
        const struct vg_migration *move = fake->moves->pdata[i - 1];
        if (move->made_ns < before_ns && !(active && vg_migration_has_ended(move->state)))
            g_ptr_array_add(list, vg_migration_copy(move));
    }
    return list;
}

/* Those of a peer, too, and one peer does not answer. */
static GPtrArray *
list_all_moves(void *data, bool active, size_t limit, GError **err)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_host_moves_free);
    struct vg_host_moves *own = vg_host_moves_new("node-a"), *other = vg_host_moves_new("node-b");

    g_autofree char *lacks = NULL;

    g_ptr_array_unref(own->moves);
    own->moves = list_moves(data, active, INT64_MAX, limit, &lacks, err);
    other->peer = g_strdup("node-b");
    other->reason = g_strdup("it did not answer within 3 s");
    g_ptr_array_add(list, own);
    g_ptr_array_add(list, other);
    return list;
}

/* alpha can be moved, beta uses what cannot be released, and its guest hangs with the host "hung";
 * others are none of libvirt's. */
static struct vg_movable *
movable(void *data, const char *id, GError **err)
{
    fake_backend *fake = data;
    const struct vg_snap_vm *vm = vg_view_find_vm(fake->view, id);
    const bool yes = vm && strcmp(vm->name, "alpha") == 0;

    if (!vm || (!yes && strcmp(vm->name, "beta") != 0)) {
        vg_error(err, VG_E_NOT_FOUND, "this host's libvirt has no VM '%s'", id);
        return NULL;
    }
    ask_host(fake, yes ? "" : "hung");
    struct vg_movable *answer = vg_record_new(&vg_movable_record);
    struct vg_guest_program *program = vg_record_new(&vg_guest_program_record);
    answer->vm = g_strdup(vm->name);
    answer->uuid = g_strdup(vm->uuid ? vm->uuid : "?");
    answer->movable = yes ? VG_MOVABLE_YES : VG_MOVABLE_NO;
    program->pid = 153;
    program->comm = g_strdup("python3");
    program->state = g_strdup("running");
    program->gpu_bytes = INT64_C(1612) << 20;
    if (!yes) {
        program->why = g_strdup("it uses the GPU without CUDA");
        g_ptr_array_add(answer->reasons, g_strdup("the guest cannot release its GPUs now: 153 "
                                                  "(python3): it uses the GPU without CUDA"));
        g_ptr_array_add(answer->reasons, g_strdup("'beta' has 2 snapshots"));
    }
    g_ptr_array_add(answer->guest.programs, program);
    answer->guest.total = 1;
    answer->guest.gpu_bytes = program->gpu_bytes;
    answer->guest.forked = yes ? 1 : 0;
    answer->guest.forked_descriptors = yes ? 31 : 0;
    answer->guest.forked_maps = yes ? 30 : 0;
    if (yes) {
        answer->guest.driver = g_strdup("570.10");
        g_ptr_array_add(answer->guest.driver_faults, g_strdup("warn: it fails (source)"));
    }
    return answer;
}

static int
reserve(void *data, struct vg_reservation *reservation, GError **err)
{
    fake_backend *fake = data;

    VG_LOCK_SCOPE(&fake->lock);
    if (fake->kept->len >= 100)
        return vg_error(err, VG_E_CONFLICT, "no GPU is free");
    if (reservation->dry_run)
        return 0;
    g_free(reservation->id);
    reservation->id = g_strdup_printf("res-%016x", fake->kept->len + 1);
    reservation->made_ns = FAKE_BEGIN_NS;
    reservation->expires_ns = FAKE_BEGIN_NS + reservation->lease_s * VG_NS_PER_S;
    g_ptr_array_add(fake->kept, vg_reservation_copy(reservation));
    return 0;
}

static GPtrArray *
look_at_paths(void *data, const GPtrArray *paths, GError **err)
{
    GPtrArray *seen = g_ptr_array_new_with_free_func(vg_path_seen_free);

    (void)data, (void)err;
    for (guint i = 0; i < paths->len; i++) {
        struct vg_path_seen *one = vg_record_new(&vg_path_seen_record);
        const char *path = paths->pdata[i];
        one->path = g_strdup(path);
        one->state = strstr(path, "gone") ? VG_PATH_MISSING : VG_PATH_THERE;
        if (one->state == VG_PATH_THERE) {
            one->kind = VG_PATH_FILE;
            one->file_system = g_strdup("nfs4");
            one->shared = true;
            one->size_bytes = 1 << 30;
            one->identity = g_strdup("4711");
        }
        g_ptr_array_add(seen, one);
    }
    return seen;
}

/* Locked. */
static struct vg_reservation *
find_kept(fake_backend *fake, const char *id, GError **err)
{
    for (guint i = 0; i < fake->kept->len; i++) {
        struct vg_reservation *one = fake->kept->pdata[i];
        if (strcmp(one->id, id) == 0)
            return one;
    }
    vg_error(err, VG_E_NOT_FOUND, "there is no reservation '%s'", id);
    return NULL;
}

static struct vg_reservation *
renew(void *data, const char *id, const char *asked_by, int64_t lease_s, GError **err)
{
    fake_backend *fake = data;

    (void)asked_by;
    VG_LOCK_SCOPE(&fake->lock);
    struct vg_reservation *one = find_kept(fake, id, err);
    if (!one)
        return NULL;
    one->lease_s = lease_s;
    return vg_reservation_copy(one);
}

static int
release(void *data, const char *id, const char *asked_by, GError **err)
{
    fake_backend *fake = data;

    (void)asked_by;
    VG_LOCK_SCOPE(&fake->lock);
    struct vg_reservation *one = find_kept(fake, id, err);
    return one && g_ptr_array_remove(fake->kept, one) ? 0 : -1;
}

static GPtrArray *
list_reservations(void *data, GError **err)
{
    fake_backend *fake = data;
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_reservation_free);

    (void)err;
    VG_LOCK_SCOPE(&fake->lock);
    for (guint i = 0; i < fake->kept->len; i++)
        g_ptr_array_add(list, vg_reservation_copy(fake->kept->pdata[i]));
    return list;
}

static void
find_hosts(void *data, const char *vm, const char *to, char *ret[VG_BACKEND_HOSTS])
{
    (void)data, (void)vm;
    ret[1] = g_strdup(to);
}

/* "test-host" is being emptied, "away" does not answer, and others are not known. */
static vg_drain *
fake_read_drain(void *data, const char *host, bool dry_run, GError **err)
{
    (void)data;
    if (strcmp(host, "away") == 0) {
        vg_error(err, VG_E_UNREACHABLE, "peer 'away': no process listens there");
        return NULL;
    }
    if (strcmp(host, "test-host") != 0) {
        vg_error(err, VG_E_NOT_FOUND, "neither this host nor any of its peers is named '%s'", host);
        return NULL;
    }
    vg_drain *drain = vg_drain_new();
    drain->host = g_strdup(host);
    drain->asked_by = dry_run ? NULL : g_strdup("uid:0");
    drain->since_ns = FAKE_BEGIN_NS;
    struct vg_drain_vm *vm = vg_drain_add(drain, "alpha", "5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c0000");
    vm->step = VG_DRAIN_MOVES;
    vm->to = g_strdup("elsewhere");
    vm->seconds = 2.5;
    vm = vg_drain_add(drain, "beta", NULL);
    vm->step = VG_DRAIN_STAYS;
    vm->reason = g_strdup("VM 'beta' has the policy `never`");
    vg_drain_settle(drain);
    if (dry_run)
        drain->state = VG_DRAIN_PLANNED;
    return drain;
}

static vg_drain *
fake_begin_drain(void *data, const char *host, const char *asked_by, GError **err)
{
    (void)asked_by;
    return fake_read_drain(data, host, false, err);
}

static int
fake_end_drain(void *data, const char *host, const char *asked_by, GError **err)
{
    (void)asked_by;
    g_autoptr(vg_drain) drain = fake_read_drain(data, host, false, err);

    return drain ? 0 : -1;
}

/* "alpha" has it, "beta" cannot have it, and others are not known. */
static vg_vulkan_change *
fake_set_vulkan(void *data, const char *vm, const struct vg_vulkan_request *request, GError **err)
{
    (void)data;
    if (strcmp(vm, "beta") == 0) {
        vg_error(err, VG_E_REFUSED,
                 "OpenStack manages 'beta' (instance b), and nova would overwrite its definition");
        return NULL;
    }
    if (strcmp(vm, "alpha") != 0 && strcmp(vm, "5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c0000") != 0) {
        vg_error(err, VG_E_NOT_FOUND, "this host's libvirt has no VM '%s'", vm);
        return NULL;
    }
    vg_vulkan_change *change = vg_vulkan_change_new();
    change->vm = g_strdup("alpha");
    change->uuid = g_strdup("5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c0000");
    change->enabled = request->enabled;
    change->dry_run = request->dry_run;
    change->changed = true;
    change->running = true;
    change->hostmem_bytes = !request->enabled            ? 0
                            : request->hostmem_bytes > 0 ? request->hostmem_bytes
                                                         : VG_VULKAN_HOSTMEM_DEFAULT;
    g_ptr_array_add(change->changes, g_strdup("+ <graphics type='egl-headless'/>"));
    return change;
}

/* "alpha" has a socket. */
static GPtrArray *
fake_limit_proxy(void *data, const char *vm, const struct vg_proxy_limit *limit, GError **err)
{
    if (strcmp(vm, "alpha") != 0 && strcmp(vm, "5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c0000") != 0) {
        vg_error(err, VG_E_NOT_FOUND, "no vgpu-proxy on this host has a socket for '%s'", vm);
        return NULL;
    }
    GPtrArray *sockets = fake_list_proxies(data, NULL, err);
    g_ptr_array_set_size(sockets, 1);
    ((struct vg_proxy_socket *)sockets->pdata[0])->weight = limit->weight;
    return sockets;
}

/* A GiB is left. */
static int
fake_reserve_room(void *data, const struct vg_proxy_room *room, const char *asked_by, GError **err)
{
    (void)data, (void)asked_by;
    return room->memory_bytes <= 1 << 30 ? 0
                                         : vg_error(err, VG_E_CONFLICT, "its GPU has no %lld MiB",
                                                    (long long)(room->memory_bytes >> 20));
}

static int
fake_release_room(void *data, const char *id, const char *asked_by, GError **err)
{
    (void)data, (void)asked_by;
    return strcmp(id, "kept") == 0 ? 0
                                   : vg_error(err, VG_E_NOT_FOUND, "nothing is kept for '%s'", id);
}

/* "alpha" has a program, which goes wherever it shall. */
static struct vg_proxy_move *
fake_move_proxy(void *data, const char *vm, const struct vg_proxy_move_request *request,
                GError **err)
{
    (void)data;
    if (strcmp(vm, "alpha") != 0 && strcmp(vm, "5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c0000") != 0) {
        vg_error(err, VG_E_NOT_FOUND, "this host's libvirt has no VM '%s'", vm);
        return NULL;
    }
    struct vg_proxy_move *move = vg_record_new(&vg_proxy_move_record);
    struct vg_guest_program *program = vg_record_new(&vg_guest_program_record);
    move->vm = g_strdup("alpha");
    move->uuid = g_strdup("5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c0000");
    move->to = g_strdup(request->to);
    move->dry_run = request->dry_run;
    if (!vg_proxy_move_is_place(request->to)) {
        g_free(move->to);
        move->to = g_strdup("proxy:tcp:192.168.122.1:7001");
        move->host = g_strdup("host-a");
        move->gpu = g_strdup("0000:3b:00.0");
        move->why = g_strdup_printf("'%s' is served there", request->to);
    }
    program->by = g_strdup("opencl");
    program->pid = 4712;
    program->comm = g_strdup("waves");
    program->state = g_strdup("away");
    program->at = g_strdup(move->to);
    program->stop_ns = 120 * VG_NS_PER_MS;
    g_ptr_array_add(move->guest.programs, program);
    move->guest.total = 1;
    return move;
}

const struct vg_backend_moves fake_moves = {
    .move_proxy = fake_move_proxy,
    .limit_proxy = fake_limit_proxy,
    .reserve_room = fake_reserve_room,
    .release_room = fake_release_room,
    .set_vulkan = fake_set_vulkan,
    .read_drain = fake_read_drain,
    .begin_drain = fake_begin_drain,
    .end_drain = fake_end_drain,
    .find_hosts = find_hosts,
    .migrate = start_move,
    .check_migration = check_move,
    .movable = movable,
    .read_migration = read_move,
    .list_migrations = list_moves,
    .list_all_migrations = list_all_moves,
    .abort_migration = abort_move,
    .retry_migration = retry_move,
    .list_bare = list_bare,
    .reserve = reserve,
    .look_at_paths = look_at_paths,
    .renew = renew,
    .release = release,
    .list_reservations = list_reservations,
};
