/* SPDX-License-Identifier: Apache-2.0
 *
 * What QEMU answers through its monitor (QMP), as virDomainQemuMonitorCommand() hands it out. What
 * an answer lacks is never taken for a good one. Any thread; strings returned are the caller's.
 */
#ifndef VG_HOST_QEMU_ANSWER_H
#define VG_HOST_QEMU_ANSWER_H

/* Reads the answer to query-migrate. Returns what speaks against a migration, one line: QEMU's
 * reasons, or that its answer is an error or cannot be read. Returns NULL if nothing does. */
char *vg_qemu_why_not_migrated(const char *answer);

/* Reads the answer to qom-get of a property that is text or a truth value, which is "on" or "off".
 * Returns NULL if the answer is an error, anything else, or cannot be read. */
char *vg_qemu_property(const char *answer);

#endif
