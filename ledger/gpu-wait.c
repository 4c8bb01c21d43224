/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting requests: their number, and the stages of their waits.
 */
#include "config.h"

#include "ledger/gpu-ledger-private.h"

void
gpu_wait_count(const struct vg_gpu_ledger *ledger, const struct gpu_request *request, bool more)
{
    if (!gpu_is_waiting(request) || request->doubt != GPU_DOUBT_NONE)
        return;
    const struct gpu_place place = gpu_life_place(ledger, request);
    for (int i = 0; i < 2 && place.meters[i]; i++) {
        if (more)
            gpu_meter_wait(place.meters[i], gpu_is_passed(request), ledger->now);
        else
            gpu_meter_wait_over(place.meters[i], gpu_is_passed(request));
    }
}

int
gpu_wait_stages(const struct gpu_request *request, int64_t until_ns, enum gpu_wait last,
                struct gpu_stage ret[GPU_WAIT_MAX])
{
    const int64_t began_ns[] = {request->queued_ns, request->submitted_ns, request->ready_ns};
    int64_t since_ns = VG_TIME_UNKNOWN;
    int n = 0;

    for (int i = 0; i < GPU_WAIT_MAX && !request->has_waited; i++) {
        if (began_ns[i] == VG_TIME_UNKNOWN)
            continue;
        if (since_ns != VG_TIME_UNKNOWN && began_ns[i] > since_ns)
            ret[n++] = (struct gpu_stage){(enum gpu_wait)(i - 1), {since_ns, began_ns[i]}};
        since_ns = began_ns[i];
    }
    if (request->has_waited)
        since_ns = request->state_ns;
    if (since_ns != VG_TIME_UNKNOWN && until_ns > since_ns)
        ret[n++] = (struct gpu_stage){last, {since_ns, until_ns}};
    return n;
}

enum gpu_wait
gpu_wait_next(const struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    if (request->given != GPU_NOT_GIVEN)
        return GPU_WAIT_DRIVER;
    if (request->state == GPU_STATE_QUEUED &&
        (request->vgpu != VG_NONE || ledger->told_ops & 1U << VG_GPU_SUBMITTED))
        return GPU_WAIT_VGPU;
    return request->state < GPU_STATE_READY && ledger->told_ops & 1U << VG_GPU_READY
               ? GPU_WAIT_DEPENDENCY
               : GPU_WAIT_DRIVER;
}
