/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of trace text: every spelling of the columns and of every event, and comms that look like
 * something else.
 */
#include "config.h"

#include <string.h>

#include "base/error.h"
#include "tests/unit/chance.h"
#include "tests/unit/text-reading.h"
#include "trace/text-line.h"

/* ---- the columns ---- */

static void
test_columns(void **state)
{
    (void)state;
    struct vg_event e;

    e = reading_one("<...>-62567 [030] 2758596.349023: kvm_entry:            vcpu 0");
    assert_head(&e, VG_EVENT_KVM_ENTRY, 2758596349023000, 30, 62567, VG_NONE);
    assert_string_equal(e.kvm.comm, "");
    e = reading_one("          <idle>-0       [001] d..2.    39.604000: x: y\n");
    assert_head(&e, VG_EVENT_OTHER, 39604000000, 1, 0, VG_NONE);
    e = reading_one("   CPU 0/KVM-142     (    120) [000] d..1.    10.000001: kvm_entry: vcpu 0\n");
    assert_head(&e, VG_EVENT_KVM_ENTRY, 10000001000, 0, 142, 120);
    assert_string_equal(e.kvm.comm, "CPU 0/KVM");
    e = reading_one("CPU 0/KVM-142 (-------) [000] .... 10.000001: kvm_entry: vcpu 0");
    assert_head(&e, VG_EVENT_KVM_ENTRY, 10000001000, 0, 142, VG_NONE);
    e = reading_one("a-1 [007] d.h1..2 0.000001: kvm_entry: vcpu 0");
    assert_head(&e, VG_EVENT_KVM_ENTRY, 1000, 7, 1, VG_NONE);
    e = reading_one("\tvery-long-thread-name-it-has-1-2 [000] 1.0: kvm_entry: vcpu 0");
    assert_head(&e, VG_EVENT_KVM_ENTRY, 1000000000, 0, 2, VG_NONE);
    assert_string_equal(e.kvm.comm, "very-long-threa");
    /* Lines of another tracer have no event name. */
    e = reading_one("      foo-3     [001] d..1.   5630.700000: do_idle <-cpu_startup_entry");
    assert_head(&e, VG_EVENT_OTHER, 5630700000000, 1, 3, VG_NONE);
}

static void
test_perf_columns(void **state)
{
    (void)state;
    struct vg_event e;

    e = reading_one("fc_vcpu 1  599500 [039] 1377662.550637: kvm:kvm_entry:  vcpu 1 rip 0xff");
    assert_head(&e, VG_EVENT_KVM_ENTRY, 1377662550637000, 39, 599500, VG_NONE);
    assert_string_equal(e.kvm.comm, "fc_vcpu 1");
    e = reading_one("   CPU 0/KVM  5403/5404  [000]  1.5:       kvm:kvm_entry: vcpu 0");
    assert_head(&e, VG_EVENT_KVM_ENTRY, 1500000000, 0, 5404, 5403);
    assert_string_equal(e.kvm.comm, "CPU 0/KVM");
    e = reading_one("   a-5 [2]  12 [003]  1.5:          1 kvm:kvm_entry: vcpu 0");
    assert_head(&e, VG_EVENT_KVM_ENTRY, 1500000000, 3, 12, VG_NONE);
    assert_string_equal(e.kvm.comm, "a-5 [2]");
    e = reading_one("   :77    77 [001]  1.5: kvm:kvm_entry: vcpu 0");
    assert_head(&e, VG_EVENT_KVM_ENTRY, 1500000000, 1, 77, VG_NONE);
    assert_string_equal(e.kvm.comm, "");
    e = reading_one("   :-1    -1 [001]  1.5: kvm:kvm_entry: vcpu 0");
    assert_head(&e, VG_EVENT_KVM_ENTRY, 1500000000, 1, VG_NONE, VG_NONE);
}

