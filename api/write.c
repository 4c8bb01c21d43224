/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <inttypes.h>

#include "api/route.h"
#include "api/server.h"
#include "base/clock.h"

#define MINUTE_NS (60 * VG_NS_PER_S)
#define UIDS_MAX  1024

/* What a user may still write: fills up over a minute. */
struct vg_write_budget {
    double left;
    int64_t at_ns;
};

static gboolean
is_full(void *uid, void *value, void *data)
{
    const struct vg_write_budget *budget = value;
    const int64_t *now = data;

    (void)uid;
    return *now - budget->at_ns >= MINUTE_NS;
}

/* Takes one write; else how many seconds to wait, which is at least 1. */
static int
take_write(vg_api *api, uid_t uid)
{
    double per_min = (double)VG_API_LIMIT(api, writes_per_min);
    int64_t now = vg_clock_monotonic_ns();

    VG_LOCK_SCOPE(&api->lock);
    struct vg_write_budget *budget = g_hash_table_lookup(api->writes, GUINT_TO_POINTER(uid));
    if (!budget) {
        if (g_hash_table_size(api->writes) >= UIDS_MAX)
            g_hash_table_foreach_remove(api->writes, is_full, &now);
        if (g_hash_table_size(api->writes) >= UIDS_MAX)
            return 60;
        budget = g_new0(struct vg_write_budget, 1);
        budget->left = per_min;
        g_hash_table_insert(api->writes, GUINT_TO_POINTER(uid), budget);
    } else {
        budget->left += (double)(now - budget->at_ns) / (double)MINUTE_NS * per_min;
        budget->left = MIN(budget->left, per_min);
    }
    budget->at_ns = now;
    if (budget->left < 1)
        return (int)MIN((1 - budget->left) * 60 / MAX(per_min, 1) + 1, 60);
    budget->left -= 1;
    return 0;
}

bool
vg_write_allowed(struct vg_request *request, int fd)
{
    vg_api *api = request->api;
    GError *err = NULL;

    if (vg_peer_read(fd, &request->peer, &err) < 0) {
        vg_answer_error(request, err);
        return false;
    }
    if (!vg_peer_may_write(fd, &request->peer, vg_socket_gid(api->socket))) {
        vg_answer_problem(request, VG_E_DENIED,
                          "user %u may only read: plans are made for root, the daemon's user and "
                          "members of the socket's group",
                          (unsigned)request->peer.uid);
    } else {
        int wait_s = take_write(api, request->peer.uid);
        if (wait_s == 0)
            return true;
        vg_answer_problem(request, VG_PROBLEM_TOO_MANY,
                          "user %u has written %" PRId64 " times in the last minute",
                          (unsigned)request->peer.uid, VG_API_LIMIT(api, writes_per_min));
        request->answer.retry_after_s = wait_s;
    }
    __atomic_add_fetch(&api->stats.writes_refused, 1, __ATOMIC_RELAXED);
    return false;
}
