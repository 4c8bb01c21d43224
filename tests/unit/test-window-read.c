/* SPDX-License-Identifier: Apache-2.0
 *
 * The windows of a recording that goes on: on a grid, and closed by time alone.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "trace/window-read.h"

#define W      1000
#define VCPU   "CPU 0/KVM"
#define PASSED VG_EVENT_TYPE_MAX /* in a script: nothing to tell, but time has passed */

/* ---- a recording that says what it is told to ---- */

struct script {
    vg_recording base;
    const struct vg_event *events;
    size_t n, at;
    bool fails; /* in the end */
};

static int
next(vg_recording *base, struct vg_event *ret_event, GError **err)
{
    struct script *script = (struct script *)base;

    if (script->at == script->n)
        return script->fails ? vg_error(err, VG_E_IO, "broken") : 0;
    *ret_event = script->events[script->at++];
    if (ret_event->type == PASSED) {
        base->passed_ns = ret_event->ts_ns;
        return VG_RECORDING_AGAIN;
    }
    base->events++;
    return 1;
}

static void
free_script(vg_recording *base)
{
    vg_recording_clear(base);
    g_free(base);
}

static const struct vg_recording_ops script_ops = {.next = next, .free = free_script};

struct reading {
    vg_topology *topology;
    vg_recording *recording;
    vg_window_reader *reader;
};

static struct reading
start(const struct vg_event *events, size_t n, bool fails)
{
    const struct vg_window_read_options options = {.window_ns = W, .on_grid = true};
    struct script *script = g_new0(struct script, 1);
    struct reading reading = {.topology = vg_topology_new(), .recording = &script->base};

    vg_recording_init(&script->base, &script_ops, "script", NULL, NULL);
    script->base.has_switch = true;
    script->events = events;
    script->n = n;
    script->fails = fails;
    reading.reader = vg_window_reader_new(&script->base, reading.topology, &options);
    return reading;
}

static void
stop(struct reading *reading)
{
    vg_window_reader_free(reading->reader);
    vg_recording_free(reading->recording);
    vg_topology_free(reading->topology);
}

/* The next status is a window from begin to end in which the first VM ran so long. */
static void
expect_window(struct reading *reading, int64_t begin_ns, int64_t end_ns, int64_t run_ns)
{
    struct vg_window window;

    assert_int_equal(vg_window_reader_next(reading->reader, &window, NULL), 1);
    assert_int_equal(window.begin_ns, begin_ns);
    assert_int_equal(window.end_ns, end_ns);
    if (run_ns >= 0) {
        assert_int_equal(window.vms->len, 1);
        assert_int_equal(g_array_index(window.vms, struct vg_vm_sample, 0).cpu.run_ns, run_ns);
    }
    vg_window_clear(&window);
}

static void
expect(struct reading *reading, int status)
{
    struct vg_window window;
    g_autoptr(GError) err = NULL;

    assert_int_equal(vg_window_reader_next(reading->reader, &window, &err), status);
    assert_int_equal(err != NULL, status < 0);
}

static struct vg_event
to_vcpu(int64_t t_ns)
{
    struct vg_event event = {.ts_ns = t_ns, .type = VG_EVENT_SCHED_SWITCH, .tid = VG_NONE};

    event.pid = VG_NONE;
    event.sched_switch.next_tid = 7;
    g_strlcpy(event.sched_switch.next_comm, VCPU, VG_COMM_LEN);
    return event;
}

static struct vg_event
to_idle(int64_t t_ns)
{
    struct vg_event event = {.ts_ns = t_ns, .type = VG_EVENT_SCHED_SWITCH, .tid = VG_NONE};

    event.pid = VG_NONE;
    event.sched_switch.prev_tid = 7;
    event.sched_switch.prev_state = VG_PREV_BLOCKED;
    g_strlcpy(event.sched_switch.prev_comm, VCPU, VG_COMM_LEN);
    return event;
}

static struct vg_event
passed(int64_t t_ns)
{
    return (struct vg_event){.ts_ns = t_ns, .type = PASSED};
}

/* ---- tests ---- */

/* What happened before the grid is not counted, but known. */
static void
test_windows_are_those_of_the_grid(void **state)
{
    const struct vg_event events[] = {to_vcpu(2300), to_idle(3400), to_vcpu(3900), to_idle(4001),
                                      passed(6001)};
    struct reading reading = start(events, G_N_ELEMENTS(events), false);

    (void)state;
    expect_window(&reading, 3000, 4000, 500);
    expect_window(&reading, 4000, 5000, 1);
    expect_window(&reading, 5000, 6000, 0);
    expect(&reading, 0);
    stop(&reading);
}

/* A window ends with its last moment: one event of it may still come at that. */
static void
test_time_alone_closes_windows(void **state)
{
    const struct vg_event events[] = {passed(500),   passed(1000), passed(2000),  passed(2001),
                                      to_vcpu(2500), passed(3000), to_idle(3000), passed(3001),
                                      passed(3001),  passed(5000)};
    struct reading reading = start(events, G_N_ELEMENTS(events), false);

    (void)state;
    expect(&reading, VG_RECORDING_AGAIN);
    expect(&reading, VG_RECORDING_AGAIN);
    expect(&reading, VG_RECORDING_AGAIN);
    expect_window(&reading, 1000, 2000, -1);
    expect(&reading, VG_RECORDING_AGAIN); /* 3000 */
    expect_window(&reading, 2000, 3000, 500);
    expect(&reading, VG_RECORDING_AGAIN); /* 3001 again */
    expect_window(&reading, 3000, 4000, 0);
    expect(&reading, 0);
    stop(&reading);
}

/* What is seen in part is no window: not at the end, and not where reading fails. */
static void
test_the_last_window_is_not_whole(void **state)
{
    const struct vg_event events[] = {to_vcpu(900), to_idle(1500), to_vcpu(2500), to_idle(2700)};

    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        struct reading reading = start(events, G_N_ELEMENTS(events), fails);
        expect_window(&reading, 1000, 2000, 500);
        expect(&reading, fails ? -1 : 0);
        stop(&reading);
    }
}

static void
test_nothing_at_all_is_no_error(void **state)
{
    struct reading reading = start(NULL, 0, false);

    (void)state;
    expect(&reading, 0);
    expect(&reading, 0);
    stop(&reading);
}

/* Threads that ended before a ledger was made are none of its business. */
static void
test_a_topology_outlives_its_readers(void **state)
{
    const struct vg_event events[] = {to_vcpu(900), passed(2500), passed(3001)};
    struct reading reading = start(events, G_N_ELEMENTS(events), false);

    (void)state;
    for (int32_t tid = 100; tid < 200; tid++)
        vg_topology_end(reading.topology, vg_topology_thread(reading.topology, tid));
    expect_window(&reading, 1000, 2000, 1000);
    expect_window(&reading, 2000, 3000, 1000);
    stop(&reading);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_are_those_of_the_grid),
        cmocka_unit_test(test_time_alone_closes_windows),
        cmocka_unit_test(test_the_last_window_is_not_whole),
        cmocka_unit_test(test_nothing_at_all_is_no_error),
        cmocka_unit_test(test_a_topology_outlives_its_readers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
