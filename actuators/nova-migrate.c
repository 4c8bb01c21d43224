/* SPDX-License-Identifier: Apache-2.0
 *
 * Performs a live migration through nova: requests, monitors and cancels it.
 */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "actuators/nova-session.h"
#include "base/clock.h"
#include "base/error.h"

#define CALL_OFF_NS    (120 * VG_NS_PER_S)
#define ABORT_AGAIN_NS (5 * VG_NS_PER_S)
#define NAP_NS         (50 * VG_NS_PER_MS)

struct migrate {
    vg_nova *nova;
    const struct vg_nova_migration *migration;
    const struct vg_verb *verb;
    struct vg_migration_progress progress;
    /* the instance's newest migration before this one, or -1 */
    int64_t before_id;
    int64_t began_ns; /* CLOCK_MONOTONIC, the start of the request */
    /* the reason if the request was not answered; nova may still have accepted it */
    GError *unanswered;
    bool seen;          /* nova was seen migrating the instance */
    GError *called_off; /* the reason for the cancellation, or NULL */
    int64_t off_ns;     /* CLOCK_MONOTONIC, the time of the cancellation */
    int64_t again_ns;   /* CLOCK_MONOTONIC, the time of the next abort request */
    GError *silent;     /* the error of the last query if it was not answered, or NULL */
};

static bool
migrate_leaves(const vg_nova *nova)
{
    return nova->leave && atomic_load(nova->leave);
}

/* ---- progress ---- */

/* Finds the running live migration in nova's list. Returns a borrowed object, or NULL if there is
 * none. */
static json_object *
migrate_find(json_object *document)
{
    json_object *list = vg_nova_member(document, "migrations");

    return json_object_is_type(list, json_type_array) && json_object_array_length(list) > 0
               ? json_object_array_get_idx(list, 0)
               : NULL;
}

static int
migrate_query_progress(vg_nova *nova, const char *uuid, json_object **ret, GError **err)
{
    g_autofree char *path = g_strdup_printf("/servers/%s/migrations", uuid);

    return vg_nova_get(nova, path, ret, err);
}

int
vg_nova_progress(vg_nova *nova, const char *uuid, struct vg_migration_progress *ret, GError **err)
{
    g_autoptr(json_object) document = NULL;

    if (migrate_query_progress(nova, uuid, &document, err) < 0)
        return -1;
    json_object *one = migrate_find(document);
    if (!one)
        return 0;
    /* The figures are missing until memory is copied. */
    ret->total_bytes = MAX(vg_nova_number(one, "memory_total_bytes"), 0);
    ret->remaining_bytes = MAX(vg_nova_number(one, "memory_remaining_bytes"), 0);
    ret->processed_bytes = MAX(vg_nova_number(one, "memory_processed_bytes"), 0);
    return 1;
}

int
vg_nova_abort(vg_nova *nova, const char *uuid, GError **err)
{
    g_autoptr(json_object) document = NULL;
    struct vg_nova_exchange exchange;

    if (migrate_query_progress(nova, uuid, &document, err) < 0)
        return -1;
    const int64_t id = vg_nova_number(migrate_find(document), "id");
    if (id < 0)
        return 0;
    g_autofree char *path = g_strdup_printf("/servers/%s/migrations/%" PRId64, uuid, id);
    int status = vg_nova_ask(nova, "DELETE", path, NULL, &exchange, err);
    vg_nova_exchange_clear(&exchange);
    return status < 0 ? -1 : 1;
}

static void
migrate_report(struct migrate *migrate)
{
    struct vg_migration_progress now = {0};
    int64_t took_ns = vg_clock_monotonic_ns() - migrate->began_ns;

    if (vg_nova_progress(migrate->nova, migrate->migration->uuid, &now, NULL) == 1 &&
        now.total_bytes > 0) {
        if (took_ns > 0)
            now.bytes_per_s = (int64_t)((double)now.processed_bytes * 1e9 / (double)took_ns);
        if (now.bytes_per_s > 0)
            now.eta_ns = (int64_t)((double)now.remaining_bytes * 1e9 / (double)now.bytes_per_s);
        migrate->progress = now;
    }
    migrate->progress.elapsed_ns = took_ns;
    if (migrate->verb->tell)
        migrate->verb->tell(migrate->verb->data, &migrate->progress, NULL);
}

