/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "ledger/cpu-sight.h"

#include <glib.h>

/* Fewer missing records than this can be caused by clocks that differ between CPUs. */
#define FEW_RECORDS 20

/* Beyond these percentages of all, the missing records change figures notably. */
#define UNWOKEN_PERCENT    1
#define NEVER_LEFT_PERCENT 10

bool
vg_cpu_sleeps_miss_wakeups(const struct vg_cpu_sleeps *sleeps)
{
    return sleeps->unwoken >= FEW_RECORDS &&
           sleeps->unwoken * 100 > UNWOKEN_PERCENT * (sleeps->woken + sleeps->unwoken);
}

bool
vg_cpu_sight_is_partial(const struct vg_cpu_sight *sight)
{
    return sight->never_left >= FEW_RECORDS + 2 * (uint64_t)sight->cpus &&
           sight->never_left * 100 > NEVER_LEFT_PERCENT * sight->switches;
}

void
cpu_sight_lose(struct cpu_sight *sight, int64_t now, int64_t end_ns)
{
    int64_t until = end_ns == INT64_MAX ? now : MAX(now, end_ns);

    sight->blind_until = MAX(sight->blind_until, until);
}

void
cpu_sight_sleep(struct cpu_thread_sight *thread, int64_t now)
{
    thread->asleep = true;
    thread->slept_ns = now;
}

/* Returns whether each CPU with records has had a switch at this time or later. */
static bool
cpu_sight_sees_all(struct cpu_sight *sight, int64_t since_ns)
{
    if (sight->oldest_ns >= since_ns)
        return true;
    sight->oldest_ns = INT64_MAX;
    for (int32_t i = 0; i < sight->n_cpus; i++)
        sight->oldest_ns = MIN(sight->oldest_ns, sight->switched_ns[i]);
    return sight->oldest_ns >= since_ns;
}

void
cpu_sight_wake(struct cpu_sight *sight, struct cpu_thread_sight *thread, bool woken)
{
    if (!thread->asleep)
        return;
    thread->asleep = false;
    if (thread->slept_ns <= sight->blind_until)
        return;
    if (woken) {
        thread->sleeps.woken++;
        sight->sleeps.woken++;
    } else if (cpu_sight_sees_all(sight, thread->slept_ns)) {
        thread->sleeps.unwoken++;
        sight->sleeps.unwoken++;
    }
}

void
cpu_sight_leave(struct cpu_sight *sight, struct cpu_thread_sight *thread)
{
    bool *has_left = thread ? &thread->has_left : &sight->idle_left;
    const uint32_t *came_in = thread ? &thread->came_in : &sight->idle_in;

    if (*has_left)
        return;
    *has_left = true;
    sight->never_left -= *came_in;
}

void
cpu_sight_come(struct cpu_sight *sight, struct cpu_thread_sight *thread, int32_t cpu, int64_t now)
{
    uint32_t *came_in = thread ? &thread->came_in : &sight->idle_in;

    sight->n_cpus = MAX(sight->n_cpus, cpu + 1);
    sight->switched_ns[cpu] = now;
    sight->switches++;
    if (thread ? thread->has_left : sight->idle_left)
        return;
    (*came_in)++;
    sight->never_left++;
}
