/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/wire/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "opencl/base/clock.h"
#include "opencl/base/say.h"
#include "opencl/wire/address.h"
#include "opencl/wire/fault.h"
#include "opencl/wire/link-private.h"
#include "opencl/wire/link-shared.h"
#include "opencl/wire/pass.h"
#include "opencl/wire/tls.h"

#define LINK_STREAM     "stream:"
#define LINK_TOKEN_PATH "/etc/vgpud/proxy.token"
#define LINK_CA_PATH    "/etc/vgpud/proxy-ca.pem"
#define LINK_CERT_PATH  "/etc/vgpud/proxy-cert.pem"
#define LINK_KEY_PATH   "/etc/vgpud/proxy-key.pem"

#define LINK_AGAIN_S 5 /* for each attempt to reconnect */

struct vg_wire_way {
    char *address, *token;        /* path of the token's file */
    char *ca, *certificate, *key; /* paths; NULL: no TLS, or none configured */
    struct vg_wire_place place;   /* actual address */
};

static atomic_bool link_has_warned;
static const char *link_token_path = LINK_TOKEN_PATH;

void
vg_wire_link_return(struct vg_wire_link *link)
{
    if (link->session)
        vg_wire_session_return(link->session);
    else
        vg_wire_address_limit(link->fd, VG_WIRE_RETURN_S);
    if (link->shared)
        vg_wire_shared_limit(link->shared, VG_WIRE_RETURN_S * 1000);
    link->limit_ms = VG_WIRE_RETURN_S * 1000;
}

void
vg_wire_link_stay(struct vg_wire_link *link)
{
    if (link->is_inherited)
        return;
    link->limit_ms = -1;
    if (link->session)
        vg_wire_session_stay(link->session);
    else
        vg_wire_address_limit(link->fd, 0);
    if (link->shared)
        vg_wire_shared_limit(link->shared, -1);
}

/* ---- the beginning, which is over in time, however slowly the other side speaks ---- */

static int64_t
link_until(int limit_s)
{
    return vg_cl_now() + limit_s * INT64_C(1000000000);
}

/* Receives SIZE bytes. Returns false with errno, which is ETIMEDOUT if they have not come in
 * time. */
