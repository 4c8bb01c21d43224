/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes what kernels have printed at the proxy to the program's stdout, as without a proxy.
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <unistd.h>

#include "opencl/base/say.h"
#include "opencl/client/private.h"

#define OUTPUT_PIECE 4096 /* number of bytes that a pipe accepts at once */

/* Waits until stdout accepts data, like a vendor's library in the program. Returns false if it no
 * longer does. */
static bool
output_write(const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t n = write(STDOUT_FILENO, bytes, size);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            struct pollfd at = {.fd = STDOUT_FILENO, .events = POLLOUT};
            poll(&at, 1, -1);
        } else if (n < 0 && errno != EINTR) {
            return false;
        }
        bytes += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

bool
vg_wire_client_output(struct vg_wire_client *client, const struct vg_wire_head *head)
{
    char bytes[OUTPUT_PIECE];
    bool ok = head->size == 0 && !(head->flags & VG_WIRE_ROOM), is_taken = true;
    const int error = errno;

    for (uint64_t left = head->data, n; ok && left > 0; left -= n) {
        n = left < sizeof bytes ? left : sizeof bytes;
        ok = vg_wire_link_receive(&client->link, bytes, n);
        is_taken = ok && is_taken && output_write(bytes, n);
    }
    if (ok && head->number > 0)
        vg_cl_say("%" PRIu64 " bytes that kernels printed are lost: there was too much output "
                  "before a blocking call",
                  head->number);
    errno = error;
    return ok;
}
