/* SPDX-License-Identifier: Apache-2.0
 *
 * How a session transfers bytes over its present connection.
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "opencl/base/clock.h"
#include "opencl/wire/link.h"
#include "opencl/wire/session-private.h"

#define SESSION_FRAME  (UINT64_C(256) << 10) /* maximum size in bytes */
#define SESSION_DIRECT ((size_t)16 << 10)    /* minimum size that is received directly into place */
#define SESSION_OWED   (VG_WIRE_SESSION_KEPT / 4) /* maximum of unacknowledged bytes */
#define SESSION_SECOND INT64_C(1000000000)
#define SESSION_SLACK  (15 * SESSION_SECOND)

/* ---- rings ---- */

static uint64_t
session_used(const struct session_ring *ring)
{
    return ring->end - ring->begin;
}

/* Returns the contiguous bytes from AT on, up to SIZE. */
static struct iovec
session_row(const struct session_ring *ring, uint64_t at, uint64_t size)
{
    uint64_t offset = at & (VG_WIRE_SESSION_KEPT - 1), left = VG_WIRE_SESSION_KEPT - offset;

    return (struct iovec){ring->bytes + offset, size < left ? size : left};
}

static void
session_put(struct session_ring *ring, const unsigned char *bytes, uint64_t size)
{
    struct iovec row = session_row(ring, ring->end, size);

    memcpy(row.iov_base, bytes, row.iov_len);
    memcpy(ring->bytes, bytes + row.iov_len, size - row.iov_len);
    ring->end += size;
}

static size_t
session_get(struct session_ring *ring, void *to, size_t size)
{
    size = size < session_used(ring) ? size : session_used(ring);
    struct iovec row = session_row(ring, ring->begin, size);

    memcpy(to, row.iov_base, row.iov_len);
    memcpy((char *)to + row.iov_len, ring->bytes, size - row.iov_len);
    ring->begin += size;
    return size;
}

/* ---- states ---- */

void
vg_wire_session_over(struct vg_wire_session *session, const char *why)
{
    if (session->state == SESSION_OVER)
        return;
    session->state = SESSION_OVER;
    session->why = why;
    if (session->fd >= 0)
        shutdown(session->fd, SHUT_RDWR);
    pthread_cond_signal(&session->work);
    pthread_cond_broadcast(&session->changed);
}

int64_t
vg_wire_session_most(const struct vg_wire_session *session)
{
    const int64_t returning = VG_WIRE_OPEN_S * SESSION_SECOND;

    return session->is_returning && session->linger > returning ? returning : session->linger;
}

void
vg_wire_session_down(struct vg_wire_session *session)
{
    if (session->state != SESSION_UP)
        return;
    if (!session->is_staying || session->linger == 0) {
        vg_wire_session_over(session, NULL);
        return;
    }
    session->state = SESSION_DOWN;
    session->broken = vg_cl_now();
    if (session->told_of)
        session->told_of->broken = session->broken;
    shutdown(session->fd, SHUT_RDWR);
    pthread_cond_signal(&session->work);
    pthread_cond_broadcast(&session->changed);
}

/* Waits for any change. Looking up the other side's address may take long. */
static void
session_pause(struct vg_wire_session *session)
{
    vg_wire_session_sleep(session, &session->changed, SESSION_SECOND);
    if (session->state == SESSION_DOWN &&
        vg_cl_now() - session->broken > vg_wire_session_most(session) + SESSION_SLACK)
        vg_wire_session_over(session, "it is no longer reachable");
}

void
vg_wire_session_sleep(struct vg_wire_session *session, pthread_cond_t *condition, int64_t ns)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    ns += until.tv_nsec;
    until.tv_sec += ns / SESSION_SECOND;
    until.tv_nsec = ns % SESSION_SECOND;
    pthread_cond_timedwait(condition, &session->lock, &until);
}

/* ---- sending ---- */

static bool
session_owes(const struct vg_wire_session *session)
{
    return session->taken - session->told >= SESSION_OWED;
}

static bool
session_has_more(const struct vg_wire_session *session)
{
    return session->out_left || session->sent != session->kept.end;
}

/* Returns whether there is a frame to send, and starts it. */
static bool
session_begin_frame(struct vg_wire_session *session)
{
    uint64_t size = session->kept.end - session->sent;

    if (session->out_left || session->sent != session->frame_end)
        return true;
    if (size == 0 && !session_owes(session) && !session->is_beating && !session->is_leaving)
        return false;
    size = size < SESSION_FRAME ? size : SESSION_FRAME;
    session->out = (struct session_frame){session->taken, (uint32_t)size,
                                          size == 0 && session->is_leaving ? SESSION_LAST : 0};
    session->out_left = sizeof session->out;
    session->told = session->taken;
    session->frame_end = session->sent + size;
    if (session->reached < session->frame_end)
        session->reached = session->frame_end;
    session->is_beating = false;
    session->is_leaving = session->is_leaving && size > 0;
    session->n_frames++;
    return true;
}

