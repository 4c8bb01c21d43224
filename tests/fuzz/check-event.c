/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/fuzz/check-event.h"

#include <string.h>

#include <glib.h>

#include "model/names.h"

void
require(bool promise)
{
    if (!promise)
        g_abort();
}

static void
check_tid(int32_t tid)
{
    require(tid >= VG_NONE && tid <= VG_TID_LIMIT);
}

static void
check_cpu(int32_t cpu)
{
    require(cpu >= VG_NONE && cpu < VG_CPU_LIMIT);
}

static void
check_comm(const char *comm)
{
    size_t len = strnlen(comm, VG_COMM_LEN);

    require(len < VG_COMM_LEN);
    for (size_t i = len; i < VG_COMM_LEN; i++)
        require(comm[i] == '\0');
}

static void
check_gpu(const struct vg_event *event)
{
    require(event->gpu.op < VG_GPU_OP_MAX && event->gpu.id_space < VG_GPU_ID_MAX);
    require(event->gpu.vgpu == VG_NONE || event->gpu.vgpu > 0);
    require(event->gpu.device < VG_NAMES_MAX && event->gpu.engine < VG_NAMES_MAX &&
            event->gpu.comm < VG_NAMES_MAX);
    require(event->gpu.id_space != VG_GPU_ID_PROCESS ||
            (event->gpu.id > 0 && event->gpu.id <= VG_TID_LIMIT));
}

void
check_event(const struct vg_event *event)
{
    check_cpu(event->cpu);
    check_tid(event->tid);
    check_tid(event->pid);
    require(event->type < VG_EVENT_TYPE_MAX && event->stream == 0);
    switch ((enum vg_event_type)event->type) {
    case VG_EVENT_SCHED_SWITCH:
        check_tid(event->sched_switch.prev_tid);
        check_tid(event->sched_switch.next_tid);
        require(event->sched_switch.prev_state <= VG_PREV_EXITED);
        check_comm(event->sched_switch.prev_comm);
        check_comm(event->sched_switch.next_comm);
        break;
    case VG_EVENT_SCHED_WAKEUP:
    case VG_EVENT_SCHED_WAKING:
        check_tid(event->wakeup.tid);
        check_cpu(event->wakeup.target_cpu);
        check_comm(event->wakeup.comm);
        break;
    case VG_EVENT_SCHED_MIGRATE:
        check_tid(event->migrate.tid);
        check_cpu(event->migrate.orig_cpu);
        check_cpu(event->migrate.dest_cpu);
        check_comm(event->migrate.comm);
        break;
    case VG_EVENT_KVM_ENTRY:
    case VG_EVENT_KVM_EXIT:
        require(event->kvm.exit_class < VG_EXIT_CLASS_MAX);
        check_comm(event->kvm.comm);
        break;
    case VG_EVENT_PROCESS:
    case VG_EVENT_PROCESS_FORK:
    case VG_EVENT_PROCESS_END:
        check_tid(event->process.tid);
        check_tid(event->process.pid);
        check_comm(event->process.comm);
        break;
    case VG_EVENT_LOST:
        require(event->lost.end_ns >= event->ts_ns);
        break;
    case VG_EVENT_GPU:
        check_gpu(event);
        break;
    case VG_EVENT_OTHER:
    case VG_EVENT_TYPE_MAX:
        break;
    }
}
