/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/serve/turn.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "opencl/base/clock.h"
#include "opencl/base/say.h"
#include "opencl/icd/entries.h"
#include "opencl/serve/meter.h"
#include "opencl/track/callback.h"
#include "opencl/wire/commands.h"
#include "opencl/wire/pass.h"

#define TURN_US INT64_C(1000) /* in ns */
#define TURN_MS (1000 * TURN_US)

/* The minimum interval of the queries whether the proxy exists. */
#define TURN_BEAT (900 * TURN_MS)

/* If no command has come for less than this, the client may just be computing the next one. */
#define TURN_GRACE (500 * TURN_US)

/* Commands that wait for the program longer than this do not hold the device. */
#define TURN_PARK (100 * TURN_MS)

/* How much work the device may have before this side waits for it: while others wait, and
 * otherwise. */
#define TURN_AHEAD_SHARED (20 * TURN_MS)
#define TURN_AHEAD_ALONE  (1000 * TURN_MS)
#define TURN_DEPTH_MAX    256
#define TURN_DEPTH_FIRST  16
#define TURN_SHARED_FOR   (2000 * TURN_MS) /* after it was requested back */

struct vg_serve_turn {
    struct vg_serve *serve;
    int fd, wake;
    int64_t max_kernel; /* ns; 0: none */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has, wants;
    bool is_closed; /* it has the device, and nothing more may start */
    bool is_returning;
    bool is_alone; /* the proxy no longer exists: nothing schedules turns or makes clients wait */
    unsigned n_in, n_waiting;
    uint64_t n_commands; /* in total */
    /* since the device was last idle */
    unsigned n_since, depth;
    unsigned n_behind, depth_most; /* since all the program's events were set */
    int64_t since;
    uint64_t drain_requested, drain_done;
    int64_t asked, parked;   /* time of the last request; 0: none */
    unsigned n_unheard;      /* number of successive queries that the proxy has not answered */
    int64_t beat;            /* time of the last query */
    pthread_mutex_t signing; /* taken before the other lock */
    bool is_signed;          /* the proxy has answered with: */
    unsigned char mac[VG_SHA256_SIZE];
};

static void
turn_send(const struct vg_serve_turn *turn, char what)
{
    ssize_t n = send(turn->fd, &what, 1, MSG_NOSIGNAL);

    (void)n; /* turn_listen() detects that the proxy no longer exists */
}

static void
turn_wake(const struct vg_serve_turn *turn)
{
    const uint64_t one = 1;
    ssize_t n = write(turn->wake, &one, sizeof one);

    (void)n;
}

/* ---- waiting for the device ---- */

void
vg_serve_turn_finish(struct vg_serve *serve)
{
    cl_command_queue queue;

    for (uint64_t at = 1; (queue = vg_serve_next_queue(serve, &at)) != NULL; at++) {
        vg_cl_dispatch.clFinish(queue);
        vg_cl_dispatch.clReleaseCommandQueue(queue);
        vg_serve_meter_settle();
    }
}

static void *
turn_run_drains(void *data)
{
    struct vg_serve_turn *turn = data;

    pthread_mutex_lock(&turn->lock);
    for (;;) {
        while (turn->drain_done == turn->drain_requested)
            pthread_cond_wait(&turn->changed, &turn->lock);
        uint64_t asked = turn->drain_requested;
        pthread_mutex_unlock(&turn->lock);
        vg_serve_turn_finish(turn->serve);
        pthread_mutex_lock(&turn->lock);
        turn->drain_done = asked;
        turn->n_since = 0;
        turn_wake(turn);
    }
    return NULL;
}

/* Called under the lock. */
static uint64_t
turn_request_drain(struct vg_serve_turn *turn)
{
    turn->drain_requested++;
    pthread_cond_broadcast(&turn->changed);
    return turn->drain_requested;
}

/* Waits until the device has processed its maximum amount of work, and learns how much that was.
 * Called under the lock. */
static void
turn_throttle(struct vg_serve_turn *turn)
{
    unsigned n = turn->n_since;
    int64_t since = turn->since;

    pthread_mutex_unlock(&turn->lock);
    vg_serve_turn_finish(turn->serve);
    pthread_mutex_lock(&turn->lock);
    int64_t now = vg_cl_now(), each = (now - since) / n + 1;
    bool is_shared = turn->asked && now - turn->asked < TURN_SHARED_FOR;
    int64_t depth = (is_shared ? TURN_AHEAD_SHARED : TURN_AHEAD_ALONE) / each;
    turn->depth = depth < 1 ? 1 : depth > TURN_DEPTH_MAX ? TURN_DEPTH_MAX : (unsigned)depth;
    turn->n_since = 0;
}

/* Called under the lock. */
static void
turn_want(struct vg_serve_turn *turn)
{
    turn->wants = true;
    turn->n_unheard = 0;
    turn->beat = vg_cl_now();
    turn_send(turn, VG_TURN_WANT);
}

