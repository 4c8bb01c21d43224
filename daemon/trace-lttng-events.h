/* SPDX-License-Identifier: Apache-2.0
 *
 * The tracepoints of the provider vgpud, in LTTng-UST's notation. LTTng-UST includes this file
 * several times. vgpud-trace(7) documents the fields.
 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER vgpud

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "daemon/trace-lttng-events.h"

#ifdef LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ
# undef VG_DAEMON_TRACE_LTTNG_EVENTS_H
#endif

#ifndef VG_DAEMON_TRACE_LTTNG_EVENTS_H
# define VG_DAEMON_TRACE_LTTNG_EVENTS_H

# include <stdint.h>

# include <lttng/tracepoint.h>

# include "daemon/trace-point.h"

/* clang-format would format the fields as statements, because no commas separate them. */
/* clang-format off */
LTTNG_UST_TRACEPOINT_EVENT(vgpud, window_closed,
    LTTNG_UST_TP_ARGS(const struct vg_traced_window *, window),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(source, window->source)
        lttng_ust_field_integer(int64_t, begin_ns, window->begin_ns)
        lttng_ust_field_integer(int64_t, end_ns, window->end_ns)
        lttng_ust_field_integer(uint32_t, vms, window->vms)
        lttng_ust_field_integer(uint64_t, lost_events, window->lost_events)
        lttng_ust_field_integer(int64_t, cost_ns, window->cost_ns)
        lttng_ust_field_integer(int64_t, late_ns, window->late_ns)
    )
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(vgpud, window_closed, LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)

LTTNG_UST_TRACEPOINT_EVENT(vgpud, score_changed,
    LTTNG_UST_TP_ARGS(const struct vg_traced_score *, score),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(vm, score->vm)
        lttng_ust_field_string(uuid, score->uuid)
        lttng_ust_field_integer(int64_t, end_ns, score->end_ns)
        lttng_ust_field_float(double, cpu_intensity, score->cpu_intensity)
        lttng_ust_field_float(double, gpu_intensity, score->gpu_intensity)
        lttng_ust_field_string(from, score->from)
        lttng_ust_field_string(to, score->to)
    )
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(vgpud, score_changed, LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE)

LTTNG_UST_TRACEPOINT_EVENT(vgpud, plan_made,
    LTTNG_UST_TP_ARGS(const struct vg_traced_plan *, plan),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(id, plan->id)
        lttng_ust_field_string(rule, plan->rule)
        lttng_ust_field_string(verdict, plan->verdict)
        lttng_ust_field_integer(uint32_t, actions, plan->actions)
        lttng_ust_field_integer(int64_t, lost_cpu_ns_per_s, plan->lost_cpu_ns_per_s)
        lttng_ust_field_integer(int64_t, gpu_wait_ns_per_s, plan->gpu_wait_ns_per_s)
        lttng_ust_field_string(reason, plan->reason)
    )
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(vgpud, plan_made, LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE)

LTTNG_UST_TRACEPOINT_EVENT(vgpud, queue_high_water,
    LTTNG_UST_TP_ARGS(const struct vg_traced_queue *, queue),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(name, queue->name)
        lttng_ust_field_integer(uint64_t, length, queue->length)
        lttng_ust_field_integer(uint64_t, limit, queue->limit)
    )
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(vgpud, queue_high_water, LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)

LTTNG_UST_TRACEPOINT_EVENT(vgpud, events_lost,
    LTTNG_UST_TP_ARGS(const struct vg_traced_loss *, loss),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(source, loss->source)
        lttng_ust_field_integer(int64_t, end_ns, loss->end_ns)
        lttng_ust_field_integer(uint64_t, count, loss->count)
    )
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(vgpud, events_lost, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
