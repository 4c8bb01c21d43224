/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/migration.h"

#include <string.h>

#include "base/error.h"

/* More GPU memory than any guest has, so that a wrong figure does not make a deadline endless. */
#define COPY_BYTES_MAX (INT64_C(4) << 40)

#define REQ      VG_FIELD_REQUIRED
#define TIME_MAX ((double)VG_JSON_INT_MAX)

#define TEXT(member)   VG_ROW_STRING(member, 0, 0, VG_MIGRATION_TEXT_MAX)
#define NEEDED(member) VG_ROW_STRING(member, REQ, 1, VG_MIGRATION_TEXT_MAX)
#define COUNT(member)  VG_ROW_INT(member, 0, 0, TIME_MAX)

const char *const vg_migration_state_names[] = {
    [VG_MIGRATION_PENDING] = "pending",     [VG_MIGRATION_PRECHECKING] = "prechecking",
    [VG_MIGRATION_RESERVING] = "reserving", [VG_MIGRATION_QUIESCING] = "quiescing",
    [VG_MIGRATION_DETACHING] = "detaching", [VG_MIGRATION_MIGRATING] = "migrating",
    [VG_MIGRATION_ATTACHING] = "attaching", [VG_MIGRATION_RESUMING] = "resuming",
    [VG_MIGRATION_VERIFYING] = "verifying", [VG_MIGRATION_ROLLING_BACK] = "rolling_back",
    [VG_MIGRATION_DONE] = "done",           [VG_MIGRATION_ROLLED_BACK] = "rolled_back",
    [VG_MIGRATION_ABORTED] = "aborted",     [VG_MIGRATION_FAILED] = "failed",
    [VG_MIGRATION_STATE_MAX] = NULL,
};

const char *const vg_migration_place_names[] = {
    [VG_PLACE_UNKNOWN] = "unknown", [VG_PLACE_SOURCE] = "source",   [VG_PLACE_TARGET] = "target",
    [VG_PLACE_MOVING] = "moving",   [VG_PLACE_NOWHERE] = "nowhere", [VG_PLACE_BOTH] = "both",
    [VG_PLACE_MAX] = NULL,
};

const char *const vg_migration_gpu_names[] = {
    [VG_GPU_UNKNOWN] = "unknown", [VG_GPU_ATTACHED] = "attached", [VG_GPU_DETACHED] = "detached",
    [VG_GPU_PARTLY] = "partly",   [VG_GPU_STATE_MAX] = NULL,
};

const char *const vg_migration_executor_names[] = {
    [VG_EXECUTOR_LIBVIRT] = "libvirt",
    [VG_EXECUTOR_NOVA] = "nova",
    [VG_EXECUTOR_MAX] = NULL,
};

const char *const vg_migration_origin_names[] = {
    [VG_ORIGIN_REQUEST] = "request",
    [VG_ORIGIN_DRAIN] = "drain",
    [VG_ORIGIN_MAX] = NULL,
};

const char *const vg_migration_mode_names[] = {
    [VG_MODE_DETACH] = "detach",
    [VG_MODE_NATIVE] = "native",
    [VG_MODE_MAX] = NULL,
};

const char *const vg_move_device_kind_names[] = {
    [VG_MOVE_DEVICE_NAMED] = "named",
    [VG_MOVE_DEVICE_MDEV] = "mdev",
    [VG_MOVE_DEVICE_PCI] = "pci",
    [VG_MOVE_DEVICE_KIND_MAX] = NULL,
};

#define THIS vg_move_device
static const struct vg_field device_fields[] = {
    VG_ROW_ENUM("kind", kind, REQ, vg_move_device_kind_names),
    NEEDED(type),
    TEXT(alias),
    VG_ROW_STRING(function_of, VG_FIELD_OMIT, 0, VG_MIGRATION_TEXT_MAX),
    TEXT(guest_address),
    TEXT(guest_path),
    TEXT(source_address),
    VG_ROW_STRING(target_gpu, VG_FIELD_OMIT, 1, VG_MIGRATION_TEXT_MAX),
    TEXT(target_address),
    VG_ROW_BOOL(persistent, 0),
    VG_ROW_STRING(source_xml, 0, 0, VG_MIGRATION_XML_MAX),
    VG_ROW_STRING(target_xml, 0, 0, VG_MIGRATION_XML_MAX),
};
const struct vg_record_type vg_move_device_record = VG_ROW_TYPE(device_fields);
#undef THIS

