/* SPDX-License-Identifier: Apache-2.0
 *
 * A window sample: everything that was measured between two moments. It is self-contained, so it
 * can be queued, stored or summed into a longer period. A whole analysed trace is one long window.
 * Times are raw trace clock nanoseconds; a window covers begin < t <= end.
 */
#ifndef VG_MODEL_WINDOW_H
#define VG_MODEL_WINDOW_H

#include <stdbool.h>

#include <glib.h>

#include "model/cpu-figures.h"
#include "model/proxy-use.h"
#include "model/topology.h"

enum vg_aggressor_kind {
    VG_AGGRESSOR_VM,
    VG_AGGRESSOR_SELF, /* another thread of the same VM */
    VG_AGGRESSOR_HOST_KERNEL,
    VG_AGGRESSOR_HOST_USER,
    VG_AGGRESSOR_HOST_IDLE,   /* the CPU was idle while the victim waited for it */
    VG_AGGRESSOR_LIMIT,       /* no aggressor: the victim's own CPU quota was used up */
    VG_AGGRESSOR_HOST_UNKNOWN /* no record of what ran on the CPU */
};

/* CPU time that a VM's vCPUs lost to one aggressor. */
struct vg_lost_to {
    enum vg_aggressor_kind kind;
    uint32_t vm_id;      /* VM: id of its process in the topology */
    int64_t ns;          /* time during which the aggressor ran and the victim waited */
    int64_t vcpu_ns;     /* the part of ns during which vCPU threads ran (VM and SELF) */
    int64_t emulator_ns; /* the part of ns during which other threads of the QEMU process ran */
    uint64_t count;      /* preemptions after which a thread of the aggressor ran */
};

/* What the vCPUs of a VM did on one CPU. */
struct vg_place {
    int32_t cpu;
    int64_t run_ns;
    int64_t wait_ns; /* waiting for this CPU; 0 if places are not counted */
};

struct vg_vcpu_sample {
    int32_t tid;
    int32_t index; /* or VG_NONE */
    struct vg_cpu_figures cpu;
};

#define VG_GPU_DEVICE_SIZE 64
#define VG_GPU_ENGINE_SIZE 64

/* What is unknown about a row. The figures concerned are 0 then, and documents omit them. */
enum vg_gpu_lack {
    VG_GPU_NO_REQUESTS = 1 << 0, /* number, waits and latencies of requests, and the queue */
    VG_GPU_NO_DETAILS = 1 << 1, /* requests: partial and coalesced, parts of waits, queue_len_max */
    VG_GPU_NO_SLICES = 1 << 2,
    VG_GPU_NO_SUSPENSIONS = 1 << 3,
    VG_GPU_NO_MEMORY = 1 << 4,
    VG_GPU_NO_WORK = 1 << 5, /* busy_ns and exec_ns: all or part of them are in other rows */
    /* lacks never contains NO_ENDS and NO_CONTEXTS, because the figures imply them. */
    VG_GPU_NO_ENDS = 1 << 6, /* latencies: no request started and ended in the period */
    VG_GPU_NO_CONTEXTS = 1 << 7,
    VG_GPU_NO_OPEN = 1 << 8, /* requests without an end */
    VG_GPU_NO_DONE = 1 << 9, /* no record marks a request as done: number of completed requests, and
                              * how long requests ran */
};
/* Combinations that make a figure unknown. */
#define VG_GPU_NO_RUNS     (VG_GPU_NO_WORK | VG_GPU_NO_DONE)
#define VG_GPU_NO_COUNT    (VG_GPU_NO_REQUESTS | VG_GPU_NO_DONE)
#define VG_GPU_NO_ONE_OPEN (VG_GPU_NO_OPEN | VG_GPU_NO_DONE)
/* What is unknown if a source reports only the work done. */
#define VG_GPU_ONLY_WORK                                                                           \
 (VG_GPU_NO_REQUESTS | VG_GPU_NO_DETAILS | VG_GPU_NO_OPEN | VG_GPU_NO_SLICES |                     \
  VG_GPU_NO_SUSPENSIONS)

/* Use of one engine of one GPU by one VM or process, or by all together (in vg_window.gpus). See
 * model/figures.def for the rows. */
struct vg_gpu_sample {
    char device[VG_GPU_DEVICE_SIZE];
    char engine[VG_GPU_ENGINE_SIZE];
    VG_GPU_FIGURES(VG_FIGURE_MEMBER)
    unsigned int lacks; /* enum vg_gpu_lack; in a sum, unknown in every window */
    double confidence;  /* records received from its source / (received + lost), 0 to 1 */
    /* Only in a sum; otherwise 0. */
    /* total length of the windows with this row, over which confidence is averaged */
    int64_t told_ns;
    uint64_t most_requests; /* number of requests in the window that these latencies are from */
};

/* Use of one engine by one process outside VMs. A sum of windows has at most this many of them, the
 * most recently seen ones. */
#define VG_WINDOW_GPU_PROCESSES_MAX 1024
struct vg_gpu_process_sample {
    int32_t pid; /* or the thread's tid, if records have no process ids */
    char comm[VG_COMM_LEN];
    int64_t seen_ns; /* in a sum: end of the newest window that contains it */
    struct vg_gpu_sample gpu;
};

