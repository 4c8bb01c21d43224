/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/daemon.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#include "actuators/alert-command.h"
#include "actuators/virt-hang.h"
#include "actuators/virt-move.h"
#include "api/api.h"
#include "api/socket.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "collectors/collector.h"
#include "collectors/fault.h"
#include "collectors/live.h"
#include "collectors/replay.h"
#include "daemon/access-config.h"
#include "daemon/alert-config.h"
#include "daemon/alert-past.h"
#include "daemon/away.h"
#include "daemon/backend.h"
#include "daemon/certificate.h"
#include "daemon/cluster-config.h"
#include "daemon/gpu-config.h"
#include "daemon/limits.h"
#include "daemon/lttng-config.h"
#include "daemon/measuring.h"
#include "daemon/move-config.h"
#include "daemon/node.h"
#include "daemon/peer-config.h"
#include "daemon/signals.h"
#include "daemon/supervisor.h"
#include "daemon/trace.h"
#include "host/host-facts.h"
#include "host/virt-event.h"
#include "mover/mover.h"
#include "store/store.h"

#define VG_LOG_TAG "daemon"
#define TICK_NS    VG_NS_PER_S

/* The maximum number of reports per iteration, so that signals and timers are also handled. */
#define TURN_MAX 16

/* The maximum number of a replay's windows that wait for the disk. */
#define BACKLOG_MAX 64

/* The maximum time that a replay waits for libvirt to report the VMs. */
#define LIBVIRT_LIMIT_NS (5 * VG_NS_PER_S)

/* The time limits at the end: for moves to turn back, and for the disk. */
#define MOVES_LIMIT_NS (3500 * VG_NS_PER_MS)
#define FLUSH_LIMIT_NS (10 * VG_NS_PER_S)

struct daemon {
    const struct vg_daemon_options *options;
    struct vg_daemon_config *config;
    struct vg_daemon_config *initial; /* the initial configuration; a reload replaces config */
    char *vm_map_text;
    size_t vm_map_size;
    char *host;
    char *elsewhere; /* the name of the measured machine if it is not this one, or NULL */
    sd_event *loop;
    vg_event_log *events;
    vg_store *store;
    vg_journal *journal;
    vg_node *node;
    vg_supervisor *supervisor;
    vg_daemon_backend *backend;
    vg_peers *peers;
    vg_membership *membership; /* NULL without a cluster */
    vg_reservations *reservations;
    vg_mover *mover;
    vg_alert_command *alert_command;
    vg_away *away; /* NULL in a replay */
    vg_measuring *measuring;
    vg_api *api;
    vg_collector *replay;    /* NULL after it was started */
    int64_t replay_waits_ns; /* CLOCK_MONOTONIC, the end of the wait for libvirt */
    bool stopping;
    bool failed; /* a task from the command line has failed */
    /* CLOCK_MONOTONIC, when the certificate's expiry was last checked; 0 for never */
    int64_t certificate_at_ns;
};

/* ---- configuration ---- */

static void
daemon_report_reload(struct daemon *daemon, bool done, const char *text)
{
    json_object *data = json_object_new_object();

    vg_daemon_backend_count_reload(daemon->backend, done);
    vg_json_add_bool(data, "taken", done);
    vg_json_add_string(data, "reason", text);
    vg_event_log_add(daemon->events, "config", data);
}

/* Reports a part of the configuration that could not be read again and stays unchanged. */
static void
keep_as_it_was(GString *kept, const char *what, GError **error)
{
    vg_log_err("%s remains unchanged reason=\"%s\"", what, (*error)->message);
    g_string_append_printf(kept, "%s%s remains unchanged: %s", kept->len > 0 ? "; " : "", what,
                           (*error)->message);
    g_clear_error(error);
}

static void
set_peers(struct daemon *daemon)
{
    struct vg_peers_options options;

    vg_peer_config_options(daemon->config, daemon->host, &options);
    vg_peers_set(daemon->peers, &options);
    g_free((void *)options.peers);
}

