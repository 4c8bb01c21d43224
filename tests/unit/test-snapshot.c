/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots: round trip, order, hashes, limits, versions, merging.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "base/error.h"
#include "model/snapshot.h"

#define VM_BODY                                                                                    \
 "\"vcpus\":1,\"class\":\"cpu\",\"cpu_intensity\":0.9,\"gpu_intensity\":0,"                        \
 "\"gpu_known\":false,\"run_share\":0.5,\"preempt_share\":0.4,\"wake_wait_share\":0,"              \
 "\"preemptions_per_s\":20"
#define VM(name)            "{\"name\":\"" name "\"," VM_BODY "}"
#define VM_WITH(name, more) "{\"name\":\"" name "\"," VM_BODY "," more "}"
#define HOST(name, vms)     "{\"name\":\"" name "\",\"cpus\":2,\"vms\":[" vms "]}"
#define HOST_WITH_GPU(more)                                                                        \
 "{\"name\":\"h\",\"cpus\":2,\"vms\":[],\"gpus\":[{\"device\":\"d\"," more "}]}"
#define HEAD       "{\"schema\":\"vgpud.snapshot\",\"version\":1,\"source\":\"trace\","
#define DOC(hosts) HEAD "\"begin_ns\":10,\"end_ns\":20,\"hosts\":[" hosts "]}"

static vg_snapshot *
read_text(const char *text, GError **err)
{
    return vg_snapshot_from_json(text, strlen(text), err);
}

static char *
write_text(const vg_snapshot *snapshot)
{
    g_autoptr(json_object) document = vg_snapshot_to_json(snapshot);
    return vg_json_to_text(document, false);
}

static void
add_gpu_things(struct vg_snap_host *host, struct vg_snap_vm *vm)
{
    struct vg_snap_gpu *gpu = vg_snap_host_add_gpu(host, "card1");
    gpu->memory_bytes = 1000;
    gpu->memory_free_bytes = 400;
    struct vg_snap_vgpu_type *type = vg_record_new(&vg_snap_vgpu_type_record);
    type->type = g_strdup("t4");
    type->free = 2;
    g_ptr_array_add(gpu->vgpu_types, type);
    struct vg_snap_engine *engine = vg_record_new(&vg_snap_engine_record);
    engine->engine = g_strdup("rcs0");
    engine->share = 0.5;
    g_ptr_array_add(gpu->engines, engine);
    struct vg_snap_gpu_use *use = vg_record_new(&vg_snap_gpu_use_record);
    use->device = g_strdup("card1");
    use->engine = g_strdup("rcs0");
    use->vgpu_type = g_strdup("t4");
    use->share = 0.25;
    g_ptr_array_add(vm->gpu, use);
}

static void
add_proxy(struct vg_snap_host *host)
{
    struct vg_snap_proxy *proxy = vg_record_new(&vg_snap_proxy_record);
    struct vg_snap_proxy_socket *socket = vg_record_new(&vg_snap_proxy_socket_record);

    proxy->at = g_strdup("/run/ask");
    socket->socket = g_strdup("/run/0");
    socket->weight = 1;
    socket->reserved_bytes = 7;
    g_ptr_array_add(proxy->sockets, socket);
    g_ptr_array_add(host->proxies, proxy);
}

