/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions that outlive their connections: a script sends, receives, breaks connections in the
 * middle of anything, has time go by, and lies. Either one side is real, and the script plays the
 * other one, or both are, and the script is the network between them.
 *
 * Each byte of a stream says by its value which one it is. So a side that is given one twice, or
 * misses one, is seen at once: a command would be done twice, or never. Nothing is kept beyond what
 * a session may keep, numbers that cannot be end it with a reason, and between two sides that are
 * honest all that was sent arrives in the end, unless they were told to give up.
 *
 * Time is the script's: waiting takes next to none.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/fuzz/opencl-side.h"

#define SESSION_STREAM (24 << 20) /* bytes that one side sends, at most */
#define SESSION_HANG_S 50         /* of real time: nobody is so busy */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the other side, or the network ---- */

/* Of the connections, the ends that are the script's: of the program's side, of the proxy's. */
static pthread_mutex_t net_lock = PTHREAD_MUTEX_INITIALIZER;
static int net_fds[2];
static _Atomic unsigned n_refused; /* the next tries to connect that fail */
static _Atomic int refusal;        /* errno */

/* Of the side that the script plays. */
static struct {
    uint64_t at;   /* the byte that it sends next */
    uint64_t seen; /* the byte that it receives next */
    uint64_t left; /* of the frame that comes */
    struct session_frame in;
    size_t in_has;
    uint64_t told;  /* bytes that the real side said it has taken */
    uint64_t acked; /* bytes that it said it has taken itself */
    uint64_t owes;  /* bytes of a frame that it has not sent */
    bool has_left;
    bool must_fail; /* it has come back with a number that cannot be */
} liar;
static _Atomic int64_t liar_adds; /* to what it has taken, when it comes back */

/* Returns this side's end of a new connection, in which not all has room; the other one's in
 * *OTHER.
 */
static int
new_connection(int *other)
{
    const int room = 128 << 10;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        side_die("there is no connection for this test");
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    *other = pair[1];
    return pair[0];
}

static void
set_end(unsigned i, int fd)
{
    if (net_fds[i] >= 0)
        close(net_fds[i]);
    net_fds[i] = fd;
}

/* What the proxy's side answers to who comes back; false: it says nothing. */
static bool
hear_welcome(int fd, struct vg_wire_session_welcome *welcome)
{
    for (int tries = 0; tries < 20000; tries++) {
        ssize_t n = recv(fd, welcome, sizeof *welcome, MSG_DONTWAIT);
        if (n >= 0)
            return n == (ssize_t)sizeof *welcome && welcome->magic == VG_WIRE_SESSION_MAGIC;
        side_rest();
    }
    return false;
}

/* The real side has taken so much, and goes on with what the liar claims to have, or will not. */
static void
liar_comes_back(uint64_t taken, uint64_t claims)
{
    if (!side_has_lied && (taken > liar.at || taken < liar.told))
        side_die("it has acknowledged data that was not sent");
    liar.at = liar.told = taken;
    liar.seen = liar.acked = claims;
    liar.left = liar.in_has = liar.owes = 0;
}

/* Of a session without a connection, which sends nothing. */
static bool
is_lie(struct vg_wire_session *session, uint64_t claims)
{
    pthread_mutex_lock(&session->lock);
    bool is_lie = claims < session->kept.begin || claims > session->reached;
    pthread_mutex_unlock(&session->lock);
    return is_lie;
}

/* The program's side connects again, from its own thread. */
static int
connect_again(void *data, const struct vg_wire_session_hello *hello,
              struct vg_wire_session_welcome *welcome)
{
    int far, near, proxys_far, proxys_near;

    (void)data;
    if (n_refused > 0) {
        n_refused--;
        errno = refusal;
        return -1;
    }
    *welcome = (struct vg_wire_session_welcome){.magic = VG_WIRE_SESSION_MAGIC};
    near = new_connection(&far);
    pthread_mutex_lock(&net_lock);
    if (!sides[1].session) {
        welcome->taken = liar.seen + (uint64_t)atomic_exchange(&liar_adds, 0);
        liar_comes_back(hello->taken, welcome->taken);
        liar.must_fail = liar.must_fail || is_lie(sides[0].session, welcome->taken);
        set_end(0, far);
        pthread_mutex_unlock(&net_lock);
        return near;
    }
    pthread_mutex_unlock(&net_lock);
    proxys_near = new_connection(&proxys_far);
    vg_wire_session_replace(sides[1].session, proxys_near, hello->taken);
    if (!hear_welcome(proxys_far, welcome)) {
        close(near);
        close(far);
        close(proxys_far);
        errno = side_is_over(&sides[1]) ? ESRCH : ETIMEDOUT;
        return -1;
    }
    pthread_mutex_lock(&net_lock);
    set_end(0, far);
    set_end(1, proxys_far);
    pthread_mutex_unlock(&net_lock);
    return near;
}

