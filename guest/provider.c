/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/provider.h"

#include <stddef.h>

const struct vg_guest_provider *const vg_guest_providers[] = {
    &vg_guest_provider_hooks,
    NULL,
};
