/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers data between a TLS connection and a socket in clear. Each direction has one buffer,
 * which is emptied before it is filled again: if one side does not read, nothing is read for it
 * from the other side.
 *
 * A record cannot be used before it is complete. So that a connection that is cut early has
 * delivered something, above all the welcome, the first data goes in small records.
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "opencl/wire/address.h"
#include "opencl/wire/tls-private.h"

#define CARRY_BYTES  ((size_t)256 << 10)
#define CARRY_RECORD ((size_t)16 << 10) /* maximum size of a record */
#define CARRY_SMALL                                                                                \
 ((size_t)1 << 10) /* maximum size of one of the first records, which fits into a packet */
#define CARRY_FIRST (UINT64_C(64) << 10)

struct carry {
    struct vg_wire_tls *tls;
    int plain;
    unsigned char *in, *out; /* to PLAIN, and to the connection */
    size_t in_at, in_end, out_at, out_end;
    size_t pending; /* bytes at OUT_AT that GnuTLS has accepted, but not sent */
    uint64_t n_out; /* number of bytes sent */
    bool in_ended, out_ended, is_broken;
};

/* ---- to the plain side ---- */

/* Reads what has come through the connection, one record at a time. Returns whether there was
 * any. */
static bool
carry_take_in(struct carry *carry)
{
    const struct tls_library *gnutls = carry->tls->gnutls;
    const size_t before = carry->in_end;

    while (!carry->in_ended && CARRY_BYTES - carry->in_end >= CARRY_RECORD) {
        ssize_t n = gnutls->gnutls_record_recv(carry->tls->session, carry->in + carry->in_end,
                                               CARRY_BYTES - carry->in_end);
        if (n > 0) {
            carry->in_end += (size_t)n;
            continue;
        }
        if (n == GNUTLS_E_AGAIN)
            break;
        if (n == 0 || gnutls->gnutls_error_is_fatal((int)n))
            carry->in_ended = true;
    }
    return carry->in_end > before || carry->in_ended;
}

