/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cluster/peer-moves.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cluster/peers-private.h"

#define PEER_MOVES_SOCKETS_MAX 4096 /* for all proxies of a host */

/* ---- reservations ---- */

static char *
peer_moves_reservation_body(const struct vg_migration *move, int64_t lease_s, bool dry_run)
{
    g_autoptr(vg_reservation) wanted = vg_reservation_new();

    wanted->move_id = g_strdup(move->id);
    wanted->vm = g_strdup(move->vm);
    wanted->uuid = g_strdup(move->uuid);
    wanted->from = g_strdup(move->from);
    wanted->lease_s = lease_s;
    wanted->dry_run = dry_run;
    for (guint i = 0; i < move->devices->len; i++)
        g_ptr_array_add(wanted->devices,
                        vg_record_copy(&vg_move_device_record, move->devices->pdata[i]));
    g_autoptr(json_object) body = vg_record_write(&vg_reservation_record, wanted);
    return vg_json_to_text(body, false);
}

static char *
peer_moves_reservation_path(const char *reservation)
{
    g_autofree char *escaped = g_uri_escape_string(reservation, NULL, FALSE);

    return g_strconcat("/v1/reservations/", escaped, NULL);
}

/* Checks that the reservation has the requested devices. */
static int
peer_moves_check_devices(const struct vg_migration *move, const struct vg_reservation *given,
                         GError **err)
{
    if (given->devices->len != move->devices->len)
        return vg_error(err, VG_E_EXTERNAL, "the answer has %u devices instead of %u",
                        given->devices->len, move->devices->len);
    for (guint i = 0; i < given->devices->len; i++) {
        const struct vg_move_device *wanted = move->devices->pdata[i];
        const struct vg_move_device *there = given->devices->pdata[i];
        if (!there->target_xml || g_strcmp0(there->alias, wanted->alias) != 0)
            return vg_error(err, VG_E_EXTERNAL,
                            "the answer's device %u is not the requested "
                            "device",
                            i);
        if (g_strcmp0(there->target_gpu, wanted->target_gpu) != 0)
            return vg_error(err, VG_E_CONFLICT,
                            "'%s' has an older vgpud, which chooses the GPU itself instead of "
                            "using %s as planned; make a new plan",
                            move->to, wanted->target_gpu ? wanted->target_gpu : "any");
    }
    return 0;
}

/* Reads a peer's answer. An invalid answer is not the caller's error. */
static void *
peer_moves_read(const char *peer, const struct vg_record_type *type, json_object *answer,
                GError **err)
{
    const struct vg_json_node root = vg_json_root(answer);
    g_autoptr(GError) bad = NULL;
    void *record = vg_record_read(type, &root, &bad);

    if (!record)
        vg_error(err, VG_E_EXTERNAL, "peer '%s': its answer cannot be used: %s", peer,
                 bad->message);
    return record;
}

/* Requests a reservation, or checks whether it would be possible. */
static struct vg_reservation *
peer_moves_reserve(vg_peers *peers, const char *peer, const char *body, int64_t limit_ns,
                   GError **err)
{
    const struct peers_question question = {
        "POST", "/v1/reservations", body, limit_ns, NULL, NULL, NULL, NULL};
    g_autoptr(json_object) answer = NULL;

    if (peers_request(peers, peer, &question, &answer, err) < 0)
        return NULL;
    return peer_moves_read(peer, &vg_reservation_record, answer, err);
}

struct vg_reservation *
vg_peer_reserve(vg_peers *peers, const char *peer, const struct vg_migration *move, int64_t lease_s,
                int64_t limit_ns, GError **err)
{
    g_autofree char *body = peer_moves_reservation_body(move, lease_s, false);
    g_autoptr(vg_reservation) given = peer_moves_reserve(peers, peer, body, limit_ns, err);

    if (given && !given->id) {
        vg_error(err, VG_E_EXTERNAL, "the answer has no id");
        return NULL;
    }
    if (given && peer_moves_check_devices(move, given, err) < 0) {
        /* Release the unusable reservation now instead of waiting until it expires. */
        (void)!vg_peer_release(peers, peer, given->id, limit_ns, NULL);
        return NULL;
    }
    return g_steal_pointer(&given);
}

