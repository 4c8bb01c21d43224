/* SPDX-License-Identifier: Apache-2.0
 *
 * All settings from configuration files. The keys, defaults, ranges and help texts are in one
 * table, which drives the parser, --check-config, --dump-config and the list of keys in
 * vgpud.conf(5). It includes the policy's keys (policy/policy-conf.h).
 */
#ifndef VG_DAEMON_DAEMON_CONFIG_H
#define VG_DAEMON_DAEMON_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/conf.h"
#include "policy/card-groups.h"
#include "policy/host-groups.h"

#define VG_CONFIG_PATH "/etc/vgpud/vgpud.conf"

/* The maximum length of a path in bytes: sun_path has 108. */
#define VG_SOCKET_PATH_MAX 107

enum vg_config_use { VG_USE_AUTO, VG_USE_YES, VG_USE_NO };
enum vg_config_client { VG_CLIENT_OPTIONAL, VG_CLIENT_REQUIRED };
enum vg_config_cluster { VG_CLUSTER_OBSERVE, VG_CLUSTER_PROPOSE };
enum vg_config_host { VG_HOST_AUTO, VG_HOST_THIS, VG_HOST_OTHER };

struct vg_daemon_config {
    struct vg_policy_config policy;

    int log_level;   /* an index: VG_LOG_ERR plus this is the level */
    char *host_name; /* empty for the machine's name, or the name in the recording */
    char *cpus;      /* as vg_cpu_list_parse() takes it; empty for all that are online */
    int64_t window_ns;
    int64_t aggressors;
    int64_t thread_limit_ns; /* a thread whose last heartbeat is older than this counts as hung */

    char *socket;
    char *socket_mode; /* octal */
    char *socket_group;
    char *listen; /* addresses, separated by blanks; empty for none */
    char *tls_certificate;
    char *tls_key;
    char *tls_client_ca;
    int client_certificate; /* enum vg_config_client */
    char *reader_subject, *operator_subject, *admin_subject, *peer_subject; /* separated by ';' */
    int64_t connections;
    int64_t client_connections;
    int64_t client_requests;
    int64_t client_streams;
    int64_t streams;
    int64_t body_bytes;
    int64_t idle_ns;
    int64_t writes_per_min;
    int64_t audit_days;
    int64_t audit_entries;
    int64_t event_days;
    int64_t event_entries;

    char *directory;
    int64_t raw_days;
    int64_t minute_days;
    int64_t hour_days;
    int64_t lost_top;
    int64_t memory_windows;

    int libvirt; /* enum vg_config_use */
    char *libvirt_uri;
    int64_t libvirt_poll_ns;

    int live; /* enum vg_config_use */
    bool live_bpf;
    bool live_perf;
    bool live_procfs;
    double live_budget;         /* per cent of a core */
    double live_budget_per_cpu; /* per cent of each CPU */

    bool gpu;
    bool gpu_fdinfo;
    char *gpu_proxies;
    bool gpu_venus;
    bool gpu_nvml;
    char *gpu_cards;        /* as vg_gpu_cards_check() takes it */
    char *gpu_nvml_library; /* empty has the same effect as gpu_nvml=no */
    int64_t gpu_sample_ns;
    bool gpu_tracepoints;
    double gpu_budget; /* the budget of the GPU measurements, per cent of a core */

    bool trace_lttng;
    char *trace_provider; /* empty for the installed one */

    char *lttng_url; /* empty if vgpud reads no live session */
    int lttng_host;  /* enum vg_config_host */
    int64_t lttng_lag_ns;
    bool lttng_create;
    char *lttng_relay; /* empty if it is the host of lttng_url */
    int64_t lttng_timer_us;

    char *tracepoint_alias; /* a list in the form that vg_aliases_new() reads */

    GPtrArray *peers; /* struct vg_peer_config */
    int64_t peers_refresh_ns;
    int64_t peers_deadline_ns;

