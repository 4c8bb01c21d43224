/* SPDX-License-Identifier: Apache-2.0
 *
 * What a guest's agent may say, and what one may say that is none.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "actuators/guest-talk.h"
#include "base/error.h"
#include "model/migration.h"

/* That the device of some_devices() is released. */
#define RELEASED "\"released\":[{\"path\":\"0000:00/02.1/00.0\",\"driver\":null}]"

#define HELLO_ANSWER                                                                               \
 "{\"id\":1,\"type\":\"hello\",\"version\":1,\"agent\":\"0.1\",\"state\":\"idle\"}\n"

static void
feed(vg_guest_talk *talk, const char *text)
{
    g_autoptr(GError) err = NULL;

    if (vg_guest_talk_feed(talk, text, strlen(text), &err) < 0)
        fail_msg("%s", err->message);
}

/* The next message, which there is; the caller clears it. */
static struct vg_guest_message
next(vg_guest_talk *talk)
{
    g_autoptr(GError) err = NULL;
    struct vg_guest_message message = {0};
    int found = vg_guest_talk_next(talk, &message, &err);

    if (found != 1)
        fail_msg("%s", err ? err->message : "there is no message");
    return message;
}

static void
assert_next(vg_guest_talk *talk, enum vg_guest_message_kind kind, const char *words)
{
    struct vg_guest_message message = next(talk);

    assert_int_equal(message.kind, kind);
    if (!strstr(message.text, words))
        fail_msg("'%s' does not say '%s'", message.text, words);
    vg_guest_message_clear(&message);
}

static void
assert_nothing(vg_guest_talk *talk)
{
    struct vg_guest_message message = {0};
    g_autoptr(GError) err = NULL;

    assert_int_equal(vg_guest_talk_next(talk, &message, &err), 0);
    assert_null(err);
}

static void
assert_broken(vg_guest_talk *talk, const char *words)
{
    struct vg_guest_message message = {0};
    g_autoptr(GError) err = NULL;

    assert_int_equal(vg_guest_talk_next(talk, &message, &err), -1);
    assert_int_equal(err->code, VG_E_EXTERNAL);
    if (!strstr(err->message, words))
        fail_msg("'%s' does not say '%s'", err->message, words);
}

static void
free_device(void *device)
{
    vg_record_free(&vg_move_device_record, device);
}

/* One, by its path. */
static GPtrArray *
some_devices(void)
{
    GPtrArray *devices = g_ptr_array_new_with_free_func(free_device);
    struct vg_move_device *device = vg_record_new(&vg_move_device_record);

    device->kind = VG_MOVE_DEVICE_PCI;
    device->type = g_strdup("10de:2330");
    device->alias = g_strdup("ua-gpu0");
    device->guest_path = g_strdup("0000:00/02.1/00.0");
    g_ptr_array_add(devices, device);
    return devices;
}

/* After the hello, with an order of id 2 under way. */
static vg_guest_talk *
greeted(void)
{
    vg_guest_talk *talk = vg_guest_talk_new();
    g_autoptr(GPtrArray) devices = some_devices();

    g_free(vg_guest_talk_hello(talk, 1));
    feed(talk, HELLO_ANSWER);
    assert_next(talk, VG_GUEST_HELLO, "agent 0.1 answers; its state is idle");
    g_autofree char *line = vg_guest_talk_order(talk, 2, "prepare", 1000, devices, NULL);
    assert_non_null(line);
    return talk;
}

