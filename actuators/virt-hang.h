/* SPDX-License-Identifier: Apache-2.0
 *
 * Tracks libvirt calls of this process that were abandoned and have not returned. Such a call
 * cannot be ended: it occupies a thread and a connection until libvirt answers or the connection
 * breaks. So their number is limited for each address, and after a failed connection, further
 * attempts are made at growing intervals. Any thread; nothing here blocks.
 */
#ifndef VG_ACTUATORS_VIRT_HANG_H
#define VG_ACTUATORS_VIRT_HANG_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/* The maximum number of calls to one address that may hang at the same time. Beyond it, one more
 * call is allowed every ten minutes. */
#define VG_VIRT_HANGS_MAX 16

struct vg_virt_hang {
    char *uri;
    char *what;       /* a phrase such as "to connect" */
    int64_t since_ns; /* CLOCK_REALTIME */
    int64_t began_ns; /* CLOCK_MONOTONIC, at the same moment */
    bool connecting; /* libvirt does not answer at all; otherwise, only this call does not return */
};

/* Lists the calls that are hanging now (struct vg_virt_hang, freed with the array), oldest first. A
 * connection attempt that hangs is left out once a later attempt has succeeded. */
GPtrArray *vg_virt_hangs(void);

/* Returns how many calls are hanging now, including those that vg_virt_hangs() leaves out. */
unsigned vg_virt_hangs_now(void);

/* Returns how many calls have been abandoned since the start. */
uint64_t vg_virt_hangs_total(void);

/* ---- for actuators/virt-link.c ---- */

/* Records an abandoned call; pass the result to vg_virt_hang_ended(). */
struct vg_virt_hang *vg_virt_hang_begin(const char *uri, const char *what, int64_t began_ns,
                                        bool connecting);
/* Records that the call has returned after all. */
void vg_virt_hang_ended(struct vg_virt_hang *take_hang);

/* Checks that a call to this address, or a connection to it, may be started. Fails with
 * VG_E_TIMEOUT if too many already hang there; the text says since when. */
int vg_virt_hang_check(const char *uri, bool connecting, GError **err);

/* Records a successful connection. */
void vg_virt_hang_connected(const char *uri);

#endif