static bool
link_hear(int fd, void *to, size_t size, int64_t until)
{
    for (char *at = to; size > 0;) {
        const int64_t left = until - vg_cl_now();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready = left > 0 ? poll(&wait, 1, (int)(left / 1000000) + 1) : 0;
        ssize_t n = ready > 0 ? recv(fd, at, size, MSG_DONTWAIT) : -1;
        if (ready == 0)
            errno = ETIMEDOUT;
        else if (n == 0)
            errno = ECONNRESET;
        else if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* ---- the program's side of it ---- */

/* Receives the rest of the reason why this side is refused. FIRST has SIZE bytes of it. */
static void
link_hear_refusal(int fd, const void *first, size_t size, int64_t until)
{
    struct vg_wire_refusal refusal;

    memcpy(&refusal, first, size);
    if (!link_hear(fd, (char *)&refusal + size, sizeof refusal - size, until)) {
        errno = ECONNRESET;
        return;
    }
    refusal.why[sizeof refusal.why - 1] = '\0';
    for (char *at = refusal.why; *at; at++)
        *at = *at >= 0x20 && *at < 0x7f ? *at : '?';
    snprintf(vg_wire_fault, sizeof vg_wire_fault, "%s", refusal.why);
    errno = refusal.magic == VG_WIRE_ENDED_MAGIC ? ESRCH : ECONNREFUSED;
}

void
vg_wire_link_set_token(const char *path)
{
    link_token_path = path;
}

/* Sends the request, and handles the answer. */
static bool
link_request(struct vg_wire_link *link, uint64_t way)
{
    struct link_hello hello = {LINK_MAGIC, way, 0};
    struct iovec part = {&hello, sizeof hello};
    int memory = -1;

    if (!vg_wire_link_send(link, &part, 1, NULL, NULL))
        return false;
    ssize_t n = vg_wire_pass_receive(link->fd, &hello, sizeof hello, &memory, MSG_WAITALL);
    int error = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? ETIMEDOUT : EPROTO;
    bool ok = n == (ssize_t)sizeof hello && hello.magic == LINK_MAGIC;
    if (ok && way == LINK_SHARED && hello.way == LINK_SHARED)
        link->shared = vg_wire_shared_open(memory, hello.staging);
    if (link->shared)
        vg_wire_shared_limit(link->shared, VG_WIRE_OPEN_S * 1000);
    if (memory >= 0)
        close(memory);
    if (ok && hello.way == (link->shared ? LINK_SHARED : LINK_SOCKET))
        return true;
    errno = error;
    if (n == (ssize_t)sizeof hello && hello.magic == VG_WIRE_REFUSAL_MAGIC)
        link_hear_refusal(link->fd, &hello, sizeof hello, link_until(VG_WIRE_OPEN_S));
    return false;
}

/* Returns a connection to another machine, which may be one to a thread that handles TLS. Returns
 * -1 with errno, and a fault if there is more to report. */
static int
link_reach(struct vg_wire_way *way, int limit_s)
{
    const struct vg_wire_tls_files files = {way->ca, way->certificate, way->key};
    char host[VG_WIRE_HOST_MAX];
    int fd = vg_wire_address_connect(way->address, &way->place, limit_s);

    if (fd < 0)
        return -1;
    vg_wire_address_tune(fd);
    if (!vg_wire_address_is_tls(way->address))
        return fd;
    struct vg_wire_tls *tls = vg_wire_address_host(way->address, host)
                                  ? vg_wire_tls_connect(fd, host, &files, limit_s, vg_wire_fault)
                                  : NULL;
    int plain = -1;
    errno = ECONNABORTED;
    if (tls && !vg_wire_tls_is_for_its_side(tls) && !atomic_exchange(&link_has_warned, true))
        vg_cl_say("the proxy's certificate is not valid for TLS servers (extended key usage); a "
                  "future version will reject it");
    if (tls) {
        vg_wire_address_limit(fd, 0);
        plain = vg_wire_tls_carry_beside(tls, fd);
    }
    if (plain >= 0) {
        vg_wire_address_limit(plain, limit_s);
        vg_wire_address_tune(plain);
        return plain;
    }
    int error = errno;
    vg_wire_tls_free(tls);
    close(fd);
    errno = error;
    return -1;
}

/* Reads the token to present. A side with a certificate needs none. */
static bool
link_read_token(const struct vg_wire_way *way, char token[VG_WIRE_TOKEN_MAX])
{
    memset(token, 0, VG_WIRE_TOKEN_MAX);
    return vg_wire_address_token(way->token, token) || way->certificate;
}

/* Returns a connection to another machine that has accepted HELLO, or -1 with errno. */
static int
link_connect(struct vg_wire_way *way, int limit_s, const struct vg_wire_session_hello *hello,
             struct vg_wire_session_welcome *welcome)
{
    static const unsigned char none[VG_WIRE_SESSION_ID];
    struct link_hello first = {LINK_MAGIC, LINK_SESSION, LINK_TAKES_ENDS};
    char token[VG_WIRE_TOKEN_MAX];

    vg_wire_fault[0] = '\0';
    if (!link_read_token(way, token))
        return -1;
    struct vg_wire_link link = {.fd = link_reach(way, limit_s)};
    if (link.fd < 0)
        return -1;
    struct iovec parts[3] = {
        {&first, sizeof first},
        {token, sizeof token},
        {(void *)(uintptr_t)hello, sizeof *hello},
    };
    bool is_new = memcmp(hello->id, none, sizeof none) == 0;
    const int64_t until = link_until(limit_s);
    /* A side that is refused immediately may learn the reason before it has sent anything. */
    vg_wire_link_send(&link, parts, 3, NULL, NULL);
    if (!link_hear(link.fd, welcome, sizeof *welcome, until))
        errno = errno == ETIMEDOUT ? ETIMEDOUT : EACCES;
    else if (welcome->magic == VG_WIRE_REFUSAL_MAGIC || welcome->magic == VG_WIRE_ENDED_MAGIC)
        link_hear_refusal(link.fd, welcome, sizeof *welcome, until);
    else if (welcome->magic != VG_WIRE_SESSION_MAGIC)
        errno = EPROTO;
    else if (memcmp(welcome->id, none, sizeof none) == 0)
        errno = is_new ? EUSERS : ESRCH;
    else if (!is_new && memcmp(hello->id, welcome->id, sizeof welcome->id) != 0)
        errno = EPROTO;
    else
        errno = 0;
    if (errno == 0) {
        vg_wire_address_limit(link.fd, 0);
        return link.fd;
    }
    int error = errno;
    close(link.fd);
    errno = error;
    return -1;
}

static int
link_again(void *data, const struct vg_wire_session_hello *hello,
           struct vg_wire_session_welcome *welcome)
{
    return link_connect(data, LINK_AGAIN_S, hello, welcome);
}

static void
link_free_path(struct vg_wire_way *way)
{
    if (way) {
        free(way->address);
        free(way->token);
        free(way->ca);
        free(way->certificate);
        free(way->key);
    }
    free(way);
}

static char *
link_path(const char *variable, const char *usual)
{
    const char *path = secure_getenv(variable);

    return strdup(path ? path : usual);
}

/* The paths of files may not be known later, because the program may change its environment. */
static bool
link_find_files(struct vg_wire_way *way)
{
    const char *certificate = secure_getenv("VGPU_OPENCL_CERT");

    if (!vg_wire_address_is_tls(way->address))
        return true;
    way->ca = link_path("VGPU_OPENCL_CA", LINK_CA_PATH);
    way->key = link_path("VGPU_OPENCL_KEY", LINK_KEY_PATH);
    if (!certificate && access(LINK_CERT_PATH, R_OK) == 0)
        certificate = LINK_CERT_PATH;
    way->certificate = certificate ? strdup(certificate) : NULL;
    return way->ca && way->key && (!certificate || way->certificate);
}

static bool
link_open_far(struct vg_wire_link *link, const char *address)
{
    const char *path = secure_getenv("VGPU_OPENCL_TOKEN");
    const struct vg_wire_session_hello hello = {.taken = 0};
    struct vg_wire_session_welcome welcome;
    int fd = -1;

    *link = (struct vg_wire_link){.fd = -1, .way = calloc(1, sizeof *link->way)};
    if (link->way) {
        link->way->address = strdup(address);
        link->way->token = strdup(path ? path : link_token_path);
        if (link->way->address && link->way->token && link_find_files(link->way))
            fd = link_connect(link->way, VG_WIRE_OPEN_S, &hello, &welcome);
    }
    if (fd >= 0)
        link->session = vg_wire_session_begin(fd, &welcome, link_again, link->way);
    if (link->session)
        return true;
    int error = errno;
    if (fd >= 0)
        close(fd);
    link_free_path(link->way);
    errno = error;
    return false;
}

bool
vg_wire_link_open(struct vg_wire_link *link, const char *address)
{
    bool is_stream = strncmp(address, LINK_STREAM, strlen(LINK_STREAM)) == 0;

    vg_wire_fault[0] = '\0';
    address += is_stream ? strlen(LINK_STREAM) : 0;
    if (vg_wire_address_is_far(address))
        return link_open_far(link, address);
    *link = (struct vg_wire_link){.fd = vg_wire_address_connect(address, NULL, VG_WIRE_OPEN_S)};
    if (link->fd < 0)
        return false;
    vg_wire_address_tune(link->fd);
    if (link_request(link, is_stream ? LINK_SOCKET : LINK_SHARED))
        return true;
    int error = errno;
    vg_wire_link_close(link);
    errno = error;
    return false;
}

/* ---- the end ---- */

void
vg_wire_link_inherit(struct vg_wire_link *link)
{
    link->is_inherited = true;
    link->is_shut = true;
}

void
vg_wire_link_shut(struct vg_wire_link *link)
{
    if (link->is_inherited)
        return;
    atomic_store(&link->is_shut, true);
    if (link->shared)
        vg_wire_shared_shut(link->shared);
    if (link->session)
        vg_wire_session_shut(link->session);
    else if (link->fd >= 0)
        shutdown(link->fd, SHUT_RDWR);
}

void
vg_wire_link_finish(struct vg_wire_link *link, int ms)
{
    if (link->session)
        vg_wire_session_finish(link->session, ms);
}

bool
vg_wire_link_is_over(const struct vg_wire_link *link)
{
    struct pollfd at = {.fd = link->fd, .events = POLLRDHUP};

    if (link->session)
        return vg_wire_session_is_over(link->session);
    return poll(&at, 1, 0) > 0;
}

bool
vg_wire_link_is_shut(const struct vg_wire_link *link)
{
    return atomic_load_explicit(&link->is_shut, memory_order_relaxed);
}

void
vg_wire_link_close(struct vg_wire_link *link)
{
    /* The thread that maintains the link belongs to the program. */
    if (link->is_inherited)
        return;
    if (link->session)
        vg_wire_session_close(link->session);
    link->session = NULL;
    link_free_path(link->way);
    link->way = NULL;
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    vg_wire_shared_close(link->shared);
    link->shared = NULL;
}

bool
vg_wire_link_is_cut(const struct vg_wire_link *link)
{
    return link->session && !link->is_inherited && vg_wire_session_is_cut(link->session);
}

bool
vg_wire_link_has_left(const struct vg_wire_link *link)
{
    return link->session && !link->is_inherited && vg_wire_session_has_left(link->session);
}

const char *
vg_wire_link_why(const struct vg_wire_link *link)
{
    return link->session && !link->is_inherited ? vg_wire_session_why(link->session) : NULL;
}

/* ---- bytes ---- */

/* Waits until more can be sent, and receives what comes in the meantime. */
static bool
link_wait_to_send(struct vg_wire_link *link, void (*help)(void *data), void *data)
{
    struct pollfd at = {.fd = link->fd, .events = (short)(POLLOUT | (help ? POLLIN : 0))};
    int n = poll(&at, 1, link->limit_ms > 0 ? link->limit_ms : -1);

    if (n <= 0)
        return n < 0 && errno == EINTR;
    if (help && (at.revents & POLLIN))
        help(data);
    return true;
}

bool
vg_wire_link_send(struct vg_wire_link *link, struct iovec *parts, int n, void (*help)(void *data),
                  void *data)
{
    if (vg_wire_link_is_shut(link))
        return false;
    if (link->session)
        return vg_wire_session_send(link->session, parts, n, help, data);
    if (link->shared)
        return vg_wire_shared_send(link->shared, link->fd, parts, n, help, data);
    while (n > 0) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)n};
        ssize_t sent = sendmsg(link->fd, &message, MSG_NOSIGNAL | (help ? MSG_DONTWAIT : 0));
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (!link_wait_to_send(link, help, data))
                return false;
            continue;
        }
        if (sent < 0 && errno != EINTR)
            return false;
        for (size_t left = sent > 0 ? (size_t)sent : 0; n > 0; parts++, n--) {
            if (left < parts->iov_len) {
                parts->iov_base = (char *)parts->iov_base + left;
                parts->iov_len -= left;
                break;
            }
            left -= parts->iov_len;
        }
    }
    return true;
}

