/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps account of the process's calls of libvirt that were given up and have not come back. Such a
 * call cannot be ended: it holds a thread and a connection until libvirt answers or the connection
 * breaks. So there is a limit for each address, and after a connection that could not be opened,
 * the next ones are tried at growing intervals. Any thread; nothing here blocks.
 */
#ifndef VG_ACTUATORS_VIRT_HANG_H
#define VG_ACTUATORS_VIRT_HANG_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/* The maximum number of calls to one address that hang at the same time, but for one more in ten
 * minutes. */
#define VG_VIRT_HANGS_MAX 16

struct vg_virt_hang {
    char *uri;
    char *what;       /* "to connect", "to look at the VM" */
    int64_t since_ns; /* CLOCK_REALTIME */
    int64_t began_ns; /* CLOCK_MONOTONIC, at the same moment */
    bool connecting;  /* libvirt itself does not answer; otherwise, only this call does not end */
};

/* Lists the calls that hang now (struct vg_virt_hang, freed with the array), the oldest first. A
 * connection that hangs is left out once a later one could be opened. */
GPtrArray *vg_virt_hangs(void);

/* Returns how many calls hang now, including those that vg_virt_hangs() leaves out. */
unsigned vg_virt_hangs_now(void);

/* Returns how many calls have been given up since the start. */
uint64_t vg_virt_hangs_total(void);

/* ---- for actuators/virt-link.c ---- */

/* Records that a call was given up; the result is for vg_virt_hang_ended(). */
struct vg_virt_hang *vg_virt_hang_begin(const char *uri, const char *what, int64_t began_ns,
                                        bool connecting);
/* Records that the call has come back after all. */
void vg_virt_hang_ended(struct vg_virt_hang *take_hang);

/* Checks that a call to this address, or a connection to it, may be begun. Fails with VG_E_TIMEOUT
 * if too many hang there already; the text says since when. */
int vg_virt_hang_check(const char *uri, bool connecting, GError **err);

/* Records that a connection could be opened. */
void vg_virt_hang_connected(const char *uri);

#endif
