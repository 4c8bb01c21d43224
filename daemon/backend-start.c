/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts and ends what the backend does by itself.
 */
#include "config.h"

#include "daemon/backend-private.h"

int
vg_daemon_backend_start(vg_daemon_backend *backend, GError **err)
{
    backend->drainer = vg_drainer_new(
        &(struct vg_drainer_parts){
            .journal = backend->parts.journal,
            .node = backend->parts.node,
            .region = backend->parts.region,
            .host = vg_mover_host(backend->parts.mover),
            .backend = &backend->ops,
            .read_policy = backend_read_policy,
            .places = backend_drain_places,
        },
        err);
    backend->teller =
        backend->drainer
            ? vg_proxy_teller_new(backend->parts.node, backend->parts.mover, backend->access, err)
            : NULL;
    return backend->teller &&
                   vg_mover_run_queue(backend->parts.mover, &backend_turn, backend, err) == 0
               ? backend_start_leader(backend, err)
               : -1;
}

void
vg_daemon_backend_stop(vg_daemon_backend *backend)
{
    if (!backend)
        return;
    vg_leader_stop(backend->leader);
    vg_drainer_stop(backend->drainer);
    vg_proxy_teller_stop(backend->teller);
}
