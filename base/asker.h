/* SPDX-License-Identifier: Apache-2.0
 *
 * The client that waits for the answer to a request. A request whose client is no longer waiting is
 * not started, because the client may have sent another request in the meantime.
 */
#ifndef VG_BASE_ASKER_H
#define VG_BASE_ASKER_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

struct vg_asker {
    bool (*waits)(const void *data); /* returns false if the client has disconnected; any thread */
    const void *data;
    int64_t begin_by_ns; /* CLOCK_MONOTONIC time when the client times out */
};

/* Returns whether the client is still waiting; true for NULL. */
bool vg_asker_waits(const struct vg_asker *asker);

/* Checks that the request may still be started. If not, fails with VG_E_TIMEOUT. */
int vg_asker_check(const struct vg_asker *asker, GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
