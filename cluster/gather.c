/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries all peers concurrently, for callers that wait for the answers.
 */
#include "config.h"

#include "base/clock.h"
#include "cluster/peers-private.h"

static void
gather_free_view(void *data)
{
    struct vg_peer_view *view = data;

    vg_peer_info_free(view->info);
    peers_copy_release(view->held);
    g_clear_pointer(&view->approvals, g_ptr_array_unref);
    g_free(view);
}

/* A peer from which a caller needs an answer. */
struct wanted {
    struct peer *peer; /* a reference */
    uint64_t attempts; /* the number of attempts after which the answer is new enough */
    bool awaited;
    bool new;     /* the snapshot is new enough, so no query is needed */
    bool checked; /* the answer was checked, and is not enough */
};

/* Returns whether an older snapshot of a peer is acceptable. */
static bool
gather_is_usable(const struct peer *peer, int64_t age_ns)
{
    return peer->member && !peer->gone && peer->copy && age_ns <= VG_PEERS_OLD_NS;
}

static struct vg_peer_view *
gather_view_of(const vg_peers *peers, const struct wanted *wanted, bool old)
{
    struct vg_peer_view *view = g_new0(struct vg_peer_view, 1);
    const struct peer *peer = wanted->peer;

    view->info = vg_record_copy(&vg_peer_info_record, peer->info);
    const int64_t age_ns = vg_clock_monotonic_ns() - peer->answered_ns;
    if (!wanted->new && peer->attempts < wanted->attempts &&
        view->info->state != VG_PEER_UNREACHABLE) {
        view->info->state = VG_PEER_UNREACHABLE;
        g_free(view->info->reason);
        view->info->reason = g_strdup_printf("it has not answered within %.3g s",
                                             (double)peers->deadline_ns / (double)VG_NS_PER_S);
    }
    const bool answered = view->info->state == VG_PEER_REACHABLE && peer->copy;
    if (answered || (old && gather_is_usable(peer, age_ns))) {
        view->age_ns = answered && !wanted->new ? 0 : MAX(age_ns, 1);
        view->held = g_atomic_rc_box_acquire(peer->copy);
        view->snapshot = peer->copy->snapshot;
        view->approvals = peer->approvals ? g_ptr_array_ref(peer->approvals) : NULL;
    }
    return view;
}

/* Returns whether the answer of one peer is enough. */
static bool
gather_has_enough(const GArray *wanted, vg_peers_enough *enough, const void *data)
{
    for (guint i = 0; enough && i < wanted->len; i++) {
        struct wanted *one = &g_array_index(wanted, struct wanted, i);
        const struct peer *peer = one->peer;
        if (one->checked || peer->attempts < one->attempts)
            continue;
        one->checked = true;
        if (peer->info->state == VG_PEER_REACHABLE && peer->copy && !peer->info->host_reason &&
            enough(peer->copy->snapshot, data))
            return true;
    }
    return false;
}

/* Returns whether a peer's snapshot is new enough for a plan. */
static bool
gather_is_new(const vg_peers *peers, const struct peer *peer, int64_t now_ns)
{
    return peer->member && !peer->gone && peer->info->state == VG_PEER_REACHABLE && peer->copy &&
           now_ns - peer->answered_ns <= 2 * peers->refresh_ns;
}

static bool
gather_continues(const vg_peers *peers, const GArray *wanted)
{
    for (guint i = 0; i < wanted->len; i++) {
        const struct wanted *one = &g_array_index(wanted, struct wanted, i);
        if (one->awaited && !one->peer->silent && one->peer->attempts < one->attempts)
            return !peers->stopping;
    }
    return false;
}

static GPtrArray *
gather_all(vg_peers *peers, vg_peers_enough *enough, const void *data, bool for_plan)
{
    g_autoptr(GArray) all = g_array_new(FALSE, TRUE, sizeof(struct wanted));
    GPtrArray *views = g_ptr_array_new_with_free_func(gather_free_view);
    const int64_t now_ns = vg_clock_monotonic_ns();

    pthread_mutex_lock(&peers->lock);
    for (guint i = 0; i < peers->list->len; i++) {
        struct peer *peer = peers->list->pdata[i];
        /* The answer to a running attempt may be older than this call. */
        const bool is_new = for_plan && gather_is_new(peers, peer, now_ns);
        struct wanted wanted = {
            .peer = peer,
            .attempts = peer->attempts + (peer->busy ? 2 : 1),
            .awaited = !peer->silent,
            .new = is_new,
        };
        peer->refs++;
        if (wanted.new) {
            wanted.awaited = false;
        } else {
            peer->again = peer->busy;
            peer->due_ns = MIN(peer->due_ns, now_ns);
        }
        g_array_append_val(all, wanted);
    }
    curl_multi_wakeup(peers->multi);
    while (!gather_has_enough(all, enough, data) && gather_continues(peers, all) &&
           vg_cond_wait_until(&peers->answered, &peers->lock, now_ns + peers->deadline_ns)) {
    }
    for (guint i = 0; i < all->len; i++) {
        const struct wanted *wanted = &g_array_index(all, struct wanted, i);
        g_ptr_array_add(views, gather_view_of(peers, wanted, for_plan));
        peers_unref(wanted->peer);
    }
    pthread_mutex_unlock(&peers->lock);
    return views;
}

GPtrArray *
vg_peers_gather(vg_peers *peers, vg_peers_enough *enough, const void *data)
{
    return gather_all(peers, enough, data, false);
}

GPtrArray *
vg_peers_gather_for_plan(vg_peers *peers)
{
    return gather_all(peers, NULL, NULL, true);
}
