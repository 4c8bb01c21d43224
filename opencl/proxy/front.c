/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/front.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "opencl/icd/say.h"
#include "opencl/proxy/confine.h"
#include "opencl/track/clock.h"
#include "opencl/wire/address.h"

/* What such a process says once. */
struct front_said {
    bool ok, is_known;
    char why[VG_WIRE_TLS_FAULT];
};

void
vg_fronts_open(struct proxy_fronts *fronts)
{
    for (unsigned i = 0; i < PROXY_FRONTS_MAX; i++)
        fronts->of[i] = (struct proxy_front){.said = -1, .plain = -1};
}

/* ---- in the process ---- */

static void
front_say(int fd, const struct front_said *said)
{
    ssize_t n = send(fd, said, sizeof *said, MSG_NOSIGNAL);

    (void)n; /* the proxy is gone */
}

/* Finds out whether the client may come. */
static bool
front_may_come(struct vg_wire_tls *tls, const struct proxy_tenant *tenant, struct front_said *said)
{
    enum vg_wire_tls_shown shown = VG_WIRE_TLS_NONE;

    if (tenant->vm)
        shown = vg_wire_tls_check(tls, tenant->vm, said->why);
    said->is_known = shown == VG_WIRE_TLS_SHOWN;
    if (said->is_known || (shown == VG_WIRE_TLS_NONE && tenant->has_token))
        return true;
    if (shown == VG_WIRE_TLS_NONE)
        snprintf(said->why, sizeof said->why, "the program has shown no certificate of the VM '%s'",
                 tenant->vm);
    vg_wire_tls_refuse(tls, said->why);
    return false;
}

static _Noreturn void
front_serve(const struct proxy_fronts *fronts, const struct proxy_tenant *tenant, int fd, int said,
            int plain)
{
    struct vg_wire_tls_files files = *fronts->tls;
    struct front_said message = {.ok = false};
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_NAME, "vgpu-proxy-tls", 0, 0, 0);
    vg_wire_address_tune(fd);
    if (!tenant->vm)
        files.ca = NULL;
    struct vg_wire_tls *tls = vg_wire_tls_begin(&files, message.why);
    if (tls && (!vg_proxy_become(fronts->user) || !vg_proxy_confine(fronts->is_strict))) {
        snprintf(message.why, sizeof message.why, "it cannot be confined: %s", strerror(errno));
        vg_wire_tls_free(tls);
        tls = NULL;
    }
    message.ok = tls && vg_wire_tls_accept(tls, fd, PROXY_SHAKE_S, message.why) &&
                 front_may_come(tls, tenant, &message);
    front_say(said, &message);
    close(said);
    if (message.ok)
        vg_wire_tls_carry(tls, plain);
    _exit(message.ok ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* ---- in the proxy ---- */

static void
front_end(struct proxy_front *front)
{
    if (front->said >= 0)
        close(front->said);
    if (front->plain >= 0)
        close(front->plain);
    free(front->path);
    *front = (struct proxy_front){.said = -1, .plain = -1};
}

static void
front_say_refused(const struct proxy_front *front, const char *why)
{
    vg_cl_say("%s: a client from %s is refused: %s", front->path, front->from, why);
    if (!front->tenant->is_gone && strcmp(front->tenant->path, front->path) == 0)
        vg_serve_note(&front->tenant->refused, "from %s: %s", front->from, why);
}

/* Returns a free place, which may have been that of the one that has taken longest. */
static struct proxy_front *
front_place(struct proxy_fronts *fronts)
{
    struct proxy_front *oldest = &fronts->of[0];

    for (unsigned i = 0; i < PROXY_FRONTS_MAX; i++) {
        struct proxy_front *front = &fronts->of[i];
        if (!front->pid)
            return front;
        oldest = front->since < oldest->since ? front : oldest;
    }
    front_say_refused(oldest, "others want to shake hands");
    kill(oldest->pid, SIGKILL);
    front_end(oldest);
    return oldest;
}

void
vg_front_begin(struct proxy_fronts *fronts, struct proxy_tenant *tenant, int fd, const char *from,
               void (*leave)(const void *data), const void *data)
{
    struct proxy_front *front = front_place(fronts);
    int said[2] = {-1, -1}, plain[2] = {-1, -1};
    char *path = strdup(tenant->path);
    pid_t pid = -1;

    if (path && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, said) == 0 &&
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, plain) == 0)
        pid = fork();
    if (pid == 0) {
        leave(data);
        close(said[0]);
        close(plain[0]);
        front_serve(fronts, tenant, fd, said[1], plain[1]);
    }
    int error = errno;
    close(fd);
    if (said[1] >= 0)
        close(said[1]);
    if (plain[1] >= 0)
        close(plain[1]);
    *front = (struct proxy_front){.pid = pid < 0 ? 0 : pid,
                                  .said = said[0],
                                  .plain = plain[0],
                                  .path = path,
                                  .tenant = tenant,
                                  .since = vg_cl_now()};
    snprintf(front->from, sizeof front->from, "%s", from);
    if (pid > 0)
        return;
    vg_cl_say("%s: a client is refused: %s", tenant->path, strerror(error));
    front_end(front);
}

