/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole files of trace text, and what is wrong with them.
 */
#include "config.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "tests/unit/text-reading.h"

static void
read_data(struct reading *r, const char *name)
{
    g_autofree char *path = reading_data_path(name);
    g_autoptr(GError) err = NULL;
    vg_recording *recording = vg_text_open(path, NULL, &err);

    if (err)
        fail_msg("%s", err->message);
    reading_all(r, recording);
}

/* n kvm_entry lines, one a millisecond from 1 s on, all of the same length. */
#define ENTRY_LINE_LEN 47
static char *
many_entries(unsigned int n)
{
    GString *text = g_string_new(NULL);

    for (unsigned int i = 0; i < n; i++)
        g_string_append_printf(text, "CPU 0/KVM-142 [000] %03u.%03u000: kvm_entry: v 0\n",
                               1 + i / 1000, i % 1000);
    assert_int_equal(text->len, n * ENTRY_LINE_LEN);
    return g_string_free(text, FALSE);
}

/* ---- whole files ---- */

static void
test_tracefs_file(void **state)
{
    (void)state;
    struct reading r;

    read_data(&r, "tracefs.txt");
    /* Events of CPU 1 were lost before its first one: it begins late. */
    assert_int_equal(r.recording->problems.list->len, 1);
    assert_int_equal(r.recording->events, 8);
    assert_int_equal(r.events->len, 10);
    assert_head(reading_at(&r, 0), VG_EVENT_LOST, 39602756000, 1, VG_NONE, VG_NONE);
    assert_int_equal(reading_at(&r, 0)->lost.end_ns, 39604000000);
    assert_true(r.recording->has_wakeup);
    assert_head(reading_at(&r, 1), VG_EVENT_KVM_ENTRY, 39602756000, 0, 142, VG_NONE);
    assert_head(reading_at(&r, 2), VG_EVENT_KVM_EXIT, 39602790000, 0, 142, VG_NONE);
    assert_int_equal(reading_at(&r, 2)->kvm.exit_class, VG_EXIT_INTERRUPT);
    assert_head(reading_at(&r, 3), VG_EVENT_SCHED_SWITCH, 39602801000, 0, 142, VG_NONE);
    assert_head(reading_at(&r, 4), VG_EVENT_SCHED_WAKEUP, 39603000000, 0, 123, VG_NONE);
    assert_int_equal(reading_at(&r, 4)->wakeup.target_cpu, 1);
    assert_head(reading_at(&r, 6), VG_EVENT_LOST, 39603400000, 1, VG_NONE, VG_NONE);
    assert_int_equal(reading_at(&r, 6)->lost.end_ns, 39604000000);
    assert_int_equal(reading_at(&r, 6)->lost.events, 17);
    assert_head(reading_at(&r, 7), VG_EVENT_SCHED_SWITCH, 39604000000, 1, 0, VG_NONE);
    assert_head(reading_at(&r, 8), VG_EVENT_SCHED_MIGRATE, 39604100000, 1, 143, VG_NONE);
    assert_int_equal(reading_at(&r, 9)->sched_switch.prev_state, VG_PREV_EXITED);
    assert_true(vg_recording_progress(r.recording) == 1.0);
    reading_done(&r);

    read_data(&r, "tracefs-tgid.txt");
    assert_int_equal(r.recording->problems.list->len, 0);
    assert_int_equal(r.events->len, 3);
    assert_head(reading_at(&r, 0), VG_EVENT_KVM_ENTRY, 10000001000, 0, 142, 120);
    assert_head(reading_at(&r, 1), VG_EVENT_KVM_EXIT, 10000002000, 1, 143, VG_NONE);
    assert_head(reading_at(&r, 2), VG_EVENT_SCHED_WAKING, 10000003000, 1, 144, 120);
    assert_false(r.recording->has_wakeup);
    reading_done(&r);
}

