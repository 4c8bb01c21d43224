/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends messages from the program's side.
 */
#include "config.h"

#include "opencl/client/private.h"

bool
vg_wire_client_send(struct vg_wire_client *client, const struct vg_wire_head *head,
                    const void *body, const void *data)
{
    struct iovec parts[4];
    int n = 0;

    if (client->n_batch)
        parts[n++] = (struct iovec){client->batch, client->n_batch};
    client->n_batch = 0;
    if (head) {
        parts[n++] = (struct iovec){(void *)(uintptr_t)head, sizeof *head};
        parts[n++] = (struct iovec){(void *)(uintptr_t)body, head->size};
        if (!(head->flags & (VG_WIRE_STAGED | VG_WIRE_ROOM)))
            parts[n++] = (struct iovec){(void *)(uintptr_t)data, head->data};
    }
    if (n == 0 || vg_wire_link_send(&client->link, parts, n, vg_wire_client_take, client))
        return true;
    vg_wire_client_break(client);
    return false;
}

void
vg_wire_flush(struct vg_wire_client *client)
{
    pthread_mutex_lock(&client->sending);
    vg_wire_client_send(client, NULL, NULL, NULL);
    pthread_mutex_unlock(&client->sending);
}
