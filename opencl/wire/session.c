/* SPDX-License-Identifier: Apache-2.0
 *
 * The start and the end of a session.
 */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opencl/base/clock.h"
#include "opencl/wire/session-private.h"

#define SESSION_SECOND INT64_C(1000000000)

static void
session_free(struct vg_wire_session *session)
{
    pthread_cond_destroy(&session->changed);
    pthread_cond_destroy(&session->work);
    pthread_mutex_destroy(&session->lock);
    free(session->kept.bytes);
    free(session->came.bytes);
    free(session->raw);
    free(session);
}

struct vg_wire_session *
vg_wire_session_begin(int fd, const struct vg_wire_session_welcome *welcome,
                      vg_wire_session_again again, void *data)
{
    struct vg_wire_session *session = calloc(1, sizeof *session);
    pthread_condattr_t attr;
    sigset_t all, before;

    if (!session)
        return NULL;
    memcpy(session->id, welcome->id, sizeof session->id);
    session->linger = (int64_t)(welcome->linger_s % (UINT64_C(1) << 32)) * SESSION_SECOND;
    session->again = again;
    session->data = data;
    session->fd = fd;
    session->next = -1;
    session->begun = session->heard = vg_cl_now();
    session->kept.bytes = malloc(VG_WIRE_SESSION_KEPT);
    session->came.bytes = malloc(VG_WIRE_SESSION_KEPT);
    session->raw = malloc(SESSION_RAW);
    pthread_mutex_init(&session->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&session->changed, &attr);
    pthread_cond_init(&session->work, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = session->kept.bytes && session->came.bytes && session->raw &&
              pthread_create(&session->thread, NULL, vg_wire_session_run, session) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (ok) {
        pthread_setname_np(session->thread, "vgpu-link");
        if (again)
            vg_wire_session_list(session);
        return session;
    }
    session_free(session);
    errno = ENOMEM;
    return NULL;
}

void
vg_wire_session_return(struct vg_wire_session *session)
{
    pthread_mutex_lock(&session->lock);
    session->is_staying = session->is_returning = true;
    session->went_on = vg_cl_now();
    pthread_mutex_unlock(&session->lock);
}

void
vg_wire_session_stay(struct vg_wire_session *session)
{
    pthread_mutex_lock(&session->lock);
    session->is_staying = true;
    session->is_returning = false;
    pthread_mutex_unlock(&session->lock);
}

void
vg_wire_session_shut(struct vg_wire_session *session)
{
    pthread_mutex_lock(&session->lock);
    vg_wire_session_leave(session);
    session->came.begin = session->came.end;
    pthread_mutex_unlock(&session->lock);
}

void
vg_wire_session_close(struct vg_wire_session *session)
{
    vg_wire_session_unlist(session);
    pthread_mutex_lock(&session->lock);
    session->is_closing = true;
    vg_wire_session_over(session, NULL);
    pthread_cond_signal(&session->work);
    pthread_mutex_unlock(&session->lock);
    pthread_join(session->thread, NULL);
    if (session->fd >= 0)
        close(session->fd);
    if (session->next >= 0)
        close(session->next);
    session_free(session);
}

bool
vg_wire_session_is_cut(struct vg_wire_session *session)
{
    pthread_mutex_lock(&session->lock);
    bool is_cut = session->state != SESSION_UP ||
                  vg_cl_now() - session->heard > VG_WIRE_SESSION_SILENT_S * SESSION_SECOND / 2;
    pthread_mutex_unlock(&session->lock);
    return is_cut;
}

bool
vg_wire_session_has_left(struct vg_wire_session *session)
{
    pthread_mutex_lock(&session->lock);
    bool has_left = session->has_left;
    pthread_mutex_unlock(&session->lock);
    return has_left;
}

const char *
vg_wire_session_why(struct vg_wire_session *session)
{
    pthread_mutex_lock(&session->lock);
    const char *why = session->why;
    pthread_mutex_unlock(&session->lock);
    return why;
}
