/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_OPENCL_PROXY_LISTEN_H
#define VG_OPENCL_PROXY_LISTEN_H

#include <sys/stat.h>

/* Returns a unix socket of TYPE that listens at PATH. MODE determines which users may connect.
 * Returns -1 with errno on failure, EADDRINUSE if another process listens there. */
int vg_proxy_listen(const char *path, int type, mode_t mode);

#endif