static void
test_trace_cmd_file(void **state)
{
    (void)state;
    struct reading r;

    read_data(&r, "trace-cmd.txt");
    assert_int_equal(r.recording->problems.list->len, 0);
    assert_int_equal(r.recording->events, 7);
    assert_int_equal(r.events->len, 10);
    /* Nothing was read of that CPU or any other: the loss is a moment before the first event. */
    assert_head(reading_at(&r, 0), VG_EVENT_LOST, 2925640967000, 0, VG_NONE, VG_NONE);
    assert_int_equal(reading_at(&r, 0)->lost.events, 3);
    assert_int_equal(reading_at(&r, 0)->lost.end_ns, 2925640967000);
    assert_int_equal(reading_at(&r, 1)->sched_switch.next_tid, 0);
    /* A thread is woken on a CPU without records, which is empty or was not recorded. */
    assert_head(reading_at(&r, 2), VG_EVENT_LOST, 2925641000000, 1, VG_NONE, VG_NONE);
    assert_string_equal(reading_at(&r, 3)->wakeup.comm, "qemu:system");
    assert_string_equal(reading_at(&r, 4)->wakeup.comm, "sh -c [x]");
    assert_int_equal(reading_at(&r, 5)->type, VG_EVENT_SCHED_WAKING);
    assert_head(reading_at(&r, 6), VG_EVENT_LOST, 2925641200000, 0, VG_NONE, VG_NONE);
    assert_int_equal(reading_at(&r, 6)->lost.events, 0);
    assert_int_equal(reading_at(&r, 6)->lost.end_ns, 2925642000000);
    assert_int_equal(reading_at(&r, 7)->kvm.exit_class, VG_EXIT_INTERRUPT);
    assert_int_equal(reading_at(&r, 8)->kvm.reason, 78);
    assert_int_equal(reading_at(&r, 9)->sched_switch.prev_state, VG_PREV_RUNNABLE);
    reading_done(&r);
}

static void
test_perf_file(void **state)
{
    (void)state;
    struct reading r;

    read_data(&r, "perf-script.txt");
    assert_int_equal(r.recording->events, 6);
    assert_int_equal(r.events->len, 8);
    /* What a CPU lost before its first record makes it late, which is told. */
    assert_int_equal(r.recording->problems.list->len, 1);
    assert_head(reading_at(&r, 0), VG_EVENT_LOST, 1627934069000, 1, VG_NONE, VG_NONE);
    assert_int_equal(reading_at(&r, 0)->lost.end_ns, 1628200000000);
    assert_head(reading_at(&r, 1), VG_EVENT_SCHED_WAKING, 1627934069000, 0, 5403, VG_NONE);
    assert_head(reading_at(&r, 2), VG_EVENT_SCHED_WAKEUP, 1627934072000, 0, 5404, 5403);
    assert_int_equal(reading_at(&r, 3)->sched_switch.prev_state, VG_PREV_BLOCKED);
    assert_head(reading_at(&r, 4), VG_EVENT_KVM_ENTRY, 1628000000000, 39, 599500, VG_NONE);
    assert_head(reading_at(&r, 5), VG_EVENT_LOST, 1628000000000, 1, VG_NONE, VG_NONE);
    assert_int_equal(reading_at(&r, 5)->lost.events, 9);
    assert_int_equal(reading_at(&r, 5)->lost.end_ns, 1628100000000);
    assert_head(reading_at(&r, 6), VG_EVENT_PROCESS, 1628200000000, 1, VG_NONE, VG_NONE);
    assert_string_equal(reading_at(&r, 7)->process.comm, "sl eep");
    /* The sched_waking comes first, yet the file has a sched_wakeup. */
    assert_true(r.recording->has_wakeup);
    reading_done(&r);
}

static void
test_line_ends(void **state)
{
    (void)state;
    static const char text[] = "a-1 [0] 1.0: kvm_exit: reason hlt\r\n\r\n"
                               "b-2 [0] 2.0: sched_wakeup: comm=a\0b pid=3 prio=1 target_cpu=0\n"
                               "\0\n"
                               "c-3 [0] 3.0: kvm_exit: reason hlt\r";
    struct reading r;

    reading_bytes(&r, text, sizeof(text) - 1);
    assert_int_equal(r.events->len, 4);
    assert_int_equal(reading_at(&r, 0)->kvm.exit_class, VG_EXIT_HLT);
    assert_string_equal(reading_at(&r, 1)->wakeup.comm, "a");
    assert_int_equal(reading_at(&r, 1)->wakeup.tid, 3);
    assert_int_equal(reading_at(&r, 2)->type, VG_EVENT_LOST);
    assert_int_equal(reading_at(&r, 3)->kvm.exit_class, VG_EXIT_HLT);
    assert_int_equal(r.recording->problems.list->len, 1);
    assert_int_equal(reading_problem(&r, 0)->offset, 35 + 2 + 62);
    reading_done(&r);
}

