/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/wire/arrival.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "opencl/wire/address.h"
#include "opencl/wire/link-private.h"

#define ARRIVAL_TLS 0x16 /* first byte of a TLS connection */

#define ARRIVAL_TOKEN   sizeof(struct link_hello) /* offset of the token */
#define ARRIVAL_SESSION (ARRIVAL_TOKEN + VG_WIRE_TOKEN_MAX)

_Static_assert(ARRIVAL_SESSION + sizeof(struct vg_wire_session_hello) == VG_WIRE_ARRIVAL_MAX,
               "all that is said fits");

static struct link_hello
arrival_hello(const struct vg_wire_arrival *arrival)
{
    struct link_hello hello;

    memcpy(&hello, arrival->bytes, sizeof hello);
    return hello;
}

/* Returns the complete length, as far as it is known by now. */
static size_t
arrival_size(const struct vg_wire_arrival *arrival)
{
    if (arrival->has < sizeof(struct link_hello))
        return sizeof(struct link_hello);
    switch (arrival_hello(arrival).way) {
    case LINK_TOKEN:
        return ARRIVAL_SESSION;
    case LINK_SESSION:
        return VG_WIRE_ARRIVAL_MAX;
    default:
        return sizeof(struct link_hello);
    }
}

/* Returns whether the requested transport is allowed. Returns false with errno otherwise. */
static bool
arrival_check_way(const struct vg_wire_arrival *arrival, const struct vg_wire_terms *terms)
{
    const struct link_hello hello = arrival_hello(arrival);
    const bool needs = terms->is_far || terms->token;

    errno = arrival->bytes[0] == ARRIVAL_TLS ? EPROTONOSUPPORT : EPROTO;
    if (hello.magic != LINK_MAGIC || hello.way > LINK_SESSION)
        return false;
    errno = needs ? EACCES : EPROTO;
    return needs ? hello.way >= LINK_TOKEN : hello.way < LINK_SESSION;
}

bool
vg_wire_arrival_may_come(const struct vg_wire_arrival *arrival, const struct vg_wire_terms *terms)
{
    const unsigned char *shown = arrival->bytes + ARRIVAL_TOKEN;
    unsigned char differs = 0;

    if (!arrival_check_way(arrival, terms))
        return false;
    if (terms->is_known || (!terms->is_far && !terms->token))
        return true;
    for (size_t i = 0; terms->token && i < VG_WIRE_TOKEN_MAX; i++)
        differs |= (unsigned char)(shown[i] ^ (unsigned char)terms->token[i]);
    errno = EACCES;
    return terms->token && !differs;
}

enum vg_wire_arrived
vg_wire_arrival_read(struct vg_wire_arrival *arrival, int fd, const struct vg_wire_terms *terms)
{
    for (size_t size; arrival->has < (size = arrival_size(arrival));) {
        ssize_t n = recv(fd, arrival->bytes + arrival->has, size - arrival->has, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return VG_WIRE_ARRIVED_PART;
        if (n == 0)
            errno = ECONNRESET;
        if (n <= 0)
            return VG_WIRE_ARRIVED_REFUSED;
        arrival->has += (size_t)n;
        if (arrival->has == sizeof(struct link_hello) && !arrival_check_way(arrival, terms))
            return VG_WIRE_ARRIVED_REFUSED;
    }
    return vg_wire_arrival_may_come(arrival, terms) ? VG_WIRE_ARRIVED_ALL : VG_WIRE_ARRIVED_REFUSED;
}

bool
vg_wire_arrival_session(const struct vg_wire_arrival *arrival, struct vg_wire_session_hello *hello)
{
    if (arrival_hello(arrival).way != LINK_SESSION)
        return false;
    memcpy(hello, arrival->bytes + ARRIVAL_SESSION, sizeof *hello);
    return true;
}

bool
vg_wire_arrival_comes_back(const struct vg_wire_arrival *arrival)
{
    static const unsigned char none[VG_WIRE_SESSION_ID];
    struct vg_wire_session_hello hello;

    return vg_wire_arrival_session(arrival, &hello) && memcmp(hello.id, none, sizeof none) != 0;
}

void
vg_wire_refusal_make(struct vg_wire_refusal *refusal, const char *why)
{
    *refusal = (struct vg_wire_refusal){.magic = VG_WIRE_REFUSAL_MAGIC};
    strncpy(refusal->why, why, sizeof refusal->why - 1);
}

void
vg_wire_arrival_refuse(int fd, const char *why)
{
    struct vg_wire_refusal refusal;

    vg_wire_refusal_make(&refusal, why);
    ssize_t sent = send(fd, &refusal, sizeof refusal, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* it has disconnected */
}

bool
vg_wire_arrival_say_ended(const struct vg_wire_arrival *arrival, int fd, const char *why)
{
    struct vg_wire_refusal refusal;

    if (!(arrival_hello(arrival).staging & LINK_TAKES_ENDS))
        return false;
    vg_wire_refusal_make(&refusal, why);
    refusal.magic = VG_WIRE_ENDED_MAGIC;
    return send(fd, &refusal, sizeof refusal, MSG_NOSIGNAL | MSG_DONTWAIT) ==
           (ssize_t)sizeof refusal;
}

void
vg_wire_arrival_forget_token(struct vg_wire_arrival *arrival)
{
    explicit_bzero(arrival->bytes + ARRIVAL_TOKEN, VG_WIRE_TOKEN_MAX);
}
