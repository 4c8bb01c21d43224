/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles moves of VMs. The answer is immediate, and the move continues in the background.
 */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "api/person.h"
#include "api/route.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

#define VG_LOG_TAG "api"

#define KEY_MAX 255

/* The time limit for starting a move: its client waits for a minute, and a vgpud that forwards a
 * request for less. */
#define BEGIN_NS (45 * VG_NS_PER_S)

/* ---- documents ---- */

static void
migration_add_time(json_object *object, const char *name, int64_t t_ns)
{
    if (t_ns > 0)
        vg_json_add_int64(object, name, t_ns);
    else
        vg_json_add(object, name, NULL);
}

/* Removes the XML of devices, which only other vgpuds need. */
static void
migration_drop_xml(json_object *object)
{
    json_object *devices = json_object_object_get(object, "devices");

    for (size_t i = 0; i < json_object_array_length(devices); i++) {
        json_object *device = json_object_array_get_idx(devices, i);
        json_object_object_del(device, "source_xml");
        json_object_object_del(device, "target_xml");
    }
}

static json_object *
migration_to_json(const struct vg_migration *migration)
{
    static const char *const journal_only[] = {"begun_by", "left_over", "not_resumed"};
    json_object *object = vg_record_write(&vg_migration_record, migration);
    g_autofree char *cause = vg_migration_cause(migration);

    migration_drop_xml(object);
    vg_json_add_string(object, "cause", cause);
    vg_json_add(object, "verdict", vg_move_verdict_to_json(&migration->verdict));
    for (size_t i = 0; i < G_N_ELEMENTS(journal_only); i++)
        json_object_object_del(object, journal_only[i]);
    return object;
}

static json_object *
migration_summary(const struct vg_migration *migration)
{
    json_object *object = vg_migration_summary(migration);
    g_autofree char *cause = vg_migration_cause(migration);

    vg_json_add_string(object, "cause", cause);
    vg_json_add_int64(object, "made_ns", migration->made_ns);
    migration_add_time(object, "ended_ns", migration->ended_ns);
    vg_json_add_string(object, "step", migration->step);
    vg_json_add_string(object, "waits_for", migration->waits_for);
    vg_json_add_int64(object, "standstill_ns", migration->standstill_ns);
    vg_json_add(object, "progress",
                vg_record_write(&vg_migration_progress_record, &migration->progress));
    vg_json_add_string(object, "plan_id", migration->plan_id);
    vg_json_add_string(object, "undo_of", migration->undo_of);
    if (migration->act)
        vg_json_add_string(object, "act", migration->act);
    if (migration->not_started)
        vg_json_add_bool(object, "not_started", true);
    if (migration->predicted) {
        vg_json_add_bool(object, "predicted", true);
        vg_json_add_int64(object, "predicted_gain_ns_per_s", migration->predicted_gain_ns_per_s);
        vg_json_add_int64(object, "predicted_gpu_ns_per_s", migration->predicted_gpu_ns_per_s);
        vg_json_add_string(object, "rule", migration->rule);
        vg_json_add_int64(object, "group", migration->group);
        vg_json_add_int64(object, "group_moves", migration->group_moves);
    }
    vg_json_add(object, "verdict", vg_move_verdict_to_json(&migration->verdict));
    return object;
}

/* Creates the path for monitoring the move. */
static char *
migration_location(const char *id, const char *peer)
{
    return peer ? g_strdup_printf("/v1/migrations/%s?peer=%s", id, peer)
                : g_strdup_printf("/v1/migrations/%s", id);
}

/* ---- starting one ---- */

static void
migration_run_check(struct vg_request *request, const struct vg_migration_request *wanted)
{
    const struct vg_backend *backend = request->backend;
    GError *err = NULL;
    json_object *document = backend->moves->check_migration(backend->data, wanted, &err);

    if (document)
        vg_answer_json(request, 200, document);
    else
        vg_answer_error(request, err);
}

static void
migration_run_start(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    const struct vg_migration_request *wanted = request->job_data;
    g_autofree char *peer = NULL;
    GError *err = NULL;
    bool known = false;

    request->object = g_strdup(wanted->vm);
    if (wanted->dry_run) {
        migration_run_check(request, wanted);
        return;
    }
    g_autoptr(vg_migration) migration =
        backend->moves->migrate(backend->data, wanted, &known, &peer, &err);
    if (!migration) {
        vg_log_info("write failed request=%s: %s", request->request_id, err->message);
        vg_answer_error(request, err);
        return;
    }
    vg_answer_json(request, known ? 200 : 201, migration_to_json(migration));
    request->answer.location = migration_location(migration->id, peer);
    g_free(request->object);
    request->object = g_strdup(migration->id);
}