static void
cut(unsigned i)
{
    pthread_mutex_lock(&net_lock);
    if (net_fds[i] >= 0)
        shutdown(net_fds[i], SHUT_RDWR);
    pthread_mutex_unlock(&net_lock);
}

/* Carries up to SIZE bytes of what side I has sent to the other one. */
static size_t
carry(unsigned i, size_t size)
{
    static unsigned char bytes[65536];
    size_t all = 0;
    ssize_t n = 1, done;

    pthread_mutex_lock(&net_lock);
    while (all < size && n > 0 && net_fds[0] >= 0 && net_fds[1] >= 0) {
        size_t most = size - all < sizeof bytes ? size - all : sizeof bytes;
        n = recv(net_fds[i], bytes, most, MSG_DONTWAIT | MSG_PEEK);
        done = n > 0 ? send(net_fds[!i], bytes, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) : -1;
        /* Where one end is gone, so is the other one for who notices. */
        if (n == 0 || (n > 0 && done < 0 && errno != EAGAIN)) {
            shutdown(net_fds[0], SHUT_RDWR);
            shutdown(net_fds[1], SHUT_RDWR);
        }
        n = done > 0 ? recv(net_fds[i], bytes, (size_t)done, MSG_DONTWAIT) : -1;
        all += n > 0 ? (size_t)n : 0;
    }
    pthread_mutex_unlock(&net_lock);
    return all;
}

/* ---- the liar ---- */

