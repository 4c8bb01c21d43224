/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpu-proxy: serves programs whose machine has no GPU of its own. This process only listens; each
 * client gets a child of its own, in which alone a vendor's library is loaded. Whatever a client
 * does to its child, the others have theirs.
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
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <malloc.h>

#include "opencl/icd/control.h"
#include "opencl/icd/say.h"
#include "opencl/icd/vendor.h"
#include "opencl/proxy/confine.h"
#include "opencl/proxy/desk.h"
#include "opencl/proxy/front.h"
#include "opencl/proxy/look.h"
#include "opencl/proxy/options.h"
#include "opencl/proxy/peer.h"
#include "opencl/proxy/share.h"
#include "opencl/proxy/sockets.h"
#include "opencl/proxy/trace.h"
#include "opencl/track/clock.h"
#include "opencl/wire/address.h"
#include "opencl/wire/pass.h"
#include "opencl/wire/serve-turn.h"
#include "opencl/wire/serve.h"

#define PROXY_KEPT     (32 << 20) /* bytes */
#define PROXY_BACK_MAX 16         /* that come back at a time, besides those that are there */
#define PROXY_TENANTS  (1 + PROXY_DESK_FDS) /* where they begin among what is polled */

struct proxy {
    const char *user; /* of the clients' processes; NULL: this one's */
    struct vg_serve_limits limits;
    bool is_strict; /* what a client's process may not do ends it */
    int signals;
    unsigned drain_s, clients_max, linger_s;
    size_t staging; /* bytes of memory in common with each client */
    struct proxy_sockets sockets;
    struct proxy_share share;
    struct proxy_desk desk;
    struct proxy_look look;
    struct proxy_fronts fronts;
    struct proxy_trace trace;
    bool is_traced;
    struct pollfd *at; /* the signals, the desk's, the tenants, the clients, and the fronts */
};

/* ---- a client's process ---- */

/* The proxy knows which process the other side of the link has already. */
static bool
proxy_hand_over(const struct vg_wire_link *link, int turns,
                const struct vg_wire_session_hello *hello)
{
    const struct vg_turn_link message = {VG_TURN_LINK, *hello};

    return vg_wire_pass(turns, &message, sizeof message, link->fd, 0);
}

/* Closes what a process has of the proxy that is not to have it. */
static void
proxy_leave(const void *data)
{
    const struct proxy *proxy = data;

    vg_sockets_leave(&proxy->sockets);
    for (unsigned i = 0; i < proxy->share.n_clients; i++) {
        if (proxy->share.clients[i].fd >= 0)
            close(proxy->share.clients[i].fd);
        vg_share_free_counts(proxy->share.clients[i].counts);
    }
    vg_desk_leave(&proxy->desk);
    if (proxy->trace.fd >= 0)
        close(proxy->trace.fd);
    close(proxy->signals);
    vg_fronts_leave(&proxy->fronts);
}

/* By errno. */
static void
proxy_say_refused(const struct proxy *proxy, const struct proxy_client *client)
{
    char why[VG_SERVE_NOTE_MAX];

    if (errno == EUSERS)
        snprintf(why, sizeof why, "a program more than the %u of this proxy", proxy->clients_max);
    else if (errno == EACCES)
        snprintf(why, sizeof why, "a program with another token, from %s", client->from);
    else if (errno == EPROTONOSUPPORT)
        snprintf(why, sizeof why, "one who speaks TLS, which this address does not, from %s",
                 client->from);
    else if (errno == ETIMEDOUT)
        snprintf(why, sizeof why, "one who says nothing for %d s, from %s", VG_WIRE_OPEN_S,
                 client->from);
    else if (errno == EPROTO)
        snprintf(why, sizeof why, "one who does not speak as the library does, from %s",
                 client->from);
    else
        snprintf(why, sizeof why, "a program from %s that went before it had begun: %s",
                 client->from, strerror(errno));
    vg_cl_say("%s: a client is refused: %s", client->tenant->path, why);
    if (client->counts)
        vg_serve_note(&client->counts->refused, "%s", why);
}

