/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/nova-config.h"

#include "base/error.h"

const char *const vg_nova_interface_names[] = {"public", "internal", "admin", NULL};

#define OPTION(member)                                                                             \
 {                                                                                                 \
#  member, offsetof(struct vg_nova_options, member),                                               \
      offsetof(struct vg_daemon_config, nova_##member)                                             \
 }

static const struct {
    const char *key;
    size_t to, from;
} nova_config_options[] = {
    OPTION(cloud),
    OPTION(clouds),
    OPTION(auth_url),
    OPTION(username),
    OPTION(password_file),
    OPTION(project_name),
    OPTION(user_domain_name),
    OPTION(project_domain_name),
    OPTION(application_credential_id),
    OPTION(application_credential_secret_file),
    OPTION(region),
    OPTION(cacert),
};

/* Fills in the options. Their strings are borrowed from the configuration. */
static void
nova_config_read(const struct vg_daemon_config *config, struct vg_nova_options *ret)
{
    for (size_t i = 0; i < G_N_ELEMENTS(nova_config_options); i++)
        *(const char **)(void *)((char *)ret + nova_config_options[i].to) =
            *(char *const *)(const void *)((const char *)config + nova_config_options[i].from);
    ret->interface = vg_nova_interface_names[config->nova_interface];
}

int
vg_nova_config_check(const struct vg_daemon_config *config, GError **err)
{
    struct vg_nova_options options;
    g_autoptr(vg_nova_cloud) cloud = NULL;

    nova_config_read(config, &options);
    if (!vg_nova_is_configured(&options)) {
        const char *const alone[] = {options.username, options.application_credential_id};
        if (!*alone[0] && !*alone[1])
            return 0;
        return vg_error(err, VG_E_INVALID,
                        "[nova] auth_url, the URL of Keystone, is missing, and %s needs it",
                        *alone[0] ? "username" : "application_credential_id");
    }
    cloud = vg_nova_cloud_read(&options, err);
    if (cloud)
        return 0;
    g_prefix_error(err, "[nova] ");
    return -1;
}

struct vg_nova_settings *
vg_nova_config_settings(const struct vg_daemon_config *config)
{
    struct vg_nova_options options;

    nova_config_read(config, &options);
    if (!vg_nova_is_configured(&options))
        return NULL;
    struct vg_nova_settings *settings = vg_nova_settings_new(&options);
    settings->host = g_strdup(config->nova_host);
    settings->poll_ns = config->nova_poll_ns;
    settings->deadline_ns = config->nova_deadline_ns;
    settings->names = g_new0(struct vg_nova_name, config->peers->len);
    for (guint i = 0; i < config->peers->len; i++) {
        const struct vg_peer_config *peer = config->peers->pdata[i];
        if (peer->nova_host[0])
            settings->names[settings->n_names++] =
                (struct vg_nova_name){g_strdup(peer->item.name), g_strdup(peer->nova_host)};
    }
    return settings;
}