/* Sends as much as there is room for. */
static size_t
liar_put(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    size_t left = size;

    for (int tries = 0; left > 0 && tries < 500; tries++) {
        ssize_t n = send(fd, at, left, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            break;
        at += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
        if (n <= 0)
            side_rest();
    }
    return size - left;
}

static void
liar_put_stream(int fd, const struct side *side, size_t size)
{
    static unsigned char bytes[65536];

    for (size_t n, done = 1; size > 0 && done > 0; size -= done) {
        n = size < sizeof bytes ? size : sizeof bytes;
        for (size_t i = 0; i < n; i++)
            bytes[i] = side_value(liar.at + i, (uint8_t)!side->stream);
        done = liar_put(fd, bytes, n);
        liar.at += done;
        liar.owes -= done;
    }
}

/* Sends the head of a frame, and up to HAS bytes of it. False: its beginning could not be sent. */
static bool
liar_send(int fd, const struct side *side, struct session_frame frame, size_t has)
{
    liar_put_stream(fd, side, liar.owes);
    if (liar.owes)
        return false;
    size_t n = liar_put(fd, &frame, sizeof frame);
    if (n != sizeof frame) {
        side_has_lied = side_has_lied || n > 0;
        return false;
    }
    if (frame.taken <= liar.seen)
        liar.acked = frame.taken;
    liar.owes = frame.size;
    liar.has_left = liar.has_left || frame.flags & SESSION_LAST;
    liar_put_stream(fd, side, has < frame.size ? has : frame.size);
    return true;
}

/* Says that it has taken what there never was, or less than before: the session is to end. */
static void
liar_lie(const struct side *side)
{
    struct vg_wire_session *session = side->session;
    uint64_t more = side_amount() + UINT64_C(1);

    pthread_mutex_lock(&net_lock);
    int fd = net_fds[side->stream];
    pthread_mutex_lock(&session->lock);
    struct session_frame frame = {session->kept.begin - 1, 0, 0};
    if (side_byte() & 1)
        frame.taken = session->kept.end + side->to_send - side->sent + more;
    bool is_up = session->state == SESSION_UP && !side_has_lied && !liar.has_left;
    pthread_mutex_unlock(&session->lock);
    bool is_sent = liar_send(fd, side, frame, 0);
    pthread_mutex_unlock(&net_lock);
    is_up = is_up && is_sent;
    for (int tries = 0; is_up && tries < SESSION_HANG_S * 10000; tries++) {
        side_rest();
        pthread_mutex_lock(&session->lock);
        is_up = session->state == SESSION_UP;
        if (session->state == SESSION_OVER && !session->why && !side->is_ending)
            side_die("it ends without a reason");
        pthread_mutex_unlock(&session->lock);
    }
    if (is_up)
        side_die("it believes a number that cannot be");
}

static void
liar_take_head(void)
{
    const struct session_frame *in = &liar.in;

    liar.in_has = 0;
    liar.left = in->size;
    if (in->size > SIDE_FRAME || in->flags > SESSION_LAST || (in->flags && in->size))
        side_die("it sends a frame that is none");
    if (!side_has_lied && (in->taken > liar.at || in->taken < liar.told))
        side_die("it says that it has taken what it has not");
    liar.told = in->taken;
}

static void
liar_read(int fd, const struct side *side, size_t size)
{
    static unsigned char bytes[65536];

    for (ssize_t n = 1; size > 0 && n > 0; size -= (size_t)n) {
        bool is_head = liar.left == 0;
        size_t most = is_head ? sizeof liar.in - liar.in_has : liar.left;
        most = most < size ? most : size;
        most = most < sizeof bytes ? most : sizeof bytes;
        n = recv(fd, is_head ? (unsigned char *)&liar.in + liar.in_has : bytes, most, MSG_DONTWAIT);
        if (n <= 0)
            break;
        if (is_head) {
            liar.in_has += (size_t)n;
            if (liar.in_has == sizeof liar.in)
                liar_take_head();
            continue;
        }
        for (ssize_t i = 0; i < n && !side_has_lied; i++)
            if (bytes[i] != side_value(liar.seen + (uint64_t)i, side->stream))
                side_die("it sends a byte twice, or not at all");
        liar.seen += (uint64_t)n;
        liar.left -= (uint64_t)n;
        if (!side_has_lied && liar.seen - liar.acked > VG_WIRE_SESSION_KEPT)
            side_die("it sends more than it may keep");
    }
}

/* The program's side, which the liar is, comes back. */
static void
liar_return(const struct side *side, int64_t adds)
{
    struct vg_wire_session_welcome welcome;
    uint64_t claims = liar.seen + (uint64_t)adds;
    int far, near = new_connection(&far);

    vg_wire_session_replace(side->session, near, claims);
    if (hear_welcome(far, &welcome)) {
        liar_comes_back(welcome.taken, claims);
        set_end(1, far);
    } else {
        close(far);
    }
}

static int64_t
some_lie(void)
{
    int64_t size = (int64_t)side_amount();

    switch (side_byte() % 4) {
    case 0:
        return size;
    case 1:
        return -size;
    case 2:
        return INT64_MIN + size;
    default:
        return 0;
    }
}

static void
act_with_liar(struct side *side, unsigned i)
{
    unsigned char garbage[64];
    uint8_t what = side_byte() % 10;
    size_t size = what < 6 ? side_amount() : 0, n;

    if (what == 0 && side->to_send + size < SESSION_STREAM)
        side->to_send += size;
    if (what == 1)
        side->to_receive += size;
    pthread_mutex_lock(&net_lock);
    int fd = net_fds[i];
    if (what == 2)
        liar_read(fd, side, size);
    else if (what == 3)
        liar_send(fd, side, (struct session_frame){liar.seen, (uint32_t)size, 0}, size);
    else if (what == 4)
        liar_send(fd, side, (struct session_frame){liar.seen, (uint32_t)size, 0}, side_amount());
    else if (what == 5)
        liar_send(fd, side, (struct session_frame){liar.acked, 0, side_byte() % 3}, 0);
    pthread_mutex_unlock(&net_lock);
    switch (what) {
    case 6:
        liar_lie(side);
        break;
    case 7:
        side_has_lied = true;
        n = side_byte() % sizeof garbage;
        for (size_t at = 0; at < n; at++)
            garbage[at] = side_byte();
        pthread_mutex_lock(&net_lock);
        liar_put(net_fds[i], garbage, n);
        pthread_mutex_unlock(&net_lock);
        break;
    case 8:
        liar_adds = some_lie();
        cut(i);
        break;
    case 9:
        if (i == 1)
            liar_return(side, some_lie());
        break;
    default:
        break;
    }
}

/* ---- a run ---- */

static bool may_give_up;

static void
let_time_pass(void)
{
    static const int64_t steps[] = {1, VG_WIRE_SESSION_SILENT_S + 1, 61, SIDE_LINGER + 1};
    int64_t step = steps[side_byte() % 4];

    side_passed_s += step;
    may_give_up = may_give_up || step > SIDE_LINGER;
}

static void
refuse(void)
{
    refusal = side_byte() % 16 == 0 ? ESRCH : ETIMEDOUT;
    n_refused = side_byte() % 4;
    may_give_up = may_give_up || refusal == ESRCH;
}

static void
settle(void)
{
    for (int i = 0; i < 60; i++) {
        bool is_busy = false;
        for (int s = 0; s < 2; s++)
            is_busy = is_busy || (sides[s].session && (sides[s].sent != sides[s].to_send ||
                                                       sides[s].received != sides[s].to_receive));
        /* What has come is looked at even if nobody waits for it. */
        if (!is_busy && i >= 12)
            break;
        side_rest();
    }
    for (int s = 0; s < 2; s++)
        if (sides[s].session)
            side_check(&sides[s]);
    for (int tries = 0; liar.must_fail && !side_is_over(&sides[0]); tries++) {
        if (tries > SESSION_HANG_S * 10000)
            side_die("it believes that what was not sent was taken");
        side_rest();
    }
    if (liar.must_fail && !vg_wire_session_why(sides[0].session))
        side_die("it ends without a reason");
}

static void
act_between(void)
{
    uint8_t what = side_byte() % 8;
    struct side *from = &sides[what & 1], *to = &sides[!(what & 1)];
    size_t size = what < 4 ? side_amount() : 0;

    if (what < 2) {
        from->to_send += from->to_send + size < SESSION_STREAM ? size : 0;
        to->to_receive += to->to_receive + size / 2 < from->to_send ? size / 2 : 0;
    } else if (what < 4) {
        carry(what & 1, size);
    } else if (what < 6) {
        cut(what & 1);
    } else if (what == 6) {
        refuse();
    } else {
        to->to_receive = (uint64_t)from->to_send;
    }
}

/* All that was sent arrives, unless they have given up. */
static void
check_all_arrives(void)
{
    bool is_done = false;

    n_refused = 0;
    for (int s = 0; s < 2; s++)
        sides[s].to_receive = (uint64_t)sides[!s].to_send;
    for (int tries = 0; !is_done && tries < SESSION_HANG_S * 10000; tries++) {
        carry(0, 1 << 20);
        carry(1, 1 << 20);
        is_done = true;
        for (int s = 0; s < 2; s++)
            is_done = is_done && sides[s].received == sides[!s].to_send;
        bool is_at_end = side_is_over(&sides[0]) || side_is_over(&sides[1]);
        if (is_at_end && !is_done && !may_give_up)
            side_die("it has given up what could go on");
        is_done = is_done || is_at_end;
        if (!is_done)
            side_rest();
    }
    if (!is_done)
        side_die("what was sent does not arrive");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    setenv("VGPU_OPENCL_LOG", "/dev/null", 1);
    side_script = data;
    side_script_left = size;
    memset(&liar, 0, sizeof liar);
    memset(sides, 0, sizeof sides);
    side_has_lied = may_give_up = false;
    n_refused = 0;
    liar_adds = 0;
    const unsigned how = side_byte() % 3; /* who is real: the program's side, the proxy's, both */
    net_fds[0] = net_fds[1] = -1;
    for (unsigned i = 2; i-- > 0;)
        if (how == i || how == 2) {
            int fd = new_connection(&net_fds[i]);
            side_begin(&sides[i], (uint8_t)i, fd, i == 0 ? connect_again : NULL);
        }
    while (side_script_left > 0) {
        uint8_t other = side_byte() % 8;
        if (other == 0)
            let_time_pass();
        else if (other < 3)
            settle();
        else if (how == 2)
            act_between();
        else
            act_with_liar(&sides[how], how);
    }
    settle();
    if (how == 2)
        check_all_arrives();
    for (unsigned i = 0; i < 2; i++)
        if (sides[i].session)
            side_end(&sides[i]);
    set_end(0, -1);
    set_end(1, -1);
    return 0;
}