int
vg_peer_check_gpus(vg_peers *peers, const char *peer, const struct vg_migration *move,
                   int64_t limit_ns, GError **err)
{
    g_autofree char *body = peer_moves_reservation_body(move, VG_LEASE_MIN_S, true);
    g_autoptr(vg_reservation) given = peer_moves_reserve(peers, peer, body, limit_ns, err);

    return given ? peer_moves_check_devices(move, given, err) : -1;
}

int
vg_peer_renew(vg_peers *peers, const char *peer, const char *reservation, int64_t lease_s,
              int64_t limit_ns, GError **err)
{
    g_autoptr(json_object) body = json_object_new_object();
    g_autoptr(json_object) answer = NULL;
    g_autofree char *path = peer_moves_reservation_path(reservation);

    vg_json_add_int64(body, "lease_s", lease_s);
    g_autofree char *text = vg_json_to_text(body, false);
    return peers_request(
        peers, peer, &(struct peers_question){"POST", path, text, limit_ns, NULL, NULL, NULL, NULL},
        &answer, err);
}

int
vg_peer_release(vg_peers *peers, const char *peer, const char *reservation, int64_t limit_ns,
                GError **err)
{
    g_autofree char *path = peer_moves_reservation_path(reservation);
    g_autoptr(json_object) answer = NULL;
    g_autoptr(GError) error = NULL;

    if (peers_request(
            peers, peer,
            &(struct peers_question){"DELETE", path, NULL, limit_ns, NULL, NULL, NULL, NULL},
            &answer, &error) == 0 ||
        g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND))
        return 0;
    g_propagate_error(err, g_steal_pointer(&error));
    return -1;
}

/* ---- proxies ---- */

/* An older vgpud omits some members. */
static void
peer_moves_fill_in(char **text)
{
    if (!*text)
        *text = g_strdup("");
}

GPtrArray *
vg_peer_list_proxies(vg_peers *peers, const char *peer, int64_t limit_ns, GError **err)
{
    g_autoptr(json_object) answer = NULL;
    struct vg_json_node items;

    if (peers_request(
            peers, peer,
            &(struct peers_question){"GET", "/v1/proxies", NULL, limit_ns, NULL, NULL, NULL, NULL},
            &answer, err) < 0)
        return NULL;
    const struct vg_json_node root = vg_json_root(answer);
    g_autoptr(GError) bad = NULL;
    g_autoptr(GPtrArray) sockets = g_ptr_array_new_with_free_func(vg_proxy_socket_free);
    bool ok = answer && vg_json_member(&root, "items", VG_JSON_REQUIRED, &items, &bad) >= 0 &&
              vg_json_array(&items, PEER_MOVES_SOCKETS_MAX, &bad) >= 0;
    for (size_t i = 0; ok && i < vg_json_length(&items); i++) {
        const struct vg_json_node item = vg_json_item(&items, i);
        struct vg_proxy_socket *socket = vg_record_read(&vg_proxy_socket_record, &item, &bad);
        ok = socket != NULL;
        if (!ok)
            break;
        peer_moves_fill_in(&socket->proxy);
        peer_moves_fill_in(&socket->vm);
        peer_moves_fill_in(&socket->address);
        peer_moves_fill_in(&socket->gpu);
        peer_moves_fill_in(&socket->gpu_name);
        g_ptr_array_add(sockets, socket);
    }
    if (ok)
        return g_steal_pointer(&sockets);
    vg_error(err, VG_E_EXTERNAL, "peer '%s': its answer cannot be used: %s", peer,
             bad ? bad->message : "it is empty");
    return NULL;
}

static const char peer_moves_rooms[] = "/v1/proxies/reservations";