static bool
carry_give_in(struct carry *carry)
{
    ssize_t n = send(carry->plain, carry->in + carry->in_at, carry->in_end - carry->in_at,
                     MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return false;
    if (n < 0) {
        /* The data is no longer wanted, but earlier data may still have to be sent. */
        carry->in_ended = true;
        n = (ssize_t)(carry->in_end - carry->in_at);
    }
    carry->in_at += (size_t)n;
    if (carry->in_at == carry->in_end)
        carry->in_at = carry->in_end = 0;
    return true;
}

/* ---- to the connection ---- */

static bool
carry_take_out(struct carry *carry)
{
    ssize_t n = recv(carry->plain, carry->out, CARRY_BYTES, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return false;
    if (n <= 0)
        carry->out_ended = true;
    carry->out_at = 0;
    carry->out_end = n > 0 ? (size_t)n : 0;
    return true;
}

/* Sends a record. Returns whether anything has changed. */
static bool
carry_give_out(struct carry *carry)
{
    const struct tls_library *gnutls = carry->tls->gnutls;
    const size_t most = carry->n_out < CARRY_FIRST ? CARRY_SMALL : CARRY_RECORD;
    size_t size = carry->out_end - carry->out_at;

    size = size < most ? size : most;
    /* What GnuTLS has accepted goes first, and must not be passed again. */
    ssize_t n = carry->pending ? gnutls->gnutls_record_send(carry->tls->session, NULL, 0)
                               : gnutls->gnutls_record_send(carry->tls->session,
                                                            carry->out + carry->out_at, size);
    if (n == GNUTLS_E_AGAIN && !carry->pending)
        carry->pending = size;
    if (n == GNUTLS_E_AGAIN)
        return false;
    if (n < 0 && gnutls->gnutls_error_is_fatal((int)n)) {
        carry->is_broken = true;
        return true;
    }
    if (n < 0)
        return true;
    size = carry->pending ? carry->pending : (size_t)n;
    carry->out_at += size;
    carry->n_out += size;
    carry->pending = 0;
    return true;
}

/* ---- both ---- */

static void
carry_wait(const struct carry *carry)
{
    const bool has_in = carry->in_at < carry->in_end, has_out = carry->out_at < carry->out_end;
    struct pollfd at[2] = {
        {.fd = carry->tls->fd,
         .events = (short)((carry->in_ended || has_in ? 0 : POLLIN) | (has_out ? POLLOUT : 0))},
        {.fd = carry->plain,
         .events = (short)((carry->out_ended || has_out ? 0 : POLLIN) | (has_in ? POLLOUT : 0))},
    };

    /* A file without requested events would report again and again that it was closed. */
    for (unsigned i = 0; i < 2; i++)
        if (!at[i].events)
            at[i].fd = -1;
    poll(at, 2, -1);
}

/* Runs until one side has ended, and the other one has received everything from it. */
static void
carry_all(struct carry *carry)
{
    for (;;) {
        bool has_done = false;
        if (carry->in_at == carry->in_end && !carry->in_ended)
            has_done = carry_take_in(carry);
        if (carry->in_at < carry->in_end)
            has_done |= carry_give_in(carry);
        if (carry->out_at == carry->out_end && !carry->out_ended)
            has_done |= carry_take_out(carry);
        if (carry->out_at < carry->out_end)
            has_done |= carry_give_out(carry);
        const bool has_in = carry->in_at < carry->in_end;
        const bool has_out = carry->out_at < carry->out_end;
        if (carry->is_broken || (carry->in_ended && !has_in && !has_out) ||
            (carry->out_ended && !has_out))
            return;
        if (!has_done)
            carry_wait(carry);
    }
}

void
vg_wire_tls_carry(struct vg_wire_tls *tls, int plain)
{
    struct carry carry = {.tls = tls, .plain = plain};

    vg_wire_address_tune(plain);
    carry.in = malloc(CARRY_BYTES);
    carry.out = malloc(CARRY_BYTES);
    if (carry.in && carry.out)
        carry_all(&carry);
    if (!carry.is_broken)
        tls->gnutls->gnutls_bye(tls->session, GNUTLS_SHUT_WR);
    close(tls->fd);
    close(plain);
    free(carry.in);
    free(carry.out);
    vg_wire_tls_free(tls);
}

/* ---- in a thread ---- */

struct carry_job {
    struct vg_wire_tls *tls;
    int plain;
};

static pthread_mutex_t carry_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t carry_changed = PTHREAD_COND_INITIALIZER;
static unsigned carry_n; /* number of threads */

static void *
carry_run(void *data)
{
    const struct carry_job job = *(struct carry_job *)data;

    free(data);
    pthread_setname_np(pthread_self(), "vgpu-tls");
    vg_wire_tls_carry(job.tls, job.plain);
    pthread_mutex_lock(&carry_lock);
    carry_n--;
    pthread_cond_broadcast(&carry_changed);
    pthread_mutex_unlock(&carry_lock);
    return NULL;
}

int
vg_wire_tls_carry_beside(struct vg_wire_tls *tls, int fd)
{
    struct carry_job *job = malloc(sizeof *job);
    int pair[2] = {-1, -1};
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;

    if (!job || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        free(job);
        return -1;
    }
    *job = (struct carry_job){tls, pair[1]};
    tls->fd = fd;
    pthread_mutex_lock(&carry_lock);
    carry_n++;
    pthread_mutex_unlock(&carry_lock);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attr, carry_run, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (error == 0) {
        return pair[0];
    }
    pthread_mutex_lock(&carry_lock);
    carry_n--;
    pthread_mutex_unlock(&carry_lock);
    free(job);
    close(pair[0]);
    close(pair[1]);
    errno = error;
    return -1;
}

void
vg_wire_tls_settle(int ms)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_mutex_lock(&carry_lock);
    while (carry_n && pthread_cond_timedwait(&carry_changed, &carry_lock, &until) == 0)
        ;
    pthread_mutex_unlock(&carry_lock);
}
