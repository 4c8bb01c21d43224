/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/judge-figures.h"

#include "base/clock.h"
#include "base/error.h"
#include "cluster/peer-steps.h"
#include "model/event.h"
#include "model/figures.h"

#define READ_LIMIT_NS (5 * VG_NS_PER_S)

/* These flags make run_ns, preempt_ns or wake_wait_ns unknown, or a lower bound. */
#define LACKS (VG_CPU_NO_WAITS | VG_CPU_ABSENT_CPUS)

/* Finds the step in which a window ends, or NULL. */
static struct vg_verdict_step *
judge_step_at(GArray *steps, int64_t begin_ns, int64_t end_ns)
{
    const int64_t i = (end_ns - 1 - begin_ns) / VG_VERDICT_STEP_NS;

    return end_ns > begin_ns && i < (int64_t)steps->len
               ? &g_array_index(steps, struct vg_verdict_step, (guint)i)
               : NULL;
}

static int
judge_read_own(vg_store *store, int64_t begin_ns, GArray *steps, GError **err)
{
    const struct vg_history_query query = {
        .since_ns = begin_ns,
        .until_ns = begin_ns + steps->len * VG_VERDICT_STEP_NS,
        .step_ns = VG_VERDICT_STEP_NS,
        .deadline_ns = vg_clock_monotonic_ns() + READ_LIMIT_NS,
    };
    g_autoptr(GArray) found = vg_store_read_steps(store, &query, err);

    for (guint i = 0; found && i < found->len; i++) {
        const struct vg_history_step *from = &g_array_index(found, struct vg_history_step, i);
        struct vg_verdict_step *to = judge_step_at(steps, begin_ns, from->end_ns);
        if (!to)
            continue;
        *to = (struct vg_verdict_step){
            .measured_ns = from->length_ns,
            .known = !(from->lacks & LACKS),
            .vms = (double)from->vm_windows / (double)MAX(from->windows, 1),
            .run_ns = from->run_ns,
            .lost_ns = vg_time_sum(from->preempt_ns, from->wake_wait_ns),
            .gpu_of_ns = from->host.gpu_of_ns,
            .gpu_wait_ns = from->host.gpu_wait_ns,
        };
    }
    return found ? 0 : -1;
}

static int
judge_read_peer(vg_peers *peers, const char *peer, int64_t begin_ns, GArray *steps, GError **err)
{
    const struct vg_peer_period period = {
        .since_s = begin_ns / VG_NS_PER_S,
        .until_s = (begin_ns + steps->len * VG_VERDICT_STEP_NS) / VG_NS_PER_S,
        .step_s = VG_VERDICT_STEP_NS / VG_NS_PER_S,
    };
    g_autoptr(GArray) found = vg_peer_steps(peers, peer, &period, READ_LIMIT_NS, err);

    for (guint i = 0; found && i < found->len; i++) {
        const struct vg_peer_step *from = &g_array_index(found, struct vg_peer_step, i);
        struct vg_verdict_step *to = judge_step_at(steps, begin_ns, from->end_ns);
        if (!to || from->measured_ns == 0)
            continue;
        *to = (struct vg_verdict_step){
            .measured_ns = from->measured_ns,
            .known = from->known,
            .vms = from->vms,
            .run_ns = from->run_ns,
            .lost_ns = from->lost_ns,
            .gpu_of_ns = from->gpu_wait_share < 0 ? 0 : from->measured_ns,
            .gpu_wait_ns = (int64_t)(MAX(from->gpu_wait_share, 0) * (double)from->measured_ns),
        };
    }
    return found ? 0 : -1;
}

struct vg_verdict_host *
judge_read_host(const struct judge_sources *sources, const char *host, const char *peer,
                const struct judge_times *times)
{
    struct vg_verdict_host *ret =
        vg_verdict_host_new(host, (guint)(times->length_ns / VG_VERDICT_STEP_NS));
    const struct {
        GArray *steps;
        int64_t begin_ns;
    } sides[] = {{ret->before, times->before_ns}, {ret->after, times->after_ns}};

    for (size_t i = 0; i < G_N_ELEMENTS(sides) && !ret->reason; i++) {
        g_autoptr(GError) error = NULL;
        const int status =
            peer ? judge_read_peer(sources->peers, peer, sides[i].begin_ns, sides[i].steps, &error)
                 : judge_read_own(sources->store, sides[i].begin_ns, sides[i].steps, &error);
        if (status < 0)
            ret->reason = g_strdup_printf("the figures of host '%s' cannot be read: %s", host,
                                          error->message);
    }
    return ret;
}
