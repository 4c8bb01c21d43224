/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces that are written: read back by our reader and by the babeltrace2 program, refused where
 * they could not be, and gone without a rest where writing fails.
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <glib/gstdio.h>
#include <sched.h>

#include "base/error.h"
#include "tests/unit/used-bytes.h"
#include "trace/ctf-write.h"
#include "trace/open.h"
#include "trace/recording.h"

#define T0    INT64_C(5000000000)
#define EPOCH INT64_C(1700000000123456789)
#define UUID  "b0c6e1d4-77a2-4a5e-8d3c-000000000001"
#define NASTY                                                                                      \
 "it's \"\\x41\" \\ \\\\n\n\t\a\x01"                                                               \
 "1\xc3\xa9"                                                                                       \
 "a1 \xe6\x97\xa5"                                                                                 \
 "f ?\?/* $(x)"
#define SKIPPED 77

enum { SWITCH, WAKEUP, EXTREME, N_CLASSES };

static const struct vg_ctf_field switch_fields[] = {
    {"prev_comm", VG_CTF_STRING}, {"prev_tid", VG_CTF_S32},
    {"prev_prio", VG_CTF_S32},    {"prev_state", VG_CTF_S64},
    {"next_comm", VG_CTF_STRING}, {"next_tid", VG_CTF_S32},
    {"next_prio", VG_CTF_S32},    {NULL, 0},
};

static const struct vg_ctf_field wakeup_fields[] = {
    {"comm", VG_CTF_STRING},
    {"tid", VG_CTF_S32},
    {"target_cpu", VG_CTF_S32},
    {NULL, 0},
};

/* Named as nothing is in C. */
static const struct vg_ctf_field extreme_fields[] = {
    {"event", VG_CTF_U8}, {"_u16", VG_CTF_U16},      {"u32", VG_CTF_U32},       {"u64", VG_CTF_U64},
    {"s32", VG_CTF_S32},  {"timestamp", VG_CTF_S64}, {"string", VG_CTF_STRING}, {NULL, 0},
};

static const struct vg_ctf_class classes[N_CLASSES] = {
    [SWITCH] = {"sched_switch", switch_fields},
    [WAKEUP] = {"sched_wakeup", wakeup_fields},
    [EXTREME] = {"vgpud:\"extreme\"", extreme_fields},
};

/* ---- what is written ---- */

static void
empty_dir(const char *path)
{
    GDir *dir = g_dir_open(path, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *entry = g_build_filename(path, name, NULL);
        empty_dir(entry);
        g_remove(entry);
    }
    if (dir)
        g_dir_close(dir);
}

struct script {
    const struct vg_ctf_record *records;
    size_t n, at;
    bool fails; /* in the end */
};

static int
next_of_script(void *data, struct vg_ctf_record *ret, GError **err)
{
    struct script *script = data;

    if (script->at == script->n)
        return script->fails ? vg_error(err, VG_E_TIMEOUT, "enough") : 0;
    *ret = script->records[script->at++];
    return 1;
}

static struct vg_ctf_record
switch_at(int64_t ts_ns, int32_t prev, int32_t next)
{
    return (struct vg_ctf_record){
        .class = SWITCH,
        .ts_ns = ts_ns,
        .tid = prev,
        .pid = 100,
        .procname = "CPU 0/KVM",
        .values = {{.text = "CPU 0/KVM"},
                   {.s = prev},
                   {.s = 20},
                   {.s = 0},
                   {.text = "other"},
                   {.s = next},
                   {.s = 20}},
    };
}

static const struct vg_ctf_env usual_env[] = {{"hostname", "here"}, {"tracer_name", "vgpuctl"}};

static struct vg_ctf_plan
plan_of(struct script *script)
{
    return (struct vg_ctf_plan){
        .classes = classes,
        .n_classes = N_CLASSES,
        .env = usual_env,
        .n_env = G_N_ELEMENTS(usual_env),
        .clock_offset_ns = EPOCH,
        .next = next_of_script,
        .data = script,
    };
}

/* Any number of switches between two threads, a microsecond apart. */
struct endless {
    uint64_t n, at;
    char *text; /* in each, unless NULL */
    size_t used_early, used_late;
    const char *removes; /* a directory, half-way, unless NULL */
};

static int
next_of_endless(void *data, struct vg_ctf_record *ret, GError **err)
{
    struct endless *endless = data;

    (void)err;
    if (endless->at == endless->n / 10)
        endless->used_early = used_bytes();
    if (endless->removes && endless->at == endless->n / 2) {
        empty_dir(endless->removes);
        g_rmdir(endless->removes);
    }
    if (endless->at == endless->n) {
        endless->used_late = used_bytes();
        return 0;
    }
    *ret = switch_at(T0 + (int64_t)endless->at * 1000, 101 + (int32_t)(endless->at % 2),
                     102 - (int32_t)(endless->at % 2));
    if (endless->text)
        ret->values[4].text = endless->text;
    endless->at++;
    return 1;
}

