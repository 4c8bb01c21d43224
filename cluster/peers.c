/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cluster/peers.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "cluster/peers-private.h"

#define VG_LOG_TAG "peers"

/* The interval of reading a peer's version and clock. They are also read after each failure. */
#define VERSION_NS (60 * VG_NS_PER_S)

#define POLL_MAX_NS VG_NS_PER_S

/* The maximum number of concurrent requests to peers that missed their last deadline, so that
 * responsive peers do not wait for them. */
#define SILENT_PARALLEL (VG_PEERS_PARALLEL / 2)

/* With n members in the cluster, each is refreshed at most every n times this interval, since all
 * hosts query each other. Plans and requests may query a member earlier. */
#define MEMBER_NS (90 * VG_NS_PER_MS)

#define VERSION_TEXT_MAX 65536
#define VERSION_DEPTH    8
#define WORD_MAX         255

/* ---- an attempt ---- */

/* Returns the time until a peer's next query. Called under the lock. */
static int64_t
peers_jittered(const vg_peers *peers, const struct peer *peer)
{
    const int64_t pause_ns = peer->member
                                 ? MAX(peers->refresh_ns, (int64_t)peers->n_members * MEMBER_NS)
                                 : peers->refresh_ns;

    return (int64_t)((double)pause_ns * g_rand_double_range(peers->random, 0.8, 1.2));
}

static void
peer_note_hosts(const struct peer *peer, const GPtrArray *hosts)
{
    struct vg_peer_info *info = peer->info;

    info->vms = 0;
    for (guint i = 0; i < hosts->len; i++)
        info->vms += ((const struct vg_snap_host *)hosts->pdata[i])->vms->len;
    if (!peer->told_host && hosts->len == 1) {
        g_free(info->host);
        info->host = g_strdup(((const struct vg_snap_host *)hosts->pdata[0])->name);
    }
}

/* Sets the libvirt URI after a member of the cluster has answered: it has shown a certificate for
 * the host in its URL, which the URI also uses. Called under the lock. */
static void
peer_note_uri(struct peer *peer)
{
    struct vg_peer_info *info = peer->info;

    if (!peer->member || info->libvirt_uri || !peer->options.is.libvirt_uri)
        return;
    info->libvirt_uri = g_strdup(peer->options.is.libvirt_uri);
    g_clear_pointer(&info->libvirt_reason, g_free);
}

static void
peers_end_attempt(vg_peers *peers, struct peer *peer, GError *take_err)
{
    struct copy *copy = g_steal_pointer(&peer->fresh);
    struct vg_peer_info *info = peer->info;
    enum vg_peer_state state = take_err ? VG_PEER_UNREACHABLE : VG_PEER_REACHABLE;

    VG_LOCK_SCOPE(&peers->lock);
    if (state != info->state || (take_err && g_strcmp0(take_err->message, info->reason) != 0)) {
        if (take_err)
            vg_log_turn(&peer->turns, VG_LOG_WARN, VG_LOG_TAG,
                        "a peer cannot be used name=%s url=\"%s\" reason=\"%s\"", info->name,
                        info->url, take_err->message);
        else
            vg_log_turn(&peer->turns, VG_LOG_NOTICE, VG_LOG_TAG,
                        "a peer answers name=%s url=\"%s\" version=%s host=\"%s\"", info->name,
                        info->url, info->version ? info->version : "",
                        info->host ? info->host : "");
    }
    vg_log_turns_settle(&peer->turns, VG_LOG_TAG);
    info->state = state;
    info->asked_ns = vg_clock_realtime_ns();
    g_free(info->reason);
    info->reason = take_err ? g_strdup(take_err->message) : NULL;
    peers->n_silent -= peer->silent;
    peer->silent = g_error_matches(take_err, VG_ERROR, VG_E_TIMEOUT);
    if (take_err) {
        peer->version_ns = 0;
        g_error_free(take_err);
    } else {
        info->answered_ns = info->asked_ns;
        peer->answered_ns = vg_clock_monotonic_ns();
    }
    if (copy) {
        peers_copy_release(peer->copy);
        peer->copy = copy;
        peer_note_hosts(peer, copy->snapshot->hosts);
    }
    if (state == VG_PEER_REACHABLE) {
        peer_note_uri(peer);
        peers_prove(peers);
    }
    peer->busy = false;
    peer->attempts++;
    peer->due_ns = vg_clock_monotonic_ns() + (peer->again ? 0 : peers_jittered(peers, peer));
    peer->again = false;
    pthread_cond_broadcast(&peers->answered);
    g_ptr_array_remove_fast(peers->active, peer);
    peers_unref(peer);
}