/* Kernels 4.15 to 4.19 print "S" for running, "D" for sleeping, "P" for dead; the idle task shows
 * it, and a plain "R" that all is well. */
static void
test_states_one_bit_high(void **state)
{
    (void)state;
    static const char *const prev[] = {"b:2 [120] S", "swapper:0 [120] S", "b:2 [120] S",
                                       "b:2 [120] D", "b:2 [120] R+",      "b:2 [120] P",
                                       "b:2 [120] Z", "b:2 [120] R",       "b:2 [120] S"};
    static const enum vg_prev_state want[] = {VG_PREV_BLOCKED, VG_PREV_RUNNABLE, VG_PREV_RUNNABLE,
                                              VG_PREV_BLOCKED, VG_PREV_RUNNABLE, VG_PREV_EXITED,
                                              VG_PREV_EXITED,  VG_PREV_RUNNABLE, VG_PREV_BLOCKED};
    g_autoptr(GString) text = g_string_new("");
    struct reading r;

    for (size_t i = 0; i < G_N_ELEMENTS(prev); i++)
        g_string_append_printf(text, "a-1 [0] %zu.0: sched_switch: %s ==> c:3 [120]\n", i + 1,
                               prev[i]);
    reading_text(&r, text->str);
    assert_int_equal(r.events->len, G_N_ELEMENTS(prev));
    for (unsigned int i = 0; i < G_N_ELEMENTS(prev); i++) {
        if (reading_at(&r, i)->sched_switch.prev_state != want[i])
            fail_msg("line %u: %d", i + 1, reading_at(&r, i)->sched_switch.prev_state);
    }
    reading_done(&r);
}

/* trace-cmd's x: of an old kernel the exit, of a newer one, which shows X or Z, a parked thread. */
static void
test_state_x(void **state)
{
    (void)state;
    struct reading r;

    reading_text(&r, "a-1 [0] 1.0: sched_switch: b:2 [120] x ==> c:3 [120]\n"
                     "a-1 [0] 2.0: sched_switch: b:4 [120] Z ==> c:3 [120]\n"
                     "a-1 [0] 3.0: sched_switch: b:5 [120] x ==> c:3 [120]\n");
    assert_int_equal(reading_at(&r, 0)->sched_switch.prev_state, VG_PREV_EXITED);
    assert_int_equal(reading_at(&r, 1)->sched_switch.prev_state, VG_PREV_EXITED);
    assert_int_equal(reading_at(&r, 2)->sched_switch.prev_state, VG_PREV_BLOCKED);
    reading_done(&r);
}

/* ---- what is wrong with files ---- */

static void
test_not_understood(void **state)
{
    (void)state;
    struct reading r;

    reading_text(&r, "a-1 [0] 1.0: x: y\nnot \"trace\" text\na-1 [0] 2.0: x: y\n"
                     "a-1 [0] x: y\na [0] 3.0: x: y\n-- [0] 3.0: x: y\n");
    assert_int_equal(r.events->len, 3); /* one is of a gap */
    assert_int_equal(r.recording->events, 2);
    assert_int_equal(r.recording->problems.list->len, 4);
    assert_string_equal(reading_problem(&r, 0)->file, "test");
    assert_int_equal(reading_problem(&r, 0)->offset, 18);
    assert_string_equal(reading_problem(&r, 0)->what,
                        "line not understood: \"not \\\"trace\\\" text\"");
    assert_int_equal(reading_problem(&r, 1)->offset, 18 + 17 + 18);
    reading_done(&r);
}