/* ---- the outcome ---- */

/* Returns the id of the instance's newest live migration, or -1 if there is none or nova does not
 * report it. The caller frees *ret_status. */
static int64_t
migrate_newest(struct migrate *migrate, char **ret_status)
{
    g_autofree char *path = g_strdup_printf(
        "/os-migrations?instance_uuid=%s&migration_type=live-migration", migrate->migration->uuid);
    g_autoptr(json_object) document = NULL;
    int64_t newest = -1;

    if (vg_nova_get(migrate->nova, path, &document, NULL) < 0)
        return -1;
    json_object *list = vg_nova_member(document, "migrations");
    const size_t n =
        json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    for (size_t i = 0; i < n; i++) {
        json_object *one = json_object_array_get_idx(list, i);
        const int64_t id = vg_nova_number(one, "id");
        if (id <= newest)
            continue;
        newest = id;
        if (ret_status) {
            g_free(*ret_status);
            *ret_status = g_strdup(vg_nova_text(one, "status"));
        }
    }
    return newest;
}

/* Returns the last line that is not empty. */
static char *
migrate_last_line(const char *text)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

    for (guint i = g_strv_length(lines); i > 0; i--) {
        if (*g_strstrip(lines[i - 1]))
            return g_strdup(lines[i - 1]);
    }
    return NULL;
}

/* Returns the id of the request for the newest live migration, or NULL if nova does not report it.
 * The caller frees it. */
static char *
migrate_request(struct migrate *migrate)
{
    g_autofree char *path =
        g_strdup_printf("/servers/%s/os-instance-actions", migrate->migration->uuid);
    g_autoptr(json_object) document = NULL;

    if (vg_nova_get(migrate->nova, path, &document, NULL) < 0)
        return NULL;
    json_object *list = vg_nova_member(document, "instanceActions");
    const size_t n =
        json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    for (size_t i = 0; i < n; i++) {
        json_object *one = json_object_array_get_idx(list, i);
        if (g_strcmp0(vg_nova_text(one, "action"), "live-migration") == 0)
            return g_strdup(vg_nova_text(one, "request_id"));
    }
    return NULL;
}

/* Returns nova's reason for the failure of the action, or NULL. The caller frees it. */
static char *
migrate_reason(struct migrate *migrate)
{
    g_autofree char *request = migrate_request(migrate);
    g_autofree char *path = g_strdup_printf("/servers/%s/os-instance-actions/%s",
                                            migrate->migration->uuid, request ? request : "");
    g_autoptr(json_object) document = NULL;
    char *reason = NULL;

    if (!request || vg_nova_get(migrate->nova, path, &document, NULL) < 0)
        return NULL;
    json_object *action = vg_nova_member(document, "instanceAction");
    json_object *events = vg_nova_member(action, "events");
    const size_t n =
        json_object_is_type(events, json_type_array) ? json_object_array_length(events) : 0;
    for (size_t i = 0; i < n && !reason; i++) {
        json_object *event = json_object_array_get_idx(events, i);
        const char *details = vg_nova_text(event, "details");
        const char *trace = vg_nova_text(event, "traceback");
        if (g_strcmp0(vg_nova_text(event, "result"), "Error") != 0)
            continue;
        reason = details && *details ? migrate_last_line(details)
                                     : migrate_last_line(trace ? trace : "");
    }
    return reason;
}

