/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends the log to the systemd journal, with fields.
 */
#ifndef VG_DAEMON_JOURNALD_H
#define VG_DAEMON_JOURNALD_H

/* If standard error is the journal, sends messages there with MESSAGE, PRIORITY, VGPUD_PART (the
 * tag) and a field VGPUD_KEY for each key=value of the message. Otherwise it changes nothing. */
void vg_journald_attach(void);

#endif