int
vg_peer_reserve_room(vg_peers *peers, const char *peer, const struct vg_proxy_room *room,
                     int64_t limit_ns, GError **err)
{
    g_autoptr(json_object) body = vg_record_write(&vg_proxy_room_record, room);
    g_autofree char *text = vg_json_to_text(body, false);
    g_autoptr(json_object) answer = NULL;

    return peers_request(
        peers, peer,
        &(struct peers_question){"POST", peer_moves_rooms, text, limit_ns, NULL, NULL, NULL, NULL},
        &answer, err);
}

int
vg_peer_release_room(vg_peers *peers, const char *peer, const char *id, int64_t limit_ns,
                     GError **err)
{
    g_autofree char *escaped = g_uri_escape_string(id, NULL, FALSE);
    g_autofree char *path = g_strconcat(peer_moves_rooms, "/", escaped, NULL);
    g_autoptr(json_object) answer = NULL;

    return peers_request(
        peers, peer,
        &(struct peers_question){"DELETE", path, NULL, limit_ns, NULL, NULL, NULL, NULL}, &answer,
        err);
}

/* ---- paths ---- */

GPtrArray *
vg_peer_look_at_paths(vg_peers *peers, const char *peer, const GPtrArray *paths, int64_t limit_ns,
                      GError **err)
{
    g_autoptr(GPtrArray) some = g_ptr_array_new();
    g_autoptr(json_object) answer = NULL;

    for (guint i = 0; i < MIN(paths->len, VG_PATHS_MAX); i++)
        g_ptr_array_add(some, paths->pdata[i]);
    const struct vg_paths_question question = {some};
    g_autoptr(json_object) body = vg_record_write(&vg_paths_question_record, &question);
    g_autofree char *text = vg_json_to_text(body, false);
    if (peers_request(
            peers, peer,
            &(struct peers_question){"POST", "/v1/paths", text, limit_ns, NULL, NULL, NULL, NULL},
            &answer, err) < 0)
        return NULL;
    struct vg_paths_answer *given = peer_moves_read(peer, &vg_paths_answer_record, answer, err);
    if (!given)
        return NULL;
    g_autoptr(GPtrArray) items = g_ptr_array_new_with_free_func(vg_path_seen_free);
    for (guint i = 0; i < given->items->len; i++)
        g_ptr_array_add(items, vg_record_copy(&vg_path_seen_record, given->items->pdata[i]));
    vg_record_free(&vg_paths_answer_record, given);
    for (guint i = 0; i < some->len; i++) {
        const struct vg_path_seen *seen = i < items->len ? items->pdata[i] : NULL;
        if (seen && strcmp(seen->path, some->pdata[i]) == 0)
            continue;
        vg_error(err, VG_E_EXTERNAL, "the answer's item %u is not about '%s'", i,
                 (const char *)some->pdata[i]);
        return NULL;
    }
    return g_steal_pointer(&items);
}

/* ---- moves ---- */

/* Creates the request for the vgpud that runs the move. It must not forward the request again. */
static char *
peer_moves_request_body(const struct vg_peer_order *order)
{
    struct vg_migration_request *copy =
        vg_record_copy(&vg_migration_request_record, order->request);

    copy->forward = false;
    g_clear_pointer(&copy->plan_id, g_free);
    g_clear_pointer(&copy->plan_hash, g_free);
    g_free(copy->on_behalf_of);
    copy->on_behalf_of = g_strdup(order->on_behalf_of);
    if (order->to) {
        g_free(copy->to);
        copy->to = g_strdup(order->to);
    }
    g_autoptr(json_object) object = vg_record_write(&vg_migration_request_record, copy);
    vg_record_free(&vg_migration_request_record, copy);
    return vg_json_to_text(object, false);
}

static struct vg_migration *
peer_moves_request(vg_peers *peers, const char *peer, const struct peers_question *question,
                   GError **err)
{
    g_autoptr(json_object) answer = NULL;

    if (peers_request(peers, peer, question, &answer, err) < 0)
        return NULL;
    return peer_moves_read(peer, &vg_migration_record, answer, err);
}

