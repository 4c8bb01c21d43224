/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/secrets.h"

#include "base/log.h"
#include "base/secret-file.h"
#include "daemon/peer-config.h"

#define VG_LOG_TAG "config"

static void
secrets_check_file(GString *all, const char *group, const char *key, const char *path,
                   const char *what)
{
    g_autofree char *fault = vg_secret_file_fault(path, what);

    if (!fault)
        return;
    vg_log_warn("[%s] %s: %s", group, key, fault);
    g_string_append_printf(all, "%s[%s] %s: %s", all->len > 0 ? "; " : "", group, key, fault);
}

char *
vg_secrets_check(const struct vg_daemon_config *config)
{
    GString *all = g_string_new(NULL);

    secrets_check_file(all, "api", "tls_key", config->tls_key, "a key");
    for (guint i = 0; i < config->peers->len; i++) {
        const struct vg_peer_config *peer = config->peers->pdata[i];
        g_autofree char *group = g_strdup_printf("peer %s", peer->item.name);
        secrets_check_file(all, group, "token_file", peer->token_file, "a token");
        secrets_check_file(all, group, "key", peer->key, "a key");
    }
    secrets_check_file(all, "cluster", "key", config->cluster_key, "a key");
    secrets_check_file(all, "cluster", "etcd_key", config->cluster_etcd_key, "a key");
    secrets_check_file(all, "cluster", "etcd_password_file", config->cluster_etcd_password_file,
                       "a password");
    return g_string_free(all, all->len == 0);
}
