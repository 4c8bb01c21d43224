/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpu-proxy: serves programs on machines without their own GPU. This process only listens. Each
 * client gets its own child process, and only these load a vendor's library. Whatever a client does
 * to its child, the others are not affected.
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <malloc.h>

#include "opencl/base/clock.h"
#include "opencl/base/say.h"
#include "opencl/icd/control.h"
#include "opencl/icd/vendor.h"
#include "opencl/proxy/acceptor.h"
#include "opencl/proxy/admit.h"
#include "opencl/proxy/confine.h"
#include "opencl/proxy/control.h"
#include "opencl/proxy/ends.h"
#include "opencl/proxy/look.h"
#include "opencl/proxy/options.h"
#include "opencl/proxy/output.h"
#include "opencl/proxy/peer.h"
#include "opencl/proxy/secret.h"
#include "opencl/proxy/share.h"
#include "opencl/proxy/sockets.h"
#include "opencl/proxy/trace.h"
#include "opencl/serve/serve.h"
#include "opencl/serve/turn.h"
#include "opencl/wire/address.h"

#define PROXY_NOT_CONFINED 3                       /* exit status */
#define PROXY_KEPT         (32 << 20)              /* bytes */
#define PROXY_TENANTS      (1 + PROXY_CONTROL_FDS) /* index of the tenants among the polled files */

struct proxy {
    struct proxy_confinement confinement;
    struct vg_serve_limits limits;
    int signals;
    unsigned drain_s, clients_max, linger_s;
    size_t staging; /* bytes of memory shared with each client */
    struct proxy_sockets sockets;
    struct proxy_share share;
    struct proxy_control control;
    struct proxy_look look;
    struct proxy_acceptors acceptors;
    struct proxy_arrivals arrivals;
    struct proxy_groups groups;
    struct proxy_ends ends;
    struct proxy_trace trace;
    bool is_traced, is_grouped;
    struct pollfd *at; /* signals, control, tenants, clients, acceptors, output, arrivals */
};

/* ---- a client's process ---- */

/* Closes and forgets everything of the proxy that a child process must not have. TENANT is the
 * tenant of its client, or NULL if there is none. */
static void
proxy_leave_for(struct proxy *proxy, const struct proxy_tenant *tenant)
{
    vg_sockets_leave(&proxy->sockets, tenant);
    vg_look_leave(&proxy->look);
    for (unsigned i = 0; i < proxy->share.n_clients; i++) {
        if (proxy->share.clients[i].fd >= 0)
            close(proxy->share.clients[i].fd);
        vg_share_free_counts(proxy->share.clients[i].counts);
        vg_output_free(proxy->share.clients[i].output);
        explicit_bzero(proxy->share.clients[i].session, VG_WIRE_SESSION_ID);
    }
    vg_control_leave(&proxy->control);
    if (proxy->trace.fd >= 0)
        close(proxy->trace.fd);
    close(proxy->signals);
    vg_acceptors_leave(&proxy->acceptors);
    vg_arrivals_leave(&proxy->arrivals);
    explicit_bzero(&proxy->ends, sizeof proxy->ends);
    vg_groups_leave(&proxy->groups);
}

static void
proxy_leave(void *data)
{
    proxy_leave_for(data, NULL);
}

