/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/cluster-config.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "cluster/uri.h"
#include "host/qemu-tls.h"

#define VG_LOG_TAG "etcd"

#define AT(member) offsetof(struct vg_daemon_config, member)

/* Computing the summary of a host with 100 VMs takes 1 ms. */
#define SUMMARY_NS (5 * VG_NS_PER_S)

static const char *const cluster_mode_names[] = {"observe", "propose", NULL};

const struct vg_conf_key vg_cluster_keys[VG_CLUSTER_N_KEYS] = {
    {"cluster", "etcd", VG_CONF_STRING | VG_CONF_START, AT(cluster_etcd), "", 0, 4000, NULL,
     "Members of the etcd through which hosts find each other: https://HOST:2379 ...; empty for "
     "none."},
    {"cluster", "name", VG_CONF_STRING | VG_CONF_START, AT(cluster_name), "default", 1, 64, NULL,
     "Name of the cluster; one etcd can serve several clusters."},
    {"cluster", "url", VG_CONF_STRING | VG_CONF_START, AT(cluster_url), "", 0, 1000, NULL,
     "URL that other hosts use to reach this vgpud's API: https://HOST:PORT."},
    {"cluster", "libvirt_uri", VG_CONF_STRING | VG_CONF_START, AT(cluster_libvirt_uri), "", 0, 1000,
     NULL,
     "URI that other hosts' libvirt uses to reach this host's libvirt, such as "
     "qemu+tls://HOST/system."},
    {"cluster", "libvirt_uri_template", VG_CONF_STRING | VG_CONF_START, AT(cluster_uri_template),
     "", 0, 1000, NULL,
     "URI that this host's libvirt uses to reach other hosts' libvirt, such as "
     "qemu+tls://%h/system with %h for the host; empty to derive it from libvirt_uri."},
    {"cluster", "cert", VG_CONF_STRING | VG_CONF_START, AT(cluster_cert), "", 0, 4000, NULL,
     "PEM file with the client certificate that this vgpud presents to the other hosts."},
    {"cluster", "key", VG_CONF_STRING | VG_CONF_START, AT(cluster_key), "", 0, 4000, NULL,
     "PEM file with the private key of cert; empty if cert contains it."},
    {"cluster", "cacert", VG_CONF_STRING | VG_CONF_START, AT(cluster_cacert), "", 0, 4000, NULL,
     "PEM file with the CA of the peers' certificates; empty for this machine's trusted CAs."},
    {"cluster", "etcd_cert", VG_CONF_STRING | VG_CONF_START, AT(cluster_etcd_cert), "", 0, 4000,
     NULL, "PEM file with a client certificate for etcd."},
    {"cluster", "etcd_key", VG_CONF_STRING | VG_CONF_START, AT(cluster_etcd_key), "", 0, 4000, NULL,
     "PEM file with the private key of etcd_cert; empty if etcd_cert contains it."},
    {"cluster", "etcd_cacert", VG_CONF_STRING | VG_CONF_START, AT(cluster_etcd_cacert), "", 0, 4000,
     NULL, "PEM file with the CA of etcd's certificates; empty for this machine's trusted CAs."},
    {"cluster", "etcd_user", VG_CONF_STRING | VG_CONF_START, AT(cluster_etcd_user), "", 0, 255,
     NULL, "etcd user; empty for none."},
    {"cluster", "etcd_password_file", VG_CONF_STRING | VG_CONF_START,
     AT(cluster_etcd_password_file), "", 0, 4000, NULL,
     "File with that user's password; it is read at each login."},
    {"cluster", "lease", VG_CONF_DURATION | VG_CONF_START, AT(cluster_lease_ns), "30s", 5, 600,
     NULL, "A host that is unresponsive for this long counts as having left the cluster."},
    {"cluster", "poll", VG_CONF_DURATION | VG_CONF_START, AT(cluster_poll_ns), "5s", 1, 600, NULL,
     "Interval for reading etcd; longer with more than 160 hosts."},
    {"cluster", "mode", VG_CONF_ENUM | VG_CONF_START, AT(cluster_mode), "propose", 0, 0,
     cluster_mode_names,
     "What this host does as the leader: observe, or propose moves for all hosts."},
    {"cluster", "interval", VG_CONF_DURATION | VG_CONF_START, AT(cluster_interval_ns), "5min", 1,
     86400, NULL, "Interval between the leader's proposals."},
};

/* ---- checks ---- */

/* Returns whether an endpoint without TLS is on this machine. */
static bool
cluster_config_is_here(const char *endpoint)
{
    static const char *const here[] = {"http://127.", "http://localhost:", "http://[::1]"};

    for (size_t i = 0; i < G_N_ELEMENTS(here); i++) {
        if (g_str_has_prefix(endpoint, here[i]))
            return true;
    }
    return false;
}

