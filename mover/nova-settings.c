/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "mover/nova-settings.h"

#include <stddef.h>

/* The options that are strings, which the settings own. */
static const size_t nova_strings[] = {
    offsetof(struct vg_nova_options, cloud),
    offsetof(struct vg_nova_options, clouds),
    offsetof(struct vg_nova_options, auth_url),
    offsetof(struct vg_nova_options, username),
    offsetof(struct vg_nova_options, password_file),
    offsetof(struct vg_nova_options, project_name),
    offsetof(struct vg_nova_options, user_domain_name),
    offsetof(struct vg_nova_options, project_domain_name),
    offsetof(struct vg_nova_options, application_credential_id),
    offsetof(struct vg_nova_options, application_credential_secret_file),
    offsetof(struct vg_nova_options, region),
    offsetof(struct vg_nova_options, cacert),
};

static const char **
nova_settings_string(struct vg_nova_options *options, size_t i)
{
    return (const char **)(void *)((char *)options + nova_strings[i]);
}

struct vg_nova_settings *
vg_nova_settings_new(const struct vg_nova_options *options)
{
    struct vg_nova_settings *settings = g_new0(struct vg_nova_settings, 1);

    settings->options = *options;
    for (size_t i = 0; i < G_N_ELEMENTS(nova_strings); i++) {
        const char **string = nova_settings_string(&settings->options, i);
        *string = g_strdup(*string);
    }
    return settings;
}

void
vg_nova_settings_free(struct vg_nova_settings *settings)
{
    if (!settings)
        return;
    for (size_t i = 0; i < G_N_ELEMENTS(nova_strings); i++)
        g_free((char *)*nova_settings_string(&settings->options, i));
    for (size_t i = 0; i < settings->n_names; i++) {
        g_free(settings->names[i].peer);
        g_free(settings->names[i].host);
    }
    g_free(settings->names);
    g_free(settings->host);
    g_free(settings);
}

const char *
vg_nova_settings_name(const struct vg_nova_settings *settings, const char *peer)
{
    for (size_t i = 0; i < settings->n_names; i++) {
        if (g_strcmp0(settings->names[i].peer, peer) == 0)
            return settings->names[i].host;
    }
    return NULL;
}

vg_nova *
vg_nova_settings_open(const struct vg_nova_settings *settings, const atomic_bool *leave,
                      GError **err)
{
    vg_nova_cloud *cloud = vg_nova_cloud_read(&settings->options, err);

    if (!cloud) {
        g_prefix_error(err, "[nova] ");
        return NULL;
    }
    return vg_nova_new(cloud, settings->deadline_ns, settings->poll_ns, leave);
}
