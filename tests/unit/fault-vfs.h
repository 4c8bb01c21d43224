/* SPDX-License-Identifier: Apache-2.0
 *
 * A sqlite VFS that works like the default one until its n-th operation that changes something:
 * opening, writing, syncing, truncating or deleting a file; or that lets something happen before
 * its n-th lock. Any thread.
 */
#ifndef VG_TESTS_FAULT_VFS_H
#define VG_TESTS_FAULT_VFS_H

#include <stdbool.h>

#define FAULT_VFS_NAME "vg-fault"

enum fault_mode {
    FAULT_IOERR, /* nothing happens, and an error is told */
    FAULT_FULL,  /* the disk is full; a sync fails */
    FAULT_SHORT, /* half of a write comes to the disk; else as IOERR */
    FAULT_MODE_MAX
};

/* Once. */
void fault_vfs_register(void);

/* The n-th operation from now (from 1; 0: none) fails, and if `on` all that follow. */
void fault_vfs_arm(long n, enum fault_mode mode, bool on);

/* Operations since it was armed. */
long fault_vfs_count(void);

/* Calls, once, before the n-th lock from now (from 1; 0: never) is taken, of whichever file. data
 * is borrowed until then, or until the next call of this. */
void fault_vfs_call_at_lock(long n, void (*call)(void *data), void *data);

#endif
