/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends individual requests to a peer, for callers that wait for the answer.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cluster/peers-private.h"

#define ANSWER_DEPTH 16

#define GRACE_NS (2 * VG_NS_PER_S)

/* The interval of checks for abandoned calls. A request may still be executed for this time after
 * its caller has gone. */
#define CHECK_NS (50 * VG_NS_PER_MS)

/* Called under the lock. */
static void
call_free(struct call *call)
{
    peers_unref(call->peer);
    vg_exchange_free(call->exchange);
    g_free(call);
}

/* Closes the connections of abandoned calls, as the peer need not continue. Called under the
 * lock. */
static void
peers_end_abandoned(vg_peers *peers)
{
    for (guint i = peers->calling->len; i > 0; i--) {
        struct call *call = peers->calling->pdata[i - 1];
        if (!call->abandoned)
            continue;
        g_ptr_array_remove_index_fast(peers->calling, i - 1);
        curl_multi_remove_handle(peers->multi, call->exchange->curl);
        call_free(call);
    }
}

void
peers_begin_calls(vg_peers *peers)
{
    VG_LOCK_SCOPE(&peers->lock);
    peers_end_abandoned(peers);
    while (!g_queue_is_empty(&peers->calls)) {
        struct call *call = g_queue_pop_head(&peers->calls);
        if (call->abandoned) {
            call_free(call);
            continue;
        }
        g_ptr_array_add(peers->calling, call);
        curl_multi_add_handle(peers->multi, call->exchange->curl);
    }
}

void
peers_end_call(vg_peers *peers, struct call *call, CURLcode code)
{
    curl_multi_remove_handle(peers->multi, call->exchange->curl);
    if (code == CURLE_OK)
        peers_note_names(peers, call->peer, call->exchange);
    VG_LOCK_SCOPE(&peers->lock);
    g_ptr_array_remove_fast(peers->calling, call);
    call->code = code;
    call->done = true;
    if (call->abandoned)
        call_free(call);
    else
        pthread_cond_broadcast(&peers->answered);
}

void
peers_drop_calls(vg_peers *peers)
{
    for (guint i = 0; i < peers->calling->len; i++) {
        struct call *call = peers->calling->pdata[i];
        curl_multi_remove_handle(peers->multi, call->exchange->curl);
        call_free(call);
    }
    while (!g_queue_is_empty(&peers->calls))
        call_free(g_queue_pop_head(&peers->calls));
}

/* Finds a peer by name. Configured peers come first, and their names differ from those of peers
 * that only the cluster knows. Called under the lock. */
static struct peer *
peers_by_name(const vg_peers *peers, const char *name)
{
    for (guint i = 0; i < peers->list->len; i++) {
        struct peer *peer = peers->list->pdata[i];
        if (strcmp(peer->info->name, name) == 0)
            return peer;
    }
    return NULL;
}

struct vg_peer_info *
vg_peers_find(vg_peers *peers, const char *host)
{
    VG_LOCK_SCOPE(&peers->lock);
    const struct peer *found = peers_by_name(peers, host);
    const bool is_configured = found && !found->member;
    for (guint i = 0; !is_configured && i < peers->list->len; i++) {
        const struct peer *peer = peers->list->pdata[i];
        if (g_strcmp0(peer->info->host, host) == 0 &&
            (!found || peer->info->host_proof == VG_PROOF_PROVED))
            found = peer;
    }
    return found ? vg_record_copy(&vg_peer_info_record, found->info) : NULL;
}

static struct call *
peers_new_call(vg_peers *peers, const char *name, const struct peers_question *question,
               GError **err)
{
    VG_LOCK_SCOPE(&peers->lock);
    struct peer *peer = peers_by_name(peers, name);
    struct vg_exchange *exchange = NULL;

    if (!peer)
        vg_error(err, VG_E_NOT_FOUND, "there is no peer '%s'", name);
    else
        exchange =
            vg_exchange_new(&peer->options.is, question->path, NULL, question->limit_ns, err);
    if (!exchange)
        return NULL;
    struct call *call = g_new0(struct call, 1);
    vg_exchange_set_method(exchange, question->method, question->body);
    if (question->key)
        vg_exchange_set_key(exchange, question->key);
    if (question->person)
        vg_exchange_set_person(exchange, question->person);
    if (question->forecast)
        vg_exchange_set_forecast(exchange, question->forecast);
    exchange->call = call;
    call->exchange = exchange;
    call->peer = peer;
    peer->refs++;
    g_queue_push_tail(&peers->calls, call);
    return call;
}

