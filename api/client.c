/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/client.h"

#include "base/clock.h"

/* The time in which a budget is refilled. A budget never exceeds the amount for this time. */
#define REQUESTS_NS VG_NS_PER_S
#define WRITES_NS   (60 * VG_NS_PER_S)

struct client_budget {
    double left;
    int64_t at_ns; /* CLOCK_MONOTONIC */
};

struct vg_client {
    char *name;
    unsigned connections;
    int64_t left_ns; /* CLOCK_MONOTONIC, the end of its last connection */
    struct client_budget requests;
    struct client_budget writes;
};

void
vg_client_free(void *data)
{
    struct vg_client *client = data;

    g_free(client->name);
    g_free(client);
}

static gboolean
client_is_forgotten(void *name, void *data, void *now)
{
    const struct vg_client *client = data;

    (void)name;
    return client->connections == 0 && *(const int64_t *)now - client->left_ns >= WRITES_NS;
}

static struct vg_client *
client_need(vg_api *api, const char *name)
{
    int64_t now = vg_clock_monotonic_ns();
    struct vg_client *client = g_hash_table_lookup(api->clients, name);

    if (client)
        return client;
    if (g_hash_table_size(api->clients) >= VG_CLIENTS_MAX)
        g_hash_table_foreach_remove(api->clients, client_is_forgotten, &now);
    client = g_new0(struct vg_client, 1);
    client->name = g_strdup(name);
    client->requests = (struct client_budget){(double)VG_API_LIMIT(api, client_requests), now};
    client->writes = (struct client_budget){(double)VG_API_LIMIT(api, writes_per_min), now};
    g_hash_table_insert(api->clients, client->name, client);
    return client;
}

struct vg_client *
vg_client_enter(vg_api *api, const char *name)
{
    VG_LOCK_SCOPE(&api->lock);
    struct vg_client *client = client_need(api, name);
    if (client->connections >= VG_API_LIMIT(api, client_connections))
        return NULL;
    client->connections++;
    return client;
}

void
vg_client_leave(vg_api *api, struct vg_client *client)
{
    VG_LOCK_SCOPE(&api->lock);
    client->connections--;
    client->left_ns = vg_clock_monotonic_ns();
    if (client->connections == 0 && g_hash_table_size(api->clients) > VG_CLIENTS_MAX)
        g_hash_table_remove(api->clients, client->name);
}

static int
client_take(struct client_budget *budget, double per_time, int64_t time_ns)
{
    int64_t now = vg_clock_monotonic_ns();

    budget->left += (double)(now - budget->at_ns) / (double)time_ns * per_time;
    budget->left = MIN(budget->left, per_time);
    budget->at_ns = now;
    if (budget->left >= 1) {
        budget->left -= 1;
        return 0;
    }
    double wait_s = (1 - budget->left) * ((double)time_ns / VG_NS_PER_S) / MAX(per_time, 1);
    return (int)MIN(wait_s + 1, 60);
}

int
vg_client_take_request(vg_api *api, struct vg_client *client)
{
    VG_LOCK_SCOPE(&api->lock);
    return client_take(&client->requests, (double)VG_API_LIMIT(api, client_requests), REQUESTS_NS);
}

int
vg_client_take_write(vg_api *api, struct vg_client *client)
{
    VG_LOCK_SCOPE(&api->lock);
    return client_take(&client->writes, (double)VG_API_LIMIT(api, writes_per_min), WRITES_NS);
}