static void
peers_send(vg_peers *peers, struct peer *peer, const char *path, const char *etag)
{
    GError *err = NULL;

    peer->sent_ns = vg_clock_realtime_ns();
    peer->exchange = vg_exchange_new(&peer->options.is, path, etag,
                                     peer->deadline_ns - vg_clock_monotonic_ns(), &err);
    if (!peer->exchange) {
        peers_end_attempt(peers, peer, err);
        return;
    }
    peer->exchange->data = peer;
    if (!peer->names)
        vg_exchange_set_fresh(peer->exchange);
    curl_multi_add_handle(peers->multi, peer->exchange->curl);
}

static void
peers_send_stage(vg_peers *peers, struct peer *peer, enum peer_stage stage)
{
    static const char *const paths[] = {
        [PEER_VERSION] = "/",
        [PEER_SNAPSHOT] = "/v1/snapshot",
        [PEER_APPROVALS] = "/v1/nova/approvals",
    };

    peer->stage = stage;
    peers_send(peers, peer, paths[stage], stage == PEER_SNAPSHOT && peer->copy ? peer->etag : NULL);
}

static void
peers_begin_attempt(vg_peers *peers, struct peer *peer)
{
    const int64_t now_ns = vg_clock_monotonic_ns();
    const bool is_old = peer->version_ns == 0 || now_ns - peer->version_ns >= VERSION_NS;

    peers_send_stage(peers, peer, is_old ? PEER_VERSION : PEER_SNAPSHOT);
}

static int
peers_read_string(const struct vg_json_node *root, const char *name, enum vg_json_need need,
                  const char **ret, GError **err)
{
    struct vg_json_node node;
    int found = vg_json_member(root, name, need, &node, err);

    return found == 1 ? vg_json_string(&node, WORD_MAX, ret, err) : found;
}

/* Reads {"name": "vgpud", "version", "host", "migration_tls", "time_ns"}. */
static int
peers_read_version(vg_peers *peers, struct peer *peer, const GString *body, GError **err)
{
    g_autoptr(json_object) document =
        vg_json_parse(body->str, body->len, VERSION_TEXT_MAX, VERSION_DEPTH, err);
    struct vg_json_node root = vg_json_root(document), time;
    const char *name = NULL, *version = NULL, *host = NULL, *certs = NULL;
    int64_t time_ns = 0;
    int has_time = -1;
    const int64_t received_ns = vg_clock_realtime_ns();

    if (!document || peers_read_string(&root, "name", VG_JSON_REQUIRED, &name, err) < 0 ||
        peers_read_string(&root, "version", VG_JSON_REQUIRED, &version, err) < 0 ||
        peers_read_string(&root, "host", VG_JSON_OPTIONAL, &host, err) < 0 ||
        peers_read_string(&root, "migration_tls", VG_JSON_OPTIONAL, &certs, err) < 0)
        return -1;
    has_time = vg_json_member(&root, "time_ns", VG_JSON_OPTIONAL, &time, err);
    if (has_time < 0 ||
        (has_time == 1 && vg_json_int64(&time, 0, VG_JSON_INT_MAX, &time_ns, err) < 0))
        return -1;
    if (strcmp(name, "vgpud") != 0)
        return vg_error(err, VG_E_EXTERNAL, "it identifies itself as '%s'", name);
    VG_LOCK_SCOPE(&peers->lock);
    struct vg_peer_info *info = peer->info;
    g_free(info->version);
    info->version = g_strdup(version);
    peer->told_host = host != NULL;
    if (host) {
        g_free(info->host);
        info->host = g_strdup(host);
    }
    info->migration_tls = vg_tls_certs_of(certs);
    info->clock_known = has_time == 1;
    info->round_trip_ns = MAX(received_ns - peer->sent_ns, 0);
    info->clock_difference_ns =
        has_time == 1 ? time_ns - (peer->sent_ns + info->round_trip_ns / 2) : 0;
    peer->version_ns = vg_clock_monotonic_ns();
    return 0;
}

