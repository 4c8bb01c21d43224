/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpu-proxy: serves programs whose machine has no GPU of its own. This process only listens; each
 * client gets a child of its own, in which alone a vendor's library is loaded. Whatever a client
 * does to its child, the others have theirs.
 */
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <malloc.h>

#include "opencl/icd/control.h"
#include "opencl/icd/say.h"
#include "opencl/icd/vendor.h"
#include "opencl/proxy/confine.h"
#include "opencl/wire/serve.h"

#define PROXY_KEPT (32 << 20) /* bytes */

struct proxy {
    const char *path;
    const char *user; /* of the clients' processes; NULL: this one's */
    struct vg_serve_limits limits;
    int listener, signals;
    unsigned n_clients, clients_max;
    unsigned drain_s;
    pid_t *children; /* CLIENTS_MAX of them; 0: none */
};

static const char proxy_usage[] =
    "Usage: vgpu-proxy [OPTION]... SOCKET\n"
    "Serves programs on the unix socket SOCKET with the OpenCL of this machine's vendors.\n"
    "\n"
    "  --clients=NUMBER   at most so many at a time (64)\n"
    "  --drain=SECONDS    after SIGTERM, wait so long for clients to leave (30)\n"
    "  --memory=MIB       memory of the device for each client (all there is)\n"
    "  --mode=OCTAL       who may connect (0600)\n"
    "  --user=NAME        whose the clients' processes are (this one's)\n"
    "  --vendors=FOLDER   where the vendors' .icd files are (/etc/OpenCL/vendors)\n"
    "  -h, --help         show this help\n"
    "  -V, --version      show the version\n";

static int64_t
proxy_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* ---- a client's process ---- */

static _Noreturn void
proxy_serve(const struct proxy *proxy, int fd)
{
    struct vg_wire_link link;
    sigset_t none;

    close(proxy->listener);
    close(proxy->signals);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Who stops the proxy as a group wants its clients served to their end. */
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_NAME, "vgpu-proxy-one", 0, 0, 0);
    if (!vg_proxy_become(proxy->user) || !vg_proxy_confine()) {
        vg_cl_say("a client cannot be confined: %s", strerror(errno));
        _exit(EXIT_FAILURE);
    }
    /* What comes and goes again and again is kept. */
    mallopt(M_MMAP_THRESHOLD, PROXY_KEPT);
    mallopt(M_TRIM_THRESHOLD, 8 * PROXY_KEPT);
    vg_wire_link_take(&link, fd);
    bool ok = vg_serve_client(&link, &proxy->limits);
    fflush(NULL);
    _exit(ok ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void
proxy_accept(struct proxy *proxy)
{
    int fd = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    unsigned i = 0;

    if (fd < 0)
        return;
    while (i < proxy->clients_max && proxy->children[i])
        i++;
    if (i == proxy->clients_max) {
        vg_cl_say("a client more than %u is refused", proxy->clients_max);
        close(fd);
        return;
    }
    pid_t pid = fork();
    if (pid == 0)
        proxy_serve(proxy, fd);
    if (pid < 0) {
        vg_cl_say("a client is refused: %s", strerror(errno));
    } else {
        proxy->children[i] = pid;
        proxy->n_clients++;
    }
    close(fd);
}

static void
proxy_reap(struct proxy *proxy)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (unsigned i = 0; i < proxy->clients_max; i++)
            if (proxy->children[i] == pid) {
                proxy->children[i] = 0;
                proxy->n_clients--;
            }
        if (WIFSIGNALED(status))
            vg_cl_say("the process %d of a client was ended by signal %d", (int)pid,
                      WTERMSIG(status));
    }
}

/* ---- listening ---- */

static bool
proxy_listen(struct proxy *proxy, mode_t mode)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(proxy->path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(address.sun_path, proxy->path);
    proxy->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (proxy->listener < 0)
        return false;
    /* One that nobody listens on is left of a proxy that was killed. */
    if (connect(proxy->listener, (struct sockaddr *)&address, sizeof address) == 0) {
        errno = EADDRINUSE;
        return false;
    }
    close(proxy->listener);
    proxy->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat status;
    if (lstat(proxy->path, &status) == 0 && S_ISSOCK(status.st_mode))
        unlink(proxy->path);
    mode_t before = umask(0177);
    bool ok = proxy->listener >= 0 &&
              bind(proxy->listener, (struct sockaddr *)&address, sizeof address) == 0;
    umask(before);
    return ok && chmod(proxy->path, mode) == 0 && listen(proxy->listener, 64) == 0;
}