struct vg_migration *
vg_peer_start_move(vg_peers *peers, const char *peer, const struct vg_peer_order *order,
                   int64_t limit_ns, GError **err)
{
    g_autofree char *body = peer_moves_request_body(order);
    g_autofree char *forecast = order->forecast ? vg_move_forecast_to_text(order->forecast) : NULL;
    const struct peers_question question = {
        .method = "POST",
        .path = "/v1/migrations",
        .body = body,
        .limit_ns = limit_ns,
        .asker = &order->request->asker,
        .key = order->request->key,
        .forecast = forecast,
    };

    return peer_moves_request(peers, peer, &question, err);
}

json_object *
vg_peer_check_move(vg_peers *peers, const char *peer, const struct vg_peer_order *order,
                   int64_t limit_ns, GError **err)
{
    g_autofree char *body = peer_moves_request_body(order);
    const struct peers_question question = {
        "POST", "/v1/migrations", body, limit_ns, &order->request->asker, order->request->key, NULL,
        NULL};
    json_object *answer = NULL;

    if (peers_request(peers, peer, &question, &answer, err) < 0)
        return NULL;
    return answer;
}

struct vg_migration *
vg_peer_read_move(vg_peers *peers, const char *peer, const char *id, int64_t limit_ns, GError **err)
{
    g_autofree char *escaped = g_uri_escape_string(id, NULL, FALSE);
    g_autofree char *path = g_strconcat("/v1/migrations/", escaped, NULL);
    const struct peers_question question = {"GET", path, NULL, limit_ns, NULL, NULL, NULL, NULL};

    return peer_moves_request(peers, peer, &question, err);
}

/* Returns the text of a member of an object, or NULL. */
static const char *
peer_moves_text(json_object *object, const char *name)
{
    json_object *value = NULL;

    return json_object_is_type(object, json_type_object) &&
                   json_object_object_get_ex(object, name, &value) &&
                   json_object_is_type(value, json_type_string)
               ? json_object_get_string(value)
               : NULL;
}

GPtrArray *
vg_peer_moves_to(vg_peers *peers, const char *peer, const char *to, unsigned most, int64_t limit_ns,
                 GError **err)
{
    g_autofree char *path = g_strdup_printf("/v1/migrations?limit=%u", most);
    const struct peers_question question = {"GET", path, NULL, limit_ns, NULL, NULL, NULL, NULL};
    g_autoptr(json_object) document = NULL;
    json_object *items = NULL;

    if (peers_request(peers, peer, &question, &document, err) < 0)
        return NULL;
    GPtrArray *moves = g_ptr_array_new_with_free_func(vg_migration_free);
    if (!json_object_is_type(document, json_type_object) ||
        !json_object_object_get_ex(document, "items", &items) ||
        !json_object_is_type(items, json_type_array))
        return moves;
    for (size_t i = 0; i < MIN(json_object_array_length(items), most); i++) {
        json_object *item = json_object_array_get_idx(items, i);
        const char *id = peer_moves_text(item, "id");
        if (!id || g_strcmp0(peer_moves_text(item, "to"), to) != 0 ||
            g_strcmp0(peer_moves_text(item, "state"),
                      vg_migration_state_names[VG_MIGRATION_DONE]) != 0)
            continue;
        struct vg_migration *move = vg_peer_read_move(peers, peer, id, limit_ns, NULL);
        if (move)
            g_ptr_array_add(moves, move);
    }
    return moves;
}

struct vg_migration *
vg_peer_change_move(vg_peers *peers, const char *peer, const char *id, const char *verb,
                    const char *person, int64_t limit_ns, GError **err)
{
    g_autofree char *escaped = g_uri_escape_string(id, NULL, FALSE);
    g_autofree char *path = g_strconcat("/v1/migrations/", escaped, "/", verb, NULL);
    const struct peers_question question = {"POST", path, "{}", limit_ns, NULL, NULL, person, NULL};

    return peer_moves_request(peers, peer, &question, err);
}

/* ---- hosts that are to be emptied ---- */

