/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/connect.h"

#include <sys/socket.h>

#include <microhttpd.h>
#include <netdb.h>

#include "api/client.h"
#include "api/sse.h"
#include "base/clock.h"

/* libmicrohttpd closes idle connections. A client that sends a byte now and then is never idle, but
 * must complete a request within this multiple of the idle time. */
#define REQUEST_IDLE_TIMES 2
#define SCANS_PER_IDLE     4
/* The fraction of a listener's connections reserved for identified clients. When it is needed, the
 * oldest connection of an unidentified client is closed. */
#define KNOWN_SHARE 4

/* Returns the name under which the client's limits are counted. */
static void
conn_name(struct vg_conn *conn, char ret_name[VG_ORIGIN_MAX])
{
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);
    struct vg_peer peer;

    g_strlcpy(conn->origin, conn->is_tcp ? "unknown" : "unix", sizeof(conn->origin));
    g_strlcpy(ret_name, "unknown", VG_ORIGIN_MAX);
    if (!conn->is_tcp) {
        if (vg_peer_read(conn->fd, &peer, NULL) == 0)
            g_snprintf(ret_name, VG_ORIGIN_MAX, "uid:%u", (unsigned)peer.uid);
    } else if (getpeername(conn->fd, (struct sockaddr *)&address, &size) == 0 &&
               getnameinfo((struct sockaddr *)&address, size, conn->origin, sizeof(conn->origin),
                           NULL, 0, NI_NUMERICHOST) == 0) {
        g_strlcpy(ret_name, conn->origin, VG_ORIGIN_MAX);
    }
}

/* Shuts a connection down. The lock keeps the descriptor open during the call. libmicrohttpd then
 * detects the end. */
static void
conn_end(struct vg_conn *conn)
{
    if (conn->ended)
        return;
    conn->ended = true;
    conn->listener->connections--;
    shutdown(conn->fd, SHUT_RDWR);
}

/* Closes a connection of an unidentified client if there are many. Otherwise, a client with many
 * addresses could occupy all connections. */
static void
conn_make_room(struct vg_listener *listener)
{
    vg_api *api = listener->api;

    if (listener->connections <= api->limits.connections - api->limits.connections / KNOWN_SHARE)
        return;
    for (GList *link = api->conns.head; link; link = link->next) {
        struct vg_conn *conn = link->data;
        if (conn->listener == listener && !conn->ended &&
            !__atomic_load_n(&conn->known, __ATOMIC_RELAXED)) {
            vg_api_count_refused(api, VG_REFUSED_STRANGERS);
            conn_end(conn);
            return;
        }
    }
}

struct vg_conn *
vg_conn_new(struct vg_listener *listener, int fd)
{
    vg_api *api = listener->api;
    struct vg_conn *conn = g_new0(struct vg_conn, 1);
    char name[VG_ORIGIN_MAX];

    conn->api = api;
    conn->listener = listener;
    conn->fd = fd;
    conn->is_tcp = listener->is_tcp;
    conn->link.data = conn;
    conn_name(conn, name);
    conn->client = vg_client_enter(api, name);
    if (!conn->client)
        vg_api_count_refused(api, VG_REFUSED_CONNECTIONS);
    vg_conn_expect_request(conn);
    __atomic_add_fetch(&api->stats.connections, 1, __ATOMIC_RELAXED);
    VG_LOCK_SCOPE(&api->lock);
    if (g_queue_is_empty(&api->conns))
        pthread_cond_signal(&api->wake);
    listener->connections++;
    if (conn->client)
        conn_make_room(listener);
    else
        conn_end(conn);
    g_queue_push_tail_link(&api->conns, &conn->link);
    return conn;
}

void
vg_conn_free(struct vg_conn *conn)
{
    vg_api *api = conn->api;

    __atomic_sub_fetch(&api->stats.connections, 1, __ATOMIC_RELAXED);
    if (conn->client)
        vg_client_leave(api, conn->client);
    VG_LOCK_SCOPE(&api->lock);
    if (!conn->ended)
        conn->listener->connections--;
    g_queue_unlink(&api->conns, &conn->link);
    g_free(conn->subject);
    g_free(conn);
}

struct vg_conn *
vg_conn_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

void
vg_conn_expect_request(struct vg_conn *conn)
{
    int64_t allowed = VG_API_LIMIT(conn->api, idle_ns) * REQUEST_IDLE_TIMES;

    __atomic_store_n(&conn->deadline_ns, vg_clock_monotonic_ns() + allowed, __ATOMIC_RELAXED);
}

void
vg_conn_has_request(struct vg_conn *conn)
{
    __atomic_store_n(&conn->deadline_ns, 0, __ATOMIC_RELAXED);
}

void
vg_conn_is_known(struct vg_conn *conn)
{
    __atomic_store_n(&conn->known, true, __ATOMIC_RELAXED);
}

/* Closes connections whose request takes too long. Called under the lock. */
static void
end_slow(vg_api *api, int64_t now_ns)
{
    for (GList *link = api->conns.head; link; link = link->next) {
        struct vg_conn *conn = link->data;
        int64_t deadline = __atomic_load_n(&conn->deadline_ns, __ATOMIC_RELAXED);
        if (deadline != 0 && now_ns > deadline)
            conn_end(conn);
    }
}

static void
connect_tick(vg_thread *self, void *arg)
{
    vg_api *api = arg;
    int64_t scanned_ns = vg_clock_monotonic_ns();

    VG_LOCK_SCOPE(&api->lock);
    while (!vg_thread_stopping(self)) {
        int64_t now = vg_clock_monotonic_ns();
        int64_t next = vg_waits_tick(api, now);
        for (int i = 0; i < VG_LANE_MAX; i++)
            next = MIN(next, vg_worker_tick(api->workers[i], now));
        int64_t scan_ns = MAX(VG_API_LIMIT(api, idle_ns) / SCANS_PER_IDLE, VG_NS_PER_MS);
        if (!g_queue_is_empty(&api->conns)) {
            if (now >= scanned_ns + scan_ns) {
                end_slow(api, now);
                scanned_ns = now;
            }
            next = MIN(next, scanned_ns + scan_ns);
        }
        vg_thread_beat(self);
        if (next == INT64_MAX)
            pthread_cond_wait(&api->wake, &api->lock);
        else
            vg_cond_wait_until(&api->wake, &api->lock, next);
    }
}

static void
wake_ticker(void *arg)
{
    vg_api *api = arg;

    VG_LOCK_SCOPE(&api->lock);
    pthread_cond_broadcast(&api->wake);
}

int
vg_ticker_start(vg_api *api, GError **err)
{
    api->ticker = vg_thread_new("api-tick", connect_tick, wake_ticker, api, err);
    return api->ticker ? 0 : -1;
}
