/* SPDX-License-Identifier: Apache-2.0
 *
 * One scheduler, KVM, process or GPU event in the form that every ledger understands, whatever
 * recorded it. It has a fixed size and no pointers, so it can pass through a queue or a fuzzer
 * unchanged. GPU and engine names are numbers from the table that comes with the events
 * (model/names.h).
 */
#ifndef VG_MODEL_EVENT_H
#define VG_MODEL_EVENT_H

#include <stdbool.h>
#include <stdint.h>

/* The kernel's TASK_COMM_LEN: 15 bytes and a NUL. */
#define VG_COMM_LEN 16

/* Latest time an event can have: 146 years. Leaves headroom for a window or a clock offset on
 * top. */
#define VG_TIME_MAX (INT64_C(1) << 62)

/* Adds times. The sum of overlapping times, such as those of requests that wait in parallel, can
 * exceed every time, so it saturates here. */
static inline int64_t
vg_time_sum(int64_t a, int64_t b)
{
    return b > VG_TIME_MAX - a ? VG_TIME_MAX : a + b;
}

/* The time of a record that describes the state before the recording, and so has no time of its
 * own. */
#define VG_TIME_UNKNOWN INT64_MIN

/* Highest thread id that a Linux kernel assigns (PID_MAX_LIMIT). CPU numbers are below
 * VG_CPU_LIMIT, the maximum of NR_CPUS. */
#define VG_TID_LIMIT 4194304
#define VG_CPU_LIMIT 8192

/* Maximum delay before a GPU event is recorded. */
#define VG_GPU_REPORTED_LATE_NS INT64_C(1000000000)

/* "not in the record" for tids, pids and CPUs. */
#define VG_NONE (-1)

enum vg_event_type {
    VG_EVENT_OTHER, /* not used itself, but its cpu and tid show which thread is running */
    VG_EVENT_SCHED_SWITCH,
    VG_EVENT_SCHED_WAKEUP, /* sched_wakeup and sched_wakeup_new */
    VG_EVENT_SCHED_WAKING, /* sched_waking: a wakeup only if sched_wakeup is not recorded */
    VG_EVENT_SCHED_MIGRATE,
    VG_EVENT_KVM_ENTRY,
    VG_EVENT_KVM_EXIT,
    VG_EVENT_PROCESS,      /* names a thread and its process: statedump, exec, comm change */
    VG_EVENT_PROCESS_FORK, /* a new thread id */
    VG_EVENT_PROCESS_END,  /* the thread id is free again (sched_process_free) */
    VG_EVENT_LOST,         /* the recorder reports that it dropped records of this CPU */
    VG_EVENT_GPU,          /* a GPU request, or a GPU's switch between vGPUs */
    VG_EVENT_TYPE_MAX
};

