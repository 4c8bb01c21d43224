/* SPDX-License-Identifier: Apache-2.0
 *
 * QEMU's answers through its monitor (QMP), as returned by virDomainQemuMonitorCommand(). An
 * incomplete answer never counts as a success. Any thread; the caller owns returned strings.
 */
#ifndef VG_HOST_QEMU_ANSWER_H
#define VG_HOST_QEMU_ANSWER_H

/* Reads the answer to query-migrate. Returns the obstacles to a migration in one line: QEMU's
 * reasons, or that its answer is an error or cannot be read. Returns NULL without obstacles. */
char *vg_qemu_why_not_migrated(const char *answer);

/* Reads the answer to qom-get of a property that is text or a truth value, which is "on" or "off".
 * Returns NULL if the answer is an error, anything else, or cannot be read. */
char *vg_qemu_property(const char *answer);

#endif