static void
test_lines(void **state)
{
    g_autoptr(vg_guest_talk) talk = vg_guest_talk_new();
    g_autoptr(GPtrArray) devices = some_devices();
    struct vg_move_device *device = devices->pdata[0];
    g_autoptr(GError) err = NULL;
    g_autofree char *hello = vg_guest_talk_hello(talk, 71);
    g_autofree char *cancel = vg_guest_talk_cancel(73);
    g_autofree char *by_path = vg_guest_talk_order(talk, 72, "prepare", 60000, devices, NULL);

    (void)state;
    assert_string_equal(hello, "\n{\"id\":71,\"type\":\"hello\",\"versions\":[1]}\n");
    assert_string_equal(cancel, "{\"id\":73,\"type\":\"cancel\"}\n");
    assert_string_equal(by_path, "{\"id\":72,\"type\":\"prepare\",\"deadline_ms\":60000,"
                                 "\"devices\":[{\"path\":\"0000:00/02.1/00.0\"}]}\n");
    vg_guest_talk_set_place(talk, "proxy:/run/p.sock");
    g_autofree char *away = vg_guest_talk_order(talk, 76, "prepare", 60000, devices, NULL);
    assert_non_null(strstr(away, ",\"opencl_at\":\"proxy:/run/p.sock\"}\n"));
    g_autofree char *move = vg_guest_talk_order(talk, 77, "switch", 60000, NULL, NULL);
    assert_string_equal(move, "{\"id\":77,\"type\":\"switch\",\"deadline_ms\":60000,"
                              "\"opencl_at\":\"proxy:/run/p.sock\"}\n");
    g_clear_pointer(&device->guest_path, g_free);
    g_autofree char *by_type = vg_guest_talk_order(talk, 74, "resume", 100, devices, NULL);
    assert_string_equal(by_type, "{\"id\":74,\"type\":\"resume\",\"deadline_ms\":100,"
                                 "\"devices\":[{\"vendor\":\"0x10de\",\"device\":\"0x2330\"}]}\n");
    device->kind = VG_MOVE_DEVICE_NAMED;
    assert_null(vg_guest_talk_order(talk, 75, "resume", 100, devices, &err));
    assert_int_equal(err->code, VG_E_INVALID);
    assert_non_null(strstr(err->message, "'ua-gpu0'"));
}

static void
test_earlier_hosts(void **state)
{
    g_autoptr(vg_guest_talk) talk = vg_guest_talk_new();
    g_free(vg_guest_talk_hello(talk, 1));
    g_autofree char *long_line = g_strnfill(VG_GUEST_LINE_MAX + 10, 'x');

    (void)state;
    feed(talk,
         "ared\",\"id\":7}\n{\"id\":7,\"type\":\"prepared\"}\n\n{\"id\":null,\"type\":\"error\","
         "\"code\":\"bad-request\"}\n\x01\xff\n[1]\n");
    feed(talk, long_line);
    assert_nothing(talk);
    feed(talk, "\n{\"id\":1,\"type\":\"hel");
    assert_nothing(talk);
    feed(talk, "lo\",\"version\":1,\"agent\":\"0.1\",\"state\":\"prepared\"}\r\n");
    assert_next(talk, VG_GUEST_HELLO, "prepared");
    assert_nothing(talk);
}

static void
test_other_version(void **state)
{
    g_autoptr(vg_guest_talk) talk = vg_guest_talk_new();
    g_free(vg_guest_talk_hello(talk, 1));

    (void)state;
    feed(talk, "{\"id\":1,\"type\":\"hello\",\"version\":2}\n"
               "{\"id\":1,\"type\":\"error\",\"code\":\"version\",\"message\":\"only 2\"}\n");
    assert_next(talk, VG_GUEST_ERROR, "agent");
    assert_next(talk, VG_GUEST_ERROR, "only 2 (version)");
}

