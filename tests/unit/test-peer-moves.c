/* SPDX-License-Identifier: Apache-2.0
 *
 * The documents that a move exchanges with another vgpud. The connection is a double: it keeps what
 * was sent, and answers with a fixed text.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "base/error.h"
#include "base/json.h"
#include "cluster/peer-moves.h"
#include "cluster/peers-private.h"

#define LIMIT_NS 7

static struct {
    const char *answer; /* NULL: the peer cannot be reached; "404": it has no such thing */
    char *method;
    char *path;
    char *body;
    const struct vg_asker *asker;
    const char *key;
    char *forecast;
} sent;

int
peers_request(vg_peers *peers, const char *name, const struct peers_question *question,
              json_object **ret, GError **err)
{
    assert_null(peers);
    assert_string_equal(name, "left");
    assert_int_equal(question->limit_ns, LIMIT_NS);
    g_free(sent.method);
    g_free(sent.path);
    g_free(sent.body);
    sent.method = g_strdup(question->method);
    sent.path = g_strdup(question->path);
    sent.body = g_strdup(question->body);
    sent.asker = question->asker;
    sent.key = question->key;
    g_free(sent.forecast);
    sent.forecast = g_strdup(question->forecast);
    if (!sent.answer)
        return vg_error(err, VG_E_UNREACHABLE, "peer 'left': nobody is there");
    if (strcmp(sent.answer, "404") == 0)
        return vg_error(err, VG_E_NOT_FOUND, "peer 'left': there is no such thing");
    if (*sent.answer)
        *ret = vg_json_parse(sent.answer, strlen(sent.answer), 65536, 16, err);
    return *ret || !*sent.answer ? 0 : -1;
}

static void
assert_sent(const char *method, const char *path)
{
    assert_string_equal(sent.method, method);
    assert_string_equal(sent.path, path);
}

static void
assert_error(GError **error, int code, const char *text)
{
    assert_true(g_error_matches(*error, VG_ERROR, code));
    assert_string_equal((*error)->message, text);
    g_clear_error(error);
}

static const char *
member_of(json_object *object, const char *name)
{
    json_object *value = NULL;

    assert_true(json_object_object_get_ex(object, name, &value));
    return json_object_get_string(value);
}

/* Makes a migration of one VM with one GPU. */
static struct vg_migration *
make_migration(void)
{
    struct vg_migration *migration = vg_migration_new();
    struct vg_move_device *device = vg_record_new(&vg_move_device_record);

    migration->id = g_strdup("move-1");
    migration->vm = g_strdup("guest0");
    migration->uuid = g_strdup("11111111-2222-3333-4444-555555555555");
    migration->from = g_strdup("h1");
    device->kind = VG_MOVE_DEVICE_MDEV;
    device->type = g_strdup("nvidia-63");
    device->alias = g_strdup("ua-gpu0");
    device->source_xml = g_strdup("<hostdev/>");
    g_ptr_array_add(migration->devices, device);
    return migration;
}

#define GIVEN(id, devices)                                                                         \
 "{" id "\"move_id\": \"move-1\", \"vm\": \"guest0\", \"uuid\": \"u\", \"from\": \"h1\", "         \
 "\"lease_s\": 60, \"devices\": [" devices "]}"
#define DEVICE(alias, xml)                                                                         \
 "{\"kind\": \"mdev\", \"type\": \"nvidia-63\", \"alias\": \"" alias "\", "                        \
 "\"source_xml\": \"<hostdev/>\"" xml "}"
#define THERE ", \"target_address\": \"there\", \"target_xml\": \"<there/>\""

static void
test_reserve(void **state)
{
    g_autoptr(vg_migration) migration = make_migration();
    g_autoptr(GError) error = NULL;
    json_object *devices = NULL;
    (void)state;

    sent.answer = GIVEN("\"id\": \"res-1\", ", DEVICE("ua-gpu0", THERE));
    g_autoptr(vg_reservation) given =
        vg_peer_reserve(NULL, "left", migration, 60, LIMIT_NS, &error);
    assert_null(error);
    assert_string_equal(given->id, "res-1");
    assert_string_equal(((struct vg_move_device *)given->devices->pdata[0])->target_xml,
                        "<there/>");
    assert_sent("POST", "/v1/reservations");
    g_autoptr(json_object) body = vg_json_parse(sent.body, strlen(sent.body), 65536, 16, &error);
    assert_string_equal(member_of(body, "move_id"), "move-1");
    assert_string_equal(member_of(body, "vm"), "guest0");
    assert_string_equal(member_of(body, "uuid"), "11111111-2222-3333-4444-555555555555");
    assert_string_equal(member_of(body, "from"), "h1");
    assert_string_equal(member_of(body, "lease_s"), "60");
    assert_true(json_object_object_get_ex(body, "devices", &devices));
    assert_int_equal(json_object_array_length(devices), 1);
    assert_string_equal(member_of(json_object_array_get_idx(devices, 0), "alias"), "ua-gpu0");
}

