/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells guests of this host by which vgpu-proxy their programs use a GPU, as [proxy VM] says: when
 * a VM comes, when its agent or the configuration does, and again and again, for a guest that was
 * started anew has forgotten it. A guest whose group is gone is told that there is none any more,
 * also by the next vgpud: a file has who was told. A thread of its own asks guests and writes that
 * file.
 */
#ifndef VG_MOVER_PROXY_TELLER_H
#define VG_MOVER_PROXY_TELLER_H

#include "mover/mover.h"

/* The name of the file in vgpud's directory: the UUIDs of VMs, a line each. */
#define VG_PROXY_TOLD_FILE "proxies-told"

typedef struct vg_proxy_teller vg_proxy_teller;

/* A VM of this host. */
struct vg_vm_here {
    char *name;
    char *uuid;
    int64_t id; /* of libvirt; -1: it does not run */
};

struct vg_proxy_teller_parts {
    vg_mover *mover;       /* borrowed */
    const char *directory; /* vgpud's own; copied */
    /* Returns the VMs of this host that have a UUID (struct vg_vm_here), which are freed with the
     * array; NULL: libvirt has not answered yet. Called by the thread; does not block. */
    GPtrArray *(*list_vms)(void *data);
    void *data;
};

/* Begins to tell guests. proxies: struct vg_proxy_config, of which nothing is kept. NULL, with
 * *err: there is no thread left. */
vg_proxy_teller *vg_proxy_teller_new(const struct vg_proxy_teller_parts *parts,
                                     const GPtrArray *proxies, GError **err);

/* Takes other groups, of which nothing is kept. Any thread; does not block. */
void vg_proxy_teller_configure(vg_proxy_teller *teller, const GPtrArray *proxies);

/* Returns struct vg_proxy_guest for each VM that has a group, or still has to be told that it has
 * none. The caller frees the list. Any thread; does not block. */
GPtrArray *vg_proxy_teller_list(vg_proxy_teller *teller);

/* Ends the thread, without waiting for a guest. NULL is fine. */
void vg_proxy_teller_stop(vg_proxy_teller *teller);
/* After the last call of any thread. NULL is fine. */
void vg_proxy_teller_free(vg_proxy_teller *teller);

#endif
