/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/acceptor.h"

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

#include "opencl/base/clock.h"
#include "opencl/base/say.h"
#include "opencl/proxy/admit.h"
#include "opencl/wire/address.h"

/* The message of such a process: that the handshake is complete and then, for each of the terms
 * that it gets, how to handle the program. */
struct acceptor_result {
    bool is_shaken; /* and nothing else has been decided yet */
    bool ok, is_known;
    bool is_for_others; /* the certificate's extended key usage excludes clients */
    char why[VG_WIRE_TLS_FAULT];
};

/* The socket's configuration. */
struct acceptor_terms {
    bool has_vm, has_token;
    char vm[PROXY_VM_MAX];
};

void
vg_acceptors_open(struct proxy_acceptors *acceptors)
{
    for (unsigned i = 0; i < PROXY_ACCEPTORS_MAX; i++)
        acceptors->of[i] = (struct proxy_acceptor){.said = -1, .plain = -1};
}

/* ---- in the process ---- */

static void
acceptor_report(int fd, const struct acceptor_result *said)
{
    ssize_t n = send(fd, said, sizeof *said, MSG_NOSIGNAL);

    (void)n; /* the proxy no longer exists */
}

/* Determines whether the client may connect. */
static bool
acceptor_may_come(struct vg_wire_tls *tls, const struct acceptor_terms *terms,
                  struct acceptor_result *said)
{
    enum vg_wire_tls_shown shown = VG_WIRE_TLS_NONE;

    said->why[0] = '\0';
    if (terms->has_vm)
        shown = vg_wire_tls_check(tls, terms->vm, said->why);
    said->is_known = shown == VG_WIRE_TLS_SHOWN;
    said->is_for_others = said->is_known && !vg_wire_tls_is_for_its_side(tls);
    if (said->is_known || (shown == VG_WIRE_TLS_NONE && terms->has_token))
        return true;
    if (shown == VG_WIRE_TLS_NONE)
        snprintf(said->why, sizeof said->why,
                 "the program did not present a certificate of VM "
                 "'%s'",
                 terms->vm);
    return false;
}

/* Judges the program by the present configuration, until the proxy confirms it. */
static bool
acceptor_agree(struct vg_wire_tls *tls, int fd, struct acceptor_result *said)
{
    struct acceptor_terms terms;

    said->is_shaken = true;
    acceptor_report(fd, said);
    said->is_shaken = false;
    while (recv(fd, &terms, sizeof terms, 0) == (ssize_t)sizeof terms) {
        said->ok = acceptor_may_come(tls, &terms, said);
        acceptor_report(fd, said);
    }
    if (!said->ok)
        vg_wire_tls_refuse(tls, said->why);
    return said->ok;
}

static _Noreturn void
acceptor_serve(const struct proxy_acceptors *acceptors, const struct proxy_tenant *tenant, int fd,
               int said, int plain)
{
    struct vg_wire_tls_files files = *acceptors->tls;
    struct acceptor_result message = {.ok = false};
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
    const char *failed = tls ? vg_proxy_confine(acceptors->confinement) : NULL;
    if (failed) {
        snprintf(message.why, sizeof message.why, "it cannot be confined: %s: %s", failed,
                 strerror(errno));
        vg_wire_tls_free(tls);
        tls = NULL;
    }
    bool ok = tls && vg_wire_tls_accept(tls, fd, PROXY_SHAKE_S, message.why);
    if (ok)
        ok = acceptor_agree(tls, said, &message);
    else
        acceptor_report(said, &message);
    close(said);
    if (ok)
        vg_wire_tls_carry(tls, plain);
    _exit(ok ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* ---- in the proxy ---- */

static void
acceptor_end(struct proxy_acceptor *acceptor)
{
    if (acceptor->said >= 0)
        close(acceptor->said);
    if (acceptor->plain >= 0)
        close(acceptor->plain);
    *acceptor = (struct proxy_acceptor){.said = -1, .plain = -1};
}

/* Returns whether its socket no longer exists. It may have been closed, and another one may have
 * its place. */
static bool
acceptor_is_stale(const struct proxy_acceptor *acceptor)
{
    return acceptor->tenant->is_gone || acceptor->tenant->serial != acceptor->serial;
}

static void
acceptor_report_refused(const struct proxy_acceptor *acceptor, const char *why)
{
    if (!acceptor_is_stale(acceptor))
        vg_admit_refuse(acceptor->tenant, -1, "", "from %s: %s", acceptor->from, why);
}

static unsigned
acceptors_of(const struct proxy_acceptors *acceptors, uint64_t serial)
{
    unsigned n = 0;

    for (unsigned i = 0; i < PROXY_ACCEPTORS_MAX; i++)
        n += acceptors->of[i].pid && acceptors->of[i].serial == serial;
    return n;
}

/* Returns a free place. If there is none, frees that of the slowest client: of the same socket, if
 * that has its share, or else of the socket with the most. */
static struct proxy_acceptor *
acceptor_place(struct proxy_acceptors *acceptors, uint64_t serial)
{
    struct proxy_acceptor *place = NULL, *oldest = NULL;
    bool is_full = acceptors_of(acceptors, serial) >= PROXY_ACCEPTORS_SOCKET;
    unsigned most = 0;

    for (unsigned i = 0; i < PROXY_ACCEPTORS_MAX; i++) {
        struct proxy_acceptor *acceptor = &acceptors->of[i];
        if (!acceptor->pid) {
            place = acceptor;
            continue;
        }
        unsigned n = acceptors_of(acceptors, acceptor->serial);
        if (is_full ? acceptor->serial != serial : n < most)
            continue;
        if (!oldest || n > most || acceptor->since < oldest->since)
            oldest = acceptor;
        most = n;
    }
    if (place && !is_full)
        return place;
    acceptor_report_refused(oldest, "too many TLS handshakes are in progress");
    kill(oldest->pid, SIGKILL);
    acceptor_end(oldest);
    return oldest;
}

void
vg_acceptor_start(struct proxy_acceptors *acceptors, struct proxy_tenant *tenant, int fd,
                  const char *from, void (*leave)(void *data), void *data)
{
    struct proxy_acceptor *acceptor = acceptor_place(acceptors, tenant->serial);
    int said[2] = {-1, -1}, plain[2] = {-1, -1};
    pid_t pid = -1;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, said) == 0 &&
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, plain) == 0)
        pid = vg_proxy_fork(acceptors->confinement);
    if (pid == 0) {
        leave(data);
        close(said[0]);
        close(plain[0]);
        acceptor_serve(acceptors, tenant, fd, said[1], plain[1]);
    }
    int error = errno;
    close(fd);
    if (said[1] >= 0)
        close(said[1]);
    if (plain[1] >= 0)
        close(plain[1]);
    *acceptor = (struct proxy_acceptor){.pid = pid < 0 ? 0 : pid,
                                        .said = said[0],
                                        .plain = plain[0],
                                        .tenant = tenant,
                                        .serial = tenant->serial,
                                        .since = vg_cl_now()};
    snprintf(acceptor->from, sizeof acceptor->from, "%s", from);
    if (pid > 0)
        return;
    vg_admit_refuse(tenant, -1, "", "from %s: %s", from, strerror(error));
    acceptor_end(acceptor);
}

