/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/event.h"

#include <stdio.h>

/* Bits of prev_state that mean the thread's last switch. EXIT_DEAD and EXIT_ZOMBIE have always been
 * 0x10 and 0x20, in either order. TASK_DEAD is 0x40 in the raw state that kernels before 4.14
 * record. Later kernels record a report index instead, in which 0x40 is TASK_PARKED. */
#define STATE_EXIT_DEAD_OR_ZOMBIE 0x30
#define STATE_TASK_DEAD_RAW       0x40

/* TASK_REPORT_MAX of include/linux/sched.h, v4.14 and later. */
#define STATE_REPORT_MAX 0x100

enum vg_prev_state
vg_prev_state_of(int64_t prev_state, int64_t state_max_bit)
{
    if (prev_state == 0 || (prev_state & state_max_bit))
        return VG_PREV_RUNNABLE;
    int64_t exited = STATE_EXIT_DEAD_OR_ZOMBIE;
    if (state_max_bit != STATE_REPORT_MAX)
        exited |= STATE_TASK_DEAD_RAW;
    return (prev_state & exited) ? VG_PREV_EXITED : VG_PREV_BLOCKED;
}

static bool
parse_release(const char *release, unsigned int *ret_major, unsigned int *ret_minor)
{
    return release && sscanf(release, "%4u.%4u", ret_major, ret_minor) == 2;
}

int64_t
vg_state_max_bit(const char *release)
{
    /* TASK_STATE_MAX, as include/linux/sched.h defines it since this version. */
    static const struct {
        unsigned int major, minor;
        int64_t bit;
    } since[] = {
        {4, 14, STATE_REPORT_MAX},
        {4, 8, 4096}, /* TASK_NEW added */
        {4, 2, 2048}, /* TASK_NOLOAD added */
        {3, 9, 1024}, /* TASK_PARKED added */
        {2, 6, 512},
    };
    unsigned int major, minor;

    if (!parse_release(release, &major, &minor))
        return STATE_REPORT_MAX;
    for (size_t i = 0; i < sizeof(since) / sizeof(since[0]); i++) {
        if (major > since[i].major || (major == since[i].major && minor >= since[i].minor))
            return since[i].bit;
    }
    return STATE_REPORT_MAX;
}

bool
vg_state_may_be_shifted(const char *release)
{
    unsigned int major, minor;

    return !parse_release(release, &major, &minor) || (major == 4 && minor >= 14);
}
