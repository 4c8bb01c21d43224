/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/access-config.h"

#include <string.h>

#include "api/api.h"
#include "base/error.h"
#include "base/log.h"

#define VG_LOG_TAG "config"

GStrv
vg_access_config_listen(const struct vg_daemon_config *config)
{
    g_auto(GStrv) words = g_strsplit_set(config->listen, " ,\t", -1);
    g_autoptr(GPtrArray) list = g_ptr_array_new();

    for (size_t i = 0; words[i]; i++) {
        if (words[i][0])
            g_ptr_array_add(list, g_strdup(words[i]));
    }
    g_ptr_array_add(list, NULL);
    return (GStrv)g_ptr_array_free(g_steal_pointer(&list), FALSE);
}

static int
access_config_check_keys(const struct vg_daemon_config *config, GError **err)
{
    const struct {
        const char *key, *path;
    } paths[] = {{"tls_certificate", config->tls_certificate},
                 {"tls_key", config->tls_key},
                 {"tls_client_ca", config->tls_client_ca}};
    g_auto(GStrv) listen = vg_access_config_listen(config);

    for (size_t i = 0; i < G_N_ELEMENTS(paths); i++) {
        if (paths[i].path[0] && !g_path_is_absolute(paths[i].path))
            return vg_error(err, VG_E_INVALID, "[api] %s: '%s' is not an absolute path",
                            paths[i].key, paths[i].path);
    }
    if (listen[0] && (!config->tls_certificate[0] || !config->tls_key[0]))
        return vg_error(err, VG_E_INVALID,
                        "[api] listen: an address needs tls_certificate and tls_key; vgpud serves "
                        "TCP only with TLS");
    if (config->client_certificate == VG_CLIENT_REQUIRED && !config->tls_client_ca[0])
        return vg_error(err, VG_E_INVALID,
                        "[api] client_certificate=required needs tls_client_ca, the CAs of "
                        "accepted certificates");
    return 0;
}

/* Checks the addresses of [api] listen, and whether vgpud could listen on all of them. */
static int
access_config_check_listen(const struct vg_daemon_config *config, GError **err)
{
    g_auto(GStrv) listen = vg_access_config_listen(config);

    if (vg_api_check_listen((const char *const *)listen, err) == 0)
        return 0;
    g_prefix_error(err, "[api] listen: ");
    return -1;
}

/* Returns whether the list of subjects, separated by ';', contains this subject. */
static bool
access_config_has(const char *subjects, const char *subject)
{
    g_auto(GStrv) list = g_strsplit(subjects, ";", -1);

    for (size_t i = 0; list[i]; i++) {
        if (*g_strstrip(list[i]) && strcmp(list[i], subject) == 0)
            return true;
    }
    return false;
}

/* Warns of peers that do not get another role which the configuration gives them. */
static void
access_config_warn_peers(const struct vg_daemon_config *config)
{
    const struct {
        const char *role, *subjects;
    } others[] = {{"admin", config->admin_subject},
                  {"operator", config->operator_subject},
                  {"reader", config->reader_subject}};
    g_auto(GStrv) peers = g_strsplit(config->peer_subject, ";", -1);

    for (size_t i = 0; peers[i]; i++) {
        const char *peer = g_strstrip(peers[i]);
        for (size_t k = 0; *peer && k < G_N_ELEMENTS(others); k++) {
            if (access_config_has(others[k].subjects, peer))
                vg_log_warn("[role peer] subject and [role %s] subject both contain '%s', which is "
                            "only a peer",
                            others[k].role, peer);
        }
    }
}

int
vg_access_config_check(const struct vg_daemon_config *config, GError **err)
{
    access_config_warn_peers(config);
    return access_config_check_keys(config, err) < 0 ? -1 : access_config_check_listen(config, err);
}

enum vg_role
vg_access_config_role(const struct vg_daemon_config *config, const char *subject)
{
    if (access_config_has(config->peer_subject, subject))
        return VG_ROLE_PEER;
    if (access_config_has(config->admin_subject, subject))
        return VG_ROLE_ADMIN;
    if (access_config_has(config->operator_subject, subject))
        return VG_ROLE_OPERATOR;
    return access_config_has(config->reader_subject, subject) ? VG_ROLE_READER : VG_ROLE_NONE;
}
