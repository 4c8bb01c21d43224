/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "actuators/virt-hang.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

/* The time from a hung connection to the next attempt. It doubles with each hung connection. A
 * connection may hang forever if its host was switched off, which must not prevent new ones. */
#define AGAIN_NS     (10 * VG_NS_PER_S)
#define AGAIN_MAX_NS (600 * VG_NS_PER_S)

/* The state of a libvirt address. */
struct hang_host {
    /* the number of hung connections since the last successful one */
    unsigned connecting;
    unsigned all;         /* the number of hung calls */
    int64_t last_ns;      /* CLOCK_MONOTONIC, when the last call was abandoned */
    int64_t since_ns;     /* CLOCK_REALTIME, the start of the first hung connection */
    int64_t tried_ns;     /* CLOCK_MONOTONIC, when the last hung connection was abandoned */
    int64_t connected_ns; /* CLOCK_MONOTONIC, when the last connection was opened; 0 for never */
};

static pthread_mutex_t hang_lock = PTHREAD_MUTEX_INITIALIZER;
static GHashTable *hosts;  /* char * -> struct hang_host; exists until the process ends */
static GPtrArray *hanging; /* struct vg_virt_hang, in the order in which they were abandoned */
static uint64_t hangs_total;

static void
hang_free(void *data)
{
    struct vg_virt_hang *hang = data;

    g_free(hang->uri);
    g_free(hang->what);
    g_free(hang);
}

/* Finds or creates the state of an address. Called under the lock. */
static struct hang_host *
hang_host(const char *uri)
{
    if (!hosts) {
        hosts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
        hanging = g_ptr_array_new();
    }
    struct hang_host *host = g_hash_table_lookup(hosts, uri);
    if (!host) {
        host = g_new0(struct hang_host, 1);
        g_hash_table_insert(hosts, g_strdup(uri), host);
    }
    return host;
}

/* Returns whether this is a hung connection and no later one was opened. Called under the lock. */
static bool
hang_counts(const struct vg_virt_hang *hang)
{
    return hang->connecting && hang->began_ns > hang_host(hang->uri)->connected_ns;
}

struct vg_virt_hang *
vg_virt_hang_begin(const char *uri, const char *what, int64_t began_ns, bool connecting)
{
    struct vg_virt_hang *hang = g_new0(struct vg_virt_hang, 1);
    const int64_t now_ns = vg_clock_monotonic_ns();

    hang->uri = g_strdup(uri);
    hang->what = g_strdup(connecting ? "to connect" : what);
    hang->began_ns = began_ns;
    hang->since_ns = vg_clock_realtime_ns() - (now_ns - began_ns);
    hang->connecting = connecting;
    VG_LOCK_SCOPE(&hang_lock);
    struct hang_host *host = hang_host(uri);
    hangs_total++;
    host->all++;
    host->last_ns = now_ns;
    g_ptr_array_add(hanging, hang);
    if (!hang_counts(hang))
        return hang;
    host->tried_ns = now_ns;
    if (host->connecting++ == 0 || hang->since_ns < host->since_ns)
        host->since_ns = hang->since_ns;
    return hang;
}

void
vg_virt_hang_ended(struct vg_virt_hang *take_hang)
{
    pthread_mutex_lock(&hang_lock);
    struct hang_host *host = hang_host(take_hang->uri);
    host->all--;
    if (hang_counts(take_hang))
        host->connecting--;
    g_ptr_array_remove(hanging, take_hang);
    pthread_mutex_unlock(&hang_lock);
    hang_free(take_hang);
}

void
vg_virt_hang_connected(const char *uri)
{
    VG_LOCK_SCOPE(&hang_lock);
    struct hang_host *host = hang_host(uri);
    host->connected_ns = vg_clock_monotonic_ns();
    host->connecting = 0;
}

int
vg_virt_hang_check(const char *uri, bool connecting, GError **err)
{
    VG_LOCK_SCOPE(&hang_lock);
    const struct hang_host *host = hang_host(uri);
    const unsigned doublings = MIN(MAX(host->connecting, 1) - 1, 10);
    const int64_t again_ns = host->tried_ns + MIN(AGAIN_NS << doublings, AGAIN_MAX_NS);
    const int64_t now_ns = vg_clock_monotonic_ns(), wait_ns = again_ns - now_ns;

    /* A connection to a host that was switched off never returns, but the host may. */
    if (host->all >= VG_VIRT_HANGS_MAX && now_ns - host->last_ns < AGAIN_MAX_NS)
        return vg_error(err, VG_E_TIMEOUT,
                        "libvirt at '%s' is unresponsive: %u calls have not returned, and further "
                        "calls are refused",
                        uri, host->all);
    if (!connecting || host->connecting == 0 || wait_ns <= 0)
        return 0;
    char since[VG_UTC_LEN];
    return vg_error(err, VG_E_TIMEOUT,
                    "libvirt at '%s' has not answered since %s; vgpud retries in %lld s", uri,
                    vg_utc_format(host->since_ns / VG_NS_PER_S * VG_NS_PER_S, since),
                    (long long)(wait_ns / VG_NS_PER_S + 1));
}

GPtrArray *
vg_virt_hangs(void)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(hang_free);

    VG_LOCK_SCOPE(&hang_lock);
    for (guint i = 0; hanging && i < hanging->len; i++) {
        const struct vg_virt_hang *hang = hanging->pdata[i];
        if (hang->connecting && !hang_counts(hang))
            continue;
        struct vg_virt_hang *copy = g_new0(struct vg_virt_hang, 1);
        *copy = *hang;
        copy->uri = g_strdup(hang->uri);
        copy->what = g_strdup(hang->what);
        g_ptr_array_add(list, copy);
    }
    return list;
}

unsigned
vg_virt_hangs_now(void)
{
    VG_LOCK_SCOPE(&hang_lock);
    return hanging ? hanging->len : 0;
}

uint64_t
vg_virt_hangs_total(void)
{
    VG_LOCK_SCOPE(&hang_lock);
    return hangs_total;
}
