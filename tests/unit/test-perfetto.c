/* SPDX-License-Identifier: Apache-2.0
 *
 * Perfetto traces: the bytes of a small one, which are worked out by hand from the .proto files;
 * what the rules of tracks make of careless callers; files that cannot be written. Whole traces are
 * given to the independent reader in tests/lib/perfetto.py and to protoc, where there is one.
 */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <glib.h>
#include <glib/gstdio.h>

#include "base/error.h"
#include "tests/unit/chance.h"
#include "trace/perfetto-lanes.h"
#include "trace/perfetto-wire.h"

#define PYTHON      "/usr/bin/python3"
#define MANY_EVENTS 3000

static char *dir;
static char *path;

static int
setup(void **state)
{
    (void)state;
    dir = g_dir_make_tmp("vg-test-XXXXXX", NULL);
    path = dir ? g_build_filename(dir, "trace.pftrace", NULL) : NULL;
    return path ? 0 : -1;
}

static unsigned int
count_files(void)
{
    unsigned int n = 0;
    GDir *listing = g_dir_open(dir, 0, NULL);

    while (listing && g_dir_read_name(listing))
        n++;
    if (listing)
        g_dir_close(listing);
    return n;
}

static int
teardown(void **state)
{
    (void)state;
    g_unlink(path);
    int status = g_rmdir(dir);
    g_free(path);
    g_free(dir);
    return status;
}

static vg_perfetto *
open_trace(int64_t clock_offset_ns)
{
    g_autoptr(GError) error = NULL;
    vg_perfetto *trace = vg_perfetto_open(path, clock_offset_ns, &error);

    assert_null(error);
    assert_non_null(trace);
    return trace;
}

static struct vg_perfetto_stats
close_trace(vg_perfetto *trace, int64_t end_ns)
{
    g_autoptr(GError) error = NULL;
    int status = vg_perfetto_close(trace, end_ns, &error);
    struct vg_perfetto_stats stats = vg_perfetto_stats(trace);

    assert_null(error);
    assert_int_equal(status, 0);
    vg_perfetto_free(trace);
    return stats;
}

static char *
contents(size_t *ret_len)
{
    char *text = NULL;

    assert_true(g_file_get_contents(path, &text, ret_len, NULL));
    return text;
}

static bool
holds(const char *bytes, size_t n)
{
    size_t len;
    g_autofree char *text = contents(&len);

    return memmem(text, len, bytes, n);
}

/* The independent reader has no complaint, and prints these counts. */
static void
assert_reads(const char *expected)
{
    const char *srcdir = getenv("VG_SRCDIR");
    g_autofree char *script =
        g_build_filename(srcdir ? srcdir : ".", "tests/lib/perfetto.py", NULL);
    char *argv[] = {(char *)PYTHON, script, path, NULL};
    g_autofree char *out = NULL;
    g_autofree char *err = NULL;
    int status = -1;

    if (!g_file_test(PYTHON, G_FILE_TEST_IS_EXECUTABLE))
        return;
    assert_true(g_spawn_sync(NULL, argv, NULL, 0, NULL, NULL, &out, &err, &status, NULL));
    assert_string_equal(err, "");
    assert_int_equal(status, 0);
    assert_string_equal(out, expected);
}

