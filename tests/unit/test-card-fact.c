/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory and profiles of GPUs from NVIDIA's library (a fake one, tests/tools/fake-nvml.c), from
 * descriptions of mdev types, and from the configuration. What none of them reports stays unknown.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <glib/gstdio.h>

#include "collectors/nvml-card.h"
#include "model/inventory.h"
#include "policy/card-groups.h"

#define GIB  (INT64_C(1) << 30)
#define GPU  "0000:c1:00.0"
#define GPU2 "0000:c2:00.0"

/* ---- NVIDIA's library ---- */

/* Returns what a library with this script reports about its only GPU. */
static struct vg_card_fact
read_card(const char *script)
{
    g_autofree char *path = NULL;
    g_autofree char *library =
        g_build_filename(g_getenv("VG_BUILDDIR") ? g_getenv("VG_BUILDDIR") : ".", "tests", "tools",
                         "fake-nvml.so", NULL);
    struct vg_nvml nvml;
    struct vg_card_fact fact;
    vg_nvml_handle handle = NULL;
    GError *err = NULL;
    const int fd = g_file_open_tmp("nvml-XXXXXX", &path, NULL);

    assert_true(fd >= 0 && close(fd) == 0 && g_file_set_contents(path, script, -1, NULL));
    g_setenv("VG_FAKE_NVML", path, TRUE);
    if (vg_nvml_load(library, &nvml, &err) < 0)
        fail_msg("%s", err->message);
    assert_int_equal(nvml.init(), VG_NVML_SUCCESS);
    assert_int_equal(nvml.get_handle(0, &handle), VG_NVML_SUCCESS);
    vg_nvml_card_read(&nvml, handle, GPU, &fact);
    assert_string_equal(fact.device, GPU);
    g_unlink(path);
    return fact;
}

static void
test_nvml(void **state)
{
    (void)state;
    /* A whole GPU: its memory alone. */
    struct vg_card_fact fact = read_card("gpu 0:c1:0 NVIDIA H200\nmemory 5 143771\n");
    assert_int_equal(fact.memory_bytes, INT64_C(143771) << 20);
    assert_int_equal(fact.vgpu_bytes, 0);
    assert_int_equal(fact.profiles, VG_PROFILES_UNKNOWN);
    /* One with vGPUs, which share more than it reports as its memory. */
    fact = read_card("gpu 0:c1:0 Tesla T4\nmemory 300 15360\nvgpu-type 230 1024 16\n"
                     "vgpu-type 232 4096 4\nvgpu-type 234 16384 1\nheterogeneous 0\n");
    assert_int_equal(fact.memory_bytes, 15 * GIB);
    assert_int_equal(fact.vgpu_bytes, 16 * GIB);
    assert_int_equal(fact.profiles, VG_PROFILES_HOMOGENEOUS);
    fact = read_card("gpu 0:c1:0 L40\nvgpu-type 1 2048 24\nheterogeneous 1\n");
    assert_int_equal(fact.memory_bytes, 0);
    assert_int_equal(fact.vgpu_bytes, 48 * GIB);
    assert_int_equal(fact.profiles, VG_PROFILES_MIXED);
    /* A size that overflows is no size. */
    fact = read_card("gpu 0:c1:0 X\nvgpu-type 1 4194304 4000000000\n");
    assert_int_equal(fact.vgpu_bytes, 0);
}

/* ---- snapshots ---- */

static struct vg_snap_gpu *
add_gpu(struct vg_snap_host *host, const char *device, const char *type, int64_t bytes)
{
    struct vg_snap_gpu *gpu = vg_snap_host_add_gpu(host, device);
    struct vg_snap_vgpu_type *one = vg_record_new(&vg_snap_vgpu_type_record);

    one->type = g_strdup(type);
    one->memory_bytes = bytes;
    g_ptr_array_add(gpu->vgpu_types, one);
    return gpu;
}

static struct vg_snap_gpu_use *
add_vm(struct vg_snap_host *host, const char *name, const char *device, const char *type)
{
    struct vg_snap_gpu_use *use = vg_record_new(&vg_snap_gpu_use_record);

    use->device = g_strdup(device);
    use->engine = g_strdup("sm");
    use->vgpu_type = g_strdup(type);
    g_ptr_array_add(vg_snap_host_add_vm(host, name)->gpu, use);
    return use;
}