/* CLIENT is what the proxy knows of it. It may begin a session, or else only come back to one. */
static _Noreturn void
proxy_serve(const struct proxy *proxy, const struct proxy_client *client, int fd, int turns,
            bool may_begin)
{
    const struct proxy_tenant *tenant = client->tenant;
    const struct vg_wire_offer offer = {.staging = proxy->staging,
                                        .token = tenant->has_token ? tenant->token : NULL,
                                        .is_known = client->is_known,
                                        .id = may_begin ? client->session : NULL,
                                        .linger_s = proxy->linger_s};
    struct vg_serve_limits limits = proxy->limits;
    struct vg_wire_session_hello hello;
    struct vg_wire_link link;
    sigset_t none;

    proxy_leave(proxy);
    limits.counts = client->counts;
    limits.memory = tenant->memory;
    limits.turns = turns;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Who stops the proxy as a group wants its clients served to their end. */
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_NAME, "vgpu-proxy-one", 0, 0, 0);
    if (!vg_proxy_become(proxy->user) || !vg_proxy_confine(proxy->is_strict)) {
        vg_cl_say("a client cannot be confined: %s", strerror(errno));
        _exit(EXIT_FAILURE);
    }
    /* What comes and goes again and again is kept. */
    mallopt(M_MMAP_THRESHOLD, PROXY_KEPT);
    mallopt(M_TRIM_THRESHOLD, 8 * PROXY_KEPT);
    enum vg_wire_taken taken = vg_wire_link_take(&link, fd, &offer, &hello);
    if (taken == VG_WIRE_COMES_BACK)
        _exit(proxy_hand_over(&link, turns, &hello) ? EXIT_SUCCESS : EXIT_FAILURE);
    if (taken == VG_WIRE_REFUSED)
        proxy_say_refused(proxy, client);
    bool ok = taken == VG_WIRE_TAKEN && may_begin;
    struct vg_serve *serve = ok ? vg_serve_begin(&link, &limits) : NULL;
    ok = serve && vg_serve_run(serve);
    if (vg_wire_link_why(&link))
        vg_cl_say("a client is given up, as %s", vg_wire_link_why(&link));
    fflush(NULL);
    _exit(ok ? EXIT_SUCCESS : EXIT_FAILURE);
}

static unsigned
proxy_clients_n(const struct proxy *proxy)
{
    unsigned n = 0;

    for (unsigned i = 0; i < proxy->share.n_clients; i++)
        n += proxy->share.clients[i].pid != 0;
    return n;
}

static bool
proxy_draw(unsigned char *id, size_t size)
{
    return getrandom(id, size, 0) == (ssize_t)size;
}

/* FD is not the caller's any more. FROM is who is there; whether that one IS_KNOWN to be the VM's
 * already. */
static void
proxy_take(struct proxy *proxy, struct proxy_tenant *tenant, int fd, const char *from,
           bool is_known)
{
    struct proxy_client client = {.fd = -1, .tenant = tenant, .is_known = is_known};
    int pair[2] = {-1, -1}, memory = -1;
    unsigned i = 0;

    /* Those that come back come in besides: what they say is for a process to hear. */
    bool may_begin = proxy_clients_n(proxy) < proxy->clients_max;
    while (i < proxy->share.n_clients && proxy->share.clients[i].pid)
        i++;
    if (i == proxy->share.n_clients || (!may_begin && !vg_wire_address_is_far(tenant->path))) {
        vg_cl_say("a client more than %u is refused", proxy->clients_max);
        vg_serve_note(&tenant->refused, "a program more than the %u of this proxy",
                      proxy->clients_max);
        close(fd);
        return;
    }
    client.came = vg_cl_now();
    snprintf(client.from, sizeof client.from, "%s", from);
    client.counts = proxy->desk.path || proxy->is_traced ? vg_share_new_counts(&memory) : NULL;
    bool ok = proxy_draw(client.session, sizeof client.session) &&
              socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0;
    client.pid = ok ? fork() : -1;
    client.fd = pair[0];
    if (client.pid == 0) {
        close(pair[0]);
        if (memory >= 0)
            close(memory);
        proxy_serve(proxy, &client, fd, pair[1], may_begin);
    }
    if (client.pid < 0) {
        vg_cl_say("a client is refused: %s", strerror(errno));
        if (pair[0] >= 0)
            close(pair[0]);
        vg_share_free_counts(client.counts);
    } else {
        proxy->share.clients[i] = client;
        vg_trace_tell(&proxy->trace, &client, memory);
    }
    if (memory >= 0)
        close(memory);
    if (pair[1] >= 0)
        close(pair[1]);
    close(fd);
}