static void
test_time(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } times[] = {
        {"0.0", 0},
        {"0.000000001", 1},
        {"12.3", 12300000000},
        {"12.345678901", 12345678901},
        {"00012.000000", 12000000000},
        {"4611686017.999999999", 4611686017999999999},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(times); i++) {
        g_autofree char *line = g_strdup_printf("a-1 [0] %s: x: y", times[i].text);
        struct vg_event e = reading_one(line);
        assert_int_equal(e.ts_ns, times[i].ns);
    }
    static const char *const wrong[] = {
        "a-1 [0] 4611686018.0: x: y",           "a-1 [0] 1.0000000001: x: y", "a-1 [0] 1.: x: y",
        "a-1 [0] 99999999999999999999.0: x: y", "a-1 [0] -1.0: x: y",         "a-1 [0] 1.0 x: y",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(GError) err = NULL;
        assert_null(vg_text_open_memory("test", wrong[i], strlen(wrong[i]), &err));
        assert_true(g_error_matches(err, VG_ERROR, VG_E_INVALID));
    }
}

static void
test_counter_clock(void **state)
{
    (void)state;
    const char *text = "# tracer: nop\na-1 [000] d... 123456789: sched_wakeup: comm=a pid=1 "
                       "prio=1 target_cpu=0\n";
    g_autoptr(GError) err = NULL;

    assert_null(vg_text_open_memory("clock.txt", text, strlen(text), &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_INVALID));
    assert_non_null(strstr(err->message, "clock.txt"));
    assert_non_null(strstr(err->message, "seconds"));

    /* trace-cmd with the clock boot or x86-tsc. Only their numbers of digits differ. */
    g_clear_error(&err);
    text =
        "cpus=2\nst:            sleep-29375 [000]27683026348857: task_rename:          pid=29375 "
        "oldcomm=trace-cmd newcomm=sleep oom_score_adj=0\n";
    assert_null(vg_text_open_memory("boot.txt", text, strlen(text), &err));
    assert_non_null(strstr(err->message, "trace-cmd record -C mono"));

    /* In the middle of a file it is a problem of that line, and what it told is lost. */
    struct reading r;
    reading_text(&r, "a-1 [0] 1.0: x: y\na-1 [0] 77: x: y\na-1 [0] 2.0: x: y\n");
    assert_int_equal(r.events->len, 3);
    assert_int_equal(g_array_index(r.events, struct vg_event, 1).type, VG_EVENT_LOST);
    assert_int_equal(r.recording->problems.list->len, 1);
    assert_int_equal(reading_problem(&r, 0)->offset, 18);
    reading_done(&r);
}

/* ---- the events ---- */

static void
assert_switch(const char *line, const char *prev_comm, int prev_tid, enum vg_prev_state state,
              const char *next_comm, int next_tid)
{
    struct vg_event event = reading_one(line);

    assert_int_equal(event.type, VG_EVENT_SCHED_SWITCH);
    assert_string_equal(event.sched_switch.prev_comm, prev_comm);
    assert_int_equal(event.sched_switch.prev_tid, prev_tid);
    assert_int_equal(event.sched_switch.prev_state, state);
    assert_string_equal(event.sched_switch.next_comm, next_comm);
    assert_int_equal(event.sched_switch.next_tid, next_tid);
}

static void
assert_wakeup(const char *line, enum vg_event_type type, const char *comm, int tid, int cpu)
{
    struct vg_event event = reading_one(line);

    assert_int_equal(event.type, type);
    assert_string_equal(event.wakeup.comm, comm);
    assert_int_equal(event.wakeup.tid, tid);
    assert_int_equal(event.wakeup.target_cpu, cpu);
}

static void
assert_exit(const char *body, enum vg_exit_class exit_class)
{
    g_autofree char *line = g_strconcat("CPU 0/KVM-142 [000] d..1. 1.0: kvm_exit: ", body, NULL);
    struct vg_event event = reading_one(line);

    assert_head(&event, VG_EVENT_KVM_EXIT, 1000000000, 0, 142, VG_NONE);
    assert_int_equal(event.kvm.exit_class, exit_class);
    assert_string_equal(event.kvm.comm, "CPU 0/KVM");
}

#define P "x-1 [000] d..2. 1.0: sched_switch: "