/* Reports why a migration left the VM on its host. Returns -1. */
static int
migrate_came_to_nothing(struct migrate *migrate, GError **err)
{
    g_autofree char *status = NULL;
    const int64_t id = migrate_newest(migrate, &status);
    g_autofree char *reason = migrate->called_off ? NULL : migrate_reason(migrate);

    if (migrate->called_off) {
        g_propagate_error(err, g_steal_pointer(&migrate->called_off));
        return -1;
    }
    if (id < 0 || id <= migrate->before_id)
        return vg_error(err, VG_E_EXTERNAL, "nova's migration to '%s' failed: %s",
                        migrate->migration->to, reason ? reason : "nova gave no reason");
    if (g_strcmp0(status, "cancelled") == 0)
        return vg_error(err, VG_E_CONFLICT,
                        "another client has aborted nova's migration %" PRId64 " to '%s'", id,
                        migrate->migration->to);
    return vg_error(err, VG_E_EXTERNAL, "nova's migration %" PRId64 " to '%s' ended as '%s': %s",
                    id, migrate->migration->to, status ? status : "?",
                    reason ? reason : "nova gave no reason");
}

static int
migrate_in_error(struct migrate *migrate, const struct vg_nova_server *server, GError **err)
{
    g_autofree char *reason = migrate_reason(migrate);

    return vg_error(err, VG_E_EXTERNAL, "nova has put the instance on host '%s' in state ERROR: %s",
                    server->host,
                    server->fault ? server->fault
                    : reason      ? reason
                                  : "it gave no reason");
}

/* ---- watching ---- */

static void
migrate_call_off(struct migrate *migrate, GError *take_why)
{
    migrate->called_off = take_why;
    migrate->off_ns = vg_clock_monotonic_ns();
    migrate->again_ns = migrate->off_ns;
}

static int
migrate_pause(struct migrate *migrate, GError **err)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + migrate->nova->poll_ns;

    for (int64_t now_ns; (now_ns = vg_clock_monotonic_ns()) < until_ns;) {
        GError *why = NULL;
        if (migrate_leaves(migrate->nova))
            return vg_error(err, VG_E_CONFLICT, "vgpud is stopping");
        if (migrate->called_off) {
            vg_clock_poll(NULL, 0, MIN(until_ns, now_ns + NAP_NS));
            continue;
        }
        if (vg_verb_pause(migrate->verb, MIN(NAP_NS, until_ns - now_ns), "nova's migration", &why) <
            0) {
            migrate_call_off(migrate, why);
            return 0;
        }
    }
    return 0;
}

/* Requests an abort. If nova cannot abort at the moment, the next query repeats the request. */
static void
migrate_request_abort(struct migrate *migrate)
{
    const int64_t now_ns = vg_clock_monotonic_ns();

    if (!migrate->called_off || now_ns < migrate->again_ns)
        return;
    if (vg_nova_abort(migrate->nova, migrate->migration->uuid, NULL) == 1)
        migrate->again_ns = now_ns + ABORT_AGAIN_NS;
}

/* Fails if a cancelled migration does not end in time. */
static int
migrate_time_out(struct migrate *migrate, GError **err)
{
    const int64_t limit_ns = migrate->silent ? migrate->nova->limit_ns : CALL_OFF_NS;

    if (!migrate->called_off || vg_clock_monotonic_ns() < migrate->off_ns + limit_ns)
        return 0;
    if (migrate->silent)
        return vg_error(err, VG_E_TIMEOUT, "%s; cannot ask nova to abort it: %s",
                        migrate->called_off->message, migrate->silent->message);
    return vg_error(err, VG_E_TIMEOUT, "%s; nova has not aborted it within %d s",
                    migrate->called_off->message, (int)(CALL_OFF_NS / VG_NS_PER_S));
}

/* Evaluates nova's state of the instance. Returns 1 if the migration continues, 0 if the VM has
 * arrived, or -1 and *err if it has failed. */
static int
migrate_judge(struct migrate *migrate, const struct vg_nova_server *server, GError **err)
{
    const struct vg_nova_migration *migration = migrate->migration;

    if (!server->known)
        return vg_error(err, VG_E_NOT_FOUND, "nova no longer has this instance");
    if (strcmp(server->status, "ERROR") == 0)
        return migrate_in_error(migrate, server, err);
    if (vg_nova_is_migrating(server)) {
        migrate->seen = true;
        return 1;
    }
    if (strcmp(server->host, migration->to) == 0)
        return 0;
    /* The request may still be on the network. */
    if (migrate->unanswered && !migrate->seen) {
        if (vg_clock_monotonic_ns() < migrate->began_ns + migrate->nova->limit_ns)
            return 1;
        return vg_error(err, VG_E_TIMEOUT,
                        "%s; nova is not moving the instance, but may start the move later",
                        migrate->unanswered->message);
    }
    if (strcmp(server->host, migration->from) != 0)
        return vg_error(err, VG_E_CONFLICT, "nova has moved it to '%s' instead of '%s'",
                        server->host, migration->to);
    return migrate_came_to_nothing(migrate, err);
}

