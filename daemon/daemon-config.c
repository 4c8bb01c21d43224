/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/daemon-config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/api.h"
#include "base/error.h"
#include "base/log.h"
#include "cluster/peers.h"
#include "collectors/fault.h"
#include "daemon/access-config.h"
#include "daemon/act-config.h"
#include "daemon/alert-config.h"
#include "daemon/cluster-config.h"
#include "daemon/lttng-config.h"
#include "daemon/move-config.h"
#include "daemon/nova-config.h"
#include "daemon/peer-config.h"
#include "host/gpu-cards.h"
#include "host/host-facts.h"
#include "model/lost-series.h"
#include "mover/proxy-config.h"
#include "trace/alias.h"

#define AT(member) offsetof(struct vg_daemon_config, member)

#define FILES_MAX 256
#define GPUS_MAX  64

static const char *const use_names[] = {"auto", "yes", "no", NULL};
static const char *const client_names[] = {"optional", "required", NULL};
static const char *const host_names[] = {"auto", "this", "other", NULL};

static const struct vg_conf_key own_keys[] = {
    {"daemon", "log_level", VG_CONF_ENUM, AT(log_level), "info", 0, 0, vg_log_level_names,
     "Lowest severity that is logged."},
    {"daemon", "host_name", VG_CONF_STRING | VG_CONF_START, AT(host_name), "", 0, 255, NULL,
     "Name of this host; empty for its host name or, in a replay, for the recorded host's."},
    {"daemon", "cpus", VG_CONF_STRING | VG_CONF_START, AT(cpus), "", 0, 4000, NULL,
     "CPUs of this host, such as 0-3,8; empty for all online CPUs."},
    {"daemon", "window", VG_CONF_DURATION | VG_CONF_START, AT(window_ns), "1s", 0.1, 60, NULL,
     "Length of a measurement window."},
    {"daemon", "thread_limit", VG_CONF_DURATION, AT(thread_limit_ns), "20s", 5, 3600, NULL,
     "A thread that is unresponsive for this long counts as hung."},

    {"api", "socket", VG_CONF_STRING | VG_CONF_START, AT(socket), "/run/vgpud/vgpud.sock", 1,
     VG_SOCKET_PATH_MAX, NULL, "Unix socket of the API."},
    {"api", "socket_mode", VG_CONF_STRING | VG_CONF_START, AT(socket_mode), "0660", 3, 4, NULL,
     "Octal permissions of the socket."},
    {"api", "socket_group", VG_CONF_STRING | VG_CONF_START, AT(socket_group), "", 0, 64, NULL,
     "Group of the socket; its members are operators. Empty for the daemon's group."},
    {"api", "listen", VG_CONF_STRING | VG_CONF_START, AT(listen), "", 0, 1000, NULL,
     "Additional addresses and ports of the API, always with TLS; empty for none."},
    {"api", "tls_certificate", VG_CONF_STRING | VG_CONF_START, AT(tls_certificate), "", 0, 4000,
     NULL, "PEM file with the API's certificate, followed by intermediate certificates."},
    {"api", "tls_key", VG_CONF_STRING | VG_CONF_START, AT(tls_key), "", 0, 4000, NULL,
     "PEM file with its private key; SIGHUP makes vgpud read both files again."},
    {"api", "tls_client_ca", VG_CONF_STRING | VG_CONF_START, AT(tls_client_ca), "", 0, 4000, NULL,
     "PEM file with the CAs of accepted client certificates; empty to accept only tokens."},
    {"api", "client_certificate", VG_CONF_ENUM | VG_CONF_START, AT(client_certificate), "optional",
     0, 0, client_names, "Whether a client without a certificate may use a token."},
    {"api", "connections", VG_CONF_INT | VG_CONF_START, AT(connections), "256", 4, 4096, NULL,
     "Maximum number of open connections, on the socket and on each address."},
    {"api", "client_connections", VG_CONF_INT, AT(client_connections), "64", 1, 4096, NULL,
     "Maximum number of open connections per client, which is an address or a user of this host."},
    {"api", "client_requests", VG_CONF_INT, AT(client_requests), "1000", 1, 1000000, NULL,
     "Maximum number of requests per second from one client."},
    {"api", "client_streams", VG_CONF_INT, AT(client_streams), "16", 0, 1024, NULL,
     "Maximum number of open event streams per user."},
    {"api", "streams", VG_CONF_INT, AT(streams), "64", 0, 1024, NULL,
     "Maximum open event streams."},
    {"api", "body_max", VG_CONF_INT, AT(body_bytes), "65536", 256, 16777216, NULL,
     "Maximum size of a request's body in bytes."},
    {"api", "idle", VG_CONF_DURATION, AT(idle_ns), "60s", 1, 3600, NULL,
     "A connection that is idle for this long is closed."},
    {"api", "writes_per_min", VG_CONF_INT, AT(writes_per_min), "600", 1, 100000, NULL,
     "Maximum number of write requests per minute from one client."},
    {"api", "metrics_aggressors", VG_CONF_INT | VG_CONF_START, AT(aggressors), "8", 1,
     VG_LOST_SERIES_TOP_MAX, NULL, "Number of largest aggressors that /metrics names for each VM."},

    {"role reader", "subject", VG_CONF_STRING, AT(reader_subject), "", 0, 65536, NULL,
     "Subjects of client certificates, separated by ';', with the role reader."},
    {"role operator", "subject", VG_CONF_STRING, AT(operator_subject), "", 0, 65536, NULL,
     "Subjects with the role operator, which may also make plans and move VMs."},
    {"role admin", "subject", VG_CONF_STRING, AT(admin_subject), "", 0, 65536, NULL,
     "Subjects with the role admin, which may also manage tokens and read the audit log."},
    {"role peer", "subject", VG_CONF_STRING, AT(peer_subject), "", 0, 65536, NULL,
     "Subjects with the role peer (other hosts' vgpuds), which may do only what plans and moves "
     "require."},

    {"store", "directory", VG_CONF_STRING | VG_CONF_START, AT(directory), "/var/lib/vgpud", 1, 4000,
     NULL, "Directory of the databases."},
    {"store", "raw_days", VG_CONF_INT, AT(raw_days), "2", 1, 3650, NULL, "Days to store windows."},
    {"store", "minute_days", VG_CONF_INT, AT(minute_days), "30", 1, 3650, NULL,
     "Days to store sums per minute."},
    {"store", "hour_days", VG_CONF_INT, AT(hour_days), "400", 1, 36500, NULL,
     "Days to store sums per hour."},
    {"store", "lost_top", VG_CONF_INT, AT(lost_top), "4", 1, 64, NULL,
     "Number of aggressors stored per VM and window; the others are combined."},
    {"store", "memory_windows", VG_CONF_INT | VG_CONF_START, AT(memory_windows), "300", 10, 100000,
     NULL, "Number of newest windows held in memory, even while the disk cannot be written."},

    {"journal", "audit_days", VG_CONF_INT, AT(audit_days), "365", 1, 36500, NULL,
     "Days to store audit entries."},
    {"journal", "audit_entries", VG_CONF_INT, AT(audit_entries), "1000000", 100, 100000000, NULL,
     "Maximum number of stored audit entries; the oldest are removed first."},
    {"journal", "event_days", VG_CONF_INT, AT(event_days), "30", 1, 36500, NULL,
     "Days to store events, except windows."},
    {"journal", "event_entries", VG_CONF_INT, AT(event_entries), "100000", 100, 100000000, NULL,
     "Maximum number of stored events; the oldest are removed first."},

    {"libvirt", "use", VG_CONF_ENUM | VG_CONF_START, AT(libvirt), "auto", 0, 0, use_names,
     "Whether to use libvirt; auto means yes, but in a replay only with a test: URI."},
    {"libvirt", "uri", VG_CONF_STRING | VG_CONF_START, AT(libvirt_uri), "qemu:///system", 1, 1000,
     NULL, "Connection URI."},
    {"libvirt", "poll", VG_CONF_DURATION | VG_CONF_START, AT(libvirt_poll_ns), "60s", 1, 86400,
     NULL, "Interval between complete updates, in addition to the update after each event."},

    {"live", "use", VG_CONF_ENUM | VG_CONF_START, AT(live), "auto", 0, 0, use_names,
     "Whether to measure this host (never during a replay)."},
    {"live", "bpf", VG_CONF_BOOL | VG_CONF_START, AT(live_bpf), "yes", 0, 0, NULL,
     "Whether vgpud may use BPF programs, the best source."},
    {"live", "perf", VG_CONF_BOOL | VG_CONF_START, AT(live_perf), "yes", 0, 0, NULL,
     "Whether vgpud may use perf events, the second-best source."},
    {"live", "procfs", VG_CONF_BOOL | VG_CONF_START, AT(live_procfs), "yes", 0, 0, NULL,
     "Whether vgpud may poll /proc, which always works."},
    {"live", "budget", VG_CONF_DOUBLE | VG_CONF_START, AT(live_budget), "1", 0, 100, NULL,
     "Percent of a core that measuring may use; 0 for no limit."},
    {"live", "budget_per_cpu", VG_CONF_DOUBLE | VG_CONF_START, AT(live_budget_per_cpu), "0.1", 0,
     100, NULL, "The same in percent of all CPUs; the larger budget applies."},

    {"gpu", "enable", VG_CONF_BOOL | VG_CONF_START, AT(gpu), "yes", 0, 0, NULL,
     "Whether to monitor this host's GPUs (never during a replay)."},
    {"gpu", "cards", VG_CONF_STRING | VG_CONF_START, AT(gpu_cards), "", 0, 4000, NULL,
     "PCI devices to treat as GPUs, whatever their class: VENDOR:DEVICE,...."},
    {"gpu", "fdinfo", VG_CONF_BOOL | VG_CONF_START, AT(gpu_fdinfo), "yes", 0, 0, NULL,
     "Whether to use DRM drivers' figures (fdinfo) for files that VMs have open."},
    {"gpu", "venus", VG_CONF_BOOL | VG_CONF_START, AT(gpu_venus), "yes", 0, 0, NULL,
     "Whether to measure the CPU time of the render servers that serve VMs through Venus."},
    {"gpu", "nvml", VG_CONF_BOOL | VG_CONF_START, AT(gpu_nvml), "yes", 0, 0, NULL,
     "Whether to use NVIDIA's management library if it is installed."},
    {"gpu", "nvml_library", VG_CONF_STRING | VG_CONF_START, AT(gpu_nvml_library),
     "libnvidia-ml.so.1", 0, 4000, NULL, "That library's path or soname; empty for none."},
    {"gpu", "sample", VG_CONF_DURATION | VG_CONF_START, AT(gpu_sample_ns), "200ms", 0.02, 1, NULL,
     "Interval for querying that library within a window."},
    {"gpu", "tracepoints", VG_CONF_BOOL | VG_CONF_START, AT(gpu_tracepoints), "yes", 0, 0, NULL,
     "Whether to use tracepoints of GPU drivers, which also show which VM waited."},
    {"gpu", "proxies", VG_CONF_STRING | VG_CONF_START, AT(gpu_proxies), "/run/vgpu-proxy/ask.sock",
     0, 4000, NULL, "Control sockets of vgpu-proxy: PATH,...; empty for none."},
    {"gpu", "budget", VG_CONF_DOUBLE | VG_CONF_START, AT(gpu_budget), "1", 0, 100, NULL,
     "Percent of a core that these tracepoints may use; 0 for no limit."},

    {"trace", "lttng", VG_CONF_BOOL | VG_CONF_START, AT(trace_lttng), "no", 0, 0, NULL,
     "Whether vgpud provides LTTng tracepoints of its own."},
    {"trace", "provider", VG_CONF_STRING | VG_CONF_START, AT(trace_provider), "", 0, 4000, NULL,
     "Shared object with these tracepoints; empty for the installed one."},

    {"tracepoints", "alias", VG_CONF_STRING | VG_CONF_START, AT(tracepoint_alias), "", 0,
     VG_ALIAS_TEXT_MAX, NULL,
     "Other names of GPU events in recordings and in [lttng] url: THEIRS=OURS ...."},

    {"lttng", "url", VG_CONF_STRING | VG_CONF_START, AT(lttng_url), "", 0, 1000, NULL,
     "LTTng session to read, net://RELAY[:PORT]/host/HOST/SESSION; empty for none."},
    {"lttng", "host", VG_CONF_ENUM | VG_CONF_START, AT(lttng_host), "auto", 0, 0, host_names,
     "Whether the session traces this host or another host; auto decides by the name in url."},
    {"lttng", "lag", VG_CONF_DURATION | VG_CONF_START, AT(lttng_lag_ns), "3s", 0.1, 60, NULL,
     "How much later than other windows the session's windows may arrive."},
    {"lttng", "create", VG_CONF_BOOL | VG_CONF_START, AT(lttng_create), "no", 0, 0, NULL,
     "Whether to create the kernel session; url is then net://RELAY[:PORT]."},
    {"lttng", "relay", VG_CONF_STRING | VG_CONF_START, AT(lttng_relay), "", 0, 1000, NULL,
     "create: LTTng's destination, net://HOST[:CONTROL[:DATA]]; empty for url's."},
    {"lttng", "timer_us", VG_CONF_INT | VG_CONF_START, AT(lttng_timer_us), "200000", 1000, 60000000,
     NULL, "create: interval in microseconds after which LTTng sends its data."},

    {"fault", "windows", VG_CONF_STRING | VG_CONF_START, AT(fault), "", 0, 256, NULL,
     "For tests: faults to inject between collectors and engine, such as drop:0.1,hang:30."},
    {"fault", "move_writes", VG_CONF_INT, AT(fault_move_writes), "0", -1000, 1000, NULL,
     "For tests: vgpud kills itself after N writes about moves, with -N before the Nth; 0 for "
     "never."},

    {"actions", "enabled", VG_CONF_BOOL, AT(actions), "no", 0, 0, NULL,
     "Whether this vgpud moves VMs, and accepts VMs with GPUs from others."},
    {"actions", "libvirt_uri", VG_CONF_STRING, AT(actions_uri), "", 0, 1000, NULL,
     "URI for other hosts' libvirt to reach this host's; empty to derive it from theirs."},
    {"actions", "moves", VG_CONF_INT, AT(actions_moves), "2", 1, 64, NULL,
     "Maximum number of concurrent moves from this host, and to any one host."},
    {"actions", "bandwidth", VG_CONF_INT, AT(actions_bandwidth), "0", 0, 1000000, NULL,
     "Maximum bandwidth of a migration in MiB/s; 0 for libvirt's default."},
    {"actions", "downtime", VG_CONF_DURATION, AT(actions_downtime_ns), "500ms", 0.01, 600, NULL,
     "Longest downtime allowed if a migration does not converge otherwise."},
    {"actions", "guest_deadline", VG_CONF_DURATION, AT(actions_guest_ns), "2min", 1, 3600, NULL,
     "How long a guest may take to release its GPUs, and to reclaim them."},
    {"actions", "unplug_deadline", VG_CONF_DURATION, AT(actions_unplug_ns), "40s", 8, 600, NULL,
     "How long a guest may take to release an unplugged GPU."},
    {"actions", "migrate_deadline", VG_CONF_DURATION, AT(actions_migrate_ns), "30min", 5, 86400,
     NULL, "How long copying a VM's memory may take."},
    {"actions", "tls", VG_CONF_ENUM, AT(actions_tls), "auto", 0, 0, vg_tls_mode_names,
     "Whether QEMU encrypts migrations; auto: over qemu+tls, with certificates on both hosts."},
    {"actions", "lease", VG_CONF_DURATION, AT(actions_lease_ns), "5min", 10, 3600, NULL,
     "How long another host reserves GPUs for a VM if this vgpud becomes unresponsive."},
    {"actions", "verdict_time", VG_CONF_DURATION, AT(actions_verdict_ns), "5min", 60, 3600, NULL,
     "Length of the periods before and after a move that its verdict compares."},

    {"nova", "cloud", VG_CONF_STRING, AT(nova_cloud), "", 0, 255, NULL,
     "Entry in clouds.yaml: the OpenStack whose nova moves the VMs it manages; empty for none."},
    {"nova", "clouds", VG_CONF_STRING, AT(nova_clouds), "/etc/openstack/clouds.yaml", 1, 4000, NULL,
     "Path of clouds.yaml; the file must not be readable by all users."},
    {"nova", "auth_url", VG_CONF_STRING, AT(nova_auth_url), "", 0, 1000, NULL,
     "Instead of cloud: Keystone's URL, https://HOST:PORT; empty if nova moves no VMs."},
    {"nova", "username", VG_CONF_STRING, AT(nova_username), "", 0, 255, NULL,
     "vgpud's user in Keystone."},
    {"nova", "password_file", VG_CONF_STRING, AT(nova_password_file), "", 0, 4000, NULL,
     "File whose first line is the password; it must not be readable by all users."},
    {"nova", "project_name", VG_CONF_STRING, AT(nova_project_name), "", 0, 255, NULL,
     "Project where that user has the role admin."},
    {"nova", "user_domain_name", VG_CONF_STRING, AT(nova_user_domain_name), "Default", 1, 255, NULL,
     "Domain of the user."},
    {"nova", "project_domain_name", VG_CONF_STRING, AT(nova_project_domain_name), "Default", 1, 255,
     NULL, "Domain of the project."},
    {"nova", "application_credential_id", VG_CONF_STRING, AT(nova_application_credential_id), "", 0,
     255, NULL, "Instead of username: id of an application credential."},
    {"nova", "application_credential_secret_file", VG_CONF_STRING,
     AT(nova_application_credential_secret_file), "", 0, 4000, NULL,
     "File whose first line is its secret; it must not be readable by all users."},
    {"nova", "region", VG_CONF_STRING, AT(nova_region), "", 0, 255, NULL,
     "Region of the compute service; empty for clouds.yaml's, or the only region."},
    {"nova", "interface", VG_CONF_ENUM, AT(nova_interface), "public", 0, 0, vg_nova_interface_names,
     "The endpoint to use if clouds.yaml does not name one."},
    {"nova", "cacert", VG_CONF_STRING, AT(nova_cacert), "", 0, 4000, NULL,
     "PEM file with the CA of Keystone and nova; empty for this machine's trusted CAs."},
    {"nova", "host", VG_CONF_STRING, AT(nova_host), "", 0, 255, NULL,
     "nova's name for this host or its hypervisor; empty for vgpud's name."},
    {"nova", "poll", VG_CONF_DURATION, AT(nova_poll_ns), "2s", 0.1, 60, NULL,
     "Interval for querying nova about a migration."},
    {"nova", "deadline", VG_CONF_DURATION, AT(nova_deadline_ns), "30s", 1, 300, NULL,
     "How long Keystone or nova may take to answer."},
    {"peers", "refresh", VG_CONF_DURATION, AT(peers_refresh_ns), "10s", 1, 3600, NULL,
     "Interval for querying each [peer NAME], in addition to queries for plans."},
    {"peers", "deadline", VG_CONF_DURATION, AT(peers_deadline_ns), "3s", 0.1, 10, NULL,
     "Time limit for the answer of a peer, and for the answers of all peers for a plan."},

    {"alerts", "command", VG_CONF_STRING, AT(alert_command), "", 0, 4000, NULL,
     "Program with arguments to run for each alert that is raised or cleared; empty for none."},
    {"alerts", "command_limit", VG_CONF_DURATION, AT(alert_command_limit_ns), "10s", 1, 600, NULL,
     "The command is killed after this time."},
};