/* However much is not understood, that time runs backwards is still told. */
static void
test_many_problems(void **state)
{
    (void)state;
    g_autoptr(GString) text = g_string_new("a-1 [0] 5.5: x: y\n");
    struct reading r;

    for (int i = 0; i < 1000; i++)
        g_string_append(text, "what is this\n");
    g_string_append(text, "a-1 [0] 4.5: x: y\n");
    reading_text(&r, text->str);
    unsigned int kept = r.recording->problems.list->len;
    assert_true(kept <= VG_TRACE_PROBLEMS_MAX);
    assert_int_equal(kept + r.recording->problems.dropped, 1001);
    assert_int_equal(reading_problem(&r, kept - 1)->offset, 18 + 1000 * 13);
    reading_done(&r);
}

static void
test_backwards(void **state)
{
    (void)state;
    struct reading r;

    reading_text(&r,
                 "a-1 [0] 5.5: x: y\nb-2 [1] 4.5: x: y\nb-2 [1] 5.4: x: y\nb-2 [1] 6.0: x: y\n");
    assert_int_equal(r.events->len, 4);
    assert_int_equal(r.recording->backwards, 2);
    assert_int_equal(reading_at(&r, 1)->ts_ns, 5500000000);
    assert_int_equal(reading_at(&r, 2)->ts_ns, 5500000000);
    assert_int_equal(reading_at(&r, 3)->ts_ns, 6000000000);
    assert_int_equal(r.recording->problems.list->len, 1);
    assert_int_equal(reading_problem(&r, 0)->offset, 18);
    assert_non_null(strstr(reading_problem(&r, 0)->what, "1000000000 ns"));
    reading_done(&r);
}

static void
test_lost(void **state)
{
    (void)state;
    struct reading r;

    reading_text(&r, "a-1 [1] 1.0: x: y\n"
                     "CPU:1 [LOST EVENTS]\n" /* until 3.0, with the next one */
                     "a-1 [0] 2.0: x: y\n"
                     "CPU:3 [LOST 1234 EVENTS]\n" /* of which there are no events */
                     "CPU:1 [1 EVENTS DROPPED]\n"
                     "a-1 [1] 3.0: x: y\n"
                     "... LOST 7 events\n"
                     "CPU:8191 [EVENTS DROPPED]\n" /* at the end */
                     "CPU:8192 [EVENTS DROPPED]\n");
    static const struct {
        int cpu;
        uint64_t events;
        int64_t ts_ns, end_ns;
    } want[] = {
        {1, 1, 1000000000, 3000000000},
        {3, 1234, 2000000000, 2000000000},
        {VG_NONE, 7, 3000000000, 3000000000},
        {8191, 0, 3000000000, 3000000000},
    };
    size_t n = 0;
    for (unsigned int i = 0; i < r.events->len; i++) {
        if (reading_at(&r, i)->type != VG_EVENT_LOST)
            continue;
        assert_true(n < G_N_ELEMENTS(want));
        assert_head(reading_at(&r, i), VG_EVENT_LOST, want[n].ts_ns, want[n].cpu, VG_NONE, VG_NONE);
        assert_int_equal(reading_at(&r, i)->lost.events, want[n].events);
        assert_int_equal(reading_at(&r, i)->lost.end_ns, want[n].end_ns);
        n++;
    }
    assert_int_equal(n, G_N_ELEMENTS(want));
    assert_int_equal(r.recording->events, 3);
    assert_int_equal(r.recording->rejected, 1);
    reading_done(&r);

    /* A loss with a time of its own, before any event: what follows is not before it. */
    reading_text(&r, "a 1 [1] 7.0: PERF_RECORD_LOST lost 3\na 1 [1] 6.0: x: y\n");
    assert_int_equal(r.events->len, 2);
    assert_head(reading_at(&r, 0), VG_EVENT_LOST, 7000000000, 1, VG_NONE, VG_NONE);
    assert_int_equal(reading_at(&r, 0)->lost.events, 3);
    assert_int_equal(reading_at(&r, 1)->ts_ns, 7000000000);
    assert_int_equal(r.recording->backwards, 1);
    reading_done(&r);
}

/* What may have been records, of whichever CPU; before the first and after the last event nothing
 * is recorded. */