/* Every member set to something that is not its zero value. */
static vg_snapshot *
make_full(void)
{
    vg_snapshot *snapshot = vg_snapshot_new(VG_SOURCE_LIVE);
    snapshot->begin_ns = -5;
    snapshot->end_ns = 7;
    snapshot->clock_offset_ns = INT64_C(1700000000000000000);
    snapshot->note = g_strdup("a \"note\"");
    vg_snapshot_add_host(snapshot, "zeta");
    struct vg_snap_host *host = vg_snapshot_add_host(snapshot, "alpha");
    host->cpus = 8;
    host->cpu_model = g_strdup("Skylake");
    host->memory_bytes = 100;
    host->memory_free_bytes = 50;
    host->maintenance = true;
    host->lost_events = 3;
    const double own[] = {0.25, 0};
    host->own_share = 0.125;
    host->own_known = true;
    host->own_profile.window_ns = 1000000000;
    g_array_append_vals(host->own_profile.cpu, own, 2);
    vg_snap_host_add_vm(host, "vm-b");
    struct vg_snap_vm *vm = vg_snap_host_add_vm(host, "vm-a");
    vm->uuid = g_strdup("11111111-2222-3333-4444-555555555555");
    vm->pid = 120;
    vm->vcpus = 2;
    vm->memory_bytes = 4096;
    vm->vm_class = VG_CLASS_MIXED;
    vm->cpu_intensity = 1.0 / 3;
    vm->gpu_known = true;
    vm->run_share = 0.75;
    vm->pinned = true;
    vm->profile.window_ns = 1000000000;
    const int32_t cpus[] = {5, 1, 5};
    const double cpu[] = {0.5, 0.123456789};
    const double gpu[] = {0, 1};
    g_array_append_vals(vm->cpus, cpus, 3);
    g_array_append_vals(vm->profile.cpu, cpu, 2);
    g_array_append_vals(vm->profile.gpu, gpu, 2);
    g_ptr_array_add(vm->affinity, g_strdup("y"));
    g_ptr_array_add(vm->affinity, g_strdup("x"));
    g_ptr_array_add(vm->anti_affinity, g_strdup("z"));
    add_gpu_things(host, vm);
    add_proxy(host);
    assert_int_equal(vg_snapshot_seal(snapshot, NULL), 0);
    return snapshot;
}

static void
test_round_trip(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) snapshot = make_full();
    g_autofree char *text = write_text(snapshot);
    g_autoptr(GError) err = NULL;
    g_autoptr(vg_snapshot) again = read_text(text, &err);
    if (!again)
        fail_msg("%s", err->message);
    g_autofree char *text_again = write_text(again);
    assert_string_equal(text, text_again);
    g_autofree char *hash = vg_snapshot_hash(snapshot);
    g_autofree char *hash_again = vg_snapshot_hash(again);
    assert_string_equal(hash, hash_again);

    const struct vg_snap_host *host = vg_snapshot_find_host(again, "alpha");
    assert_non_null(host);
    assert_null(vg_snapshot_find_host(again, "beta"));
    assert_ptr_equal(host, again->hosts->pdata[0]); /* sorted */
    assert_true(host->own_share == 0.125);
    assert_true(host->own_known);
    assert_int_equal(host->own_profile.cpu->len, 2);
    assert_true(g_array_index(host->own_profile.cpu, double, 0) == 0.25);
    const struct vg_snap_vm *vm = host->vms->pdata[0];
    assert_string_equal(vm->name, "vm-a");
    assert_int_equal(vm->cpus->len, 2); /* 1, 5: sorted, once each */
    assert_int_equal(g_array_index(vm->cpus, int32_t, 0), 1);
    assert_string_equal(vm->affinity->pdata[0], "x");
    assert_true(vm->cpu_intensity == 0.333333);
    assert_int_equal(vm->vm_class, VG_CLASS_MIXED);
    assert_true(g_array_index(vm->profile.gpu, double, 1) == 1.0);
    const struct vg_snap_proxy *proxy = host->proxies->pdata[0];
    const struct vg_snap_proxy_socket *socket = proxy->sockets->pdata[0];
    assert_int_equal(socket->reserved_bytes, 7);
}

static void
test_order_does_not_matter(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) a =
        read_text(DOC(HOST("h1", VM("x") "," VM("y")) "," HOST("h2", "")), NULL);
    g_autoptr(vg_snapshot) b = read_text(
        "{\"hosts\":[" HOST("h2", "") "," HOST(
            "h1",
            VM("y") "," VM("x")) "], \"future\":[1],"
                                 "\"end_ns\":20,\"begin_ns\":10,\"source\":\"trace\",\"version\":1,"
                                 "\"schema\":\"vgpud.snapshot\"}",
        NULL);
    assert_non_null(a);
    assert_non_null(b);
    g_autofree char *hash_a = vg_snapshot_hash(a);
    g_autofree char *hash_b = vg_snapshot_hash(b);
    assert_string_equal(hash_a, hash_b);

    g_autoptr(vg_snapshot) c = read_text(DOC(HOST("h1", VM("x")) "," HOST("h2", VM("y"))), NULL);
    g_autofree char *hash_c = vg_snapshot_hash(c);
    assert_string_not_equal(hash_a, hash_c);
}