static void
set_alerts(struct daemon *daemon)
{
    size_t n;
    g_autofree struct vg_alert_rule *rules = vg_alert_config_rules(daemon->config, &n);

    vg_node_set_alerts(daemon->node, rules, n);
}

static void
reload(struct daemon *daemon)
{
    g_autoptr(GError) error = NULL;

    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, vg_clock_monotonic_ns() / 1000);
    struct vg_daemon_config *next = vg_daemon_read_config(daemon->options, &error);
    if (!next) {
        g_auto(GStrv) mistakes = g_strsplit(error->message, "\n", -1);
        for (size_t i = 0; mistakes[i]; i++)
            vg_log_err("configuration remains unchanged reason=\"%s\"", mistakes[i]);
        daemon_report_reload(daemon, false, error->message);
        sd_notify(0, "READY=1");
        return;
    }
    if (!daemon->initial)
        daemon->initial = g_steal_pointer(&daemon->config);
    g_autofree char *waiting = vg_daemon_config_needs_restart(daemon->initial, next);
    vg_daemon_backend_set_access(daemon->backend, next);
    vg_daemon_config_free(daemon->config);
    daemon->config = next;
    const struct vg_store_options store =
        vg_daemon_store_options(daemon->config, daemon->options->replay != NULL);
    const struct vg_journal_options journal = vg_daemon_journal_options(next);
    const struct vg_api_limits limits = vg_daemon_api_limits(next);
    vg_log_set_level((enum vg_log_level)(VG_LOG_ERR + next->log_level));
    vg_node_set_policy(daemon->node, &next->policy);
    vg_daemon_backend_set_policy(daemon->backend, &next->policy);
    vg_store_set_limits(daemon->store, &store);
    vg_journal_set_limits(daemon->journal, &journal);
    vg_api_set_limits(daemon->api, &limits);
    set_peers(daemon);
    g_autoptr(GString) kept = g_string_new(NULL);
    if (vg_alert_command_set(daemon->alert_command, next->alert_command,
                             next->alert_command_limit_ns, &error) != 0)
        keep_as_it_was(kept, "the alert command", &error);
    set_alerts(daemon);
    if (vg_api_reload_certificate(daemon->api, &error) != 0)
        keep_as_it_was(kept, "the certificate", &error);
    vg_certificate_warn(daemon->api, daemon->config->tls_certificate);
    vg_move_settings *settings = vg_move_config_settings(next, daemon->host, &error);
    if (settings)
        vg_mover_configure(daemon->mover, settings);
    else
        keep_as_it_was(kept, "the [actions] configuration", &error);
    vg_supervisor_set_thread_limit(daemon->supervisor, next->thread_limit_ns);
    if (waiting)
        vg_log_notice("configuration reloaded at_next_start=\"%s\"", waiting);
    else
        vg_log_notice("configuration reloaded");
    daemon_report_reload(daemon, kept->len == 0, kept->len > 0 ? kept->str : waiting);
    sd_notify(0, "READY=1");
}

/* ---- collectors ---- */

/* Adds a collector of windows, wrapped with the configured faults. */
static int
add_measuring(struct daemon *daemon, vg_collector *take_collector, GError **err)
{
    vg_collector *collector = take_collector;

    const char *faults = (daemon->initial ? daemon->initial : daemon->config)->fault;
    if (faults[0]) {
        vg_log_warn("faults are injected between collector and engine name=%s faults=\"%s\"",
                    collector->ops->name, faults);
        collector = vg_fault_new(collector, faults, err);
        if (!collector) {
            g_prefix_error(err, "[fault] windows: ");
            return -1;
        }
    }
    return vg_supervisor_add(daemon->supervisor, collector, false, err);
}

/* ---- the loop ---- */

static void
stop(struct daemon *daemon, const char *why)
{
    if (daemon->stopping)
        return;
    daemon->stopping = true;
    vg_log_notice("stopping reason=\"%s\"", why);
    sd_notify(0, "STOPPING=1");
    sd_event_exit(daemon->loop, 0);
}

