/* SPDX-License-Identifier: Apache-2.0
 *
 * Who has the device, on virtual time: what clients say comes when the test says so. Of each client
 * the test knows how long it works and how long it pauses.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "opencl/base/say.h"
#include "opencl/proxy/output.h"
#include "opencl/proxy/share.h"
#include "opencl/serve/turn.h"
#include "opencl/wire/pass.h"

#define MS       INT64_C(1000000)
#define S        (1000 * MS)
#define KERNEL_S 3 /* --max-kernel */
#define PLACES   3

static int64_t now_ns = S;

/* In place of the C library's. */
int
clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    now->tv_sec = now_ns / S;
    now->tv_nsec = now_ns % S;
    return 0;
}

void
vg_cl_say(const char *format, ...)
{
    (void)format;
}

void
vg_output_free(struct proxy_output *output)
{
    assert_null(output);
}

void
vg_serve_note(struct vg_serve_note *note, const char *format, ...)
{
    (void)note;
    (void)format;
}

bool
vg_wire_pass(int socket, const void *bytes, size_t size, int fd, int flags)
{
    (void)socket, (void)bytes, (void)size, (void)fd, (void)flags;
    return false;
}

/* One that works for so long, then pauses for so long, again and again; PAUSE 0: it gives the
 * device back only when it is asked for it. WORK 0: a kernel that never
 * ends, whose client is ended and comes again at once. */
struct program {
    int64_t work, pause;
    int fd; /* to the proxy; -1: it has not begun */
    bool wants, has, is_told, is_asked;
    int64_t until; /* the end of what it does now */
    int64_t left;  /* of its work */
    int64_t asked;
};

struct site {
    struct proxy_client clients[PLACES];
    struct proxy_tenant tenants[PLACES];
    struct vg_serve_pool *pool;
    struct program programs[PLACES];
    struct proxy_share share;
};

static void
site_begin(struct site *site, unsigned i)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
    site->clients[i] = (struct proxy_client){
        .pid = INT32_MAX, /* nobody's: the proxy may try to end it */
        .fd = pair[0],
        .tenant = &site->tenants[i],
    };
    site->programs[i].fd = pair[1];
    site->programs[i].wants = site->programs[i].has = false;
    site->programs[i].left = site->programs[i].work;
}

static struct site *
site_new(unsigned n)
{
    struct site *site = calloc(1, sizeof *site);

    assert_non_null(site);
    site->pool = vg_share_new_pool(UINT64_MAX);
    assert_non_null(site->pool);
    site->share =
        (struct proxy_share){.clients = site->clients, .n_clients = n, .max_kernel_s = KERNEL_S};
    for (unsigned i = 0; i < PLACES; i++) {
        site->tenants[i].weight = 1;
        site->tenants[i].pool = site->pool;
        site->clients[i].fd = site->programs[i].fd = -1;
    }
    return site;
}

static void
site_free(struct site *site)
{
    for (unsigned i = 0; i < PLACES; i++) {
        if (site->clients[i].fd >= 0)
            close(site->clients[i].fd);
        if (site->programs[i].fd >= 0)
            close(site->programs[i].fd);
    }
    vg_share_free_pool(site->pool);
    free(site);
}

static void
site_say(struct site *site, unsigned i, char what)
{
    assert_int_equal(send(site->programs[i].fd, &what, 1, 0), 1);
    vg_share_hear(&site->share, &site->clients[i]);
}

static void
program_hear(struct program *program)
{
    char said;

    while (recv(program->fd, &said, 1, MSG_DONTWAIT) == 1) {
        if (said == VG_TURN_GIVE) {
            program->has = true;
            program->wants = program->is_told = program->is_asked = false;
        }
        program->is_told |= said == VG_TURN_IDLE;
        if (said == VG_TURN_ASK) {
            program->is_asked = true;
            program->asked = now_ns;
        }
    }
}

/* STEP ns have passed. */
static void
program_step(struct site *site, unsigned i, int64_t step)
{
    struct program *program = &site->programs[i];

    program_hear(program);
    if (program->has && !program->work) {
        if (program->is_asked && now_ns - program->asked >= KERNEL_S * S) {
            vg_share_gone(&site->share, &site->clients[i]);
            close(program->fd);
            site_begin(site, i);
        }
    } else if (program->has && program->left > 0) {
        program->left -= step;
        program->until = now_ns + program->pause;
    } else if (program->left <= 0 && now_ns >= program->until) {
        program->left = program->work;
    }
    if (program->has && program->work &&
        (program->is_asked || (program->is_told && program->left <= 0 && program->pause > 0))) {
        program->has = false;
        site_say(site, i, VG_TURN_BACK);
    }
    if (!program->has && !program->wants && (!program->work || program->left > 0)) {
        program->wants = true;
        site_say(site, i, VG_TURN_WANT);
    }
}