static void
test_inheritance(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) snapshot = read_text(
        DOC(HOST("h1", "") ",{\"name\":\"h2\",\"cpus\":1,\"vms\":[],\"source\":\"example\","
                           "\"begin_ns\":0}"),
        NULL);
    assert_non_null(snapshot);
    const struct vg_snap_host *h1 = snapshot->hosts->pdata[0];
    const struct vg_snap_host *h2 = snapshot->hosts->pdata[1];
    assert_int_equal(h1->source, VG_SOURCE_TRACE);
    assert_int_equal(h1->begin_ns, 10);
    assert_int_equal(h2->source, VG_SOURCE_EXAMPLE);
    assert_int_equal(h2->begin_ns, 0);
    assert_int_equal(h2->end_ns, 20);
}

static void
test_facts_hash(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) before = make_full();
    g_autoptr(vg_snapshot) after = make_full();
    struct vg_snap_host *host = after->hosts->pdata[0];
    struct vg_snap_vm *vm = host->vms->pdata[0];
    const struct vg_snap_host *old_host = before->hosts->pdata[0];
    g_autofree char *host_before = vg_snap_host_facts_hash(old_host);
    g_autofree char *vm_before = vg_snap_vm_facts_hash(old_host, old_host->vms->pdata[0]);

    /* Measurements move on. */
    vm->run_share = 0.1;
    vm->vm_class = VG_CLASS_IDLE;
    host->memory_free_bytes = 1;
    ((struct vg_snap_gpu_use *)vm->gpu->pdata[0])->share = 0.9;
    g_autofree char *host_same = vg_snap_host_facts_hash(host);
    g_autofree char *vm_same = vg_snap_vm_facts_hash(host, vm);
    assert_string_equal(host_before, host_same);
    assert_string_equal(vm_before, vm_same);

    /* Facts drift. */
    host->maintenance = false;
    vm->never_move = true;
    g_autofree char *host_drifted = vg_snap_host_facts_hash(host);
    g_autofree char *vm_drifted = vg_snap_vm_facts_hash(host, vm);
    assert_string_not_equal(host_before, host_drifted);
    assert_string_not_equal(vm_before, vm_drifted);
    vm->never_move = false;
    g_autofree char *vm_elsewhere = vg_snap_vm_facts_hash(after->hosts->pdata[1], vm);
    assert_string_not_equal(vm_before, vm_elsewhere);
}

