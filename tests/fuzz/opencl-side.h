/* SPDX-License-Identifier: Apache-2.0
 *
 * For fuzz-opencl-session: a side of a session that is real, and its program, whose threads send
 * and receive as much as they are told, while they check what comes; the script; and time, which is
 * the script's: waiting takes next to none.
 */
#ifndef VG_TESTS_FUZZ_OPENCL_SIDE_H
#define VG_TESTS_FUZZ_OPENCL_SIDE_H

#include <pthread.h>
#include <stdint.h>

#include <stdatomic.h>

#include "opencl/wire/session-private.h"

#define SIDE_LINGER 3600        /* seconds */
#define SIDE_FRAME  (256 << 10) /* bytes at most */

_Noreturn void side_die(const char *why);

/* Seconds that have passed besides those that have. */
extern _Atomic int64_t side_passed_s;

/* A moment of real time. */
void side_rest(void);

extern const uint8_t *side_script;
extern size_t side_script_left;

/* The next one of the script; 0: there is none. */
uint8_t side_byte(void);

/* How many bytes, as the script says. */
size_t side_amount(void);

/* Returns byte AT of a stream. */
uint8_t side_value(uint64_t at, uint8_t stream);

struct side {
    struct vg_wire_session *session;
    pthread_t sender, receiver;
    uint8_t stream; /* that it sends */
    _Atomic uint64_t to_send, sent, to_receive, received;
    _Atomic bool is_ending, has_ended; /* the last: the session is over */
};

extern struct side sides[2];       /* the program's, the proxy's */
extern _Atomic bool side_has_lied; /* what comes need not be what was sent */

void side_begin(struct side *side, uint8_t stream, int fd, vg_wire_session_again again);
void side_end(struct side *side);
bool side_is_over(const struct side *side);

/* Aborts if it keeps more than it may, or numbers do not agree. */
void side_check(const struct side *side);

#endif