static bool
proxy_get_signal(const struct proxy *proxy, struct signalfd_siginfo *info)
{
    return read(proxy->signals, info, sizeof *info) == (ssize_t)sizeof *info;
}

/* Returns when it was told to stop, and its clients have left. */
static void
proxy_run(struct proxy *proxy)
{
    int64_t until = INT64_MAX;

    while (until == INT64_MAX || (proxy->n_clients && proxy_now_ms() < until)) {
        struct pollfd at[2] = {{.fd = proxy->signals, .events = POLLIN},
                               {.fd = proxy->listener, .events = POLLIN}};
        struct signalfd_siginfo info;
        if (poll(at, until == INT64_MAX ? 2 : 1, until == INT64_MAX ? -1 : 200) < 0)
            continue;
        if ((at[0].revents & POLLIN) && proxy_get_signal(proxy, &info) &&
            info.ssi_signo != SIGCHLD && until == INT64_MAX) {
            until = proxy_now_ms() + proxy->drain_s * INT64_C(1000);
            close(proxy->listener);
            unlink(proxy->path);
        }
        proxy_reap(proxy);
        if (until == INT64_MAX && (at[1].revents & POLLIN))
            proxy_accept(proxy);
    }
    for (unsigned i = 0; i < proxy->clients_max; i++)
        if (proxy->children[i])
            kill(proxy->children[i], SIGKILL);
}

/* ---- the command line ---- */

static bool
proxy_number(const char *text, int base, unsigned most, unsigned *number)
{
    char *end;

    errno = 0;
    unsigned long value = strtoul(text, &end, base);
    if (errno || end == text || *end || *text == '-' || value > most) {
        fprintf(stderr, "vgpu-proxy: '%s' is no number up to %u\n", text, most);
        return false;
    }
    *number = (unsigned)value;
    return true;
}

int
main(int argc, char **argv)
{
    static const struct option options[] = {
        {"clients", required_argument, NULL, 'c'},
        {"drain", required_argument, NULL, 'd'},
        {"memory", required_argument, NULL, 'M'},
        {"user", required_argument, NULL, 'u'},
        {"mode", required_argument, NULL, 'm'},
        {"vendors", required_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    struct proxy proxy = {.clients_max = 64, .drain_s = 30};
    const char *vendors = "/etc/OpenCL/vendors";
    unsigned mode = 0600, mebibytes = 0;
    bool ok = true;
    sigset_t signals;
    int c;

    while (ok && (c = getopt_long(argc, argv, "hV", options, NULL)) != -1)
        switch (c) {
        case 'c':
            ok = proxy_number(optarg, 10, 4096, &proxy.clients_max);
            break;
        case 'd':
            ok = proxy_number(optarg, 10, 86400, &proxy.drain_s);
            break;
        case 'm':
            ok = proxy_number(optarg, 8, 0777, &mode);
            break;
        case 'M':
            ok = proxy_number(optarg, 10, UINT_MAX, &mebibytes);
            break;
        case 'u':
            proxy.user = optarg;
            break;
        case 'v':
            vendors = optarg;
            break;
        case 'h':
            fputs(proxy_usage, stdout);
            return EXIT_SUCCESS;
        case 'V':
            puts("vgpu-proxy " PACKAGE_VERSION);
            return EXIT_SUCCESS;
        default:
            return 2;
        }
    if (ok && optind != argc - 1)
        fputs(proxy_usage, stderr);
    if (!ok || optind != argc - 1)
        return 2;
    proxy.path = argv[optind];
    proxy.limits.memory = mebibytes ? (uint64_t)mebibytes << 20 : UINT64_MAX;
    /* The clients' processes are nobody's programs: they have the vendors, and none of these. */
    unsetenv("VGPU_OPENCL");
    unsetenv("VGPU_OPENCL_AS_GPU");
    setenv("VGPU_OPENCL_VENDORS", vendors, 1);
    vg_cl_control_forbid();
    vg_cl_vendors_forbid_proxies();
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    proxy.signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    proxy.children = calloc(proxy.clients_max, sizeof *proxy.children);
    if (proxy.signals < 0 || !proxy.children || !proxy_listen(&proxy, mode)) {
        fprintf(stderr, "vgpu-proxy: %s: %s\n", proxy.path, strerror(errno));
        return EXIT_FAILURE;
    }
    proxy_run(&proxy);
    free(proxy.children);
    return EXIT_SUCCESS;
}