static void
test_gaps(void **state)
{
    (void)state;
    struct reading r;
    g_autoptr(GString) text = g_string_new("garbage\n# tracer: nop\n\n"
                                           "a-1 [1] 1.0: x: y\n"
                                           "# a comment, and a blank line, say nothing\n\n"
                                           "a-1 [1] 2.0: x: y\n"
                                           "\x01\x02 scrambled eggs\n"
                                           "and more of them\n"
                                           "a-1 [0] 3.0: x: y\n"
                                           "a-1 [0] 3.5: x: y\n"
                                           "a-1 [9999] 3.6: x: y\n" /* no such CPU */
                                           "CPU:1 [LOST 5 EVENTS]\n"
                                           "a-1 [1] 4.0: x: y\n");

    for (int i = 0; i < VG_TEXT_LINE_MAX + 1; i++)
        g_string_append_c(text, 'x');
    g_string_append(text, "\na-1 [1] 5.0: x: y\ngarbage\n");
    reading_text(&r, text->str);
    static const struct {
        int64_t ts_ns, end_ns;
        bool any_cpu;
    } want[] = {
        {2000000000, 4000000000, false},
        {2000000000, 3000000000, true},
        {3500000000, 4000000000, true},
        {4000000000, 5000000000, true},
    };
    size_t n = 0;
    for (unsigned int i = 0; i < r.events->len; i++) {
        const struct vg_event *e = reading_at(&r, i);
        if (e->type != VG_EVENT_LOST)
            continue;
        assert_true(n < G_N_ELEMENTS(want));
        assert_head(e, VG_EVENT_LOST, want[n].ts_ns, want[n].any_cpu ? VG_NONE : 1, VG_NONE,
                    VG_NONE);
        assert_int_equal(e->lost.end_ns, want[n].end_ns);
        assert_int_equal(e->lost.any_cpu, want[n].any_cpu);
        assert_int_equal(e->lost.events, want[n].any_cpu ? 0 : 5);
        n++;
    }
    assert_int_equal(n, G_N_ELEMENTS(want));
    reading_done(&r);
}

/* Nothing is known of the time before the first event, whichever CPU it is on. */
static void
test_lost_before_anything(void **state)
{
    (void)state;
    struct reading r;

    reading_text(&r, "CPU:3 [LOST 17 EVENTS]\nCPU:0 [LOST 2 EVENTS]\nCPU:3 [LOST 1 EVENTS]\n"
                     "a-1 [0] 1001.0: x: y\n");
    assert_int_equal(r.events->len, 3);
    assert_head(reading_at(&r, 0), VG_EVENT_LOST, 1001000000000, 3, VG_NONE, VG_NONE);
    assert_int_equal(reading_at(&r, 0)->lost.events, 18);
    assert_int_equal(reading_at(&r, 0)->lost.end_ns, 1001000000000);
    assert_head(reading_at(&r, 1), VG_EVENT_LOST, 1001000000000, 0, VG_NONE, VG_NONE);
    assert_int_equal(reading_at(&r, 1)->lost.events, 2);
    assert_int_equal(reading_at(&r, 2)->ts_ns, 1001000000000);
    reading_done(&r);

    reading_text(&r, "# tracer: nop\nCPU:3 [LOST 17 EVENTS]\n"); /* no event: nothing lost of it */
    assert_int_equal(r.events->len, 0);
    reading_done(&r);
}

/* The largest whole seconds below 2^62 ns are 4611686018; one is kept as room for the fraction. */
static void
test_time_limit(void **state)
{
    (void)state;
    struct reading r;

    reading_text(&r, "a-1 [0] 4611686017.999999999: x: y\na-1 [0] 4611686018.0: x: y\n");
    assert_int_equal(r.events->len, 1);
    assert_int_equal(reading_at(&r, 0)->ts_ns, 4611686017999999999);
    assert_int_equal(r.recording->problems.list->len, 1);
    reading_done(&r);
}