/* Waits for any change, or for a second, after which it queries whether the proxy exists. A time
 * for which this process was stopped together with the proxy counts as one second, too. Called
 * under the lock. */
static void
turn_await(struct vg_serve_turn *turn)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    if (pthread_cond_timedwait(&turn->changed, &turn->lock, &until) != ETIMEDOUT || turn->has ||
        !turn->wants || vg_cl_now() - turn->beat < TURN_BEAT)
        return;
    if (turn->n_unheard++ >= VG_WIRE_OPEN_S) {
        vg_cl_say("the proxy has sent nothing for %d s; terminating its client", VG_WIRE_OPEN_S);
        vg_serve_end(turn->serve, VG_WIRE_MUTE, VG_WIRE_OPEN_S);
    }
    turn->beat = vg_cl_now();
    turn_send(turn, VG_TURN_THERE);
}

bool
vg_serve_turn_enter(struct vg_serve_turn *turn, unsigned op)
{
    if (!turn || !vg_wire_is_command(op))
        return true;
    pthread_mutex_lock(&turn->lock);
    turn->n_waiting++;
    for (;;) {
        /* Commands that only the program can unblock are limited, because they cannot be waited
         * for. */
        if (turn->n_behind >= turn->depth_most && op != VG_WIRE_OP_SetUserEventStatus) {
            turn->n_waiting--;
            pthread_mutex_unlock(&turn->lock);
            return false;
        }
        /* Events for which commands on the device wait may be set until the turn ends. */
        if (turn->has && (!turn->is_closed || op == VG_WIRE_OP_SetUserEventStatus)) {
            if (turn->n_since < turn->depth || vg_cl_user_events_n)
                break;
            turn_throttle(turn);
            continue;
        }
        if (!turn->has && !turn->wants)
            turn_want(turn);
        turn_await(turn);
    }
    turn->n_waiting--;
    turn->n_in++;
    turn->n_commands++;
    turn->n_behind += vg_cl_user_events_n > 0;
    if (turn->n_since++ == 0)
        turn->since = vg_cl_now();
    pthread_mutex_unlock(&turn->lock);
    return true;
}

void
vg_serve_turn_leave(struct vg_serve_turn *turn, unsigned op)
{
    if (!turn || !vg_wire_is_command(op))
        return;
    pthread_mutex_lock(&turn->lock);
    if (vg_cl_user_events_n == 0)
        turn->n_behind = 0;
    if (--turn->n_in == 0 && turn->is_returning)
        turn_wake(turn);
    pthread_mutex_unlock(&turn->lock);
}

/* ---- what the proxy says ---- */

/* Waits until UNTIL for a message of the proxy, which is returned, or for any other change, for
 * which it returns 0. */
static char
turn_listen(struct vg_serve_turn *turn, int64_t until)
{
    struct pollfd at[2] = {{.fd = turn->fd, .events = POLLIN},
                           {.fd = turn->wake, .events = POLLIN}};
    int64_t left = until == INT64_MAX ? 0 : until - vg_cl_now();
    struct timespec timeout = {left > 0 ? left / 1000000000 : 0, left > 0 ? left % 1000000000 : 0};
    union {
        char said;
        struct vg_turn_link link;
        struct vg_turn_sign sign;
    } heard = {.said = 0};
    uint64_t count;
    int fd = -1;

    if (ppoll(at, 2, until == INT64_MAX ? NULL : &timeout, NULL) <= 0)
        return 0;
    if (at[1].revents) {
        ssize_t n = read(turn->wake, &count, sizeof count);
        (void)n;
    }
    if (at[0].revents && vg_wire_pass_receive(turn->fd, &heard, sizeof heard, &fd, 0) <= 0) {
        pthread_mutex_lock(&turn->lock);
        turn->is_alone = true;
        turn->has = true;
        turn->is_closed = false;
        turn->is_returning = false;
        pthread_cond_broadcast(&turn->changed);
        pthread_mutex_unlock(&turn->lock);
    }
    if (fd >= 0)
        vg_serve_replace_link(turn->serve, fd, heard.link.hello.taken);
    if (heard.said == VG_TURN_SIGN) {
        pthread_mutex_lock(&turn->lock);
        memcpy(turn->mac, heard.sign.bytes, sizeof turn->mac);
        turn->is_signed = true;
        pthread_cond_broadcast(&turn->changed);
        pthread_mutex_unlock(&turn->lock);
    }
    return heard.said;
}

/* Called under the lock. */
static void
turn_give_back(struct vg_serve_turn *turn)
{
    turn->has = false;
    turn->is_closed = false;
    turn->is_returning = false;
    turn->wants = false;
    turn_send(turn, VG_TURN_BACK);
    if (turn->n_waiting > 0)
        turn_want(turn);
}

static void
turn_end_if_late(const struct vg_serve_turn *turn, int64_t since)
{
    if (turn->max_kernel && since && vg_cl_now() - since >= turn->max_kernel)
        vg_serve_end(turn->serve, VG_WIRE_LONG, (unsigned)(turn->max_kernel / (1000 * TURN_MS)));
}