/* Checks that a snapshot contains no other host than the peer's. */
static int
peers_check_hosts(const vg_snapshot *snapshot, const char *host, GError **err)
{
    const GPtrArray *hosts = snapshot->hosts;

    if (hosts->len > 1)
        return vg_error(err, VG_E_EXTERNAL,
                        "it contains %u hosts, but a peer may report only its own", hosts->len);
    if (hosts->len == 0 || !host)
        return 0;
    const char *name = ((const struct vg_snap_host *)hosts->pdata[0])->name;
    return strcmp(name, host) == 0
               ? 0
               : vg_error(err, VG_E_EXTERNAL, "it is from host '%s', but the peer is host '%s'",
                          name, host);
}

static struct copy *
peers_read_snapshot(const struct peer *peer, const GString *body, GError **err)
{
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_from_json(body->str, body->len, err);

    if (!snapshot ||
        peers_check_hosts(snapshot, peer->told_host ? peer->info->host : NULL, err) < 0) {
        g_prefix_error(err, "its snapshot cannot be used: ");
        return NULL;
    }
    struct copy *copy = g_atomic_rc_box_new0(struct copy);
    copy->snapshot = g_steal_pointer(&snapshot);
    return copy;
}

/* Stores the planned moves of a peer. body is NULL if the peer has not answered. */
static void
peers_take_approvals(vg_peers *peers, struct peer *peer, const GString *body)
{
    GPtrArray *approvals = body ? peers_read_approvals(body) : NULL;

    VG_LOCK_SCOPE(&peers->lock);
    g_clear_pointer(&peer->approvals, g_ptr_array_unref);
    peer->approvals = approvals;
}

/* Processes a finished exchange. */
static void
peers_take(vg_peers *peers, struct vg_exchange *take_exchange, CURLcode code)
{
    struct peer *peer = take_exchange->data;
    const enum peer_stage stage = peer->stage;
    GError *err = NULL;

    curl_multi_remove_handle(peers->multi, take_exchange->curl);
    peer->exchange = NULL;
    if (code == CURLE_OK)
        peers_note_names(peers, peer, take_exchange);
    int status = vg_exchange_check(take_exchange, code, &err);
    if (stage == PEER_APPROVALS) {
        /* A peer that does not answer this has no planned moves. Its snapshot is still valid. */
        g_clear_error(&err);
        peers_take_approvals(peers, peer, status == 0 ? take_exchange->body.text : NULL);
    } else if (status == 0 && stage == PEER_VERSION) {
        status = peers_read_version(peers, peer, take_exchange->body.text, &err);
        if (status < 0)
            g_prefix_error(&err, "the server there is not a vgpud: ");
    } else if (status == 0 && (take_exchange->status != 304 || !peer->copy)) {
        peer->fresh = peers_read_snapshot(peer, take_exchange->body.text, &err);
        if (peer->fresh) {
            g_free(peer->etag);
            peer->etag = g_steal_pointer(&take_exchange->etag);
        }
    }
    vg_exchange_free(take_exchange);
    if (err || stage == PEER_APPROVALS)
        peers_end_attempt(peers, peer, err);
    else
        peers_send_stage(peers, peer, stage + 1);
}

/* ---- the thread ---- */

/* Returns a reference to the due peer that is next in turn, or NULL. *next_ns is reduced to the
 * time when the next peer is due. */
static struct peer *
peers_next_due(vg_peers *peers, int64_t now_ns, int64_t *next_ns)
{
    struct peer *found = NULL;

    VG_LOCK_SCOPE(&peers->lock);
    if (peers->stopping || peers->active->len >= VG_PEERS_PARALLEL)
        return NULL;
    for (guint i = 0; i < peers->list->len; i++) {
        struct peer *peer = peers->list->pdata[i];
        if (peer->busy || (peer->silent && peers->n_silent >= SILENT_PARALLEL))
            continue;
        if (peer->due_ns > now_ns)
            *next_ns = MIN(*next_ns, peer->due_ns);
        else if (!found || peer->silent < found->silent ||
                 (peer->silent == found->silent && peer->due_ns < found->due_ns))
            found = peer;
    }
    if (!found)
        return NULL;
    found->busy = true;
    found->refs++;
    found->deadline_ns = now_ns + peers->deadline_ns;
    g_ptr_array_add(peers->active, found);
    peers->n_silent += found->silent;
    return found;
}