static void
test_answers(void **state)
{
    g_autoptr(vg_guest_talk) talk = greeted();

    (void)state;
    feed(talk,
         HELLO_ANSWER "{\"id\":3,\"type\":\"prepared\"}\n{\"id\":2,\"type\":\"news\"}\n"
                      "{\"id\":2,\"type\":\"progress\",\"step\":\"hook\",\"hook\":\"10-jobs\"}\n"
                      "{\"id\":2,\"type\":\"progress\",\"step\":\"unit\",\"verb\":\"stop\","
                      "\"unit\":\"a.service\"}\n"
                      "{\"id\":2,\"type\":\"progress\",\"step\":\"checkpoint\","
                      "\"bytes\":3221225472,\"elapsed_ms\":12345}\n"
                      "{\"id\":2,\"type\":\"progress\",\"step\":\"holders\",\"holders\":["
                      "{\"pid\":153,\"comm\":\"python3\",\"path\":\"/dev/nvidia0\"}]}\n");
    assert_next(talk, VG_GUEST_PROGRESS, "in the guest: hook 10-jobs");
    assert_next(talk, VG_GUEST_PROGRESS, "in the guest: unit: stop a.service");
    assert_next(talk, VG_GUEST_PROGRESS,
                "in the guest: checkpoint, 3072 MiB, 12 s after the request");
    assert_next(talk, VG_GUEST_PROGRESS, "process 153 (python3) has /dev/nvidia0");
    feed(talk, "{\"id\":2,\"type\":\"error\",\"code\":\"busy\",\"running\":1}\n");
    assert_next(talk, VG_GUEST_BUSY, "busy");
    feed(talk,
         "{\"id\":2,\"type\":\"prepared\",\"already\":false," RELEASED ",\"ram_bytes\":1733538048,"
         "\"hooks\":[{\"name\":\"10-jobs\",\"ms\":835},{\"name\":\"20-x\",\"ms\":1}]}\n");
    struct vg_guest_message message = next(talk);
    assert_int_equal(message.kind, VG_GUEST_PREPARED);
    assert_int_equal(message.ram_bytes, 1733538048);
    assert_string_equal(message.text, "the guest has released its GPUs; hooks run: 10-jobs (835 "
                                      "ms), 20-x (1 ms)");
    vg_guest_message_clear(&message);
    feed(talk,
         "{\"id\":2,\"type\":\"resumed\",\"already\":true}\n"
         "{\"id\":2,\"type\":\"error\",\"code\":\"held\",\"message\":\"at the deadline\","
         "\"undo_error\":\"no driver\"}\n{\"id\":null,\"type\":\"error\",\"code\":\"too-long\"}\n");
    assert_next(talk, VG_GUEST_RESUMED, "has its GPUs again, as before");
    assert_next(talk, VG_GUEST_ERROR,
                "at the deadline (held); the steps already taken could not be undone: no");
    assert_next(talk, VG_GUEST_ERROR, "no message (too-long)");
}

/* Types and sizes that nobody asked for. */
static void
test_strange_members(void **state)
{
    g_autoptr(vg_guest_talk) talk = greeted();
    g_autofree char *letters = g_strnfill(20000, 'y');
    g_autofree char *large = g_strdup_printf(
        "{\"id\":2,\"type\":\"error\",\"code\":\"%s\",\"message\":\"%s\"}\n", letters, letters);

    (void)state;
    feed(talk, "{\"id\":2,\"type\":\"prepared\"," RELEASED
               ",\"ram_bytes\":-5,\"hooks\":{\"name\":1},\"already\":3}\n"
               "{\"id\":2,\"type\":\"prepared\"," RELEASED
               ",\"ram_bytes\":1e300,\"hooks\":[1,null,{\"ms\":[]}]}\n"
               "{\"id\":2,\"type\":\"error\",\"code\":[],\"message\":\"a\\u001b[2J\\nb\"}\n"
               "{\"id\":2,\"type\":\"progress\",\"step\":{},\"holders\":[[]]}\n"
               "{\"id\":\"2\",\"type\":\"prepared\"}\n{\"id\":2}\n{\"id\":2,\"type\":7}\n");
    for (int i = 0; i < 2; i++) {
        struct vg_guest_message message = next(talk);
        assert_int_equal(message.kind, VG_GUEST_PREPARED);
        assert_int_equal(message.ram_bytes, 0);
        vg_guest_message_clear(&message);
    }
    assert_next(talk, VG_GUEST_ERROR, "a?[2J?b (no code)");
    assert_next(talk, VG_GUEST_PROGRESS, "in the guest: working");
    assert_nothing(talk);
    feed(talk, large);
    struct vg_guest_message message = next(talk);
    assert_true(strlen(message.text) <= VG_GUEST_TEXT_MAX);
    vg_guest_message_clear(&message);
}

static void
test_no_protocol(void **state)
{
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"hello?\n", "an invalid message"},      {"[]\n", "not an object"},
        {"{\"id\":2\n", "an invalid message"},   {"\xff\n", "an invalid message"},
        {"{\"id\":2}{\n", "an invalid message"}, {"null\n", "an invalid message"},
        {"[[[[[[[[[[[]]]]]]]]]]]\n", ""},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(vg_guest_talk) talk = greeted();
        feed(talk, cases[i].line);
        assert_broken(talk, cases[i].words);
    }
    g_autoptr(vg_guest_talk) talk = greeted();
    assert_int_equal(vg_guest_talk_feed(talk, "\0\n", 2, NULL), 0);
    assert_broken(talk, "NUL");
}