static struct vg_ctf_plan
plan_of_endless(struct endless *endless)
{
    struct vg_ctf_plan plan = plan_of(NULL);

    plan.next = next_of_endless;
    plan.data = endless;
    return plan;
}

/* ---- where ---- */

struct place {
    char *root;
    char *dir; /* in it, not there yet */
};

static int
setup(void **state)
{
    struct place *place = g_new0(struct place, 1);

    place->root = g_dir_make_tmp("vgpud-test-XXXXXX", NULL);
    place->dir = g_build_filename(place->root, "trace", NULL);
    *state = place;
    return place->root ? 0 : -1;
}

static int
teardown(void **state)
{
    struct place *place = *state;

    empty_dir(place->root);
    g_rmdir(place->root);
    g_free(place->root);
    g_free(place->dir);
    g_free(place);
    return 0;
}

static unsigned int
count_entries(const char *path)
{
    GDir *dir = g_dir_open(path, 0, NULL);
    unsigned int n = 0;

    while (dir && g_dir_read_name(dir))
        n++;
    if (dir)
        g_dir_close(dir);
    return n;
}

/* ---- what comes back ---- */

static vg_recording *
open_one(const char *dir)
{
    g_autoptr(GPtrArray) recordings = vg_recordings_open(&dir, 1, NULL, NULL);

    assert_non_null(recordings);
    assert_int_equal(recordings->len, 1);
    return g_ptr_array_steal_index(recordings, 0);
}

/* All events; the recording must have no problem. */
static GArray *
read_all(vg_recording *recording)
{
    GArray *events = g_array_new(FALSE, FALSE, sizeof(struct vg_event));
    struct vg_event event;

    while (vg_recording_next(recording, &event, NULL) == 1)
        g_array_append_val(events, event);
    for (unsigned int i = 0; i < recording->problems.list->len; i++) {
        const struct vg_trace_problem *problem = g_ptr_array_index(recording->problems.list, i);
        print_message("%s: %s\n", problem->file, problem->what);
    }
    assert_int_equal(recording->problems.list->len, 0);
    return events;
}

/* What `babeltrace2 OPTIONS DIR` prints on both outputs; it must succeed. */
static char *
babeltrace2(const char *options, const char *dir)
{
    g_autofree char *program = g_find_program_in_path("babeltrace2");
    g_autofree char *command = g_strdup_printf("babeltrace2 %s '%s' 2>&1", options, dir);
    char buf[4096];
    size_t n;

    if (!program) {
        print_message("# the program babeltrace2 is not installed\n");
        skip();
    }
    GString *out = g_string_new(NULL);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    while ((n = fread(buf, 1, sizeof(buf), pipe)) > 0)
        g_string_append_len(out, buf, (gssize)n);
    int status = pclose(pipe);
    if (status != 0)
        print_message("%s\n", out->str);
    assert_int_equal(status, 0);
    return g_string_free(out, FALSE);
}

static void
write_script(const char *dir, struct script *script)
{
    const struct vg_ctf_plan plan = plan_of(script);
    g_autoptr(GError) error = NULL;

    if (vg_ctf_write(dir, &plan, &error) < 0)
        fail_msg("%s", error->message);
}

/* One record, and this environment. */
static void
write_with_env(const char *dir, const struct vg_ctf_env *env, size_t n)
{
    const struct vg_ctf_record records[] = {switch_at(T0, 101, 0)};
    struct script script = {.records = records, .n = 1};
    struct vg_ctf_plan plan = plan_of(&script);

    plan.env = env;
    plan.n_env = n;
    assert_int_equal(vg_ctf_write(dir, &plan, NULL), 0);
}