static void
test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"[]", "must be an object"},
        {"5", "must be an object, but is int"},
        {"null", "must be an object, but is null"},
        {"{}", "schema: is missing"},
        {"{\"schema\":\"x\"}", "schema: 'x' is not 'vgpud.snapshot'"},
        {"{\"schema\":\"vgpud.snapshot\",\"version\":2}",
         "version 2, this program reads up to version 1"},
        {"{\"schema\":\"vgpud.snapshot\",\"version\":0}", "version: 0 is out of range"},
        {HEAD "\"hosts\":{}}", "hosts: must be an array"},
        {HEAD "\"note\":1,\"hosts\":[]}", "note: must be a string"},
        {HEAD "\"begin_ns\":2,\"end_ns\":1,\"hosts\":[]}", "end is before its start"},
        {DOC(HOST("", "")), "hosts[0].name: must not be empty"},
        {DOC("{\"name\":\"h\",\"cpus\":0,\"vms\":[]}"), "hosts[0].cpus: 0 is out of range"},
        {DOC("{\"name\":\"h\",\"vms\":[]}"), "hosts[0].cpus: is missing"},
        {DOC("{\"name\":\"h\",\"cpus\":1,\"source\":\"merged\"}"), "cannot be 'merged'"},
        {DOC("{\"name\":\"h\",\"cpus\":1,\"memory_bytes\":1,\"memory_free_bytes\":2}"),
         "free memory exceeds total memory"},
        {DOC(HOST("h", "{\"name\":\"v\"}")), "hosts[0].vms[0].vcpus: is missing"},
        {DOC(HOST("h", VM_WITH("v", "\"cpus\":[8192]"))),
         "hosts[0].vms[0].cpus[0]: 8192 is out of range (0 to 8191)"},
        {DOC(HOST("h", VM_WITH("v", "\"run_share\":65536.1"))),
         "run_share: 65536.1 is out of range (0 to 65536)"},
        {DOC(HOST("h", VM_WITH("v", "\"memory_bytes\":1125899906842625"))),
         "memory_bytes: 1125899906842625 is out of range"},
        {DOC(HOST("h", VM_WITH("v", "\"class\":\"fast\""))), "'fast' is not one of: idle, cpu"},
        {DOC(HOST("h", VM_WITH("v", "\"run_share\":-0.1"))), "run_share: -0.1 is out of range"},
        {DOC(HOST("h", VM_WITH("v", "\"profile\":{\"window_ns\":1,\"cpu\":[1],\"gpu\":[1,1]}"))),
         "1 CPU windows and 2 GPU windows"},
        {DOC(HOST("h", VM_WITH("v", "\"profile\":{\"cpu\":[1]}"))), "profile without window_ns"},
        {DOC("{\"name\":\"h\",\"cpus\":1,\"own_profile\":{\"cpu\":[1]}}"),
         "own_profile without window_ns"},
        {DOC("{\"name\":\"h\",\"cpus\":1,\"own_profile\":{\"window_ns\":1,\"cpu\":[1],\"gpu\":[1]}"
             "}"),
         "the own_profile has GPU windows"},
        {DOC(HOST("h", VM_WITH("v", "\"gpu\":[{\"device\":\"d\",\"engine\":\"e\",\"share\":1},"
                                    "{\"device\":\"d\",\"engine\":\"e\",\"share\":1}]"))),
         "GPU 'd' engine 'e' twice"},
        {DOC(HOST_WITH_GPU(
             "\"engines\":[{\"engine\":\"a\",\"share\":0},{\"engine\":\"b\",\"share\":0},"
             "{\"engine\":\"a\",\"share\":0}]")),
         "GPU 'd': engine 'a' twice"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) err = NULL;
        g_autoptr(vg_snapshot) snapshot = read_text(cases[i].text, &err);
        if (snapshot)
            fail_msg("case %zu was accepted: %s", i, cases[i].text);
        assert_true(g_error_matches(err, VG_ERROR, VG_E_INVALID));
        if (!strstr(err->message, cases[i].message))
            fail_msg("'%s' does not say '%s'", err->message, cases[i].message);
    }
}

/* n times "item", with commas. */
static char *
repeat(const char *item, size_t n)
{
    GString *text = g_string_new(NULL);
    for (size_t i = 0; i < n; i++)
        g_string_append_printf(text, "%s%s", i ? "," : "", item);
    return g_string_free(text, FALSE);
}

static bool
accepts(char *take_text)
{
    g_autofree char *text = take_text;
    g_autoptr(vg_snapshot) snapshot = read_text(text, NULL);
    return snapshot != NULL;
}

static char *
profile_doc(size_t n)
{
    g_autofree char *values = repeat("1", n);
    return g_strdup_printf(
        DOC(HOST("h", VM_WITH("v", "\"profile\":{\"window_ns\":1,\"cpu\":[%s]}"))), values);
}

static char *
name_doc(size_t n)
{
    g_autofree char *name = g_strnfill(n, 'n');
    return g_strdup_printf(DOC(HOST("%s", "")), name);
}

static char *
hosts_doc(size_t n)
{
    GString *hosts = g_string_new(NULL);
    for (size_t i = 0; i < n; i++)
        g_string_append_printf(hosts, "%s{\"name\":\"h%zu\",\"cpus\":1}", i ? "," : "", i);
    g_autofree char *text = g_string_free(hosts, FALSE);
    return g_strdup_printf(DOC("%s"), text);
}

