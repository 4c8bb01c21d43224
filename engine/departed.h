/* SPDX-License-Identifier: Apache-2.0
 *
 * The VMs that left a host in the last 24 hours; used only inside the engine. One thread at a time.
 */
#ifndef VG_ENGINE_DEPARTED_H
#define VG_ENGINE_DEPARTED_H

#include "engine/vm-track.h"

/* Creates an empty list. The caller unrefs it. */
GPtrArray *vg_departed_new(void);

/* Adds a VM that is no longer in the windows of its host, if it has a UUID. */
void vg_departed_add(GPtrArray *list, const struct vg_vm_track *track);

/* Adds a VM with its day, up to last_ns, unless the list has it. */
void vg_departed_add_day(GPtrArray *list, const char *uuid, int64_t last_ns, const GArray *cpu,
                         const GArray *gpu);

/* The first function removes a VM that has returned. The second removes VMs that left more than 24
 * h ago. */
void vg_departed_remove(GPtrArray *list, const char *uuid);
void vg_departed_expire(GPtrArray *list, int64_t now_ns);

/* Adds the VMs of the list, and a VM whose track the engine still keeps, to a host of a snapshot.
 */
void vg_departed_read(const GPtrArray *list, int64_t now_ns, struct vg_snap_host *host);
void vg_departed_read_track(const struct vg_vm_track *track, int64_t now_ns,
                            struct vg_snap_host *host);

#endif