static void
test_round_trip(void **state)
{
    const struct place *place = *state;
    const struct vg_ctf_record records[] = {
        switch_at(0, 101, 0),
        switch_at(T0, 0, VG_TID_LIMIT),
        switch_at(T0, VG_TID_LIMIT, 101),
        {.class = WAKEUP,
         .ts_ns = T0 + 1,
         .tid = -1,
         .pid = -1,
         .values = {{.text = "a"}, {.s = 7}, {.s = 3}}},
        switch_at(VG_TIME_MAX - 1, 101, 0),
    };
    struct script script = {.records = records, .n = G_N_ELEMENTS(records)};

    write_script(place->dir, &script);
    assert_int_equal(count_entries(place->dir), 2);
    vg_recording *recording = open_one(place->dir);
    assert_string_equal(recording->hostname, "here");
    assert_int_equal(recording->clock_offset_ns, EPOCH);
    assert_true(recording->has_switch && recording->has_wakeup);
    g_autoptr(GArray) events = read_all(recording);
    assert_int_equal(events->len, G_N_ELEMENTS(records));
    for (unsigned int i = 0; i < events->len; i++) {
        const struct vg_event *event = &g_array_index(events, struct vg_event, i);
        assert_int_equal(event->ts_ns, records[i].ts_ns);
        assert_int_equal(event->tid, records[i].tid);
        assert_int_equal(event->pid, records[i].pid);
        assert_int_equal(event->cpu, 0);
        if (records[i].class == WAKEUP) {
            assert_int_equal(event->type, VG_EVENT_SCHED_WAKEUP);
            assert_int_equal(event->wakeup.tid, 7);
            assert_int_equal(event->wakeup.target_cpu, 3);
            continue;
        }
        assert_int_equal(event->type, VG_EVENT_SCHED_SWITCH);
        assert_int_equal(event->sched_switch.prev_tid, records[i].values[1].s);
        assert_int_equal(event->sched_switch.next_tid, records[i].values[5].s);
        assert_string_equal(event->sched_switch.next_comm, "other");
    }
    vg_recording_free(recording);
}

static void
test_extremes(void **state)
{
    const struct place *place = *state;
    const struct vg_ctf_record records[] = {
        {.class = EXTREME,
         .tid = INT32_MIN,
         .pid = INT32_MAX,
         .procname = NASTY,
         .values = {{.u = UINT8_MAX},
                    {.u = UINT16_MAX},
                    {.u = UINT32_MAX},
                    {.u = UINT64_MAX},
                    {.s = INT32_MAX},
                    {.s = INT64_MAX},
                    {.text = NASTY}}},
        {.class = EXTREME,
         .values = {{.u = 0},
                    {.u = 0},
                    {.u = 0},
                    {.u = 0},
                    {.s = INT32_MIN},
                    {.s = INT64_MIN},
                    {.text = ""}}},
    };
    struct script script = {.records = records, .n = 2};

    write_script(place->dir, &script);
    g_autofree char *text = babeltrace2("--clock-cycles", place->dir);
    char *lines[] = {text, strstr(text, "{ event = 0,")};
    assert_non_null(lines[1]);
    lines[1][-1] = '\0';
    const char *const told[] = {
        " vgpud:\"extreme\": ",
        "{ cpu_id = 0 }",
        "tid = -2147483648, pid = 2147483647",
        "event = 255, _u16 = 65535, u32 = 4294967295, u64 = 18446744073709551615, "
        "s32 = 2147483647, timestamp = 9223372036854775807, string = \"it\\'s \\\"\\\\x41\\\"",
        "\xe6\x97\xa5"
        "f \\?\\?/* $(x)\" }",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(told); i++) {
        if (!strstr(lines[0], told[i]))
            fail_msg("'%s' is not in: %s", told[i], lines[0]);
    }
    assert_non_null(strstr(lines[1], "event = 0, _u16 = 0, u32 = 0, u64 = 0, s32 = -2147483648, "
                                     "timestamp = -9223372036854775808, string = \"\" }"));
}

static void
test_environment_of_any_text(void **state)
{
    const struct place *place = *state;
    const struct vg_ctf_env env[] = {
        {"hostname", NASTY},
        {"_", ""},
        {"uuid", "uuid = \"" UUID "\""},
        {"last", "\\"},
    };

    write_with_env(place->dir, env, G_N_ELEMENTS(env));
    vg_recording *recording = open_one(place->dir);
    assert_string_equal(recording->hostname, NASTY);
    g_autoptr(GArray) events = read_all(recording);
    assert_int_equal(events->len, 1);
    vg_recording_free(recording);
    g_autofree char *text = babeltrace2("-c sink.text.details", place->dir);
    assert_non_null(strstr(text, "uuid: uuid = \"" UUID "\""));
    assert_non_null(strstr(text, "last: \\\n"));
}

/* Offsets on both sides of zero; without one, the clock has no epoch. */
static void
test_clock(void **state)
{
    const struct place *place = *state;
    static const int64_t offsets[] = {
        0, 1, -1, -1000000000, -1234567890123, VG_TIME_MAX - 1, 1 - VG_TIME_MAX};
    const struct vg_ctf_record records[] = {switch_at(T0, 101, 0), switch_at(T0 + 5, 0, 101)};

    for (size_t i = 0; i < G_N_ELEMENTS(offsets); i++) {
        struct script script = {.records = records, .n = 2};
        struct vg_ctf_plan plan = plan_of(&script);
        plan.clock_offset_ns = offsets[i];
        assert_int_equal(vg_ctf_write(place->dir, &plan, NULL), 0);
        vg_recording *recording = open_one(place->dir);
        assert_int_equal(recording->clock_offset_ns, offsets[i]);
        g_autoptr(GArray) events = read_all(recording);
        assert_int_equal(events->len, 2);
        assert_int_equal(g_array_index(events, struct vg_event, 0).ts_ns, T0);
        vg_recording_free(recording);
        g_free(babeltrace2("", place->dir));
        empty_dir(place->dir);
    }
}

