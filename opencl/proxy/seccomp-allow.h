/* SPDX-License-Identifier: Apache-2.0
 *
 * The system calls that a client's process may make from now on.
 */
#ifndef VG_OPENCL_PROXY_SECCOMP_ALLOW_H
#define VG_OPENCL_PROXY_SECCOMP_ALLOW_H

#include <stdbool.h>

/* Allows this process, which must have only one thread, the calls of the list in seccomp-allow.c,
 * and refuses all others with EPERM. If IS_STRICT, a refused call ends the process (SIGSYS) after a
 * message with the call's number. Calls of newer kernels that the C library tries fail with ENOSYS
 * in either case. Requires PR_SET_NO_NEW_PRIVS. Returns false with errno on failure. */
bool vg_seccomp_allow(bool is_strict);

#endif