/* CPU time that a VM's vCPUs lost to one host process, or in a sum, to all host processes with the
 * same name and control group. A part of VG_AGGRESSOR_HOST_USER. */
#define VG_CGROUP_LEN                128
#define VG_WINDOW_LOST_PROCESSES_MAX 16 /* per VM and window; the rest is "others" */
#define VG_SUM_LOST_PROCESSES_MAX    64 /* in a sum */
#define VG_SUM_LOST_PROCESSES_SHOWN  24 /* number of them that are shown */
struct vg_lost_process {
    int32_t pid;                /* in a sum: of the newest process */
    uint32_t pids;              /* in a sum: the minimum number of processes */
    char comm[VG_COMM_LEN];     /* raw bytes; empty if unknown */
    char cgroup[VG_CGROUP_LEN]; /* truncated at the start if too long; empty if the process had
                                 * exited */
    int64_t ns;
    int64_t error_ns; /* in a sum: upper bound of the additional time before it had a row */
    uint64_t count;
};

struct vg_vm_sample {
    uint32_t id; /* of its process in the topology */
    int32_t pid;
    char name[VG_VM_NAME_MAX];
    char uuid[VG_UUID_LEN];
    bool guest_known;          /* false if KVM events are missing, so that guest_ns means nothing */
    unsigned int lacks;        /* enum vg_cpu_lack, except NO_GUEST: see vg_vm_sample_lacks() */
    bool gpu_known;            /* false if no source recorded GPU requests */
    int64_t gpu_active_ns;     /* time during which a request waited or ran on any engine */
    struct vg_cpu_figures cpu; /* sum of the vCPUs */
    GArray *vcpus;             /* struct vg_vcpu_sample, by index, then tid */
    GArray *lost_to;           /* struct vg_lost_to, most ns first */
    GArray *gpus;              /* struct vg_gpu_sample */
    GArray *cpus; /* int32_t, ascending. If cpus_allowed, the CPUs that its vCPUs may use at the end
                   * of the window. Otherwise, those that they ran on or waited for since the start
                   * of the period, not of the window: a set that grows */
    bool cpus_allowed;
    GArray *lost_processes; /* struct vg_lost_process, most ns first; empty if unknown */
    GArray *places;         /* struct vg_place, by CPU; empty if unknown. Not in sums */
    bool places_counted;    /* counted at each switch; if false, all of a vCPU's time counts for the
                             * CPU that it last ran on */
};

/* In a sum: a VM that no longer exists, or has another name now, to which other VMs lost time. */
#define VG_SUM_GONE_MAX  128
#define VG_GONE_ID_FIRST (UINT32_C(1) << 31) /* ids of existing VMs are smaller */
struct vg_gone_vm {
    uint32_t id;
    char name[VG_VM_NAME_MAX];
};

/* A request that ended in the window. A window stores at most this many. If there were more, it
 * stores a random half, quarter, ... of them, so that the proportions between VMs are preserved.
 * Unknown times are VG_TIME_UNKNOWN. */
#define VG_WINDOW_GPU_REQUESTS_MAX 4096
struct vg_gpu_request_sample {
    uint32_t gpu; /* index into the window's gpus: device and engine */
    uint32_t vm;  /* id, or VG_PROCESS_NO_ID for no VM */
    int32_t pid;  /* its process; 0 if it is the host's own, or unknown */
    bool coalesced;
    uint32_t left_out; /* number of requests dropped since the previous stored one; in a window's
                        * last entry, also those dropped after it */
    uint64_t context;  /* 0 if unknown */
    uint64_t seqno;
    int64_t queued_ns;
    int64_t submitted_ns;
    int64_t ready_ns;
    int64_t run_ns;
    int64_t end_ns;
    int64_t exec_ns;
};

struct vg_task_sample {
    int32_t tid;
    int32_t pid; /* or VG_NONE */
    char comm[VG_COMM_LEN];
    struct vg_cpu_figures cpu;
};

/* Time during which a task ("some"), or every task with work to do ("full"), waited for a resource
 * (PSI). */
enum vg_resource { VG_RESOURCE_CPU, VG_RESOURCE_MEMORY, VG_RESOURCE_IO, VG_RESOURCE_MAX };
struct vg_pressure {
    int64_t some_ns;
    int64_t full_ns;
};

/* Times of one CPU of the host; -1 if unknown. */
struct vg_host_cpu {
    int32_t cpu;
    int32_t node; /* NUMA node */
    int64_t busy_ns;
    int64_t idle_ns; /* including waits for disks */
    int64_t steal_ns;
    int64_t wait_ns; /* sum over threads that were runnable but did not run */
};