static int
daemon_on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *data)
{
    struct daemon *daemon = data;

    (void)source;
    if (info->ssi_signo == SIGHUP)
        reload(daemon);
    else
        stop(daemon, info->ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
    return 0;
}

static void
end_if_done(struct daemon *daemon)
{
    if (!daemon->options->until_end)
        return;
    if (vg_node_replay_ended(daemon->node)) {
        stop(daemon, "end of the recording");
    } else if (vg_supervisor_has_failed(daemon->supervisor, "replay")) {
        daemon->failed = true;
        stop(daemon, "the recording cannot be read to its end");
    }
}

/* Starts the replay after libvirt has reported the VMs, which a recording does not name. */
static void
start_replay(struct daemon *daemon)
{
    g_autoptr(GError) error = NULL;

    if (!daemon->replay || daemon->stopping ||
        (!vg_node_has_inventory(daemon->node) && vg_clock_monotonic_ns() < daemon->replay_waits_ns))
        return;
    if (add_measuring(daemon, g_steal_pointer(&daemon->replay), &error) == 0)
        return;
    vg_log_err("%s", error->message);
    daemon->failed = true;
    stop(daemon, "the recording cannot be replayed");
}

static int
on_windows(sd_event_source *source, int fd, uint32_t events, void *data)
{
    struct daemon *daemon = data;

    (void)source, (void)fd, (void)events;
    vg_supervisor_take(daemon->supervisor, VG_SUPERVISOR_WINDOWS, TURN_MAX);
    start_replay(daemon);
    end_if_done(daemon);
    return 0;
}

static int
on_control(sd_event_source *source, int fd, uint32_t events, void *data)
{
    struct daemon *daemon = data;

    (void)source, (void)fd, (void)events;
    vg_supervisor_take(daemon->supervisor, VG_SUPERVISOR_CONTROL, TURN_MAX);
    return 0;
}

/* Returns whether the essential parts are running. If not, systemd restarts the daemon. A collector
 * that hangs in a library is only reported by /readyz, and the others continue. */
static bool
is_alive(const struct daemon *daemon)
{
    int64_t limit_ns = daemon->config->thread_limit_ns;

    return vg_thread_silence_ns(vg_store_thread(daemon->store)) < limit_ns &&
           vg_thread_silence_ns(vg_journal_thread(daemon->journal)) < limit_ns &&
           vg_thread_silence_ns(vg_peers_thread(daemon->peers)) < limit_ns &&
           vg_membership_is_alive(daemon->membership, limit_ns) &&
           vg_thread_silence_ns(vg_api_thread(daemon->api)) < limit_ns;
}

/* Reports the newest view to systemd and the cluster. */
static void
notify(struct daemon *daemon)
{
    g_autoptr(vg_view) view = vg_node_view(daemon->node);

    vg_membership_tick(daemon->membership, view);
    sd_notifyf(0, "%sSTATUS=%" PRIu64 " windows of %s, %u VMs\n",
               is_alive(daemon) ? "WATCHDOG=1\n" : "", view->windows, daemon->host,
               view->newest.vms->len);
}

static int
daemon_on_tick(sd_event_source *source, uint64_t usec, void *data)
{
    struct daemon *daemon = data;

    (void)usec;
    start_replay(daemon);
    vg_supervisor_watch(daemon->supervisor);
    vg_node_tick(daemon->node);
    vg_measuring_watch(daemon->measuring);
    vg_certificate_tick(daemon->api, daemon->config->tls_certificate, &daemon->certificate_at_ns);
    vg_daemon_backend_set_age(daemon->backend, vg_node_age_ns(daemon->node),
                              vg_node_replay_ended(daemon->node));
    notify(daemon);
    end_if_done(daemon);
    sd_event_source_set_time_relative(source, TICK_NS / 1000);
    return 0;
}

static int
daemon_watch(struct daemon *daemon, GError **err)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    sd_event_source *timer = NULL;
    int status = 0;

    for (size_t i = 0; i < G_N_ELEMENTS(signals) && status >= 0; i++)
        status = sd_event_add_signal(daemon->loop, NULL, signals[i], daemon_on_signal, daemon);
    if (status >= 0)
        status = sd_event_add_io(daemon->loop, NULL,
                                 vg_supervisor_fd(daemon->supervisor, VG_SUPERVISOR_WINDOWS),
                                 EPOLLIN, on_windows, daemon);
    if (status >= 0)
        status = sd_event_add_io(daemon->loop, NULL,
                                 vg_supervisor_fd(daemon->supervisor, VG_SUPERVISOR_CONTROL),
                                 EPOLLIN, on_control, daemon);
    if (status >= 0)
        status = sd_event_add_time_relative(daemon->loop, &timer, CLOCK_MONOTONIC, TICK_NS / 1000,
                                            50000, daemon_on_tick, daemon);
    if (status >= 0)
        status = sd_event_source_set_enabled(timer, SD_EVENT_ON);
    if (status >= 0)
        status = sd_event_source_set_floating(timer, true);
    sd_event_source_unref(timer);
    return status >= 0 ? 0 : vg_error_errno(err, -status, "cannot set up the main loop");
}

