/* SPDX-License-Identifier: Apache-2.0
 *
 * What the desk tells, as files of JSON. Much of it is what clients' processes have written, who
 * may write what they like: numbers are bounded, and texts made printable.
 */
#ifndef VG_OPENCL_PROXY_DESK_TELL_H
#define VG_OPENCL_PROXY_DESK_TELL_H

#include "opencl/proxy/desk.h"

/* Room for what sockets had a little before; NULL, with errno. */
struct proxy_marks *vg_desk_new_marks(void);

/* Returns a file of all sockets; -1, with errno. */
int vg_desk_list(struct proxy_desk *desk);

/* Returns a file of all that there is to one of the sockets; -1, with errno. */
int vg_desk_show(struct proxy_desk *desk, const struct proxy_tenant *tenant);

#endif
