/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/lttng-config.h"

#include <string.h>

#include "base/error.h"
#include "collectors/lttng-url.h"
#include "collectors/lttng.h"
#include "host/host-facts.h"

vg_collector *
vg_lttng_config_collector(const struct vg_daemon_config *config, vg_window_grid *grid, GError **err)
{
    struct vg_lttng_url url;

    if (!config->lttng_url[0] || vg_lttng_url_parse(config->lttng_url, &url, err) < 0)
        return NULL;
    g_autofree char *elsewhere = vg_lttng_config_elsewhere(config);
    g_autofree char *same = g_strdup_printf("net://%s", url.relay);
    g_autoptr(vg_aliases) aliases = vg_aliases_new(config->tracepoint_alias, NULL);
    const struct vg_lttng_live_options options = {
        .aliases = aliases,
        .url = config->lttng_url,
        .is_here = !elsewhere,
        .create = config->lttng_create,
        .relay = config->lttng_relay[0] ? config->lttng_relay : same,
        .timer_us = config->lttng_timer_us,
        .window_ns = config->window_ns,
        .grid = grid,
        .lag_ns = config->lttng_lag_ns,
        .proc = "/proc",
    };
    vg_lttng_url_clear(&url);
    return vg_lttng_new(&options, err);
}

char *
vg_lttng_config_elsewhere(const struct vg_daemon_config *config)
{
    struct vg_lttng_url url = {0};
    char *elsewhere = NULL;

    if (!config->lttng_url[0] || config->lttng_host == VG_HOST_THIS ||
        vg_lttng_url_parse(config->lttng_url, &url, NULL) < 0)
        return NULL;
    g_autofree char *own = vg_host_facts_name();
    if (url.host && (config->lttng_host == VG_HOST_OTHER || strcmp(url.host, own) != 0))
        elsewhere = g_strdup(url.host);
    vg_lttng_url_clear(&url);
    return elsewhere;
}

static int
check_others(const struct vg_daemon_config *config, GError **err)
{
    g_autofree char *elsewhere = vg_lttng_config_elsewhere(config);

    if (elsewhere && config->live == VG_USE_YES)
        return vg_error(err, VG_E_INVALID,
                        "[live] use=yes measures this host, but [lttng] url names another host, "
                        "'%s' (set [lttng] host=this if it is the same host)",
                        elsewhere);
    if (config->lttng_create && config->lttng_host == VG_HOST_OTHER)
        return vg_error(
            err, VG_E_INVALID,
            "[lttng] create: a session can be created only on this host, not with host=other");
    if (config->lttng_create && config->lttng_timer_us * 1000 > config->lttng_lag_ns)
        return vg_error(err, VG_E_INVALID,
                        "[lttng] timer_us: %" G_GINT64_FORMAT
                        " is longer than lag, so every window would arrive too late",
                        config->lttng_timer_us);
    return 0;
}

int
vg_lttng_config_check(const struct vg_daemon_config *config, GError **err)
{
    if (!config->lttng_url[0] && config->lttng_create)
        return vg_error(err, VG_E_INVALID,
                        "[lttng] create: url must name the relay daemon: net://HOST[:PORT]");
    if (!config->lttng_url[0])
        return 0;
    vg_collector *collector = vg_lttng_config_collector(config, NULL, err);
    if (!collector) {
        g_prefix_error(err, "[lttng] url: ");
        return -1;
    }
    vg_collector_free(collector);
    return check_others(config, err);
}