#define THIS vg_migration_step
static const struct vg_field step_fields[] = {
    NEEDED(verb),           COUNT(began_ns), COUNT(ended_ns), VG_ROW_BOOL(ok, 0),
    VG_ROW_BOOL(undoes, 0), COUNT(attempt),  TEXT(asked),     TEXT(answer),
};
const struct vg_record_type vg_migration_step_record = VG_ROW_TYPE(step_fields);
#undef THIS

#define THIS vg_migration_progress
static const struct vg_field progress_fields[] = {
    COUNT(total_bytes), COUNT(remaining_bytes), COUNT(processed_bytes), COUNT(dirty_bytes_per_s),
    COUNT(bytes_per_s), COUNT(iteration),       COUNT(eta_ns),          COUNT(downtime_ns),
    COUNT(elapsed_ns),
};
const struct vg_record_type vg_migration_progress_record = VG_ROW_TYPE(progress_fields);
#undef THIS

#define THIS vg_migration_effect
static const struct vg_field effect_fields[] = {
    VG_ROW_BOOL(known, 0),
    COUNT(lost_cpu_ns_per_s),
    COUNT(seconds),
};
const struct vg_record_type vg_migration_effect_record = VG_ROW_TYPE(effect_fields);
#undef THIS

#define THIS vg_guest_program
static const struct vg_field program_fields[] = {
    TEXT(by),
    COUNT(pid),
    TEXT(comm),
    TEXT(state),
    TEXT(movable),
    TEXT(why),
    COUNT(gpu_bytes),
    COUNT(lock_ns),
    COUNT(checkpoint_ns),
    COUNT(restore_ns),
    COUNT(unlock_ns),
    COUNT(stop_ns),
    COUNT(away_ns),
    COUNT(held_threads),
    VG_ROW_STRING(at, VG_FIELD_OMIT, 0, VG_MIGRATION_TEXT_MAX),
};
const struct vg_record_type vg_guest_program_record = VG_ROW_TYPE(program_fields);
#undef THIS

#define THIS vg_guest_programs
static const struct vg_field programs_fields[] = {
    TEXT(doing),
    COUNT(total),
    COUNT(gpu_bytes),
    COUNT(forked),
    COUNT(forked_descriptors),
    COUNT(forked_maps),
    VG_ROW_STRING(driver, VG_FIELD_OMIT, 0, VG_MIGRATION_TEXT_MAX),
    VG_ROW_STRINGS(driver_faults, VG_FIELD_OMIT, VG_MIGRATION_TEXT_MAX, VG_MOVABLE_REASONS_MAX),
    VG_ROW_LIST(programs, 0, VG_GUEST_PROGRAMS_MAX, &vg_guest_program_record),
};
const struct vg_record_type vg_guest_programs_record = VG_ROW_TYPE(programs_fields);
#undef THIS

