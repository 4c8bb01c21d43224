/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the proxies' figures of the newest window for Prometheus. The VMs' use of proxies is part
 * of the GPU figures.
 */
#include "config.h"

#include "api/metrics-text.h"
#include "model/proxy-use.h"

/* Adds a figure for each socket. Negative values mean unknown. */
static void
metrics_add_sockets(GString *out, const GArray *proxies, const char *name, const char *help,
                    double (*read)(const struct vg_proxy_use *use))
{
    vg_metrics_family(out, name, "gauge", help);
    for (guint i = 0; i < proxies->len; i++) {
        const struct vg_proxy_use *use = &g_array_index(proxies, struct vg_proxy_use, i);
        g_autofree char *proxy = vg_metrics_label("proxy", use->proxy);
        g_autofree char *socket = vg_metrics_label("socket", use->socket);
        g_autofree char *vm = vg_metrics_label("vm", use->vm);
        g_autofree char *labels = g_strconcat(proxy, ",", socket, ",", vm, NULL);
        if (!use->problem[0] && read(use) >= 0)
            vg_metrics_value(out, name, labels, read(use));
    }
}

static double
metrics_weight(const struct vg_proxy_use *use)
{
    return (double)use->weight;
}

static double
metrics_used_bytes(const struct vg_proxy_use *use)
{
    return (double)use->used_bytes;
}

static double
metrics_run(const struct vg_proxy_use *use)
{
    return use->is_known ? use->run : -1;
}

static double
metrics_lacked(const struct vg_proxy_use *use)
{
    return use->is_known ? use->lacked : -1;
}

void
vg_metrics_add_proxies(GString *out, const GArray *proxies)
{
    g_autoptr(GHashTable) told = g_hash_table_new(g_str_hash, g_str_equal);

    vg_metrics_family(out, "vgpud_proxy_answers", "gauge",
                      "Whether the OpenCL proxy answered in time.");
    for (guint i = 0; i < proxies->len; i++) {
        const struct vg_proxy_use *use = &g_array_index(proxies, struct vg_proxy_use, i);
        g_autofree char *proxy = vg_metrics_label("proxy", use->proxy);
        if (g_hash_table_add(told, (char *)use->proxy))
            vg_metrics_value(out, "vgpud_proxy_answers", proxy, use->problem[0] ? 0 : 1);
    }
    metrics_add_sockets(out, proxies, "vgpud_proxy_weight", "Weight of the socket.",
                        metrics_weight);
    metrics_add_sockets(out, proxies, "vgpud_proxy_used_bytes",
                        "GPU memory of the programs that use the socket.", metrics_used_bytes);
    metrics_add_sockets(out, proxies, "vgpud_newest_window_proxy_run_ratio",
                        "Share of the newest window in which the socket's commands ran.",
                        metrics_run);
    metrics_add_sockets(out, proxies, "vgpud_newest_window_proxy_lacked_ratio",
                        "Share of the newest window in which the socket waited for the GPU.",
                        metrics_lacked);
}