static char *
peer_moves_drain_path(const char *host)
{
    g_autofree char *escaped = g_uri_escape_string(host, NULL, FALSE);

    return g_strconcat("/v1/hosts/", escaped, "/drain", NULL);
}

vg_drain *
vg_peer_drain(vg_peers *peers, const char *peer, const struct vg_peer_drain_order *order,
              int64_t limit_ns, GError **err)
{
    const struct vg_drain_request request = {order->dry_run, (char *)order->on_behalf_of};
    g_autoptr(json_object) object = vg_record_write(&vg_drain_request_record, &request);
    g_autofree char *text = vg_json_to_text(object, false);
    g_autofree char *path = peer_moves_drain_path(order->host);
    const char *body = strcmp(order->method, "POST") == 0 ? text : NULL;
    const struct peers_question question = {order->method, path, body, limit_ns,
                                            NULL,          NULL, NULL, NULL};
    g_autoptr(json_object) answer = NULL;

    if (peers_request(peers, peer, &question, &answer, err) < 0)
        return NULL;
    return peer_moves_read(peer, &vg_drain_record, answer, err);
}

int
vg_peer_end_drain(vg_peers *peers, const char *peer, const char *host, const char *person,
                  int64_t limit_ns, GError **err)
{
    g_autofree char *path = peer_moves_drain_path(host);
    const struct peers_question question = {"DELETE", path, NULL,   limit_ns,
                                            NULL,     NULL, person, NULL};
    g_autoptr(json_object) answer = NULL;

    return peers_request(peers, peer, &question, &answer, err);
}

/* ---- samples ---- */

/* A sample covers one second. Larger figures from a peer are limited, so that no sum of samples
 * overflows. */
#define SAMPLE_NS_MAX (3600 * VG_NS_PER_S)
#define VCPUS_MAX     1024

/* Reads a member, limited to the range of JSON numbers. */
static int64_t
peer_moves_number(json_object *row, const char *name)
{
    json_object *value = NULL;

    if (!json_object_is_type(row, json_type_object) ||
        !json_object_object_get_ex(row, name, &value))
        return 0;
    return CLAMP(json_object_get_int64(value), 0, VG_JSON_INT_MAX);
}

GArray *
vg_peer_samples(vg_peers *peers, const char *peer, const char *uuid, int64_t since_s,
                int64_t until_s, int64_t limit_ns, GError **err)
{
    g_autofree char *path = g_strdup_printf(
        "/v1/vms/%s/samples?step=1s&since=%" PRId64 "&until=%" PRId64, uuid, since_s, until_s);
    g_autoptr(json_object) document = NULL;
    GArray *samples = g_array_new(FALSE, FALSE, sizeof(struct vg_peer_sample));
    json_object *items = NULL;

    if (peers_request(peers, peer,
                      &(struct peers_question){"GET", path, NULL, limit_ns, NULL, NULL, NULL, NULL},
                      &document, err) < 0) {
        g_array_unref(samples);
        return NULL;
    }
    if (!json_object_is_type(document, json_type_object) ||
        !json_object_object_get_ex(document, "items", &items) ||
        !json_object_is_type(items, json_type_array))
        return samples;
    for (size_t i = 0; i < json_object_array_length(items); i++) {
        json_object *row = json_object_array_get_idx(items, i);
        struct vg_peer_sample sample = {
            .begin_ns = peer_moves_number(row, "begin_ns"),
            .end_ns = peer_moves_number(row, "end_ns"),
            .preempt_ns = peer_moves_number(row, "preempt_ns"),
            .wake_wait_ns = peer_moves_number(row, "wake_wait_ns"),
        };
        sample.end_ns = CLAMP(sample.end_ns, sample.begin_ns, sample.begin_ns + SAMPLE_NS_MAX);
        sample.preempt_ns = MIN(sample.preempt_ns, SAMPLE_NS_MAX * VCPUS_MAX);
        sample.wake_wait_ns = MIN(sample.wake_wait_ns, SAMPLE_NS_MAX * VCPUS_MAX);
        g_array_append_val(samples, sample);
    }
    return samples;
}
