/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of the memory shared by the BPF programs and the collector. The collector writes which
 * threads are watched; the programs write what happened. All data are polled, so that a window
 * costs no system call. Times are CLOCK_MONOTONIC nanoseconds. Counters only increase, and a window
 * is the difference between two readings.
 *
 * bpf-slots sets which threads are watched. bpf-record reads a thread's record while it may be
 * written, protected by a sequence number. bpf-losses determines the holders that the thread waited
 * for, and bpf-places its activity on each CPU.
 *
 * The holder of a CPU is only accounted while a thread waits for the CPU. Host processes are
 * separate holders if lanes and shares have space for them, but they never displace VMs. In
 * addition, the total of all processes is counted exactly; the part without a separate holder
 * counts as "others". A share that is evicted goes to a cell, which bpf-losses removes from the
 * kernel in each window. process-names has the processes' names, as seen by the programs, and
 * control groups.
 *
 * A thread's first event shows what it did before. Some kernels omit the event of a switch. If a
 * thread leaves a CPU that it never got, its run time is the growth of the kernel's count
 * (sum_exec_runtime), and the contradiction is counted.
 */
#ifndef VG_COLLECTORS_BPF_SHARED_H
#define VG_COLLECTORS_BPF_SHARED_H

#include <linux/types.h>

/* The maximum number of concurrently watched threads, both vCPUs and main threads of QEMU. Slot 0
 * is not used. */
#define VG_BPF_SLOTS 4096

/* A thread id leads to its slot in two loads. Each 64 thread ids have a page of slots; page 0 is
 * empty. In the worst case every watched thread needs a separate page. */
#define VG_BPF_TID_LIMIT  4194304
#define VG_BPF_PAGE_TIDS  64
#define VG_BPF_PAGES      VG_BPF_SLOTS
#define VG_BPF_PAGE_INDEX (VG_BPF_TID_LIMIT / VG_BPF_PAGE_TIDS)

/* LANES: holders of a CPU that are distinguished while a thread waits for it. SHARES: holders
 * stored with a thread's waits. Both are powers of 2. A further holder replaces the holder that
 * had the CPU longest ago; the part of a wait lost in this way is not attributed. */
#define VG_BPF_LANES  16
#define VG_BPF_SHARES 16

/* CPUs that are distinguished per thread, with the same replacement. */
#define VG_BPF_PLACES 8

/* The holder of a CPU: a VM or one of these. Host processes are distinguished as long as there is
 * space; the others are combined as VG_BPF_HOLDER_USER. A process never displaces a VM from the
 * lanes. */
#define VG_BPF_VCPU               0x40000000u /* flag: a vCPU of the VM; otherwise another thread */
#define VG_BPF_VM_MASK            0x3fffffffu
#define VG_BPF_HOLDER_SPECIAL     0x80000000u
#define VG_BPF_HOLDER_KERNEL      0x80000001u
#define VG_BPF_HOLDER_USER        0x80000002u
#define VG_BPF_HOLDER_IDLE        0x80000003u
#define VG_BPF_HOLDER_UNKNOWN     0x80000004u
#define VG_BPF_PROCESS            0xc0000000u /* combined with the process's pid */
#define VG_BPF_IS_PROCESS(holder) (((holder)&VG_BPF_PROCESS) == VG_BPF_PROCESS)
#define VG_BPF_PID_MASK           0x3fffffffu

enum vg_bpf_state {
    VG_BPF_UNSEEN, /* no event since the thread was first watched */
    VG_BPF_RUNNING,
    VG_BPF_WAIT_PREEMPT,
    VG_BPF_WAIT_WAKE,
    VG_BPF_BLOCKED,
    VG_BPF_EXITED
};

/* VG_EXIT_CLASS_MAX of model/event.h. */
#define VG_BPF_EXIT_CLASSES 11
#define VG_BPF_EXIT_OTHER   10
/* VG_EXIT_ISA_ARM and VG_EXIT_ARM_NO_TRAP of model/exit-class.h. */
#define VG_BPF_ISA_ARM     3
#define VG_BPF_ARM_NO_TRAP 0x400

/* The time that a VM's thread lost to one holder. */
struct vg_bpf_share {
    __u64 ns;
    __u64 count; /* preemptions in favour of the holder */
    __u32 holder;
    __u32 charged; /* number of the thread's charges at the last charge */
};