void
vg_fronts_poll(const struct proxy_fronts *fronts, struct pollfd *at)
{
    for (unsigned i = 0; i < PROXY_FRONTS_MAX; i++)
        at[i] = (struct pollfd){.fd = fronts->of[i].said, .events = POLLIN};
}

bool
vg_front_hear(struct proxy_fronts *fronts, unsigned place, struct proxy_front *done)
{
    struct proxy_front *front = &fronts->of[place];
    struct front_said said = {.ok = false};
    ssize_t n = front->pid ? recv(front->said, &said, sizeof said, MSG_DONTWAIT) : -1;

    if (n < 0)
        return false;
    said.why[sizeof said.why - 1] = '\0';
    bool ok = n == (ssize_t)sizeof said && said.ok;
    /* The socket may have been closed, and its place be another one's. */
    bool is_there = !front->tenant->is_gone && strcmp(front->tenant->path, front->path) == 0;
    if (!ok)
        front_say_refused(front, n == 0 ? "its process has ended" : said.why);
    if (ok && is_there) {
        *done = *front;
        done->path = NULL;
        done->is_known = said.is_known;
        front->plain = -1;
    }
    front_end(front);
    return ok && is_there;
}

void
vg_fronts_leave(const struct proxy_fronts *fronts)
{
    for (unsigned i = 0; i < PROXY_FRONTS_MAX; i++) {
        if (fronts->of[i].said >= 0)
            close(fronts->of[i].said);
        if (fronts->of[i].plain >= 0)
            close(fronts->of[i].plain);
    }
}

/* ---- before all ---- */

/* So that the key is nowhere in the memory of the proxy, whose copies clients' processes have. */
static _Noreturn void
front_check(const struct vg_wire_tls_files *tls)
{
    char fault[VG_WIRE_TLS_FAULT];
    long long begin, end;
    const long long now = (long long)time(NULL);

    if (!vg_wire_tls_begin(tls, fault) ||
        !vg_wire_tls_times(tls->certificate, &begin, &end, fault)) {
        fprintf(stderr, "vgpu-proxy: %s\n", fault);
        _exit(EXIT_FAILURE);
    }
    if (now > end || now < begin)
        vg_cl_say("the certificate in '%s' %s: nobody will take it", tls->certificate,
                  now > end ? "has expired" : "is not good yet");
    _exit(EXIT_SUCCESS);
}

bool
vg_front_check(const struct vg_wire_tls_files *tls)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        front_check(tls);
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    if (pid < 0)
        fprintf(stderr, "vgpu-proxy: %s\n", strerror(errno));
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}