static void
test_nothing_recorded(void **state)
{
    const struct place *place = *state;
    struct script script = {.n = 0};

    write_script(place->dir, &script);
    g_autofree char *text = babeltrace2("", place->dir);
    assert_string_equal(text, "");
    vg_recording *recording = open_one(place->dir);
    g_autoptr(GArray) events = read_all(recording);
    assert_int_equal(events->len, 0);
    vg_recording_free(recording);
}

/* ---- loss ---- */

static const uint64_t lost[] = {3, 0, 5, 7, 0, 1};

#define LOST_SUM 16

static GArray *
write_and_read_losses(const char *dir, const char *tracer)
{
    struct vg_ctf_record records[G_N_ELEMENTS(lost)];
    struct script script = {.records = records, .n = G_N_ELEMENTS(records)};
    const struct vg_ctf_env env[] = {{"tracer_name", tracer}};
    struct vg_ctf_plan plan = plan_of(&script);

    for (size_t i = 0; i < G_N_ELEMENTS(records); i++) {
        records[i] = switch_at(T0 + (int64_t)i * 1000, 101, 102);
        records[i].lost = lost[i];
    }
    plan.env = env;
    plan.n_env = 1;
    assert_int_equal(vg_ctf_write(dir, &plan, NULL), 0);
    vg_recording *recording = open_one(dir);
    GArray *events = read_all(recording);
    vg_recording_free(recording);
    return events;
}

/* From the record before to the one behind. */
static void
test_lost_records(void **state)
{
    const struct place *place = *state;
    g_autoptr(GArray) events = write_and_read_losses(place->dir, "vgpuctl");
    g_autofree char *text = babeltrace2("", place->dir);
    unsigned int at = 0;
    uint64_t sum = 0;

    for (unsigned int i = 0; i < events->len; i++) {
        const struct vg_event *event = &g_array_index(events, struct vg_event, i);
        int64_t ts_ns = T0 + (int64_t)at * 1000;
        if (event->type != VG_EVENT_LOST) {
            assert_int_equal(event->ts_ns, ts_ns);
            at++;
            continue;
        }
        assert_int_equal(event->lost.events, lost[at]);
        assert_int_equal(event->lost.end_ns, ts_ns);
        assert_int_equal(event->ts_ns, at > 0 ? ts_ns - 1000 : ts_ns);
        sum += event->lost.events;
    }
    assert_int_equal(at, G_N_ELEMENTS(lost));
    assert_int_equal(sum, LOST_SUM);
    for (size_t i = 0; i < G_N_ELEMENTS(lost); i++) {
        g_autofree char *told =
            g_strdup_printf("discarded %" PRIu64 " event%s between", lost[i], &"s"[lost[i] == 1]);
        assert_int_equal(strstr(text, told) != NULL, lost[i] > 0);
    }
}

/* What LTTng loses is missing at other places, so the sum is all there is to compare. */
static void
test_another_name_of_the_tracer(void **state)
{
    const struct place *place = *state;
    static const char *const tracers[] = {"lttng-modules", "lttng-ust", "perf"};

    for (size_t t = 0; t < G_N_ELEMENTS(tracers); t++) {
        g_autoptr(GArray) events = write_and_read_losses(place->dir, tracers[t]);
        uint64_t sum = 0;
        size_t n = 0;
        for (unsigned int i = 0; i < events->len; i++) {
            const struct vg_event *event = &g_array_index(events, struct vg_event, i);
            n += event->type == VG_EVENT_SCHED_SWITCH;
            sum += event->type == VG_EVENT_LOST ? event->lost.events : 0;
        }
        assert_int_equal(n, G_N_ELEMENTS(lost));
        assert_int_equal(sum, LOST_SUM);
        empty_dir(place->dir);
    }
}

/* ---- length ---- */

static void
test_many_records(void **state)
{
    const struct place *place = *state;
    struct endless endless = {.n = 200000};
    const struct vg_ctf_plan plan = plan_of_endless(&endless);
    struct vg_event event;
    uint64_t n = 0;

    assert_int_equal(vg_ctf_write(place->dir, &plan, NULL), 0);
    print_message("# %zu bytes in use after a tenth, %zu at the end\n", endless.used_early,
                  endless.used_late);
    assert_true(endless.used_late <= endless.used_early + 4096);
    vg_recording *recording = open_one(place->dir);
    while (vg_recording_next(recording, &event, NULL) == 1)
        assert_int_equal(event.ts_ns, T0 + (int64_t)n++ * 1000);
    assert_int_equal(n, endless.n);
    assert_int_equal(recording->problems.list->len, 0);
    vg_recording_free(recording);
}