/* The meaning of prev_state of a sched_switch for the thread that is leaving the CPU. */
enum vg_prev_state {
    VG_PREV_RUNNABLE, /* preempted: it would have continued to run */
    VG_PREV_BLOCKED,  /* sleeping, stopped, traced, parked or idle */
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

/* The kind of a thread, as far as the records show. */
enum vg_thread_kind { VG_THREAD_UNKNOWN, VG_THREAD_USER, VG_THREAD_KERNEL };

/* What a GPU event reports. A request passes through the first stages in this order. A platform may
 * leave out any of them. */
enum vg_gpu_op {
    VG_GPU_QUEUED,    /* waits in the queue of its vGPU, or of the process that created it */
    VG_GPU_SUBMITTED, /* passed to the host's driver */
    VG_GPU_READY,     /* all its dependencies are complete */
    VG_GPU_RUNNING,   /* on the hardware */
    VG_GPU_OFF,       /* off the hardware but not complete: it will run again */
    VG_GPU_DONE,
    VG_GPU_RETIRED,      /* the driver drops it, some time after it completed */
    VG_GPU_SWITCH,       /* from now on, the GPU belongs to `vgpu` */
    VG_GPU_MEMORY_MADE,  /* object `id` of `fence` bytes */
    VG_GPU_MEMORY_FREED, /* object `id` */
    VG_GPU_MEMORY_TOTAL, /* process `id` now has `fence` bytes */
    VG_GPU_OP_MAX
};

/* The scope that makes the `id` of a GPU event unique. A request has at most one id. */
enum vg_gpu_id_space {
    VG_GPU_ID_NONE,
    VG_GPU_ID_WORKLOAD, /* in (device, vGPU) */
    VG_GPU_ID_JOB,      /* in its engine, whose device may be unknown */
    VG_GPU_ID_GLOBAL,   /* a seqno of the engine, reported when the request runs */
    VG_GPU_ID_OBJECT,   /* memory; unique in the device */
    VG_GPU_ID_PROCESS,  /* not a request: the pid of the process in question, 1..VG_TID_LIMIT */
    VG_GPU_ID_MAX
};

enum vg_gpu_flag {
    VG_GPU_COALESCES = 1,   /* the driver submits one request on behalf of the earlier ones of its
                               context, which run when it runs */
    VG_GPU_ENGINE_WEAK = 2, /* the engine is a guess, from the ring number of a workload, or because
                             * any of several engines may run it; other records take precedence */
    VG_GPU_FAILED = 4,      /* DONE: if the request is still waiting, it will never run */
    VG_GPU_OF_FENCE = 8,    /* DONE: reported by a fence; `device` is the name of its driver, and
                             * `engine` that of its timeline, which is not necessarily an engine */
    VG_GPU_OF_SCHEDULER = 16, /* the same, for a fence of the DRM scheduler, which has two contexts
                                 per job: the lower one reports that the job is running */
    VG_GPU_DEVICE_WEAK =
        32, /* the device is named after its driver, and means any device with this engine */
    VG_GPU_CONTEXT_OF_ENGINE = 64, /* each engine numbers contexts separately; without this flag,
                                    * the requests of a context may run on several engines */
    /* RUNNING reports that the hardware has received a request. An engine runs one request at a
     * time, in the order of submission, with these exceptions: */
    VG_GPU_ANY_ORDER = 128, /* firmware chooses the next request */
    VG_GPU_SIDE_BY_SIDE =
        256,            /* the reported engine consists of several; each context uses one of them */
    VG_GPU_OF_VM = 512, /* `vgpu` is a number in the table of names, for the name of its VM */
    VG_GPU_REPORTED_LATE =
        1024 /* this was true at told_ns, at most VG_GPU_REPORTED_LATE_NS earlier */
};

/* The creator of an event guarantees these ranges, because ledgers use the values as indexes. Every
 * tid and pid is VG_NONE or 0..VG_TID_LIMIT (VG_NONE only where stated), and every CPU is VG_NONE
 * or 0..VG_CPU_LIMIT - 1. Every enum has one of its values, and every comm ends with NUL. */
struct vg_event {
    int64_t ts_ns;   /* 0..VG_TIME_MAX, raw trace clock: before the clock's offset to the epoch */
    uint16_t type;   /* enum vg_event_type */
    int16_t cpu;     /* CPU that recorded the event, or VG_NONE */
    int32_t tid;     /* thread that recorded the event (0: idle thread), or VG_NONE */
    int32_t pid;     /* its process (tgid), or VG_NONE */
    uint32_t stream; /* the recording's input stream that contains it */
    union {
        struct {
            int32_t prev_tid;
            int32_t next_tid;
            uint8_t prev_state;          /* enum vg_prev_state */
            char prev_comm[VG_COMM_LEN]; /* NUL-padded; empty if not recorded */
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
            uint32_t reason;    /* exit: the CPU vendor's number, UINT32_MAX if unknown */
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
            int64_t end_ns;   /* the loss happened in [ts_ns, end_ns] */
            uint64_t events;  /* dropped events, 0 if the recorder does not know */
            uint64_t packets; /* dropped packets */
            bool any_cpu;     /* the drops may concern any CPU; cpu is VG_NONE */
            bool no_gpu;      /* the dropped records cannot be about GPU requests */
        } lost;
        struct {
            /* of its dma_fence: a timeline on which seqnos only increase; 0 if unknown */
            uint64_t context;
            union {
                uint64_t seqno;
                int64_t told_ns; /* with VG_GPU_REPORTED_LATE, whose context is 0 */
            };
            uint64_t id;     /* see id_space */
            uint64_t fence;  /* address of its fence, which is reused after the fence ends; 0 if
                              * unknown */
            int32_t vgpu;    /* > 0, or VG_NONE for the host's own or unknown */
            uint16_t device; /* index into the table of names; VG_NAME_NONE if unknown */
            uint16_t engine;
            uint16_t comm;  /* comm of the thread that recorded it */
            uint16_t flags; /* enum vg_gpu_flag */
            uint16_t depth; /* RUNNING: 1 + the number of requests in the hardware according to the
                             * scheduler; 0 if unknown */
            uint8_t op;     /* enum vg_gpu_op */
            uint8_t id_space; /* enum vg_gpu_id_space */
        } gpu;
    };
};

/* Returns the class of an exit reason. isa is as in KVM's tracepoint: 1 for VMX, 2 for SVM, 0 if
 * not recorded. */
enum vg_exit_class vg_exit_class_of(uint32_t isa, uint32_t reason);

/* Returns the class of a symbolic exit reason as text traces print it ("EPT_VIOLATION", "hlt",
 * "EXIT_NPF"). */
enum vg_exit_class vg_exit_class_of_name(const char *name);

/* "hlt", "page-fault", ...: the member names of `exits` in all output. */
const char *vg_exit_class_name(enum vg_exit_class exit_class);

/* Returns the meaning of a numeric prev_state. state_max_bit is the kernel's marker for "preempted
 * while its state was not running" (vg_state_max_bit()). A state with the EXIT_DEAD or EXIT_ZOMBIE
 * bit, or before 4.14 TASK_DEAD, has exited. */
enum vg_prev_state vg_prev_state_of(int64_t prev_state, int64_t state_max_bit);

/* Returns the bit that sched_switch sets in prev_state for a preempted thread: 0x100 since
 * kernel 4.14 (TASK_REPORT_MAX), and before 4.14 the TASK_STATE_MAX of that version. release is
 * `uname -r` ("3.13.0-24-generic"). The result is 0x100 if release is NULL or cannot be parsed.
 * Source: include/linux/sched.h and include/trace/events/sched.h of the versions named in
 * model/event.c. */
int64_t vg_state_max_bit(const char *release);

/* Returns whether a kernel of this release may record every prev_state except the preempted one
 * shifted left by one bit (running as 1, sleeping as 2). This concerns mainline 4.15 to 4.19, until
 * commit 3054426dc68e was backported to their stable series, and 4.14, whose later stable releases
 * contain the same bug. Returns true if release is NULL or cannot be parsed. */
bool vg_state_may_be_shifted(const char *release);

#endif