/* Waits for the answer. libcurl enforces the limit, but the thread may hang. */
static int
peers_wait_for(vg_peers *peers, struct call *call, const struct peers_question *question,
               GError **err)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + question->limit_ns + GRACE_NS;
    int64_t now_ns;
    bool waits = true;

    VG_LOCK_SCOPE(&peers->lock);
    while (!call->done && !peers->stopping && waits &&
           (now_ns = vg_clock_monotonic_ns()) < until_ns) {
        vg_cond_wait_until(&peers->answered, &peers->lock, MIN(until_ns, now_ns + CHECK_NS));
        waits = vg_asker_waits(question->asker);
    }
    call->abandoned = !call->done;
    if (call->done)
        return 0;
    return vg_error(err, VG_E_TIMEOUT,
                    waits ? "it did not answer in time" : "vgpud no longer waits for its answer");
}

/* Waits for a call, and frees it. */
static int
peers_finish_call(vg_peers *peers, struct call *call, const char *name,
                  const struct peers_question *question, json_object **ret, GError **err)
{
    int status = -1;

    if (peers_wait_for(peers, call, question, err) == 0) {
        const GString *text = call->exchange->body.text;
        status = vg_exchange_check_call(call->exchange, call->code, err);
        if (status == 0 && text->len > 0)
            *ret = vg_json_parse(text->str, text->len, VG_PEERS_ANSWER_MAX, ANSWER_DEPTH, err);
        if (status == 0 && text->len > 0 && !*ret)
            status = -1;
        VG_LOCK_SCOPE(&peers->lock);
        call_free(call);
    } else {
        curl_multi_wakeup(peers->multi);
    }
    if (status < 0)
        g_prefix_error(err, "peer '%s': ", name);
    return status;
}

int
peers_request(vg_peers *peers, const char *name, const struct peers_question *question,
              json_object **ret, GError **err)
{
    struct call *call = peers_new_call(peers, name, question, err);

    if (!call)
        return -1;
    curl_multi_wakeup(peers->multi);
    return peers_finish_call(peers, call, name, question, ret, err);
}

static void
peers_reply_free(void *data)
{
    struct peers_reply *reply = data;

    g_free(reply->name);
    json_object_put(reply->document);
    g_clear_error(&reply->error);
    g_free(reply);
}

GPtrArray *
peers_request_all(vg_peers *peers, const GPtrArray *names, const struct peers_question *question,
                  int64_t until_ns)
{
    GPtrArray *replies = g_ptr_array_new_with_free_func(peers_reply_free);
    struct call *calls[VG_PEERS_PARALLEL];

    for (guint begin = 0; begin < names->len; begin += VG_PEERS_PARALLEL) {
        const guint n = MIN(names->len - begin, VG_PEERS_PARALLEL);
        const bool late = vg_clock_monotonic_ns() >= until_ns;
        for (guint i = 0; i < n; i++) {
            struct peers_reply *reply = g_new0(struct peers_reply, 1);
            reply->name = g_strdup(names->pdata[begin + i]);
            g_ptr_array_add(replies, reply);
            if (late)
                vg_error(&reply->error, VG_E_TIMEOUT,
                         "there was no time to query it because other peers were slow");
            calls[i] = late ? NULL : peers_new_call(peers, reply->name, question, &reply->error);
        }
        curl_multi_wakeup(peers->multi);
        for (guint i = 0; i < n; i++) {
            struct peers_reply *reply = replies->pdata[begin + i];
            if (calls[i])
                peers_finish_call(peers, calls[i], reply->name, question, &reply->document,
                                  &reply->error);
        }
    }
    return replies;
}

void
vg_peers_stop(vg_peers *peers)
{
    if (peers)
        vg_thread_join(peers->thread);
}