/* The document itself is the first level; nobody reads what is in x. */
static char *
nested_doc(size_t levels)
{
    g_autofree char *open = g_strnfill(levels - 1, '[');
    g_autofree char *shut = g_strnfill(levels - 1, ']');
    return g_strdup_printf(HEAD "\"hosts\":[],\"x\":%s1%s}", open, shut);
}

/* Also what was made in memory keeps to the number of uses that the policy has room for. */
static void
test_most_uses(void **state)
{
    (void)state;
    for (int n = VG_SNAPSHOT_GPU_USES_MAX; n <= VG_SNAPSHOT_GPU_USES_MAX + 1; n++) {
        g_autoptr(GError) err = NULL;
        g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
        struct vg_snap_vm *vm = vg_snap_host_add_vm(vg_snapshot_add_host(snapshot, "h"), "v");
        for (int i = 0; i < n; i++) {
            struct vg_snap_gpu_use *use = vg_record_new(&vg_snap_gpu_use_record);
            use->device = g_strdup_printf("card%d", i);
            use->engine = g_strdup("rcs0");
            g_ptr_array_add(vm->gpu, use);
        }
        bool fits = n == VG_SNAPSHOT_GPU_USES_MAX;
        assert_int_equal(vg_snapshot_seal(snapshot, &err), fits ? 0 : -1);
        if (!fits)
            assert_non_null(strstr(err->message, "65 uses of GPU engines, more than 64"));
    }
}

static void
test_limits(void **state)
{
    (void)state;
    assert_true(accepts(profile_doc(VG_SNAPSHOT_PROFILE_MAX)));
    assert_false(accepts(profile_doc(VG_SNAPSHOT_PROFILE_MAX + 1)));
    assert_true(accepts(name_doc(VG_SNAPSHOT_NAME_MAX)));
    assert_false(accepts(name_doc(VG_SNAPSHOT_NAME_MAX + 1)));
    assert_true(accepts(hosts_doc(VG_SNAPSHOT_HOSTS_MAX)));
    assert_false(accepts(hosts_doc(VG_SNAPSHOT_HOSTS_MAX + 1)));
    assert_true(accepts(nested_doc(VG_SNAPSHOT_DEPTH_MAX)));
    assert_false(accepts(nested_doc(VG_SNAPSHOT_DEPTH_MAX + 1)));
}

static void
test_merge(void **state)
{
    (void)state;
    g_autoptr(GError) err = NULL;
    g_autoptr(vg_snapshot) a = read_text(
        HEAD "\"note\":\"one\",\"begin_ns\":10,\"end_ns\":20,\"hosts\":[" HOST("h2", "") "]}",
        NULL);
    g_autoptr(vg_snapshot) b = read_text(
        "{\"schema\":\"vgpud.snapshot\",\"version\":1,\"source\":\"example\",\"note\":\"two\","
        "\"begin_ns\":0,\"end_ns\":5,\"hosts\":[" HOST("h1", VM_WITH("v", "\"uuid\":\"u\"")) "]}",
        NULL);
    const vg_snapshot *parts[] = {a, b};
    const char *labels[] = {"a.json", "b.json"};
    g_autoptr(vg_snapshot) whole = vg_snapshot_merge(parts, labels, 2, NULL);
    assert_non_null(whole);
    assert_true(whole->sealed);
    assert_int_equal(whole->source, VG_SOURCE_MERGED);
    assert_int_equal(whole->begin_ns, 0);
    assert_int_equal(whole->end_ns, 20);
    assert_string_equal(whole->note, "one; two");
    const struct vg_snap_host *h1 = whole->hosts->pdata[0];
    assert_string_equal(h1->name, "h1");
    assert_int_equal(h1->source, VG_SOURCE_EXAMPLE);
    assert_int_equal(h1->end_ns, 5);

    /* A merged one can be written, read and merged on. */
    g_autofree char *text = write_text(whole);
    g_autoptr(vg_snapshot) again = read_text(text, NULL);
    assert_non_null(again);
    g_autofree char *hash = vg_snapshot_hash(whole);
    g_autofree char *hash_again = vg_snapshot_hash(again);
    assert_string_equal(hash, hash_again);
    g_autoptr(vg_snapshot) alone = vg_snapshot_merge(&parts[1], labels, 1, NULL);
    assert_true(alone->sealed);
    assert_int_equal(alone->source, VG_SOURCE_EXAMPLE);

    parts[1] = whole;
    assert_null(vg_snapshot_merge(parts, labels, 2, &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_CONFLICT));
    assert_string_equal(err->message, "host 'h2' is in a.json and in b.json");

    g_clear_error(&err);
    g_autoptr(vg_snapshot) c = read_text(DOC(HOST("h3", VM_WITH("w", "\"uuid\":\"u\""))), NULL);
    parts[0] = b;
    parts[1] = c;
    assert_null(vg_snapshot_merge(parts, labels, 2, &err));
    assert_string_equal(err->message, "VM UUID 'u' is in a.json and in b.json");

    g_clear_error(&err);
    g_autoptr(vg_snapshot) d = read_text(DOC(HOST("h4", VM_WITH("w", "\"uuid\":\"U\""))), NULL);
    parts[1] = d;
    assert_null(vg_snapshot_merge(parts, labels, 2, &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_CONFLICT));
}