static void
proxy_accept(struct proxy *proxy, struct proxy_tenant *tenant)
{
    int fd = accept4(tenant->listener, NULL, NULL, SOCK_CLOEXEC);
    char from[PROXY_FROM_MAX];

    if (fd < 0)
        return;
    if (tenant->cid && vg_peer_cid(fd) != tenant->cid) {
        vg_cl_say("a client of another VM than %u is refused", tenant->cid);
        vg_serve_note(&tenant->refused, "a program of VM %u by vsock, not %u", vg_peer_cid(fd),
                      tenant->cid);
        close(fd);
        return;
    }
    vg_peer_describe(fd, from);
    if (vg_wire_address_is_tls(tenant->path))
        vg_front_begin(&proxy->fronts, tenant, fd, from, proxy_leave, proxy);
    else
        proxy_take(proxy, tenant, fd, from, false);
}

/* Takes those who have shaken hands. */
static void
proxy_hear_fronts(struct proxy *proxy, const struct pollfd *at, bool is_ending)
{
    struct proxy_front front;

    for (unsigned i = 0; i < PROXY_FRONTS_MAX; i++) {
        if (!at[i].revents || !vg_front_hear(&proxy->fronts, i, &front))
            continue;
        if (is_ending)
            close(front.plain);
        else
            proxy_take(proxy, front.tenant, front.plain, front.from, front.is_known);
    }
}

static void
proxy_reap(struct proxy *proxy)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (vg_look_ended(&proxy->look, pid, status))
            continue;
        for (unsigned i = 0; i < proxy->share.n_clients; i++)
            if (proxy->share.clients[i].pid == pid) {
                vg_trace_tell(&proxy->trace, &proxy->share.clients[i], -1);
                vg_share_gone(&proxy->share, &proxy->share.clients[i]);
            }
        if (!vg_trace_is_gone(&proxy->trace, pid) && WIFSIGNALED(status))
            vg_cl_say("the process %d of a client was ended by signal %d", (int)pid,
                      WTERMSIG(status));
    }
}

/* What each socket's clients had of the device. */
static void
proxy_tell(const struct proxy *proxy)
{
    for (unsigned i = 0; i < proxy->sockets.n; i++) {
        const struct proxy_tenant *tenant = &proxy->sockets.tenants[i];
        if (tenant->is_gone)
            continue;
        vg_cl_say("%s: weight %u, had the device for %.6f s in %llu turns, %llu ended",
                  tenant->path, tenant->weight, (double)vg_share_held(&proxy->share, tenant) / 1e9,
                  (unsigned long long)tenant->turns, (unsigned long long)tenant->ended);
    }
}

/* ---- listening ---- */

static bool
proxy_get_signal(const struct proxy *proxy, struct signalfd_siginfo *info)
{
    return read(proxy->signals, info, sizeof *info) == (ssize_t)sizeof *info;
}

/* Waits for up to MS; -1: for ever. */
static bool
proxy_wait(struct proxy *proxy, int ms)
{
    struct pollfd *tenants = &proxy->at[PROXY_TENANTS], *clients = tenants + proxy->sockets.n;

    proxy->at[0] = (struct pollfd){.fd = proxy->signals, .events = POLLIN};
    vg_desk_poll(&proxy->desk, &proxy->at[1]);
    for (unsigned i = 0; i < proxy->sockets.n; i++)
        tenants[i] = (struct pollfd){.fd = proxy->sockets.tenants[i].listener, .events = POLLIN};
    for (unsigned i = 0; i < proxy->share.n_clients; i++)
        clients[i] = (struct pollfd){.fd = proxy->share.clients[i].fd, .events = POLLIN};
    vg_fronts_poll(&proxy->fronts, clients + proxy->share.n_clients);
    return poll(proxy->at,
                PROXY_TENANTS + proxy->sockets.n + proxy->share.n_clients + PROXY_FRONTS_MAX,
                ms) >= 0;
}

