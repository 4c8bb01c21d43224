/* SPDX-License-Identifier: Apache-2.0
 *
 * Records why clients' processes have recently ended, for programs that try to return to them. Used
 * by one thread.
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
    uint64_t n;                          /* total number of ends recorded */
};

/* CLIENT's process has ended with STATUS and resource usage USED. Ends its group. If a signal
 * ended the process, stores the reason, logs it and makes it available at the control socket. */
struct rusage;
void vg_ends_take(struct proxy_ends *ends, struct proxy_groups *groups, struct proxy_client *client,
                  int status, const struct rusage *used);

/* Returns the reason, or NULL if it is not known. */
const char *vg_ends_find(const struct proxy_ends *ends, const unsigned char *session);

#endif
