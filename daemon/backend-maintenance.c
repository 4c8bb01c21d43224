/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the other hosts that are being emptied.
 */
#include "config.h"

#include "daemon/backend-private.h"

GHashTable *
backend_drained(vg_daemon_backend *backend)
{
    GHashTable *drained = backend->parts.region ? vg_region_drained(backend->parts.region) : NULL;

    /* This host's own information is newer. */
    if (drained)
        g_hash_table_remove(drained, vg_mover_host(backend->parts.mover));
    return drained;
}

void
backend_mark_drained(vg_daemon_backend *backend, vg_snapshot *snapshot)
{
    g_autoptr(GHashTable) drained = backend_drained(backend);

    for (guint i = 0; drained && i < snapshot->hosts->len; i++) {
        struct vg_snap_host *host = snapshot->hosts->pdata[i];
        host->maintenance |= g_hash_table_contains(drained, host->name);
    }
}
