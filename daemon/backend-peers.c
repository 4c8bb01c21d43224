/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports the state of the peers, and which of them may speak for their hosts.
 */
#include "config.h"

#include "daemon/backend-private.h"

/* The maximum number of peers named in a status. */
#define PEERS_NAMED_MAX 5

/* A list of peers' names with a limit. */
struct peers_named {
    GString *names;
    unsigned n;
};

static void
peers_name(struct peers_named *named, const struct vg_peer_info *info)
{
    if (named->n < PEERS_NAMED_MAX)
        g_string_append_printf(named->names, "%s%s", named->n > 0 ? ", " : "", info->name);
    else if (named->n == PEERS_NAMED_MAX)
        g_string_append(named->names, ", ...");
    named->n++;
}

struct vg_part_status *
backend_peers_status(vg_daemon_backend *backend)
{
    g_autoptr(GPtrArray) peers = vg_peers_list(backend->parts.peers);
    struct peers_named away = {g_string_new(NULL), 0}, doubtful = {g_string_new(NULL), 0};
    g_autoptr(GString) reason = g_string_new(NULL);
    bool is_starting = false;

    for (guint i = 0; i < peers->len; i++) {
        const struct vg_peer_info *info = peers->pdata[i];
        is_starting |= info->state == VG_PEER_UNKNOWN;
        if (info->state == VG_PEER_UNREACHABLE)
            peers_name(&away, info);
        if (info->host_reason)
            peers_name(&doubtful, info);
    }
    if (away.n > 0)
        g_string_printf(reason, "%u of %u peers cannot be used: %s", away.n, peers->len,
                        away.names->str);
    if (doubtful.n > 0)
        g_string_append_printf(reason,
                               "%sthe host names of %u of %u peers are not verified, so no VM is "
                               "moved to or from them: %s; `vgpuctl peer list` shows why",
                               away.n > 0 ? "; " : "", doubtful.n, peers->len, doubtful.names->str);
    g_string_free(away.names, TRUE);
    g_string_free(doubtful.names, TRUE);
    if (reason->len == 0)
        return vg_part_status_new("peers", is_starting ? "starting" : "ok", true, NULL);
    return vg_part_status_new("peers", "degraded", true,
                              g_string_free(g_steal_pointer(&reason), FALSE));
}
