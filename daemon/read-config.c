/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the configuration from files and the command line.
 */
#include "config.h"

#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "daemon/daemon.h"

static void
override(char **member, const char *value)
{
    if (!value)
        return;
    g_free(*member);
    *member = g_strdup(value);
}

/* Replaces a path with one from the command line, which is relative to the current directory. */
static void
override_path(char **member, const char *value)
{
    g_autofree char *path = value ? g_canonicalize_filename(value, NULL) : NULL;

    override(member, path);
}

struct vg_daemon_config *
vg_daemon_read_config(const struct vg_daemon_options *options, GError **err)
{
    struct vg_daemon_config *config = vg_daemon_config_load(options->config_path, err);

    if (!config)
        return NULL;
    override_path(&config->socket, options->socket);
    if (strlen(config->socket) > VG_SOCKET_PATH_MAX) {
        vg_error(err, VG_E_INVALID, "--socket: '%s' has more than %d bytes", config->socket,
                 VG_SOCKET_PATH_MAX);
        vg_daemon_config_free(config);
        return NULL;
    }
    override_path(&config->directory, options->directory);
    override(&config->host_name, options->host_name);
    for (int i = 0; options->log_level && vg_log_level_names[i]; i++) {
        if (strcmp(options->log_level, vg_log_level_names[i]) == 0)
            config->log_level = i;
    }
    return config;
}
