/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "engine/proxy-track.h"

#include <string.h>

#include "engine/engine.h"

/* A track is a proxy as in a snapshot, with a history of as many windows as a profile. */

static void
proxy_track_free(void *proxy)
{
    vg_record_free(&vg_snap_proxy_record, proxy);
}

GPtrArray *
vg_proxy_tracks_new(void)
{
    return g_ptr_array_new_with_free_func(proxy_track_free);
}

static void
proxy_track_set(char **member, const char *text)
{
    if (g_strcmp0(*member, text) == 0)
        return;
    g_free(*member);
    *member = *text ? g_strdup(text) : NULL;
}

static struct vg_snap_proxy *
proxy_track_need(GPtrArray *tracks, const struct vg_proxy_use *use)
{
    for (guint i = 0; i < tracks->len; i++) {
        struct vg_snap_proxy *proxy = tracks->pdata[i];
        if (strcmp(proxy->at, use->proxy) == 0)
            return proxy;
    }
    if (tracks->len >= VG_SNAPSHOT_PROXIES_MAX)
        return NULL;
    struct vg_snap_proxy *proxy = vg_record_new(&vg_snap_proxy_record);
    proxy->at = g_strdup(use->proxy);
    g_ptr_array_add(tracks, proxy);
    return proxy;
}

static struct vg_snap_proxy_socket *
proxy_track_need_socket(struct vg_snap_proxy *proxy, const struct vg_proxy_use *use)
{
    for (guint i = 0; i < proxy->sockets->len; i++) {
        struct vg_snap_proxy_socket *socket = proxy->sockets->pdata[i];
        if (strcmp(socket->socket, use->socket) == 0)
            return socket;
    }
    struct vg_snap_proxy_socket *socket = vg_record_new(&vg_snap_proxy_socket_record);
    const double nothing = 0;
    socket->socket = g_strdup(use->socket);
    /* The history covers the whole time since the proxy appeared, of which nothing is known. */
    for (guint i = 0; i < proxy->known->len; i++) {
        g_array_append_val(socket->run, nothing);
        g_array_append_val(socket->lacked, nothing);
    }
    g_ptr_array_add(proxy->sockets, socket);
    return socket;
}

static void
proxy_track_push(GArray *history, const void *value)
{
    if (history->len >= VG_SNAPSHOT_PROFILE_MAX)
        g_array_remove_index(history, 0);
    g_array_append_vals(history, value, 1);
}

static void
proxy_track_feed_socket(struct vg_snap_proxy *proxy, const struct vg_proxy_use *use)
{
    struct vg_snap_proxy_socket *socket = proxy_track_need_socket(proxy, use);

    proxy_track_set(&socket->address, use->address);
    proxy_track_set(&socket->vm, use->vm);
    socket->weight = use->weight;
    socket->configured_weight = use->configured_weight;
    socket->memory_bytes = use->memory_bytes;
    socket->used_bytes = use->used_bytes;
    socket->reserved_bytes = use->reserved_bytes;
    socket->clients = use->clients;
    g_array_index(socket->run, double, socket->run->len - 1) = use->run;
    g_array_index(socket->lacked, double, socket->lacked->len - 1) = use->lacked;
}

/* Adds a window's figures of a proxy. Either all figures are known, or none. */
static void
proxy_track_feed(struct vg_snap_proxy *proxy, const struct vg_window *window)
{
    g_autoptr(GHashTable) there = g_hash_table_new(g_str_hash, g_str_equal);
    const struct vg_proxy_use *first = NULL;
    const double nothing = 0;
    int32_t known = 0;

    for (guint i = 0; i < window->proxies->len; i++) {
        const struct vg_proxy_use *use = &g_array_index(window->proxies, struct vg_proxy_use, i);
        if (strcmp(use->proxy, proxy->at) != 0)
            continue;
        known = (first ? known : 1) && !use->problem[0] && use->is_known;
        first = first ? first : use;
        if (!use->problem[0])
            g_hash_table_add(there, (char *)use->socket);
    }
    proxy_track_set(&proxy->problem,
                    first ? first->problem : "the newest window contains no report about it");
    if (known) {
        proxy_track_set(&proxy->gpu, first->gpu);
        proxy->gpus = first->gpus;
        proxy->memory_bytes = first->gpu_memory_bytes;
    }
    proxy->window_ns = window->end_ns - window->begin_ns;
    proxy_track_push(proxy->known, &known);
    for (guint i = proxy->sockets->len; i > 0; i--) {
        struct vg_snap_proxy_socket *socket = proxy->sockets->pdata[i - 1];
        proxy_track_push(socket->run, &nothing);
        proxy_track_push(socket->lacked, &nothing);
        if (known && !g_hash_table_contains(there, socket->socket))
            vg_record_free(&vg_snap_proxy_socket_record,
                           g_ptr_array_remove_index(proxy->sockets, i - 1));
    }
    for (guint i = 0; known && i < window->proxies->len; i++) {
        const struct vg_proxy_use *use = &g_array_index(window->proxies, struct vg_proxy_use, i);
        if (strcmp(use->proxy, proxy->at) == 0 && proxy->sockets->len < VG_PROXY_SOCKETS_MAX)
            proxy_track_feed_socket(proxy, use);
    }
}

/* Returns whether nothing is known about a proxy any more. */
static bool
proxy_track_is_gone(const struct vg_snap_proxy *proxy)
{
    for (guint i = 0; i < proxy->known->len; i++) {
        if (g_array_index(proxy->known, int32_t, i))
            return false;
    }
    return proxy->known->len >= VG_SNAPSHOT_PROFILE_MAX;
}

void
vg_proxy_tracks_feed(GPtrArray *tracks, const struct vg_window *window)
{
    for (guint i = 0; i < window->proxies->len; i++)
        proxy_track_need(tracks, &g_array_index(window->proxies, struct vg_proxy_use, i));
    for (guint i = tracks->len; i > 0; i--) {
        proxy_track_feed(tracks->pdata[i - 1], window);
        if (proxy_track_is_gone(tracks->pdata[i - 1]))
            g_ptr_array_remove_index(tracks, i - 1);
    }
}

void
vg_proxy_tracks_read(const GPtrArray *tracks, GPtrArray *proxies)
{
    for (guint i = 0; i < tracks->len; i++)
        g_ptr_array_add(proxies, vg_record_copy(&vg_snap_proxy_record, tracks->pdata[i]));
}
