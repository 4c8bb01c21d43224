/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/past-days.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

#define VG_LOG_TAG "engine"

#define READ_LIMIT_NS (2 * VG_NS_PER_S)
#define MINUTE_NS     (60 * VG_NS_PER_S)

/* These flags make the demand of a VM unknown. */
#define LACKS (VG_CPU_NO_SWITCHES | VG_CPU_ABSENT_CPUS)

struct vg_past_days {
    vg_store *store;
    int64_t until_ns;
    vg_day_past *past; /* only the thread uses it until its end */
    vg_thread *thread;
};

/* Returns a VM's waiting time due to its own quota. */
static int64_t
past_days_limited_ns(const struct vg_history_row *row)
{
    for (guint i = 0; i < row->lost_to->len; i++) {
        const struct vg_history_loss *loss =
            &g_array_index(row->lost_to, struct vg_history_loss, i);
        if (strcmp(loss->aggressor, vg_aggressor_name(VG_AGGRESSOR_LIMIT)) == 0)
            return loss->ns;
    }
    return 0;
}

/* Adds a VM that existed for at least half of the time. */
static void
past_days_add(vg_past_days *days, const vg_history_host *host, const struct vg_history_vm *vm,
              int64_t end_ns)
{
    const struct vg_history_row *row = &vm->row;
    const double of_ns =
        (double)host->length_ns / (double)MAX(host->windows, 1) * (double)row->windows;

    if (!g_uuid_string_is_valid(vm->key) || row->lacks & LACKS || of_ns < VG_ENGINE_DAY_NS / 2.0)
        return;
    const double cores = ((double)row->cpu.run_ns + (double)row->cpu.preempt_ns +
                          (double)row->cpu.wake_wait_ns - (double)past_days_limited_ns(row)) /
                         of_ns;
    const double gpu = row->gpu_known ? MIN((double)row->gpu_active_ns / of_ns, 1) : -1;
    vg_day_past_add(days->past, vm->key, end_ns, MAX(cores, 0), gpu);
}

static void
past_days_run(vg_thread *self, void *arg)
{
    vg_past_days *days = arg;

    for (int64_t i = VG_ENGINE_DAY_WINDOWS; i > 0 && !vg_thread_stopping(self); i--) {
        const int64_t begin_ns = days->until_ns - i * VG_ENGINE_DAY_NS;
        const struct vg_history_query query = {
            .source = "live",
            .since_ns = begin_ns,
            .until_ns = begin_ns + VG_ENGINE_DAY_NS,
            .deadline_ns = vg_clock_monotonic_ns() + READ_LIMIT_NS,
        };
        g_autoptr(GError) error = NULL;
        g_autoptr(vg_history_host) host = vg_store_read_host(days->store, &query, &error);
        vg_thread_beat(self);
        if (!host) {
            vg_log_warn("cannot read all of the VMs' last 24 hours reason=\"%s\"", error->message);
            return;
        }
        for (guint v = 0; v < host->vms->len; v++)
            past_days_add(days, host, host->vms->pdata[v], query.until_ns);
    }
}

vg_past_days *
vg_past_days_new(vg_store *store, int64_t until_ns)
{
    vg_past_days *days = g_new0(vg_past_days, 1);
    g_autoptr(GError) error = NULL;

    days->store = store;
    days->until_ns = until_ns / MINUTE_NS * MINUTE_NS;
    days->past = vg_day_past_new();
    days->thread = vg_thread_new("past-days", past_days_run, NULL, days, &error);
    if (days->thread)
        return days;
    vg_log_warn("cannot read the VMs' last 24 hours reason=\"%s\"", error->message);
    vg_past_days_free(days);
    return NULL;
}

const vg_day_past *
vg_past_days_get(const vg_past_days *days)
{
    return vg_thread_ended(days->thread) ? days->past : NULL;
}

void
vg_past_days_free(vg_past_days *days)
{
    if (!days)
        return;
    vg_thread_free(days->thread);
    vg_day_past_free(days->past);
    g_free(days);
}