static void
test_switch(void **state)
{
    (void)state;
    assert_switch(P "prev_comm=CPU 0/KVM prev_pid=142 prev_prio=120 prev_state=R ==> next_comm=x "
                    "next_pid=3 next_prio=120",
                  "CPU 0/KVM", 142, VG_PREV_RUNNABLE, "x", 3);
    assert_switch(P "CPU 0/KVM:142 [120] R ==> swapper/0:0 [120]", "CPU 0/KVM", 142,
                  VG_PREV_RUNNABLE, "swapper/0", 0);
    assert_switch(P "[FAILED TO PARSE] prev_comm=a prev_pid=1 prev_prio=120 prev_state=256 "
                    "next_comm=b next_pid=2 next_prio=-1",
                  "a", 1, VG_PREV_RUNNABLE, "b", 2);
    assert_switch(P "prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 "
                    "next_prio=120 ffffffff81f0a1b2 __schedule",
                  "a", 1, VG_PREV_BLOCKED, "b", 2);
    /* A field that nobody has told us of. */
    assert_switch(P "prev_comm=a b prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=c d "
                    "next_pid=2 next_prio=120 extra=5",
                  "a b", 1, VG_PREV_BLOCKED, "c d", 2);
}

/* The trace option "fields": numbers in both notations, and no "==>". */
static void
test_option_fields(void **state)
{
    (void)state;
    assert_switch(P "prev_comm=qemu-system-x86 prev_pid=0x2eba (11962) prev_prio=0x78 (120) "
                    "prev_state=0x1 (1) next_comm=CPU 0/TCG next_pid=0x2ee1 (12001) "
                    "next_prio=0x78 (120)",
                  "qemu-system-x86", 11962, VG_PREV_BLOCKED, "CPU 0/TCG", 12001);
    assert_switch(P "prev_comm=a prev_pid=1 prev_pid=0x7 (7) prev_prio=0xffffffff (-1) "
                    "prev_state=0x100 (256) next_comm=x (3) next_pid=0x0 (0) next_prio=0x78 (120)",
                  "a prev_pid=1", 7, VG_PREV_RUNNABLE, "x (3)", 0);
    assert_wakeup("x-1 [0] 1.0: sched_wakeup: comm=ksoftirqd/1 pid=0x16 (22) prio=0x78 (120) "
                  "target_cpu=0x1 (1)",
                  VG_EVENT_SCHED_WAKEUP, "ksoftirqd/1", 22, 1);
    struct vg_event e = reading_one("x-1 [0] 1.0: sched_migrate_task: comm=a pid=0x4d (77) "
                                    "prio=0x78 (120) orig_cpu=0x1 (1) dest_cpu=0x0 (0)");
    assert_int_equal(e.migrate.tid, 77);
    assert_int_equal(e.migrate.orig_cpu, 1);
    e = reading_one("x-1 [0] 1.0: sched_process_fork: parent_comm=a parent_pid=0x1 (1) "
                    "child_comm=b c child_pid=0x151d (5405)");
    assert_string_equal(e.process.comm, "b c");
    assert_int_equal(e.process.tid, 5405);
    e = reading_one("x-1 [0] 1.0: kvm_exit: exit_reason=0xc (12) guest_rip=0xfff0 (65520) "
                    "isa=0x1 (1) info1=0x0 (0) vcpu_id=0x0 (0)");
    assert_int_equal(e.kvm.reason, 12);
    assert_int_equal(e.kvm.exit_class, VG_EXIT_HLT);
    /* These are no numbers. */
    static const char *const wrong[] = {"0x16 (2x)", "16 (22)", "0x (22)", "0x16 ()", "(22)"};
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        struct reading r;
        g_autofree char *line = g_strdup_printf(
            "x-1 [0] 1.0: sched_wakeup: comm=a pid=%s prio=1 target_cpu=1", wrong[i]);
        reading_text(&r, line);
        assert_int_equal(r.recording->rejected, 1);
        reading_done(&r);
    }
}

static void
test_switch_states(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum vg_prev_state state;
    } states[] = {
        {"R", VG_PREV_RUNNABLE},     {"R+", VG_PREV_RUNNABLE}, {"S", VG_PREV_BLOCKED},
        {"D", VG_PREV_BLOCKED},      {"D|K", VG_PREV_BLOCKED}, {"I", VG_PREV_BLOCKED},
        {"t", VG_PREV_BLOCKED},      {"P", VG_PREV_BLOCKED},   {"X", VG_PREV_EXITED},
        {"Z", VG_PREV_EXITED},       {"x", VG_PREV_EXITED},    {"0", VG_PREV_RUNNABLE},
        {"0x100", VG_PREV_RUNNABLE}, {"1", VG_PREV_BLOCKED},   {"16", VG_PREV_EXITED},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(states); i++) {
        g_autofree char *kernel = g_strdup_printf(
            P "prev_comm=a prev_pid=1 prev_prio=120 prev_state=%s ==> next_comm=b next_pid=2 "
              "next_prio=120",
            states[i].text);
        g_autofree char *plugin = g_strdup_printf(P "a:1 [120] %s ==> b:2 [120]", states[i].text);
        assert_switch(kernel, "a", 1, states[i].state, "b", 2);
        assert_switch(plugin, "a", 1, states[i].state, "b", 2);
    }
}