#define AT_GPU(member) offsetof(struct vg_gpu_config, member)

static const struct vg_conf_key gpu_keys[] = {
    {"gpu", "device_xml", VG_CONF_STRING, AT_GPU(device_xml), "", 0, 4000, NULL,
     "File with the libvirt XML of a device that VMs use as a GPU; its alias identifies it."},
    {"gpu", "slots", VG_CONF_INT, AT_GPU(slots), "1", 1, 1024, NULL,
     "Number of VMs on this host that can use the device at the same time."},
};

static const struct vg_conf_list own_lists[] = {
    {"alert", vg_alert_keys, VG_ALERT_N_KEYS, sizeof(struct vg_alert_config), AT(alerts),
     VG_ALERTS_MAX},
    {"gpu", gpu_keys, G_N_ELEMENTS(gpu_keys), sizeof(struct vg_gpu_config), AT(gpus), GPUS_MAX},
    VG_HOSTS_LIST(AT(hosts)),
    VG_CARD_LIST(AT(cards)),
    {"peer", vg_peer_keys, VG_PEER_N_KEYS, sizeof(struct vg_peer_config), AT(peers), VG_PEERS_MAX},
    VG_PROXY_LIST(AT(proxies)),
};

/* Returns the table of keys. The main thread builds it in the first call. */
static const struct vg_conf_key *
daemon_keys(size_t *ret_n)
{
    static struct vg_conf_key *keys;
    const size_t n_own = G_N_ELEMENTS(own_keys) + VG_CLUSTER_N_KEYS;

    if (!keys) {
        keys = g_new0(struct vg_conf_key, n_own + vg_policy_n_keys + VG_ACT_N_KEYS);
        memcpy(keys, own_keys, sizeof(own_keys));
        memcpy(&keys[G_N_ELEMENTS(own_keys)], vg_cluster_keys, sizeof(vg_cluster_keys));
        vg_act_config_add_policy(&keys[n_own]);
    }
    *ret_n = n_own + vg_policy_n_keys + VG_ACT_N_KEYS;
    return keys;
}

