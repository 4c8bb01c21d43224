/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of profiles as NVIDIA's manuals of vGPU and MIG list it, by their names.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/gpu-profile.h"

#define MIB (INT64_C(1) << 20)

static void
test_names(void **state)
{
    static const struct {
        const char *name;
        int64_t mib;
        bool mig;
    } cases[] = {
        {"GRID T4-1Q", 1024, false},
        {"GRID T4-16Q", 16384, false},
        {"GRID M60-0B", 512, false},
        {"NVIDIA A40-48Q", 49152, false},
        {"NVIDIA A40-1A", 1024, false},
        {"NVIDIA A100-40C", 40960, false},
        {"NVIDIA A100-1-5C", 5120, true},
        {"NVIDIA A100-1-5CME", 5120, true},
        {"NVIDIA H100XM-7-80C", 81920, true},
        {"NVIDIA RTX6000-Ada-48Q", 49152, false},
        {"24Q", 0, false},
        {"1g.10gb", 10240, true},
        {"1g.10gb+me", 10240, true},
        {"MIG 7g.80gb", 81920, true},
        {"4g.20gb", 20480, true},
        {"i915-GVTg_V5_4", 0, false},
        {"nvidia-230", 0, false},
        {"10de:2331", 0, false},
        {"g.10gb", 0, false},
        {"1g.gb", 0, false},
        {"A-99999999999999999999Q", 0, false},
        {"x-1", 0, false},
        {"-", 0, false},
        {"", 0, false},
        {NULL, 0, false},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (vg_gpu_profile_bytes(cases[i].name) != cases[i].mib * MIB ||
            vg_gpu_profile_is_mig(cases[i].name) != cases[i].mig)
            fail_msg("'%s': %lld bytes, %d", cases[i].name,
                     (long long)vg_gpu_profile_bytes(cases[i].name),
                     vg_gpu_profile_is_mig(cases[i].name));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};

    return cmocka_run_group_tests_name("gpu-profile", tests, NULL, NULL);
}