static void
peers_run(vg_thread *self, void *arg)
{
    vg_peers *peers = arg;

    while (!vg_thread_stopping(self)) {
        const int64_t now_ns = vg_clock_monotonic_ns();
        int64_t next_ns = now_ns + POLL_MAX_NS;
        int left = 0;
        struct peer *peer;
        struct CURLMsg *message;

        vg_thread_beat(self);
        while ((peer = peers_next_due(peers, now_ns, &next_ns)))
            peers_begin_attempt(peers, peer);
        peers_begin_calls(peers);
        curl_multi_perform(peers->multi, &left);
        bool took = false;
        while ((message = curl_multi_info_read(peers->multi, &left))) {
            struct vg_exchange *exchange = NULL;
            if (message->msg != CURLMSG_DONE)
                continue;
            const CURLcode code = message->data.result;
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &exchange);
            if (exchange->call)
                peers_end_call(peers, exchange->call, code);
            else
                peers_take(peers, exchange, code);
            vg_thread_beat(self);
            took = true;
        }
        if (!took)
            curl_multi_poll(peers->multi, NULL, 0,
                            (int)((MAX(next_ns - vg_clock_monotonic_ns(), 0) + VG_NS_PER_MS - 1) /
                                  VG_NS_PER_MS),
                            NULL);
    }
}

static void
peers_wake(void *arg)
{
    vg_peers *peers = arg;

    pthread_mutex_lock(&peers->lock);
    peers->stopping = true;
    pthread_cond_broadcast(&peers->answered);
    pthread_mutex_unlock(&peers->lock);
    curl_multi_wakeup(peers->multi);
}

/* ---- the public side ---- */

vg_peers *
vg_peers_new(const struct vg_peers_options *options, GError **err)
{
    vg_peers *peers = g_new0(vg_peers, 1);

    curl_global_init(CURL_GLOBAL_DEFAULT);
    pthread_mutex_init(&peers->lock, NULL);
    vg_cond_init(&peers->answered);
    peers->list = g_ptr_array_new_with_free_func(peers_unref);
    peers->active = g_ptr_array_new();
    peers->calling = g_ptr_array_new();
    g_queue_init(&peers->calls);
    peers->random = g_rand_new();
    peers->multi = curl_multi_init();
    if (!peers->multi)
        vg_bug("libcurl cannot start");
    /* Connections stay open between two attempts, one per peer. */
    curl_multi_setopt(peers->multi, CURLMOPT_MAXCONNECTS, (long)(VG_PEERS_MAX + VG_PEERS_PARALLEL));
    vg_peers_set(peers, options);
    peers->thread = vg_thread_new("peers", peers_run, peers_wake, peers, err);
    if (!peers->thread)
        g_clear_pointer(&peers, vg_peers_free);
    return peers;
}

void
vg_peers_free(vg_peers *peers)
{
    if (!peers)
        return;
    vg_thread_free(peers->thread);
    for (guint i = 0; i < peers->active->len; i++) {
        struct peer *peer = peers->active->pdata[i];
        curl_multi_remove_handle(peers->multi, peer->exchange->curl);
        vg_exchange_free(peer->exchange);
        peers_unref(peer);
    }
    peers_drop_calls(peers);
    g_ptr_array_unref(peers->calling);
    g_ptr_array_unref(peers->active);
    g_ptr_array_unref(peers->list);
    curl_multi_cleanup(peers->multi);
    g_rand_free(peers->random);
    g_free(peers->own_host);
    pthread_cond_destroy(&peers->answered);
    pthread_mutex_destroy(&peers->lock);
    g_free(peers);
}

static void
peer_copy_free(void *data)
{
    struct vg_peer_copy *copy = data;

    peers_copy_release(copy->held);
    g_free(copy);
}

GPtrArray *
vg_peers_copies(vg_peers *peers)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(peer_copy_free);

    VG_LOCK_SCOPE(&peers->lock);
    for (guint i = 0; i < peers->list->len; i++) {
        const struct peer *peer = peers->list->pdata[i];
        if (!peer->copy || peer->info->host_proof == VG_PROOF_DISPUTED)
            continue;
        struct vg_peer_copy *copy = g_new0(struct vg_peer_copy, 1);
        copy->held = g_atomic_rc_box_acquire(peer->copy);
        copy->snapshot = peer->copy->snapshot;
        copy->at_ns = peer->info->answered_ns;
        g_ptr_array_add(list, copy);
    }
    return list;
}

const vg_thread *
vg_peers_thread(const vg_peers *peers)
{
    return peers->thread;
}
