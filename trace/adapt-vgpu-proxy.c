/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpu-proxy's own tracepoints in LTTng-UST (docs/vgpu-proxy.8): the commands of programs in VMs
 * that have no GPU. They are recorded a few milliseconds late, and contain the actual time on the
 * recording's clock. As far as the proxy knows, one command runs at a time.
 */
#include "config.h"

#include "trace/adapt-gpu.h"

static const char *
proxy_read_request(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
                   struct vg_event *event)
{
    int64_t request, at_ns;
    char vm[VG_NAME_SIZE];

    vg_gpu_event_init(binding, env, record, event);
    event->gpu.comm = VG_NAME_NONE;
    event->gpu.device = vg_names_id(env->names, "vgpu-proxy");
    event->gpu.engine = vg_names_id(env->names, "opencl");
    if (!vg_binding_str(binding, VG_SLOT_VM, record, vm, sizeof(vm)) || !vm[0] ||
        !vg_binding_int(binding, VG_SLOT_WORKLOAD, record, &request) || request == 0 ||
        !vg_binding_int(binding, VG_SLOT_AT, record, &at_ns) || at_ns <= 0)
        return "a vgpu-proxy record has no VM, request or time";
    vm[VG_NAME_SIZE - 1] = '\0';
    event->gpu.vgpu = vg_names_id(env->names, vm);
    event->gpu.id = (uint64_t)request;
    event->gpu.id_space = VG_GPU_ID_WORKLOAD;
    event->gpu.told_ns = at_ns;
    return NULL;
}

static const struct vg_adapter_field adapt_vgpu_proxy_fields[] = {
    {VG_SLOT_VM, true, {"vm"}},
    {VG_SLOT_WORKLOAD, true, {"request"}},
    {VG_SLOT_AT, true, {"at_ns"}},
    {.names = {NULL}},
};

#define PROXY_EVENT(name, op, flags)                                                               \
 {                                                                                                 \
  {name}, VG_EVENT_GPU, adapt_vgpu_proxy_fields, proxy_read_request, op,                           \
      VG_GPU_OF_VM | VG_GPU_REPORTED_LATE | (flags)                                                \
 }

const struct vg_adapter vg_adapt_vgpu_proxy[] = {
    PROXY_EVENT("request_queued", VG_GPU_QUEUED, 0),
    PROXY_EVENT("request_submitted", VG_GPU_SUBMITTED, 0),
    PROXY_EVENT("request_running", VG_GPU_RUNNING, 0),
    PROXY_EVENT("request_done", VG_GPU_DONE, 0),
    PROXY_EVENT("request_failed", VG_GPU_DONE, VG_GPU_FAILED),
    {.names = {NULL}},
};
