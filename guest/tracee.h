/* SPDX-License-Identifier: Apache-2.0
 *
 * Stops another process with all its threads, makes it perform system calls, and resumes it as
 * before: its registers, its signals and its threads' blocked system calls are unchanged. Only on
 * x86-64: on arm64 the kernel does not show a tracer the first argument of a call that a stop
 * interrupts, so the call cannot be restarted. The calling process does nothing else, has no other
 * children, and ends afterwards. It must not be killed before that, because the other process would
 * resume with wrong registers.
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

/* The size of the buffer for a reason. */
#define VG_GUEST_TRACEE_WHY_MAX 160

typedef struct vg_guest_tracee vg_guest_tracee;

/* Stops all threads. Returns NULL and the reason if that cannot be done before until_ms; threads
 * already stopped are resumed, at the latest when this process ends. The caller resumes the
 * process with vg_guest_tracee_let_go(). root is as in vg_guest_devices_read(). */
vg_guest_tracee *vg_guest_tracee_stop(const char *root, pid_t pid, int64_t until_ms,
                                      char ret_why[VG_GUEST_TRACEE_WHY_MAX]);

/* Returns the thread that performs the calls. */
pid_t vg_guest_tracee_caller(const vg_guest_tracee *tracee);

/* Makes the process perform a system call, which must not block. Returns its result, -ESRCH if the
 * process has ended, or -ETIME if the call does not end in time. */
long vg_guest_tracee_call(vg_guest_tracee *tracee, long number, const unsigned long args[6]);

/* Writes to the memory of the process. Returns 0, or -1. */
int vg_guest_tracee_write(const vg_guest_tracee *tracee, unsigned long at, const void *data,
                          size_t size);

/* Resumes the process and frees the tracee. Waits for a call in progress. */
void vg_guest_tracee_let_go(vg_guest_tracee *tracee);

#endif
