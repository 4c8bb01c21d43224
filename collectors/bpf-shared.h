/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of the memory that the BPF programs and the collector share. The collector writes
 * which threads are watched, the programs write what happened; everything is polled, so that a
 * window costs no system call. Times are CLOCK_MONOTONIC nanoseconds. Counters only grow,
 * and a window is the difference of two readings.
 *
 * bpf-slots says there who is watched. bpf-record reads a thread's record while it is written (a
 * sequence number tells), bpf-losses for whom the thread waited, bpf-places what it did on which
 * CPU. Who holds a CPU is only accounted while somebody waits for it. Processes of the host are
 * holders of their own where there is room for them among lanes and shares, which they never take
 * from VMs; beside that, what all of them held is counted exactly, and the rest is nobody's of them
 * ("others"). What lost its share goes to a cell, which bpf-losses takes out of the kernel each
 * window; process-names has their names, as the programs saw them, and control groups.
 *
 * What a thread did before its first event, that event says. Some kernels leave out the event of a
 * switch; a thread that leaves a CPU which it never got has run for what the kernel's own count of
 * its time (sum_exec_runtime) has grown by, and the contradiction is counted.
 */
#ifndef VG_COLLECTORS_BPF_SHARED_H
#define VG_COLLECTORS_BPF_SHARED_H

#include <linux/types.h>

/* The number of threads that can be watched at once, vCPUs and main threads of QEMU alike. Slot 0
 * is none. */
#define VG_BPF_SLOTS 4096

/* A thread id leads to its slot in two loads: there is a page of slots for every 64 thread ids, and
 * page 0 is empty. In the worst case every watched thread needs a page of its own. */
#define VG_BPF_TID_LIMIT  4194304
#define VG_BPF_PAGE_TIDS  64
#define VG_BPF_PAGES      VG_BPF_SLOTS
#define VG_BPF_PAGE_INDEX (VG_BPF_TID_LIMIT / VG_BPF_PAGE_TIDS)

/* LANES: holders of a CPU that are told apart while somebody waits for it. SHARES: holders kept
 * with a thread's waits. Powers of 2. A further holder replaces the one that held the CPU longest
 * ago, and the part of a wait that is lost by that is nobody's. */
#define VG_BPF_LANES  16
#define VG_BPF_SHARES 16

/* CPUs that are told apart with a thread, likewise. */
#define VG_BPF_PLACES 8

/* The holder of a CPU: a VM, or one of these. Each process of the host's programs is told apart as
 * long as there is room; others are VG_BPF_HOLDER_USER together. A process never takes the room of
 * a VM among the lanes. */
#define VG_BPF_VCPU               0x40000000u /* flag: a vCPU of the VM; otherwise another thread */
#define VG_BPF_VM_MASK            0x3fffffffu
#define VG_BPF_HOLDER_SPECIAL     0x80000000u
#define VG_BPF_HOLDER_KERNEL      0x80000001u
#define VG_BPF_HOLDER_USER        0x80000002u
#define VG_BPF_HOLDER_IDLE        0x80000003u
#define VG_BPF_HOLDER_UNKNOWN     0x80000004u
#define VG_BPF_PROCESS            0xc0000000u /* with the pid of the process */
#define VG_BPF_IS_PROCESS(holder) (((holder)&VG_BPF_PROCESS) == VG_BPF_PROCESS)
#define VG_BPF_PID_MASK           0x3fffffffu

enum vg_bpf_state {
    VG_BPF_UNSEEN, /* no event since it is watched */
    VG_BPF_RUNNING,
    VG_BPF_WAIT_PREEMPT,
    VG_BPF_WAIT_WAKE,
    VG_BPF_BLOCKED,
    VG_BPF_EXITED
};

/* VG_EXIT_CLASS_MAX of model/event.h. */
#define VG_BPF_EXIT_CLASSES 11
#define VG_BPF_EXIT_OTHER   10

/* The time that a VM's thread lost to one holder. */
struct vg_bpf_share {
    __u64 ns;
    __u64 count; /* preemptions whose next thread was the holder's */
    __u32 holder;
    __u32 charged; /* number of the thread's charges at the last one */
};

/* The time for which a holder had held the CPU when a wait for it began. */
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
    __u32 seq; /* odd while a program writes; then read again */
    __s32 tid;
    __u32 vm;
    __u8 is_vcpu; /* otherwise the main thread of a QEMU process, which is not measured */
    __u8 state;   /* enum vg_bpf_state */
    __u8 in_guest;
    __u8 first_was; /* enum vg_bpf_state before its first event, which tells it */
    __u64 start_ns; /* start of the thread, CLOCK_BOOTTIME; 0: not seen yet */
    __s32 cpu;      /* CPU on which it runs, waits or was last */
    __u32 charges;
    __u64 first_ns;      /* time of the first event */
    __u64 first_exec_ns; /* exec_ns at that time if it was a switch-out; otherwise 0 */
    __u64 since_ns;      /* time up to which all is accounted */
    /* The CPU time that the kernel had counted when the thread last left a CPU or was woken. */
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
    __u64 user_mark; /* open wait: time for which the host's programs had held its CPU at the
                      * begin */
    __u32 places_used;
    __u32 place; /* place of its CPU */
    __u32 places_lost;
    __u32 hand; /* position in the search for a share that makes room */
    struct vg_bpf_place places[VG_BPF_PLACES];
    struct vg_bpf_share shares[VG_BPF_SHARES]; /* losses of all its waits but the open one */
    struct vg_bpf_mark marks[VG_BPF_LANES];    /* marks of the open wait */
};

struct vg_bpf_lane {
    __u64 held_ns;
    __u64 last_ns;
    __u32 holder;
    __u32 unused;
};

/* A CPU. Lanes and holder are kept up to date while a watched thread waits for it. */
struct vg_bpf_cpu {
    __u32 seq;
    __u32 waiters;
    __u32 lanes_used;
    __u32 holder;   /* holder since since_ns */
    __u64 since_ns; /* time up to which the lanes are complete */
    __u64 events;   /* events for which a program was run; every VG_BPF_COST_EVERYth was timed */
    __u64 timed;
    __u64 timed_ns;
    __u32 noted; /* thread in a guest that was noted last */
    __u32 unused;
    __u64 user_held_ns; /* time held by the host's programs together, while somebody waited */
    struct vg_bpf_lane lanes[VG_BPF_LANES];
};

#define VG_BPF_COST_EVERY 256

/* A share that did not fit into those of its thread. */
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
    __u64 cells_full; /* evicted shares that found no cell */
    __u64 notes_lost;
};

#define VG_BPF_COMM_LEN 16 /* TASK_COMM_LEN */

/* Names of processes that held a CPU or preempted, each at its pid modulo VG_BPF_NAMES; a later one
 * replaces the one there. */
#define VG_BPF_NAMES 4096
struct vg_bpf_name {
    __s32 pid;
    __u32 unused;
    __u64 comm[VG_BPF_COMM_LEN / 8]; /* name of its main thread */
};

/* A thread that may have to be watched: it is named like a vCPU, or entered a guest. */
struct vg_bpf_note {
    __s32 tid;
    __s32 pid;
    char comm[VG_BPF_COMM_LEN]; /* name that it is being given; empty: it entered a guest */
};

#endif
