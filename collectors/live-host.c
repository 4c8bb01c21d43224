/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/live-host.h"

#include <unistd.h>

#include "base/clock.h"

void
vg_live_host_init(struct vg_live_host *host, const char *proc, const char *cgroup, const char *sys)
{
    *host = (struct vg_live_host){0};
    vg_host_contention_init(&host->contention, proc, cgroup, sys);
    host->programs =
        vg_host_programs_new(proc, host->contention.tick_ns, MAX(sysconf(_SC_NPROCESSORS_ONLN), 1));
}

void
vg_live_host_clear(struct vg_live_host *host)
{
    vg_host_contention_clear(&host->contention);
    g_clear_pointer(&host->programs, vg_host_programs_free);
}

/* Reads the host's figures. On a busy host, the thread may read them some time after the window
 * ends, so they are scaled to the window's length. The kernel counts in ticks, so a time below that
 * of the vCPUs counts as 0. */
void
vg_live_host_read(struct vg_live_host *host, struct vg_window *window)
{
    struct vg_host_sample *sample = &window->host;
    int64_t now_ns = vg_clock_monotonic_ns();
    double span_ns = (double)MAX(now_ns - host->read_ns, 1);
    double part = MIN((double)(window->end_ns - window->begin_ns) / span_ns, 1);
    int64_t vcpus_ns = 0;

    vg_host_contention_read(&host->contention, sample, window->cpus);
    vg_host_contention_cut(window, part);
    host->read_ns = now_ns;
    for (guint i = 0; i < window->vms->len; i++)
        vcpus_ns =
            vg_time_sum(vcpus_ns, g_array_index(window->vms, struct vg_vm_sample, i).cpu.run_ns);
    if (sample->own_ns >= 0)
        sample->own_ns = MAX(sample->own_ns - vcpus_ns, 0);
}
