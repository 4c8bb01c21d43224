/* SPDX-License-Identifier: Apache-2.0
 *
 * The ring of events: numbers, what is lost when it is full, the listener, many threads.
 */
#include "config.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "base/event-log.h"
#include "base/json.h"

static void
add(vg_event_log *log, const char *type, int64_t n)
{
    json_object *object = json_object_new_object();

    vg_json_add_int64(object, "n", n);
    vg_event_log_add(log, type, object);
}

static void
test_order(void **state)
{
    (void)state;
    g_autoptr(vg_event_log) log = vg_event_log_new();
    struct vg_logged_event event = {0};
    uint64_t lost = 7;

    assert_int_equal(vg_event_log_newest(log), 0);
    assert_false(vg_event_log_next(log, 0, &event, &lost));
    assert_int_equal(lost, 7);
    add(log, "window", 10);
    add(log, "vm", 20);
    assert_int_equal(vg_event_log_newest(log), 2);
    assert_true(vg_event_log_next(log, 0, &event, &lost));
    assert_int_equal(event.seq, 1);
    assert_int_equal(lost, 0);
    assert_string_equal(event.type, "window");
    assert_null(strchr(event.data, '\n'));
    g_autoptr(json_object) object = json_tokener_parse(event.data);
    assert_int_equal(json_object_get_int64(json_object_object_get(object, "seq")), 1);
    assert_int_equal(json_object_get_int64(json_object_object_get(object, "n")), 10);
    assert_string_equal(json_object_get_string(json_object_object_get(object, "type")), "window");
    g_free(event.data);
    assert_true(vg_event_log_next(log, 1, &event, &lost));
    assert_int_equal(event.seq, 2);
    g_free(event.data);
    assert_false(vg_event_log_next(log, 2, &event, &lost));
    assert_false(vg_event_log_next(log, UINT64_MAX - 1, &event, &lost));
}

static void
test_overrun(void **state)
{
    (void)state;
    g_autoptr(vg_event_log) log = vg_event_log_new();
    struct vg_logged_event event;
    uint64_t lost;

    for (int64_t i = 0; i < VG_EVENT_LOG_MAX; i++)
        add(log, "window", i);
    assert_true(vg_event_log_next(log, 0, &event, &lost));
    assert_int_equal(event.seq, 1);
    assert_int_equal(lost, 0);
    g_free(event.data);
    add(log, "window", 0);
    assert_true(vg_event_log_next(log, 0, &event, &lost));
    assert_int_equal(event.seq, 2);
    assert_int_equal(lost, 1);
    g_free(event.data);
    assert_true(vg_event_log_next(log, 1, &event, &lost));
    assert_int_equal(lost, 0);
    g_free(event.data);
}

static void
count(void *data)
{
    __atomic_add_fetch((int *)data, 1, __ATOMIC_RELAXED);
}

static void *
add_many(void *log)
{
    for (int64_t i = 0; i < 1000; i++)
        add(log, "window", i);
    return NULL;
}

static void
test_threads(void **state)
{
    (void)state;
    g_autoptr(vg_event_log) log = vg_event_log_new();
    pthread_t threads[3];
    uint64_t at = 0;
    uint64_t all_lost = 0;
    int calls = 0;

    vg_event_log_listen(log, count, &calls);
    for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, log), 0);
    while (at < 3000) {
        struct vg_logged_event event;
        uint64_t lost;
        if (!vg_event_log_next(log, at, &event, &lost))
            continue;
        assert_int_equal(event.seq, at + 1 + lost);
        at = event.seq;
        all_lost += lost;
        g_free(event.data);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(all_lost, 0);
    assert_int_equal(__atomic_load_n(&calls, __ATOMIC_RELAXED), 3000);
    vg_event_log_listen(log, NULL, NULL);
    add(log, "window", 0);
    assert_int_equal(__atomic_load_n(&calls, __ATOMIC_RELAXED), 3000);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_overrun),
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
