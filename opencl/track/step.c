/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of a switch: the duration of each, and the reason for a failure.
 */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "opencl/base/clock.h"
#include "opencl/track/extract.h"

bool
vg_cl_fail(struct vg_cl_switch *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(s->reason, sizeof s->reason, format, args);
    va_end(args);
    return false;
}

void
vg_cl_step(struct vg_cl_switch *s, const char *what)
{
    size_t used = strlen(s->steps);
    int64_t now = vg_cl_now();

    if (s->step_ns)
        snprintf(s->steps + used, sizeof s->steps - used, "%s%s %.1f ms", used ? ", " : "", what,
                 (double)(now - s->step_ns) / 1e6);
    s->step_ns = now;
    s->last = what;
}

bool
vg_cl_is_over(struct vg_cl_switch *s)
{
    if (s->is_aborted && s->is_aborted(s->data))
        return !vg_cl_fail(s, "the request was aborted");
    if (vg_cl_now() > s->deadline_ns)
        return !vg_cl_fail(s, "the time limit expired");
    return false;
}
