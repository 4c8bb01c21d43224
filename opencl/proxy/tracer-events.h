/* SPDX-License-Identifier: Apache-2.0
 *
 * The tracepoints of the provider vgpu_proxy, in LTTng-UST's notation. LTTng-UST includes this file
 * several times. vgpu-proxy(8) documents the fields.
 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER vgpu_proxy

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "opencl/proxy/tracer-events.h"

#ifdef LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ
# undef VG_OPENCL_PROXY_TRACER_EVENTS_H
#endif

#ifndef VG_OPENCL_PROXY_TRACER_EVENTS_H
# define VG_OPENCL_PROXY_TRACER_EVENTS_H

# include <stdint.h>

# include <lttng/tracepoint.h>

# include "opencl/proxy/tracer.h"

/* clang-format would format the fields as statements, because no commas separate them. */
/* clang-format off */
LTTNG_UST_TRACEPOINT_EVENT(vgpu_proxy, client,
    LTTNG_UST_TP_ARGS(const struct proxy_traced *, client),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(vm, client->vm)
        lttng_ust_field_integer(int32_t, client_pid, client->pid)
        lttng_ust_field_string(socket, client->socket)
    )
)

LTTNG_UST_TRACEPOINT_EVENT(vgpu_proxy, lost,
    LTTNG_UST_TP_ARGS(const struct proxy_traced *, client, uint64_t, count),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(vm, client->vm)
        lttng_ust_field_integer(int32_t, client_pid, client->pid)
        lttng_ust_field_integer(uint64_t, count, count)
    )
)

LTTNG_UST_TRACEPOINT_EVENT_CLASS(vgpu_proxy, stage,
    LTTNG_UST_TP_ARGS(const struct tracer_record *, record),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(vm, record->client->told.vm)
        lttng_ust_field_integer(int32_t, client_pid, record->client->told.pid)
        lttng_ust_field_integer(uint64_t, queue, record->told.queue)
        lttng_ust_field_integer(uint64_t, request, record->told.request)
        lttng_ust_field_string(kind, tracer_kinds[record->told.kind])
        lttng_ust_field_integer(uint64_t, bytes, record->told.bytes)
        lttng_ust_field_integer(int64_t, at_ns, record->told.at)
    )
)
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(vgpu_proxy, stage, vgpu_proxy, request_queued,
    LTTNG_UST_TP_ARGS(const struct tracer_record *, record))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(vgpu_proxy, stage, vgpu_proxy, request_submitted,
    LTTNG_UST_TP_ARGS(const struct tracer_record *, record))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(vgpu_proxy, stage, vgpu_proxy, request_running,
    LTTNG_UST_TP_ARGS(const struct tracer_record *, record))

LTTNG_UST_TRACEPOINT_EVENT_CLASS(vgpu_proxy, end,
    LTTNG_UST_TP_ARGS(const struct tracer_record *, record),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(vm, record->client->told.vm)
        lttng_ust_field_integer(int32_t, client_pid, record->client->told.pid)
        lttng_ust_field_integer(uint64_t, queue, record->told.queue)
        lttng_ust_field_integer(uint64_t, request, record->told.request)
        lttng_ust_field_string(kind, tracer_kinds[record->told.kind])
        lttng_ust_field_integer(uint64_t, bytes, record->told.bytes)
        lttng_ust_field_integer(int64_t, at_ns, record->told.at)
        lttng_ust_field_integer(int64_t, wait_ns, record->told.wait_ns)
        lttng_ust_field_integer(int64_t, run_ns, record->told.run_ns)
        lttng_ust_field_integer(int32_t, status, record->told.status)
    )
)
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(vgpu_proxy, end, vgpu_proxy, request_done,
    LTTNG_UST_TP_ARGS(const struct tracer_record *, record))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(vgpu_proxy, end, vgpu_proxy, request_failed,
    LTTNG_UST_TP_ARGS(const struct tracer_record *, record))
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