    char *cluster_etcd; /* endpoints; empty if this host is not in a cluster */
    char *cluster_name;
    char *cluster_url;
    char *cluster_libvirt_uri;
    char *cluster_uri_template; /* for the libvirt of other hosts; if empty, cluster_libvirt_uri
                                 * applies */
    char *cluster_cert, *cluster_key, *cluster_cacert;
    char *cluster_etcd_cert, *cluster_etcd_key, *cluster_etcd_cacert;
    char *cluster_etcd_user, *cluster_etcd_password_file;
    int64_t cluster_lease_ns;
    int64_t cluster_poll_ns;
    int cluster_mode; /* enum vg_config_cluster */
    int64_t cluster_interval_ns;

    int act_mode; /* index into the names of the key; 0 means that cluster_mode applies */
    char *act_window;
    int64_t act_moves, act_moves_per_host, act_moves_per_target;
    int64_t act_cooldown_ns;
    int64_t act_error_budget;

    bool actions;
    char *actions_uri; /* empty if other hosts can connect to libvirt at this host's address */
    int64_t actions_moves;
    int64_t actions_bandwidth; /* MiB/s; 0 for libvirt's default */
    int64_t actions_downtime_ns;
    int64_t actions_guest_ns;
    int64_t actions_unplug_ns;
    int64_t actions_migrate_ns;
    int64_t actions_lease_ns;
    int64_t actions_verdict_ns;
    int actions_tls;    /* enum vg_tls_mode */
    GPtrArray *gpus;    /* struct vg_gpu_config */
    GPtrArray *proxies; /* struct vg_proxy_config of mover/proxy-config.h */

    /* the name of a cloud in clouds.yaml; if it is empty, nova_auth_url applies, if set */
    char *nova_cloud;
    char *nova_clouds;
    char *nova_auth_url;
    char *nova_username;
    char *nova_password_file;
    char *nova_project_name;
    char *nova_user_domain_name;
    char *nova_project_domain_name;
    char *nova_application_credential_id;
    char *nova_application_credential_secret_file;
    char *nova_region;
    int nova_interface; /* index into vg_nova_interface_names */
    char *nova_cacert;
    char *nova_host; /* empty if nova uses vgpud's name for the host */
    int64_t nova_poll_ns;
    int64_t nova_deadline_ns;
    GPtrArray *hosts;    /* struct vg_hosts_config */
    GPtrArray *cards;    /* struct vg_card_config */
    GPtrArray *alerts;   /* struct vg_alert_config */
    char *alert_command; /* an argv; empty if there is no command */
    int64_t alert_command_limit_ns;

    char *fault;
    int64_t fault_move_writes;
};

/* A [gpu NAME] group. */
struct vg_gpu_config {
    struct vg_conf_item item;
    char *device_xml; /* the name of a file */
    int64_t slots;
};

/* An [alert NAME] group. */
struct vg_alert_config {
    struct vg_conf_item item;
    double lost_cores; /* 0 if it is missing */
    int64_t for_ns;
    int64_t clear_for_ns; /* 0 for the value of for_ns */
    char *vm;             /* a pattern; empty for the host */
};

/* A [peer NAME] group. Strings that are not configured are empty. */
struct vg_peer_config {
    struct vg_conf_item item;
    char *url;
    char *token_file;
    char *cert;
    char *key;
    char *cacert;
    char *libvirt_uri;
    char
        *host; /* the name of its host; empty if the peer's name or certificate already proves it */
    char *nova_host; /* empty if vgpud queries nova for it */
};

/* Reads path (VG_CONFIG_PATH if path is NULL and that file exists), and then conf.d/NAME.conf in
 * the same directory, in alphabetical order. If a key is in several files, the last file applies.
 * On failure, returns NULL and sets *err. The message has a line for each mistake in any file:
 * file, line, group, key and reason. The caller frees the result. */
struct vg_daemon_config *vg_daemon_config_load(const char *path, GError **err);
void vg_daemon_config_free(struct vg_daemon_config *config);

/* Returns all keys with their values, in the format of a file; the caller frees it. */
char *vg_daemon_config_dump(const struct vg_daemon_config *config);

/* Returns "[group] key" for each changed key that is only read when the daemon starts, joined by ",
 * ", or NULL. The caller frees it. */
char *vg_daemon_config_needs_restart(const struct vg_daemon_config *now,
                                     const struct vg_daemon_config *next);

/* Returns socket_mode as a number. */
unsigned int vg_daemon_config_socket_mode(const struct vg_daemon_config *config);

#endif
