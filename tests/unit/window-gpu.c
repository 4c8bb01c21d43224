/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/unit/window-gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

const struct vg_gpu_sample *
window_gpu_find(const GArray *gpus, const char *device, const char *engine)
{
    static const struct vg_gpu_sample none;

    for (unsigned i = 0; i < gpus->len; i++) {
        const struct vg_gpu_sample *gpu = &g_array_index(gpus, struct vg_gpu_sample, i);
        if ((!device || strcmp(gpu->device, device) == 0) && strcmp(gpu->engine, engine) == 0)
            return gpu;
    }
    fail_msg("nothing is told of %s of %s", engine, device ? device : "any device");
    return &none;
}

const struct vg_vm_sample *
window_gpu_vm(const struct vg_window *window, uint32_t id)
{
    static const struct vg_vm_sample none;
    const struct vg_vm_sample *vm = vg_window_vm(window, id);

    if (!vm || !vm->gpu_known)
        fail_msg("the GPU use of VM %u is not known", id);
    return vm ? vm : &none;
}
