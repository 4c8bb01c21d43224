/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/sse.h"

#include <inttypes.h>
#include <string.h>

#include <microhttpd.h>

#include "api/identity.h"
#include "api/route.h"
#include "base/clock.h"
#include "base/json.h"

#define POLL_ITEMS_MAX 1000
#define POLL_WAIT_MAX  60
/* the maximum number of unwanted events that a stream skips at a time */
#define SKIP_MAX 4096
#define RETRY_S  5

static const char stream_type[] = "text/event-stream";

/* Counts the streams and polls of a user. Called with api->lock. */
static int64_t
wait_count_of(const vg_api *api, const char *user)
{
    int64_t n = 0;

    for (GList *link = api->waits.head; link; link = link->next)
        n += strcmp(((const struct vg_wait *)link->data)->user, user) == 0 ? 1 : 0;
    return n;
}

/* Starts a wait. Returns NULL and sets an answer if there are too many in total or for this
 * user. */
static struct vg_wait *
wait_begin(struct vg_request *request, uint64_t at, const char *types)
{
    vg_api *api = request->api;
    const char *user = request->identity.name;

    VG_LOCK_SCOPE(&api->lock);
    if (wait_count_of(api, user) >= VG_API_LIMIT(api, client_streams)) {
        vg_answer_problem(request, VG_E_BUSY,
                          "'%s' has %" PRId64
                          " event streams and polls, which is the limit for each user",
                          user, VG_API_LIMIT(api, client_streams));
        request->answer.retry_after_s = RETRY_S;
        return NULL;
    }
    if (api->stopping || g_queue_get_length(&api->waits) >= VG_API_LIMIT(api, streams)) {
        vg_answer_problem(request, VG_E_BUSY,
                          "there are %" PRId64 " event streams and polls, which is the limit",
                          VG_API_LIMIT(api, streams));
        request->answer.retry_after_s = RETRY_S;
        return NULL;
    }
    struct vg_wait *wait = g_new0(struct vg_wait, 1);
    wait->api = api;
    wait->at = at;
    wait->types = g_strdup(types);
    wait->token = g_strdup(request->token);
    wait->subject = g_strdup(request->subject);
    wait->role = request->role;
    wait->user = g_strdup(user);
    wait->out = g_string_new(NULL);
    wait->deadline_ns = vg_clock_monotonic_ns() + api->heartbeat_ns;
    wait->link.data = wait;
    g_queue_push_tail_link(&api->waits, &wait->link);
    __atomic_store_n(&api->stats.streams, g_queue_get_length(&api->waits), __ATOMIC_RELAXED);
    return wait;
}

void
vg_wait_free(void *data)
{
    struct vg_wait *wait = data;

    if (!wait)
        return;
    vg_api *api = wait->api;
    VG_LOCK_SCOPE(&api->lock);
    g_queue_unlink(&api->waits, &wait->link);
    __atomic_store_n(&api->stats.streams, g_queue_get_length(&api->waits), __ATOMIC_RELAXED);
    g_string_free(wait->out, TRUE);
    g_free(wait->types);
    g_free(wait->token);
    g_free(wait->subject);
    g_free(wait->user);
    g_free(wait);
}

/* Resumes the connection. Called with api->lock. */
static void
resume(struct vg_wait *wait)
{
    if (!wait->suspended)
        return;
    wait->suspended = false;
    MHD_resume_connection(wait->connection);
}

void
vg_waits_wake(void *data)
{
    vg_api *api = data;

    VG_LOCK_SCOPE(&api->lock);
    for (GList *link = api->waits.head; link; link = link->next)
        resume(link->data);
}

int64_t
vg_waits_tick(vg_api *api, int64_t now_ns)
{
    int64_t next = INT64_MAX;

    for (GList *link = api->waits.head; link; link = link->next) {
        struct vg_wait *wait = link->data;
        if (!wait->suspended)
            continue;
        if (now_ns >= wait->deadline_ns)
            resume(wait);
        else
            next = MIN(next, wait->deadline_ns);
    }
    return next;
}

