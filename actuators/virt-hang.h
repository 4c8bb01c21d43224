/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of libvirt that were given up and have not come back, of the whole process. Nobody can
 * end such a call: it holds a thread and a connection until libvirt answers or the connection
 * breaks. So there is a limit for each address, and after a connection that could not be opened the
 * next ones are tried at growing intervals. Any thread; nothing here blocks.
 */
#ifndef VG_ACTUATORS_VIRT_HANG_H
#define VG_ACTUATORS_VIRT_HANG_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/* Calls to one address that may hang at the same time. */
#define VG_VIRT_HANGS_MAX 16

struct vg_virt_hang {
    char *uri;
    char *what;       /* "to connect", "to look at the VM" */
    int64_t since_ns; /* CLOCK_REALTIME */
    int64_t began_ns; /* CLOCK_MONOTONIC: the same moment */
    bool connecting;  /* libvirt itself does not answer; otherwise only this call does not end */
};

/* Lists what hangs now (struct vg_virt_hang, freed with the array), the oldest first. A connection
 * that hangs is not told of once a later one could be opened. */
GPtrArray *vg_virt_hangs(void);

/* Returns how many calls hang now, those that nobody needs to be told of, too. */
unsigned vg_virt_hangs_now(void);

/* Returns how many calls have been given up since the start. */
uint64_t vg_virt_hangs_total(void);

/* ---- for actuators/virt-link.c ---- */

/* Notes that a call was given up; the result is for vg_virt_hang_ended(). */
struct vg_virt_hang *vg_virt_hang_begin(const char *uri, const char *what, int64_t began_ns,
                                        bool connecting);
/* Notes that it has come back after all. */
void vg_virt_hang_ended(struct vg_virt_hang *take_hang);

/* Checks that a call to this address may be made, or connect to it. VG_E_TIMEOUT: too much hangs
 * there already; the text says since when. */
int vg_virt_hang_check(const char *uri, bool connecting, GError **err);

/* Notes that a connection could be opened. */
void vg_virt_hang_connected(const char *uri);

#endif
