/* SPDX-License-Identifier: Apache-2.0
 *
 * Tracks the process's abandoned libvirt calls that have not returned. Such a call cannot be
 * ended: it occupies a thread and a connection until libvirt answers or the connection breaks. So
 * their number is limited for each address, and after a failed connection, further attempts are
 * made at growing intervals. Any thread; nothing here blocks.
 */
#ifndef VG_ACTUATORS_VIRT_HANG_H
#define VG_ACTUATORS_VIRT_HANG_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/* The maximum number of concurrently hanging calls to one address. Beyond it, one more is allowed
 * per ten minutes. */
#define VG_VIRT_HANGS_MAX 16

struct vg_virt_hang {
    char *uri;
    char *what;       /* a phrase such as "to connect" */
    int64_t since_ns; /* CLOCK_REALTIME */
    int64_t began_ns; /* CLOCK_MONOTONIC, at the same moment */
    bool connecting;  /* libvirt itself does not answer; otherwise, only this call does not end */
};

/* Lists the calls that hang now (struct vg_virt_hang, freed with the array), oldest first. A
 * hanging connection is left out once a later connection succeeded. */
GPtrArray *vg_virt_hangs(void);

/* Returns how many calls hang now, including those that vg_virt_hangs() leaves out. */
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