static void
test_fill_in(void **state)
{
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_LIVE);
    struct vg_snap_host *host = vg_snapshot_add_host(snapshot, "h");
    struct vg_snap_gpu *vgpus = add_gpu(host, GPU, "nvidia-230", GIB);
    struct vg_snap_gpu *whole = add_gpu(host, GPU2, "10de:2331", 0);
    g_autoptr(GArray) facts = g_array_new(FALSE, FALSE, sizeof(struct vg_card_fact));
    const struct vg_card_fact both[] = {{GPU, 15 * GIB, 16 * GIB, VG_PROFILES_HOMOGENEOUS},
                                        {GPU2, 80 * GIB, 96 * GIB, VG_PROFILES_UNKNOWN}};

    (void)state;
    vg_card_facts_fill_in(NULL, host);
    vg_card_facts_count_free(host);
    assert_int_equal(vgpus->memory_bytes, 0);
    g_array_append_vals(facts, both, 2);
    vg_card_facts_fill_in(facts, host);
    add_vm(host, "a", GPU, "nvidia-230");
    add_vm(host, "b", GPU, "nvidia-230");
    vg_card_facts_count_free(host);
    assert_int_equal(vgpus->memory_bytes, 16 * GIB);
    assert_int_equal(vgpus->memory_free_bytes, 14 * GIB);
    assert_int_equal(vgpus->profiles, VG_PROFILES_HOMOGENEOUS);
    assert_int_equal(whole->memory_bytes, 80 * GIB);
    assert_int_equal(whole->memory_free_bytes, 80 * GIB);
    assert_int_equal(whole->profiles, VG_PROFILES_UNKNOWN);
}

static void
test_unknown_stays_unknown(void **state)
{
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_LIVE);
    struct vg_snap_host *host = vg_snapshot_add_host(snapshot, "h");
    struct vg_snap_gpu *gpu = add_gpu(host, GPU, "nvidia-230", GIB);

    (void)state;
    gpu->memory_bytes = 16 * GIB;
    add_vm(host, "a", GPU, "nvidia-230");
    /* A vGPU whose memory nothing reports: what is free is unknown. */
    struct vg_snap_gpu_use *use = add_vm(host, "b", GPU, "nvidia-999");
    vg_card_facts_count_free(host);
    assert_true(gpu->memory_bytes == 0 && gpu->memory_free_bytes == 0);
    gpu->memory_bytes = 16 * GIB;
    use->memory_bytes = 3 * GIB;
    vg_card_facts_count_free(host);
    assert_true(gpu->memory_bytes == 16 * GIB && gpu->memory_free_bytes == 12 * GIB);
    /* A snapshot's own figures remain. */
    gpu->memory_free_bytes = GIB;
    vg_card_facts_count_free(host);
    assert_int_equal(gpu->memory_free_bytes, GIB);
}

/* ---- the configuration ---- */

static void
test_groups(void **state)
{
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_LIVE);
    struct vg_snap_host *host = vg_snapshot_add_host(snapshot, "h");
    struct vg_snap_gpu *first = add_gpu(host, GPU, "a", 0), *second = add_gpu(host, GPU2, "a", 0);
    struct vg_card_config one = {{(char *)"one", (char *)"f", 1}, (char *)"0000:C1:*", 4096, 2};
    struct vg_card_config rest = {{(char *)"rest", (char *)"f", 5}, (char *)"*", 1024, 1};
    g_autoptr(GPtrArray) groups = g_ptr_array_new();
    g_autoptr(GString) errors = g_string_new(NULL);
    struct vg_policy_config config;

    (void)state;
    vg_policy_config_init(&config);
    g_ptr_array_add(groups, &one);
    g_ptr_array_add(groups, &rest);
    vg_card_groups_set(&config, groups, errors);
    assert_string_equal(errors->str, "");
    /* What a driver reports counts. */
    second->profiles = VG_PROFILES_MIXED;
    vg_card_groups_fill_in(&config, host);
    assert_int_equal(first->memory_bytes, 4 * GIB);
    assert_int_equal(first->profiles, VG_PROFILES_MIXED);
    assert_int_equal(second->memory_bytes, GIB);
    assert_int_equal(second->profiles, VG_PROFILES_MIXED);
    one.match = (char *)" ,";
    rest.match = (char *)"3b_00";
    vg_card_groups_set(&config, groups, errors);
    assert_non_null(strstr(
        errors->str, "f:1: [card one] match, the PCI addresses of the group's GPUs, is missing"));
    assert_non_null(strstr(errors->str, "f:5: [card rest] match: a pattern is a PCI address"));
}

/* ---- descriptions of mdev types ---- */

static void
test_descriptions(void **state)
{
    g_autoptr(vg_inventory) inventory = vg_inventory_new("h");
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_LIVE);
    struct vg_snap_host *host = vg_snapshot_add_host(snapshot, "h");
    struct vg_inv_gpu *gpu = vg_inventory_add_gpu(inventory, GPU);
    static const struct {
        const char *type, *name;
        int64_t max;
    } types[] = {
        {"nvidia-230", "GRID T4-1Q", 16}, {"nvidia-232", "GRID T4-4Q", 4}, {"nvidia-9", "T4-x", 9}};

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(types); i++) {
        struct vg_inv_mdev_type *type = vg_record_new(&vg_inv_mdev_type_record);
        type->type = g_strdup(types[i].type);
        type->name = g_strdup(types[i].name);
        type->max_instances = types[i].max;
        g_ptr_array_add(gpu->mdev_types, type);
    }
    vg_inventory_describe(inventory, NULL, host);
    assert_int_equal(((const struct vg_snap_gpu *)host->gpus->pdata[0])->memory_bytes, 16 * GIB);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvml),
        cmocka_unit_test(test_fill_in),
        cmocka_unit_test(test_unknown_stays_unknown),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_descriptions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