/* Every length of a record, so that packets end at every distance from their limit. */
static void
test_packets_that_are_full(void **state)
{
    const struct place *place = *state;
    g_autofree char *text = g_malloc(VG_CTF_RECORD_BYTES_MAX);
    struct vg_ctf_record records[40];
    struct script script = {.records = records, .n = G_N_ELEMENTS(records)};
    /* One with empty strings takes this much: header, tid and pid, three strings, numbers. */
    const size_t least = 24 + 3 + 4 * 4 + 8;

    memset(text, 'x', VG_CTF_RECORD_BYTES_MAX);
    text[VG_CTF_RECORD_BYTES_MAX - least] = '\0';
    for (size_t i = 0; i < G_N_ELEMENTS(records); i++) {
        records[i] = switch_at(T0 + (int64_t)i, 101, 102);
        records[i].procname = records[i].values[0].text = "";
        records[i].values[4].text = text + i % 3;
    }
    write_script(place->dir, &script);
    vg_recording *recording = open_one(place->dir);
    g_autoptr(GArray) events = read_all(recording);
    assert_int_equal(events->len, G_N_ELEMENTS(records));
    vg_recording_free(recording);
    for (size_t bytes = 1; bytes < 8000; bytes = bytes * 5 / 4 + 1) {
        struct endless endless = {.n = 70000 / bytes + 10, .text = g_strnfill(bytes, 'x')};
        const struct vg_ctf_plan plan = plan_of_endless(&endless);
        empty_dir(place->dir);
        assert_int_equal(vg_ctf_write(place->dir, &plan, NULL), 0);
        g_free(endless.text);
    }
}

/* ---- the same again ---- */

static char *
contents(const char *dir, const char *name, gsize *ret_length)
{
    g_autofree char *path = g_build_filename(dir, name, NULL);
    char *text;

    assert_true(g_file_get_contents(path, &text, ret_length, NULL));
    return text;
}

static bool
has_same_file(const char *a, const char *b, const char *name)
{
    gsize length_a, length_b;
    g_autofree char *text_a = contents(a, name, &length_a);
    g_autofree char *text_b = contents(b, name, &length_b);

    return length_a == length_b && memcmp(text_a, text_b, length_a) == 0;
}

static void
test_same_records_same_bytes(void **state)
{
    const struct place *place = *state;
    g_autofree char *again = g_build_filename(place->root, "again", NULL);
    g_autofree char *other = g_build_filename(place->root, "other", NULL);
    struct endless first = {.n = 3000}, second = {.n = 3000}, third = {.n = 3001};
    const struct vg_ctf_plan plans[] = {plan_of_endless(&first), plan_of_endless(&second),
                                        plan_of_endless(&third)};

    assert_int_equal(vg_ctf_write(place->dir, &plans[0], NULL), 0);
    assert_int_equal(vg_ctf_write(again, &plans[1], NULL), 0);
    assert_int_equal(vg_ctf_write(other, &plans[2], NULL), 0);
    assert_true(has_same_file(place->dir, again, "stream"));
    assert_true(has_same_file(place->dir, again, "metadata"));
    /* Another trace, by its UUID. */
    assert_false(has_same_file(place->dir, other, "metadata"));
}

/* ---- refusals ---- */

static void
assert_refused(const char *dir, const struct vg_ctf_plan *plan, enum vg_error_code code,
               const char *said)
{
    g_autoptr(GError) error = NULL;
    bool was_there = g_file_test(dir, G_FILE_TEST_EXISTS);

    assert_int_equal(vg_ctf_write(dir, plan, &error), -1);
    if (!g_error_matches(error, VG_ERROR, (int)code) || !strstr(error->message, said))
        fail_msg("error %d '%s' instead of '%s'", error->code, error->message, said);
    assert_int_equal(g_file_test(dir, G_FILE_TEST_EXISTS), was_there);
}

static void
assert_record_refused(const char *dir, const struct vg_ctf_record *record, const char *said)
{
    const struct vg_ctf_record records[] = {switch_at(T0, 101, 0), *record};
    struct script script = {.records = records, .n = 2};
    const struct vg_ctf_plan plan = plan_of(&script);

    assert_refused(dir, &plan, VG_E_INVALID, said);
}