/* Figures of the whole host; -1 if unknown. */
struct vg_host_sample {
    int64_t steal_ns; /* CPU time that the host, being a VM itself, did not get; sum of all CPUs */
    int64_t pressure_ns; /* time during which a thread of the VMs' slice waited for a CPU (PSI,
                          * "some") */
    int64_t runnable;    /* threads that ran or waited for a CPU at the end of the window */
    int64_t own_ns; /* CPU time of everything except vCPUs: host programs, the kernel, and the rest
                     * of QEMU's work for its VMs */
    int64_t idle_ns;
    double load[3]; /* mean number of threads that run or wait, over 1, 5 and 15 minutes */
    struct vg_pressure pressure[VG_RESOURCE_MAX]; /* of the whole host */
    /* why pressure is unknown; static. NULL if pressure is known, or was not read */
    const char *no_pressure;
    const char *no_cpu_waits; /* the same for wait_ns of CPUs */
};

/* Host programs in a window, most CPU time first. The others have no row. */
#define VG_WINDOW_PROGRAMS_MAX 32

struct vg_window {
    int64_t begin_ns;
    int64_t end_ns;
    uint64_t lost_events; /* dropped by the recorder inside the window */
    uint64_t lost_packets;
    uint64_t discontinuities;
    double confidence;     /* events recorded / (recorded + lost), for recordings; otherwise 0 */
    GArray *vms;           /* struct vg_vm_sample, by name, then pid */
    GArray *gone;          /* struct vg_gone_vm, longest gone first; empty except in a sum */
    uint32_t n_gone;       /* in a sum: total number ever */
    GArray *tasks;         /* struct vg_task_sample by tid, or NULL */
    unsigned int lacks;    /* enum vg_cpu_lack, for the tasks and for a recording's VMs */
    GArray *gpus;          /* struct vg_gpu_sample, per physical GPU; by device, then engine */
    GArray *gpu_processes; /* struct vg_gpu_process_sample, by device, engine, busiest first */
    uint64_t gpu_processes_left_out; /* in a sum: number of rows that others replaced */
    GArray *gpu_requests; /* struct vg_gpu_request_sample, by end; empty if not requested */
    struct vg_host_sample host;
    GArray *cpus;      /* struct vg_host_cpu, by CPU; empty if unknown. Not in sums */
    GArray *proxies;   /* struct vg_proxy_use, proxy by proxy; empty if unknown. Not in sums */
    GArray *gpu_cards; /* struct vg_card_fact; empty if unknown. Not in sums */
    /* struct vg_lost_process without count: CPU time of programs outside VMs, most first. They are
     * read every few windows, and the times cover the whole period since the previous reading. */
    GArray *programs;
    int64_t programs_ns;     /* length of that period; 0 if they were not read in this window */
    int64_t programs_end_ns; /* end of that period */
};

/* Initialises a window with empty arrays; tasks only on request. */
void vg_window_init(struct vg_window *window, bool with_tasks);

/* Return the sample of the VM with this id, or NULL. Every VM in an aggressor entry has a sample,
 * except in a sum, where the VM may be gone. */
const struct vg_vm_sample *vg_window_vm(const struct vg_window *window, uint32_t id);
struct vg_vm_sample *vg_window_find_vm(struct vg_window *window, uint32_t id);

/* Returns the name of an aggressor: a VM, existing or gone, "self", "host:kernel", ... */
const char *vg_window_aggressor(const struct vg_window *window, const struct vg_lost_to *lost);

/* Returns everything that is unknown on the CPU side: enum vg_cpu_lack. */
static inline unsigned int
vg_vm_sample_lacks(const struct vg_vm_sample *vm)
{
    return vm->lacks | (vm->guest_known ? 0 : VG_CPU_NO_GUEST);
}

/* For code that fills a window: the orders documented with its members. */
void vg_window_sort_vms(struct vg_window *window);
void vg_window_sort_vcpus(GArray *vcpus);
void vg_window_sort_lost_to(GArray *lost_to);
void vg_window_sort_lost_processes(GArray *processes);

/* Updates the set of CPUs of a VM, known from older windows, with a new sample. */
void vg_window_update_cpus(GArray *cpus, const struct vg_vm_sample *sample);

/* Replaces the programs of a window with those of another window. */
void vg_window_copy_programs(struct vg_window *to, const struct vg_window *from);

/* Frees what the window owns, not the struct. A zeroed window is fine. */
void vg_window_clear(struct vg_window *window);

/* Returns a host sample with all figures unknown. */
struct vg_host_sample vg_host_sample_none(void);

/* Adds to the times of a VM's vCPUs on a CPU. The places stay sorted. */
void vg_window_add_place(GArray *places, int32_t cpu, int64_t run_ns, int64_t wait_ns);

/* Adds all that a vCPU ran in the window to the CPU that it last ran on. Does nothing if it did not
 * run, or cpu is VG_NONE. */
void vg_window_add_last_place(GArray *places, int32_t cpu, int64_t run_ns);

/* "cpu", "memory", "io". */
const char *vg_resource_name(enum vg_resource resource);

/* Initialises a VM sample with empty arrays, which the array that it is appended to will own. */
void vg_vm_sample_init(struct vg_vm_sample *sample);

/* Returns "self", "host:kernel", ...; NULL for VG_AGGRESSOR_VM, which has the VM's name. */
const char *vg_aggressor_name(enum vg_aggressor_kind kind);

#endif
