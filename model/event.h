/* SPDX-License-Identifier: Apache-2.0
 *
 * One scheduler, KVM, process or GPU event in the form every ledger understands, whatever recorded
 * it. Fixed size and free of pointers, so that it can cross a queue or a fuzzer unchanged; names of
 * GPUs and engines are numbers of the table that comes with the events (model/names.h).
 */
#ifndef VG_MODEL_EVENT_H
#define VG_MODEL_EVENT_H

#include <stdbool.h>
#include <stdint.h>

/* TASK_COMM_LEN of the kernel: 15 bytes and a NUL. */
#define VG_COMM_LEN 16

/* Latest time an event can have: 146 years. Leaves room for a window or a clock offset on top. */
#define VG_TIME_MAX (INT64_C(1) << 62)

/* Sums of times that are no times themselves, as of requests that wait side by side, stop there. */
static inline int64_t
vg_time_sum(int64_t a, int64_t b)
{
    return b > VG_TIME_MAX - a ? VG_TIME_MAX : a + b;
}

/* Of a record that tells what was so before the recording: it has no time of its own. */
#define VG_TIME_UNKNOWN INT64_MIN

/* Highest thread id a Linux kernel hands out (PID_MAX_LIMIT); CPU numbers are below VG_CPU_LIMIT,
 * which is what NR_CPUS allows at most. */
#define VG_TID_LIMIT 4194304
#define VG_CPU_LIMIT 8192

/* So late may what a GPU event tells be recorded. */
#define VG_GPU_TOLD_LATE_NS INT64_C(1000000000)

/* "not in the record" for tids, pids and CPUs. */
#define VG_NONE (-1)

enum vg_event_type {
    VG_EVENT_OTHER, /* an event of no interest in itself; its cpu and tid still tell who runs */
    VG_EVENT_SCHED_SWITCH,
    VG_EVENT_SCHED_WAKEUP, /* sched_wakeup and sched_wakeup_new */
    VG_EVENT_SCHED_WAKING, /* sched_waking: a wakeup only where sched_wakeup is not recorded */
    VG_EVENT_SCHED_MIGRATE,
    VG_EVENT_KVM_ENTRY,
    VG_EVENT_KVM_EXIT,
    VG_EVENT_PROCESS,      /* names a thread and its process: statedump, exec, comm change */
    VG_EVENT_PROCESS_FORK, /* a new thread id begins */
    VG_EVENT_PROCESS_END,  /* the thread id is free again (sched_process_free) */
    VG_EVENT_LOST,         /* the recorder says that it dropped records of this CPU */
    VG_EVENT_GPU,          /* a GPU request, or the switch of a GPU from vGPU to vGPU */
    VG_EVENT_TYPE_MAX
};

/* What prev_state of a sched_switch says about the thread that leaves the CPU. */
enum vg_prev_state {
    VG_PREV_RUNNABLE, /* preempted: it would go on running */
    VG_PREV_BLOCKED,  /* sleeps, stopped, traced, parked, idle */
    VG_PREV_EXITED    /* zombie or dead: its last switch */
};

/* Reason classes of a VM exit; the VMX and SVM numbers behind them are in model/exit-class.c. */
enum vg_exit_class {
    VG_EXIT_HLT,
    VG_EXIT_IO,
    VG_EXIT_MMIO,
    VG_EXIT_PAGE_FAULT,
    VG_EXIT_INTERRUPT,
    VG_EXIT_MSR,
    VG_EXIT_CPUID,
    VG_EXIT_HYPERCALL,
    VG_EXIT_PREEMPTION_TIMER,
    VG_EXIT_PAUSE,
    VG_EXIT_OTHER,
    VG_EXIT_CLASS_MAX
};

/* Who a thread is, as far as the record says. */
enum vg_thread_kind { VG_THREAD_UNKNOWN, VG_THREAD_USER, VG_THREAD_KERNEL };

/* What a GPU event tells. A request goes through the first stages in this order, and a platform
 * may leave out any of them. */