/* CLIENT is the proxy's record of the client. SAID is what it has sent through FD. */
static _Noreturn void
proxy_serve(struct proxy *proxy, struct proxy_client *client, const struct vg_wire_arrival *said,
            int fd, int turns)
{
    const struct proxy_tenant *tenant = client->tenant;
    const struct vg_wire_offer offer = {
        .staging = proxy->staging, .id = client->session, .linger_s = proxy->linger_s};
    struct vg_serve_limits limits = proxy->limits;
    struct vg_wire_link link;
    sigset_t none;

    proxy_leave_for(proxy, tenant);
    limits.counts = client->counts;
    limits.memory = tenant->memory;
    limits.pool = tenant->pool;
    limits.place = client->place;
    limits.turns = turns;
    limits.build_memory = client->group.procs < 0 ? proxy->groups.memory : 0;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* If the proxy is stopped as a group, its clients must still be served to their end. */
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_NAME, "vgpu-proxy-one", 0, 0, 0);
    if (!vg_group_enter(&client->group, proxy->staging)) {
        vg_cl_say("a client's process cannot enter its control group: %s", strerror(errno));
        _exit(EXIT_FAILURE);
    }
    const char *why = vg_proxy_confine(&proxy->confinement);
    if (why) {
        vg_cl_say("a client cannot be confined: %s: %s", why, strerror(errno));
        _exit(EXIT_FAILURE);
    }
    /* Retain memory that is allocated and freed repeatedly. */
    mallopt(M_MMAP_THRESHOLD, PROXY_KEPT);
    mallopt(M_TRIM_THRESHOLD, 8 * PROXY_KEPT);
    bool ok = vg_wire_link_take(&link, fd, said, &offer);
    if (!ok)
        vg_cl_say("a client cannot be served: %s", strerror(errno));
    struct vg_serve *serve = ok ? vg_serve_begin(&link, &limits) : NULL;
    ok = serve && vg_serve_run(serve);
    if (vg_wire_link_why(&link))
        vg_cl_say("a client was disconnected: %s", vg_wire_link_why(&link));
    fflush(NULL);
    _exit(ok ? EXIT_SUCCESS : EXIT_FAILURE);
}

static bool
proxy_draw(unsigned char *id, size_t size)
{
    return getrandom(id, size, 0) == (ssize_t)size;
}

/* Starts a process for ARRIVAL, which may be served. The arrival no longer owns the connection. */
static void
proxy_take(struct proxy *proxy, struct proxy_arrival *arrival, bool is_known)
{
    struct proxy_tenant *tenant = arrival->tenant;
    struct proxy_client client = {.fd = -1, .tenant = tenant, .is_known = is_known};
    struct vg_wire_arrival said = arrival->said;
    int pair[2] = {-1, -1}, memory = -1, fd = arrival->fd, written = -1;
    unsigned i = 0;

    while (proxy->share.clients[i].pid)
        i++;
    client.place = vg_share_place(&proxy->share, tenant);
    if (tenant->pool->n <= client.place)
        tenant->pool->n = client.place + 1;
    vg_wire_arrival_forget_token(&said);
    client.group.procs = -1;
    client.came = vg_cl_now();
    snprintf(client.from, sizeof client.from, "%s", arrival->from);
    client.counts = proxy->control.path || proxy->is_traced ? vg_share_new_counts(&memory) : NULL;
    bool ok = proxy_draw(client.session, sizeof client.session) &&
              socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0 &&
              (client.output = vg_output_new(&written)) != NULL &&
              vg_group_begin(&proxy->groups, &client.group);
    client.pid = ok ? vg_proxy_fork(&proxy->confinement) : -1;
    client.fd = pair[0];
    if (client.pid == 0) {
        close(pair[0]);
        if (memory >= 0)
            close(memory);
        arrival->fd = -1;
        vg_output_free(client.output);
        if (!vg_output_enter(written))
            _exit(EXIT_FAILURE);
        close(written);
        proxy_serve(proxy, &client, &said, fd, pair[1]);
    }
    if (client.pid < 0) {
        vg_admit_refuse(tenant, fd, "the proxy cannot start a process", "from %s: %s",
                        arrival->from, strerror(errno));
        if (pair[0] >= 0)
            close(pair[0]);
        vg_share_free_counts(client.counts);
        vg_output_free(client.output);
        vg_group_leave(&client.group);
        vg_group_end(&proxy->groups, &client.group);
    } else {
        vg_group_leave(&client.group);
        proxy->share.clients[i] = client;
        vg_trace_report(&proxy->trace, &client, memory);
    }
    if (memory >= 0)
        close(memory);
    if (pair[1] >= 0)
        close(pair[1]);
    if (written >= 0)
        close(written);
    explicit_bzero(client.session, sizeof client.session);
}

