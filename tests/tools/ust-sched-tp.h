/* SPDX-License-Identifier: Apache-2.0
 *
 * Tracepoints of a program, with the names and fields that perf has for those of the kernel.
 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER sched
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tests/tools/ust-sched-tp.h"

#ifdef LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ
# undef VG_TESTS_TOOLS_UST_SCHED_TP_H
#endif

#ifndef VG_TESTS_TOOLS_UST_SCHED_TP_H
# define VG_TESTS_TOOLS_UST_SCHED_TP_H

# include <lttng/tracepoint.h>

/* clang-format off */
LTTNG_UST_TRACEPOINT_EVENT(sched, sched_switch,
    LTTNG_UST_TP_ARGS(const char *, prev_comm, int, prev_pid, long, prev_state,
                      const char *, next_comm, int, next_pid),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(prev_comm, prev_comm)
        lttng_ust_field_integer(int, prev_pid, prev_pid)
        lttng_ust_field_integer(int, prev_prio, 120)
        lttng_ust_field_integer(long, prev_state, prev_state)
        lttng_ust_field_string(next_comm, next_comm)
        lttng_ust_field_integer(int, next_pid, next_pid)
        lttng_ust_field_integer(int, next_prio, 120)))

LTTNG_UST_TRACEPOINT_EVENT(sched, sched_wakeup,
    LTTNG_UST_TP_ARGS(const char *, comm, int, pid, int, target_cpu),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(comm, comm)
        lttng_ust_field_integer(int, pid, pid)
        lttng_ust_field_integer(int, prio, 120)
        lttng_ust_field_integer(int, target_cpu, target_cpu)))
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
