/* SPDX-License-Identifier: Apache-2.0
 *
 * perf's rings, made by hand: what is in them comes out in the order of time, whole, and what is
 * missing is told. The formats are those of a 6.1 kernel, shortened.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "collectors/perf-merge.h"
#include "collectors/perf-ring.h"

#define PAGE_BYTES 4096
#define DATA_BYTES 4096
#define CPUS       3

static const char switch_format[] =
    "name: sched_switch\nID: 316\nformat:\n"
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
    "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
    "\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
    "\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n"
    "\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n"
    "\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n"
    "\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\n"
    "print fmt: \"field:nonsense;\toffset:1;\tsize:1;\"\n";

struct host {
    vg_perf_merge *merge;
    struct {
        _Alignas(8) char page[PAGE_BYTES];
        _Alignas(8) char data[DATA_BYTES];
    } rings[CPUS];
};

static struct perf_event_mmap_page *
page_of(struct host *h, int cpu)
{
    return (struct perf_event_mmap_page *)(void *)h->rings[cpu].page;
}

static int
setup(void **state)
{
    struct host *h = g_new0(struct host, 1);
    vg_perf_format *format = vg_perf_format_parse(switch_format, "here", NULL);

    assert_non_null(format);
    h->merge = vg_perf_merge_new();
    vg_perf_merge_add_format(h->merge, format);
    for (int i = 0; i < CPUS; i++)
        vg_perf_merge_add_cpu(h->merge, i, h->rings[i].page, PAGE_BYTES, DATA_BYTES);
    *state = h;
    return 0;
}

static int
teardown(void **state)
{
    struct host *h = *state;

    vg_perf_merge_free(h->merge);
    g_free(h);
    return 0;
}

/* ---- what the kernel does ---- */

static void
write_record(struct host *h, int cpu, const void *record, size_t size)
{
    struct perf_event_mmap_page *page = page_of(h, cpu);

    assert_true(page->data_head - page->data_tail + size <= DATA_BYTES);
    for (size_t i = 0; i < size; i++)
        h->rings[cpu].data[(page->data_head + i) % DATA_BYTES] = ((const char *)record)[i];
    page->data_head += size;
}

struct id {
    int32_t pid, tid;
    uint64_t time;
    uint32_t cpu, reserved;
};

struct raw_switch {
    uint16_t type;
    uint8_t flags, preempt_count;
    int32_t pid;
    char prev_comm[16];
    int32_t prev_pid, prev_prio;
    int64_t prev_state;
    char next_comm[16];
    int32_t next_pid;
} __attribute__((packed));

/* raw_size: of the 60 bytes that there are. */
static void
write_switch_of(struct host *h, int cpu, uint64_t time, int32_t prev, int64_t state, int32_t next,
                uint32_t raw_size)
{
    struct {
        struct perf_event_header header;
        struct id id;
        uint32_t size;
        struct raw_switch raw;
    } __attribute__((packed)) r = {
        .header = {PERF_RECORD_SAMPLE, 0,
                   (uint16_t)(sizeof(struct perf_event_header) + sizeof(struct id) + 4 + raw_size)},
        .id = {prev, prev, time, (uint32_t)cpu, 0},
        .size = raw_size,
        .raw = {.type = 316,
                .prev_comm = "CPU 0/KVM",
                .prev_pid = prev,
                .prev_state = state,
                .next_comm = "make",
                .next_pid = next},
    };
    write_record(h, cpu, &r, r.header.size);
}

static void
write_switch(struct host *h, int cpu, uint64_t time, int32_t prev, int64_t state, int32_t next)
{
    write_switch_of(h, cpu, time, prev, state, next, sizeof(struct raw_switch));
}

static void
write_lost(struct host *h, int cpu, uint64_t time, uint64_t count)
{
    const struct {
        struct perf_event_header header;
        uint64_t id, lost;
        struct id sample_id;
    } r = {{PERF_RECORD_LOST, 0, sizeof(r)}, 1, count, {0, 0, time, (uint32_t)cpu, 0}};

    write_record(h, cpu, &r, sizeof(r));
}

static void
write_arrival(struct host *h, int cpu, uint64_t time, int32_t prev, int32_t tid)
{
    const struct {
        struct perf_event_header header;
        int32_t pid, tid;
        struct id sample_id;
    } r = {{PERF_RECORD_SWITCH_CPU_WIDE, 0, sizeof(r)},
           prev,
           prev,
           {tid, tid, time, (uint32_t)cpu, 0}};

    write_record(h, cpu, &r, sizeof(r));
}

