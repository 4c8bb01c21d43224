/* SPDX-License-Identifier: Apache-2.0
 *
 * What the BPF programs and the collector share: the layout of the memory that both have mapped.
 * The collector writes who is watched, the programs write what happened; everything is polled, so
 * that a window costs no system call. Times are CLOCK_MONOTONIC nanoseconds. Counters only grow.
 */
#ifndef VG_COLLECTORS_BPF_SHARED_H
#define VG_COLLECTORS_BPF_SHARED_H

#include <linux/types.h>

/* Threads that can be watched at once, vCPUs and main threads of QEMU alike. Slot 0 is none. */
#define VG_BPF_SLOTS 4096

/* From a thread id to its slot in two loads: a page of slots for every 64 thread ids, page 0 is
 * empty. In the worst case every watched thread needs a page of its own. */
#define VG_BPF_TID_LIMIT  4194304
#define VG_BPF_PAGE_TIDS  64
#define VG_BPF_PAGES      VG_BPF_SLOTS
#define VG_BPF_PAGE_INDEX (VG_BPF_TID_LIMIT / VG_BPF_PAGE_TIDS)

/* Holders of a CPU that are told apart while somebody waits for it; of a thread's waits that are
 * kept with it. A power of 2 each. Further ones replace who held it longest ago, and what a wait
 * lost by that is nobody's. */
#define VG_BPF_LANES  16
#define VG_BPF_SHARES 16

/* CPUs of which is told what a thread did there, likewise. */
#define VG_BPF_PLACES 8

/* Who holds a CPU: a VM, or one of these. Of the host's programs each process is told apart as long
 * as there is room for it; those that lose theirs are VG_BPF_HOLDER_USER together. None of them
 * ever takes the room of a VM among the lanes. */
#define VG_BPF_VCPU               0x40000000u /* flag: by a vCPU of the VM, else by another thread */
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
    VG_BPF_UNSEEN, /* nothing has happened to it since it is watched */
    VG_BPF_RUNNING,
    VG_BPF_WAIT_PREEMPT,
    VG_BPF_WAIT_WAKE,
    VG_BPF_BLOCKED,
    VG_BPF_EXITED
};

/* VG_EXIT_CLASS_MAX of model/event.h. */
#define VG_BPF_EXIT_CLASSES 11
#define VG_BPF_EXIT_OTHER   10

/* What a VM's thread lost to one holder. */
struct vg_bpf_share {
    __u64 ns;
    __u64 count; /* preemptions whose next thread was the holder's */
    __u32 holder;
    __u32 charged; /* the thread's charges when it was charged last */
};

/* How long a holder had held the CPU when a wait for it began. */
struct vg_bpf_mark {
    __u64 held_ns;
    __u32 holder;
    __u32 unused;
};

/* What a thread did on one CPU. */
struct vg_bpf_place {
    __u64 run_ns;
    __u64 wait_ns;
    __u32 cpu;
    __u32 unused;
};

struct vg_bpf_thread {
    __u32 seq; /* odd while a program writes: what was read meanwhile is to be read again */
    __s32 tid;
    __u32 vm;
    __u8 is_vcpu; /* else the main thread of a QEMU process, which is not measured */
    __u8 state;   /* enum vg_bpf_state */
    __u8 in_guest;
    __u8 first_was; /* enum vg_bpf_state: what it did up to its first event, which says so */
    __u64 start_ns; /* of the thread, CLOCK_BOOTTIME; 0: not seen yet */
    __s32 cpu;      /* runs there, waits for it, or was last there */
    __u32 charges;
    __u64 first_ns;      /* of the first event */
    __u64 first_exec_ns; /* exec_ns at that, if it was a switch-out; else 0 */
    __u64 since_ns;      /* time is accounted up to here */
    /* CPU time that the kernel had counted when it last left a CPU or was woken. */
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
    __u64 user_mark; /* of the open wait: what the host's programs had held its CPU when it began */
    __u32 places_used;
    __u32 place; /* that its CPU has */
    __u32 places_lost;
    __u32 hand; /* goes round the shares, looking for one that makes room */
    struct vg_bpf_place places[VG_BPF_PLACES];
    struct vg_bpf_share shares[VG_BPF_SHARES]; /* of all its waits but the open one */
    struct vg_bpf_mark marks[VG_BPF_LANES];    /* of the open wait */
};

struct vg_bpf_lane {
    __u64 held_ns;
    __u64 last_ns;
    __u32 holder;
    __u32 unused;
};

/* Of a CPU. Lanes and holder are kept up while somebody watched waits for it. */
struct vg_bpf_cpu {
    __u32 seq;
    __u32 waiters;
    __u32 lanes_used;
    __u32 holder;   /* since since_ns */
    __u64 since_ns; /* the lanes say who held the CPU up to here */
    __u64 events;   /* that a program was run for; every VG_BPF_COST_EVERYth was timed */
    __u64 timed;
    __u64 timed_ns;
    __u32 noted; /* the thread in a guest that was told last */
    __u32 unused;
    __u64 user_held_ns; /* by the host's programs together, while somebody waited */
    struct vg_bpf_lane lanes[VG_BPF_LANES];
};

#define VG_BPF_COST_EVERY 256

/* What did not fit into the shares of a thread. */
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

/* Names of processes that held a CPU or preempted, each at its pid modulo VG_BPF_NAMES: who comes
 * later takes the place of who was there. */
#define VG_BPF_NAMES 4096
struct vg_bpf_name {
    __s32 pid;
    __u32 unused;
    __u64 comm[VG_BPF_COMM_LEN / 8]; /* of its main thread */
};

/* Somebody who may have to be watched: a thread that is named like a vCPU, or entered a guest. */
struct vg_bpf_note {
    __s32 tid;
    __s32 pid;
    char comm[VG_BPF_COMM_LEN]; /* that it is being given; empty: it entered a guest */
};

#endif