#define THIS vg_migration
static const struct vg_field migration_fields[] = {
    NEEDED(id),
    NEEDED(vm),
    VG_ROW_STRING(display_name, VG_FIELD_OMIT, 0, VG_MIGRATION_TEXT_MAX),
    NEEDED(uuid),
    NEEDED(from),
    NEEDED(to),
    TEXT(peer),
    TEXT(plan_id),
    TEXT(undo_of),
    VG_ROW_STRING(act, VG_FIELD_OMIT, 0, VG_MIGRATION_NAME_MAX),
    VG_ROW_INT(act_revision, VG_FIELD_OMIT, 0, TIME_MAX),
    VG_ROW_INT(act_until_ns, VG_FIELD_OMIT, 0, TIME_MAX),
    VG_ROW_BOOL(not_started, VG_FIELD_OMIT),
    TEXT(asked_by),
    VG_ROW_ENUM("begun_by", begun_by, VG_FIELD_OMIT, vg_migration_origin_names),
    VG_ROW_BOOL(no_agent, 0),
    VG_ROW_STRING(gpu_during, VG_FIELD_OMIT, 0, VG_MIGRATION_TEXT_MAX),
    VG_ROW_STRING(gpu_during_why, VG_FIELD_OMIT, 0, VG_MIGRATION_TEXT_MAX),
    VG_ROW_ENUM("executor", executor, 0, vg_migration_executor_names),
    VG_ROW_ENUM("mode", mode, 0, vg_migration_mode_names),
    TEXT(mode_why),
    VG_ROW_ENUM("tls", tls, 0, vg_move_tls_names),
    VG_ROW_BOOL(tls_warns, 0),
    TEXT(tls_why),
    TEXT(nova_from),
    TEXT(nova_to),
    VG_ROW_ENUM("state", state, REQ, vg_migration_state_names),
    TEXT(step),
    VG_ROW_BOOL(abort_asked, 0),
    COUNT(retries),
    TEXT(retried_by),
    TEXT(waits_for),
    COUNT(waits_since_ns),
    TEXT(cause),
    VG_ROW_STRING(left_over, VG_FIELD_OMIT, 0, VG_MIGRATION_TEXT_MAX),
    VG_ROW_STRING(not_resumed, VG_FIELD_OMIT, 0, VG_MIGRATION_TEXT_MAX),
    VG_ROW_ENUM("vm_on", vm_on, 0, vg_migration_place_names),
    VG_ROW_STRING(stands, VG_FIELD_OMIT, 0, VG_MIGRATION_TEXT_MAX),
    VG_ROW_ENUM("gpu", gpu, 0, vg_migration_gpu_names),
    TEXT(reservation),
    COUNT(made_ns),
    COUNT(ended_ns),
    COUNT(guest_pause_ns),
    COUNT(standstill_began_ns),
    COUNT(standstill_ns),
    COUNT(downtime_limit_ns),
    VG_ROW_PART(progress, 0, &vg_migration_progress_record),
    VG_ROW_PART(guest, 0, &vg_guest_programs_record),
    VG_ROW_BOOL(predicted, 0),
    VG_ROW_INT(predicted_gain_ns_per_s, 0, -TIME_MAX, TIME_MAX),
    VG_ROW_INT(predicted_gpu_ns_per_s, VG_FIELD_OMIT, -TIME_MAX, TIME_MAX),
    VG_ROW_STRING(rule, VG_FIELD_OMIT, 0, VG_MIGRATION_TEXT_MAX),
    VG_ROW_INT(group, VG_FIELD_OMIT, 0, TIME_MAX),
    VG_ROW_INT(group_moves, VG_FIELD_OMIT, 0, TIME_MAX),
    VG_ROW_PART(before, 0, &vg_migration_effect_record),
    VG_ROW_PART(after, 0, &vg_migration_effect_record),
    VG_ROW_PART(verdict, 0, &vg_move_verdict_record),
    VG_ROW_STRINGS(doubts, VG_FIELD_OMIT, VG_MIGRATION_TEXT_MAX, VG_MOVABLE_REASONS_MAX),
    VG_ROW_LIST(devices, 0, VG_MIGRATION_DEVICES_MAX, &vg_move_device_record),
    VG_ROW_LIST(steps, 0, VG_MIGRATION_STEPS_MAX, &vg_migration_step_record),
};
const struct vg_record_type vg_migration_record = VG_ROW_TYPE(migration_fields);
#undef THIS

#define THIS vg_bare_vm
static const struct vg_field bare_vm_fields[] = {
    NEEDED(vm),   VG_ROW_STRING(display_name, VG_FIELD_OMIT, 0, VG_MIGRATION_TEXT_MAX),
    NEEDED(uuid), NEEDED(host),
    NEEDED(move),
};
const struct vg_record_type vg_bare_vm_record = VG_ROW_TYPE(bare_vm_fields);
#undef THIS

const char *const vg_movable_names[] = {
    [VG_MOVABLE_UNKNOWN] = "unknown",
    [VG_MOVABLE_YES] = "yes",
    [VG_MOVABLE_NO] = "no",
    [VG_MOVABLE_MAX] = NULL,
};