static void
assert_not_reserved(const char *answer, int code, const char *text)
{
    g_autoptr(vg_migration) migration = make_migration();
    g_autoptr(GError) error = NULL;

    sent.answer = answer;
    assert_null(vg_peer_reserve(NULL, "left", migration, 60, LIMIT_NS, &error));
    assert_error(&error, code, text);
}

/* A target that does not know that a GPU can be named gives no answer about it. */
static void
test_reserve_named_gpu(void **state)
{
    g_autoptr(vg_migration) migration = make_migration();
    struct vg_move_device *device = migration->devices->pdata[0];
    g_autoptr(GError) error = NULL;
    (void)state;

    migration->to = g_strdup("h2");
    device->target_gpu = g_strdup("0000:af:00.0");
    sent.answer = GIVEN("\"id\": \"res-1\", ", DEVICE("ua-gpu0", THERE));
    assert_null(vg_peer_reserve(NULL, "left", migration, 60, LIMIT_NS, &error));
    assert_error(
        &error, VG_E_CONFLICT,
        "'h2' has an older vgpud, which chooses the GPU itself instead of using 0000:af:00.0 as "
        "planned; make a new plan");
    sent.answer =
        GIVEN("\"id\": \"res-1\", ", DEVICE("ua-gpu0", ", \"target_gpu\": \"0000:af:00.0\"" THERE));
    g_autoptr(vg_reservation) given =
        vg_peer_reserve(NULL, "left", migration, 60, LIMIT_NS, &error);
    assert_null(error);
    assert_non_null(given);
    assert_sent("POST", "/v1/reservations");
    assert_non_null(strstr(sent.body, "\"target_gpu\":\"0000:af:00.0\""));
}

static void
test_reserve_answers(void **state)
{
    (void)state;
    assert_not_reserved(NULL, VG_E_UNREACHABLE, "peer 'left': nobody is there");
    assert_not_reserved(GIVEN("\"id\": \"res-1\", ", ""), VG_E_EXTERNAL,
                        "the answer has 0 devices instead of 1");
    assert_not_reserved(GIVEN("\"id\": \"res-1\", ", DEVICE("ua-gpu1", THERE)), VG_E_EXTERNAL,
                        "the answer's device 0 is not the requested device");
    assert_not_reserved(GIVEN("\"id\": \"res-1\", ", DEVICE("ua-gpu0", "")), VG_E_EXTERNAL,
                        "the answer's device 0 is not the requested device");
    assert_sent("DELETE", "/v1/reservations/res-1"); /* nobody will use it */
    assert_not_reserved(GIVEN("", DEVICE("ua-gpu0", THERE)), VG_E_EXTERNAL, "the answer has no id");
}

static void
test_check_gpus(void **state)
{
    g_autoptr(vg_migration) migration = make_migration();
    g_autoptr(GError) error = NULL;
    (void)state;

    sent.answer = GIVEN("", DEVICE("ua-gpu0", THERE)); /* without an id: nothing is kept */
    assert_int_equal(vg_peer_check_gpus(NULL, "left", migration, LIMIT_NS, &error), 0);
    assert_sent("POST", "/v1/reservations");
    g_autoptr(json_object) body = vg_json_parse(sent.body, strlen(sent.body), 65536, 16, &error);
    assert_string_equal(member_of(body, "dry_run"), "true");
    sent.answer = GIVEN("", "");
    assert_int_equal(vg_peer_check_gpus(NULL, "left", migration, LIMIT_NS, &error), -1);
    assert_error(&error, VG_E_EXTERNAL, "the answer has 0 devices instead of 1");
    sent.answer = NULL;
    assert_int_equal(vg_peer_check_gpus(NULL, "left", migration, LIMIT_NS, &error), -1);
    assert_error(&error, VG_E_UNREACHABLE, "peer 'left': nobody is there");
}

