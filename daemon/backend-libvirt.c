/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports which hosts' libvirt hangs, and since when.
 */
#include "config.h"

#include <string.h>

#include "actuators/virt-hang.h"
#include "base/clock.h"
#include "daemon/backend-private.h"

/* The maximum number of hosts named in a status. */
#define HOSTS_NAMED_MAX 5

/* Returns the host whose libvirt has this address. The caller frees the name. */
static char *
libvirt_host_of(vg_daemon_backend *backend, const char *uri)
{
    g_autoptr(vg_move_settings) settings = vg_mover_settings(backend->parts.mover);
    g_autoptr(GPtrArray) peers = vg_peers_list(backend->parts.peers);

    if (strcmp(settings->libvirt_uri, uri) == 0)
        return g_strdup("this host");
    for (guint i = 0; i < peers->len; i++) {
        const struct vg_peer_info *info = peers->pdata[i];
        if (g_strcmp0(info->libvirt_uri, uri) == 0)
            return g_strdup_printf("'%s'", info->host ? info->host : info->name);
    }
    return g_strdup_printf("'%s'", uri);
}

static void
libvirt_add_hang(vg_daemon_backend *backend, GString *text, const struct vg_virt_hang *hang)
{
    g_autofree char *host = libvirt_host_of(backend, hang->uri);
    char since[VG_UTC_LEN];

    vg_utc_format(hang->since_ns / VG_NS_PER_S * VG_NS_PER_S, since);
    if (text->len > 0)
        g_string_append(text, "; ");
    if (hang->connecting)
        g_string_append_printf(text, "libvirt on %s has not answered since %s", host, since);
    else
        g_string_append_printf(text, "libvirt on %s has not answered the request %s since %s", host,
                               hang->what, since);
}

struct vg_part_status *
backend_libvirt_status(vg_daemon_backend *backend)
{
    g_autoptr(GPtrArray) hangs = vg_virt_hangs();
    g_autoptr(GHashTable) told = g_hash_table_new(g_str_hash, g_str_equal);
    GString *text = g_string_new(NULL);

    /* The list starts with the oldest of each address. */
    for (guint i = 0; i < hangs->len; i++) {
        const struct vg_virt_hang *hang = hangs->pdata[i];
        if (g_hash_table_size(told) < HOSTS_NAMED_MAX && g_hash_table_add(told, hang->uri))
            libvirt_add_hang(backend, text, hang);
    }
    if (hangs->len == 0) {
        g_string_free(text, TRUE);
        return vg_part_status_new("libvirt-calls", "ok", true, NULL);
    }
    g_string_append_printf(text, "; calls that timed out and have not returned: %u",
                           vg_virt_hangs_now());
    struct vg_part_status *status =
        vg_part_status_new("libvirt-calls", "degraded", true, g_string_free(text, FALSE));
    status->since_ns = ((const struct vg_virt_hang *)hangs->pdata[0])->since_ns;
    return status;
}