/* The time that a holder had already held the CPU at the start of a wait for it. */
struct vg_bpf_mark {
    __u64 held_ns;
    __u32 holder;
    __u32 unused;
};

/* The time of a thread on one CPU. */
struct vg_bpf_place {
    __u64 run_ns;
    __u64 wait_ns;
    __u32 cpu;
    __u32 unused;
};

struct vg_bpf_thread {
    __u32 seq; /* odd while a program writes; then retry */
    __s32 tid;
    __u32 vm;
    __u8 is_vcpu; /* otherwise the main thread of a QEMU process, which is not measured */
    __u8 state;   /* enum vg_bpf_state */
    __u8 in_guest;
    __u8 first_was; /* enum vg_bpf_state before its first event, as shown by that event */
    __u64 start_ns; /* start of the thread, CLOCK_BOOTTIME; 0 before the first event */
    __s32 cpu;      /* CPU where it runs, waits or was last */
    __u32 charges;
    __u64 first_ns;      /* time of the first event */
    __u64 first_exec_ns; /* exec_ns at that time if it was a switch-out; otherwise 0 */
    __u64 since_ns;      /* everything up to this time is accounted */
    /* The CPU time according to the kernel when the thread last left a CPU or was woken. */
    __u64 exec_ns;
    __u64 guest_since_ns;
    __u64 run_ns;
    __u64 guest_ns;
    __u64 preempt_ns;
    __u64 wake_wait_ns;
    __u64 blocked_ns;
    __u64 entries;
    __u64 preemptions;
    __u64 wakeups;
    __u64 blocks;
    __u64 unseen_migrations;
    __u64 exits[VG_BPF_EXIT_CLASSES];
    __u32 shares_used;
    __u32 marks_used;
    __u64 user_mark; /* open wait: how long host programs had held its CPU at the start */
    __u32 places_used;
    __u32 place; /* place of its CPU */
    __u32 places_lost;
    __u32 hand; /* position in the search for a share to evict */
    struct vg_bpf_place places[VG_BPF_PLACES];
    struct vg_bpf_share shares[VG_BPF_SHARES]; /* losses in all its waits except the open one */
    struct vg_bpf_mark marks[VG_BPF_LANES];    /* marks of the open wait */
};

struct vg_bpf_lane {
    __u64 held_ns;
    __u64 last_ns;
    __u32 holder;
    __u32 unused;
};

/* A CPU. Lanes and holder are updated only while a watched thread waits for the CPU. */
struct vg_bpf_cpu {
    __u32 seq;
    __u32 waiters;
    __u32 lanes_used;
    __u32 holder;   /* holder since since_ns */
    __u64 since_ns; /* the lanes are complete up to this time */
    __u64 events;   /* events that ran a program; every VG_BPF_COST_EVERYth was timed */
    __u64 timed;
    __u64 timed_ns;
    __u32 noted; /* the last thread in a guest that was reported */
    __u32 unused;
    __u64 user_held_ns; /* how long host programs together held it while a thread waited */
    struct vg_bpf_lane lanes[VG_BPF_LANES];
};

#define VG_BPF_COST_EVERY 256

/* A share that was evicted from its thread's record. */
struct vg_bpf_cell_key {
    __u32 slot;
    __u32 holder;
};

struct vg_bpf_cell {
    __u64 ns;
    __u64 count;
};

struct vg_bpf_totals {
    __u64 discontinuities;
    __u64 evictions;
    __u64 cells_full; /* evicted shares that found no free cell */
    __u64 notes_lost;
};

#define VG_BPF_COMM_LEN 16 /* TASK_COMM_LEN */

/* Names of processes that held a CPU or preempted a thread, each at its pid modulo VG_BPF_NAMES. A
 * later process replaces an earlier process. */
#define VG_BPF_NAMES 4096
struct vg_bpf_name {
    __s32 pid;
    __u32 unused;
    __u64 comm[VG_BPF_COMM_LEN / 8]; /* name of its main thread */
};

/* A thread that may have to be watched, because its name is that of a vCPU, or because it entered a
 * guest. */
struct vg_bpf_note {
    __s32 tid;
    __s32 pid;
    char
        comm[VG_BPF_COMM_LEN]; /* the new name of the thread; empty if the thread entered a guest */
};

#endif