/* The state of reading the files, with the errors found. */
struct config_files {
    struct vg_daemon_config *config;
    struct vg_conf_place *places; /* the place where each key was set */
    GString *errors;              /* one per line */
};

/* Adds an error in a file, or a list of such errors. */
static void
config_add_error(struct config_files *files, GError *take_error)
{
    g_string_append_printf(files->errors, "%s%s", files->errors->len > 0 ? "\n" : "",
                           take_error->message);
    g_error_free(take_error);
}

/* Reads a file, at most one byte more than the limit. */
static char *
config_read_text(const char *path, size_t *ret_size, GError **err)
{
    g_autofree char *text = g_malloc(VG_CONF_TEXT_MAX + 1);
    /* Without O_NONBLOCK, opening a FIFO would wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    struct stat st;

    if (!file) {
        vg_error_errno(err, errno, "cannot open '%s'", path);
        return NULL;
    }
    if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode)) {
        fclose(file);
        vg_error(err, VG_E_INVALID, "'%s' is a pipe, not a file", path);
        return NULL;
    }
    *ret_size = fread(text, 1, VG_CONF_TEXT_MAX + 1, file);
    int failed = ferror(file) ? errno : 0;
    fclose(file);
    if (failed) {
        vg_error_errno(err, failed, "cannot read '%s'", path);
        return NULL;
    }
    return g_steal_pointer(&text);
}

static void
config_read_file(struct config_files *files, const char *path, bool may_lack)
{
    GError *bad = NULL;
    size_t size;
    struct vg_conf_schema schema;
    g_autofree char *text = config_read_text(path, &size, &bad);

    schema.keys = daemon_keys(&schema.n_keys);
    schema.lists = own_lists;
    schema.n_lists = G_N_ELEMENTS(own_lists);

    if (!text && may_lack && g_error_matches(bad, VG_ERROR, VG_E_NOT_FOUND))
        g_clear_error(&bad);
    else if (text &&
             vg_conf_parse_some(&schema, path, text, size, files->config, files->places, &bad) == 0)
        return;
    /* A file name must not add lines to the message. */
    if (bad && !text)
        g_strdelimit(bad->message, "\n", '?');
    if (bad)
        config_add_error(files, bad);
}

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
config_read_directory(struct config_files *files, const char *path)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    GError *bad = NULL;
    g_autoptr(GDir) dir = g_dir_open(path, 0, &bad);
    const char *name;

    if (!dir && g_error_matches(bad, G_FILE_ERROR, G_FILE_ERROR_NOENT)) {
        g_error_free(bad);
        return;
    }
    while (dir && (name = g_dir_read_name(dir)) && names->len <= FILES_MAX) {
        if (g_str_has_suffix(name, ".conf") && name[0] != '.')
            g_ptr_array_add(names, g_strdup(name));
    }
    if (names->len > FILES_MAX) {
        vg_error(&bad, VG_E_INVALID, "'%s' has more than %d files", path, FILES_MAX);
        g_ptr_array_set_size(names, 0);
    }
    if (bad)
        config_add_error(files, bad);
    g_ptr_array_sort(names, compare_names);
    for (guint i = 0; i < names->len; i++) {
        g_autofree char *file = g_build_filename(path, names->pdata[i], NULL);
        config_read_file(files, file, false);
    }
}