/* ---- programs ---- */

static void
test_programs(void **state)
{
    g_autoptr(vg_guest_talk) talk = greeted();

    (void)state;
    feed(talk, "{\"id\":2,\"type\":\"resumed\",\"cuda\":{\"processes\":[{\"pid\":153,"
               "\"comm\":\"py\\u0007thon\",\"job\":153,\"bytes\":1048576,\"state\":\"running\","
               "\"lock_ms\":4,\"stop_ms\":4200,\"held_threads\":3},{\"pid\":-1,\"comm\":7,"
               "\"bytes\":null},9],"
               "\"processes_total\":41,\"bytes\":3145728}}\n");
    struct vg_guest_message message = next(talk);
    const struct vg_guest_programs *programs = message.programs;
    assert_non_null(programs);
    assert_non_null(strstr(message.text, "41 programs with 3 MiB of GPU memory"));
    assert_int_equal(programs->total, 41);
    assert_int_equal(programs->gpu_bytes, 3145728);
    /* What is no object ends the list. */
    assert_int_equal(programs->programs->len, 2);
    const struct vg_guest_program *one = programs->programs->pdata[0];
    assert_string_equal(one->by, "cuda");
    assert_string_equal(one->comm, "py?thon");
    assert_string_equal(one->state, "running");
    assert_int_equal(one->pid, 153);
    assert_int_equal(one->gpu_bytes, 1048576);
    assert_int_equal(one->lock_ns, 4000000);
    assert_int_equal(one->stop_ns, INT64_C(4200000000));
    assert_int_equal(one->held_threads, 3);
    assert_null(one->why);
    const struct vg_guest_program *other = programs->programs->pdata[1];
    assert_null(other->comm);
    assert_int_equal(other->pid, 0);
    vg_guest_message_clear(&message);
    /* As newer agents tell it. */
    feed(talk, "{\"id\":2,\"type\":\"resumed\",\"programs\":{\"list\":[{\"by\":\"opencl\","
               "\"pid\":7,\"movable\":\"unknown\"}],\"total\":2,\"bytes\":1048576,"
               "\"forked\":{\"processes\":4,\"descriptors\":124,\"maps\":-1}},"
               "\"cuda\":{\"processes_total\":9}}\n");
    message = next(talk);
    assert_int_equal(message.programs->total, 2);
    assert_int_equal(message.programs->forked, 4);
    assert_int_equal(message.programs->forked_descriptors, 124);
    assert_int_equal(message.programs->forked_maps, 0);
    assert_non_null(strstr(message.text, "4 forked children released 124 descriptors and 0 maps"));
    assert_int_equal(message.programs->gpu_bytes, 1048576);
    one = message.programs->programs->pdata[0];
    assert_string_equal(one->by, "opencl");
    assert_string_equal(one->movable, "unknown");
    assert_null(message.programs->driver);
    vg_guest_message_clear(&message);
    feed(talk, "{\"id\":2,\"type\":\"status\",\"providers\":[{\"name\":\"cuda\",\"programs\":{},"
               "\"driver\":{\"version\":\"595.71.05\",\"faults\":[{\"action\":\"refuse\","
               "\"what\":\"it hangs\",\"source\":\"a report\"},{\"what\":7},{},7]}}]}\n");
    message = next(talk);
    assert_string_equal(message.programs->driver, "595.71.05");
    assert_int_equal(message.programs->driver_faults->len, 1);
    assert_string_equal(message.programs->driver_faults->pdata[0], "refuse: it hangs (a report)");
    vg_guest_message_clear(&message);
    feed(talk, "{\"id\":2,\"type\":\"resumed\",\"cuda\":[1]}\n");
    message = next(talk);
    assert_null(message.programs);
    vg_guest_message_clear(&message);
}

