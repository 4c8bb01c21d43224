/* SPDX-License-Identifier: Apache-2.0
 *
 * Vulkan for a VM without a GPU of its own (Venus on virtio-gpu): the request, and the resulting
 * changes in the VM's definition. Plain data.
 */
#ifndef VG_MODEL_VULKAN_H
#define VG_MODEL_VULKAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/record.h"

/* Limits of hostmem. It is the size of a PCI BAR, so it must be a power of two. */
#define VG_VULKAN_HOSTMEM_MIN     (INT64_C(16) << 20)
#define VG_VULKAN_HOSTMEM_MAX     (INT64_C(1) << 40)
#define VG_VULKAN_HOSTMEM_DEFAULT (INT64_C(4) << 30)

struct vg_vulkan_request {
    bool enabled;
    int64_t hostmem_bytes; /* 0 for VG_VULKAN_HOSTMEM_DEFAULT */
    char *render_node;     /* the node that egl-headless renders on; NULL if libvirt chooses it */
    bool loosen_sandbox; /* vgpud-qemu-spawn starts QEMU, with permission to start other programs */
    bool dry_run;
};

struct vg_vulkan_change {
    char *vm;
    char *uuid;
    bool enabled; /* whether Vulkan is enabled after the change */
    bool dry_run;
    bool changed;          /* the definition changes, or would change */
    bool running;          /* the VM is running, so the change takes effect at its next start */
    int64_t hostmem_bytes; /* 0 if not enabled */
    GPtrArray *changes;    /* char *, lines of XML after "- " (removed) or "+ " (added) */
    GPtrArray *notes;      /* char *, sentences */
};
typedef struct vg_vulkan_change vg_vulkan_change;

extern const struct vg_record_type vg_vulkan_request_record;
extern const struct vg_record_type vg_vulkan_change_record;

/* Fails with VG_E_INVALID, with a message that says what is allowed. */
int vg_vulkan_request_check(const struct vg_vulkan_request *request, GError **err);
void vg_vulkan_request_free(void *request); /* NULL is fine */

vg_vulkan_change *vg_vulkan_change_new(void);
void vg_vulkan_change_free(vg_vulkan_change *change); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_vulkan_change, vg_vulkan_change_free)

#endif
