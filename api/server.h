/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals of the API: the state that its threads share.
 */
#ifndef VG_API_SERVER_H
#define VG_API_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "api/request.h"
#include "api/socket.h"
#include "api/stats.h"
#include "api/tls.h"
#include "api/worker.h"
#include "base/thread.h"

struct vg_api {
    struct vg_api_limits limits; /* atomic members */
    const struct vg_backend *backend;
    vg_event_log *events;
    const char *boot_id;
    int64_t heartbeat_ns; /* maximum time between two messages of a stream */
    vg_socket *socket;
    vg_tls *tls; /* NULL without TCP */
    bool client_required;
    GPtrArray *listeners; /* struct vg_listener, owned */
    enum vg_role *roles;  /* roles of vg_routes, in their order */
    bool *peers;          /* whether the role peer may use them, too; in the same order */
    vg_worker *workers[VG_LANE_MAX];
    struct vg_http_stats stats;
    pthread_mutex_t lock; /* protects the members below; taken before the event log's lock */
    pthread_cond_t wake;  /* wakes the ticker */
    bool stopping;
    GQueue waits;        /* struct vg_wait */
    GQueue conns;        /* struct vg_conn */
    GHashTable *clients; /* name -> struct vg_client, owned */
    GHashTable *warned;  /* identities that were warned about because they should have
                            another role */
    vg_thread *ticker;
};

#define VG_API_LIMIT(api, member) __atomic_load_n(&(api)->limits.member, __ATOMIC_RELAXED)

static inline void
vg_api_count_refused(vg_api *api, enum vg_refused why)
{
    __atomic_add_fetch(&api->stats.refused[why], 1, __ATOMIC_RELAXED);
}

#endif
