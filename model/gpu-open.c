/* SPDX-License-Identifier: Apache-2.0
 *
 * What is open when a book is read: its waiting and running so far.
 */
#include "config.h"

#include "model/gpu-ledger-private.h"

static void
gpu_open_forget(struct vg_gpu_ledger *ledger)
{
    const struct gpu_open none = {.oldest_run_ns = VG_TIME_MAX};

    for (guint i = 0; i < ledger->engines->len; i++)
        gpu_engine_at(ledger, i)->meter.open = none;
    for (guint i = 0; i < ledger->users->len; i++) {
        if (gpu_user_at(ledger, i))
            gpu_user_at(ledger, i)->meter.open = none;
    }
    for (guint i = 0; i < ledger->owners->len; i++) {
        if (gpu_owner_at(ledger, i))
            gpu_owner_at(ledger, i)->oldest_open_ns = VG_TIME_MAX;
    }
}

static void
gpu_open_add(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
             struct gpu_open *open, int64_t from_ns)
{
    struct gpu_stage stages[GPU_WAIT_MAX];
    int n = 0;

    open->partial++;
    if (request->doubt != GPU_DOUBT_NONE)
        return;
    if (gpu_is_waiting(request))
        n = gpu_life_stages(request, ledger->now, gpu_life_next_wait(ledger, request), stages);
    for (int i = 0; i < n; i++)
        gpu_meter_grow(&open->wait_ns[stages[i].wait],
                       gpu_interval_after(stages[i].interval, from_ns), GPU_METER_WAIT_MAX);
    if (request->state != GPU_STATE_RUNNING)
        return;
    const struct gpu_interval run = {request->state_ns, ledger->now};
    gpu_meter_grow(&open->exec_ns, gpu_interval_after(run, from_ns), VG_TIME_MAX);
    open->oldest_run_ns = MIN(open->oldest_run_ns, request->state_ns);
}

static int64_t
gpu_open_since(const struct gpu_request *request)
{
    if (!gpu_is_waiting(request) || request->has_waited)
        return request->state_ns;
    return request->queued_ns == VG_TIME_UNKNOWN ? request->submitted_ns == VG_TIME_UNKNOWN
                                                       ? request->ready_ns
                                                       : request->submitted_ns
                                                 : request->queued_ns;
}

void
gpu_open_read(struct vg_gpu_ledger *ledger, enum gpu_book_kind kind)
{
    const struct gpu_requests *all = &ledger->requests;
    const uint32_t lists[] = {all->age.first, all->doubt.first};

    gpu_open_forget(ledger);
    for (size_t i = 0; i < G_N_ELEMENTS(lists); i++) {
        for (uint32_t index = lists[i]; index != GPU_NO_INDEX;
             index = gpu_request_at(all, index)->lists[GPU_LIST_AGE].next) {
            const struct gpu_request *request = gpu_request_at(all, index);
            const struct gpu_place place = gpu_life_place(ledger, request);
            for (int k = 0; k < 2 && place.meters[k]; k++)
                gpu_open_add(ledger, request, &place.meters[k]->open, ledger->begin_ns[kind]);
            if (!place.active || request->doubt != GPU_DOUBT_NONE)
                continue;
            struct gpu_owner *owner =
                gpu_owner_at(ledger, gpu_user_at(ledger, request->user)->owner);
            owner->oldest_open_ns = MIN(owner->oldest_open_ns, gpu_open_since(request));
        }
    }
}