/* Every comm in every place of every spelling, with every other one beside it, or some of them. */
static void
test_nasty_comms(void **state)
{
    const size_t step = chance_is_full() ? 1 : 6, at = chance_seed() % step;

    (void)state;
    static const char *const comms[] = {
        "a",
        "CPU 0/KVM",
        "gnome-shel:cs0",
        "kworker/u32:0",
        "a=b",
        "x-1 [000]",
        " ==> b:8 [120]",
        "S ==> b",
        " prev_pid=1",
        " next_pid=1",
        " ==> next_com",
        " prev_state=R",
        "pid=1 prio=2",
        "a:1 [120]",
        " target_cpu=0",
        " CPU:000",
        "[FAILED TO PARS",
        "success=1",
        "R ==> a:1 [1]",
        "=,=, x=1, y",
        "(12)",
        ":7",
        "1234",
        "-5",
        "\xc3\xa4\xff#",
        " dest_cpu=1",
        "x prio=1",
        "x pid=1 prio=1",
        "comm=comm=comm=",
        " ==> next_comm=",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(comms); i++) {
        assert_true(strlen(comms[i]) < VG_COMM_LEN);
        for (size_t k = 0; k < G_N_ELEMENTS(comms); k++) {
            const char *a = comms[i], *b = comms[k];
            if ((i + k) % step != at)
                continue;
            g_autofree char *kernel =
                g_strdup_printf(P "prev_comm=%s prev_pid=71 prev_prio=120 prev_state=S ==> "
                                  "next_comm=%s next_pid=72 next_prio=120",
                                a, b);
            g_autofree char *raw = g_strdup_printf(P "[FAILED TO PARSE] prev_comm=%s prev_pid=71 "
                                                     "prev_prio=120 prev_state=1 next_comm=%s "
                                                     "next_pid=72 next_prio=120",
                                                   a, b);
            assert_switch(kernel, a, 71, VG_PREV_BLOCKED, b, 72);
            assert_switch(raw, a, 71, VG_PREV_BLOCKED, b, 72);
            /* The body's own blanks in front cannot be told from a comm's. */
            if (a[0] == ' ' || a[0] == '[')
                continue;
            g_autofree char *plugin = g_strdup_printf(P "%s:71 [120] S ==> %s:72 [120]", a, b);
            assert_switch(plugin, a, 71, VG_PREV_BLOCKED, b, 72);
        }
    }
}

static void
test_nasty_recorders(void **state)
{
    (void)state;
    static const char *const comms[] = {
        "CPU 0/KVM",     "gnome-shel:cs0",
        "a-1 [0]",       "x-1 (  12)",
        "[000] 1.0",     "[1] d... 2.0: x",
        "#not a remark", "=> foo",
        "deadbeef x",    "CPU:1 [LOST 5",
        "LOST 5 events", "cpus:2",
        "a  ",           "-1",
        "12 34",         "x/12",
        "(-------)",     "x:",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(comms); i++) {
        g_autofree char *comm = g_strndup(comms[i], VG_COMM_LEN - 1);
        g_autofree char *ftrace = g_strdup_printf(
            "x%s-71   (  70) [003] d..2. 5.0: kvm_entry: vcpu 0 [7] 1.0: x: y", comm);
        struct vg_event e = reading_one(ftrace);
        assert_head(&e, VG_EVENT_KVM_ENTRY, 5000000000, 3, 71, 70);
        assert_true(e.kvm.comm[0] == 'x');
        assert_memory_equal(e.kvm.comm + 1, comm, MIN(strlen(comm), VG_COMM_LEN - 2));
    }
}

