/* SPDX-License-Identifier: Apache-2.0
 *
 * A small host for tests of the CPU ledger, the records it writes, and what is expected of them.
 *
 * Cast: VM 10 (main thread 10, vCPUs 11 and 12, I/O thread 13), VM 20 (main thread 20, vCPU 21),
 * kernel thread 30, user threads 40 and 41; all are named at time 0.
 */
#ifndef VG_TESTS_LEDGER_HOST_H
#define VG_TESTS_LEDGER_HOST_H

#include "ledger/cpu-ledger.h"

struct host {
    vg_topology *topology;
    vg_cpu_ledger *ledger;
};

int host_setup(void **state);
int host_teardown(void **state);

/* Records. A switch carries no names; wakeups, migrations and losses come from no thread. */
void feed_process(struct host *h, int64_t t, int32_t tid, int32_t pid, const char *comm);
/* A kvm exit is one for hlt. */
void feed(struct host *h, int64_t t, enum vg_event_type type, int cpu, int32_t tid);
void feed_switch(struct host *h, int64_t t, int cpu, int32_t prev, enum vg_prev_state state,
                 int32_t next);
void feed_wakeup(struct host *h, int64_t t, enum vg_event_type type, int32_t tid, int target_cpu);
void feed_migrate(struct host *h, int64_t t, int32_t tid, int dest_cpu);
/* 7 events and 1 packet are gone. */
void feed_loss(struct host *h, int64_t t, int64_t end, int cpu);

/* Figures of a task, zero if there is none; of a VM, which must be there; of one aggressor, zero if
 * there is none; and all that a VM lost. */
struct vg_cpu_figures task_in(const struct vg_window *w, int32_t tid);
const struct vg_vm_sample *vm_in(const struct vg_window *w, int32_t pid);
struct vg_lost_to lost_in(const struct vg_window *w, int32_t victim_pid,
                          enum vg_aggressor_kind kind, int32_t pid);
int64_t lost_sum(const struct vg_window *w, int32_t pid);

/* observed_ns must be the sum. */
void expect_times(const struct vg_cpu_figures *f, int64_t run, int64_t preempt, int64_t wake_wait,
                  int64_t blocked);

/* The same of a task in the period until t. */
void expect_task(struct host *h, int64_t t, int32_t tid, int64_t run, int64_t preempt,
                 int64_t wake_wait, int64_t blocked);
uint64_t discontinuities_at(struct host *h, int64_t t);

#endif
