/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts and ends the API.
 */
#include "config.h"

#include "api/server.h"

#include <string.h>

#include "api/client.h"
#include "api/connect.h"
#include "api/http.h"
#include "api/roles.h"
#include "api/route.h"
#include "api/sse.h"
#include "base/clock.h"
#include "schema/schema.h"

/* Requests still being answered at the end have half a second. */
#define END_STEPS   100
#define END_STEP_US 5000

/* The number of threads of a lane whose jobs depend on hosts. The jobs of a host that hangs use at
 * most VG_WORKER_HOST_MAX of them, so that other hosts' jobs find a thread. */
#define LANE_THREADS (8 * VG_WORKER_HOST_MAX)

vg_api *
vg_api_new(const struct vg_api_options *options, GError **err)
{
    static const struct {
        const char *name;
        unsigned threads_max;
    } lanes[] = {[VG_LANE_WORK] = {"api-work", 1},
                 [VG_LANE_KEEP] = {"api-keep", 1},
                 [VG_LANE_HERE] = {"api-here", VG_WORKER_HOST_MAX},
                 [VG_LANE_MOVE] = {"api-move", LANE_THREADS},
                 [VG_LANE_ASK] = {"api-ask", LANE_THREADS}};
    vg_api *api = g_new0(vg_api, 1);

    api->limits = options->limits;
    api->backend = options->backend;
    api->events = options->events;
    api->heartbeat_ns = options->heartbeat_ns > 0 ? options->heartbeat_ns : VG_HEARTBEAT_NS;
    g_autoptr(vg_view) view = api->backend->measurement->view(api->backend->data);
    api->boot_id = view->boot_id;
    pthread_mutex_init(&api->lock, NULL);
    vg_cond_init(&api->wake);
    g_queue_init(&api->waits);
    g_queue_init(&api->conns);
    api->clients = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, vg_client_free);
    api->listeners = g_ptr_array_new_with_free_func(vg_listener_free);
    api->client_required = options->client_required;
    api->stats.routes = vg_routes;
    api->stats.n_routes = vg_n_routes;
    api->roles = g_new0(enum vg_role, vg_n_routes);
    if (vg_roles_read(vg_schema_openapi, api->roles, err) != 0) {
        vg_api_free(api);
        return NULL;
    }
    api->peers = g_new0(bool, vg_n_routes);
    vg_roles_read_peers(vg_schema_openapi, api->peers);
    api->warned = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    api->socket = vg_socket_new(options->socket, options->socket_mode, options->socket_group, err);
    const int64_t wait_ns = options->job_wait_ns > 0 ? options->job_wait_ns : VG_WORKER_WAIT_NS;
    bool have_workers = api->socket != NULL;
    for (int i = 0; have_workers && i < VG_LANE_MAX; i++) {
        api->workers[i] =
            vg_worker_new(lanes[i].name, lanes[i].threads_max, wait_ns, &http_job_hooks, err);
        have_workers = api->workers[i] != NULL;
    }
    /* Listen before a stream can wait for an event. */
    vg_event_log_listen(api->events, vg_waits_wake, api);
    if (!have_workers || vg_ticker_start(api, err) < 0 || vg_listen(api, options, err) < 0) {
        vg_event_log_listen(api->events, NULL, NULL);
        vg_api_free(api);
        return NULL;
    }
    return api;
}

void
vg_api_set_limits(vg_api *api, const struct vg_api_limits *limits)
{
    __atomic_store_n(&api->limits.client_connections, limits->client_connections, __ATOMIC_RELAXED);
    __atomic_store_n(&api->limits.client_requests, limits->client_requests, __ATOMIC_RELAXED);
    __atomic_store_n(&api->limits.client_streams, limits->client_streams, __ATOMIC_RELAXED);
    __atomic_store_n(&api->limits.streams, limits->streams, __ATOMIC_RELAXED);
    __atomic_store_n(&api->limits.body_bytes, limits->body_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&api->limits.idle_ns, limits->idle_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&api->limits.writes_per_min, limits->writes_per_min, __ATOMIC_RELAXED);
}

/* Stops the daemons. No connection may be suspended then, which is ensured once `stopping` is seen.
 * MHD_quiesce_daemon() would prevent new connections, but it aborts if one of libmicrohttpd's
 * threads removes the listening socket from epoll at the same time. */
static void
stop_daemon(vg_api *api)
{
    vg_event_log_listen(api->events, NULL, NULL);
    pthread_mutex_lock(&api->lock);
    api->stopping = true;
    pthread_mutex_unlock(&api->lock);
    for (int i = 0; i < VG_LANE_MAX; i++)
        vg_worker_stop(api->workers[i]);
    vg_waits_wake(api);
    for (int i = 0; i < END_STEPS && __atomic_load_n(&api->stats.active, __ATOMIC_RELAXED) > 0; i++)
        g_usleep(END_STEP_US);
    g_ptr_array_set_size(api->listeners, 0);
}

void
vg_api_free(vg_api *api)
{
    if (!api)
        return;
    if (api->listeners->len > 0)
        stop_daemon(api);
    g_ptr_array_unref(api->listeners);
    vg_tls_free(api->tls);
    vg_thread_free(api->ticker);
    for (int i = 0; i < VG_LANE_MAX; i++)
        vg_worker_free(api->workers[i]);
    vg_socket_free(api->socket);
    g_hash_table_destroy(api->clients);
    g_free(api->roles);
    g_free(api->peers);
    if (api->warned)
        g_hash_table_unref(api->warned);
    pthread_cond_destroy(&api->wake);
    pthread_mutex_destroy(&api->lock);
    g_free(api);
}

int
vg_api_reload_certificate(vg_api *api, GError **err)
{
    return api->tls ? vg_tls_reload(api->tls, err) : 0;
}

int64_t
vg_api_certificate_end_ns(const vg_api *api)
{
    return api->tls ? vg_tls_expires_ns(api->tls) : INT64_MAX;
}

const vg_thread *
vg_api_thread(const vg_api *api)
{
    return vg_worker_thread(api->workers[VG_LANE_WORK]);
}
