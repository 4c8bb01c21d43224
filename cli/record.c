/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/record.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/record-dir.h"

#define POLL_MS 50

void
vg_record_note(struct vg_record_context *context, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    g_ptr_array_add(context->notes, g_strdup_vprintf(fmt, args));
    va_end(args);
}

void
vg_record_note_missing(struct vg_record_context *context, const GPtrArray *missing)
{
    for (unsigned int i = 0; i < missing->len; i++)
        vg_record_note(context, "the recording does not contain %s", (char *)missing->pdata[i]);
}

bool
vg_record_signalled(struct vg_record_context *context, int timeout_ms)
{
    struct pollfd fd = {.fd = context->signal_fd, .events = POLLIN};
    struct signalfd_siginfo info;

    if (poll(&fd, 1, timeout_ms) <= 0 ||
        read(context->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return false;
    context->interrupted = true;
    return true;
}

int
vg_record_wait(struct vg_record_context *context, vg_child *child, const char *what,
               int64_t timeout_ns, GError **err)
{
    const int64_t deadline_ns = vg_clock_monotonic_ns() + timeout_ns;

    while (!vg_child_poll(child, context->signal_fd, POLL_MS)) {
        if (vg_record_signalled(context, 0))
            return vg_error(err, VG_E_EXTERNAL,
                            "interrupted during `%s`; the recording was discarded", what);
        if (vg_record_dir_check_room(context->dir, VG_RECORD_LEFT_BYTES, err) < 0)
            return -1;
        if (vg_clock_monotonic_ns() >= deadline_ns)
            return vg_error(err, VG_E_TIMEOUT, "`%s` did not finish in time", what);
    }
    return vg_child_result(child, err);
}
