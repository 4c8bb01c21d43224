/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/provider.h"

#include <stddef.h>

const struct vg_guest_provider *const vg_guest_providers[] = {
    /* The owner's hooks come first: what they stop need not be copied into the guest's memory, and
     * a program's own checkpoint may still need the GPU. The order is reversed on the way back, so
     * that a hook that starts something finds programs running. */
    &vg_guest_provider_hooks,
    /* These units have the GPU without CUDA, which would keep all others from being released. */
    &vg_guest_provider_units,
    /* Programs of OpenCL hold NVIDIA's nodes, too: when they have let go, those of CUDA are left.
     */
    &vg_guest_provider_opencl,
    &vg_guest_provider_cuda,
    NULL,
};
