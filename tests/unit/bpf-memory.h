/* SPDX-License-Identifier: Apache-2.0
 *
 * The BPF programs of collectors/vcpu.bpf.c, compiled for this machine and run in this process: a
 * small kernel around them says who runs where and what time it is, and calls them as the real one
 * would. One kernel at a time; its events come from one thread.
 */
#ifndef VG_TESTS_BPF_MEMORY_H
#define VG_TESTS_BPF_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "collectors/bpf-slots.h"
#include "model/event.h"

#define BPF_MEMORY_CPUS 8

/* What a thread that leaves its CPU is. PREEMPTED: it was going to sleep and did not get there. */
enum bpf_leaves {
    BPF_LEAVES_RUNNABLE,
    BPF_LEAVES_PREEMPTED,
    BPF_LEAVES_BLOCKED,
    BPF_LEAVES_EXITED
};

/* A new kernel in which nobody runs and nobody is watched. */
void bpf_memory_reset(void);

/* As bpf-load.h has it. */
const struct vg_bpf_memory *bpf_memory(void);
const struct vg_bpf_totals *bpf_memory_totals(void);

/* For vg_bpf_record_read(). */
const struct vg_bpf_cpu *bpf_memory_cpu_of(const void *unused, int32_t cpu);
int64_t bpf_memory_now(void); /* from any thread */

/* struct vg_bpf_note, in the order in which they came. */
const GArray *bpf_memory_notes(void);

/* Times of events; may stand still, never go back. */
void bpf_set_now(int64_t now_ns);

/* From now on the thread with this tid is another one. is_kernel: a kernel thread. */
void bpf_set_thread(int32_t tid, int32_t pid, uint64_t start_ns, bool is_kernel);

/* The name of a thread; of a process that of its main thread, which is to be set before others. */
void bpf_set_comm(int32_t tid, const char *comm);

/* Who runs on a CPU without an event that said so; 0: its idle thread. Its time is counted from now
 * on, as the kernel does it. */
void bpf_set_current(int cpu, int32_t tid);
int32_t bpf_current(int cpu); /* VG_NONE: not set */

/* Events, at the present time. cpu: where it happens. */
void bpf_switch(int cpu, int32_t prev_tid, enum bpf_leaves how, int32_t next_tid);
void bpf_wakeup(int cpu, int32_t tid, int target_cpu);
void bpf_wakeup_new(int cpu, int32_t tid, int target_cpu);
void bpf_migrate(int cpu, int32_t tid, int dest_cpu);
void bpf_entry(int cpu);
void bpf_exit(int cpu, uint32_t exit_class);
/* The exit of a kernel for arm64, with the first two arguments of its tracepoint. */
void bpf_exit_arm(int cpu, uint32_t code, uint32_t exception_class);
void bpf_rename(int cpu, int32_t tid, const char *comm);

#endif