unsigned int
vg_daemon_config_socket_mode(const struct vg_daemon_config *config)
{
    return (unsigned int)strtoul(config->socket_mode, NULL, 8);
}

/* ---- checks of several keys together ---- */

static int
check_aliases(const struct vg_daemon_config *config, GError **err)
{
    GError *bad = NULL;

    vg_aliases_unref(vg_aliases_new(config->tracepoint_alias, &bad));
    if (!bad)
        return 0;
    g_propagate_prefixed_error(err, bad, "[tracepoints] alias: ");
    return -1;
}

static int
check_mode(const struct vg_daemon_config *config, GError **err)
{
    if (strspn(config->socket_mode, "01234567") == strlen(config->socket_mode) &&
        vg_daemon_config_socket_mode(config) <= 0777)
        return 0;
    return vg_error(err, VG_E_INVALID, "[api] socket_mode: '%s' is not octal permissions like 0660",
                    config->socket_mode);
}

static int
check_group(const struct vg_daemon_config *config, GError **err)
{
    gid_t gid;

    if (!config->socket_group[0] || vg_api_find_group(config->socket_group, &gid, err) == 0)
        return 0;
    g_prefix_error(err, "[api] socket_group: ");
    return -1;
}

static int
check_days(const struct vg_daemon_config *config, GError **err)
{
    if (config->raw_days <= config->minute_days && config->minute_days <= config->hour_days)
        return 0;
    return vg_error(err, VG_E_INVALID,
                    "[store] raw_days, minute_days, hour_days: %" G_GINT64_FORMAT
                    ", %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
                    " must not decrease: sums are stored at least as long as their parts",
                    config->raw_days, config->minute_days, config->hour_days);
}