static void
test_renew_and_release(void **state)
{
    g_autoptr(GError) error = NULL;
    (void)state;

    sent.answer = "{}";
    assert_int_equal(vg_peer_renew(NULL, "left", "res-1", 90, LIMIT_NS, &error), 0);
    assert_sent("POST", "/v1/reservations/res-1");
    assert_string_equal(g_strchomp(sent.body), "{\"lease_s\":90}");
    sent.answer = "";
    assert_int_equal(vg_peer_release(NULL, "left", "res/../1", LIMIT_NS, &error), 0);
    assert_sent("DELETE", "/v1/reservations/res%2F..%2F1");
    assert_null(sent.body);
    sent.answer = "404"; /* the lease has ended */
    assert_int_equal(vg_peer_release(NULL, "left", "res-1", LIMIT_NS, &error), 0);
    assert_null(error);
    sent.answer = NULL;
    assert_int_equal(vg_peer_release(NULL, "left", "res-1", LIMIT_NS, &error), -1);
    assert_error(&error, VG_E_UNREACHABLE, "peer 'left': nobody is there");
}

static GPtrArray *
look_at(guint n, GError **err)
{
    g_autoptr(GPtrArray) paths = g_ptr_array_new();

    g_ptr_array_add(paths, (char *)"/a");
    while (paths->len < n)
        g_ptr_array_add(paths, (char *)"/b");
    return vg_peer_look_at_paths(NULL, "left", paths, LIMIT_NS, err);
}

static void
test_paths(void **state)
{
    g_autoptr(GError) err = NULL;

    (void)state;
    sent.answer = "{\"items\": [{\"path\": \"/a\", \"state\": \"there\", \"kind\": \"file\", "
                  "\"file_system\": \"nfs4\", \"shared\": true}, "
                  "{\"path\": \"/b\", \"state\": \"unknown\", \"why\": \"closed\"}]}";
    g_autoptr(GPtrArray) seen = look_at(2, &err);
    assert_sent("POST", "/v1/paths");
    assert_string_equal(sent.body, "{\"paths\":[\"/a\",\"/b\"]}\n");
    assert_int_equal(seen->len, 2);
    const struct vg_path_seen *first = seen->pdata[0], *second = seen->pdata[1];
    assert_string_equal(first->file_system, "nfs4");
    assert_int_equal(first->kind, VG_PATH_FILE);
    assert_string_equal(second->why, "closed");
    assert_null(look_at(3, &err));
    assert_error(&err, VG_E_EXTERNAL, "the answer's item 2 is not about '/b'");
    assert_null(look_at(VG_PATHS_MAX + 1, &err));
    g_clear_error(&err);
    g_autoptr(json_object) body = vg_json_parse(sent.body, strlen(sent.body), 65536, 16, NULL);
    assert_int_equal(json_object_array_length(json_object_object_get(body, "paths")), VG_PATHS_MAX);
    sent.answer = "{}";
    assert_null(look_at(1, NULL));
    sent.answer = "404";
    assert_null(look_at(1, &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_NOT_FOUND));
}

static void
test_moves(void **state)
{
    g_autoptr(GPtrArray) gpus = g_ptr_array_new();
    struct vg_migration_request request = {.vm = (char *)"guest0",
                                           .to = (char *)"right",
                                           .gpus = gpus,
                                           .forward = true,
                                           .plan_id = (char *)"plan-1",
                                           .key = (char *)"key-1"};
    vg_move_forecast forecast = {.plan_id = (char *)"plan-1",
                                 .rule = (char *)"complement",
                                 .gain_ns_per_s = -5,
                                 .group = 2,
                                 .group_moves = 3};
    const struct vg_peer_order order = {&request, "h2", "uid:7 at h1", &forecast};
    g_autoptr(GError) error = NULL;
    (void)state;

    sent.answer = "[]"; /* not a migration */
    assert_null(vg_peer_start_move(NULL, "left", &order, LIMIT_NS, &error));
    assert_sent("POST", "/v1/migrations");
    assert_true(g_error_matches(error, VG_ERROR, VG_E_EXTERNAL));
    g_clear_error(&error);
    g_autoptr(json_object) body = vg_json_parse(sent.body, strlen(sent.body), 65536, 16, &error);
    assert_string_equal(member_of(body, "vm"), "guest0");
    assert_string_equal(member_of(body, "to"), "h2");
    assert_string_equal(member_of(body, "forward"), "false");
    assert_ptr_equal(sent.asker, &request.asker);
    assert_string_equal(sent.key, "key-1");
    assert_string_equal(member_of(body, "on_behalf_of"), "uid:7 at h1");
    assert_null(json_object_object_get(body, "plan_id"));
    assert_null(strchr(sent.forecast, '\n'));
    g_autoptr(vg_move_forecast) read = vg_move_forecast_from_text(sent.forecast, &error);
    assert_string_equal(read->plan_id, "plan-1");
    assert_string_equal(read->rule, "complement");
    assert_int_equal(read->gain_ns_per_s, -5);
    assert_int_equal(read->group, 2);
    assert_int_equal(read->group_moves, 3);
    sent.answer = "";
    assert_null(vg_peer_read_move(NULL, "left", "move 1", LIMIT_NS, &error));
    assert_sent("GET", "/v1/migrations/move%201");
    assert_true(g_error_matches(error, VG_ERROR, VG_E_EXTERNAL));
    g_clear_error(&error);
    sent.answer = NULL;
    assert_null(
        vg_peer_change_move(NULL, "left", "move-1", "abort", "uid:7 at h1", LIMIT_NS, &error));
    assert_sent("POST", "/v1/migrations/move-1/abort");
    assert_error(&error, VG_E_UNREACHABLE, "peer 'left': nobody is there");
    sent.answer = "{\"dry_run\": true}";
    g_autoptr(json_object) document = vg_peer_check_move(NULL, "left", &order, LIMIT_NS, &error);
    assert_string_equal(member_of(document, "dry_run"), "true");
}

