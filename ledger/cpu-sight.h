/* SPDX-License-Identifier: Apache-2.0
 *
 * Signs of records that are missing without a notice. In a complete recording, a thread is woken
 * from its sleep before it gets a CPU, and a thread that got a CPU leaves it later. Private to the
 * CPU ledger, except for struct vg_cpu_sight.
 */
#ifndef VG_LEDGER_CPU_SIGHT_H
#define VG_LEDGER_CPU_SIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "model/event.h"

/* How threads' sleeps ended. Only sleeps without known losses count. */
struct vg_cpu_sleeps {
    uint64_t woken;
    uint64_t unwoken; /* the thread got a CPU, but no record wakes it */
};

/* Of a recording. */
struct vg_cpu_sight {
    struct vg_cpu_sleeps sleeps;
    uint64_t switches;   /* to a thread, or to the idle task of any CPU */
    uint64_t never_left; /* to threads that no record shows leaving a CPU */
    int32_t cpus;        /* with records */
};

/* The state that the ledger keeps. */
struct cpu_sight {
    struct vg_cpu_sleeps sleeps;
    uint64_t switches, never_left;
    uint32_t idle_in;
    bool idle_left;
    int64_t blind_until;               /* records are known to be lost up to here */
    int64_t oldest_ns;                 /* a lower bound of all switched_ns */
    int32_t n_cpus;                    /* CPUs from this number on have had no switch */
    int64_t switched_ns[VG_CPU_LIMIT]; /* the last switch of each CPU, or 0 */
};

/* The part of a thread. */
struct cpu_thread_sight {
    struct vg_cpu_sleeps sleeps;
    bool asleep;      /* a record at slept_ns showed the start of the current sleep */
    bool has_left;    /* a record showed that it left a CPU */
    uint32_t came_in; /* number of switches to it, while !has_left */
    int64_t slept_ns;
};

/* Returns whether enough wakeups are missing to make waits and sleep time unknown. Single ones
 * can be caused by clocks that differ between CPUs. */
bool vg_cpu_sleeps_miss_wakeups(const struct vg_cpu_sleeps *sleeps);

/* Returns whether the recording contains only the switches from some threads to others. At any time
 * in a complete recording, at most one thread per CPU has not left yet. */
bool vg_cpu_sight_is_partial(const struct vg_cpu_sight *sight);

/* Records are lost until end_ns; INT64_MAX if the end is not known. */
void cpu_sight_lose(struct cpu_sight *sight, int64_t now, int64_t end_ns);
void cpu_sight_sleep(struct cpu_thread_sight *thread, int64_t now);
/* Ends the sleep, if there is one: by a wakeup or not. A missing wakeup counts only if each CPU has
 * had a switch during the sleep: the records of others may have ended, as in a cut recording. */
void cpu_sight_wake(struct cpu_sight *sight, struct cpu_thread_sight *thread, bool woken);
/* A thread leaves its CPU, or gets one; NULL is the idle task. */
void cpu_sight_leave(struct cpu_sight *sight, struct cpu_thread_sight *thread);
void cpu_sight_come(struct cpu_sight *sight, struct cpu_thread_sight *thread, int32_t cpu,
                    int64_t now);

#endif
