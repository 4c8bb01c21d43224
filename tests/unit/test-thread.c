/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads, bounded queues and the log.
 */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/queue.h"
#include "base/thread.h"

#define VG_LOG_TAG "test"
#define MS         VG_NS_PER_MS

/* ---- threads ---- */

static void
sleep_long(vg_thread *self, void *arg)
{
    bool *woken = arg;

    *woken = vg_thread_sleep_until(self, vg_clock_monotonic_ns() + 3600 * VG_NS_PER_S);
}

static void
test_stop_wakes_a_sleeper(void **state)
{
    bool slept = true;

    (void)state;
    vg_thread *thread = vg_thread_new("sleeper", sleep_long, NULL, &slept, NULL);
    assert_non_null(thread);
    assert_string_equal(vg_thread_name(thread), "sleeper");
    vg_thread_free(thread);
    assert_false(slept);
}

static void
block_signals_seen(vg_thread *self, void *arg)
{
    sigset_t *set = arg;

    (void)self;
    pthread_sigmask(SIG_SETMASK, NULL, set);
}

static void
test_threads_block_signals_and_the_maker_keeps_its_mask(void **state)
{
    sigset_t seen, before, after;

    (void)state;
    sigemptyset(&seen);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    vg_thread_free(vg_thread_new("signals", block_signals_seen, NULL, &seen, NULL));
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_true(sigismember(&seen, SIGTERM));
    assert_true(sigismember(&seen, SIGHUP));
    assert_int_equal(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
}

static void
be_silent(vg_thread *self, void *arg)
{
    (void)arg;
    while (!vg_thread_stopping(self))
        g_usleep(1000);
}

static void
test_silence_is_the_time_since_the_last_beat(void **state)
{
    (void)state;
    int64_t making_ns = vg_clock_monotonic_ns();
    vg_thread *thread = vg_thread_new("silent", be_silent, NULL, NULL, NULL);
    int64_t made_ns = vg_clock_monotonic_ns();
    g_usleep(30000);
    int64_t before_ns = vg_clock_monotonic_ns(), silence_ns = vg_thread_silence_ns(thread);
    assert_true(silence_ns >= before_ns - made_ns);
    assert_true(silence_ns <= vg_clock_monotonic_ns() - making_ns);
    assert_false(vg_thread_ended(thread));
    vg_thread_join(thread);
    assert_true(vg_thread_ended(thread));
    assert_int_equal(vg_thread_silence_ns(thread), 0);
    vg_thread_free(thread);
}

/* ---- queues ---- */

static int freed;

static void
count_free(void *item)
{
    (void)item;
    freed++;
}

static void *
item(intptr_t n)
{
    return (void *)n;
}

static void
test_a_full_queue_drops_and_counts(void **state)
{
    struct vg_queue_stats stats;
    vg_queue *queue = vg_queue_new(2, VG_QUEUE_DROP, count_free);

    (void)state;
    freed = 0;
    assert_true(vg_queue_put(queue, item(1)));
    assert_true(vg_queue_put(queue, item(2)));
    assert_false(vg_queue_put(queue, item(3)));
    assert_int_equal(freed, 1);
    vg_queue_read_stats(queue, &stats);
    assert_int_equal(stats.length, 2);
    assert_int_equal(stats.high_water, 2);
    assert_int_equal(stats.dropped, 1);
    assert_ptr_equal(vg_queue_get(queue, 0), item(1));
    assert_true(vg_queue_put(queue, item(4)));
    assert_ptr_equal(vg_queue_get(queue, 0), item(2));
    assert_ptr_equal(vg_queue_get(queue, 0), item(4));
    assert_null(vg_queue_get(queue, 0));
    assert_null(vg_queue_get(queue, 5 * MS));
    vg_queue_put(queue, item(5));
    vg_queue_free(queue);
    assert_int_equal(freed, 2);
}

static void
note_length(void *data, size_t length)
{
    g_array_append_val((GArray *)data, length);
}

static void
test_each_new_length_is_told_once(void **state)
{
    static const size_t expected[] = {1, 2, 3};
    g_autoptr(GArray) told = g_array_new(FALSE, FALSE, sizeof(size_t));
    vg_queue *queue = vg_queue_new(3, VG_QUEUE_DROP, count_free);

    (void)state;
    vg_queue_watch_high_water(queue, note_length, told);
    vg_queue_put(queue, item(1));
    vg_queue_put(queue, item(2));
    vg_queue_get(queue, 0);
    /* As long as before. */
    vg_queue_put(queue, item(3));
    assert_int_equal(told->len, 2);
    vg_queue_put(queue, item(4));
    /* Dropped. */
    vg_queue_put(queue, item(5));
    assert_int_equal(told->len, 3);
    assert_memory_equal(told->data, expected, sizeof(expected));
    vg_queue_free(queue);
}

static bool
fd_is_readable(const vg_queue *queue)
{
    GPollFD poll = {.fd = vg_queue_fd(queue), .events = G_IO_IN};

    return g_poll(&poll, 1, 0) == 1;
}

static void
test_the_file_descriptor_is_readable_while_there_are_items(void **state)
{
    vg_queue *queue = vg_queue_new(3, VG_QUEUE_DROP, count_free);

    (void)state;
    assert_false(fd_is_readable(queue));
    vg_queue_put(queue, item(1));
    vg_queue_put(queue, item(2));
    assert_true(fd_is_readable(queue));
    vg_queue_get(queue, 0);
    assert_true(fd_is_readable(queue));
    vg_queue_get(queue, 0);
    assert_false(fd_is_readable(queue));
    vg_queue_free(queue);
}

#define ITEMS     20000
#define PUTTERS   3
#define PUT_EMPTY 1

static void
put_many(vg_thread *self, void *arg)
{
    (void)self;
    for (intptr_t i = 0; i < ITEMS; i++)
        assert_true(vg_queue_put(arg, item(PUT_EMPTY + i)));
}

static void
test_putters_wait_and_nothing_is_lost(void **state)
{
    vg_queue *queue = vg_queue_new(16, VG_QUEUE_BLOCK, count_free);
    vg_thread *putters[PUTTERS];
    int64_t sum = 0;

    (void)state;
    for (int i = 0; i < PUTTERS; i++)
        putters[i] = vg_thread_new("putter", put_many, NULL, queue, NULL);
    for (int i = 0; i < PUTTERS * ITEMS; i++) {
        void *got = vg_queue_get(queue, 100 * VG_NS_PER_S);
        assert_non_null(got);
        sum += (intptr_t)got;
    }
    assert_int_equal(sum, (int64_t)PUTTERS * ITEMS * (ITEMS + 1) / 2);
    for (int i = 0; i < PUTTERS; i++)
        vg_thread_free(putters[i]);
    assert_false(fd_is_readable(queue));
    vg_queue_free(queue);
}

static void
put_into_full(vg_thread *self, void *arg)
{
    (void)self;
    vg_queue_put(arg, item(2));
}

static void
test_closing_ends_waits_and_keeps_what_is_in(void **state)
{
    vg_queue *queue = vg_queue_new(1, VG_QUEUE_BLOCK, count_free);

    (void)state;
    freed = 0;
    vg_queue_put(queue, item(1));
    vg_thread *putter = vg_thread_new("putter", put_into_full, NULL, queue, NULL);
    g_usleep(5000);
    vg_queue_close(queue);
    vg_thread_free(putter);
    assert_int_equal(freed, 1);
    assert_ptr_equal(vg_queue_get(queue, 100 * VG_NS_PER_S), item(1));
    assert_null(vg_queue_get(queue, 3600 * VG_NS_PER_S));
    vg_queue_free(queue);
}

/* ---- log and clock ---- */

static char *last;
static int messages;

static void
capture(void *data, enum vg_log_level level, const char *tag, const char *message)
{
    (void)data;
    g_free(last);
    last = g_strdup_printf("%d %s %s", (int)level, tag, message);
    messages++;
}

static void
test_the_log_has_levels_and_no_control_characters(void **state)
{
    (void)state;
    messages = 0;
    vg_log_set_sink(capture, NULL);
    vg_log_set_level(VG_LOG_NOTICE);
    vg_log_info("not seen");
    assert_int_equal(messages, 0);
    vg_log_notice("window committed end_ns=%d name=\"a\nb\xff\"", 7);
    assert_string_equal(last, "5 test window committed end_ns=7 name=\"a?b\xef\xbf\xbd\"");
    vg_log_set_level(VG_LOG_INFO);
    for (int i = 0; i < 5; i++)
        vg_log_warn_limited("again and again");
    assert_int_equal(messages, 2);
    vg_log_set_sink(NULL, NULL);
    g_clear_pointer(&last, g_free);
}

/* What fails and works by turns: four messages, then the newest when its minute is over. */
static void
test_turns_are_limited_and_the_last_one_is_told(void **state)
{
    struct vg_log_turns turns = {0};

    (void)state;
    messages = 0;
    vg_log_set_sink(capture, NULL);
    for (int i = 0; i < 50; i++) {
        vg_log_turn(&turns, VG_LOG_ERR, VG_LOG_TAG, "it fails n=%d", i);
        vg_log_turn(&turns, VG_LOG_NOTICE, VG_LOG_TAG, "it works n=%d", i);
        vg_log_turns_settle(&turns, VG_LOG_TAG);
    }
    assert_int_equal(messages, VG_LOG_TURNS_MAX);
    assert_string_equal(last, "5 test it works n=1");
    turns.begin_ns -= 61 * VG_NS_PER_S;
    vg_log_turns_settle(&turns, VG_LOG_TAG);
    assert_int_equal(messages, VG_LOG_TURNS_MAX + 1);
    assert_string_equal(last, "5 test it works n=49 suppressed=95");
    vg_log_turns_settle(&turns, VG_LOG_TAG);
    assert_int_equal(messages, VG_LOG_TURNS_MAX + 1);
    vg_log_turn(&turns, VG_LOG_ERR, VG_LOG_TAG, "it fails");
    assert_string_equal(last, "3 test it fails");
    for (int i = 0; i < 3; i++)
        vg_log_turn(&turns, VG_LOG_ERR, VG_LOG_TAG, "it fails again");
    vg_log_turns_clear(&turns, VG_LOG_TAG);
    assert_string_equal(last, "3 test it fails again");
    vg_log_set_sink(NULL, NULL);
    g_clear_pointer(&last, g_free);
}

static void
test_utc(void **state)
{
    char buf[VG_UTC_LEN];

    (void)state;
    assert_string_equal(vg_utc_format(0, buf), "1970-01-01T00:00:00Z");
    assert_string_equal(vg_utc_format(-1, buf), "1969-12-31T23:59:59.999999999Z");
    assert_string_equal(vg_utc_format(INT64_C(1795200000500000000), buf),
                        "2026-11-20T18:40:00.500Z");
    assert_string_equal(vg_utc_format(INT64_MIN, buf), "1677-09-21T00:12:43.145224192Z");
    assert_string_equal(vg_utc_format(INT64_MAX, buf), "2262-04-11T23:47:16.854775807Z");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_wakes_a_sleeper),
        cmocka_unit_test(test_threads_block_signals_and_the_maker_keeps_its_mask),
        cmocka_unit_test(test_silence_is_the_time_since_the_last_beat),
        cmocka_unit_test(test_a_full_queue_drops_and_counts),
        cmocka_unit_test(test_each_new_length_is_told_once),
        cmocka_unit_test(test_the_file_descriptor_is_readable_while_there_are_items),
        cmocka_unit_test(test_putters_wait_and_nothing_is_lost),
        cmocka_unit_test(test_closing_ends_waits_and_keeps_what_is_in),
        cmocka_unit_test(test_the_log_has_levels_and_no_control_characters),
        cmocka_unit_test(test_turns_are_limited_and_the_last_one_is_told),
        cmocka_unit_test(test_utc),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
