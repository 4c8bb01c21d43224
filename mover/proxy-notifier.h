/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends to this host's guests which vgpu-proxy their programs use, as configured in [proxy VM]:
 * when a VM, its agent or the configuration changes, and periodically, because a restarted guest
 * has forgotten it. If a VM's group is removed, its guest is informed that it no longer has a
 * proxy. A file stores which VMs were informed, so that this also works after vgpud restarts. A
 * separate thread sends the requests and writes the file.
 */
#ifndef VG_MOVER_PROXY_NOTIFIER_H
#define VG_MOVER_PROXY_NOTIFIER_H

#include "mover/mover.h"

/* The name of the file in vgpud's directory: the UUIDs of VMs, one per line. */
#define VG_PROXY_INFORMED_FILE "proxies-told"

typedef struct vg_proxy_notifier vg_proxy_notifier;

/* A VM of this host. */
struct vg_vm_here {
    char *name;
    char *uuid;
    int64_t id; /* libvirt's id; -1 if the VM is not running */
};

struct vg_proxy_notifier_parts {
    vg_mover *mover;       /* borrowed */
    const char *directory; /* vgpud's own directory; copied */
    /* Returns the VMs of this host that have a UUID (struct vg_vm_here), which are freed with the
     * array, or NULL if libvirt has not answered yet. Called by the thread; does not block. */
    GPtrArray *(*list_vms)(void *data);
    void *data;
};

/* Starts the thread. proxies: struct vg_proxy_config, not referenced afterwards. Returns NULL and
 * *err if the thread cannot be created. */
vg_proxy_notifier *vg_proxy_notifier_new(const struct vg_proxy_notifier_parts *parts,
                                         const GPtrArray *proxies, GError **err);

/* Replaces the groups, which are not referenced afterwards. Any thread; does not block. */
void vg_proxy_notifier_configure(vg_proxy_notifier *notifier, const GPtrArray *proxies);

/* Returns struct vg_proxy_guest for each VM that has a group, or has yet to be informed that it
 * has none. The caller frees the list. Any thread; does not block. */
GPtrArray *vg_proxy_notifier_list(vg_proxy_notifier *notifier);

/* Ends the thread, without waiting for a guest. NULL is fine. */
void vg_proxy_notifier_stop(vg_proxy_notifier *notifier);
/* No thread may call any other function afterwards. NULL is allowed. */
void vg_proxy_notifier_free(vg_proxy_notifier *notifier);

#endif