static void
test_records_that_cannot_be(void **state)
{
    const struct place *place = *state;
    g_autofree char *longest = g_strnfill(VG_CTF_RECORD_BYTES_MAX, 'x');
    struct vg_ctf_record extreme = {.class = EXTREME, .ts_ns = T0, .values = {[6] = {.text = ""}}};
    struct vg_ctf_record record = switch_at(T0 - 1, 101, 0);

    assert_record_refused(place->dir, &record, "record 2 is earlier (4999999999 ns)");
    record = switch_at(-1, 101, 0);
    assert_record_refused(place->dir, &record, "invalid time");
    record = switch_at(VG_TIME_MAX, 101, 0);
    assert_record_refused(place->dir, &record, "invalid time");
    record = switch_at(T0, 101, 0);
    record.class = N_CLASSES;
    assert_record_refused(place->dir, &record, "an unknown class (3)");
    record = switch_at(T0, 101, 0);
    record.procname = "\xff";
    assert_record_refused(place->dir, &record, "procname");
    record = switch_at(T0, 101, 0);
    record.values[0].text = "\xe6\x97";
    assert_record_refused(place->dir, &record, "'prev_comm' that is not UTF-8");
    record.values[0].text = NULL;
    assert_record_refused(place->dir, &record, "'prev_comm' that is not UTF-8");
    record.values[0].text = longest;
    assert_record_refused(place->dir, &record, "more than 16384");
    static const struct {
        unsigned int field;
        struct vg_ctf_value value;
    } bad[] = {
        {0, {.u = UINT8_MAX + 1}},
        {1, {.u = UINT16_MAX + 1}},
        {2, {.u = UINT32_MAX + UINT64_C(1)}},
        {4, {.s = INT32_MAX + INT64_C(1)}},
        {4, {.s = INT32_MIN - INT64_C(1)}},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        record = extreme;
        record.values[bad[i].field] = bad[i].value;
        assert_record_refused(place->dir, &record, "not a number of its size");
    }
}

static void
test_plans_that_cannot_be(void **state)
{
    const struct place *place = *state;
    static const struct {
        struct vg_ctf_env env[2];
        const char *said;
    } environments[] = {
        {{{"a", "1"}, {"a", "2"}}, "'a' appears twice"},
        {{{"a", "1"}, {"", "2"}}, "'' cannot name"},
        {{{"a", "1"}, {"1b", "2"}}, "'1b' cannot name"},
        {{{"a", "1"}, {"b c", "2"}}, "'b c' cannot name"},
        {{{"a", "1"}, {"event", "2"}}, "'event' cannot name"},
        {{{"a", "1"}, {"b", "\xff"}}, "'b' in a trace's environment is not UTF-8"},
    };
    static const struct vg_ctf_field twice[] = {{"a", VG_CTF_U8}, {"a", VG_CTF_U8}, {NULL, 0}};
    static const struct vg_ctf_field unnamed[] = {{"a-b", VG_CTF_U8}, {NULL, 0}};
    static const char many_names[][2] = {"a", "b", "c", "d", "e", "f", "g", "h", "i",
                                         "j", "k", "l", "m", "n", "o", "p", "q"};
    static struct vg_ctf_field many[VG_CTF_FIELDS_MAX + 2];
    static const struct {
        struct vg_ctf_class class;
        const char *said;
    } others[] = {
        {{"x", twice}, "two 'a' fields"},
        {{"x", unnamed}, "'a-b' cannot name a field"},
        {{"x", many}, "more than 16 fields"},
        {{"", switch_fields}, "must have a UTF-8 name"},
    };
    struct script script = {.n = 0};
    struct vg_ctf_plan plan = plan_of(&script);

    for (unsigned int i = 0; i <= VG_CTF_FIELDS_MAX; i++)
        many[i] = (struct vg_ctf_field){many_names[i], VG_CTF_U8};
    plan.n_env = 2;
    for (size_t i = 0; i < G_N_ELEMENTS(environments); i++) {
        plan.env = environments[i].env;
        assert_refused(place->dir, &plan, VG_E_INVALID, environments[i].said);
    }
    plan = plan_of(&script);
    plan.n_classes = 1;
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
        plan.classes = &others[i].class;
        assert_refused(place->dir, &plan, VG_E_INVALID, others[i].said);
    }
    plan = plan_of(&script);
    plan.clock_offset_ns = INT64_MIN;
    assert_refused(place->dir, &plan, VG_E_INVALID, "not a valid clock offset");
    /* As many fields as there may be. */
    plan = plan_of(&script);
    const struct vg_ctf_class most = {"most", many};
    many[VG_CTF_FIELDS_MAX].name = NULL;
    plan.classes = &most;
    plan.n_classes = 1;
    const struct vg_ctf_record record = {.ts_ns = T0};
    script = (struct script){.records = &record, .n = 1};
    assert_int_equal(vg_ctf_write(place->dir, &plan, NULL), 0);
}