static int
check_path(const char *key, const char *path, GError **err)
{
    return !path[0] || g_path_is_absolute(path)
               ? 0
               : vg_error(err, VG_E_INVALID, "%s: '%s' is not an absolute path", key, path);
}

static int
check_socket(const struct vg_daemon_config *config, GError **err)
{
    return check_path("[api] socket", config->socket, err);
}

static int
check_directory(const struct vg_daemon_config *config, GError **err)
{
    return check_path("[store] directory", config->directory, err);
}

static int
check_provider(const struct vg_daemon_config *config, GError **err)
{
    return check_path("[trace] provider", config->trace_provider, err);
}

static int
check_hardware(const struct vg_daemon_config *config, GError **err)
{
    const int cpus = vg_host_facts_check_cpus(config->cpus, err);
    return cpus < 0 ? cpus : vg_gpu_cards_check(config->gpu_cards, err);
}

static int
check_fault(const struct vg_daemon_config *config, GError **err)
{
    if (!config->fault[0] || vg_fault_check(config->fault, err) == 0)
        return 0;
    g_prefix_error(err, "[fault] windows: ");
    return -1;
}

static int
check_sources(const struct vg_daemon_config *config, GError **err)
{
    g_autofree char *elsewhere = vg_lttng_config_elsewhere(config);

    if (config->live == VG_USE_NO || elsewhere || config->live_bpf || config->live_perf ||
        config->live_procfs)
        return 0;
    return vg_error(err, VG_E_INVALID,
                    "[live] bpf, perf and procfs are all no, so no source is left; use=no disables "
                    "measuring");
}