/* Finds the hosts of a move. Customers choose OpenStack names, so such a name is used only if no
 * known host has a VM with this name or UUID. */
static int
migration_find_hosts(struct vg_request *request, struct vg_migration_request *wanted, GError **err)
{
    const struct vg_backend *backend = request->backend;

    backend->moves->find_hosts(backend->data, wanted->vm, wanted->to, request->hosts);
    if (request->hosts[0])
        return 0;
    g_autofree char *asked = g_strdup(wanted->vm);
    if (vg_request_name_vm(request, &wanted->vm, err) < 0)
        return -1;
    if (strcmp(asked, wanted->vm) != 0)
        request->hosts[0] = g_strdup("");
    return 0;
}

/* Returns the requesting person. Another vgpud may start an automatic move without a person: the
 * backend checks whether this host allows this. */
static char *
migration_settle(const struct vg_request *request, const struct vg_migration_request *wanted,
                 GError **err)
{
    if (request->identity.role == VG_ROLE_PEER && wanted->act && !wanted->dry_run &&
        wanted->on_behalf_of && g_str_has_prefix(wanted->on_behalf_of, VG_ACT_BY " at "))
        return g_strdup_printf("%s, says %s", wanted->on_behalf_of, request->identity.name);
    return vg_person_settle(request, wanted->on_behalf_of, err);
}

void
vg_handle_start_migration(struct vg_request *request)
{
    const GByteArray *body = request->body;
    const char *key = request->idempotency_key;
    GError *err = NULL;

    if (key && (!key[0] || strlen(key) > KEY_MAX)) {
        vg_answer_problem(request, VG_E_INVALID, "Idempotency-Key: it must have 1 to %d characters",
                          KEY_MAX);
        return;
    }
    struct vg_migration_request *wanted = vg_parse_record(
        body ? (const char *)body->data : "", body ? body->len : 0,
        "{\"vm\": \"guest0\", \"to\": \"host-b\"}", &vg_migration_request_record, &err);
    if (!wanted || vg_person_check_here(request, wanted->forward, &err) < 0 ||
        migration_find_hosts(request, wanted, &err) < 0 ||
        !(wanted->asked_by = migration_settle(request, wanted, &err))) {
        vg_migration_request_free(wanted);
        vg_answer_error(request, err);
        return;
    }
    if (request->forecast &&
        !(wanted->forecast = vg_move_forecast_from_text(request->forecast, &err))) {
        vg_migration_request_free(wanted);
        vg_answer_error(request, err);
        return;
    }
    wanted->key = g_strdup(key);
    vg_log_notice("write accepted by=\"%s\" from=\"%s\" route=\"POST %s\" request=%s",
                  request->identity.name, request->origin, request->route->path,
                  request->request_id);
    wanted->asker = (struct vg_asker){.waits = request->waits,
                                      .data = request,
                                      .begin_by_ns = vg_clock_monotonic_ns() + BEGIN_NS};
    request->job_data = wanted;
    request->job_data_free = vg_migration_request_free;
    request->lane = wanted->forward || wanted->plan_id ? VG_LANE_ASK : VG_LANE_MOVE;
    request->job = migration_run_start;
}

/* ---- reading, aborting ---- */

/* Reads the query's peer, or NULL. Returns false after setting the answer. */
static bool
migration_read_peer(struct vg_request *request, const char **ret)
{
    GError *err = NULL;

    if (vg_query_length(&request->query, "peer", VG_MIGRATION_NAME_MAX, &err) < 0) {
        vg_answer_error(request, err);
        return false;
    }
    *ret = vg_query_get(&request->query, "peer");
    return true;
}

static void
migration_answer(struct vg_request *request, unsigned status, struct vg_migration *take_migration,
                 GError *take_err)
{
    g_autoptr(vg_migration) migration = take_migration;

    if (migration)
        vg_answer_json(request, status, migration_to_json(migration));
    else
        vg_answer_error(request, take_err);
}

