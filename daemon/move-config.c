/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/move-config.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "daemon/nova-config.h"
#include "host/device-xml.h"

#define MIB INT64_C(1048576)

/* ---- devices that are named ---- */

static char *
move_config_read(const struct vg_gpu_config *gpu, GError **err)
{
    g_autofree char *text = NULL;
    g_autoptr(GError) bad = NULL;
    size_t size;

    if (!gpu->device_xml[0]) {
        vg_error(err, VG_E_INVALID, "device_xml, the device's definition, is missing");
        return NULL;
    }
    if (!g_path_is_absolute(gpu->device_xml)) {
        vg_error(err, VG_E_INVALID, "device_xml: '%s' is not an absolute path", gpu->device_xml);
        return NULL;
    }
    if (!g_file_get_contents(gpu->device_xml, &text, &size, &bad)) {
        vg_error(err, VG_E_INVALID, "device_xml: %s", bad->message);
        return NULL;
    }
    if (size > VG_MIGRATION_XML_MAX || strlen(text) != size || !g_utf8_validate(text, -1, NULL)) {
        vg_error(err, VG_E_INVALID, "device_xml: '%s' is not a text file of at most %d bytes",
                 gpu->device_xml, VG_MIGRATION_XML_MAX);
        return NULL;
    }
    return g_steal_pointer(&text);
}

void
vg_move_config_check(const struct vg_daemon_config *config, GString *errors)
{
    for (guint i = 0; i < config->gpus->len; i++) {
        const struct vg_gpu_config *gpu = config->gpus->pdata[i];
        g_autoptr(GError) bad = NULL;
        g_autofree char *text = move_config_read(gpu, &bad);
        g_autoptr(vg_domain_device) device = text ? vg_domain_device_read(text, &bad) : NULL;
        if (device && (!device->alias || !g_str_has_prefix(device->alias, "ua-")))
            vg_error(&bad, VG_E_INVALID,
                     "the device needs an <alias name='ua-...'/>, which identifies it in VMs");
        if (text && bad)
            g_prefix_error(&bad, "device_xml: '%s': ", gpu->device_xml);
        if (bad)
            g_string_append_printf(errors, "%s%s:%u: [gpu %s] %s", errors->len > 0 ? "\n" : "",
                                   gpu->item.file, gpu->item.line, gpu->item.name,
                                   g_strdelimit(bad->message, "\n", ' '));
    }
}

/* ---- settings ---- */

struct vg_move_settings *
vg_move_config_settings(const struct vg_daemon_config *config, const char *host, GError **err)
{
    g_autoptr(vg_move_settings) settings = vg_move_settings_new();

    settings->enabled = config->actions;
    settings->libvirt_uri = g_strdup(config->libvirt_uri);
    settings->own_uri = g_strdup(config->actions_uri);
    settings->proxies = g_strdup(config->gpu_proxies);
    settings->packs_gpus =
        vg_host_groups_gpu_placement(&config->policy, host) == VG_GPU_PLACEMENT_PACK;
    settings->moves = config->actions_moves;
    settings->bandwidth_bytes_per_s = config->actions_bandwidth * MIB;
    settings->downtime_max_ns = config->actions_downtime_ns;
    settings->guest_deadline_ns = config->actions_guest_ns;
    settings->unplug_deadline_ns = config->actions_unplug_ns;
    settings->migrate_deadline_ns = config->actions_migrate_ns;
    settings->lease_s = config->actions_lease_ns / VG_NS_PER_S;
    settings->tls = (enum vg_tls_mode)config->actions_tls;
    settings->fault_writes = config->fault_move_writes;
    settings->nova = vg_nova_config_settings(config);
    settings->named = g_new0(struct vg_named_device, config->gpus->len);
    for (guint i = 0; i < config->gpus->len; i++) {
        const struct vg_gpu_config *gpu = config->gpus->pdata[i];
        char *xml = move_config_read(gpu, err);
        if (!xml) {
            g_prefix_error(err, "[gpu %s] ", gpu->item.name);
            return NULL;
        }
        settings->named[settings->n_named++] =
            (struct vg_named_device){g_strdup(gpu->item.name), xml, gpu->slots};
    }
    return g_steal_pointer(&settings);
}
