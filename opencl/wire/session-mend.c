/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread of a session, which monitors its connection and replaces it if necessary.
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "opencl/base/clock.h"
#include "opencl/base/say.h"
#include "opencl/wire/fault.h"
#include "opencl/wire/link.h"
#include "opencl/wire/session-private.h"
#include "opencl/wire/tls.h"

#define MEND_SECOND INT64_C(1000000000)
#define MEND_SILENT (VG_WIRE_SESSION_SILENT_S * MEND_SECOND)
#define MEND_MUTE   (60 * MEND_SECOND) /* after this silence, nothing is sent to the other side */
#define MEND_FIRST  (MEND_SECOND / 20) /* delay of the second attempt; doubles each time */
#define MEND_MOST   MEND_SECOND
#define MEND_SETTLE                                                                                \
 500 /* ms that a program waits at its end for the thread that carries its last message */

/* ---- while the connection is there ---- */

/* Returns whether nothing has come, and nothing can be read. */
static bool
mend_is_silent(const struct vg_wire_session *session, int64_t ns)
{
    struct pollfd at = {.fd = session->fd, .events = POLLIN};

    return vg_cl_now() - session->heard > ns && poll(&at, 1, 0) == 0;
}

/* Returns whether the other side, which is connected, has made no progress for too long. */
static bool
mend_is_stuck(struct vg_wire_session *session)
{
    uint64_t went_to = session->taken + session->kept.begin;

    if (session->went_to != went_to) {
        session->went_to = went_to;
        session->went_on = vg_cl_now();
    }
    return session->is_returning && vg_cl_now() - session->went_on > VG_WIRE_RETURN_S * MEND_SECOND;
}

/* Called once a second. */
static void
mend_check(struct vg_wire_session *session, uint64_t *n_frames)
{
    bool has_spoken = session->n_frames != *n_frames;

    vg_wire_session_look(session);
    if (session->state != SESSION_UP)
        return;
    if (!session->is_staying && vg_cl_now() - session->begun > VG_WIRE_OPEN_S * MEND_SECOND)
        vg_wire_session_over(session, NULL);
    else if (session->again && mend_is_stuck(session))
        vg_wire_session_over(session, "it does not answer");
    else if (session->again && session->is_staying && session->linger &&
             mend_is_silent(session, MEND_SILENT))
        vg_wire_session_down(session);
    else if (session->again && session->is_staying &&
             mend_is_silent(session, VG_WIRE_OPEN_S * MEND_SECOND))
        vg_wire_session_over(session, "it has stopped sending");
    /* Unread messages must not fill the connection to a stopped process. */
    session->is_beating = !has_spoken && (session->again || !mend_is_silent(session, MEND_MUTE));
    vg_wire_session_push(session);
    *n_frames = session->n_frames;
}

void
vg_wire_session_publish(struct vg_wire_session *session, struct vg_wire_session_state *told)
{
    pthread_mutex_lock(&session->lock);
    session->told_of = told;
    pthread_mutex_unlock(&session->lock);
}