/* Reports the reason to a client whose process has ended. */
static void
proxy_bring_back(const struct proxy *proxy, const struct proxy_arrival *arrival,
                 const struct vg_wire_session_hello *back, bool is_known)
{
    const struct vg_wire_session_welcome none = {.magic = VG_WIRE_SESSION_MAGIC};
    const char *why = vg_ends_find(&proxy->ends, back->id);

    if (vg_share_bring_back(&proxy->share, arrival->tenant, is_known, back, arrival->fd) ||
        (why && vg_wire_arrival_say_ended(&arrival->said, arrival->fd, why)))
        return;
    ssize_t sent = send(arrival->fd, &none, sizeof none, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* the client has disconnected */
}

/* Handles an arrival that may connect. */
static void
proxy_admit(struct proxy *proxy, struct proxy_arrival *arrival)
{
    struct proxy_tenant *tenant = arrival->tenant;
    const bool is_known = vg_arrival_is_known(arrival);
    struct vg_wire_session_hello back;
    char why[128] = "";

    if (vg_wire_arrival_comes_back(&arrival->said)) {
        vg_wire_arrival_session(&arrival->said, &back);
        proxy_bring_back(proxy, arrival, &back, is_known);
        vg_arrival_end(&proxy->arrivals, arrival);
        return;
    }
    if (vg_share_clients_n(&proxy->share, NULL) >= proxy->clients_max)
        snprintf(why, sizeof why, "it has reached its maximum of %u clients", proxy->clients_max);
    else if (vg_share_clients_n(&proxy->share, tenant) >= tenant->clients_max)
        snprintf(why, sizeof why, "it has reached its maximum of %u clients for this VM",
                 tenant->clients_max);
    else if (!vg_admit_may_fork(tenant))
        return; /* later */
    if (*why)
        vg_admit_refuse(tenant, arrival->fd, why, "a program from %s: %s", arrival->from, why);
    else
        proxy_take(proxy, arrival, is_known);
    vg_arrival_end(&proxy->arrivals, arrival);
}

static void
proxy_accept(struct proxy *proxy, struct proxy_tenant *tenant)
{
    int fd = accept4(tenant->listener, NULL, NULL, SOCK_CLOEXEC);
    char from[PROXY_FROM_MAX];

    if (fd < 0)
        return;
    vg_admit_accepted(tenant);
    vg_peer_describe(fd, from);
    if (tenant->cid && vg_peer_cid(fd) != tenant->cid) {
        vg_admit_refuse(tenant, fd, "it serves another VM", "a client of a VM other than %u: %s",
                        tenant->cid, from);
        close(fd);
        return;
    }
    if (!vg_wire_address_is_tls(tenant->path)) {
        vg_arrival_begin(&proxy->arrivals, tenant, fd, from, NULL);
        return;
    }
    if (vg_admit_may_fork(tenant))
        vg_acceptor_start(&proxy->acceptors, tenant, fd, from, proxy_leave, proxy);
    else
        close(fd); /* it is refused in this case */
}

/* Handles clients that have completed the handshake. */
static void
proxy_hear_acceptors(struct proxy *proxy, const struct pollfd *at, bool is_ending)
{
    struct proxy_acceptor acceptor;

    for (unsigned i = 0; i < PROXY_ACCEPTORS_MAX; i++) {
        if (!at[i].revents || !vg_acceptor_receive(&proxy->acceptors, i, &acceptor))
            continue;
        if (is_ending)
            close(acceptor.plain);
        else
            vg_arrival_begin(&proxy->arrivals, acceptor.tenant, acceptor.plain, acceptor.from,
                             acceptor.is_known ? acceptor.tenant->vm : NULL);
    }
}

/* Handles arrivals that have identified themselves. AT contains the polled ones of N arrivals. */
static void
proxy_hear_arrivals(struct proxy *proxy, const struct pollfd *at, unsigned n)
{
    for (unsigned i = 0; proxy->arrivals.n > 0 && i < PROXY_ARRIVALS_MAX; i++)
        if (vg_arrival_hear(&proxy->arrivals, i, n > 0 ? at[i].revents : 0))
            proxy_admit(proxy, &proxy->arrivals.of[i]);
}

static void
proxy_reap(struct proxy *proxy)
{
    struct rusage used;
    int status;
    pid_t pid;

    while ((pid = wait4(-1, &status, WNOHANG, &used)) > 0) {
        if (vg_look_ended(&proxy->look, pid, status) || vg_trace_is_gone(&proxy->trace, pid))
            continue;
        for (unsigned i = 0; i < proxy->share.n_clients; i++) {
            struct proxy_client *client = &proxy->share.clients[i];
            if (client->pid != pid)
                continue;
            vg_trace_report(&proxy->trace, client, -1);
            vg_output_hear(client, true);
            vg_ends_take(&proxy->ends, &proxy->groups, client, status, &used);
            vg_share_gone(&proxy->share, client);
        }
    }
}

/* ---- listening ---- */

static bool
proxy_get_signal(const struct proxy *proxy, struct signalfd_siginfo *info)
{
    return read(proxy->signals, info, sizeof *info) == (ssize_t)sizeof *info;
}

/* Waits for up to MS milliseconds, or indefinitely if MS is -1. Returns how many arrivals were
 * polled, or -1 if interrupted.
 */
static int
proxy_wait(struct proxy *proxy, int ms)
{
    struct pollfd *tenants = &proxy->at[PROXY_TENANTS], *clients = tenants + proxy->sockets.n;
    struct pollfd *outputs = clients + proxy->share.n_clients;
    struct pollfd *acceptors = outputs + proxy->share.n_clients;
    const int64_t now = vg_cl_now();

    proxy->at[0] = (struct pollfd){.fd = proxy->signals, .events = POLLIN};
    vg_control_poll(&proxy->control, &proxy->at[1]);
    for (unsigned i = 0; i < proxy->sockets.n; i++) {
        const struct proxy_tenant *tenant = &proxy->sockets.tenants[i];
        const bool may = tenant->listener >= 0 && vg_admit_may_accept(tenant);
        tenants[i] = (struct pollfd){.fd = may ? tenant->listener : -1, .events = POLLIN};
        if (!may && tenant->listener >= 0 && (ms < 0 || ms > PROXY_PAUSE_MS))
            ms = PROXY_PAUSE_MS;
    }
    for (unsigned i = 0; i < proxy->share.n_clients; i++) {
        const struct proxy_client *client = &proxy->share.clients[i];
        clients[i] = (struct pollfd){.fd = client->fd, .events = POLLIN};
        outputs[i] =
            (struct pollfd){.fd = vg_output_poll(client->output, now, &ms), .events = POLLIN};
    }
    vg_acceptors_poll(&proxy->acceptors, acceptors);
    unsigned n = vg_arrivals_poll(&proxy->arrivals, acceptors + PROXY_ACCEPTORS_MAX);
    nfds_t all = (nfds_t)(acceptors - proxy->at) + PROXY_ACCEPTORS_MAX + n;
    return poll(proxy->at, all, ms) >= 0 ? (int)n : -1;
}

/* Applies the configuration directory. The polled files have been handled. */
static void
proxy_read(struct proxy *proxy)
{
    if (!proxy->sockets.folder)
        vg_cl_say("nothing to reload: --sockets is not set");
    else if (vg_sockets_read(&proxy->sockets, &proxy->share))
        vg_cl_say("reloaded the sockets from %s", proxy->sockets.folder);
    else
        vg_cl_say("the sockets are unchanged");
    proxy->control.n_tenants = proxy->sockets.n;
}

/* Returns when it was stopped and its clients have left. */
static void
proxy_run(struct proxy *proxy)
{
    int64_t until = INT64_MAX;

    while (until == INT64_MAX || (vg_share_clients_n(&proxy->share, NULL) && vg_cl_now() < until)) {
        if (until == INT64_MAX)
            vg_look_begin(&proxy->look, &proxy->confinement, proxy_leave, proxy);
        int ms = vg_share_decide(&proxy->share), control_ms = vg_control_refresh(&proxy->control);
        struct signalfd_siginfo info;
        int sockets_ms = vg_sockets_look(&proxy->sockets);
        int arrivals_ms = vg_arrivals_look(&proxy->arrivals);
        bool is_to_read = false;
        if (control_ms >= 0 && (ms < 0 || ms > control_ms))
            ms = control_ms;
        if (sockets_ms >= 0 && (ms < 0 || ms > sockets_ms))
            ms = sockets_ms;
        if (arrivals_ms >= 0 && (ms < 0 || ms > arrivals_ms))
            ms = arrivals_ms;
        if (until != INT64_MAX && (ms < 0 || ms > 200))
            ms = 200;
        int n_arrivals = proxy_wait(proxy, ms);
        if (n_arrivals < 0)
            continue;
        /* The existing clients, before others take their places. */
        struct pollfd *clients = &proxy->at[PROXY_TENANTS + proxy->sockets.n];
        struct pollfd *outputs = clients + proxy->share.n_clients;
        struct pollfd *acceptors = outputs + proxy->share.n_clients;
        for (unsigned i = 0; i < proxy->share.n_clients; i++) {
            if (clients[i].revents)
                vg_share_hear(&proxy->share, &proxy->share.clients[i]);
            if (outputs[i].revents)
                vg_output_hear(&proxy->share.clients[i], false);
        }
        if ((proxy->at[0].revents & POLLIN) && proxy_get_signal(proxy, &info)) {
            if (info.ssi_signo == SIGUSR1) {
                vg_sockets_report(&proxy->sockets, &proxy->share);
            } else if (info.ssi_signo == SIGHUP) {
                is_to_read = true;
                vg_look_again(&proxy->look);
            } else if (info.ssi_signo != SIGCHLD && until == INT64_MAX) {
                until = vg_cl_now() + proxy->drain_s * INT64_C(1000000000);
                vg_sockets_close(&proxy->sockets);
                vg_arrivals_close(&proxy->arrivals);
            }
        }
        proxy_reap(proxy);
        proxy_hear_arrivals(proxy, acceptors + PROXY_ACCEPTORS_MAX, (unsigned)n_arrivals);
        proxy_hear_acceptors(proxy, acceptors, until != INT64_MAX);
        for (unsigned i = 0; i < proxy->sockets.n && until == INT64_MAX; i++)
            if (proxy->at[PROXY_TENANTS + i].revents & POLLIN)
                proxy_accept(proxy, &proxy->sockets.tenants[i]);
        vg_control_serve(&proxy->control, &proxy->at[1]);
        if (is_to_read && until == INT64_MAX)
            proxy_read(proxy);
    }
    for (unsigned i = 0; i < proxy->share.n_clients; i++)
        if (proxy->share.clients[i].pid)
            kill(proxy->share.clients[i].pid, SIGKILL);
    vg_look_end(&proxy->look);
    vg_sockets_report(&proxy->sockets, &proxy->share);
}

/* ---- the command line ---- */

/* Listens on all sockets of the command line. */
static int
proxy_begin(struct proxy *proxy, int n, char **sockets)
{
    sigset_t signals;

    bool ok = vg_sockets_open(&proxy->sockets);
    proxy->share.n_clients = proxy->clients_max;
    proxy->share.clients = calloc(proxy->share.n_clients, sizeof *proxy->share.clients);
    proxy->at = calloc(PROXY_TENANTS + PROXY_TENANTS_MAX + 2 * proxy->share.n_clients +
                           PROXY_ACCEPTORS_MAX + PROXY_ARRIVALS_MAX,
                       sizeof *proxy->at);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (proxy->is_traced)
        vg_trace_begin(&proxy->trace);
    vg_acceptors_open(&proxy->acceptors);
    vg_arrivals_open(&proxy->arrivals);
    if (proxy->is_grouped)
        vg_groups_open(&proxy->groups);
    proxy->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (!ok || !proxy->share.clients || !proxy->at || proxy->signals < 0) {
        fprintf(stderr, "vgpu-proxy: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    for (unsigned i = 0; i < proxy->share.n_clients; i++)
        proxy->share.clients[i].fd = -1;
    for (int i = 0; i < n; i++)
        if (!vg_sockets_add(&proxy->sockets, sockets[i]))
            return 2;
    const char *path = vg_sockets_listen(&proxy->sockets);
    if (path) {
        fprintf(stderr, "vgpu-proxy: %s: %s\n", path, strerror(errno));
        return EXIT_FAILURE;
    }
    if (!vg_sockets_read(&proxy->sockets, &proxy->share))
        return 2;
    proxy->control.tenants = proxy->sockets.tenants;
    proxy->control.n_tenants = proxy->sockets.n;
    proxy->control.share = &proxy->share;
    proxy->control.look = &proxy->look;
    proxy->control.limits = &proxy->limits;
    proxy->control.clients_max = proxy->clients_max;
    proxy->control.linger_s = proxy->linger_s;
    proxy->control.staging = proxy->staging;
    proxy->control.tls = proxy->sockets.tls;
    proxy->control.socket_mode = proxy->sockets.mode;
    if (!vg_control_open(&proxy->control)) {
        fprintf(stderr, "vgpu-proxy: %s: %s\n", proxy->control.path, strerror(errno));
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

static void
proxy_set(struct proxy *proxy, const struct proxy_options *options)
{
    const unsigned *numbers = options->numbers, mebibytes = numbers[PROXY_MEMORY];

    proxy->clients_max = numbers[PROXY_CLIENTS];
    proxy->sockets.clients_max = vg_sockets_usual_clients(proxy->clients_max);
    proxy->drain_s = numbers[PROXY_DRAIN];
    proxy->linger_s = numbers[PROXY_LINGER];
    proxy->share.max_kernel_s = numbers[PROXY_MAX_KERNEL];
    proxy->staging = (size_t)numbers[PROXY_STAGING] << 20;
    proxy->limits.max_kernel_s = numbers[PROXY_MAX_KERNEL];
    proxy->limits.memory = mebibytes ? (uint64_t)mebibytes << 20 : UINT64_MAX;
    proxy->sockets.memory = proxy->limits.memory;
    proxy->sockets.mode = (mode_t)numbers[PROXY_MODE];
    proxy->control.mode = (mode_t)numbers[PROXY_ASK_MODE];
    proxy->limits.objects = numbers[PROXY_OBJECTS];
    proxy->limits.data = (uint64_t)numbers[PROXY_PENDING] << 20;
    proxy->limits.depth = numbers[PROXY_DEPTH];
    proxy->limits.pinned = (uint64_t)numbers[PROXY_PINNED] << 20;
    proxy->limits.is_with_binaries = options->is_with_binaries;
    proxy->groups.root = -1;
    proxy->groups.memory = (uint64_t)numbers[PROXY_HOST_MEMORY] << 20;
    proxy->is_grouped = options->is_grouped;
    proxy->limits.build_s = numbers[PROXY_BUILD];
    proxy->limits.build_cpu_s = numbers[PROXY_BUILD_CPU];
    proxy->confinement = (struct proxy_confinement){.user = options->user,
                                                    .vendors = options->vendors,
                                                    .is_strict = options->is_strict,
                                                    .is_unconfined = options->is_unconfined};
    proxy->confinement.seed = options->is_warm ? &proxy->look.keeper.seed : NULL;
    proxy->is_traced = options->is_traced;
    proxy->control.path = options->ask;
    proxy->control.confinement = &proxy->confinement;
    proxy->sockets.folder = options->sockets;
    proxy->sockets.tls = &options->tls;
    proxy->acceptors.tls = &options->tls;
    proxy->acceptors.confinement = &proxy->confinement;
}

int
main(int argc, char **argv)
{
    struct proxy proxy = {.trace.fd = -1};
    struct proxy_options options;
    int status = vg_options_read(&options, argc, argv);

    if (status >= 0)
        return status;
    /* Clients' processes have another working directory. */
    char *vendors = realpath(options.vendors, NULL);
    if (vendors)
        options.vendors = vendors;
    proxy_set(&proxy, &options);
    if (options.tls.certificate && !vg_acceptor_check(&options.tls))
        return 2;
    if (options.tls.key)
        vg_secret_warn(options.tls.key, "a key");
    if (!vg_proxy_confine_check(&proxy.confinement))
        return PROXY_NOT_CONFINED;
    if (options.is_unconfined)
        vg_cl_say("clients' processes are not confined (--unconfined): they can read this user's "
                  "files and kill each other");
    /* Clients' processes use the vendors directly, and none of these settings. */
    unsetenv("VGPU_OPENCL");
    unsetenv("VGPU_OPENCL_AS_GPU");
    setenv("VGPU_OPENCL_VENDORS", options.vendors, 1);
    vg_cl_control_forbid();
    vg_cl_vendors_forbid_proxies();
    if (!vg_signer_open(&proxy.share.signer, options.binary_key))
        return 2;
    status = proxy_begin(&proxy, options.n_paths, options.paths);
    if (status == EXIT_SUCCESS)
        proxy_run(&proxy);
    if (status == EXIT_SUCCESS)
        vg_control_close(&proxy.control);
    vg_sockets_free(&proxy.sockets);
    free(proxy.share.clients);
    free(proxy.at);
    free(vendors);
    return status;
}
