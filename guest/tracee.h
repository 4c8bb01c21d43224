/* SPDX-License-Identifier: Apache-2.0
 *
 * Another process, which is stopped with all its threads, is made to do system calls, and goes on
 * as it was: its registers, its signals and what it waits for are as before. On x86-64 only. The
 * process that does this to another one does nothing else, has no other children, and ends
 * afterwards. Nobody may kill it meanwhile: the other one would go on with wrong registers.
 */
#ifndef VG_GUEST_TRACEE_H
#define VG_GUEST_TRACEE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#if defined(__x86_64__)
# define VG_GUEST_TRACEE_WORKS 1
#else
# define VG_GUEST_TRACEE_WORKS 0
#endif

/* The size of a reason. */
#define VG_GUEST_TRACEE_WHY_MAX 160

typedef struct vg_guest_tracee vg_guest_tracee;

/* Stops all threads. Returns NULL and the reason if that cannot be done by then: what was stopped
 * goes on, at the latest when this process ends. The caller lets it go. root is as for
 * vg_guest_devices_read(). */
vg_guest_tracee *vg_guest_tracee_stop(const char *root, pid_t pid, int64_t until_ms,
                                      char ret_why[VG_GUEST_TRACEE_WHY_MAX]);

/* Returns the thread that does the calls. */
pid_t vg_guest_tracee_hand(const vg_guest_tracee *tracee);

/* Has it do a system call, which must not block. Returns what that returns, -ESRCH if it has ended,
 * or -ETIME if it does not get on. */
long vg_guest_tracee_call(vg_guest_tracee *tracee, long number, const unsigned long args[6]);

/* Writes to its memory. Returns 0, or -1. */
int vg_guest_tracee_write(const vg_guest_tracee *tracee, unsigned long at, const void *data,
                          size_t size);

/* Lets it go on, and frees. Waits as long as a call of it lasts. */
void vg_guest_tracee_let_go(vg_guest_tracee *tracee);

#endif