static bool
config_names(const char *sentence, const struct vg_conf_key *key)
{
    g_autofree char *group = g_strdup_printf("[%s]", key->group);
    size_t length = strlen(key->name);

    if (!strstr(sentence, group))
        return false;
    for (const char *at = strstr(sentence, key->name); at; at = strstr(at + 1, key->name)) {
        bool begins = at == sentence || !(g_ascii_isalnum(at[-1]) || at[-1] == '_');
        if (begins && !(g_ascii_isalnum(at[length]) || at[length] == '_'))
            return true;
    }
    return false;
}

/* Reports keys that contradict each other, with the places where they were set. Omits this if one
 * of the keys has already been reported as invalid. */
static void
config_add_contradiction(struct config_files *files, const char *sentence)
{
    g_autoptr(GString) where = g_string_new(NULL);
    size_t n_keys;
    const struct vg_conf_key *keys = daemon_keys(&n_keys);

    for (size_t i = 0; i < n_keys; i++) {
        const struct vg_conf_place *place = &files->places[i];
        if (!place->file || !config_names(sentence, &keys[i]))
            continue;
        if (place->bad)
            return;
        g_string_append_printf(where, "%s%s:%u", where->len > 0 ? ", " : "", place->file,
                               place->line);
    }
    g_string_append_printf(files->errors, "%s%s%s%s", files->errors->len > 0 ? "\n" : "",
                           where->str, where->len > 0 ? ": " : "", sentence);
}