enum vg_gpu_op {
    VG_GPU_QUEUED,    /* waits in the queue of its vGPU, or of the process that made it */
    VG_GPU_SUBMITTED, /* handed to the driver of the host */
    VG_GPU_READY,     /* what it depends on is done */
    VG_GPU_RUNNING,   /* on the hardware */
    VG_GPU_OFF,       /* off the hardware, not done: it will run again */
    VG_GPU_DONE,
    VG_GPU_RETIRED,      /* the driver forgets it, some time after it was done */
    VG_GPU_SWITCH,       /* the GPU belongs to `vgpu` from now on */
    VG_GPU_MEMORY_MADE,  /* object `id` of `fence` bytes */
    VG_GPU_MEMORY_FREED, /* object `id` */
    VG_GPU_MEMORY_TOTAL, /* process `id` now has `fence` bytes */
    VG_GPU_OP_MAX
};

/* What the `id` of a GPU event is unique in; requests have at most one id each. */
enum vg_gpu_id_space {
    VG_GPU_ID_NONE,
    VG_GPU_ID_WORKLOAD, /* in (device, vGPU) */
    VG_GPU_ID_JOB,      /* in its engine, whose device may be untold */
    VG_GPU_ID_GLOBAL,   /* a seqno of the engine, told when it runs */
    VG_GPU_ID_OBJECT,   /* memory, in the device */
    VG_GPU_ID_PROCESS,  /* no request: the pid of the process that is told of, 1..VG_TID_LIMIT */
    VG_GPU_ID_MAX
};

enum vg_gpu_flag {
    VG_GPU_COALESCES = 1,   /* the driver gives the hardware a request for those before it in its
                             * context: when it runs, they do */
    VG_GPU_ENGINE_WEAK = 2, /* the engine is a guess, by a ring number of a workload, or as any of
                             * several will do: another record is believed more */
    VG_GPU_FAILED = 4,      /* DONE: if it waits, it never will */
    VG_GPU_OF_FENCE = 8,    /* DONE: by a fence; `device` is the name of its driver, and `engine` of
                             * its timeline, which need not be an engine */
    VG_GPU_OF_SCHEDULER = 16, /* the same, by one of the DRM scheduler's, which has two contexts for
                               * a job: the lower one tells that it runs */
    VG_GPU_DEVICE_WEAK = 32,  /* the device is named after its driver, and means any that has the
                               * engine */
    VG_GPU_CONTEXT_OF_ENGINE = 64, /* each engine counts the context for itself; else its requests
                                    * may run on several */
    /* RUNNING tells that the hardware is given a request. It runs one of an engine at a time, in
     * the order in which it was given them, but for these: */
    VG_GPU_ANY_ORDER = 128,    /* a firmware chooses the next one */
    VG_GPU_SIDE_BY_SIDE = 256, /* the engine, as it is told, is several; each context has one */
    VG_GPU_OF_VM = 512,        /* `vgpu` is the number of a name: that of its VM */
    VG_GPU_TOLD_LATE = 1024    /* it was so at told_ns, at most VG_GPU_TOLD_LATE_NS before */
};

/* Whoever makes an event keeps these ranges, the ledgers index by them: every tid and pid is
 * VG_NONE or 0..VG_TID_LIMIT (VG_NONE only where it says so), every CPU VG_NONE or 0..VG_CPU_LIMIT
 * - 1, every enum one of its values, every comm ends with NUL. */