/* Names that look like headers, remarks or columns, in every format. */
static void
test_names_like_lines(void **state)
{
    (void)state;
    static const char *const comms[] = {
        "#w",
        "#",
        "# tracer: nop",
        "# captured on :",
        "#P:4000",
        "cpus=99",
        "version = 7",
        "CPU:1 [EVENTS",
        "CPU 3 is empty",
        "LOST 5 events",
        "PERF_RECORD_LOS",
        "1 [0] 1.0:x:",
        "-1 [0] 2.0: x:",
        "1 [0] 77: x:",
        "a: cpus=99",
    };
    /* The text in front of the name, how many columns it has, and what follows. */
    static const struct {
        const char *front;
        int columns;
        const char *rest;
    } formats[] = {
        {"", 16, "-71   (  70) [003] d..2. 5.0: kvm_entry: vcpu 0"},
        {"", 16, "-71      [003]     5.0: kvm_entry: vcpu 0"},
        {"of: ", 16, "-71      [003]     5.0: kvm_entry: vcpu 0"},
        {"", 16, "    71 [003]     5.0: kvm:kvm_entry: vcpu 0"},
        {"", 0, "    71 [003]     5.0: kvm:kvm_entry: vcpu 0"}, /* with call chains */
        {"", 0, "-71 [003]     5.0: kvm_entry: vcpu 0"},        /* blanks removed */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(comms); i++) {
        for (size_t k = 0; k < G_N_ELEMENTS(formats); k++) {
            struct reading r;
            g_autofree char *line = g_strdup_printf("%s%*s%s", formats[k].front, formats[k].columns,
                                                    comms[i], formats[k].rest);
            reading_text(&r, line);
            assert_int_equal(r.events->len, 1);
            const struct vg_event *e = reading_at(&r, 0);
            assert_int_equal(e->type, VG_EVENT_KVM_ENTRY);
            assert_int_equal(e->ts_ns, 5000000000);
            assert_int_equal(e->cpu, 3);
            assert_int_equal(e->tid, 71);
            assert_string_equal(e->kvm.comm, comms[i]);
            assert_int_equal(r.recording->host_cpus, 0);
            reading_done(&r);
        }
    }
}

/* Lines without columns: only a complete header or loss counts. */
static void
test_headers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum vg_text_kind kind;
    } lines[] = {
        {"# tracer: nop", VG_TEXT_HEADER},
        {"# tracer: function_graph ", VG_TEXT_HEADER},
        {"# captured on    : Sat Nov 28 08:10:00 2026", VG_TEXT_HEADER},
        {"cpus=2", VG_TEXT_HEADER},
        {"version = 7", VG_TEXT_HEADER},
        {"st: cpus=2", VG_TEXT_HEADER},
        {"CPU 3 is empty", VG_TEXT_HEADER},
        {"#", VG_TEXT_COMMENT},
        {"#           TASK-PID    TGID   CPU#  |||||  TIMESTAMP  FUNCTION", VG_TEXT_COMMENT},
        {"# tracer: nop prev_pid=1", VG_TEXT_COMMENT},
        {"  # tracer: nop", VG_TEXT_SKIP},
        {"  #w-77 [000] ?", VG_TEXT_UNKNOWN},
        {"  # tracer: nop-77 [000] ?", VG_TEXT_UNKNOWN},
        {"cpus=99 prev_pid=1", VG_TEXT_UNKNOWN},
        {"  cpus=99-77 [000] ?", VG_TEXT_UNKNOWN},
        {"CPU:1 [LOST 17 EVENTS]", VG_TEXT_LOST},
        {"CPU:1 [EVENTS DROPPED]", VG_TEXT_LOST},
        {"CPU:1 [EVENTS prev_pid=1", VG_TEXT_UNKNOWN},
        {"CPU:1 [EVENTS-77 [000] ?", VG_TEXT_UNKNOWN},
        {"LOST 5 events!", VG_TEXT_LOST},
        {"LOST 5 events prev_pid=1", VG_TEXT_UNKNOWN},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(lines); i++) {
        struct vg_text_line line;
        struct vg_text_span text = {lines[i].text, strlen(lines[i].text)};
        enum vg_text_kind kind = vg_text_line_parse(text, &line);
        if (kind != lines[i].kind)
            fail_msg("kind %d: %s", kind, lines[i].text);
    }
}

