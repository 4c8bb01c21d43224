/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of the control socket, as JSON files. Clients' processes have written much of the data
 * and may write anything: numbers are bounded and texts made printable.
 */
#ifndef VG_OPENCL_PROXY_CONTROL_REPLY_H
#define VG_OPENCL_PROXY_CONTROL_REPLY_H

#include "opencl/proxy/control.h"

/* Allocates space for the sockets' earlier counters. Returns NULL with errno on failure. */
struct proxy_marks *vg_control_new_marks(void);

/* Returns a file that describes all sockets, or -1 with errno. */
int vg_control_list(struct proxy_control *control);

/* Returns a file with all details of one socket, or -1 with errno. */
int vg_control_show(struct proxy_control *control, const struct proxy_tenant *tenant);

#endif