#define THIS vg_movable
static const struct vg_field movable_fields[] = {
    NEEDED(vm),
    TEXT(uuid),
    VG_ROW_ENUM("movable", movable, REQ, vg_movable_names),
    VG_ROW_STRINGS(reasons, 0, VG_MIGRATION_TEXT_MAX, VG_MOVABLE_REASONS_MAX),
    VG_ROW_STRINGS(doubts, VG_FIELD_OMIT, VG_MIGRATION_TEXT_MAX, VG_MOVABLE_REASONS_MAX),
    VG_ROW_LIST(devices, 0, VG_MIGRATION_DEVICES_MAX, &vg_move_device_record),
    VG_ROW_PART(guest, 0, &vg_guest_programs_record),
};
const struct vg_record_type vg_movable_record = VG_ROW_TYPE(movable_fields);
#undef THIS

#define THIS vg_migration_request
static const struct vg_field migration_request_fields[] = {
    VG_ROW_STRING(vm, REQ, 1, VG_MIGRATION_NAME_MAX),
    VG_ROW_STRING(to, REQ, 1, VG_MIGRATION_NAME_MAX),
    VG_ROW_BOOL(dry_run, 0),
    VG_ROW_BOOL(no_agent, 0),
    VG_ROW_STRING(gpu_during, VG_FIELD_OMIT, 1, VG_MIGRATION_NAME_MAX),
    VG_ROW_BOOL(forward, 0),
    VG_ROW_STRING(mode, VG_FIELD_OMIT, 1, VG_MIGRATION_NAME_MAX),
    VG_ROW_STRING(plan_id, 0, 1, VG_MIGRATION_NAME_MAX),
    VG_ROW_STRING(plan_hash, 0, 1, VG_MIGRATION_NAME_MAX),
    VG_ROW_STRING(undo_of, 0, 1, VG_MIGRATION_NAME_MAX),
    VG_ROW_STRING(act, VG_FIELD_OMIT, 1, VG_MIGRATION_NAME_MAX),
    VG_ROW_INT(act_revision, VG_FIELD_OMIT, 0, TIME_MAX),
    VG_ROW_INT(act_until_ns, VG_FIELD_OMIT, 0, TIME_MAX),
    VG_ROW_LIST(gpus, VG_FIELD_OMIT, VG_MIGRATION_DEVICES_MAX, &vg_gpu_target_record),
    VG_ROW_STRING(on_behalf_of, 0, 1, VG_MIGRATION_ASKER_MAX),
};
const struct vg_record_type vg_migration_request_record = VG_ROW_TYPE(migration_request_fields);
#undef THIS

#define THIS vg_move_forecast
static const struct vg_field forecast_fields[] = {
    VG_ROW_STRING(plan_id, REQ, 1, VG_MIGRATION_NAME_MAX),
    VG_ROW_STRING(rule, REQ, 1, VG_MIGRATION_NAME_MAX),
    VG_ROW_INT(gain_ns_per_s, 0, -TIME_MAX, TIME_MAX),
    VG_ROW_INT(gpu_ns_per_s, 0, -TIME_MAX, TIME_MAX),
    COUNT(group),
    COUNT(group_moves),
};
const struct vg_record_type vg_move_forecast_record = VG_ROW_TYPE(forecast_fields);
#undef THIS

vg_move_forecast *
vg_move_forecast_new(void)
{
    return vg_record_new(&vg_move_forecast_record);
}

void
vg_move_forecast_free(void *forecast)
{
    if (forecast)
        vg_record_free(&vg_move_forecast_record, forecast);
}

char *
vg_move_forecast_to_text(const vg_move_forecast *forecast)
{
    g_autoptr(json_object) object = vg_record_write(&vg_move_forecast_record, forecast);

    return g_strchomp(vg_json_to_text(object, false));
}

vg_move_forecast *
vg_move_forecast_from_text(const char *text, GError **err)
{
    g_autoptr(json_object) object = vg_json_parse(text, strlen(text), VG_FORECAST_MAX, 2, err);
    const struct vg_json_node root = vg_json_root(object);
    vg_move_forecast *forecast =
        object ? vg_record_read(&vg_move_forecast_record, &root, err) : NULL;

    if (!forecast)
        g_prefix_error(err, VG_FORECAST_HEADER ": ");
    return forecast;
}