/* Suspends the connection. Called with api->lock on the connection's thread. */
static void
suspend(struct vg_wait *wait)
{
    wait->suspended = true;
    MHD_suspend_connection(wait->connection);
    /* This wait's deadline may be the next one. */
    pthread_cond_signal(&wait->api->wake);
}

static void
append_gap(struct vg_wait *wait, const char *boot_id, const char *reason, int64_t lost)
{
    g_autoptr(json_object) object = json_object_new_object();

    vg_json_add_string(object, "reason", reason);
    if (lost >= 0)
        vg_json_add_int64(object, "lost", lost);
    else
        vg_json_add(object, "lost", NULL);
    g_autofree char *text = vg_json_to_text(object, false);
    g_string_append_printf(wait->out, "id: %s-%" PRIu64 "\nevent: gap\ndata: %s\n", boot_id,
                           wait->at, text);
}

/* Adds the next wanted event, after a note if earlier events were lost. Returns false if there is
 * none. */
static bool
append_event(struct vg_wait *wait)
{
    struct vg_logged_event event;
    uint64_t lost;

    for (int i = 0; i < SKIP_MAX; i++) {
        if (!vg_event_log_next(wait->api->events, wait->at, &event, &lost))
            return wait->out->len > 0;
        g_autofree char *data = event.data;
        if (lost > 0) {
            wait->at = event.seq - 1;
            append_gap(wait, wait->api->boot_id, "overrun", (int64_t)lost);
            g_string_append_c(wait->out, '\n');
        }
        wait->at = event.seq;
        if (wait->types && !vg_parse_in_list(wait->types, event.type))
            continue;
        g_string_append_printf(wait->out, "id: %s-%" PRIu64 "\nevent: %s\ndata: %s\n\n",
                               wait->api->boot_id, event.seq, event.type, data);
        return true;
    }
    return wait->out->len > 0;
}

ssize_t
vg_stream_read(struct vg_wait *wait, char *buffer, size_t max)
{
    vg_api *api = wait->api;

    if (!vg_identity_holds(api->backend, wait->token, wait->subject, wait->role))
        return -1;
    VG_LOCK_SCOPE(&api->lock);
    if (wait->sent == wait->out->len) {
        int64_t now = vg_clock_monotonic_ns();
        g_string_truncate(wait->out, 0);
        wait->sent = 0;
        if (api->stopping)
            return -1;
        if (!append_event(wait)) {
            if (now < wait->deadline_ns) {
                suspend(wait);
                return 0;
            }
            g_string_append(wait->out, ": alive\n\n");
        }
        wait->deadline_ns = now + api->heartbeat_ns;
    }
    size_t n = MIN(max, wait->out->len - wait->sent);
    memcpy(buffer, wait->out->str + wait->sent, n);
    wait->sent += n;
    return (ssize_t)n;
}

bool
vg_poll_suspend(struct vg_request *request)
{
    vg_api *api = request->api;
    struct vg_wait *wait = request->wait;

    VG_LOCK_SCOPE(&api->lock);
    if (api->stopping)
        return false;
    /* An event may have arrived before the connection was suspended. Its wake-up then had no
     * effect. */
    if (vg_event_log_newest(api->events) > wait->at) {
        wait->suspended = true;
        MHD_suspend_connection(wait->connection);
        resume(wait);
        return true;
    }
    suspend(wait);
    return true;
}

bool
vg_poll_answer(struct vg_request *request, bool force)
{
    struct vg_wait *wait = request->wait;
    g_autoptr(json_object) items = json_object_new_array();
    struct vg_logged_event event;
    uint64_t lost;

    while (json_object_array_length(items) < POLL_ITEMS_MAX &&
           vg_event_log_next(request->api->events, wait->at, &event, &lost)) {
        g_autofree char *data = event.data;
        wait->lost += lost;
        wait->at = event.seq;
        if (wait->types && !vg_parse_in_list(wait->types, event.type))
            continue;
        json_object *item = json_tokener_parse(data);
        if (item)
            json_object_array_add(items, item);
    }
    if (json_object_array_length(items) == 0 && wait->lost == 0 && !force &&
        vg_clock_monotonic_ns() < wait->deadline_ns)
        return false;
    json_object *object = json_object_new_object();
    vg_json_add_string(object, "boot_id", request->api->boot_id);
    vg_json_add(object, "items", g_steal_pointer(&items));
    vg_json_add_int64(object, "next", (int64_t)wait->at);
    vg_json_add_int64(object, "lost", (int64_t)wait->lost);
    vg_json_add_bool(object, "reset", false);
    vg_answer_json(request, 200, object);
    return true;
}

