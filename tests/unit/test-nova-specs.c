/* SPDX-License-Identifier: Apache-2.0
 *
 * What extra specs of flavors ask of GPUs; expected is what nova's manual says that they mean.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/nova-specs.h"

static const struct {
    const char *specs;
    int64_t gpus;
    const char *type;                 /* NULL: any */
    const char *required, *forbidden; /* joined by "," */
} cases[] = {
    {"{}", 0, NULL, "", ""},
    {"[]", 0, NULL, "", ""},
    {"{'hw:cpu_policy':'dedicated'}", 0, NULL, "", ""},
    {"{'resources:VGPU':'1'}", 1, NULL, "", ""},
    {"{'resources:VGPU':2}", 2, NULL, "", ""},
    {"{'resources1:VGPU':'1'}", 1, NULL, "", ""},
    {"{'resources_GPU-a:VGPU':'3'}", 3, NULL, "", ""},
    {"{'resources:VGPU':'1','resources1:VGPU':'2','resources_b:VGPU':'4'}", 7, NULL, "", ""},
    {"{'resources:VCPU':'8','resources1:MEMORY_MB':'1'}", 0, NULL, "", ""},
    {"{'resources:VGPU':'0'}", 0, NULL, "", ""},
    {"{'resources:VGPU':'99'}", 64, NULL, "", ""},
    {"{'resources:VGPU':'9999999999999999999999'}", 64, NULL, "", ""},
    {"{'resources:VGPU':'many','resources2:VGPU':'-1','resources3:VGPU':''}", 0, NULL, "", ""},
    {"{'resources a:VGPU':'1','resources:VGPUS':'1','resourcesVGPU':'1'}", 0, NULL, "", ""},
    {"{'vgpud:gpu_type':'nvidia-63'}", 1, "nvidia-63", "", ""},
    {"{'vgpud:gpu_type':'nvidia-63','resources1:VGPU':'0'}", 0, "nvidia-63", "", ""},
    {"{'vgpud:gpu_type':'GRID V100D-8Q','resources1:VGPU':'2'}", 2, "GRID V100D-8Q", "", ""},
    {"{'vgpud:gpu_type':'a\\nb','resources:VGPU':'1'}", 1, NULL, "", ""},
    {"{'vgpud:gpu_type':['x']}", 0, NULL, "", ""},
    {"{'resources:VGPU':'1','trait:CUSTOM_NVIDIA_11':'required'}", 1, NULL, "CUSTOM_NVIDIA_11", ""},
    {"{'resources:VGPU':'1','trait:CUSTOM_NVIDIA_11':'forbidden'}", 1, NULL, "",
     "CUSTOM_NVIDIA_11"},
    {"{'resources1:VGPU':'1','trait1:CUSTOM_A':'required','trait1:CUSTOM_B':'forbidden'}", 1, NULL,
     "CUSTOM_A", "CUSTOM_B"},
    {"{'resources_G:VGPU':'1','trait_G:CUSTOM_A':'required'}", 1, NULL, "CUSTOM_A", ""},
    /* Of another group, which has none, and of no group at all. */
    {"{'resources1:VGPU':'1','trait2:CUSTOM_A':'required'}", 1, NULL, "", ""},
    {"{'resources1:VGPU':'1','resources2:VCPU':'1','trait2:CUSTOM_A':'forbidden'}", 1, NULL, "",
     ""},
    {"{'trait:CUSTOM_A':'required'}", 0, NULL, "", ""},
    {"{'resources:VGPU':'1','trait:CUSTOM_A':'preferred'}", 1, NULL, "", ""},
    /* Only what all of them have holds for all. */
    {"{'resources1:VGPU':'1','trait1:CUSTOM_A':'required','resources2:VGPU':'1','trait2:CUSTOM_B':'"
     "required'}",
     2, NULL, "", ""},
    {"{'resources1:VGPU':'1','trait1:CUSTOM_A':'required','resources2:VGPU':'1','trait2:CUSTOM_A':'"
     "required'}",
     2, NULL, "CUSTOM_A", ""},
};

static char *
join(GPtrArray *traits)
{
    g_ptr_array_add(traits, NULL);
    return g_strjoinv(",", (char **)traits->pdata);
}

static void
test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *text = g_strdelimit(g_strdup(cases[i].specs), "'", '"');
        json_object *specs = json_tokener_parse(text);
        struct vg_arrival_query *query = vg_arrival_query_new();
        assert_non_null(specs);
        vg_nova_specs_read(specs, query);
        g_autofree char *required = join(query->traits);
        g_autofree char *forbidden = join(query->traits_forbidden);
        if (query->gpus != cases[i].gpus || g_strcmp0(query->gpu_type, cases[i].type) != 0 ||
            strcmp(required, cases[i].required) != 0 || strcmp(forbidden, cases[i].forbidden) != 0)
            fail_msg("%s: %d of %s, %s, %s", cases[i].specs, (int)query->gpus, query->gpu_type,
                     required, forbidden);
        vg_arrival_query_free(query);
        json_object_put(specs);
    }
}

/* Groups beyond the limit do not count. */
static void
test_many_groups(void **state)
{
    json_object *specs = json_object_new_object();
    struct vg_arrival_query *query = vg_arrival_query_new();

    (void)state;
    for (int i = 0; i < 100; i++) {
        g_autofree char *key = g_strdup_printf("trait_%d:CUSTOM_A", i);
        json_object_object_add(specs, key, json_object_new_string("required"));
    }
    json_object_object_add(specs, "resources_99:VGPU", json_object_new_string("1"));
    vg_nova_specs_read(specs, query);
    assert_int_equal(query->gpus, 0);
    vg_arrival_query_free(query);
    json_object_put(specs);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_many_groups),
    };
    return cmocka_run_group_tests_name("nova-specs", tests, NULL, NULL);
}