static void
config_check(struct config_files *files)
{
    static int (*const checks[])(const struct vg_daemon_config *config, GError **err) = {
        check_mode,
        check_group,
        check_days,
        check_socket,
        check_directory,
        check_provider,
        check_hardware,
        check_fault,
        check_sources,
        vg_alert_config_check_command,
        vg_lttng_config_check,
        check_aliases,
        vg_access_config_check,
        vg_nova_config_check,
        vg_cluster_config_check,
        vg_act_config_check,
    };
    g_autoptr(GError) crossed = NULL;
    size_t n_keys;
    const struct vg_conf_key *keys = daemon_keys(&n_keys);

    vg_act_config_warn(keys, files->places, n_keys);
    vg_host_groups_set(&files->config->policy, files->config->hosts, files->errors);
    vg_card_groups_set(&files->config->policy, files->config->cards, files->errors);
    vg_alert_config_check(files->config, files->errors);
    vg_peer_config_check(files->config, files->errors);
    vg_proxy_config_check(files->config->proxies, files->errors);
    vg_move_config_check(files->config, files->errors);
    for (size_t i = 0; i < G_N_ELEMENTS(checks); i++) {
        g_autoptr(GError) bad = NULL;
        /* Quoted text must not add lines to the message. */
        if (checks[i](files->config, &bad) < 0)
            config_add_contradiction(files, g_strdelimit(bad->message, "\n", '?'));
    }
    if (vg_policy_config_check(&files->config->policy, &crossed) == 0)
        return;
    g_auto(GStrv) sentences = g_strsplit(crossed->message, "\n", -1);
    for (size_t i = 0; sentences[i]; i++)
        config_add_contradiction(files, sentences[i]);
}