/* ---- start and end ---- */

static void
keep_event(void *data, const struct vg_logged_event *event)
{
    const struct daemon *daemon = data;

    if (strcmp(event->type, VG_HAPPENING_WINDOW) == 0)
        return;
    const struct vg_happening happening = {
        .boot = (char *)vg_node_boot_id(daemon->node),
        .seq = event->seq,
        .at_ns = event->time_ns,
        .type = event->type,
        .text = event->data,
    };
    vg_alert_past_keep(daemon->journal, daemon->alert_command, &happening, daemon->options->replay);
}

static vg_collector *
open_replay(struct daemon *daemon, GError **err)
{
    const struct vg_daemon_options *options = daemon->options;
    g_autoptr(GError) bad = NULL;

    if (options->vm_map &&
        !g_file_get_contents(options->vm_map, &daemon->vm_map_text, &daemon->vm_map_size, &bad)) {
        vg_error(err, VG_E_IO, "%s", bad->message);
        return NULL;
    }
    g_autoptr(vg_aliases) aliases = vg_aliases_new(daemon->config->tracepoint_alias, NULL);
    const struct vg_replay_options replay = {
        .aliases = aliases,
        .path = options->replay,
        .speed = options->speed,
        .window_ns = daemon->config->window_ns,
        .vm_map_name = options->vm_map,
        .vm_map_text = daemon->vm_map_text,
        .vm_map_size = daemon->vm_map_size,
    };
    return vg_replay_new(&replay, err);
}

static bool
uses_libvirt(const struct daemon *daemon)
{
    const struct vg_daemon_config *config = daemon->config;

    if (config->libvirt != VG_USE_AUTO)
        return config->libvirt == VG_USE_YES;
    return (!daemon->options->replay && !daemon->elsewhere) ||
           g_str_has_prefix(config->libvirt_uri, "test:");
}

/* Returns whether this host is measured live. A recording has its own clock. */
static bool
measures_live(const struct daemon *daemon)
{
    if (daemon->options->replay && daemon->config->live == VG_USE_YES)
        vg_log_warn("[live] use=yes is ignored: a replay does not measure this host");
    return !daemon->options->replay && !daemon->elsewhere && daemon->config->live != VG_USE_NO;
}

static int
start_live(struct daemon *daemon, vg_window_grid *grid, GError **err)
{
    const struct vg_daemon_config *config = daemon->config;
    const struct vg_live_options options = {
        .proc = "/proc",
        .window_ns = config->window_ns,
        .grid = grid,
        .budget = vg_live_budget(config->live_budget, config->live_budget_per_cpu,
                                 sysconf(_SC_NPROCESSORS_ONLN))};
    vg_cpu_source *sources[VG_LIVE_SOURCES_MAX];
    unsigned n = 0;

    if (config->live_bpf)
        sources[n++] = vg_source_bpf_new(options.proc);
    if (config->live_perf)
        sources[n++] = vg_source_perf_new(options.proc);
    if (config->live_procfs)
        sources[n++] = vg_source_proc_new(options.proc);
    return add_measuring(daemon, vg_live_new(&options, sources, n), err);
}