/* Takes what the folder says now. What was polled has been looked at. */
static void
proxy_read(struct proxy *proxy)
{
    if (!proxy->sockets.folder)
        vg_cl_say("there is no folder of sockets (--sockets) to be read again");
    else if (vg_sockets_read(&proxy->sockets, &proxy->share))
        vg_cl_say("the sockets are those that %s has now", proxy->sockets.folder);
    else
        vg_cl_say("the sockets stay as they were");
    proxy->desk.n_tenants = proxy->sockets.n;
}

/* Returns when it was told to stop, and its clients have left. */
static void
proxy_run(struct proxy *proxy)
{
    int64_t until = INT64_MAX;

    while (until == INT64_MAX || (proxy_clients_n(proxy) && vg_cl_now() < until)) {
        int ms = vg_share_decide(&proxy->share), desk_ms = vg_desk_look(&proxy->desk);
        struct signalfd_siginfo info;
        int sockets_ms = vg_sockets_look(&proxy->sockets);
        bool is_to_read = false;
        if (desk_ms >= 0 && (ms < 0 || ms > desk_ms))
            ms = desk_ms;
        if (sockets_ms >= 0 && (ms < 0 || ms > sockets_ms))
            ms = sockets_ms;
        if (until != INT64_MAX && (ms < 0 || ms > 200))
            ms = 200;
        if (!proxy_wait(proxy, ms))
            continue;
        /* Those that are there, before others come to their places. */
        for (unsigned i = 0; i < proxy->share.n_clients; i++)
            if (proxy->at[PROXY_TENANTS + proxy->sockets.n + i].revents)
                vg_share_hear(&proxy->share, &proxy->share.clients[i]);
        if ((proxy->at[0].revents & POLLIN) && proxy_get_signal(proxy, &info)) {
            if (info.ssi_signo == SIGUSR1) {
                proxy_tell(proxy);
            } else if (info.ssi_signo == SIGHUP) {
                is_to_read = true;
                vg_look_again(&proxy->look);
            } else if (info.ssi_signo != SIGCHLD && until == INT64_MAX) {
                until = vg_cl_now() + proxy->drain_s * INT64_C(1000000000);
                vg_sockets_close(&proxy->sockets);
            }
        }
        proxy_reap(proxy);
        proxy_hear_fronts(proxy,
                          &proxy->at[PROXY_TENANTS + proxy->sockets.n + proxy->share.n_clients],
                          until != INT64_MAX);
        for (unsigned i = 0; i < proxy->sockets.n && until == INT64_MAX; i++)
            if (proxy->at[PROXY_TENANTS + i].revents & POLLIN)
                proxy_accept(proxy, &proxy->sockets.tenants[i]);
        vg_desk_serve(&proxy->desk, &proxy->at[1]);
        if (until == INT64_MAX)
            vg_look_begin(&proxy->look, proxy->user, proxy->is_strict, proxy_leave, proxy);
        if (is_to_read && until == INT64_MAX)
            proxy_read(proxy);
    }
    for (unsigned i = 0; i < proxy->share.n_clients; i++)
        if (proxy->share.clients[i].pid)
            kill(proxy->share.clients[i].pid, SIGKILL);
    if (proxy->look.pid)
        kill(proxy->look.pid, SIGKILL);
    proxy_tell(proxy);
}

/* ---- the command line ---- */