/* The move to read or change. */
struct migration_change {
    char *peer;     /* the peer that runs the move, or NULL */
    char *asked_by; /* NULL for reading */
};

static void
migration_change_free(void *data)
{
    struct migration_change *change = data;

    g_free(change->peer);
    g_free(change->asked_by);
    g_free(change);
}

static void
migration_run_read(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    const struct migration_change *change = request->job_data;
    GError *err = NULL;
    struct vg_migration *migration =
        backend->moves->read_migration(backend->data, request->id, change->peer, &err);

    migration_answer(request, 200, migration, err);
}

static void
migration_run_abort(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    const struct migration_change *change = request->job_data;
    GError *err = NULL;
    struct vg_migration *migration = backend->moves->abort_migration(
        backend->data, request->id, change->peer, change->asked_by, &err);

    migration_answer(request, 202, migration, err);
}

static void
migration_run_retry(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    const struct migration_change *change = request->job_data;
    GError *err = NULL;
    struct vg_migration *migration = backend->moves->retry_migration(
        backend->data, request->id, change->peer, change->asked_by, &err);

    migration_answer(request, 202, migration, err);
}

static void
migration_handle_one(struct vg_request *request, vg_job *job, enum vg_lane here)
{
    const char *peer = NULL;
    g_autofree char *person = NULL;
    GError *err = NULL;

    if (!migration_read_peer(request, &peer))
        return;
    if (vg_person_check_here(request, peer != NULL, &err) < 0 ||
        (job != migration_run_read && !(person = vg_person_settle(request, NULL, &err)))) {
        vg_answer_error(request, err);
        return;
    }
    struct migration_change *change = g_new0(struct migration_change, 1);
    change->peer = g_strdup(peer);
    change->asked_by = g_steal_pointer(&person);
    request->job_data = change;
    request->job_data_free = migration_change_free;
    request->hosts[0] = g_strdup(peer);
    request->lane = peer ? VG_LANE_ASK : here;
    request->job = job;
}

void
vg_handle_migration(struct vg_request *request)
{
    /* The effect of a move is queried from its target. */
    migration_handle_one(request, migration_run_read, VG_LANE_MOVE);
}

void
vg_handle_abort_migration(struct vg_request *request)
{
    migration_handle_one(request, migration_run_abort, VG_LANE_KEEP);
}

void
vg_handle_retry_migration(struct vg_request *request)
{
    migration_handle_one(request, migration_run_retry, VG_LANE_MOVE);
}

/* ---- can it be moved? ---- */

static void
migration_run_movable(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    GError *err = NULL;
    g_autoptr(vg_movable) movable = backend->moves->movable(backend->data, request->id, &err);

    if (!movable) {
        vg_answer_error(request, err);
        return;
    }
    json_object *object = vg_record_write(&vg_movable_record, movable);
    migration_drop_xml(object);
    vg_answer_json(request, 200, object);
}

void
vg_handle_movable(struct vg_request *request)
{
    GError *err = NULL;

    if (vg_request_name_vm(request, &request->id, &err) < 0) {
        vg_answer_error(request, err);
        return;
    }
    request->hosts[0] = g_strdup("");
    request->lane = VG_LANE_MOVE;
    request->job = migration_run_movable;
}

struct migration_page {
    int64_t before_ns;
    int64_t limit;
    bool active;
};

static int
migration_read_active(const struct vg_query *query, bool *ret, GError **err)
{
    const char *active = vg_query_get(query, "active");

    if (active && strcmp(active, "true") != 0 && strcmp(active, "false") != 0)
        return vg_error(err, VG_E_INVALID, "active: '%s' is neither true nor false", active);
    *ret = active && strcmp(active, "true") == 0;
    return 0;
}

static void
migration_run_list(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    const struct migration_page *page = request->job_data;
    GError *err = NULL;
    /* Request one more move to detect a next page. */
    g_autofree char *lacks = NULL;
    g_autoptr(GPtrArray) list = backend->moves->list_migrations(
        backend->data, page->active, page->before_ns, (size_t)page->limit + 1, &lacks, &err);
    g_autofree char *next = NULL;

    if (!list) {
        vg_answer_error(request, err);
        return;
    }
    json_object *object = json_object_new_object();
    json_object *items = json_object_new_array();
    for (guint i = 0; i < list->len && i < (guint)page->limit; i++) {
        const struct vg_migration *migration = list->pdata[i];
        vg_json_append(items, migration_summary(migration));
        if (i + 1 == (guint)page->limit && list->len > i + 1) {
            g_autofree char *text = g_strdup_printf("migrations\n%" PRId64, migration->made_ns);
            next = vg_marker_new(text);
        }
    }
    vg_json_add(object, "items", items);
    vg_json_add_string(object, "next", next);
    if (lacks)
        vg_json_add_string(object, "incomplete", lacks);
    vg_answer_json(request, 200, object);
}