static int
start_lttng(struct daemon *daemon, vg_window_grid *grid, GError **err)
{
    if (!daemon->config->lttng_url[0])
        return 0;
    if (daemon->options->replay) {
        vg_log_warn("[lttng] url is ignored: a replay reads no live session");
        return 0;
    }
    vg_collector *collector = vg_lttng_config_collector(daemon->config, grid, err);
    return collector ? add_measuring(daemon, collector, err) : -1;
}

static int
start_collectors(struct daemon *daemon, GError **err)
{
    const struct vg_daemon_config *config = daemon->config;
    g_autoptr(vg_window_grid) grid = vg_window_grid_new(config->window_ns);

    if (uses_libvirt(daemon)) {
        daemon->replay_waits_ns = vg_clock_monotonic_ns() + LIBVIRT_LIMIT_NS;
        if (vg_supervisor_add(daemon->supervisor,
                              vg_libvirt_new(config->libvirt_uri, daemon->host, "/sys", "/proc",
                                             config->libvirt_poll_ns),
                              config->libvirt == VG_USE_AUTO, err) < 0)
            return -1;
    }
    /* LTTng comes first: of two equally trusted collectors, the first one is used. */
    if (start_lttng(daemon, grid, err) < 0)
        return -1;
    if (measures_live(daemon) && start_live(daemon, grid, err) < 0)
        return -1;
    /* The measured host may be another machine. A host may also have no GPU. */
    bool is_here = !daemon->options->replay && !daemon->elsewhere;
    vg_collector *gpu = is_here ? vg_gpu_config_collector(config, grid) : NULL;
    if (gpu && vg_supervisor_add(daemon->supervisor, gpu, true, err) < 0)
        return -1;
    if (!daemon->replay || daemon->replay_waits_ns > 0)
        return 0;
    return add_measuring(daemon, g_steal_pointer(&daemon->replay), err);
}

static int
start_api(struct daemon *daemon, GError **err)
{
    const struct vg_daemon_config *config = daemon->config;
    g_auto(GStrv) listen = vg_access_config_listen(config);
    const struct vg_api_options options = {
        .socket = config->socket,
        .socket_mode = vg_daemon_config_socket_mode(config),
        .socket_group = config->socket_group,
        .listen = (const char *const *)listen,
        .certificate = config->tls_certificate,
        .key = config->tls_key,
        .client_ca = config->tls_client_ca[0] ? config->tls_client_ca : NULL,
        .client_required = config->client_certificate == VG_CLIENT_REQUIRED,
        .limits = vg_daemon_api_limits(config),
        .backend = vg_daemon_backend_ops(daemon->backend),
        .events = daemon->events,
    };

    daemon->api = vg_api_new(&options, err);
    return daemon->api ? 0 : -1;
}

static int
start_peers(struct daemon *daemon, GError **err)
{
    struct vg_peers_options options;

    vg_peer_config_options(daemon->config, daemon->host, &options);
    daemon->peers = vg_peers_new(&options, err);
    g_free((void *)options.peers);
    return daemon->peers
               ? vg_membership_new(daemon->config, daemon->host, vg_node_boot_id(daemon->node),
                                   daemon->peers, &daemon->membership, err)
               : -1;
}

static int
start_mover(struct daemon *daemon, GError **err)
{
    vg_move_settings *settings = vg_move_config_settings(daemon->config, daemon->host, err);

    if (!settings)
        return -1;
    daemon->mover = vg_mover_new(
        &(struct vg_mover_parts){
            .journal = daemon->journal,
            .peers = daemon->peers,
            .region = vg_membership_region(daemon->membership),
            .reservations = daemon->reservations,
            .events = daemon->events,
            .host = daemon->host,
        },
        settings);
    return 0;
}