static void
test_status(void **state)
{
    static const struct {
        const char *members, *words;
        bool releasable;
        const char *doubt; /* NULL: none */
    } cases[] = {
        /* A process that nobody would stop, one that a hook or unit may, and one that is released.
         */
        {"\"providers\":[{\"name\":\"hooks\",\"prepare\":[]}],\"devices\":[{\"holders\":[{\"pid\":"
         "153,\"comm\":\"x\",\"path\":\"/dev/g0\"}]}]",
         "process 153 (x) has /dev/g0 open", false, NULL},
        {"\"providers\":[{\"name\":\"hooks\",\"prepare\":[\"10\"]}],\"devices\":[{\"holders\":[{"
         "\"pid\":153,\"comm\":\"x\",\"path\":\"/dev/g0\"}]}]",
         "now", true, "process 153 (x) has /dev/g0 open"},
        {"\"providers\":[{\"name\":\"units\",\"stop\":[\"a\"]}],\"devices\":[{\"holders\":[{"
         "\"pid\":153,\"comm\":\"x\",\"path\":\"/dev/g0\"}]}]",
         "now", true, "a hook or unit"},
        {"\"providers\":[{\"name\":\"cuda\",\"programs\":{\"total\":1,\"list\":[{\"pid\":153}]}}],"
         "\"devices\":[{\"holders\":[{\"pid\":153,\"comm\":\"x\",\"path\":\"/dev/g0\"}]}]",
         "now", true, NULL},
        {"\"devices\":[{\"holders\":7},8]", "now", true, NULL},
        {"\"providers\":[{\"name\":\"hooks\"},{\"name\":\"cuda\",\"releasable\":true}]", "now",
         true, NULL},
        {"\"providers\":[{\"name\":\"cuda\",\"releasable\":false,\"why\":\"153 is OpenCL\"}]",
         "153 is OpenCL", false, NULL},
        {"\"providers\":[{\"name\":\"cuda\",\"releasable\":false}]", "gave no reason", false, NULL},
        {"\"providers\":[{\"name\":\"cuda\",\"releasable\":null}]", "now", true, NULL},
        {"\"providers\":[{\"name\":\"a\",\"releasable\":true},{\"name\":\"b\",\"releasable\":false,"
         "\"why\":\"7 is lost\"}]",
         "7 is lost", false, NULL},
        {"\"providers\":7", "now", true, NULL},
        {"\"missing\":[\"there is no GPU\"]", "there is no GPU", false, NULL},
        {"\"missing\":[7]", "now", true, NULL},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(vg_guest_talk) talk = greeted();
        g_autofree char *line =
            g_strdup_printf("{\"id\":2,\"type\":\"status\",%s}\n", cases[i].members);
        feed(talk, line);
        struct vg_guest_message message = next(talk);
        assert_int_equal(message.kind, VG_GUEST_STATUS);
        assert_int_equal(message.releasable, cases[i].releasable);
        assert_non_null(strstr(message.text, cases[i].words));
        assert_true(!message.doubt == !cases[i].doubt);
        assert_true(!message.doubt || strstr(message.doubt, cases[i].doubt));
        vg_guest_message_clear(&message);
    }
}

/* An agent that says that it is done has to name what it was asked to release. */
static void
test_released(void **state)
{
    static const struct {
        const char *members;
        bool released;
    } cases[] = {
        {RELEASED, true},
        {"\"released\":[{\"path\":\"0000:00/02.1/00.0\",\"gone\":true}]", true},
        {"\"already\":true," RELEASED, true},
        {"\"released\":[]", false},
        {"\"already\":true,\"released\":[]", false},
        {"\"hooks\":[]", false},
        {"\"released\":null", false},
        {"\"released\":[{\"path\":\"0000:00/02.2/00.0\"}]", false},
        {"\"released\":[{\"path\":null}]", false},
        {"\"released\":[{\"address\":\"0000:00/02.1/00.0\"}]", false},
        {"\"released\":[7]", false},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(vg_guest_talk) talk = greeted();
        g_autofree char *line =
            g_strdup_printf("{\"id\":2,\"type\":\"prepared\",%s}\n", cases[i].members);
        feed(talk, line);
        struct vg_guest_message message = next(talk);
        assert_int_equal(message.kind, cases[i].released ? VG_GUEST_PREPARED : VG_GUEST_ERROR);
        /* It may have released it all the same, and is asked to take it up again. */
        assert_int_equal(message.undone, cases[i].released);
        assert_non_null(strstr(message.text,
                               cases[i].released ? "the guest has released" : "0000:00/02.1/00.0"));
        vg_guest_message_clear(&message);
    }
}