static void
answer_reset(struct vg_request *request, uint64_t newest)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "boot_id", request->api->boot_id);
    vg_json_add(object, "items", json_object_new_array());
    vg_json_add_int64(object, "next", (int64_t)newest);
    vg_json_add_int64(object, "lost", 0);
    vg_json_add_bool(object, "reset", true);
    vg_answer_json(request, 200, object);
}

static void
begin_poll(struct vg_request *request, uint64_t after, int64_t wait_s, const char *types)
{
    uint64_t newest = vg_event_log_newest(request->api->events);
    bool head = strcmp(request->method, "HEAD") == 0;

    if (after > newest) {
        answer_reset(request, newest);
        return;
    }
    request->wait = wait_begin(request, after, types);
    if (!request->wait)
        return;
    request->wait->deadline_ns = vg_clock_monotonic_ns() + wait_s * VG_NS_PER_S;
    vg_poll_answer(request, wait_s == 0 || head);
}

static void
begin_stream(struct vg_request *request, const char *types)
{
    vg_api *api = request->api;
    uint64_t newest = vg_event_log_newest(api->events);
    uint64_t at = newest;
    const char *gap = NULL;
    const char *boot_id = api->boot_id;

    if (strcmp(request->method, "HEAD") == 0) {
        vg_answer_fixed(request, stream_type, "", 0);
        return;
    }
    if (request->last_event_id) {
        enum vg_event_id kind = vg_parse_event_id(request->last_event_id, boot_id, &at);
        if (kind == VG_EVENT_ID_RESTART)
            gap = "restart";
        else if (kind == VG_EVENT_ID_INVALID || at > newest)
            gap = "invalid";
        /* A client of another run of vgpud receives all events of this run. */
        if (gap)
            at = kind == VG_EVENT_ID_RESTART ? 0 : newest;
    }
    request->wait = wait_begin(request, at, types);
    if (!request->wait)
        return;
    /* These first bytes confirm the connection immediately. */
    g_string_append(request->wait->out, ": connected\n\n");
    if (gap) {
        append_gap(request->wait, boot_id, gap, -1);
        g_string_append_c(request->wait->out, '\n');
    }
    request->streaming = true;
    request->answer.status = 200;
    request->answer.type = stream_type;
}

static bool
requests_stored(const struct vg_query *query)
{
    return vg_query_get(query, "since") || vg_query_get(query, "until") ||
           vg_query_get(query, "from") || vg_query_get(query, "limit");
}

void
vg_handle_events(struct vg_request *request)
{
    const char *types = vg_query_get(&request->query, "types");
    int64_t after = -1;
    int64_t wait_s = 0;
    GError *err = NULL;

    if (vg_query_int(&request->query, "after", 0, VG_JSON_INT_MAX, &after, &err) < 0 ||
        vg_query_int(&request->query, "wait", 0, POLL_WAIT_MAX, &wait_s, &err) < 0 ||
        (types && vg_parse_types(types, &err) < 0)) {
        vg_answer_error(request, err);
        return;
    }
    if (requests_stored(&request->query)) {
        if (after >= 0 || vg_query_get(&request->query, "wait"))
            vg_answer_problem(
                request, VG_E_INVALID,
                "after, wait: these cannot be combined with since, until, from or limit");
        else
            vg_handle_past_events(request);
        return;
    }
    if (after < 0 && vg_query_get(&request->query, "wait"))
        vg_answer_problem(request, VG_E_INVALID, "wait: it needs `after`");
    else if (after >= 0)
        begin_poll(request, (uint64_t)after, wait_s, types);
    else
        begin_stream(request, types);
}