static void
site_run(struct site *site, int64_t ns)
{
    const int64_t step = MS / 2;

    for (int64_t until = now_ns + ns; now_ns < until; now_ns += step) {
        for (unsigned i = 0; i < site->share.n_clients; i++)
            if (site->programs[i].fd >= 0)
                program_step(site, i, step);
        vg_share_decide(&site->share);
    }
}

static double
site_part(const struct site *site, unsigned i)
{
    int64_t sum = 0;

    for (unsigned n = 0; n < site->share.n_clients; n++)
        sum += vg_share_held(&site->share, &site->tenants[n]);
    return (double)vg_share_held(&site->share, &site->tenants[i]) / (double)sum;
}

static void
assert_part(const struct site *site, unsigned i, double least, double most)
{
    const double part = site_part(site, i);

    if (part < least || part > most)
        fail_msg("socket %u had %.3f of the device, and not %.3f to %.3f", i, part, least, most);
}

/* One that works most of the time has its share beside kernels that never end. */
static void
test_beside_a_hog(void **state)
{
    static const int64_t pauses[] = {0, MS, 2 * MS, 8 * MS};

    (void)state;
    for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
        struct site *site = site_new(2);
        site->programs[0] = (struct program){.work = 10 * MS, .pause = pauses[i]};
        site_begin(site, 0);
        site_begin(site, 1);
        site_run(site, 150 * S);
        assert_part(site, 0, 0.45, 0.55);
        site_free(site);
    }
}

/* By weights, too. */
static void
test_beside_a_hog_by_weight(void **state)
{
    struct site *site = site_new(2);

    (void)state;
    site->programs[0] = (struct program){.work = 10 * MS, .pause = 2 * MS};
    site->tenants[0].weight = 3;
    site_begin(site, 0);
    site_begin(site, 1);
    site_run(site, 240 * S);
    assert_part(site, 0, 0.70, 0.80);
    site_free(site);
}

/* A hog takes nothing from two that are well. */
static void
test_two_beside_a_hog(void **state)
{
    struct site *site = site_new(3);

    (void)state;
    site->programs[0] = (struct program){.work = 10 * MS, .pause = 2 * MS};
    site->programs[1] = (struct program){.work = 4 * MS, .pause = 1 * MS};
    for (unsigned i = 0; i < 3; i++)
        site_begin(site, i);
    site_run(site, 240 * S);
    assert_part(site, 2, 0.25, 0.42);
    assert_part(site, 0, 0.25, 0.42);
    site_free(site);
}

/* One that seldom works does not have the device wait for it: long kernels lose little time. */
static void
test_one_that_seldom_works(void **state)
{
    struct site *site = site_new(2);
    const int64_t begin = now_ns;

    (void)state;
    site->programs[0] = (struct program){.work = MS, .pause = S};
    site_begin(site, 0);
    site_begin(site, 1);
    site_run(site, 60 * S);
    assert_true(vg_share_held(&site->share, &site->tenants[1]) > (now_ns - begin) / 10 * 8);
    site_free(site);
}

/* Who comes after another one had the device for long has it no longer than by turns, also if the
 * other one was away at the moment. */
static void
test_no_credit_for_absence(void **state)
{
    struct site *site = site_new(2);
    int64_t held;

    (void)state;
    site->programs[0] = (struct program){.work = 10 * MS};
    site_begin(site, 0);
    site_run(site, 60 * S);
    vg_share_gone(&site->share, &site->clients[0]);
    close(site->programs[0].fd);
    site->programs[0].fd = -1;
    site->programs[1] = (struct program){.work = 10 * MS};
    site_begin(site, 1);
    site_run(site, S);
    site_begin(site, 0);
    held = vg_share_held(&site->share, &site->tenants[0]);
    site_run(site, 10 * S);
    assert_true(vg_share_held(&site->share, &site->tenants[0]) - held > 4 * S);
    site_free(site);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beside_a_hog),          cmocka_unit_test(test_beside_a_hog_by_weight),
        cmocka_unit_test(test_two_beside_a_hog),      cmocka_unit_test(test_one_that_seldom_works),
        cmocka_unit_test(test_no_credit_for_absence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
