/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends the log to the systemd journal, with fields.
 */
#ifndef VG_DAEMON_JOURNALD_H
#define VG_DAEMON_JOURNALD_H

/* If standard error is connected to the journal, sends messages there with MESSAGE, PRIORITY,
 * VGPUD_PART (the tag) and a VGPUD_KEY field for each key=value of the message. Otherwise does
 * nothing. */
void vg_journald_attach(void);

#endif