struct vg_daemon_config *
vg_daemon_config_load(const char *path, GError **err)
{
    size_t n_keys;
    const struct vg_conf_key *keys = daemon_keys(&n_keys);
    struct vg_daemon_config *config = g_new0(struct vg_daemon_config, 1);
    g_autofree struct vg_conf_place *places = g_new0(struct vg_conf_place, n_keys);
    g_autoptr(GString) errors = g_string_new(NULL);
    struct config_files files = {config, places, errors};
    const char *main_path = path ? path : VG_CONFIG_PATH;
    g_autofree char *parent = g_path_get_dirname(main_path);
    g_autofree char *directory = g_build_filename(parent, "conf.d", NULL);

    vg_conf_defaults(keys, n_keys, config);
    vg_conf_lists_init(own_lists, G_N_ELEMENTS(own_lists), config);
    config_read_file(&files, main_path, !path);
    config_read_directory(&files, directory);
    config_check(&files);
    for (size_t i = 0; i < n_keys; i++)
        g_free(places[i].file);
    if (errors->len == 0)
        return config;
    vg_daemon_config_free(config);
    vg_error(err, VG_E_INVALID, "%s", errors->str);
    return NULL;
}

void
vg_daemon_config_free(struct vg_daemon_config *config)
{
    size_t n_keys;
    const struct vg_conf_key *keys = daemon_keys(&n_keys);

    if (!config)
        return;
    vg_conf_clear(keys, n_keys, config);
    vg_conf_lists_clear(own_lists, G_N_ELEMENTS(own_lists), config);
    g_free(config);
}

char *
vg_daemon_config_dump(const struct vg_daemon_config *config)
{
    size_t n_keys;
    const struct vg_conf_key *keys = daemon_keys(&n_keys);
    g_autofree char *text = vg_conf_dump(keys, n_keys, config);
    g_autofree char *lists = vg_conf_lists_dump(own_lists, G_N_ELEMENTS(own_lists), config);

    return g_strconcat(text, lists, NULL);
}

char *
vg_daemon_config_needs_restart(const struct vg_daemon_config *now,
                               const struct vg_daemon_config *next)
{
    g_autoptr(GString) list = g_string_new(NULL);
    size_t n_keys;
    const struct vg_conf_key *keys = daemon_keys(&n_keys);

    for (size_t i = 0; i < n_keys; i++) {
        const struct vg_conf_key *key = &keys[i];
        if (!(key->type & VG_CONF_START) || vg_conf_same(key, now, next))
            continue;
        g_string_append_printf(list, "%s[%s] %s", list->len > 0 ? ", " : "", key->group, key->name);
    }
    return list->len > 0 ? g_string_free(g_steal_pointer(&list), FALSE) : NULL;
}
