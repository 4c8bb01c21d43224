/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
 *
 * The members of kernel types that the programs read. Their positions in the running kernel are
 * filled in when a program is loaded (CO-RE), so neither kernel headers nor a vmlinux.h is needed.
 */
#ifndef VG_COLLECTORS_BPF_KERNEL_H
#define VG_COLLECTORS_BPF_KERNEL_H

#include <stdbool.h>

#include <linux/types.h>

#ifdef __bpf__
# pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct thread_info {
    __u32 cpu; /* only on architectures that store it here: x86 since 5.16 */
};

struct task_struct;

struct rq {
    struct task_struct *curr;
};

struct cfs_rq {
    struct rq *rq; /* with CONFIG_FAIR_GROUP_SCHED */
};

struct sched_entity {
    struct cfs_rq *cfs_rq;
    __u64 sum_exec_runtime;
};

struct task_struct {
    struct thread_info thread_info;
    struct sched_entity se;
    __s32 pid;
    __s32 tgid;
    unsigned int flags;
    unsigned int __state; /* 5.14 and newer */
    __u64 start_boottime;
    struct task_struct *group_leader;
    char comm[16];
};

/* The task before 5.16, which has the CPU itself. Before 5.14 the state has another name and
 * size. */
struct task_struct___old {
    unsigned int cpu;
    volatile long state;
};

#ifdef __bpf__
# pragma clang attribute pop
#endif

#endif
