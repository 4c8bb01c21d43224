/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/fuzz/opencl-side.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock,
                                  const struct timespec *until);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);

_Noreturn void
side_die(const char *why)
{
    fprintf(stderr, "the session is wrong: %s\n", why);
    abort();
}

/* ---- time ---- */

_Atomic int64_t side_passed_s;

int
__wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    int result = __real_clock_gettime(clock, time);

    time->tv_sec += atomic_load(&side_passed_s);
    return result;
}

int
__wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock,
                              const struct timespec *until)
{
    struct timespec soon;

    (void)until;
    __real_clock_gettime(CLOCK_MONOTONIC, &soon);
    soon.tv_nsec += 200000;
    soon.tv_sec += soon.tv_nsec / 1000000000;
    soon.tv_nsec %= 1000000000;
    return __real_pthread_cond_timedwait(condition, lock, &soon);
}

int
__wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    return __real_poll(fds, n, timeout_ms > 1 ? 1 : timeout_ms);
}

void
side_rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

/* ---- the script ---- */

const uint8_t *side_script;
size_t side_script_left;

uint8_t
side_byte(void)
{
    if (side_script_left == 0)
        return 0;
    side_script_left--;
    return *side_script++;
}

/* How many bytes. */
size_t
side_amount(void)
{
    static const size_t others[] = {16 << 10,       65536,   SIDE_FRAME - 1,          SIDE_FRAME,
                                    SIDE_FRAME + 1, 1 << 20, VG_WIRE_SESSION_KEPT + 1};
    uint8_t one = side_byte();

    return one < 0xE0 ? one * (one < 0x80 ? 1u : 37u) : others[one % 7];
}

uint8_t
side_value(uint64_t at, uint8_t stream)
{
    return (uint8_t)((at * 0x9E3779B97F4A7C15u >> 56) ^ at >> 8 ^ stream);
}

/* ---- a side ---- */

struct side sides[2];
_Atomic bool side_has_lied;

static void *
side_run_sender(void *data)
{
    struct side *side = data;
    static const size_t most = 1 << 20;
    unsigned char *bytes = malloc(most);

    while (bytes && !side->is_ending) {
        uint64_t size = side->to_send - side->sent;
        size = size < most ? size : most;
        for (size_t i = 0; i < size; i++)
            bytes[i] = side_value(side->sent + i, side->stream);
        struct iovec parts[2] = {{bytes, size / 3}, {bytes + size / 3, size - size / 3}};
        if (size == 0)
            side_rest();
        else if (!vg_wire_session_send(side->session, parts, 2, NULL, NULL))
            break;
        side->sent += size;
    }
    free(bytes);
    return NULL;
}

static void *
side_run_receiver(void *data)
{
    struct side *side = data;
    static const size_t most = 1 << 20;
    unsigned char *bytes = malloc(most);

    while (bytes && !side->is_ending) {
        uint64_t size = side->to_receive - side->received;
        size = size < most ? size : most;
        if (size == 0)
            side_rest();
        else if (!vg_wire_session_receive(side->session, bytes, size))
            break;
        for (size_t i = 0; i < size && !side_has_lied; i++)
            if (bytes[i] != side_value(side->received + i, (uint8_t)!side->stream))
                side_die("a byte was lost, or came twice");
        side->received += size;
    }
    free(bytes);
    side->has_ended = true;
    return NULL;
}

void
side_begin(struct side *side, uint8_t stream, int fd, vg_wire_session_again again)
{
    struct vg_wire_session_welcome welcome = {.magic = VG_WIRE_SESSION_MAGIC, .id = "a session"};

    memset(side, 0, sizeof *side);
    welcome.linger_s = SIDE_LINGER;
    side->stream = stream;
    side->session = vg_wire_session_begin(fd, &welcome, again, NULL);
    if (!side->session)
        side_die("it cannot begin");
    vg_wire_session_stay(side->session);
    if (pthread_create(&side->sender, NULL, side_run_sender, side) != 0 ||
        pthread_create(&side->receiver, NULL, side_run_receiver, side) != 0)
        side_die("there is no thread for this test");
}

bool
side_is_over(const struct side *side)
{
    pthread_mutex_lock(&side->session->lock);
    bool is_over = side->session->state == SESSION_OVER;
    pthread_mutex_unlock(&side->session->lock);
    return is_over;
}

void
side_check(const struct side *side)
{
    struct vg_wire_session *session = side->session;

    pthread_mutex_lock(&session->lock);
    if (session->kept.end - session->kept.begin > VG_WIRE_SESSION_KEPT ||
        session->came.end - session->came.begin > VG_WIRE_SESSION_KEPT)
        side_die("it keeps more than it may");
    if (session->kept.begin > session->kept.end || session->frame_end > session->kept.end ||
        session->sent > session->frame_end || session->told > session->taken)
        side_die("it has lost count");
    pthread_mutex_unlock(&session->lock);
}

void
side_end(struct side *side)
{
    side->is_ending = true;
    vg_wire_session_shut(side->session);
    pthread_join(side->sender, NULL);
    pthread_join(side->receiver, NULL);
    vg_wire_session_why(side->session);
    vg_wire_session_close(side->session);
}
