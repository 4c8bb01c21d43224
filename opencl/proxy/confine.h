/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client's process may not do, whoever has got hold of it.
 */
#ifndef VG_OPENCL_PROXY_CONFINE_H
#define VG_OPENCL_PROXY_CONFINE_H

#include <stdbool.h>

/* Makes this process another user's, for good; NULL: it stays its own. False, with errno. */
bool vg_proxy_become(const char *user);

/* Takes from this process, which has one thread yet, what no vendor's library needs: privileges to
 * come, core files, networks, other processes and their memory, namespaces, mounts, modules and the
 * like. What it tries all the same fails, or, if IS_STRICT, ends it (SIGSYS). The kernel ends it
 * before others when memory is short. False, with errno. */
bool vg_proxy_confine(bool is_strict);

#endif