static int
cluster_config_check_etcd(const struct vg_daemon_config *config, GError **err)
{
    g_auto(GStrv) list = g_strsplit_set(config->cluster_etcd, " ,\t", -1);

    if (vg_etcd_check_endpoints(config->cluster_etcd, err) < 0) {
        g_prefix_error(err, "[cluster] etcd: ");
        return -1;
    }
    if (!config->cluster_etcd_user[0] != !config->cluster_etcd_password_file[0])
        return vg_error(err, VG_E_INVALID,
                        "[cluster] etcd_user and etcd_password_file must be set together");
    for (size_t i = 0; list[i] && config->cluster_etcd_user[0]; i++) {
        if (g_str_has_prefix(list[i], "http://") && !cluster_config_is_here(list[i]))
            return vg_error(err, VG_E_INVALID,
                            "[cluster] etcd: '%s' does not use TLS, so the password of [cluster] "
                            "etcd_user would be sent unencrypted",
                            list[i]);
    }
    return 0;
}

static int
cluster_config_check_paths(const struct vg_daemon_config *config, GError **err)
{
    const struct {
        const char *key, *path;
    } paths[] = {{"cert", config->cluster_cert},
                 {"key", config->cluster_key},
                 {"cacert", config->cluster_cacert},
                 {"etcd_cert", config->cluster_etcd_cert},
                 {"etcd_key", config->cluster_etcd_key},
                 {"etcd_cacert", config->cluster_etcd_cacert},
                 {"etcd_password_file", config->cluster_etcd_password_file}};

    for (size_t i = 0; i < G_N_ELEMENTS(paths); i++) {
        if (paths[i].path[0] && !g_path_is_absolute(paths[i].path))
            return vg_error(err, VG_E_INVALID, "[cluster] %s: '%s' is not an absolute path",
                            paths[i].key, paths[i].path);
    }
    return 0;
}

int
vg_cluster_config_check(const struct vg_daemon_config *config, GError **err)
{
    static const char scheme[] = "https://";
    const char *url = config->cluster_url;

    if (cluster_config_check_paths(config, err) < 0)
        return -1;
    if (!config->cluster_etcd[0])
        return 0;
    if (!vg_region_name_is_good(config->cluster_name))
        return vg_error(err, VG_E_INVALID,
                        "[cluster] name: '%s' may contain only letters, digits, '.', '-' and '_'",
                        config->cluster_name);
    if (!g_str_has_prefix(url, scheme) || !url[strlen(scheme)] || strpbrk(url, "?#@ \t"))
        return vg_error(
            err, VG_E_INVALID,
            "[cluster] url: '%s' is not https://HOST:PORT, the form that [cluster] etcd needs",
            strchr(url, '@') ? "(with a user)" : url);
    if (!config->cluster_cert[0])
        return vg_error(err, VG_E_INVALID,
                        "[cluster] cert is missing, and [cluster] etcd needs it: peers answer only "
                        "clients that they know");
    if (config->cluster_uri_template[0] &&
        vg_uri_template_check(config->cluster_uri_template, err) < 0) {
        g_prefix_error(err, "[cluster] libvirt_uri_template: ");
        return -1;
    }
    return cluster_config_check_etcd(config, err);
}

/* ---- taking part ---- */

struct vg_etcd_options
vg_cluster_config_etcd(const struct vg_daemon_config *config)
{
    return (struct vg_etcd_options){
        .endpoints = config->cluster_etcd,
        .cert = config->cluster_etcd_cert,
        .key = config->cluster_etcd_key,
        .cacert = config->cluster_etcd_cacert,
        .user = config->cluster_etcd_user,
        .password_file = config->cluster_etcd_password_file,
    };
}

struct vg_membership {
    vg_region *region;
    vg_peers *peers;
    char *cert, *key, *cacert;
    char *host;
    char *uri_template; /* for the other hosts' libvirt, or NULL */
    /* CLOCK_MONOTONIC, when this host's summary was last computed; 0 for never */
    int64_t summary_ns;
};

/* Sets the address of a member's libvirt. The member's card does not influence it. Returns the URI,
 * which the caller frees, or NULL if VMs cannot be moved there. */
static char *
membership_uri(const vg_membership *membership, const struct vg_host_card *card, const char *host,
               struct vg_peer_options *member)
{
    char *uri = NULL;

    if (!card->libvirt_uri || !card->libvirt_uri[0])
        member->libvirt_reason = "it accepts no VMs from the cluster: its [cluster] libvirt_uri is "
                                 "empty";
    else if (!membership->uri_template)
        member->libvirt_reason = "set [cluster] libvirt_uri_template on this host";
    else
        uri = vg_uri_template_fill(membership->uri_template, host);
    member->libvirt_uri = uri;
    return uri;
}

