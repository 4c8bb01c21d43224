/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the adapter of an event among all families.
 */
#include "config.h"

#include <string.h>

#include "trace/adapter.h"

static const struct vg_adapter *const families[] = {
    vg_adapt_sched, vg_adapt_kvm,    vg_adapt_gvt, vg_adapt_i915,
    vg_adapt_drm,   vg_adapt_amdgpu, vg_adapt_xe,  vg_adapt_vgpu_proxy,
};

static bool
has_name(const struct vg_adapter *adapter, const char *name)
{
    for (size_t i = 0; adapter->names[i]; i++) {
        if (strcmp(adapter->names[i], name) == 0)
            return true;
    }
    return false;
}

const char *
vg_event_without_system(const char *event_name)
{
    const char *colon = strchr(event_name, ':');

    return colon ? colon + 1 : event_name;
}

const struct vg_adapter *
vg_adapter_find(const char *event_name)
{
    const char *name = vg_event_without_system(event_name);

    for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
        for (const struct vg_adapter *a = families[f]; a->names[0]; a++) {
            if (has_name(a, name))
                return a;
        }
    }
    return NULL;
}

bool
vg_adapter_has_field(const struct vg_adapter *adapter, const char *name)
{
    for (const struct vg_adapter_field *f = adapter->fields; f->names[0]; f++) {
        for (size_t i = 0; i < sizeof(f->names) / sizeof(f->names[0]) && f->names[i]; i++) {
            if (strcmp(f->names[i], name) == 0)
                return true;
        }
    }
    return false;
}