void
vg_migration_request_free(void *data)
{
    struct vg_migration_request *request = data;

    if (!request)
        return;
    g_free(request->asked_by);
    g_free(request->key);
    vg_move_forecast_free(request->forecast);
    vg_record_free(&vg_migration_request_record, request);
}

bool
vg_migration_is_place(const char *text)
{
    bool ok = g_str_has_prefix(text, "proxy:") && strlen(text) > strlen("proxy:") &&
              strlen(text) < VG_MIGRATION_PLACE_MAX;

    for (const char *at = text; ok && *at; at++)
        ok = g_ascii_isprint(*at);
    return ok;
}

int
vg_migration_check_place(const char *text, GError **err)
{
    if (vg_migration_is_place(text))
        return 0;
    return vg_error(
        err, VG_E_INVALID,
        "gpu_during '%s' is neither \"proxy\" nor the address where programs in the guest reach a "
        "vgpu-proxy, such as \"proxy:/run/vgpu-proxy.sock\", with at most %d bytes",
        text, VG_MIGRATION_PLACE_MAX - 1);
}

void
vg_guest_programs_free(void *programs)
{
    if (programs)
        vg_record_free(&vg_guest_programs_record, programs);
}

/* Keeps the first pause of programs. A program that returns from a proxy was paused twice, and the
 * guest only reports the last pause. */
static void
programs_keep_away(const struct vg_guest_programs *before, struct vg_guest_program *now)
{
    for (guint i = 0; i < before->programs->len; i++) {
        const struct vg_guest_program *was = before->programs->pdata[i];
        if (was->pid != now->pid || g_strcmp0(was->by, now->by) != 0)
            continue;
        if (g_strcmp0(was->state, "away") == 0 && g_strcmp0(now->state, "away") != 0)
            now->away_ns = was->stop_ns;
        else if (was->away_ns > 0)
            now->away_ns = was->away_ns;
    }
}

static bool
programs_have(const struct vg_guest_programs *programs, const struct vg_guest_program *wanted)
{
    for (guint i = 0; i < programs->programs->len; i++) {
        const struct vg_guest_program *program = programs->programs->pdata[i];
        if (program->pid == wanted->pid && g_strcmp0(program->by, wanted->by) == 0)
            return true;
    }
    return false;
}

/* Keeps programs that used a proxy, and that the guest no longer knows, as ended: they may have
 * lost data there. */
static void
programs_keep_gone(struct vg_guest_programs *before, struct vg_guest_programs *now)
{
    for (guint i = before->programs->len; i > 0; i--) {
        struct vg_guest_program *was = before->programs->pdata[i - 1];
        if (g_strcmp0(was->state, "away") != 0 || programs_have(now, was) ||
            now->programs->len >= VG_GUEST_PROGRAMS_MAX)
            continue;
        g_ptr_array_add(now->programs, g_ptr_array_steal_index(before->programs, i - 1));
        now->total++;
        g_free(was->state);
        g_free(was->why);
        was->state = g_strdup("gone");
        was->why = g_strdup_printf(
            "it exited while it used %s, either normally or because it lost its state there",
            was->at ? was->at : "a proxy");
        was->away_ns = was->stop_ns;
        was->stop_ns = 0;
    }
}

/* Returns the time of a copy in one direction. */
static int64_t
migration_copy_ns(int64_t gpu_bytes)
{
    /* 2 ns per byte is 0.5 GB/s, less than 0.5 GiB/s. */
    return MIN(MAX(gpu_bytes, 0), COPY_BYTES_MAX) * 2;
}

int64_t
vg_guest_undo_ns(int64_t gpu_bytes)
{
    /* A copy in progress may have to end before it is reversed. */
    return 2 * migration_copy_ns(gpu_bytes);
}

int64_t
vg_guest_allowed_ns(int64_t least_ns, int64_t gpu_bytes, bool releases)
{
    return least_ns + migration_copy_ns(gpu_bytes) + (releases ? vg_guest_undo_ns(gpu_bytes) : 0);
}

