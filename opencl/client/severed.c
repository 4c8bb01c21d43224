/* SPDX-License-Identifier: Apache-2.0
 *
 * Replacements for objects that no longer exist at the proxy.
 */
#include "config.h"

#include "opencl/client/private.h"

struct vg_wire_object *
vg_wire_severed(enum vg_cl_type type, const void *context)
{
    static struct vg_wire_client severed = {
        .link.fd = -1,
        .dispatch = &vg_wire_dispatch,
        .sending = PTHREAD_MUTEX_INITIALIZER,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .is_broken = true,
        .is_inherited = true,
    };

    vg_wire_link_inherit(&severed.link);
    return vg_wire_object_new(&severed, type, context);
}