void
vg_wire_link_offer(struct vg_wire_link *link, const void *bytes, size_t size)
{
    if (vg_wire_link_is_shut(link))
        return;
    if (link->session) {
        vg_wire_session_offer(link->session, bytes, size);
        return;
    }
    if (link->shared) {
        vg_wire_shared_offer(link->shared, link->fd, bytes, size);
        return;
    }
    ssize_t sent = send(link->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);

    (void)sent;
}

bool
vg_wire_link_receive(struct vg_wire_link *link, void *to, size_t size)
{
    char *at = to;

    if (vg_wire_link_is_shut(link))
        return false;
    if (link->session)
        return vg_wire_session_receive(link->session, to, size);
    if (link->shared)
        return vg_wire_shared_receive(link->shared, link->fd, to, size);
    while (size > 0) {
        ssize_t n = recv(link->fd, at, size, MSG_WAITALL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

bool
vg_wire_link_wait(const struct vg_wire_link *link, int timeout_ms)
{
    struct pollfd at = {.fd = link->fd, .events = POLLIN};

    if (link->session)
        return vg_wire_session_wait(link->session, timeout_ms);
    if (link->shared)
        return vg_wire_shared_wait(link->shared, link->fd, timeout_ms);
    return poll(&at, 1, timeout_ms) > 0;
}