const struct vg_guest_program *
vg_guest_programs_lost(const struct vg_guest_programs *programs)
{
    for (guint i = 0; i < programs->programs->len; i++) {
        const struct vg_guest_program *program = programs->programs->pdata[i];
        if (g_strcmp0(program->state, "failed") == 0)
            return program;
    }
    return NULL;
}

bool
vg_guest_programs_are_final(const struct vg_guest_programs *programs)
{
    static const char *const ended[] = {"failed", "running", "gone", NULL};

    for (guint i = 0; i < programs->programs->len; i++) {
        const struct vg_guest_program *program = programs->programs->pdata[i];
        if (!program->state || !g_strv_contains(ended, program->state))
            return false;
    }
    return programs->total <= programs->programs->len && vg_guest_programs_lost(programs);
}

void
vg_guest_programs_replace(struct vg_guest_programs *to, struct vg_guest_programs *take_from)
{
    if (!take_from)
        return;
    struct vg_guest_programs before = *to;
    for (guint i = 0; i < take_from->programs->len; i++)
        programs_keep_away(&before, take_from->programs->pdata[i]);
    programs_keep_gone(&before, take_from);
    *to = *take_from;
    *take_from = before;
    /* Each keeps its `doing`. */
    take_from->doing = to->doing;
    to->doing = before.doing;
    vg_guest_programs_free(take_from);
}

void
vg_bare_vm_free(void *vm)
{
    if (vm)
        vg_record_free(&vg_bare_vm_record, vm);
}

void
vg_movable_free(void *movable)
{
    if (movable)
        vg_record_free(&vg_movable_record, movable);
}

struct vg_migration *
vg_migration_new(void)
{
    return vg_record_new(&vg_migration_record);
}

void
vg_migration_free(void *migration)
{
    if (migration)
        vg_record_free(&vg_migration_record, migration);
}

struct vg_migration *
vg_migration_copy(const struct vg_migration *migration)
{
    return vg_record_copy(&vg_migration_record, migration);
}

char *
vg_migration_cause(const struct vg_migration *migration)
{
    const struct {
        const char *before, *text;
    } parts[] = {
        {"", migration->cause},
        {"; left over: ", migration->left_over},
        {"; its use was not resumed: ", migration->not_resumed},
    };
    g_autoptr(GString) cause = NULL;

    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++) {
        if (!parts[i].text)
            continue;
        if (cause)
            g_string_append(cause, parts[i].before);
        else
            cause = g_string_new(NULL);
        g_string_append(cause, parts[i].text);
    }
    return cause ? g_string_free(g_steal_pointer(&cause), FALSE) : NULL;
}

bool
vg_migration_is_queued(const struct vg_migration *migration)
{
    const GPtrArray *steps = migration->steps;
    const struct vg_migration_step *last = steps->len > 0 ? steps->pdata[steps->len - 1] : NULL;

    return migration->state == VG_MIGRATION_PENDING && migration->waits_for && !migration->step &&
           (!last || last->attempt < migration->retries);
}

struct vg_host_moves *
vg_host_moves_new(const char *host)
{
    struct vg_host_moves *moves = g_new0(struct vg_host_moves, 1);

    moves->host = g_strdup(host);
    moves->moves = g_ptr_array_new_with_free_func(vg_migration_free);
    return moves;
}

void
vg_host_moves_free(void *data)
{
    struct vg_host_moves *moves = data;

    if (!moves)
        return;
    g_free(moves->host);
    g_free(moves->peer);
    g_free(moves->reason);
    g_ptr_array_unref(moves->moves);
    g_free(moves);
}

json_object *
vg_migration_summary(const struct vg_migration *migration)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "id", migration->id);
    vg_json_add_string(object, "vm", migration->vm);
    if (migration->display_name)
        vg_json_add_string(object, "display_name", migration->display_name);
    vg_json_add_string(object, "uuid", migration->uuid);
    vg_json_add_string(object, "from", migration->from);
    vg_json_add_string(object, "to", migration->to);
    vg_json_add_string(object, "state", vg_migration_state_names[migration->state]);
    return object;
}