static struct vg_event
next_event(struct host *h)
{
    struct vg_event e = {0};

    assert_true(vg_perf_merge_next(h->merge, INT64_MAX, &e));
    return e;
}

static void
expect_end(struct host *h)
{
    struct vg_event e;

    assert_false(vg_perf_merge_next(h->merge, INT64_MAX, &e));
}

static void
expect_switch(struct host *h, int cpu, int64_t time, int32_t prev, int32_t next)
{
    struct vg_event e = next_event(h);

    assert_int_equal(e.type, VG_EVENT_SCHED_SWITCH);
    assert_int_equal(e.ts_ns, time);
    assert_int_equal(e.cpu, cpu);
    assert_int_equal(e.sched_switch.prev_tid, prev);
    assert_int_equal(e.sched_switch.next_tid, next);
}

static void
look(struct host *h)
{
    vg_perf_merge_look(h->merge, NULL, NULL);
}

/* ---- tests ---- */

static void
test_fields(void **state)
{
    struct host *h = *state;

    write_switch(h, 1, 500, 11, 0, 40);
    write_switch(h, 1, 600, 40, 1, 11);
    write_switch(h, 1, 700, 11, 0x20, 0);
    look(h);
    struct vg_event e = next_event(h);
    assert_int_equal(e.type, VG_EVENT_SCHED_SWITCH);
    assert_int_equal(e.tid, 11);
    assert_int_equal(e.pid, 11);
    assert_int_equal(e.sched_switch.prev_state, VG_PREV_RUNNABLE);
    assert_string_equal(e.sched_switch.prev_comm, "CPU 0/KVM");
    assert_string_equal(e.sched_switch.next_comm, "make");
    assert_int_equal(next_event(h).sched_switch.prev_state, VG_PREV_BLOCKED);
    assert_int_equal(next_event(h).sched_switch.prev_state, VG_PREV_EXITED);
    expect_end(h);
    assert_int_equal(vg_perf_merge_counts(h->merge)->switches, 3);
    assert_int_equal(vg_perf_merge_counts(h->merge)->gaps, 0);
}

/* CPUs that are out of step come out in order, up to a common moment; what is later stays. */
static void
test_order(void **state)
{
    struct host *h = *state;
    struct vg_event e;

    write_switch(h, 2, 100, 1, 1, 2);
    write_switch(h, 2, 900, 2, 1, 3);
    write_switch(h, 0, 300, 4, 1, 5);
    write_switch(h, 0, 400, 5, 1, 6);
    write_switch(h, 1, 200, 7, 1, 8);
    look(h);
    static const int64_t times[] = {100, 200, 300, 400};
    for (size_t i = 0; i < G_N_ELEMENTS(times); i++) {
        assert_true(vg_perf_merge_next(h->merge, 500, &e));
        assert_int_equal(e.ts_ns, times[i]);
    }
    assert_false(vg_perf_merge_next(h->merge, 500, &e));
    write_switch(h, 1, 600, 8, 1, 9);
    assert_false(vg_perf_merge_next(h->merge, 500, &e));
    look(h);
    expect_switch(h, 1, 600, 8, 9);
    expect_switch(h, 2, 900, 2, 3);
    /* Who comes too late is not before what was handed out. */
    write_switch(h, 0, 700, 6, 1, 5);
    look(h);
    expect_switch(h, 0, 900, 6, 5);
    expect_end(h);
}

/* Round and round: records of 96 bytes do not fit evenly into 4096. */
static void
test_around_the_end(void **state)
{
    struct host *h = *state;
    int32_t n = 0;

    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 30; i++)
            write_switch(h, 0, (uint64_t)(round * 30 + i), 1000 + round * 30 + i, 1,
                         1001 + round * 30 + i);
        look(h);
        for (int i = 0; i < 30; i++, n++)
            expect_switch(h, 0, n, 1000 + n, 1001 + n);
        expect_end(h);
        vg_perf_merge_release(h->merge);
        assert_int_equal(page_of(h, 0)->data_tail, page_of(h, 0)->data_head);
    }
    assert_int_equal(vg_perf_merge_counts(h->merge)->records, 6000);
    assert_int_equal(vg_perf_merge_counts(h->merge)->rejected, 0);
    assert_int_equal(vg_perf_merge_counts(h->merge)->gaps, 0);
}