static void
test_limits(void **state)
{
    (void)state;
    struct reading r;

    struct vg_event e = reading_one("a-4194304 (4194304) [8191] 1.0: kvm_entry: vcpu 0");
    assert_head(&e, VG_EVENT_KVM_ENTRY, 1000000000, 8191, 4194304, 4194304);
    reading_text(&r, "a-4194305 [0] 1.0: x: y\na-1 [8192] 1.0: x: y\na-1 (4194305) [0] 1.0: x: y\n"
                     "a 4194305/1 [0] 1.0: s:x: y\n"
                     "a-99999999999999999999 [99999999999999999999] 1.0: x: y\n"
                     "a-1 [0] 1.0: sched_wakeup: comm=a pid=4194305 prio=1 target_cpu=0\n"
                     "a-1 [0] 1.0: sched_wakeup: comm=a pid=1 prio=1 target_cpu=8192\n"
                     "a-1 [0] 1.0: sched_wakeup: garbled\n");
    assert_int_equal(r.events->len, 0);
    assert_int_equal(r.recording->events, 8);
    assert_int_equal(r.recording->rejected, 8);
    assert_int_equal(r.recording->problems.list->len, 8);
    assert_int_equal(reading_problem(&r, 1)->offset, 24);
    reading_done(&r);
}

static char *
line_of_length(size_t len)
{
    GString *line = g_string_new("a-1 [0] 1.0: x: ");

    while (line->len < len)
        g_string_append_c(line, 'y');
    return g_string_free(line, FALSE);
}

static void
test_long_lines(void **state)
{
    (void)state;
    g_autofree char *longest = line_of_length(VG_TEXT_LINE_MAX);
    g_autofree char *longer = line_of_length(VG_TEXT_LINE_MAX + 1);
    g_autofree char *huge = line_of_length(3 * 1000 * 1000);
    g_autofree char *text =
        g_strconcat(longest, "\n", longer, "\n", huge, "\na-1 [0] 2.0: x: y\n", huge, NULL);
    struct reading r;

    reading_text(&r, text);
    assert_int_equal(r.events->len, 3);
    assert_int_equal(reading_at(&r, 1)->type, VG_EVENT_LOST);
    assert_int_equal(reading_at(&r, 2)->ts_ns, 2000000000);
    assert_int_equal(r.recording->problems.list->len, 3);
    assert_int_equal(reading_problem(&r, 0)->offset, VG_TEXT_LINE_MAX + 1);
    assert_int_equal(reading_problem(&r, 1)->offset, 2 * VG_TEXT_LINE_MAX + 3);
    assert_int_equal(reading_problem(&r, 2)->offset, 2 * VG_TEXT_LINE_MAX + 3 + 3000001 + 18);
    reading_done(&r);
}

static void
test_event_names(void **state)
{
    (void)state;
    g_autoptr(GString) text = g_string_new(NULL);
    struct reading r;

    /* kvm_entry comes as the last name that is still looked up. */
    for (int i = 0; i < VG_TEXT_EVENT_NAMES_MAX - 1; i++)
        g_string_append_printf(text, "a-1 [0] 1.0: event%d: x\n", i);
    g_string_append(text, "a-1 [0] 1.0: kvm_entry: vcpu 0\na-1 [0] 1.0: kvm_exit: reason hlt\n");
    reading_text(&r, text->str);
    assert_int_equal(r.events->len, VG_TEXT_EVENT_NAMES_MAX + 1);
    assert_int_equal(reading_at(&r, VG_TEXT_EVENT_NAMES_MAX - 1)->type, VG_EVENT_KVM_ENTRY);
    assert_int_equal(reading_at(&r, VG_TEXT_EVENT_NAMES_MAX)->type, VG_EVENT_OTHER);
    reading_done(&r);

    /* Names that are none: twice the same with a NUL in it, and one that is too long. */
    static const char odd[] = "a-1 [0] 1.0: kvm_entry\0x: y\na-1 [0] 1.0: kvm_entry\0x: y\n";
    reading_bytes(&r, odd, sizeof(odd) - 1);
    assert_int_equal(r.events->len, 2);
    assert_int_equal(reading_at(&r, 1)->type, VG_EVENT_OTHER);
    reading_done(&r);
    g_autofree char *name = g_strnfill(1000, 'n');
    g_autofree char *line = g_strdup_printf("a-1 [0] 1.0: %s: y", name);
    struct vg_event e = reading_one(line);
    assert_int_equal(e.type, VG_EVENT_OTHER);
}

