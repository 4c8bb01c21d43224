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

#include "opencl/base/clock.h"
#include "opencl/base/say.h"
#include "opencl/proxy/admit.h"
#include "opencl/wire/address.h"

/* What such a process says: that hands are shaken, and then, by each of the terms that it gets,
 * what is to become of the program. */
struct front_said {
    bool is_shaken; /* and nothing else is said yet */
    bool ok, is_known;
    bool is_for_others; /* the certificate's extended key usage leaves clients out */
    char why[VG_WIRE_TLS_FAULT];
};

/* What is configured for the socket. */
struct front_terms {
    bool has_vm, has_token;
    char vm[PROXY_VM_MAX];
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
front_may_come(struct vg_wire_tls *tls, const struct front_terms *terms, struct front_said *said)
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
        snprintf(said->why, sizeof said->why, "the program has shown no certificate of the VM '%s'",
                 terms->vm);
    return false;
}

/* Judges the program by what the proxy says is configured now, until that is what it goes by. */
static bool
front_agree(struct vg_wire_tls *tls, int fd, struct front_said *said)
{
    struct front_terms terms;

    said->is_shaken = true;
    front_say(fd, said);
    said->is_shaken = false;
    while (recv(fd, &terms, sizeof terms, 0) == (ssize_t)sizeof terms) {
        said->ok = front_may_come(tls, &terms, said);
        front_say(fd, said);
    }
    if (!said->ok)
        vg_wire_tls_refuse(tls, said->why);
    return said->ok;
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
    const char *failed = tls ? vg_proxy_confine(fronts->confinement) : NULL;
    if (failed) {
        snprintf(message.why, sizeof message.why, "it cannot be confined: %s: %s", failed,
                 strerror(errno));
        vg_wire_tls_free(tls);
        tls = NULL;
    }
    bool ok = tls && vg_wire_tls_accept(tls, fd, PROXY_SHAKE_S, message.why);
    if (ok)
        ok = front_agree(tls, said, &message);
    else
        front_say(said, &message);
    close(said);
    if (ok)
        vg_wire_tls_carry(tls, plain);
    _exit(ok ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* ---- in the proxy ---- */

static void
front_end(struct proxy_front *front)
{
    if (front->said >= 0)
        close(front->said);
    if (front->plain >= 0)
        close(front->plain);
    *front = (struct proxy_front){.said = -1, .plain = -1};
}

/* Whether its socket is still there: it may have been closed, and its place be another one's. */
static bool
front_is_stale(const struct proxy_front *front)
{
    return front->tenant->is_gone || front->tenant->serial != front->serial;
}

static void
front_say_refused(const struct proxy_front *front, const char *why)
{
    if (!front_is_stale(front))
        vg_admit_refuse(front->tenant, -1, "", "from %s: %s", front->from, why);
}

static unsigned
fronts_of(const struct proxy_fronts *fronts, uint64_t serial)
{
    unsigned n = 0;

    for (unsigned i = 0; i < PROXY_FRONTS_MAX; i++)
        n += fronts->of[i].pid && fronts->of[i].serial == serial;
    return n;
}

/* Returns a free place, which may have been that of the one that has taken longest: of the same
 * socket, if that has its share of them, or else of the one that has most. */
static struct proxy_front *
front_place(struct proxy_fronts *fronts, uint64_t serial)
{
    struct proxy_front *place = NULL, *oldest = NULL;
    bool is_full = fronts_of(fronts, serial) >= PROXY_FRONTS_SOCKET;
    unsigned most = 0;

    for (unsigned i = 0; i < PROXY_FRONTS_MAX; i++) {
        struct proxy_front *front = &fronts->of[i];
        if (!front->pid) {
            place = front;
            continue;
        }
        unsigned n = fronts_of(fronts, front->serial);
        if (is_full ? front->serial != serial : n < most)
            continue;
        if (!oldest || n > most || front->since < oldest->since)
            oldest = front;
        most = n;
    }
    if (place && !is_full)
        return place;
    front_say_refused(oldest, "others want to shake hands");
    kill(oldest->pid, SIGKILL);
    front_end(oldest);
    return oldest;
}

void
vg_front_begin(struct proxy_fronts *fronts, struct proxy_tenant *tenant, int fd, const char *from,
               void (*leave)(void *data), void *data)
{
    struct proxy_front *front = front_place(fronts, tenant->serial);
    int said[2] = {-1, -1}, plain[2] = {-1, -1};
    pid_t pid = -1;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, said) == 0 &&
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, plain) == 0)
        pid = vg_proxy_fork(fronts->confinement);
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
                                  .tenant = tenant,
                                  .serial = tenant->serial,
                                  .since = vg_cl_now()};
    snprintf(front->from, sizeof front->from, "%s", from);
    if (pid > 0)
        return;
    vg_admit_refuse(tenant, -1, "", "from %s: %s", from, strerror(error));
    front_end(front);
}

void
vg_fronts_poll(const struct proxy_fronts *fronts, struct pollfd *at)
{
    for (unsigned i = 0; i < PROXY_FRONTS_MAX; i++)
        at[i] = (struct pollfd){.fd = fronts->of[i].said, .events = POLLIN};
}

/* Has the process judge by what is configured now. */
static void
front_send_terms(const struct proxy_front *front)
{
    const struct proxy_tenant *tenant = front->tenant;
    struct front_terms terms = {.has_vm = tenant->vm, .has_token = tenant->has_token};

    if (tenant->vm)
        snprintf(terms.vm, sizeof terms.vm, "%s", tenant->vm);
    if (send(front->said, &terms, sizeof terms, MSG_NOSIGNAL | MSG_DONTWAIT) !=
        (ssize_t)sizeof terms)
        kill(front->pid, SIGKILL);
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
    const bool is_stale = front_is_stale(front);
    /* What was configured when it was judged may be something else by now. */
    const bool is_late = !said.is_shaken && said.ok && front->revision != front->tenant->revision;
    if (n == (ssize_t)sizeof said && !is_stale && (said.is_shaken || is_late)) {
        front->revision = front->tenant->revision;
        front_send_terms(front);
        return false;
    }
    bool ok = n == (ssize_t)sizeof said && said.ok && !said.is_shaken && !is_stale;
    if (!ok)
        front_say_refused(front, n == 0 ? "its process has ended" : said.why);
    if (ok && said.is_for_others)
        vg_admit_say(front->tenant,
                     "%s: the extended key usage of the certificate of '%s', from %s, leaves TLS "
                     "clients out: a later version refuses it",
                     front->tenant->path, front->tenant->vm, front->from);
    if (ok) {
        *done = *front;
        done->is_known = said.is_known;
        front->plain = -1;
    }
    front_end(front);
    return ok;
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
    struct vg_wire_tls_facts facts;
    const long long now = (long long)time(NULL);

    if (!vg_wire_tls_begin(tls, fault) ||
        !vg_wire_tls_read_facts(tls->certificate, &facts, fault)) {
        fprintf(stderr, "vgpu-proxy: %s\n", fault);
        _exit(EXIT_FAILURE);
    }
    if (!facts.is_for_servers)
        vg_cl_say("the extended key usage of the certificate in '%s' leaves TLS servers out: later "
                  "versions of the library refuse it",
                  tls->certificate);
    if (now > facts.end || now < facts.begin)
        vg_cl_say("the certificate in '%s' %s: clients will reject it", tls->certificate,
                  now > facts.end ? "has expired" : "is not good yet");
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
