/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of a host that a VM uses: its disks, their backing files, media, firmware and kernel.
 */
#ifndef VG_MODEL_PATH_H
#define VG_MODEL_PATH_H

#include "base/record.h"

#define VG_PATH_BYTES_MAX 4096
#define VG_PATH_TEXT_MAX  1024

/* The maximum number of paths of a VM that are looked at. */
#define VG_PATHS_MAX 128

/* What a VM needs a host to have at a path. */
struct vg_path_need {
    char *path;
    char *use;       /* in words, for a sentence: "disk 'vda'", "kernel" */
    bool writable;   /* the VM writes to it; otherwise, it only reads */
    bool is_device;  /* the definition calls it a block device */
    bool is_storage; /* its contents are the VM's own, and must be the same on every host */
    bool optional;   /* libvirt starts the VM also without it, or makes it */
};

extern const struct vg_record_type vg_path_need_record;

void vg_path_need_free(void *need); /* NULL is fine */

#endif