static void
test_places_that_are_taken(void **state)
{
    const struct place *place = *state;
    const struct vg_ctf_record records[] = {switch_at(T0, 101, 0)};
    struct script script = {.records = records, .n = 1};
    const struct vg_ctf_plan plan = plan_of(&script);
    g_autofree char *file = g_build_filename(place->dir, ".hidden", NULL);
    g_autofree char *below = g_build_filename(place->dir, "a", "b", NULL);

    assert_int_equal(g_mkdir(place->dir, 0777), 0);
    assert_true(g_file_set_contents(file, "x", 1, NULL));
    assert_refused(place->dir, &plan, VG_E_CONFLICT, "is not empty");
    assert_int_equal(count_entries(place->dir), 1);
    assert_refused(file, &plan, VG_E_CONFLICT, "is not a directory");
    assert_refused(below, &plan, VG_E_NOT_FOUND, "No such file");
    /* An empty one will do. */
    assert_int_equal(g_remove(file), 0);
    assert_int_equal(vg_ctf_write(place->dir, &plan, NULL), 0);
    assert_int_equal(count_entries(place->dir), 2);
    assert_refused(place->dir, &plan, VG_E_CONFLICT, "is not empty");
    assert_int_equal(count_entries(place->dir), 2);
}

static void
test_records_that_break_off(void **state)
{
    const struct place *place = *state;
    struct vg_ctf_record records[3000];

    for (size_t i = 0; i < G_N_ELEMENTS(records); i++)
        records[i] = switch_at(T0 + (int64_t)i, 101, 0);
    for (size_t n = 0; n <= G_N_ELEMENTS(records); n += 1000) {
        struct script script = {.records = records, .n = n, .fails = true};
        const struct vg_ctf_plan plan = plan_of(&script);
        assert_refused(place->dir, &plan, VG_E_TIMEOUT, "enough");
    }
    /* A directory that was there stays. */
    struct script script = {.records = records, .n = 2000, .fails = true};
    const struct vg_ctf_plan plan = plan_of(&script);
    assert_int_equal(g_mkdir(place->dir, 0777), 0);
    assert_refused(place->dir, &plan, VG_E_TIMEOUT, "enough");
    assert_int_equal(count_entries(place->dir), 0);
}

static void
test_directory_that_is_removed(void **state)
{
    const struct place *place = *state;

    for (uint64_t n = 10; n <= 10000; n *= 10) {
        struct endless endless = {.n = n, .removes = place->dir};
        const struct vg_ctf_plan plan = plan_of_endless(&endless);
        assert_refused(place->dir, &plan, VG_E_NOT_FOUND, "/stream'");
    }
    assert_int_equal(count_entries(place->root), 0);
}

/* ---- no room ---- */

/* In a child: 0 if writing ended as it should, either way. */
static int
write_in_child(const char *dir, const char *said, uint64_t n, bool *ret_written)
{
    struct endless endless = {.n = n};
    const struct vg_ctf_plan plan = plan_of_endless(&endless);
    g_autoptr(GError) error = NULL;

    *ret_written = vg_ctf_write(dir, &plan, &error) == 0;
    if (*ret_written)
        return 0;
    if (g_file_test(dir, G_FILE_TEST_EXISTS) || !g_error_matches(error, VG_ERROR, VG_E_IO) ||
        !strstr(error->message, said) || !strstr(error->message, dir)) {
        fprintf(stderr, "%s\n", error->message);
        return 1;
    }
    return 0;
}

static int
fill_disks(const struct place *place)
{
    bool written = false, any_failed = false;

    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0)
        return SKIPPED;
    /* Every size from almost nothing to enough, page by page. */
    for (unsigned int pages = 2; !written; pages++) {
        g_autofree char *options = g_strdup_printf("size=%u", pages * 4096);
        if (mount("none", place->root, "tmpfs", 0, options) != 0)
            return SKIPPED;
        if (write_in_child(place->dir, "No space left on device", 1000, &written) != 0)
            return 1;
        any_failed |= !written;
        if (umount(place->root) != 0)
            return 2;
    }
    return any_failed ? 0 : 3;
}

static int
pass_limits(const struct place *place)
{
    bool written = false, any_failed = false;

    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t bytes = 0; !written; bytes += 3000) {
        const struct rlimit limit = {bytes, RLIM_INFINITY};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
            return SKIPPED;
        if (write_in_child(place->dir, "File too large", 1000, &written) != 0)
            return 1;
        any_failed |= !written;
    }
    return any_failed ? 0 : 3;
}