/* Inside one document as in two: a conflict, which has an exit code of its own. */
static void
test_duplicates(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {DOC(HOST("h", "") "," HOST("h", "")), "host 'h' appears twice"},
        {DOC(HOST("h", VM("v") "," VM("v"))), "host 'h': VM 'v' twice"},
        {DOC(HOST("h", VM_WITH("v", "\"uuid\":\"u\"")) "," HOST("i",
                                                                VM_WITH("w", "\"uuid\":\"u\""))),
         "VM 'w': UUID u appears twice"},
        {DOC(HOST("h", VM_WITH("v", "\"uuid\":\"aB\"") "," VM_WITH("w", "\"uuid\":\"Ab\""))),
         "VM 'w': UUID ab appears twice"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) err = NULL;
        g_autoptr(vg_snapshot) snapshot = read_text(cases[i].text, &err);
        if (snapshot)
            fail_msg("case %zu was accepted: %s", i, cases[i].text);
        assert_true(g_error_matches(err, VG_ERROR, VG_E_CONFLICT));
        assert_non_null(strstr(err->message, cases[i].message));
    }
}

/* The same snapshot to the hash, whoever wrote its UUIDs. */
static void
test_uuids_have_one_spelling(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) lower =
        read_text(DOC(HOST("h", VM_WITH("v", "\"uuid\":\"6a1f\""))), NULL);
    g_autoptr(vg_snapshot) upper =
        read_text(DOC(HOST("h", VM_WITH("v", "\"uuid\":\"6A1F\""))), NULL);
    g_autofree char *hash = vg_snapshot_hash(lower);
    g_autofree char *hash_upper = vg_snapshot_hash(upper);
    assert_string_equal(hash, hash_upper);
}

static void
test_example_file(void **state)
{
    (void)state;
    const char *root = getenv("VG_SRCDIR");
    g_autofree char *path =
        g_build_filename(root ? root : ".", "data", "demo", "gpu-host.snapshot.json", NULL);
    g_autofree char *text = NULL;
    size_t size = 0;
    assert_true(g_file_get_contents(path, &text, &size, NULL));
    g_autoptr(GError) err = NULL;
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_from_json(text, size, &err);
    if (!snapshot)
        fail_msg("%s", err->message);
    assert_int_equal(snapshot->source, VG_SOURCE_EXAMPLE);
    assert_non_null(strstr(snapshot->note, "example"));
    const struct vg_snap_host *host = snapshot->hosts->pdata[0];
    assert_int_equal(host->vms->len, 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_order_does_not_matter),
        cmocka_unit_test(test_inheritance),  cmocka_unit_test(test_facts_hash),
        cmocka_unit_test(test_refused),      cmocka_unit_test(test_limits),
        cmocka_unit_test(test_most_uses),    cmocka_unit_test(test_merge),
        cmocka_unit_test(test_duplicates),   cmocka_unit_test(test_uuids_have_one_spelling),
        cmocka_unit_test(test_example_file),
    };
    return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