static void
test_wakeups(void **state)
{
    (void)state;
    assert_wakeup("x-1 [0] 1.0: sched_wakeup: comm=CPU 1/KVM pid=143 prio=120 target_cpu=001",
                  VG_EVENT_SCHED_WAKEUP, "CPU 1/KVM", 143, 1);
    assert_wakeup("x-1 [0] 1.0: sched_wakeup: comm=a pid=1 prio=2 pid=143 prio=120 success=1 "
                  "target_cpu=010",
                  VG_EVENT_SCHED_WAKEUP, "a pid=1 prio=2", 143, 10);
    assert_wakeup("x 1 [0] 1.0: sched:sched_wakeup_new: comm= pid=143 prio=120 target_cpu=001",
                  VG_EVENT_SCHED_WAKEUP, "", 143, 1);
    assert_wakeup("x-1 [0] 1.0: sched_wakeup: qemu:120:120 [120] CPU:001", VG_EVENT_SCHED_WAKEUP,
                  "qemu:120", 120, 1);
    assert_wakeup("x-1 [0] 1.0: sched_wakeup: qemu:120 [-1] success=1 CPU:101",
                  VG_EVENT_SCHED_WAKEUP, "qemu", 120, 101);
    assert_wakeup("x-1 [0] 1.0: sched_waking: qemu:120 [120]", VG_EVENT_SCHED_WAKING, "qemu", 120,
                  VG_NONE);
    /* success=0: an attempt of an old kernel, no wakeup. */
    struct vg_event e =
        reading_one("x-1 [0] 1.0: sched_wakeup: comm=a pid=143 prio=120 success=0 target_cpu=010");
    assert_int_equal(e.type, VG_EVENT_OTHER);
}

static void
test_migrate_and_process(void **state)
{
    (void)state;
    struct vg_event e =
        reading_one("x-1 [0] 1.0: sched_migrate_task: comm=a dest_cpu=5 pid=77 prio=120 "
                    "orig_cpu=1 dest_cpu=0");
    assert_int_equal(e.type, VG_EVENT_SCHED_MIGRATE);
    assert_string_equal(e.migrate.comm, "a dest_cpu=5");
    assert_int_equal(e.migrate.tid, 77);
    assert_int_equal(e.migrate.orig_cpu, 1);
    assert_int_equal(e.migrate.dest_cpu, 0);

    e = reading_one(
        "x 1 [0] 1.0: sched:sched_process_fork: comm=a pid=1 child_comm=b c child_pid=5405");
    assert_int_equal(e.type, VG_EVENT_PROCESS_FORK);
    assert_string_equal(e.process.comm, "b c");
    assert_int_equal(e.process.tid, 5405);
    e = reading_one(
        "x 1 [0] 1.0: task:task_rename: pid=5404 oldcomm=a newcomm=CPU 0/KVM oom_score_adj=0");
    assert_int_equal(e.type, VG_EVENT_PROCESS);
    assert_string_equal(e.process.comm, "CPU 0/KVM");
    assert_int_equal(e.process.tid, 5404);
    e = reading_one("x-1 [0] 1.0: sched_process_free: comm=a pid=5 pid=5404 prio=120");
    assert_int_equal(e.type, VG_EVENT_PROCESS_END);
    assert_int_equal(e.process.tid, 5404);
}

static void
test_kvm(void **state)
{
    (void)state;
    assert_exit("reason EPT_VIOLATION rip 0xfff0 info 784 0", VG_EXIT_PAGE_FAULT);
    assert_exit("vcpu 0 reason EXTERNAL_INTERRUPT rip 0x1 info1 0x0", VG_EXIT_INTERRUPT);
    assert_exit("vcpu 0 reason EXTERNAL_INTERRUPT intr_info 0x800000ec", VG_EXIT_INTERRUPT);
    assert_exit("vcpu 0, reason hlt rip 0x1", VG_EXIT_HLT);
    assert_exit("reason npf rip 0xfff0 info 784 0", VG_EXIT_PAGE_FAULT);
    assert_exit("reason EXIT_INTR rip 0xfff0 info 784 0", VG_EXIT_INTERRUPT);
    assert_exit("[FAILED TO PARSE] exit_reason=12 guest_rip=0xfff0 isa=1 info1=0", VG_EXIT_HLT);
    assert_exit("[FAILED TO PARSE] exit_reason=0x78 guest_rip=0xfff0 isa=2 info1=0", VG_EXIT_HLT);
    assert_exit("reason UNKNOWN (123) rip 0xfff0", VG_EXIT_OTHER);
    assert_exit("", VG_EXIT_OTHER);
    /* arm64 */
    assert_exit("TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0xffff800010c0a2c8", VG_EXIT_PAGE_FAULT);
    assert_exit("TRAP: HSR_EC: 0x0001 (WFx), PC: 0x08c0a2c8", VG_EXIT_HLT);
    assert_exit("IRQ: HSR_EC: 0x0000 (UNKNOWN), PC: 0xffff800010c0a2c8", VG_EXIT_INTERRUPT);
    assert_exit("SERROR: HSR_EC: 0x0000 (UNKNOWN), PC: 0xffff800010c0a2c8", VG_EXIT_OTHER);
    assert_exit("[FAILED TO PARSE] ret=2 esr_ec=22 vcpu_pc=0xffff8000", VG_EXIT_HYPERCALL);
    assert_exit("[FAILED TO PARSE] ret=0 esr_ec=0 vcpu_pc=0xffff8000", VG_EXIT_INTERRUPT);

    struct vg_event e = reading_one("a-1 [0] 1.0: kvm_exit: exit_reason=120 isa=2");
    assert_int_equal(e.kvm.reason, 120);
}