void
vg_wire_session_finish(struct vg_wire_session *session, int ms)
{
    const int64_t until = vg_cl_now() + ms * INT64_C(1000000);
    char bytes[4096];

    pthread_mutex_lock(&session->lock);
    while (session->state == SESSION_UP && session->is_writing && vg_cl_now() < until)
        vg_wire_session_sleep(session, &session->changed, MEND_SECOND / 1000);
    vg_wire_session_leave(session);
    const int fd = session->fd;
    pthread_mutex_unlock(&session->lock);
    while (fd >= 0 && vg_cl_now() < until && recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
}

bool
vg_wire_session_is_over(struct vg_wire_session *session)
{
    pthread_mutex_lock(&session->lock);
    const bool is_over = session->state == SESSION_OVER;
    pthread_mutex_unlock(&session->lock);
    return is_over;
}

/* ---- another connection ---- */

/* Returns whether the other side can have received this much: at least what it reported before, and
 * at most what was ever sent over any connection. */
static bool
mend_can_take(const struct vg_wire_session *session, uint64_t taken)
{
    return taken - session->kept.begin <= session->reached - session->kept.begin;
}

/* Continues from TAKEN, which the other side has received, and from what was received here. */
static void
mend_continue(struct vg_wire_session *session, int fd, uint64_t taken)
{
    session->fd = fd;
    session->kept.begin = session->sent = session->frame_end = taken;
    session->out_left = 0;
    session->told = session->taken;
    session->came.begin = session->came.end;
    session->in_has = 0;
    session->in_left = 0;
    session->heard = vg_cl_now();
    session->state = SESSION_UP;
    if (session->told_of) {
        session->told_of->n_mended++;
        session->told_of->broken = 0;
    }
    vg_cl_log("reconnected to the peer after %.1f s",
              (double)(session->heard - session->broken) / 1e9);
    pthread_cond_broadcast(&session->changed);
    vg_wire_session_flush(session);
}

/* Returns the last known reason why there is no other connection. */
static const char *
mend_why(struct vg_wire_session *session)
{
    const char *fault = vg_wire_fault_text();

    if (!fault)
        return "it is no longer reachable";
    snprintf(session->fault, sizeof session->fault, "it is no longer reachable: %s", fault);
    return session->fault;
}

/* Returns why the proxy has ended the program, if it has reported this. */
static const char *
mend_why_ended(struct vg_wire_session *session)
{
    const char *fault = vg_wire_fault_text();

    if (!fault)
        return "it no longer knows this program";
    snprintf(session->fault, sizeof session->fault, "it has terminated this program: %s", fault);
    return session->fault;
}

static void
mend_by_connecting(struct vg_wire_session *session)
{
    struct vg_wire_session_hello hello = {.taken = session->taken};
    struct vg_wire_session_welcome welcome = {.taken = 0};

    memcpy(hello.id, session->id, sizeof hello.id);
    for (int64_t pause = MEND_FIRST; session->state == SESSION_DOWN;) {
        pthread_mutex_unlock(&session->lock);
        int fd = session->again(session->data, &hello, &welcome);
        int error = errno;
        pthread_mutex_lock(&session->lock);
        if (fd >= 0 && session->state == SESSION_DOWN && mend_can_take(session, welcome.taken)) {
            mend_continue(session, fd, welcome.taken);
            return;
        }
        if (fd >= 0)
            close(fd);
        if (fd >= 0 && session->state == SESSION_DOWN)
            vg_wire_session_over(session, "it has acknowledged data that was not sent");
        else if (error == ESRCH || error == EPROTO)
            vg_wire_session_over(session, mend_why_ended(session));
        else if (vg_cl_now() - session->broken >= vg_wire_session_most(session))
            vg_wire_session_over(session, mend_why(session));
        else if (session->state == SESSION_DOWN)
            vg_wire_session_sleep(session, &session->work, pause);
        pause = pause * 2 < MEND_MOST ? pause * 2 : MEND_MOST;
    }
}

static bool
mend_welcome(struct vg_wire_session *session, int fd)
{
    struct vg_wire_session_welcome welcome = {.magic = VG_WIRE_SESSION_MAGIC,
                                              .taken = session->taken,
                                              .linger_s =
                                                  (uint64_t)(session->linger / MEND_SECOND)};

    memcpy(welcome.id, session->id, sizeof welcome.id);
    return send(fd, &welcome, sizeof welcome, MSG_NOSIGNAL | MSG_DONTWAIT) ==
           (ssize_t)sizeof welcome;
}

static void
mend_by_waiting(struct vg_wire_session *session)
{
    while (session->state == SESSION_DOWN) {
        int fd = session->next;
        int64_t left = session->broken + session->linger - vg_cl_now();
        session->next = -1;
        if (fd >= 0 && mend_can_take(session, session->next_taken) && mend_welcome(session, fd)) {
            mend_continue(session, fd, session->next_taken);
            return;
        }
        if (fd >= 0)
            close(fd);
        else if (left <= 0)
            vg_wire_session_over(session, "it has not reconnected");
        else
            vg_wire_session_sleep(session, &session->work, left);
    }
}

void
vg_wire_session_replace(struct vg_wire_session *session, int fd, uint64_t taken)
{
    pthread_mutex_lock(&session->lock);
    /* A late message from before the present connection is no reason to end that. */
    if (session->state == SESSION_OVER || !mend_can_take(session, taken)) {
        close(fd);
    } else {
        if (session->next >= 0)
            close(session->next);
        session->next = fd;
        session->next_taken = taken;
        vg_wire_session_down(session);
        pthread_cond_signal(&session->work);
    }
    pthread_mutex_unlock(&session->lock);
}

void *
vg_wire_session_run(void *data)
{
    struct vg_wire_session *session = data;
    uint64_t n_frames = 0;

    pthread_mutex_lock(&session->lock);
    while (!session->is_closing) {
        if (session->state == SESSION_UP) {
            vg_wire_session_sleep(session, &session->work, MEND_SECOND);
            if (session->state == SESSION_UP)
                mend_check(session, &n_frames);
        } else if (session->state == SESSION_OVER) {
            pthread_cond_wait(&session->work, &session->lock);
        } else if (session->n_users) {
            /* They detect that it is shut down. */
            vg_wire_session_sleep(session, &session->changed, MEND_SECOND / 100);
        } else {
            close(session->fd);
            session->fd = -1;
            vg_cl_log("the connection to the peer is broken");
            if (session->again)
                mend_by_connecting(session);
            else
                mend_by_waiting(session);
        }
    }
    pthread_mutex_unlock(&session->lock);
    return NULL;
}

/* ---- a program that ends ---- */

static pthread_mutex_t mend_lock = PTHREAD_MUTEX_INITIALIZER;
static struct vg_wire_session *mend_all;

void
vg_wire_session_list(struct vg_wire_session *session)
{
    session->pid = getpid();
    pthread_mutex_lock(&mend_lock);
    session->next_of_all = mend_all;
    mend_all = session;
    pthread_mutex_unlock(&mend_lock);
}

void
vg_wire_session_unlist(const struct vg_wire_session *session)
{
    pthread_mutex_lock(&mend_lock);
    for (struct vg_wire_session **link = &mend_all; *link; link = &(*link)->next_of_all)
        if (*link == session) {
            *link = session->next_of_all;
            break;
        }
    pthread_mutex_unlock(&mend_lock);
}

static bool
mend_try_lock(struct vg_wire_session *session)
{
    for (int try = 0; try < 100; try++) {
        if (pthread_mutex_trylock(&session->lock) == 0)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

/* Called at the end of exit(), so that the other side does not wait for the program to return. Not
 * in a forked process, whose connection belongs to the program, and without waiting for locks. */
static void __attribute__((destructor)) mend_leave_all(void)
{
    bool has_left = false;

    if (pthread_mutex_trylock(&mend_lock) != 0)
        return;
    for (struct vg_wire_session *one = mend_all; one; one = one->next_of_all) {
        if (one->pid != getpid() || !mend_try_lock(one))
            continue;
        one->has_left = true;
        vg_wire_session_leave(one);
        pthread_mutex_unlock(&one->lock);
        has_left = true;
    }
    pthread_mutex_unlock(&mend_lock);
    if (has_left)
        vg_wire_tls_settle(MEND_SETTLE);
}