/* Sends the rest of a frame. */
static ssize_t
session_send_frame(struct vg_wire_session *session)
{
    uint64_t left = session->frame_end - session->sent;
    struct iovec parts[3] = {
        {(char *)(&session->out + 1) - session->out_left, session->out_left},
        session_row(&session->kept, session->sent, left),
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    int fd = session->fd;

    parts[2] = (struct iovec){session->kept.bytes, left - parts[1].iov_len};
    session->is_writing = true;
    session->n_users++;
    pthread_mutex_unlock(&session->lock);
    ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    int error = errno;
    pthread_mutex_lock(&session->lock);
    session->n_users--;
    session->is_writing = false;
    errno = error;
    return n;
}

bool
vg_wire_session_push(struct vg_wire_session *session)
{
    bool has_sent = false, ok = true;

    if (session->is_writing)
        return false;
    while (ok && session->state == SESSION_UP && session_begin_frame(session)) {
        ssize_t n = session_send_frame(session);
        if (n < 0 && errno == EINTR)
            continue;
        ok = n >= 0;
        if (!ok && errno != EAGAIN && errno != EWOULDBLOCK)
            vg_wire_session_down(session);
        size_t size = ok ? (size_t)n : 0;
        size_t of_head = size < session->out_left ? size : session->out_left;
        session->out_left -= of_head;
        session->sent += size - of_head;
        has_sent = true;
    }
    if (has_sent)
        pthread_cond_broadcast(&session->changed);
    return ok && session->state == SESSION_UP;
}

/* ---- what comes ---- */

/* Handles the head of a received frame. */
static void
session_take_head(struct vg_wire_session *session)
{
    const struct session_frame *in = &session->in;

    session->in_has = 0;
    if (in->taken - session->kept.begin > session->frame_end - session->kept.begin) {
        vg_wire_session_over(session, "it has acknowledged data that was not sent");
        return;
    }
    session->kept.begin = in->taken;
    session->in_left = in->size;
    if (in->flags & SESSION_LAST)
        vg_wire_session_over(session, NULL);
}

static void
session_take_raw(struct vg_wire_session *session, const unsigned char *bytes, size_t size)
{
    while (size > 0) {
        size_t n;
        if (session->in_left) {
            n = size < session->in_left ? size : session->in_left;
            if (session_used(&session->came) + n > VG_WIRE_SESSION_KEPT) {
                vg_wire_session_over(session, "it has sent more than the limit");
                return;
            }
            session_put(&session->came, bytes, n);
            session->in_left -= (uint32_t)n;
        } else {
            n = sizeof session->in - session->in_has;
            n = size < n ? size : n;
            memcpy((char *)&session->in + session->in_has, bytes, n);
            session->in_has += n;
            if (session->in_has == sizeof session->in)
                session_take_head(session);
        }
        bytes += n;
        size -= n;
    }
}

/* Reads once, in the thread that is_reading. Large data is received directly into TO. Returns its
 * size. */
static size_t
session_read(struct vg_wire_session *session, void *to, size_t size, int flags)
{
    bool is_large = size >= SESSION_DIRECT && session_used(&session->came) == 0;
    bool is_direct = is_large && session->in_left >= SESSION_DIRECT;
    void *at = session->raw;
    size_t most = SESSION_RAW;
    int fd = session->fd;

    if (is_direct) {
        at = to;
        most = size < session->in_left ? size : session->in_left;
    } else if (is_large && !session->in_left) {
        most = sizeof session->in - session->in_has;
    }
    session->n_users++;
    pthread_mutex_unlock(&session->lock);
    ssize_t n = recv(fd, at, most, flags);
    int error = errno;
    int64_t now = n > 0 ? vg_cl_now() : 0;
    pthread_mutex_lock(&session->lock);
    session->n_users--;
    if (n == 0 || (n < 0 && error != EAGAIN && error != EWOULDBLOCK && error != EINTR))
        vg_wire_session_down(session);
    if (n <= 0)
        return 0;
    session->heard = now;
    if (!is_direct) {
        session_take_raw(session, session->raw, (size_t)n);
        return 0;
    }
    session->in_left -= (uint32_t)n;
    return (size_t)n;
}

void
vg_wire_session_look(struct vg_wire_session *session)
{
    if (session->is_reading || session->state != SESSION_UP)
        return;
    session->is_reading = true;
    session_read(session, NULL, 0, MSG_DONTWAIT);
    session->is_reading = false;
    pthread_cond_broadcast(&session->changed);
}

/* Handles a sender that cannot continue: waits until something changes, and receives what comes. */
static void
session_await(struct vg_wire_session *session, void (*help)(void *data), void *data)
{
    bool is_reading = !session->is_reading;
    short events = (short)((session_has_more(session) ? POLLOUT : 0) | (is_reading ? POLLIN : 0));
    struct pollfd at = {.fd = session->fd, .events = events};

    if (help && session_used(&session->came) && session->state == SESSION_UP) {
        pthread_mutex_unlock(&session->lock);
        help(data);
        pthread_mutex_lock(&session->lock);
        return;
    }
    if (session->state != SESSION_UP || session->is_writing || !events) {
        session_pause(session);
        return;
    }
    session->is_reading = session->is_reading || is_reading;
    session->n_users++;
    pthread_mutex_unlock(&session->lock);
    int n = poll(&at, 1, 1000);
    pthread_mutex_lock(&session->lock);
    session->n_users--;
    if (!is_reading)
        return;
    if (n > 0 && (at.revents & ~POLLOUT) && session->state == SESSION_UP)
        session_read(session, NULL, 0, MSG_DONTWAIT);
    session->is_reading = false;
    pthread_cond_broadcast(&session->changed);
}

void
vg_wire_session_flush(struct vg_wire_session *session)
{
    while (session->state == SESSION_UP && session_has_more(session))
        if (!vg_wire_session_push(session))
            session_await(session, NULL, NULL);
}

/* ---- of the link ---- */

bool
vg_wire_session_send(struct vg_wire_session *session, const struct iovec *parts, int n,
                     void (*help)(void *data), void *data)
{
    pthread_mutex_lock(&session->lock);
    for (int i = 0; i < n; i++) {
        const unsigned char *at = parts[i].iov_base;
        for (size_t left = parts[i].iov_len; left > 0 && session->state != SESSION_OVER;) {
            uint64_t room = VG_WIRE_SESSION_KEPT - session_used(&session->kept);
            size_t size = left < room ? left : room;
            size = size < SESSION_FRAME ? size : SESSION_FRAME;
            session_put(&session->kept, at, size);
            at += size;
            left -= size;
            if (size == 0)
                session_await(session, help, data);
            if (size == 0 || session->kept.end - session->sent >= SESSION_FRAME)
                vg_wire_session_push(session);
        }
    }
    /* If there is no connection, the data is sent when there is another one. */
    while (session->state == SESSION_UP && session_has_more(session))
        if (!vg_wire_session_push(session))
            session_await(session, help, data);
    bool ok = session->state != SESSION_OVER;
    pthread_mutex_unlock(&session->lock);
    return ok;
}

void
vg_wire_session_offer(struct vg_wire_session *session, const void *bytes, size_t size)
{
    pthread_mutex_lock(&session->lock);
    if (session->state == SESSION_UP &&
        size <= VG_WIRE_SESSION_KEPT - session_used(&session->kept)) {
        session_put(&session->kept, bytes, size);
        vg_wire_session_push(session);
    }
    pthread_mutex_unlock(&session->lock);
}

static void
session_took(struct vg_wire_session *session, size_t size)
{
    session->taken += size;
    if (session_owes(session))
        vg_wire_session_push(session);
}

bool
vg_wire_session_receive(struct vg_wire_session *session, void *to, size_t size)
{
    char *at = to;

    pthread_mutex_lock(&session->lock);
    while (size > 0) {
        size_t n = 0;
        if (session->state != SESSION_DOWN && session_used(&session->came)) {
            n = session_get(&session->came, at, size);
        } else if (session->state == SESSION_OVER) {
            break;
        } else if (session->state == SESSION_DOWN || session->is_reading) {
            session_pause(session);
        } else if (session_owes(session) && !session->is_writing) {
            /* It could not be sent, and the other side may be waiting for it. */
            session_await(session, NULL, NULL);
            vg_wire_session_push(session);
        } else {
            session->is_reading = true;
            n = session_read(session, at, size, 0);
            session->is_reading = false;
            pthread_cond_broadcast(&session->changed);
        }
        at += n;
        size -= n;
        session_took(session, n);
    }
    pthread_mutex_unlock(&session->lock);
    return size == 0;
}

bool
vg_wire_session_wait(struct vg_wire_session *session, int timeout_ms)
{
    struct pollfd at = {.events = POLLIN};

    pthread_mutex_lock(&session->lock);
    if (session->state == SESSION_UP && !session->is_reading && !session_used(&session->came)) {
        at.fd = session->fd;
        session->is_reading = true;
        session->n_users++;
        pthread_mutex_unlock(&session->lock);
        int n = poll(&at, 1, timeout_ms);
        pthread_mutex_lock(&session->lock);
        session->n_users--;
        if (n > 0 && session->state == SESSION_UP)
            session_read(session, NULL, 0, MSG_DONTWAIT);
        session->is_reading = false;
        pthread_cond_broadcast(&session->changed);
    } else if (session->state != SESSION_OVER && !session_used(&session->came)) {
        vg_wire_session_sleep(session, &session->changed, timeout_ms * INT64_C(1000000));
    }
    bool is_there = session->state == SESSION_OVER ||
                    (session->state == SESSION_UP && session_used(&session->came));
    pthread_mutex_unlock(&session->lock);
    return is_there;
}

/* ---- the end ---- */

void
vg_wire_session_leave(struct vg_wire_session *session)
{
    if (session->state == SESSION_UP) {
        session->is_leaving = true;
        vg_wire_session_push(session);
    }
    vg_wire_session_over(session, NULL);
}