static void
assert_done_in_child(const struct place *place, int (*run)(const struct place *place))
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        _exit(run(place));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED) {
        print_message("# mounts or limits of file sizes are not permitted here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void
test_full_disk(void **state)
{
    assert_done_in_child(*state, fill_disks);
}

static void
test_limit_of_file_size(void **state)
{
    assert_done_in_child(*state, pass_limits);
}

/* ---- names of VMs ---- */

static void
test_names_of_vms(void **state)
{
    const struct place *place = *state;
    const struct vg_ctf_env env[] = {
        {"vm_100", "web \xc3\xa9"
                   "1"},
        {"vm_100_uuid", UUID},
        {"vm_200", "db"},
        {"vm_300", "given"},
        {"vm_x", "no pid"},
        {"vm_400_uuid", UUID},
        {"vm_", ""},
    };
    g_autoptr(vg_topology) topology = vg_topology_new();

    write_with_env(place->dir, env, G_N_ELEMENTS(env));
    vg_recording *recording = open_one(place->dir);
    assert_int_equal(recording->problems.list->len, 0);
    assert_int_equal(recording->vms->len, 3);
    assert_int_equal(vg_topology_name_vm(topology, 300, "mine", NULL, NULL), 0);
    vg_recording_name_vms(recording, topology);
    static const struct {
        int32_t pid;
        const char *name, *uuid;
    } named[] = {{100,
                  "web \xc3\xa9"
                  "1",
                  UUID},
                 {200, "db", ""},
                 {300, "mine", ""}};
    for (size_t i = 0; i < G_N_ELEMENTS(named); i++) {
        struct vg_thread *thread = vg_topology_thread(topology, named[i].pid + 1);
        vg_topology_set_process(topology, thread, named[i].pid);
        assert_string_equal(vg_thread_process(thread)->name, named[i].name);
        assert_string_equal(vg_thread_process(thread)->uuid, named[i].uuid);
    }
    vg_recording_free(recording);
}

static void
test_names_that_no_vm_has(void **state)
{
    const struct place *place = *state;
    g_autofree char *longest = g_strnfill(VG_VM_NAME_MAX, 'x');
    const struct vg_ctf_env env[] = {
        {"vm_0", "a"},     {"vm_4194305", "a"}, {"vm_1", ""},          {"vm_2", "self"},
        {"vm_3", longest}, {"vm_4", "a"},       {"vm_4_uuid", "b0c6"}, {"vm_5", "good"},
    };

    write_with_env(place->dir, env, G_N_ELEMENTS(env));
    vg_recording *recording = open_one(place->dir);
    assert_int_equal(recording->problems.list->len, 6);
    assert_int_equal(recording->vms->len, 1);
    assert_int_equal(g_array_index(recording->vms, struct vg_recorded_vm, 0).pid, 5);
    vg_recording_free(recording);
}

static void
test_too_many_names(void **state)
{
    const struct place *place = *state;
    g_autofree struct vg_ctf_env *env = g_new0(struct vg_ctf_env, VG_RECORDING_VMS_MAX + 1);
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);

    for (int i = 0; i <= VG_RECORDING_VMS_MAX; i++) {
        g_ptr_array_add(names, g_strdup_printf("vm_%d", i + 1));
        env[i] = (struct vg_ctf_env){g_ptr_array_index(names, i), "a"};
    }
    write_with_env(place->dir, env, VG_RECORDING_VMS_MAX + 1);
    vg_recording *recording = open_one(place->dir);
    assert_int_equal(recording->vms->len, VG_RECORDING_VMS_MAX);
    assert_int_equal(recording->problems.list->len, 1);
    vg_recording_free(recording);
}

#define AT_A_PLACE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        AT_A_PLACE(test_round_trip),
        AT_A_PLACE(test_extremes),
        AT_A_PLACE(test_environment_of_any_text),
        AT_A_PLACE(test_clock),
        AT_A_PLACE(test_nothing_recorded),
        AT_A_PLACE(test_lost_records),
        AT_A_PLACE(test_another_name_of_the_tracer),
        AT_A_PLACE(test_many_records),
        AT_A_PLACE(test_packets_that_are_full),
        AT_A_PLACE(test_same_records_same_bytes),
        AT_A_PLACE(test_records_that_cannot_be),
        AT_A_PLACE(test_plans_that_cannot_be),
        AT_A_PLACE(test_places_that_are_taken),
        AT_A_PLACE(test_records_that_break_off),
        AT_A_PLACE(test_directory_that_is_removed),
        AT_A_PLACE(test_full_disk),
        AT_A_PLACE(test_limit_of_file_size),
        AT_A_PLACE(test_names_of_vms),
        AT_A_PLACE(test_names_that_no_vm_has),
        AT_A_PLACE(test_too_many_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