static int
migration_read_marker(const char *marker, int64_t *ret_before, GError **err)
{
    static const char prefix[] = "migrations\n";
    g_autofree char *text = marker ? vg_marker_read(marker, err) : NULL;

    if (!marker)
        return 0;
    if (!text)
        return -1;
    if (!g_str_has_prefix(text, prefix) || !vg_parse_int(text + strlen(prefix), ret_before))
        return vg_error(err, VG_E_INVALID, "marker: it is not from the list of moves");
    return 0;
}

void
vg_handle_list_migrations(struct vg_request *request)
{
    struct migration_page page = {.before_ns = INT64_MAX, .limit = VG_LIMIT_DEFAULT};
    GError *err = NULL;

    if (migration_read_active(&request->query, &page.active, &err) < 0 ||
        vg_query_int(&request->query, "limit", 1, VG_LIMIT_MAX, &page.limit, &err) < 0 ||
        vg_query_length(&request->query, "marker", VG_MARKER_MAX, &err) < 0 ||
        migration_read_marker(vg_query_get(&request->query, "marker"), &page.before_ns, &err) < 0) {
        vg_answer_error(request, err);
        return;
    }
    request->job_data = g_memdup2(&page, sizeof(page));
    request->job_data_free = g_free;
    request->job = migration_run_list;
}

/* ---- moves of all hosts ---- */

/* A move with the peer that runs it, or NULL. */
struct migration_found {
    const struct vg_migration *move;
    const char *peer;
};

static int
migration_compare_made(const void *a, const void *b)
{
    const struct migration_found *x = a, *y = b;

    if (x->move->made_ns != y->move->made_ns)
        return x->move->made_ns < y->move->made_ns ? 1 : -1;
    return strcmp(x->move->id, y->move->id);
}

static void
migration_run_list_all(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    const struct migration_page *page = request->job_data;
    GError *err = NULL;
    g_autoptr(GPtrArray) hosts =
        backend->moves->list_all_migrations(backend->data, page->active, (size_t)page->limit, &err);
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(struct migration_found));

    if (!hosts) {
        vg_answer_error(request, err);
        return;
    }
    json_object *object = json_object_new_object();
    json_object *items = json_object_new_array(), *unknown = json_object_new_array();
    for (guint i = 0; i < hosts->len; i++) {
        const struct vg_host_moves *host = hosts->pdata[i];
        for (guint k = 0; k < host->moves->len; k++)
            g_array_append_val(found,
                               ((struct migration_found){host->moves->pdata[k], host->peer}));
        if (!host->reason)
            continue;
        json_object *one = json_object_new_object();
        vg_json_add_string(one, "host", host->host);
        vg_json_add_string(one, "reason", host->reason);
        vg_json_append(unknown, one);
    }
    g_array_sort(found, migration_compare_made);
    for (guint i = 0; i < found->len && i < (guint)page->limit; i++) {
        const struct migration_found *one = &g_array_index(found, struct migration_found, i);
        json_object *item = migration_summary(one->move);
        vg_json_add_string(item, "peer", one->peer);
        vg_json_append(items, item);
    }
    vg_json_add(object, "items", items);
    vg_json_add(object, "unknown", unknown);
    vg_answer_json(request, 200, object);
}

void
vg_handle_cluster_migrations(struct vg_request *request)
{
    struct migration_page page = {.limit = VG_LIMIT_DEFAULT};
    GError *err = NULL;

    if (migration_read_active(&request->query, &page.active, &err) < 0 ||
        vg_query_int(&request->query, "limit", 1, VG_LIMIT_MAX, &page.limit, &err) < 0) {
        vg_answer_error(request, err);
        return;
    }
    request->job_data = g_memdup2(&page, sizeof(page));
    request->job_data_free = g_free;
    request->lane = VG_LANE_ASK;
    request->job = migration_run_list_all;
}
