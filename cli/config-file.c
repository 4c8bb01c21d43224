/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the file for --config, which contains the policy's keys and the settings for reading
 * traces.
 */
#include "config.h"

#include <stddef.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/cli.h"
#include "policy/host-groups.h"

/* The content of a file for --config. */
struct file_config {
    struct vg_policy_config policy;
    char *alias;
    GPtrArray *hosts; /* struct vg_hosts_config */
};

static const struct vg_conf_list hosts_list = VG_HOSTS_LIST(offsetof(struct file_config, hosts));

static const struct vg_conf_key alias_key = {"tracepoints",
                                             "alias",
                                             VG_CONF_STRING,
                                             offsetof(struct file_config, alias),
                                             "",
                                             0,
                                             VG_ALIAS_TEXT_MAX,
                                             NULL,
                                             "Other names of GPU events in traces."};

static int
parse_config(const char *path, const char *text, size_t size, struct vg_policy_config *ret,
             vg_aliases **ret_aliases, GError **err)
{
    struct file_config config = {0};
    g_autofree struct vg_conf_key *keys = g_new(struct vg_conf_key, vg_policy_n_keys + 1);
    const struct vg_conf_schema schema = {keys, vg_policy_n_keys + 1, &hosts_list, 1};
    g_autofree struct vg_conf_place *places = g_new0(struct vg_conf_place, vg_policy_n_keys + 1);
    g_autoptr(vg_aliases) aliases = NULL;
    g_autoptr(GString) errors = g_string_new(NULL);
    GError *bad = NULL;

    for (size_t i = 0; i < vg_policy_n_keys; i++) {
        keys[i] = vg_policy_keys[i];
        keys[i].offset += offsetof(struct file_config, policy);
    }
    keys[vg_policy_n_keys] = alias_key;
    vg_conf_defaults(keys, vg_policy_n_keys + 1, &config);
    vg_conf_lists_init(&hosts_list, 1, &config);
    int status = vg_conf_parse_some(&schema, path, text, size, &config, places, err);
    for (size_t i = 0; i <= vg_policy_n_keys; i++)
        g_free(places[i].file);
    vg_host_groups_set(&config.policy, config.hosts, errors);
    if (status == 0 && errors->len > 0)
        status = vg_error(err, VG_E_INVALID, "%s", errors->str);
    if (status == 0 && vg_policy_config_check(&config.policy, err) < 0) {
        g_prefix_error(err, "%s: ", path);
        status = -1;
    }
    if (status == 0)
        aliases = vg_aliases_new(config.alias, &bad);
    if (bad) {
        g_propagate_prefixed_error(err, bad, "%s: [tracepoints] alias: ", path);
        status = -1;
    }
    vg_conf_clear(keys, vg_policy_n_keys + 1, &config);
    vg_conf_lists_clear(&hosts_list, 1, &config);
    if (status < 0)
        return -1;
    *ret = config.policy;
    if (ret_aliases)
        *ret_aliases = g_steal_pointer(&aliases);
    return 0;
}

int
vg_cli_read_config(const char *path, struct vg_policy_config *ret, vg_aliases **ret_aliases,
                   GError **err)
{
    g_autofree char *text = NULL;
    size_t size;

    vg_policy_config_init(ret);
    if (ret_aliases)
        *ret_aliases = NULL;
    if (!path)
        return 0;
    if (vg_file_read(path, VG_CONF_TEXT_MAX, &text, &size, err) < 0)
        return -1;
    GError *bad = NULL;
    if (parse_config(path, text, size, ret, ret_aliases, &bad) == 0)
        return 0;
    /* Joins all errors in one line. */
    g_auto(GStrv) mistakes = g_strsplit(bad->message, "\n", -1);
    g_autofree char *all = g_strjoinv("; ", mistakes);
    vg_error(err, (enum vg_error_code)bad->code, "%s", all);
    g_error_free(bad);
    return -1;
}