/* Returns the device when all commands are done. Unless IS_ASKED, only if no further command
 * comes. */
static void
turn_return(struct vg_serve_turn *turn, bool is_asked)
{
    int64_t asked = vg_cl_now(), idle = 0;
    uint64_t drain = 0, seen = 0;
    bool is_over = false;

    pthread_mutex_lock(&turn->lock);
    turn->asked = asked;
    turn->is_closed = is_asked;
    turn->is_returning = true;
    while (!is_over) {
        int64_t now = vg_cl_now(), until = now + TURN_PARK;
        bool is_waiting = vg_cl_user_events_n > 0;
        if (drain == 0 && (!turn->is_closed || turn->n_in == 0)) {
            drain = turn_request_drain(turn);
            seen = turn->n_commands;
            idle = 0;
        } else if (drain && turn->drain_done >= drain && turn->n_in == 0) {
            if (turn->n_commands != seen)
                drain = 0;
            else if (turn->is_closed || (idle && now - idle >= TURN_GRACE))
                is_over = true;
            else
                idle = idle ? idle : now;
            until = idle + TURN_GRACE;
        }
        if (is_over || (turn->is_closed && is_waiting && now - asked >= TURN_PARK)) {
            turn->parked = is_over ? 0 : turn->parked ? turn->parked : asked;
            turn_give_back(turn);
            break;
        }
        if (drain == 0 && (!turn->is_closed || turn->n_in == 0))
            continue;
        pthread_mutex_unlock(&turn->lock);
        if (turn->is_closed)
            turn_end_if_late(turn, asked);
        char said = turn_listen(turn, until);
        pthread_mutex_lock(&turn->lock);
        if (turn->is_alone)
            break;
        if (said == VG_TURN_ASK) {
            turn->is_closed = true;
            asked = vg_cl_now();
        }
    }
    pthread_mutex_unlock(&turn->lock);
}

bool
vg_serve_turn_sign(struct vg_serve_turn *turn, const unsigned char digest[VG_SHA256_SIZE],
                   unsigned char mac[VG_SHA256_SIZE])
{
    struct vg_turn_sign sign = {.said = VG_TURN_SIGN};

    memcpy(sign.bytes, digest, sizeof sign.bytes);
    pthread_mutex_lock(&turn->signing);
    pthread_mutex_lock(&turn->lock);
    turn->is_signed = false;
    bool ok = send(turn->fd, &sign, sizeof sign, MSG_NOSIGNAL) == (ssize_t)sizeof sign;
    while (ok && !turn->is_signed && !turn->is_alone)
        pthread_cond_wait(&turn->changed, &turn->lock);
    ok = ok && turn->is_signed;
    if (ok)
        memcpy(mac, turn->mac, sizeof turn->mac);
    pthread_mutex_unlock(&turn->lock);
    pthread_mutex_unlock(&turn->signing);
    return ok;
}

static void *
turn_run(void *data)
{
    struct vg_serve_turn *turn = data;

    for (;;) {
        int64_t until =
            turn->parked && turn->max_kernel ? turn->parked + turn->max_kernel : INT64_MAX;
        char said = turn_listen(turn, until);
        if (turn->is_alone)
            return NULL; /* only this thread sets and reads it */
        pthread_mutex_lock(&turn->lock);
        turn->n_unheard = said ? 0 : turn->n_unheard;
        if (said == VG_TURN_GIVE) {
            turn->has = true;
            turn->wants = false;
            pthread_cond_broadcast(&turn->changed);
        }
        bool has = turn->has;
        if (turn->drain_done == turn->drain_requested)
            turn->parked = 0;
        pthread_mutex_unlock(&turn->lock);
        turn_end_if_late(turn, turn->parked);
        if (has && (said == VG_TURN_IDLE || said == VG_TURN_ASK))
            turn_return(turn, said == VG_TURN_ASK);
        if (turn->is_alone)
            return NULL;
    }
}

struct vg_serve_turn *
vg_serve_turn_begin(struct vg_serve *serve, const struct vg_serve_limits *limits)
{
    struct vg_serve_turn *turn = calloc(1, sizeof *turn);
    pthread_condattr_t attr;
    pthread_t thread;

    if (!turn)
        return NULL;
    turn->serve = serve;
    turn->fd = limits->turns;
    turn->max_kernel = limits->max_kernel_s * 1000 * TURN_MS;
    turn->depth_most = limits->depth;
    turn->depth = TURN_DEPTH_FIRST;
    turn->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&turn->lock, NULL);
    pthread_mutex_init(&turn->signing, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&turn->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (turn->wake < 0 || pthread_create(&thread, NULL, turn_run, turn) != 0)
        return NULL;
    pthread_detach(thread);
    if (pthread_create(&thread, NULL, turn_run_drains, turn) != 0)
        return NULL;
    pthread_detach(thread);
    return turn;
}