/* Queries nova and returns the result of migrate_judge(). An unanswered query does not end the
 * migration. */
static int
migrate_query(struct migrate *migrate, GError **err)
{
    struct vg_nova_server server;
    g_autoptr(GError) error = NULL;

    g_clear_error(&migrate->silent);
    if (vg_nova_look(migrate->nova, migrate->migration->uuid, &server, &error) < 0) {
        if (vg_nova_may_pass(error)) {
            migrate->silent = g_steal_pointer(&error);
            return 1;
        }
        g_propagate_error(err, g_steal_pointer(&error));
        return -1;
    }
    int status = migrate_judge(migrate, &server, err);
    vg_nova_server_clear(&server);
    return status;
}

static int
migrate_watch(struct migrate *migrate, GError **err)
{
    for (;;) {
        int status = migrate_query(migrate, err);
        if (status <= 0)
            return status;
        if (!migrate->silent)
            migrate_report(migrate);
        migrate_request_abort(migrate);
        if (migrate_time_out(migrate, err) < 0 || migrate_pause(migrate, err) < 0)
            return -1;
    }
}

/* ---- requesting the migration ---- */

static char *
migrate_body(const struct vg_nova_migration *migration)
{
    g_autoptr(json_object) body = json_object_new_object();
    json_object *what = json_object_new_object();

    vg_json_add_string(what, "host", migration->to);
    vg_json_add_string(what, "block_migration", "auto");
    vg_json_add(body, "os-migrateLive", what);
    return vg_json_to_text(body, false);
}

static int
migrate_begin(struct migrate *migrate, GError **err)
{
    g_autofree char *path = g_strdup_printf("/servers/%s/action", migrate->migration->uuid);
    g_autofree char *body = migrate_body(migrate->migration);
    struct vg_nova_exchange exchange;
    g_autoptr(GError) error = NULL;

    /* This id shows later whether the new migration has started. */
    migrate->before_id = migrate_newest(migrate, NULL);
    if (vg_verb_pause(migrate->verb, 0, "nova's migration to start", err) < 0)
        return -1;
    int status = vg_nova_ask(migrate->nova, "POST", path, body, &exchange, &error);
    const bool perhaps = status < 0 && !exchange.unsent && vg_nova_may_pass(error) &&
                         !g_error_matches(error, VG_ERROR, VG_E_BUSY);
    vg_nova_exchange_clear(&exchange);
    migrate->began_ns = vg_clock_monotonic_ns();
    if (status == 0)
        return 0;
    if (perhaps) {
        migrate->unanswered = g_steal_pointer(&error);
        return 0;
    }
    g_propagate_error(err, g_steal_pointer(&error));
    return -1;
}

int
vg_nova_migrate(vg_nova *nova, const struct vg_nova_migration *migration,
                const struct vg_verb *verb, struct vg_migration_progress *ret, GError **err)
{
    struct migrate migrate = {.nova = nova, .migration = migration, .verb = verb, .before_id = -1};
    int status = migrate_begin(&migrate, err) < 0 ? -1 : migrate_watch(&migrate, err);

    if (migrate.began_ns > 0)
        migrate.progress.elapsed_ns = vg_clock_monotonic_ns() - migrate.began_ns;
    migrate.progress.eta_ns = 0;
    if (status == 0)
        migrate.progress.remaining_bytes = 0;
    *ret = migrate.progress;
    g_clear_error(&migrate.unanswered);
    g_clear_error(&migrate.called_off);
    g_clear_error(&migrate.silent);
    return status;
}