/* The loss lies between the records around it, and is told in its place. */
static void
test_loss(void **state)
{
    struct host *h = *state;

    write_switch(h, 0, 100, 1, 1, 2);
    write_lost(h, 0, 400, 7);
    write_switch(h, 0, 400, 5, 1, 6);
    write_switch(h, 1, 200, 3, 1, 4);
    look(h);
    expect_switch(h, 0, 100, 1, 2);
    struct vg_event e = next_event(h);
    assert_int_equal(e.type, VG_EVENT_LOST);
    assert_int_equal(e.cpu, 0);
    assert_int_equal(e.ts_ns, 100);
    assert_int_equal(e.lost.end_ns, 400);
    assert_int_equal(e.lost.events, 7);
    expect_switch(h, 1, 200, 3, 4);
    expect_switch(h, 0, 400, 5, 6);
    /* It is no gap that nobody told of. */
    assert_int_equal(vg_perf_merge_counts(h->merge)->gaps, 0);
}

static uint64_t
five_lost(void *data, int32_t cpu)
{
    assert_int_equal(cpu, 0);
    ++*(int *)data;
    return 5;
}

/* A full ring cannot take the record of what was lost: it is asked for, and told once. */
static void
test_loss_of_a_full_ring(void **state)
{
    struct host *h = *state;
    int asked = 0;
    uint64_t n = 0;

    for (; (n + 1) * 96 <= DATA_BYTES; n++)
        write_switch(h, 0, n, 1, 1, 1);
    vg_perf_merge_look(h->merge, five_lost, &asked);
    assert_int_equal(asked, 1);
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(next_event(h).type, VG_EVENT_SCHED_SWITCH);
    struct vg_event e = next_event(h);
    assert_int_equal(e.type, VG_EVENT_LOST);
    assert_int_equal(e.lost.events, 5);
    expect_end(h);
    vg_perf_merge_release(h->merge);
    write_lost(h, 0, 1000, 6); /* one more by then */
    write_switch(h, 0, 1000, 1, 1, 2);
    look(h);
    e = next_event(h);
    assert_int_equal(e.type, VG_EVENT_LOST);
    assert_int_equal(e.lost.events, 1);
    assert_int_equal(e.lost.end_ns, 1000);
    expect_switch(h, 0, 1000, 1, 2);
    expect_end(h);
}

/* A kernel that does not record what its idle thread does: who comes tells. */
static void
test_gap(void **state)
{
    struct host *h = *state;

    write_switch(h, 0, 100, 11, 1, 0);
    write_arrival(h, 0, 101, 11, 0);
    write_arrival(h, 0, 500, 0, 12); /* nothing told of this */
    write_switch(h, 0, 600, 12, 0, 13);
    write_arrival(h, 0, 601, 12, 13);
    look(h);
    expect_switch(h, 0, 100, 11, 0);
    expect_switch(h, 0, 500, 0, 12);
    expect_switch(h, 0, 600, 12, 13);
    expect_end(h);
    assert_int_equal(vg_perf_merge_counts(h->merge)->gaps, 1);
    /* Without arrivals the same is seen, too late. */
    write_switch(h, 0, 700, 13, 1, 0);
    write_switch(h, 0, 900, 14, 1, 0);
    look(h);
    expect_switch(h, 0, 700, 13, 0);
    expect_switch(h, 0, 900, 14, 0);
    assert_int_equal(vg_perf_merge_counts(h->merge)->gaps, 2);
}

static void
test_damage(void **state)
{
    static const struct perf_event_header bad[] = {
        {PERF_RECORD_SAMPLE, 0, 0},    {PERF_RECORD_SAMPLE, 0, 7},     {PERF_RECORD_SAMPLE, 0, 8},
        {PERF_RECORD_SAMPLE, 0, 4096}, {PERF_RECORD_SAMPLE, 0, 65528},
    };
    struct host *h = *state;
    uint64_t rejected = 0;

    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        write_switch(h, 0, 100 + i, 1, 1, 2);
        write_record(h, 0, &bad[i], sizeof(bad[i]));
        look(h);
        assert_int_equal(next_event(h).type, VG_EVENT_SCHED_SWITCH);
        if (bad[i].size != 8) /* which is a whole record, of nothing */
            assert_int_equal(next_event(h).type, VG_EVENT_LOST);
        expect_end(h);
        assert_int_equal(vg_perf_merge_counts(h->merge)->rejected, ++rejected);
        vg_perf_merge_release(h->merge);
    }
    /* Raw data that ends before what must be in it, and a thread that cannot be. */
    write_switch_of(h, 0, 200, 1, 1, 2, 52);
    write_switch(h, 0, 201, VG_TID_LIMIT + 1, 1, 2);
    write_switch(h, 0, 202, 1, 1, 3);
    look(h);
    expect_switch(h, 0, 202, 1, 3);
    assert_int_equal(vg_perf_merge_counts(h->merge)->rejected, rejected + 2);
}