static int
daemon_start(struct daemon *daemon, GError **err)
{
    const struct vg_store_options store =
        vg_daemon_store_options(daemon->config, daemon->options->replay != NULL);
    const struct vg_journal_options journal = vg_daemon_journal_options(daemon->config);

    if (daemon->config->trace_lttng)
        vg_trace_start(daemon->config->trace_provider);
    /* Check this first, so that a second vgpud leaves no directory behind. */
    if (vg_socket_check(daemon->config->socket, err) < 0)
        return -1;
    daemon->store = vg_store_new(&store, err);
    daemon->journal = daemon->store ? vg_journal_new(&journal, err) : NULL;
    if (!daemon->journal)
        return -1;
    daemon->reservations = vg_reservations_new(daemon->journal);
    daemon->measuring =
        vg_measuring_new(daemon->events, daemon->store, daemon->options->replay != NULL);
    const struct vg_node_options node = {
        .host = daemon->host,
        .replay = daemon->options->replay != NULL,
        .libvirt_is_here = g_str_has_prefix(daemon->config->libvirt_uri, "qemu:///") ||
                           g_str_has_prefix(daemon->config->libvirt_uri, "qemu+unix://"),
        .elsewhere = daemon->elsewhere != NULL,
        .window_ns = daemon->config->window_ns,
        .aggressors = (guint)daemon->config->aggressors,
        .policy = &daemon->config->policy,
        .store = daemon->store,
        .memory_windows = (uint64_t)daemon->config->memory_windows,
        .events = daemon->events,
        .reservations = daemon->reservations,
        .measuring = daemon->measuring,
    };
    daemon->node = vg_node_new(&node);
    daemon->alert_command = vg_alert_past_new_command(daemon->journal, daemon->host);
    if (vg_alert_command_set(daemon->alert_command, daemon->config->alert_command,
                             daemon->config->alert_command_limit_ns, err) != 0)
        return -1;
    vg_event_log_keep(daemon->events, keep_event, daemon);
    set_alerts(daemon);
    /* Alerts from a recording are not restored. */
    if (!node.replay)
        vg_alert_past_restore(daemon->journal, daemon->alert_command, daemon->node, daemon->events);
    if (!node.replay)
        daemon->away = vg_away_new(daemon->config->directory, daemon->events);
    const struct vg_supervisor_options supervisor = {
        .node = daemon->node,
        .events = daemon->events,
        .store = daemon->store,
        .thread_limit_ns = daemon->config->thread_limit_ns,
        .replay = node.replay,
        /* The store needs the rest for windows that are on the way to it. */
        .backlog_max = (size_t)MIN(daemon->config->memory_windows / 2, BACKLOG_MAX),
    };
    daemon->supervisor = vg_supervisor_new(&supervisor);
    if (start_peers(daemon, err) < 0 || start_mover(daemon, err) < 0)
        return -1;
    daemon->backend = vg_daemon_backend_new(&(struct vg_daemon_backend_parts){
        .node = daemon->node,
        .supervisor = daemon->supervisor,
        .store = daemon->store,
        .journal = daemon->journal,
        .events = daemon->events,
        .peers = daemon->peers,
        .region = vg_membership_region(daemon->membership),
        .mover = daemon->mover,
        .reservations = daemon->reservations,
        .alert_command = daemon->alert_command,
        .policy = &daemon->config->policy,
    });
    vg_daemon_backend_set_access(daemon->backend, daemon->config);
    if (vg_daemon_backend_start(daemon->backend, err) < 0 || start_api(daemon, err) < 0 ||
        start_collectors(daemon, err) < 0)
        return -1;
    vg_mover_recover(daemon->mover);
    vg_mover_watch(daemon->mover);
    return daemon_watch(daemon, err);
}