static void
test_has_wakeup(void **state)
{
    (void)state;
    static const char waking[] = "a-1 [0] 1.0: sched_waking: comm=a pid=1 prio=1 target_cpu=0\n";
    struct vg_event event;

    /* Known when the sched_waking is delivered, although the sched_wakeup comes much later. */
    g_autofree char *entries = many_entries(9000);
    g_autofree char *with = g_strconcat(waking, entries,
                                        "a-1 [0] 20.0: sched_wakeup: comm=a pid=1 prio=1 "
                                        "target_cpu=0\n",
                                        NULL);
    vg_recording *recording = vg_text_open_memory("test", with, strlen(with), NULL);
    assert_int_equal(vg_recording_next(recording, &event, NULL), 1);
    assert_int_equal(event.type, VG_EVENT_SCHED_WAKING);
    assert_true(recording->has_wakeup);
    vg_recording_free(recording);

    /* What only looks like one. */
    g_autofree char *without =
        g_strconcat(waking,
                    "a-1 [0] 1.0: sched_wakeup_new: comm=a pid=1 prio=1 target_cpu=0\n"
                    "a-1 [0] 1.0: x: sched_wakeup: y\n"
                    "a-1 [0] 1.0: sched_wakeup <-try_to_wake_up\n"
                    "a-1 [0] 1.0:\n"
                    "sched_wakeup: comm=a\n"
                    "sched_wakeup:-1 [0] 1.0: x: y\n",
                    NULL);
    struct reading r;
    reading_text(&r, without);
    assert_false(r.recording->has_wakeup);
    reading_done(&r);
}

static void
assert_refused(const char *text, size_t size, const char *says)
{
    g_autoptr(GError) err = NULL;

    assert_null(vg_text_open_memory("a/file", text, size, &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_INVALID));
    assert_non_null(strstr(err->message, "a/file"));
    assert_non_null(strstr(err->message, says));
}

static void
test_refused(void **state)
{
    (void)state;
    g_autofree char *late = g_malloc(VG_TEXT_PROBE_MAX + 200);
    static const char event[] = "a-1 [0] 1.0: x: y\n";

    assert_refused("", 0, "no line");
    assert_refused("#!/bin/sh\necho hello\n", 21, "no line");
    assert_refused("PERFILE2\1\2\3", 11, "perf script -i a/file");
    assert_refused("\x17\x08\x44tracing6", 11, "trace-cmd report -i a/file");
    assert_refused("\x1f\x8b\x08 what is this", 16, "no line");

    /* The first event just inside the first MiB, and a line later. */
    for (size_t i = 0; i < VG_TEXT_PROBE_MAX + 100; i += 100)
        memcpy(late + i,
               "# comment ........................................................"
               ".................................\n",
               100);
    size_t begin = VG_TEXT_PROBE_MAX / 100 * 100;
    memcpy(late + begin, event, strlen(event));
    struct reading r;
    reading_bytes(&r, late, begin + strlen(event));
    assert_int_equal(r.events->len, 1);
    reading_done(&r);
    memmove(late + begin + 100, event, strlen(event));
    memset(late + begin, '#', 99);
    assert_refused(late, begin + 100 + strlen(event), "no line");

    /* The head of a trace without any event is a trace, too. */
    reading_text(&r, "# tracer: nop\n#\n# entries-in-buffer/entries-written: 0/0   #P:2\n");
    assert_int_equal(r.events->len, 0);
    assert_int_equal(r.recording->problems.list->len, 0);
    reading_done(&r);

    g_autoptr(GError) err = NULL;
    assert_null(vg_text_open("/no/such/file", NULL, &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_NOT_FOUND));
    g_clear_error(&err);
    assert_null(vg_text_open("/", NULL, &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_IO));
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tracefs_file),
        cmocka_unit_test(test_trace_cmd_file),
        cmocka_unit_test(test_perf_file),
        cmocka_unit_test(test_line_ends),
        cmocka_unit_test(test_states_one_bit_high),
        cmocka_unit_test(test_state_x),
        cmocka_unit_test(test_not_understood),
        cmocka_unit_test(test_many_problems),
        cmocka_unit_test(test_backwards),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_lost_before_anything),
        cmocka_unit_test(test_time_limit),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_event_names),
        cmocka_unit_test(test_has_wakeup),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
