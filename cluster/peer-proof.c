/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which host each peer may represent. The name that it reports is verified by this host's
 * configuration or by the peer's certificate.
 */
#include "config.h"

#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "cluster/certificate-names.h"
#include "cluster/peers-private.h"

#define VG_LOG_TAG "peers"

void
peers_note_names(vg_peers *peers, struct peer *peer, const struct vg_exchange *exchange)
{
    char **names = vg_exchange_names(exchange);

    if (!names)
        return;
    VG_LOCK_SCOPE(&peers->lock);
    g_strfreev(peer->names);
    peer->names = names;
    peers_prove(peers);
}

/* Returns whether a peer's host name is verified. For a member of the cluster, both etcd and the
 * certificate must contain it, as any client that may write to etcd can give a host another
 * name. */
static bool
proof_is_given(const struct peer *peer)
{
    const char *host = peer->info->host;

    if (peer->member)
        return strcmp(host, peer->info->name) == 0 && vg_certificate_is_of(peer->names, host);
    return strcmp(host, peer->info->name) == 0 || g_strcmp0(host, peer->options.is.host) == 0 ||
           vg_certificate_is_of(peer->names, host);
}

/* Describes why the name of a peer's host is not verified. */
static char *
proof_explain(const struct peer *peer)
{
    const char *host = peer->info->host;
    g_autofree char *names = peer->names ? g_strjoinv("', '", peer->names) : g_strdup("");

    if (peer->member && strcmp(host, peer->info->name) != 0)
        return g_strdup_printf("it reports the host name '%s', but the cluster knows it as '%s'",
                               host, peer->info->name);
    return g_strdup_printf(
        "it reports the host name '%s', which its certificate does not contain (it has '%s')%s",
        host, names, peer->member ? "" : "; if the host name is right, set host= in [peer NAME]");
}

/* The peers that have verified a name. */
struct proof_claim {
    const struct peer *first; /* a configured peer, if there is one */
    const struct peer *second;
};

/* Adds a peer to those with a verified name of its host. Configured peers take precedence over
 * peers that only the cluster knows, which may be the same vgpud. */
static void
proof_add(GHashTable *claims, const struct peer *peer)
{
    struct proof_claim *claim = g_hash_table_lookup(claims, peer->info->host);

    if (!claim) {
        claim = g_new0(struct proof_claim, 1);
        claim->first = peer;
        g_hash_table_insert(claims, peer->info->host, claim);
    } else if (!peer->member || claim->first->member) {
        claim->second = peer;
    }
}

/* Decides whether a peer may use its name. given is true if the name is verified. */
static void
proof_settle(const vg_peers *peers, struct peer *peer, bool given, const struct proof_claim *claim)
{
    struct vg_peer_info *info = peer->info;
    g_autofree char *before = g_steal_pointer(&info->host_reason);

    info->host_proof = VG_PROOF_DISPUTED;
    if (g_strcmp0(info->host, peers->own_host) == 0)
        info->host_reason = g_strdup_printf("this host itself has the name '%s'", info->host);
    else if (given && claim->second && (!peer->member || claim->first->member))
        info->host_reason = g_strdup_printf(
            "the configuration or certificates of peers '%s' and '%s' both prove the name '%s'",
            claim->first->info->name, claim->second->info->name, info->host);
    else if (claim && claim->first != peer)
        info->host_reason = g_strdup_printf(
            "it reports the host name '%s', but '%s' proves that this is its own host", info->host,
            claim->first->info->name);
    else
        info->host_proof = given ? VG_PROOF_PROVED : VG_PROOF_UNPROVED;
    if (info->host_proof == VG_PROOF_UNPROVED)
        info->host_reason = proof_explain(peer);
    if (info->host_reason && g_strcmp0(info->host_reason, before) != 0)
        vg_log_warn("the host name of a peer is not verified name=%s url=\"%s\" reason=\"%s\"",
                    info->name, info->url, info->host_reason);
}

void
peers_prove(vg_peers *peers)
{
    g_autoptr(GHashTable) claims = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, g_free);
    g_autofree bool *given = g_new0(bool, peers->list->len + 1);

    for (guint i = 0; i < peers->list->len; i++) {
        const struct peer *peer = peers->list->pdata[i];
        given[i] = peer->info->host && proof_is_given(peer);
        if (given[i])
            proof_add(claims, peer);
    }
    for (guint i = 0; i < peers->list->len; i++) {
        struct peer *peer = peers->list->pdata[i];
        if (peer->info->host)
            proof_settle(peers, peer, given[i], g_hash_table_lookup(claims, peer->info->host));
    }
}

int
vg_peers_check_host(const struct vg_peer_info *info, GError **err)
{
    return !info->host_reason
               ? 0
               : vg_error(err, VG_E_REFUSED, "no VM is moved to or from peer '%s': %s", info->name,
                          info->host_reason);
}