/* Stops the sources first, and then the parts that they fill, in the reverse order of the start. */
static void
end(struct daemon *daemon)
{
    const int64_t moves_until_ns = vg_clock_monotonic_ns() + MOVES_LIMIT_NS;
    bool all_ended = true;

    if (daemon->mover)
        vg_mover_end_moves(daemon->mover);
    if (daemon->supervisor)
        vg_supervisor_stop(daemon->supervisor, &all_ended);
    if (daemon->node)
        vg_node_flush(daemon->node);
    if (daemon->store && !vg_store_flush(daemon->store, FLUSH_LIMIT_NS)) {
        vg_log_warn("not all windows could be stored");
        daemon->failed = daemon->failed || daemon->options->until_end;
    }
    if (daemon->mover)
        vg_mover_wait(daemon->mover, moves_until_ns);
    /* From here on, no call waits for an unresponsive host. */
    vg_virt_links_end();
    vg_away_free(daemon->away);
    vg_membership_stop(daemon->membership);
    vg_peers_stop(daemon->peers);
    vg_daemon_backend_stop(daemon->backend);
    vg_api_free(daemon->api);
    vg_mover_free(daemon->mover);
    vg_reservations_free(daemon->reservations);
    vg_membership_free(daemon->membership);
    vg_peers_free(daemon->peers);
    vg_event_log_keep(daemon->events, NULL, NULL);
    vg_alert_command_free(daemon->alert_command);
    vg_journal_free(daemon->journal);
    vg_store_free(daemon->store);
    if (!all_ended || vg_virt_hangs_now() > 0) {
        /* A thread that hangs in a library still uses memory that would be freed otherwise. */
        vg_log_notice("stopped");
        _exit(daemon->failed ? EXIT_FAILURE : EXIT_SUCCESS);
    }
    vg_supervisor_free(daemon->supervisor);
    vg_collector_free(daemon->replay);
    vg_virt_event_stop();
    vg_daemon_backend_free(daemon->backend);
    vg_measuring_free(daemon->measuring);
    vg_node_free(daemon->node);
    vg_event_log_free(daemon->events);
    sd_event_unref(daemon->loop);
    vg_daemon_config_free(daemon->config);
    vg_daemon_config_free(daemon->initial);
    g_free(daemon->host);
    g_free(daemon->elsewhere);
    g_free(daemon->vm_map_text);
}

static char *
choose_host(const struct daemon *daemon)
{
    if (daemon->config->host_name[0])
        return g_strdup(daemon->config->host_name);
    if (daemon->elsewhere)
        return g_strdup(daemon->elsewhere);
    if (!daemon->replay)
        return vg_host_facts_name();
    const char *recorded = vg_replay_hostname(daemon->replay);
    return g_strdup(recorded ? recorded : "localhost");
}

int
vg_daemon_run(const struct vg_daemon_options *options, struct vg_daemon_config *take_config,
              GError **err)
{
    struct daemon daemon = {.options = options, .config = take_config};
    int status = 0;

    vg_log_set_level((enum vg_log_level)(VG_LOG_ERR + take_config->log_level));
    daemon.events = vg_event_log_new();
    if (options->replay) {
        daemon.replay = open_replay(&daemon, err);
        status = daemon.replay ? 0 : -1;
    }
    /* Until here, a signal ends the program: a recording may be a FIFO without data. */
    vg_signals_block();
    if (status == 0) {
        daemon.elsewhere = options->replay ? NULL : vg_lttng_config_elsewhere(daemon.config);
        daemon.host = choose_host(&daemon);
        status = sd_event_new(&daemon.loop);
        if (status < 0)
            status = vg_error_errno(err, -status, "cannot create the main loop");
        else
            status = daemon_start(&daemon, err);
    }
    if (status == 0) {
        vg_log_notice("ready host=\"%s\" socket=\"%s\" store=\"%s\"", daemon.host,
                      daemon.config->socket, daemon.config->directory);
        sd_notify(0, "READY=1");
        status = sd_event_loop(daemon.loop);
        if (status < 0)
            vg_error_errno(err, -status, "the main loop failed");
    }
    end(&daemon);
    if (status < 0)
        return -1;
    vg_log_notice("stopped");
    if (daemon.failed)
        return vg_error(err, VG_E_IO, "the recording could not be read and stored to its end");
    return 0;
}