/* All the sockets of the command line, which are listened on. */
static int
proxy_begin(struct proxy *proxy, int n, char **sockets)
{
    sigset_t signals;

    bool ok = vg_sockets_open(&proxy->sockets);
    proxy->share.n_clients = proxy->clients_max + PROXY_BACK_MAX;
    proxy->share.clients = calloc(proxy->share.n_clients, sizeof *proxy->share.clients);
    proxy->at =
        calloc(PROXY_TENANTS + PROXY_TENANTS_MAX + proxy->share.n_clients + PROXY_FRONTS_MAX,
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
    vg_fronts_open(&proxy->fronts);
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
    proxy->desk.tenants = proxy->sockets.tenants;
    proxy->desk.n_tenants = proxy->sockets.n;
    proxy->desk.share = &proxy->share;
    proxy->desk.look = &proxy->look;
    proxy->desk.limits = &proxy->limits;
    proxy->desk.clients_max = proxy->clients_max;
    proxy->desk.linger_s = proxy->linger_s;
    proxy->desk.staging = proxy->staging;
    proxy->desk.tls = proxy->sockets.tls;
    proxy->desk.socket_mode = proxy->sockets.mode;
    if (!vg_desk_open(&proxy->desk)) {
        fprintf(stderr, "vgpu-proxy: %s: %s\n", proxy->desk.path, strerror(errno));
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

static void
proxy_set(struct proxy *proxy, const struct proxy_options *options)
{
    const unsigned *numbers = options->numbers, mebibytes = numbers[PROXY_MEMORY];

    proxy->clients_max = numbers[PROXY_CLIENTS];
    proxy->drain_s = numbers[PROXY_DRAIN];
    proxy->linger_s = numbers[PROXY_LINGER];
    proxy->share.max_kernel_s = numbers[PROXY_MAX_KERNEL];
    proxy->staging = (size_t)numbers[PROXY_STAGING] << 20;
    proxy->limits.max_kernel_s = numbers[PROXY_MAX_KERNEL];
    proxy->limits.memory = mebibytes ? (uint64_t)mebibytes << 20 : UINT64_MAX;
    proxy->sockets.memory = proxy->limits.memory;
    proxy->sockets.mode = (mode_t)numbers[PROXY_MODE];
    proxy->desk.mode = (mode_t)numbers[PROXY_ASK_MODE];
    proxy->limits.objects = numbers[PROXY_OBJECTS];
    proxy->limits.data = (uint64_t)numbers[PROXY_PENDING] << 20;
    proxy->limits.depth = numbers[PROXY_DEPTH];
    proxy->limits.pinned = (uint64_t)numbers[PROXY_PINNED] << 20;
    proxy->limits.is_with_binaries = options->is_with_binaries;
    proxy->is_strict = options->is_strict;
    proxy->is_traced = options->is_traced;
    proxy->user = options->user;
    proxy->desk.path = options->ask;
    proxy->sockets.folder = options->sockets;
    proxy->sockets.tls = &options->tls;
    proxy->fronts.tls = &options->tls;
    proxy->fronts.user = options->user;
    proxy->fronts.is_strict = options->is_strict;
}

int
main(int argc, char **argv)
{
    struct proxy proxy = {.user = NULL, .trace.fd = -1};
    struct proxy_options options;
    int status = vg_options_read(&options, argc, argv);

    if (status >= 0)
        return status;
    proxy_set(&proxy, &options);
    if (options.tls.certificate && !vg_front_check(&options.tls))
        return 2;
    /* The clients' processes are nobody's programs: they have the vendors, and none of these. */
    unsetenv("VGPU_OPENCL");
    unsetenv("VGPU_OPENCL_AS_GPU");
    setenv("VGPU_OPENCL_VENDORS", options.vendors, 1);
    vg_cl_control_forbid();
    vg_cl_vendors_forbid_proxies();
    status = proxy_begin(&proxy, options.n_paths, options.paths);
    if (status == EXIT_SUCCESS)
        proxy_run(&proxy);
    if (status == EXIT_SUCCESS)
        vg_desk_close(&proxy.desk);
    vg_sockets_free(&proxy.sockets);
    free(proxy.share.clients);
    free(proxy.at);
    return status;
}