void
vg_acceptors_poll(const struct proxy_acceptors *acceptors, struct pollfd *at)
{
    for (unsigned i = 0; i < PROXY_ACCEPTORS_MAX; i++)
        at[i] = (struct pollfd){.fd = acceptors->of[i].said, .events = POLLIN};
}

/* Makes the process judge by the present configuration. */
static void
acceptor_send_terms(const struct proxy_acceptor *acceptor)
{
    const struct proxy_tenant *tenant = acceptor->tenant;
    struct acceptor_terms terms = {.has_vm = tenant->vm, .has_token = tenant->has_token};

    if (tenant->vm)
        snprintf(terms.vm, sizeof terms.vm, "%s", tenant->vm);
    if (send(acceptor->said, &terms, sizeof terms, MSG_NOSIGNAL | MSG_DONTWAIT) !=
        (ssize_t)sizeof terms)
        kill(acceptor->pid, SIGKILL);
}

bool
vg_acceptor_receive(struct proxy_acceptors *acceptors, unsigned place, struct proxy_acceptor *done)
{
    struct proxy_acceptor *acceptor = &acceptors->of[place];
    struct acceptor_result said = {.ok = false};
    ssize_t n = acceptor->pid ? recv(acceptor->said, &said, sizeof said, MSG_DONTWAIT) : -1;

    if (n < 0)
        return false;
    said.why[sizeof said.why - 1] = '\0';
    const bool is_stale = acceptor_is_stale(acceptor);
    /* The configuration may have changed since the judgement. */
    const bool is_late =
        !said.is_shaken && said.ok && acceptor->revision != acceptor->tenant->revision;
    if (n == (ssize_t)sizeof said && !is_stale && (said.is_shaken || is_late)) {
        acceptor->revision = acceptor->tenant->revision;
        acceptor_send_terms(acceptor);
        return false;
    }
    bool ok = n == (ssize_t)sizeof said && said.ok && !said.is_shaken && !is_stale;
    if (!ok)
        acceptor_report_refused(acceptor, n == 0 ? "its process has exited" : said.why);
    if (ok && said.is_for_others)
        vg_admit_say(acceptor->tenant,
                     "%s: the certificate of '%s', from %s, is not valid for TLS clients (extended "
                     "key usage); a future version will reject it",
                     acceptor->tenant->path, acceptor->tenant->vm, acceptor->from);
    if (ok) {
        *done = *acceptor;
        done->is_known = said.is_known;
        acceptor->plain = -1;
    }
    acceptor_end(acceptor);
    return ok;
}

void
vg_acceptors_leave(const struct proxy_acceptors *acceptors)
{
    for (unsigned i = 0; i < PROXY_ACCEPTORS_MAX; i++) {
        if (acceptors->of[i].said >= 0)
            close(acceptors->of[i].said);
        if (acceptors->of[i].plain >= 0)
            close(acceptors->of[i].plain);
    }
}

/* ---- before all ---- */

/* The key must not be in the proxy's memory, which clients' processes inherit. */
static _Noreturn void
acceptor_check(const struct vg_wire_tls_files *tls)
{
    char fault[VG_WIRE_TLS_FAULT];
    struct vg_wire_tls_facts facts;
    const long long now = (long long)time(NULL);

    if (!vg_wire_tls_begin(tls, fault) ||
        !vg_wire_tls_read_facts(tls->certificate, &facts, fault)) {
        fprintf(stderr, "vgpu-proxy: %s\n", fault);
        _exit(EXIT_FAILURE);
    }
    if (!facts.is_for_servers)
        vg_cl_say("the certificate in '%s' is not valid for TLS servers (extended key usage); "
                  "future versions of the library will reject it",
                  tls->certificate);
    if (now > facts.end || now < facts.begin)
        vg_cl_say("the certificate in '%s' %s; clients will reject it", tls->certificate,
                  now > facts.end ? "has expired" : "is not valid yet");
    _exit(EXIT_SUCCESS);
}

bool
vg_acceptor_check(const struct vg_wire_tls_files *tls)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        acceptor_check(tls);
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    if (pid < 0)
        fprintf(stderr, "vgpu-proxy: %s\n", strerror(errno));
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}
