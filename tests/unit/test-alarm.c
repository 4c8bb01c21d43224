/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "base/alarm.h"
#include "base/clock.h"
#include "base/thread.h"

#define PERIOD_NS (5 * VG_NS_PER_MS)

static void
ring(void *data)
{
    atomic_fetch_add((atomic_int *)data, 1);
}

/* A thread that reads where nothing is written. */
struct reader {
    int fd;
    atomic_int rings;
    int interrupted;
    int rings_after;
    bool blocked_after;
};

static void
read_nothing(vg_thread *self, void *data)
{
    struct reader *reader = data;
    vg_alarm *alarm = vg_alarm_start(PERIOD_NS, ring, &reader->rings, NULL);
    sigset_t mask;
    char byte;

    (void)self;
    for (int i = 0; alarm && i < 3; i++)
        reader->interrupted += read(reader->fd, &byte, 1) < 0 && errno == EINTR;
    vg_alarm_stop(alarm);
    int rings = atomic_load(&reader->rings);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    reader->blocked_after = sigismember(&mask, SIGURG) == 1;
    g_usleep(5 * PERIOD_NS / 1000);
    reader->rings_after = atomic_load(&reader->rings) - rings;
}

static void
test_a_read_returns(void **state)
{
    int ends[2];
    struct reader reader = {0};

    (void)state;
    assert_int_equal(pipe(ends), 0);
    reader.fd = ends[0];
    vg_thread *thread = vg_thread_new("reader", read_nothing, NULL, &reader, NULL);
    assert_non_null(thread);
    vg_thread_free(thread);
    assert_int_equal(reader.interrupted, 3);
    assert_true(atomic_load(&reader.rings) >= 3);
    assert_int_equal(reader.rings_after, 0);
    assert_true(reader.blocked_after);
    close(ends[0]);
    close(ends[1]);
}

/* Each thread has its own, also when others have none. */
static void
test_two_threads(void **state)
{
    struct reader readers[2] = {0};
    vg_thread *threads[2];
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < 2; i++) {
        readers[i].fd = ends[0];
        threads[i] = vg_thread_new("reader", read_nothing, NULL, &readers[i], NULL);
        assert_non_null(threads[i]);
    }
    for (int i = 0; i < 2; i++) {
        vg_thread_free(threads[i]);
        assert_int_equal(readers[i].interrupted, 3);
    }
    close(ends[0]);
    close(ends[1]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_read_returns),
        cmocka_unit_test(test_two_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
