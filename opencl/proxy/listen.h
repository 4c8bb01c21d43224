/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_OPENCL_PROXY_LISTEN_H
#define VG_OPENCL_PROXY_LISTEN_H

#include <sys/stat.h>

/* Returns a unix socket of TYPE that listens at PATH, which only those may use whom MODE allows;
 * -1, with errno: EADDRINUSE if somebody listens there. */
int vg_proxy_listen(const char *path, int type, mode_t mode);

#endif
