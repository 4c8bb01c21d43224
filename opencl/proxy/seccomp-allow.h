/* SPDX-License-Identifier: Apache-2.0
 *
 * The system calls that a client's process may make from now on.
 */
#ifndef VG_OPENCL_PROXY_SECCOMP_ALLOW_H
#define VG_OPENCL_PROXY_SECCOMP_ALLOW_H

#include <stdbool.h>

/* Allows this process, which has one thread yet, the calls of the list in seccomp-allow.c, and
 * refuses all others with EPERM. If IS_STRICT, they end the process (SIGSYS) after a message with
 * the call's number. What the C library asks of newer kernels fails with ENOSYS in either case. It
 * needs PR_SET_NO_NEW_PRIVS. False, with errno. */
bool vg_seccomp_allow(bool is_strict);

#endif
