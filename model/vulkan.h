/* SPDX-License-Identifier: Apache-2.0
 *
 * Vulkan for a VM without a GPU of its own (Venus on virtio-gpu): what is asked for, and what it
 * changes in the VM's definition. Plain data.
 */
#ifndef VG_MODEL_VULKAN_H
#define VG_MODEL_VULKAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/record.h"

/* The limits of hostmem, which is the size of a PCI BAR: a power of two. */
#define VG_VULKAN_HOSTMEM_MIN     (INT64_C(16) << 20)
#define VG_VULKAN_HOSTMEM_MAX     (INT64_C(1) << 40)
#define VG_VULKAN_HOSTMEM_DEFAULT (INT64_C(4) << 30)

struct vg_vulkan_request {
    bool enabled;
    int64_t hostmem_bytes; /* 0: VG_VULKAN_HOSTMEM_DEFAULT */
    char *render_node;     /* the one on which egl-headless draws; NULL: libvirt takes one */
    bool loosen_sandbox;   /* QEMU is started by vgpud-qemu-spawn, which lets it start programs */
    bool dry_run;
};

struct vg_vulkan_change {
    char *vm;
    char *uuid;
    bool enabled; /* afterwards */
    bool dry_run;
    bool changed;          /* the definition is, or would be, another one */
    bool running;          /* the VM runs, so that the change holds from its next start on */
    int64_t hostmem_bytes; /* 0 if not enabled */
    GPtrArray *changes;    /* char *, lines of XML after "- " (taken away) or "+ " (new) */
    GPtrArray *notes;      /* char *, sentences */
};
typedef struct vg_vulkan_change vg_vulkan_change;

extern const struct vg_record_type vg_vulkan_request_record;
extern const struct vg_record_type vg_vulkan_change_record;

/* Fails with VG_E_INVALID, saying what would be right. */
int vg_vulkan_request_check(const struct vg_vulkan_request *request, GError **err);
void vg_vulkan_request_free(void *request); /* NULL is fine */

vg_vulkan_change *vg_vulkan_change_new(void);
void vg_vulkan_change_free(vg_vulkan_change *change); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_vulkan_change, vg_vulkan_change_free)

#endif