/* Only those that are done and went there are read, each by itself. */
static void
test_moves_to(void **state)
{
    g_autoptr(GError) error = NULL;
    (void)state;

    sent.answer = "{\"items\": [{\"id\": \"move-1\", \"to\": \"h1\", \"state\": \"done\"}, "
                  "{\"id\": \"move-2\", \"to\": \"h1\", \"state\": \"failed\"}, 7, "
                  "{\"id\": \"move-3\", \"to\": \"h3\", \"state\": \"done\"}], \"next\": null}";
    g_autoptr(GPtrArray) moves = vg_peer_moves_to(NULL, "left", "h1", 10, LIMIT_NS, &error);
    assert_sent("GET", "/v1/migrations/move-1");
    assert_int_equal(moves->len, 0); /* the double answers with the list again, which is no move */
    g_autoptr(GPtrArray) none = vg_peer_moves_to(NULL, "left", "h9", 10, LIMIT_NS, &error);
    assert_sent("GET", "/v1/migrations?limit=10");
    assert_int_equal(none->len, 0);
    sent.answer = "{\"items\": 5}";
    g_autoptr(GPtrArray) odd = vg_peer_moves_to(NULL, "left", "h1", 10, LIMIT_NS, &error);
    assert_int_equal(odd->len, 0);
    sent.answer = NULL;
    assert_null(vg_peer_moves_to(NULL, "left", "h1", 10, LIMIT_NS, &error));
    assert_error(&error, VG_E_UNREACHABLE, "peer 'left': nobody is there");
}

static void
test_samples(void **state)
{
    g_autoptr(GError) error = NULL;
    (void)state;

    sent.answer = "{\"items\": [{\"begin_ns\": 1, \"end_ns\": 4, \"preempt_ns\": 2, "
                  "\"wake_wait_ns\": 1, \"run_ns\": 9}, 5]}";
    g_autoptr(GArray) samples = vg_peer_samples(NULL, "left", "u-1", 1000, 1300, LIMIT_NS, &error);
    assert_sent("GET", "/v1/vms/u-1/samples?step=1s&since=1000&until=1300");
    assert_int_equal(samples->len, 2);
    const struct vg_peer_sample *sample = &g_array_index(samples, struct vg_peer_sample, 0);
    assert_int_equal(sample->begin_ns, 1);
    assert_int_equal(sample->end_ns, 4);
    assert_int_equal(sample->preempt_ns, 2);
    assert_int_equal(sample->wake_wait_ns, 1);
    assert_int_equal(sample[1].end_ns, 0); /* not a row: it counts for nothing */
    sent.answer = NULL;
    assert_null(vg_peer_samples(NULL, "left", "u-1", 1000, 1300, LIMIT_NS, &error));
    assert_error(&error, VG_E_UNREACHABLE, "peer 'left': nobody is there");
}

static int
forget_sent(void **state)
{
    (void)state;
    g_clear_pointer(&sent.method, g_free);
    g_clear_pointer(&sent.path, g_free);
    g_clear_pointer(&sent.body, g_free);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_reserve, forget_sent),
        cmocka_unit_test_teardown(test_reserve_named_gpu, forget_sent),
        cmocka_unit_test_teardown(test_reserve_answers, forget_sent),
        cmocka_unit_test_teardown(test_check_gpus, forget_sent),
        cmocka_unit_test_teardown(test_renew_and_release, forget_sent),
        cmocka_unit_test_teardown(test_paths, forget_sent),
        cmocka_unit_test_teardown(test_moves, forget_sent),
        cmocka_unit_test_teardown(test_moves_to, forget_sent),
        cmocka_unit_test_teardown(test_samples, forget_sent),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