struct vg_event {
    int64_t ts_ns;   /* 0..VG_TIME_MAX, raw trace clock: before the clock's offset to the epoch */
    uint16_t type;   /* enum vg_event_type */
    int16_t cpu;     /* CPU that recorded it, or VG_NONE */
    int32_t tid;     /* thread that recorded it (0: idle), or VG_NONE */
    int32_t pid;     /* its process (tgid), or VG_NONE */
    uint32_t stream; /* which input stream of the recording it came from */
    union {
        struct {
            int32_t prev_tid;
            int32_t next_tid;
            uint8_t prev_state;          /* enum vg_prev_state */
            char prev_comm[VG_COMM_LEN]; /* NUL-padded; empty: not in the record */
            char next_comm[VG_COMM_LEN];
        } sched_switch;
        struct { /* SCHED_WAKEUP, SCHED_WAKING */
            int32_t tid;
            int32_t target_cpu; /* or VG_NONE */
            char comm[VG_COMM_LEN];
        } wakeup;
        struct {
            int32_t tid;
            int32_t orig_cpu; /* or VG_NONE */
            int32_t dest_cpu;
            char comm[VG_COMM_LEN];
        } migrate;
        struct {                /* KVM_ENTRY, KVM_EXIT */
            uint32_t reason;    /* exit: number of the CPU vendor, UINT32_MAX if unknown */
            uint8_t exit_class; /* exit: enum vg_exit_class */
            char comm[VG_COMM_LEN];
        } kvm;
        struct { /* PROCESS, PROCESS_FORK, PROCESS_END */
            int32_t tid;
            int32_t pid;  /* tgid of tid, or VG_NONE */
            uint8_t kind; /* enum vg_thread_kind */
            char comm[VG_COMM_LEN];
        } process;
        struct {
            int64_t end_ns;   /* the loss lies in [ts_ns, end_ns] */
            uint64_t events;  /* dropped, 0 if the recorder does not know */
            uint64_t packets; /* dropped */
            bool any_cpu;     /* they may be of all CPUs; cpu is VG_NONE */
            bool no_gpu;      /* what was dropped cannot tell of GPU requests */
        } lost;
        struct {
            uint64_t context; /* of its dma_fence: a timeline on which seqnos only grow; 0: none */
            union {
                uint64_t seqno;
                int64_t told_ns; /* of VG_GPU_TOLD_LATE, whose context is 0 */
            };
            uint64_t id;     /* see id_space */
            uint64_t fence;  /* address of its fence, used again after its end; 0: not told */
            int32_t vgpu;    /* > 0, or VG_NONE: the host's own, or not told */
            uint16_t device; /* of the table of names; VG_NAME_NONE: not told */
            uint16_t engine;
            uint16_t comm;    /* of the thread that recorded it */
            uint16_t flags;   /* enum vg_gpu_flag */
            uint16_t depth;   /* RUNNING: 1 + the requests that the scheduler says the hardware has;
                               * 0: not told */
            uint8_t op;       /* enum vg_gpu_op */
            uint8_t id_space; /* enum vg_gpu_id_space */
        } gpu;
    };
};

/* Class of an exit reason; isa as KVM's tracepoint gives it: 1 VMX, 2 SVM, 0 not recorded. */
enum vg_exit_class vg_exit_class_of(uint32_t isa, uint32_t reason);

/* Class of a symbolic exit reason as text traces print it ("EPT_VIOLATION", "hlt", "EXIT_NPF"). */
enum vg_exit_class vg_exit_class_of_name(const char *name);

/* "hlt", "page-fault", ...: the member names of `exits` in every output. */
const char *vg_exit_class_name(enum vg_exit_class exit_class);

/* What a numeric prev_state means. state_max_bit is the kernel's marker for "preempted while its
 * state was not running" (vg_state_max_bit()). A state with the EXIT_DEAD or EXIT_ZOMBIE bit, or
 * before 4.14 TASK_DEAD, has exited. */
enum vg_prev_state vg_prev_state_of(int64_t prev_state, int64_t state_max_bit);

/* The bit that sched_switch sets in prev_state for a preempted thread: 0x100 from kernel 4.14 on
 * (TASK_REPORT_MAX), before that TASK_STATE_MAX of that version. release is `uname -r`
 * ("3.13.0-24-generic"); NULL or unreadable: 0x100. Source: include/linux/sched.h and
 * include/trace/events/sched.h of the versions named in model/event.c. */
int64_t vg_state_max_bit(const char *release);

/* Whether a kernel of that release may record every prev_state but the preempted one bit too high
 * (running as 1, sleeping as 2): mainline 4.15 to 4.19, until commit 3054426dc68e came to their
 * stable series; 4.14, whose later stable series took over the fault, counts, too. NULL or
 * unreadable: true. */
bool vg_state_may_be_shifted(const char *release);

#endif