static void
test_cpu_goes(void **state)
{
    struct host *h = *state;

    write_switch(h, 0, 100, 1, 1, 2);
    write_switch(h, 1, 200, 1, 1, 2);
    look(h);
    vg_perf_merge_remove_cpu(h->merge, 0);
    expect_switch(h, 1, 200, 1, 2);
    expect_end(h);
}

/* ---- formats ---- */

static void
test_format_of_strings(void **state)
{
    static const char text[] =
        "name: sched_process_exec\nID: 7\nformat:\n"
        "\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n"
        "\tfield:s8 small;\toffset:12;\tsize:1;\tsigned:1;\n"
        "\tfield:u16 middle;\toffset:14;\tsize:2;\tsigned:0;\n"
        "\tfield:unsigned long many[4];\toffset:16;\tsize:32;\tsigned:0;\n";
    g_autoptr(vg_perf_format) format = vg_perf_format_parse(text, "here", NULL);
    char raw[24] = {7};
    char buf[8];
    int64_t value;

    (void)state;
    const uint32_t place = 16 | 5 << 16;
    memcpy(raw + 8, &place, sizeof(place));
    raw[12] = -3;
    raw[14] = raw[15] = (char)0xff;
    memcpy(raw + 16, "/bin", 5);
    struct vg_perf_record r = {format, raw, sizeof(raw), 1, 2};
    int filename = vg_perf_fields.find(format, VG_SCOPE_PAYLOAD, "filename");
    assert_true(vg_perf_fields.get_str(&r, filename, buf, sizeof(buf)));
    assert_memory_equal(buf, "/bin\0\0\0", 8);
    assert_true(vg_perf_fields.get_str(&r, filename, buf, 3));
    assert_string_equal(buf, "/b");
    assert_false(vg_perf_fields.get_int(&r, filename, &value));
    assert_true(
        vg_perf_fields.get_int(&r, vg_perf_fields.find(format, VG_SCOPE_PAYLOAD, "small"), &value));
    assert_int_equal(value, -3);
    int middle = vg_perf_fields.find(format, VG_SCOPE_PAYLOAD, "middle");
    assert_true(vg_perf_fields.get_int(&r, middle, &value));
    assert_int_equal(value, 0xffff);
    assert_int_equal(vg_perf_fields.find(format, VG_SCOPE_PAYLOAD, "many"), -1);
    assert_true(
        vg_perf_fields.get_int(&r, vg_perf_fields.find(format, VG_SCOPE_CONTEXT, "tid"), &value));
    assert_int_equal(value, 2);
    /* Cut off. */
    r.size = 20;
    assert_false(vg_perf_fields.get_str(&r, filename, buf, sizeof(buf)));
    r.size = 15;
    assert_false(vg_perf_fields.get_int(&r, middle, &value));
}

static void
test_bad_formats(void **state)
{
    static const char *const texts[] = {
        "",
        "ID: 7\nformat:\n\tfield:int a;\toffset:0;\tsize:4;\tsigned:1;\n",
        "name: a\nformat:\n\tfield:int a;\toffset:0;\tsize:4;\tsigned:1;\n",
        "name: a\nID: 65536\nformat:\n\tfield:int a;\toffset:0;\tsize:4;\tsigned:1;\n",
        "name: a\nID: 7\nformat:\n\tfield:int a;\toffset:65536;\tsize:4;\tsigned:1;\n",
        "name: a\nID: 7\nformat:\n\tfield:int a;\toffset:0;\tsize:3;\tsigned:1;\n",
        "name: a\nID: 7\nformat:\n\tfield:int a;\toffset:0\n",
        "name: a\nID: 7\nformat:\n\tfield:;\toffset:0;\tsize:4;\tsigned:1;\n",
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autoptr(GError) err = NULL;
        assert_null(vg_perf_format_parse(texts[i], "some/format", &err));
        assert_true(g_error_matches(err, VG_ERROR, VG_E_INVALID));
        assert_non_null(strstr(err->message, "'some/format'"));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fields, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_around_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_loss, setup, teardown),
        cmocka_unit_test_setup_teardown(test_loss_of_a_full_ring, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gap, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cpu_goes, setup, teardown),
        cmocka_unit_test(test_format_of_strings),
        cmocka_unit_test(test_bad_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
