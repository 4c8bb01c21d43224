/* SPDX-License-Identifier: Apache-2.0
 *
 * The log's way into the systemd journal, with fields.
 */
#ifndef VG_DAEMON_JOURNALD_H
#define VG_DAEMON_JOURNALD_H

/* If standard error is the journal, messages go there with MESSAGE, PRIORITY, VGPUD_PART (the tag)
 * and a field VGPUD_KEY for each key=value of the message; else nothing changes. */
void vg_journald_attach(void);

#endif
