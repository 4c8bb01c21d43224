/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks whether this machine's libvirt answers. Any libvirt daemon answers a client's first call,
 * which queries the authentication methods. It does so before it knows the client, and on a thread
 * that other calls cannot occupy.
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/doctor.h"
#include "cli/output.h"

#define ANSWER_S 5

/* The message of libvirt's protocol (src/rpc/virnetprotocol.x, src/remote/remote_protocol.x):
 * length, program, version, procedure, type, serial and status, each with 32 bits. */
#define MESSAGE_WORDS  7
#define REMOTE_PROGRAM 0x20008086
#define REMOTE_VERSION 1
#define AUTH_LIST      66
#define TYPE_CALL      0
#define TYPE_REPLY     1

/* A daemon, its socket that any user can connect to, and the effect if it is missing. */
struct libvirt_daemon {
    const char *name;
    const char *socket;
    const char *loss;
};

static const struct libvirt_daemon libvirt_modular[] = {
    {"virtqemud", "virtqemud-sock-ro", "without it vgpud identifies VMs by their processes only"},
    {"virtnodedevd", "virtnodedevd-sock-ro",
     "without it vgpud does not know the host's GPUs and cannot move VMs to them"},
    /* This daemon has libvirtd's socket, and serves other hosts. */
    {"virtproxyd", "libvirt-sock-ro", "without it no other host can move VMs to this host"},
};

static const struct libvirt_daemon libvirt_monolithic = {
    "libvirt", "libvirt-sock-ro", "without it vgpud identifies VMs by their processes only"};

/* A call to a daemon. */
struct libvirt_call {
    int fd; /* -1 if not connected */
    int error;
};

/* ---- calls ---- */

static char *
libvirt_path(const char *root, const char *socket)
{
    return g_strconcat(root, "/run/libvirt/", socket, NULL);
}

static bool
libvirt_has(const char *root, const char *path)
{
    g_autofree char *whole = g_strconcat(root, path, NULL);

    return access(whole, F_OK) == 0;
}

static bool
libvirt_listens(const char *root, const struct libvirt_daemon *daemon)
{
    g_autofree char *path = libvirt_path(root, daemon->socket);

    return access(path, F_OK) == 0;
}

/* Connects and sends the call, without waiting. Even for a hung daemon, the kernel queues both
 * until many clients are waiting. Then the error is EAGAIN. */