/* The second of two, which is asked for by its type. */
static void
test_released_by_type(void **state)
{
    g_autoptr(vg_guest_talk) talk = greeted();
    g_autoptr(GPtrArray) devices = some_devices();
    struct vg_move_device *second = vg_record_copy(&vg_move_device_record, devices->pdata[0]);

    (void)state;
    g_clear_pointer(&second->guest_path, g_free);
    g_ptr_array_add(devices, second);
    g_free(vg_guest_talk_order(talk, 2, "prepare", 1000, devices, NULL));
    feed(talk, "{\"id\":2,\"type\":\"prepared\"," RELEASED "}\n");
    assert_next(talk, VG_GUEST_ERROR, "0x2330");
    feed(talk, "{\"id\":2,\"type\":\"prepared\",\"released\":[{\"path\":\"0000:00/02.1/00.0\"},"
               "{\"path\":\"0000:00/03.1/00.0\",\"vendor\":\"0x10DE\",\"device\":\"0x2330\"}]}\n");
    assert_next(talk, VG_GUEST_PREPARED, "released");
    /* What is taken up needs no such list. */
    g_free(vg_guest_talk_order(talk, 3, "resume", 1000, devices, NULL));
    feed(talk, "{\"id\":3,\"type\":\"resumed\"}\n");
    assert_next(talk, VG_GUEST_RESUMED, "again");
}

/* ---- limits ---- */

static void
test_longest_line(void **state)
{
    g_autoptr(vg_guest_talk) talk = greeted();
    g_autoptr(GError) err = NULL;
    g_autofree char *blanks = g_strnfill(VG_GUEST_LINE_MAX, ' ');
    static const char end[] = "{\"id\":2,\"type\":\"prepared\"," RELEASED "}";

    (void)state;
    memcpy(blanks + VG_GUEST_LINE_MAX - strlen(end), end, strlen(end));
    feed(talk, blanks);
    feed(talk, "\n");
    assert_next(talk, VG_GUEST_PREPARED, "released");
    feed(talk, blanks);
    assert_int_equal(vg_guest_talk_feed(talk, " ", 1, &err), -1);
    assert_int_equal(err->code, VG_E_EXTERNAL);
    assert_non_null(strstr(err->message, "131072"));
}

static void
test_most_messages(void **state)
{
    g_autoptr(vg_guest_talk) talk = greeted();

    (void)state;
    /* The answer to the hello was the first. */
    for (int i = 1; i < VG_GUEST_MESSAGES_MAX; i++)
        feed(talk, "{\"id\":9,\"type\":\"progress\"}\n");
    assert_nothing(talk);
    feed(talk, "\n");
    assert_broken(talk, "more than 1000 messages");
}

static void
test_most_bytes(void **state)
{
    g_autoptr(vg_guest_talk) talk = vg_guest_talk_new();
    g_autoptr(GError) err = NULL;
    g_autofree char *mess = g_strnfill(VG_GUEST_BYTES_MAX, 'x');

    (void)state;
    feed(talk, mess);
    assert_nothing(talk);
    assert_int_equal(vg_guest_talk_feed(talk, "x", 1, &err), -1);
    assert_int_equal(err->code, VG_E_EXTERNAL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),           cmocka_unit_test(test_earlier_hosts),
        cmocka_unit_test(test_other_version),   cmocka_unit_test(test_answers),
        cmocka_unit_test(test_strange_members), cmocka_unit_test(test_no_protocol),
        cmocka_unit_test(test_released),        cmocka_unit_test(test_released_by_type),
        cmocka_unit_test(test_longest_line),    cmocka_unit_test(test_most_messages),
        cmocka_unit_test(test_most_bytes),      cmocka_unit_test(test_programs),
        cmocka_unit_test(test_status),
    };

    return cmocka_run_group_tests_name("guest-talk", tests, NULL, NULL);
}