static void
test_wire(void **state)
{
    (void)state;
    static const struct {
        uint64_t value;
        size_t n;
        uint8_t bytes[VG_WIRE_VARINT_MAX];
    } cases[] = {
        {0, 1, {0}},
        {127, 1, {127}},
        {128, 2, {0x80, 1}},
        {150, 2, {0x96, 1}}, /* the example of the protocol's own documentation */
        {16383, 2, {0xff, 0x7f}},
        {16384, 3, {0x80, 0x80, 1}},
        {UINT64_MAX, 10, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        uint8_t bytes[VG_WIRE_VARINT_MAX];
        assert_int_equal(vg_wire_varint(cases[i].value, bytes), cases[i].n);
        assert_memory_equal(bytes, cases[i].bytes, cases[i].n);
    }
}

static void
test_bytes(void **state)
{
    (void)state;
    static const char expected[] =
        /* sequence 1, cleared; defaults: clock 3; first packet */
        "\x0a\x0d\x50\x01\x68\x01\xda\x03\x03\xd0\x03\x03\xb8\x05\x01"
        /* sequence 1; track 1 "vm", process 7 "vm" */
        "\x0a\x13\x50\x01\xe2\x03\x0e\x08\x01\x12\x02vm\x1a\x06\x08\x07\x32\x02vm"
        /* clocks: 3 is 300; the trace is on clock 3 */
        "\x0a\x0d\x32\x09\x0a\x05\x08\x03\x10\xac\x02\x10\x03\x50\x01"
        /* at 300: begin on track 1, name 1, category 1, flow 1 */
        "\x0a\x2f\x40\xac\x02\x50\x01\x5a\x12\x48\x01\x58\x01\x50\x01\x18\x01"
        "\xf9\x02\x01\x00\x00\x00\x00\x00\x00\x00"
        /* names: event 1 "run", category 1 "gpu" */
        "\x62\x12\x12\x07\x08\x01\x12\x03run\x0a\x07\x08\x01\x12\x03gpu\x68\x02"
        /* at 400: end on track 1 */
        "\x0a\x0d\x40\x90\x03\x50\x01\x5a\x04\x48\x02\x58\x01\x68\x02";
    vg_perfetto *trace = open_trace(0);
    uint64_t vm = vg_perfetto_track_process(trace, "vm", 7);
    size_t len;

    vg_perfetto_slice_begin(trace, vm, 300, "run", "gpu");
    vg_perfetto_add_flow(trace, 1);
    vg_perfetto_slice_end(trace, vm, 400);
    close_trace(trace, 1000);
    g_autofree char *text = contents(&len);
    assert_int_equal(len, sizeof(expected) - 1);
    assert_memory_equal(text, expected, len);
}

static void
test_clock_offset(void **state)
{
    (void)state;
    static const struct {
        int64_t offset_ns;
        const char *clocks; /* what both clocks are at 300 */
        size_t n;
    } cases[] = {
        {1000, "\x0a\x05\x08\x03\x10\xac\x02\x0a\x05\x08\x01\x10\x94\x0a\x10\x03", 16},
        {-300, "\x0a\x05\x08\x03\x10\xac\x02\x0a\x04\x08\x01\x10\x00\x10\x03", 15},
        {-301, "\x0a\x05\x08\x03\x10\xac\x02\x10\x03", 9}, /* no time of day before 1970 */
        {INT64_MAX, "\x0a\x05\x08\x03\x10\xac\x02\x10\x03", 9},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        vg_perfetto *trace = open_trace(cases[i].offset_ns);
        uint64_t track = vg_perfetto_track(trace, 0, "track");
        vg_perfetto_slice_begin(trace, track, 300, "now", NULL);
        close_trace(trace, 300);
        assert_true(holds(cases[i].clocks, cases[i].n));
    }
}

static void
test_every_kind(void **state)
{
    (void)state;
    vg_perfetto *trace = open_trace(1700000000000000000);
    uint64_t vm = vg_perfetto_track_process(trace, "vm-1", 4711);
    uint64_t vcpu = vg_perfetto_track_thread(trace, vm, "CPU 0/KVM", 4711, 4712);
    uint64_t load = vg_perfetto_track_counter(trace, vm, "queue", "requests");
    uint64_t share = vg_perfetto_track_counter(trace, 0, "share", NULL);
    uint64_t engine = vg_perfetto_track(trace, 0, "rcs0");

    vg_perfetto_counter_int(trace, load, 10, -3);
    vg_perfetto_counter_double(trace, share, 10, 0.25);
    vg_perfetto_slice_begin(trace, vcpu, 20, "submit", "gpu");
    vg_perfetto_add_flow(trace, UINT64_MAX);
    vg_perfetto_add_int(trace, "seqno", INT64_MIN);
    vg_perfetto_add_text(trace, "context", "J\xc3\xb6rg \xff");
    vg_perfetto_slice_end(trace, vcpu, 25);
    vg_perfetto_slice_begin(trace, engine, 30, "submit", "gpu");
    vg_perfetto_add_flow_end(trace, UINT64_MAX);
    vg_perfetto_slice_begin(trace, engine, 35, "reset", NULL);
    vg_perfetto_add_int(trace, "seqno", 1);
    vg_perfetto_slice_end(trace, engine, 35);
    vg_perfetto_slice_end(trace, engine, 40);
    struct vg_perfetto_stats stats = close_trace(trace, 40);
    assert_int_equal(stats.events, 8);
    assert_int_equal(stats.clamped + stats.no_begin + stats.no_track + stats.closed, 0);
    /* head, 5 tracks, clocks, 8 events */
    assert_reads("packets: 15\ntracks: 5\nslices: 3\ninstants: 0\nvalues: 2\nflows: 1\n"
                 "open flows: 0\n");
    assert_true(holds("\x12\x06submit", 8));
    assert_true(holds("J\xc3\xb6rg \xef\xbf\xbd", 9));
    /* -3 and 0.25 */
    assert_true(holds("\xf0\x01\xfd\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12));
    assert_true(holds("\xe1\x02\x00\x00\x00\x00\x00\x00\xd0\x3f", 10));
}

static void
test_rules_of_tracks(void **state)
{
    (void)state;
    vg_perfetto *trace = open_trace(0);
    uint64_t one = vg_perfetto_track(trace, 0, "one");
    uint64_t two = vg_perfetto_track(trace, one, "two");

    vg_perfetto_slice_end(trace, one, 5); /* of nothing */
    vg_perfetto_slice_begin(trace, one, 100, "a", NULL);
    vg_perfetto_slice_begin(trace, one, 90, "b", NULL);     /* before a: at 100 */
    vg_perfetto_slice_begin(trace, two, 50, "early", NULL); /* another track, another time */
    vg_perfetto_slice_begin(trace, 0, 60, "nowhere", NULL);
    vg_perfetto_add_int(trace, "lost", 1); /* of an event that is not there */
    vg_perfetto_slice_end(trace, 0, 60);
    vg_perfetto_slice_end(trace, one, 200);
    vg_perfetto_add_int(trace, "lost", 1);                    /* an end has nothing of its own */
    vg_perfetto_slice_begin(trace, two, -7, "c", NULL);       /* at 50 */
    struct vg_perfetto_stats stats = close_trace(trace, 150); /* a at 200, c and early at 150 */
    assert_int_equal(stats.clamped, 2);
    assert_int_equal(stats.no_begin, 1);
    assert_int_equal(stats.no_track, 2);
    assert_int_equal(stats.closed, 3);
    assert_int_equal(stats.events, 8);
    assert_reads("packets: 12\ntracks: 2\nslices: 4\ninstants: 0\nvalues: 0\nflows: 0\n"
                 "open flows: 0\n");
    assert_false(holds("lost", 4));
    assert_false(holds("nowhere", 7));
}

static void
test_names_at_the_limit(void **state)
{
    (void)state;
    g_autofree char *longest = g_strnfill(VG_PERFETTO_TEXT_MAX, 'x');
    g_autofree char *longer = g_strdup_printf("%s\xc3\xa4", longest);
    vg_perfetto *trace = open_trace(0);
    uint64_t track = vg_perfetto_track(trace, 0, longer);

    /* The last two are written as they are, each time. */
    for (int i = 0; i < VG_PERFETTO_NAMES_MAX + 2; i++) {
        g_autofree char *name = g_strdup_printf("name-%d", i);
        if (i > 0)
            vg_perfetto_slice_end(trace, track, i);
        vg_perfetto_slice_begin(trace, track, i, name, name);
        vg_perfetto_add_int(trace, name, i);
    }
    longer[VG_PERFETTO_TEXT_MAX - 1] = '\xc3';
    longer[VG_PERFETTO_TEXT_MAX] = '\xa4';
    longer[VG_PERFETTO_TEXT_MAX + 1] = '\0';
    vg_perfetto_add_text(trace, "cut", longer);
    close_trace(trace, VG_PERFETTO_NAMES_MAX);
    /* head, track, clocks, and begin and end of each */
    assert_reads("packets: 8199\ntracks: 1\nslices: 4098\ninstants: 0\nvalues: 0\nflows: 0\n"
                 "open flows: 0\n");
    /* The event's own name (23), its category (22) and an annotation's name (10). */
    assert_true(holds("\xba\x01\x09name-4097", 12));
    assert_true(holds("\xb2\x01\x09name-4097", 12));
    assert_true(holds("\x52\x09name-4097", 11));
    assert_false(holds("\xba\x01\x09name-4095", 12));
    assert_true(holds(longest, VG_PERFETTO_TEXT_MAX));
    assert_false(holds("x\xc3", 2));
}

static void
test_lanes(void **state)
{
    (void)state;
    vg_perfetto *trace = open_trace(0);
    g_autoptr(vg_perfetto_lanes) lanes = vg_perfetto_lanes_new(trace, 0, "waiting");
    uint64_t first = vg_perfetto_lanes_place(lanes, 10, 20);
    uint64_t second = vg_perfetto_lanes_place(lanes, 15, 30);

    assert_int_not_equal(first, second);
    assert_int_equal(vg_perfetto_lanes_place(lanes, 20, 25), first);
    assert_int_equal(vg_perfetto_lanes_place(lanes, 30, 30), first); /* the lowest */
    assert_int_equal(vg_perfetto_lanes_take(lanes, 30), first);
    assert_int_equal(vg_perfetto_lanes_take(lanes, 40), second);
    vg_perfetto_lanes_give_back(lanes, first, 50);
    vg_perfetto_lanes_give_back(lanes, 0, 1000);
    uint64_t third = vg_perfetto_lanes_place(lanes, 45, 60); /* the first is busy up to 50 */
    assert_true(third != first && third != second);
    assert_int_equal(vg_perfetto_lanes_take(lanes, 50), first);
    assert_int_equal(vg_perfetto_lanes_count(lanes), 3);
    while (vg_perfetto_lanes_count(lanes) < VG_PERFETTO_LANES_MAX)
        assert_int_not_equal(vg_perfetto_lanes_take(lanes, 50), 0);
    assert_int_equal(vg_perfetto_lanes_take(lanes, 50), 0);
    assert_int_equal(vg_perfetto_lanes_place(lanes, 60, 70), third);
    close_trace(trace, 60);
}

/* What a run of two VMs on one engine looks like, in calls that are not always right. */
static void
test_many(void **state)
{
    (void)state;
    GRand *rand = chance_rand();
    vg_perfetto *trace = open_trace(1700000000000000000);
    uint64_t engine = vg_perfetto_track(trace, 0, "rcs0");
    uint64_t queue = vg_perfetto_track_counter(trace, engine, "queue", "requests");
    g_autoptr(vg_perfetto_lanes) lanes = vg_perfetto_lanes_new(trace, engine, "waiting");
    g_autofree char *expected = NULL;
    int64_t free_ns = 0;

    for (uint64_t i = 0; i < MANY_EVENTS; i++) {
        int64_t queued = (int64_t)i * 50000 + g_rand_int_range(rand, 0, 300000);
        int64_t begin = MAX(queued, free_ns);
        uint64_t lane = vg_perfetto_lanes_place(lanes, queued, begin);
        vg_perfetto_slice_begin(trace, lane, queued, "waiting", "gpu");
        vg_perfetto_add_flow(trace, i);
        vg_perfetto_add_int(trace, "seqno", (int64_t)i);
        vg_perfetto_slice_end(trace, lane, begin);
        vg_perfetto_slice_begin(trace, engine, begin, i % 2 ? "vm-a" : "vm-b", "gpu");
        vg_perfetto_add_flow_end(trace, i);
        free_ns = begin + g_rand_int_range(rand, 0, 80000);
        vg_perfetto_slice_end(trace, engine, free_ns);
        vg_perfetto_counter_int(trace, queue, queued, g_rand_int_range(rand, 0, 9));
        if (g_rand_boolean(rand))
            vg_perfetto_slice_end(trace, engine, free_ns);
    }
    g_rand_free(rand);
    unsigned int n_lanes = vg_perfetto_lanes_count(lanes);
    struct vg_perfetto_stats stats = close_trace(trace, free_ns);
    assert_int_equal(stats.no_track + stats.closed, 0);
    assert_int_equal(stats.events, 5 * MANY_EVENTS);
    /* head, clocks, tracks, events */
    expected = g_strdup_printf("packets: %u\ntracks: %u\nslices: %d\ninstants: 0\nvalues: %d\n"
                               "flows: %d\nopen flows: 0\n",
                               2 + 2 + n_lanes + 5 * MANY_EVENTS, 2 + n_lanes, 2 * MANY_EVENTS,
                               MANY_EVENTS, MANY_EVENTS);
    assert_reads(expected);
}

static void
test_protoc(void **state)
{
    (void)state;
    g_autofree char *command = g_strdup_printf("protoc --decode_raw < '%s' 2>&1", path);
    char *argv[] = {(char *)"/bin/sh", (char *)"-c", command, NULL};
    g_autofree char *protoc = g_find_program_in_path("protoc");
    g_autofree char *out = NULL;
    int status = -1;

    if (!protoc) {
        print_message("protoc is not installed\n");
        skip();
    }
    vg_perfetto *trace = open_trace(0);
    uint64_t track = vg_perfetto_track(trace, 0, "track");
    vg_perfetto_slice_begin(trace, track, 300, "run", NULL);
    vg_perfetto_add_flow_end(trace, 5);
    close_trace(trace, 400);
    assert_true(g_spawn_sync(NULL, argv, NULL, 0, NULL, NULL, &out, NULL, &status, NULL));
    assert_int_equal(status, 0);
    assert_non_null(strstr(out, "1 {\n"
                                "  8: 300\n"
                                "  10: 1\n"
                                "  11 {\n"
                                "    9: 1\n"
                                "    11: 1\n"
                                "    10: 1\n"
                                "    48: 0x0000000000000005\n"
                                "  }\n"
                                "  12 {\n"
                                "    2 {\n"
                                "      1: 1\n"
                                "      2: \"run\"\n"
                                "    }\n"
                                "  }\n"
                                "  13: 2\n"
                                "}\n"));
}

static void
test_replaces_only_when_complete(void **state)
{
    (void)state;
    struct stat st;
    mode_t mask = umask(0);

    umask(mask);
    assert_true(g_file_set_contents(path, "old", -1, NULL));
    vg_perfetto *trace = open_trace(0);
    uint64_t track = vg_perfetto_track(trace, 0, "track");
    vg_perfetto_slice_begin(trace, track, 1, "now", NULL);
    assert_true(holds("old", 3));
    vg_perfetto_free(trace);
    assert_true(holds("old", 3));
    assert_int_equal(count_files(), 1);

    close_trace(open_trace(0), 0);
    assert_false(holds("old", 3));
    assert_int_equal(count_files(), 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666 & ~mask);
}

static void
test_bad_paths(void **state)
{
    (void)state;
    g_autofree char *below = g_build_filename(dir, "missing", "trace", NULL);
    const char *const paths[] = {dir, below, "/dev/null"};

    for (size_t i = 0; i < G_N_ELEMENTS(paths); i++) {
        g_autoptr(GError) error = NULL;
        assert_null(vg_perfetto_open(paths[i], 0, &error));
        assert_non_null(strstr(error->message, paths[i]));
        assert_null(vg_perfetto_open(paths[i], 0, NULL));
    }
    assert_int_equal(count_files(), 0);
}

/* A limit on the size of files stands for a disk that is full. */
static void
test_full_disk(void **state)
{
    (void)state;
    static const struct rlimit small = {100000, RLIM_INFINITY};
    static const int64_t counts[] = {10000, 3700}; /* fails on the way; while closing */
    struct rlimit before;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (size_t i = 0; i < G_N_ELEMENTS(counts); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(vg_perfetto) trace = open_trace(0);
        uint64_t track = vg_perfetto_track_counter(trace, 0, "track", NULL);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        for (int64_t t = 0; t < counts[i]; t++)
            vg_perfetto_counter_double(trace, track, t * 1000000000, 0.5);
        assert_int_equal(vg_perfetto_failed(trace), i == 0);
        int status = vg_perfetto_close(trace, 0, &error);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(status, -1);
        assert_true(g_error_matches(error, VG_ERROR, VG_E_IO));
        assert_non_null(strstr(error->message, path));
        assert_int_equal(count_files(), 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wire),
        cmocka_unit_test_setup_teardown(test_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clock_offset, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_kind, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rules_of_tracks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_at_the_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lanes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many, setup, teardown),
        cmocka_unit_test_setup_teardown(test_protoc, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replaces_only_when_complete, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_paths, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
    };
    return cmocka_run_group_tests_name("perfetto", tests, NULL, NULL);
}
