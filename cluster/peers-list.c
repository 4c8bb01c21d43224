/* SPDX-License-Identifier: Apache-2.0
 *
 * Maintains the list of peers: configured ones, and members of the cluster.
 */
#include "config.h"

#include <string.h>

#include "cluster/peers-private.h"

/* Lists the string options, in the order of the structure's members. */
static void
peer_texts(const struct vg_peer_options *options, const char *ret[PEER_TEXTS])
{
    const char *const texts[PEER_TEXTS] = {
        options->name,   options->url,         options->token_file,     options->cert, options->key,
        options->cacert, options->libvirt_uri, options->libvirt_reason, options->host};

    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        ret[i] = texts[i] && *texts[i] ? texts[i] : NULL;
}

static struct peer *
peer_new(const struct vg_peer_options *options, bool member)
{
    struct peer *peer = g_new0(struct peer, 1);
    const char *texts[PEER_TEXTS];
    char **own = peer->options.texts;

    peer_texts(options, texts);
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        own[i] = g_strdup(texts[i]);
    peer->options.is = (struct vg_peer_options){own[0], own[1], own[2], own[3], own[4],
                                                own[5], own[6], own[7], own[8], false};
    peer->refs = 1;
    peer->info = vg_peer_info_new();
    peer->info->name = g_strdup(own[0]);
    peer->info->url = g_strdup(own[1]);
    if (!member)
        peer->info->libvirt_uri = g_strdup(own[6]);
    else
        peer->info->libvirt_reason =
            g_strdup(own[7] ? own[7]
                            : "its vgpud has not answered yet, so its certificate has not shown "
                              "that it is the host in its url");
    return peer;
}

static bool
peer_is(const struct peer *peer, const struct vg_peer_options *options)
{
    const char *texts[PEER_TEXTS];

    peer_texts(options, texts);
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        if (g_strcmp0(texts[i], peer->options.texts[i]) != 0)
            return false;
    }
    return true;
}

static struct peer *
peers_find(const GPtrArray *list, const struct vg_peer_options *options, bool member)
{
    for (guint i = 0; i < list->len; i++) {
        const struct peer *peer = list->pdata[i];
        if (peer->member == member && strcmp(peer->info->name, options->name) == 0)
            return peer_is(peer, options) ? list->pdata[i] : NULL;
    }
    return NULL;
}

/* Adds a peer to a new list. An existing peer is reused. Called under the lock. */
static void
peers_add(const vg_peers *peers, GPtrArray *list, const struct vg_peer_options *options,
          bool member)
{
    struct peer *known = peers_find(peers->list, options, member);

    if (known)
        known->refs++;
    else
        known = peer_new(options, member);
    known->member = member;
    known->gone = options->gone;
    g_ptr_array_add(list, known);
}

/* Replaces the list. Called under the lock. */
static void
peers_replace(vg_peers *peers, GPtrArray *take_list)
{
    g_ptr_array_unref(peers->list);
    peers->list = take_list;
    peers->n_members = 0;
    for (guint i = 0; i < take_list->len; i++)
        peers->n_members += ((const struct peer *)take_list->pdata[i])->member;
    peers_prove(peers);
    pthread_cond_broadcast(&peers->answered);
}

void
vg_peers_set(vg_peers *peers, const struct vg_peers_options *options)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(peers_unref);

    pthread_mutex_lock(&peers->lock);
    peers->refresh_ns = options->refresh_ns;
    peers->deadline_ns = options->deadline_ns;
    g_free(peers->own_host);
    peers->own_host = g_strdup(options->own_host);
    for (size_t i = 0; i < options->n_peers; i++)
        peers_add(peers, list, &options->peers[i], false);
    for (guint i = 0; i < peers->list->len; i++) {
        struct peer *peer = peers->list->pdata[i];
        if (!peer->member)
            continue;
        peer->refs++;
        g_ptr_array_add(list, peer);
    }
    peers_replace(peers, list);
    pthread_mutex_unlock(&peers->lock);
    curl_multi_wakeup(peers->multi);
}

/* Returns whether a member of the cluster is also configured. */
static bool
peers_has_configured(const GPtrArray *list, const struct vg_peer_options *member)
{
    for (guint i = 0; i < list->len; i++) {
        const struct peer *peer = list->pdata[i];
        if (!peer->member && (strcmp(peer->info->name, member->name) == 0 ||
                              strcmp(peer->info->url, member->url) == 0 ||
                              g_strcmp0(peer->info->host, member->name) == 0))
            return true;
    }
    return false;
}

void
vg_peers_set_members(vg_peers *peers, const struct vg_peer_options *members, size_t n_members)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(peers_unref);

    pthread_mutex_lock(&peers->lock);
    for (guint i = 0; i < peers->list->len; i++) {
        struct peer *peer = peers->list->pdata[i];
        if (peer->member)
            continue;
        peer->refs++;
        g_ptr_array_add(list, peer);
    }
    const guint n_configured = list->len;
    peers->n_left_out = 0;
    for (size_t i = 0; i < n_members; i++) {
        if (peers_has_configured(list, &members[i]))
            continue;
        if (list->len < n_configured + VG_PEERS_MAX)
            peers_add(peers, list, &members[i], true);
        else
            peers->n_left_out++;
    }
    peers_replace(peers, list);
    pthread_mutex_unlock(&peers->lock);
    curl_multi_wakeup(peers->multi);
}

size_t
vg_peers_left_out(vg_peers *peers)
{
    VG_LOCK_SCOPE(&peers->lock);
    return peers->n_left_out;
}

size_t
vg_peers_count(vg_peers *peers)
{
    VG_LOCK_SCOPE(&peers->lock);
    return peers->list->len;
}

GPtrArray *
vg_peers_list(vg_peers *peers)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_peer_info_free);

    VG_LOCK_SCOPE(&peers->lock);
    for (guint i = 0; i < peers->list->len; i++) {
        const struct peer *peer = peers->list->pdata[i];
        g_ptr_array_add(list, vg_record_copy(&vg_peer_info_record, peer->info));
    }
    return list;
}