/* Registers the cluster's hosts as peers. */
static void
membership_take(void *data, const GPtrArray *hosts)
{
    const vg_membership *membership = data;
    g_autofree struct vg_peer_options *members = g_new0(struct vg_peer_options, hosts->len + 1);
    g_autoptr(GPtrArray) uris = g_ptr_array_new_with_free_func(g_free);
    size_t n = 0;

    for (guint i = 0; i < hosts->len; i++) {
        const struct vg_host_info *host = hosts->pdata[i];
        g_autoptr(GError) bad = NULL;
        g_autofree char *name = vg_uri_host(host->card.url, &bad);
        if (!name) {
            vg_log_warn_limited("a host of the cluster is not queried host=\"%s\" url=\"%s\" "
                                "reason=\"%s\"",
                                host->card.name, host->card.url, bad->message);
            continue;
        }
        struct vg_peer_options *member = &members[n++];
        *member = (struct vg_peer_options){
            .name = host->card.name,
            .url = host->card.url,
            .cert = membership->cert,
            .key = membership->key,
            .cacert = membership->cacert,
            .gone = host->state == VG_HOST_SILENT,
        };
        g_ptr_array_add(uris, membership_uri(membership, &host->card, name, member));
    }
    vg_peers_set_members(membership->peers, members, n);
}

/* Returns the URI template for the other hosts' libvirt, or NULL. The caller frees it. */
static char *
membership_template(const struct vg_daemon_config *config)
{
    static const char none[] =
        "no VM can move from this host to a host of the cluster that has no [peer NAME]";
    g_autoptr(GError) bad = NULL;

    if (config->cluster_uri_template[0])
        return g_strdup(config->cluster_uri_template);
    char *made = config->cluster_libvirt_uri[0]
                     ? vg_uri_template_of(config->cluster_libvirt_uri, &bad)
                     : NULL;
    if (bad)
        vg_log_warn("%s: [cluster] libvirt_uri_template is not set, and libvirt_uri cannot replace "
                    "it reason=\"%s\"",
                    none, bad->message);
    else if (!made)
        vg_log_notice("%s: [cluster] libvirt_uri_template is not set", none);
    return made;
}

int
vg_membership_new(const struct vg_daemon_config *config, const char *host, const char *boot_id,
                  vg_peers *peers, vg_membership **ret, GError **err)
{
    const struct vg_host_card own = {
        .name = (char *)host,
        .url = config->cluster_url,
        .libvirt_uri = config->cluster_libvirt_uri[0] ? config->cluster_libvirt_uri : NULL,
        .migration_tls = vg_qemu_tls_look(""),
        .version = (char *)PACKAGE_VERSION,
        .boot_id = (char *)boot_id,
        .started_ns = vg_clock_realtime_ns(),
    };

    if (!config->cluster_etcd[0])
        return 0;
    if (!vg_region_name_is_good(host))
        return vg_error(
            err, VG_E_INVALID,
            "'%s' is not a valid name for a host in a cluster, which has at most 64 letters, "
            "digits, '.', '-' and '_'; set another name with [daemon] host_name",
            host);
    if (strstr(config->cluster_etcd, "http://"))
        vg_log_notice("etcd is used without TLS: anyone on its network can impersonate any host");
    vg_membership *membership = g_new0(vg_membership, 1);
    membership->peers = peers;
    membership->cert = g_strdup(config->cluster_cert);
    membership->key = g_strdup(config->cluster_key);
    membership->cacert = g_strdup(config->cluster_cacert);
    membership->host = g_strdup(host);
    membership->uri_template = membership_template(config);
    membership->region = vg_region_new(
        &(struct vg_region_options){
            .etcd = vg_cluster_config_etcd(config),
            .cluster = config->cluster_name,
            .own = &own,
            .lease_ns = config->cluster_lease_ns,
            .poll_ns = config->cluster_poll_ns,
            .changed = membership_take,
            .data = membership,
        },
        err);
    if (!membership->region) {
        vg_membership_free(membership);
        return -1;
    }
    *ret = membership;
    return 0;
}

vg_region *
vg_membership_region(const vg_membership *membership)
{
    return membership ? membership->region : NULL;
}

void
vg_membership_tick(vg_membership *membership, const vg_view *view)
{
    const int64_t now_ns = vg_clock_monotonic_ns();

    if (!membership || view->windows == 0 ||
        (membership->summary_ns > 0 && now_ns - membership->summary_ns < SUMMARY_NS))
        return;
    membership->summary_ns = now_ns;
    const struct vg_snap_host *host = vg_snapshot_find_host(view->snapshot, membership->host);
    if (host)
        vg_region_set_summary(membership->region, vg_host_summary_of(host, view->made_ns));
}

bool
vg_membership_is_alive(const vg_membership *membership, int64_t limit_ns)
{
    return !membership || vg_thread_silence_ns(vg_region_thread(membership->region)) < limit_ns;
}

void
vg_membership_stop(vg_membership *membership)
{
    if (membership)
        vg_region_stop(membership->region);
}

void
vg_membership_free(vg_membership *membership)
{
    if (!membership)
        return;
    vg_region_free(membership->region);
    g_free(membership->cert);
    g_free(membership->key);
    g_free(membership->cacert);
    g_free(membership->host);
    g_free(membership->uri_template);
    g_free(membership);
}