/* The public excerpts: what each line must say. */
static void
test_samples(void **state)
{
    (void)state;
    static const struct {
        enum vg_event_type type;
        int64_t ts_ns;
        int cpu, tid;
        int exit_class; /* or VG_NONE */
        const char *comm;
        uint64_t id, context; /* of a GPU's request; the id in text is hexadecimal */
    } want[] = {
        {VG_EVENT_KVM_ENTRY, 2758596349023000, 30, 62567, VG_NONE, "", 0, 0},
        {VG_EVENT_KVM_EXIT, 2758596349036000, 30, 62567, VG_EXIT_PAGE_FAULT, "", 0, 0},
        {VG_EVENT_KVM_ENTRY, 83184290326000, 3, 24797, VG_NONE, "challenge", 0, 0},
        {VG_EVENT_KVM_EXIT, 83184290332000, 3, 24797, VG_EXIT_INTERRUPT, "challenge", 0, 0},
        {VG_EVENT_KVM_EXIT, 2925640967000, 23, 7289, VG_EXIT_INTERRUPT, "CPU 0/KVM", 0, 0},
        {VG_EVENT_KVM_EXIT, 95922997039000, 15, 18971, VG_NONE, "qemu-system-x86", 0, 0},
        {VG_EVENT_KVM_ENTRY, 1377662550637000, 39, 599500, VG_NONE, "fc_vcpu 1", 0, 0},
        {VG_EVENT_GPU, 44895256000, 4, 1706, VG_NONE, NULL, 0x135, 0},
        {VG_EVENT_GPU, 44895322000, 1, 11, VG_NONE, NULL, 0x135, 0},
        {VG_EVENT_GPU, 44897117000, 9, 0, VG_NONE, NULL, 0, 0},
        {VG_EVENT_GPU, 5630695055000, 0, 204, VG_NONE, NULL, 0, 29},
        {VG_EVENT_GPU, 370958786000, 2, 383, VG_NONE, NULL, 0, 44},
    };
    g_autofree char *path = reading_data_path("samples.txt");
    g_autofree char *text = NULL;
    assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    assert_int_equal(g_strv_length(lines), G_N_ELEMENTS(want) + 1);

    for (size_t i = 0; i < G_N_ELEMENTS(want); i++) {
        struct vg_event e = reading_one(lines[i]);
        assert_head(&e, want[i].type, want[i].ts_ns, want[i].cpu, want[i].tid, VG_NONE);
        if (want[i].comm)
            assert_string_equal(e.kvm.comm, want[i].comm);
        if (want[i].type == VG_EVENT_GPU) {
            assert_int_equal(e.gpu.id, want[i].id);
            assert_int_equal(e.gpu.context, want[i].context);
        }
        if (want[i].exit_class != VG_NONE)
            assert_int_equal(e.kvm.exit_class, want[i].exit_class);
    }
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_perf_columns),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_counter_clock),
        cmocka_unit_test(test_switch),
        cmocka_unit_test(test_switch_states),
        cmocka_unit_test(test_nasty_comms),
        cmocka_unit_test(test_nasty_recorders),
        cmocka_unit_test(test_wakeups),
        cmocka_unit_test(test_migrate_and_process),
        cmocka_unit_test(test_kvm),
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_names_like_lines),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_option_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
