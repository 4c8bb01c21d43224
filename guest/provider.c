/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/provider.h"

#include <stddef.h>

const struct vg_guest_provider *const vg_guest_providers[] = {
    /* The owner's hooks come first: the memory of what they stop need not be copied, and a
     * program's own checkpoint may still need the GPU. The order is reversed when resuming, so that
     * a hook that starts a program finds others running. */
    &vg_guest_provider_hooks,
    /* These units use the GPU without CUDA, which would prevent the release of all others. */
    &vg_guest_provider_units,
    /* OpenCL programs also hold NVIDIA's nodes. When they have released them, only CUDA programs
     * are left.
     */
    &vg_guest_provider_opencl,
    &vg_guest_provider_cuda,
    NULL,
};