static struct libvirt_call
libvirt_call_daemon(const char *root, const struct libvirt_daemon *daemon)
{
    g_autofree char *path = libvirt_path(root, daemon->socket);
    const uint32_t words[MESSAGE_WORDS] = {g_htonl(sizeof(words)), g_htonl(REMOTE_PROGRAM),
                                           g_htonl(REMOTE_VERSION), g_htonl(AUTH_LIST),
                                           g_htonl(TYPE_CALL)};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct libvirt_call call = {.fd = -1, .error = ENAMETOOLONG};

    if (g_strlcpy(address.sun_path, path, sizeof(address.sun_path)) >= sizeof(address.sun_path))
        return call;
    call.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (call.fd >= 0 && connect(call.fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
        send(call.fd, words, sizeof(words), MSG_NOSIGNAL) == (ssize_t)sizeof(words)) {
        call.error = 0;
        return call;
    }
    call.error = errno;
    if (call.fd >= 0)
        close(call.fd);
    call.fd = -1;
    return call;
}

/* Waits for the answer until until_ns, and closes the connection. Returns 0 or an error number. */
static int
libvirt_await(struct libvirt_call *call, int64_t until_ns)
{
    uint32_t words[MESSAGE_WORDS];
    struct pollfd poll = {.fd = call->fd, .events = POLLIN};
    int n;

    if (call->fd < 0)
        return call->error;
    do
        n = vg_clock_poll(&poll, 1, until_ns);
    while (n < 0 && errno == EINTR);
    /* libvirt sends this answer in one piece. */
    const ssize_t got = n > 0 ? recv(call->fd, words, sizeof(words), 0) : 0;
    close(call->fd);
    call->fd = -1;
    if (n == 0)
        return ETIMEDOUT;
    if (got != (ssize_t)sizeof(words) || words[1] != g_htonl(REMOTE_PROGRAM) ||
        words[4] != g_htonl(TYPE_REPLY))
        return EPROTO;
    return 0;
}

/* ---- rows ---- */

/* start is the command to start the daemon, restart the command for a hung daemon. */
static void
libvirt_add(json_object *checks, const struct libvirt_daemon *daemon, int error, const char *start,
            const char *restart)
{
    switch (error) {
    case 0:
        vg_doctor_add(checks, daemon->name, VG_HEALTH_OK, NULL, "it answers on /run/libvirt/%s",
                      daemon->socket);
        break;
    case ENOENT:
    case ECONNREFUSED:
        vg_doctor_add(checks, daemon->name, VG_HEALTH_LACKS, start, "it is not listening; %s",
                      daemon->loss);
        break;
    case EAGAIN:
        vg_doctor_add(checks, daemon->name, VG_HEALTH_BROKEN, restart,
                      "it accepts no clients, and many are waiting; %s", daemon->loss);
        break;
    case ETIMEDOUT:
        vg_doctor_add(checks, daemon->name, VG_HEALTH_BROKEN, restart,
                      "it has not answered for %d s; %s", ANSWER_S, daemon->loss);
        break;
    default:
        vg_doctor_add(checks, daemon->name, VG_HEALTH_LACKS, NULL,
                      "whether it answers is unknown: /run/libvirt/%s: %s", daemon->socket,
                      g_strerror(error));
    }
}

/* Sends all calls before waiting for the first answer. */
static void
libvirt_check_modular(json_object *checks, const char *root)
{
    struct libvirt_call calls[G_N_ELEMENTS(libvirt_modular)];

    for (size_t i = 0; i < G_N_ELEMENTS(calls); i++)
        calls[i] = libvirt_call_daemon(root, &libvirt_modular[i]);
    const int64_t until_ns = vg_clock_monotonic_ns() + ANSWER_S * VG_NS_PER_S;
    for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
        const struct libvirt_daemon *daemon = &libvirt_modular[i];
        g_autofree char *start = g_strdup_printf("systemctl enable --now %s.socket", daemon->name);
        g_autofree char *restart = g_strdup_printf("systemctl restart %s", daemon->name);
        libvirt_add(checks, daemon, libvirt_await(&calls[i], until_ns), start, restart);
    }
}

static void
libvirt_check_monolithic(json_object *checks, const char *root)
{
    const struct libvirt_daemon *daemon = &libvirt_monolithic;

    if (libvirt_listens(root, daemon)) {
        struct libvirt_call call = libvirt_call_daemon(root, daemon);
        const int64_t until_ns = vg_clock_monotonic_ns() + ANSWER_S * VG_NS_PER_S;
        libvirt_add(checks, daemon, libvirt_await(&call, until_ns),
                    "systemctl enable --now libvirtd", "systemctl restart libvirtd");
        return;
    }
    const bool has_libvirtd = libvirt_has(root, "/usr/sbin/libvirtd");
    vg_doctor_add(checks, daemon->name, VG_HEALTH_LACKS,
                  has_libvirtd ? "systemctl enable --now libvirtd"
                               : "apt install libvirt-daemon-system",
                  "%s; %s", has_libvirtd ? "libvirtd is not running" : "libvirt is not installed",
                  daemon->loss);
}

/* A host has either libvirtd or the modular daemons. If it has both, it uses libvirtd unless
 * virtqemud listens. */
static bool
libvirt_is_modular(const char *root)
{
    return libvirt_listens(root, &libvirt_modular[0]) ||
           (libvirt_has(root, "/usr/sbin/virtqemud") && !libvirt_has(root, "/usr/sbin/libvirtd"));
}

void
vg_doctor_look_for_libvirt(json_object *checks, const char *root)
{
    if (libvirt_is_modular(root))
        libvirt_check_modular(checks, root);
    else
        libvirt_check_monolithic(checks, root);
}

void
vg_doctor_read_daemons(json_object *checks, json_object *host, const char *root)
{
    json_object *parts = vg_output_member(host, "parts");

    for (size_t i = 0; i < vg_output_length(parts); i++) {
        json_object *part = json_object_array_get_idx(parts, i);
        const char *name = json_object_get_string(vg_output_member(part, "name"));
        if (g_strcmp0(name, "collector:libvirt") == 0 && libvirt_is_modular(root)) {
            libvirt_check_modular(checks, root);
            return;
        }
    }
}
