/* SPDX-License-Identifier: Apache-2.0
 *
 * Why clients' processes have ended lately, for programs that come back to them. Used by one
 * thread.
 */
#ifndef VG_OPENCL_PROXY_ENDS_H
#define VG_OPENCL_PROXY_ENDS_H

#include "opencl/proxy/share.h"
#include "opencl/wire/link.h"

#define PROXY_ENDS_MAX 64

struct proxy_end {
    unsigned char session[VG_WIRE_SESSION_ID];
    char why[VG_WIRE_REFUSAL_MAX];
};

struct proxy_ends {
    struct proxy_end of[PROXY_ENDS_MAX]; /* the newest in the place of the oldest */
    uint64_t n;                          /* that there ever were */
};

/* CLIENT's process has ended with STATUS, having USED so much. Ends its group, and keeps, and says
 * in the log and to who asks, why it was ended, if it did not end by itself. */
struct rusage;
void vg_ends_take(struct proxy_ends *ends, struct proxy_groups *groups, struct proxy_client *client,
                  int status, const struct rusage *used);

/* Returns why; NULL: it is not known. */
const char *vg_ends_find(const struct proxy_ends *ends, const unsigned char *session);

#endif
