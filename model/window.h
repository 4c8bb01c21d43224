/* SPDX-License-Identifier: Apache-2.0
 *
 * A window sample: everything measured between two moments, self-contained, so that it can cross a
 * queue, be stored, or be summed into a longer period. A whole analysed trace is one long window.
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
    VG_AGGRESSOR_LIMIT,       /* nobody: a CPU quota of the victim's own was used up */
    VG_AGGRESSOR_HOST_UNKNOWN /* nobody recorded who held the CPU */
};

/* CPU time a VM's vCPUs lost to one aggressor. */
struct vg_lost_to {
    enum vg_aggressor_kind kind;
    uint32_t vm_id;      /* kind VM: id of its process in the topology */
    int64_t ns;          /* overlap of the aggressor's running with the victim's waits */
    int64_t vcpu_ns;     /* of ns: by vCPU threads (VM and SELF) */
    int64_t emulator_ns; /* of ns: by other threads of the QEMU process */
    uint64_t count;      /* preemptions whose next thread was the aggressor's */
};

/* What the vCPUs of a VM did on one CPU. */
struct vg_place {
    int32_t cpu;
    int64_t run_ns;
    int64_t wait_ns; /* they waited for it; 0 where places are not counted */
};

struct vg_vcpu_sample {
    int32_t tid;
    int32_t index; /* or VG_NONE */
    struct vg_cpu_figures cpu;
};

#define VG_GPU_DEVICE_SIZE 64
#define VG_GPU_ENGINE_SIZE 64

/* What nobody can tell of a row: the figures of that are 0 then, and no document has them. */
enum vg_gpu_lack {
    VG_GPU_NO_REQUESTS = 1 << 0, /* how many, their waits, latencies and the queue */
    VG_GPU_NO_DETAILS = 1 << 1,  /* of requests: partial and coalesced, the parts of waits,
                                  * queue_len_max */
    VG_GPU_NO_SLICES = 1 << 2,
    VG_GPU_NO_SUSPENSIONS = 1 << 3,
    VG_GPU_NO_MEMORY = 1 << 4,
    VG_GPU_NO_WORK = 1 << 5, /* busy_ns and exec_ns: other rows have them, or parts of them */
    /* NO_ENDS and NO_CONTEXTS are never in lacks, as they follow from the figures. */
    VG_GPU_NO_ENDS = 1 << 6, /* latencies: no request has both ends inside */
    VG_GPU_NO_CONTEXTS = 1 << 7,
    VG_GPU_NO_OPEN = 1 << 8, /* requests without an end */
    VG_GPU_NO_DONE = 1 << 9, /* no record says that a request is done: how many are, and how long
                              * requests ran */
};
/* What makes a figure unknown. */
#define VG_GPU_NO_RUNS     (VG_GPU_NO_WORK | VG_GPU_NO_DONE)
#define VG_GPU_NO_COUNT    (VG_GPU_NO_REQUESTS | VG_GPU_NO_DONE)
#define VG_GPU_NO_ONE_OPEN (VG_GPU_NO_OPEN | VG_GPU_NO_DONE)
/* What a source lacks that only tells of work. */
#define VG_GPU_ONLY_WORK                                                                           \
 (VG_GPU_NO_REQUESTS | VG_GPU_NO_DETAILS | VG_GPU_NO_OPEN | VG_GPU_NO_SLICES |                     \
  VG_GPU_NO_SUSPENSIONS)

/* Use of one engine of one GPU by one VM or process, or by all (in vg_window.gpus);
 * model/figures.def has the rows. */
struct vg_gpu_sample {
    char device[VG_GPU_DEVICE_SIZE];
    char engine[VG_GPU_ENGINE_SIZE];
    VG_GPU_FIGURES(VG_FIGURE_MEMBER)
    unsigned int lacks; /* enum vg_gpu_lack; of a sum: that no window of it tells */
    double confidence;  /* records that its source told / (told + lost): 0 to 1 */
    /* Of a sum; else 0. */
    int64_t told_ns;        /* length of its windows that have the row: what confidence is over */
    uint64_t most_requests; /* of the window whose latencies these are */
};

/* Use of one engine by one process that is no VM. A sum of windows has at most this many: those
 * that were there last. */
#define VG_WINDOW_GPU_PROCESSES_MAX 1024
struct vg_gpu_process_sample {
    int32_t pid; /* that of its thread, where records do not tell processes */
    char comm[VG_COMM_LEN];
    int64_t seen_ns; /* in a sum: the end of the newest window that has it */
    struct vg_gpu_sample gpu;
};

/* What the vCPUs of a VM lost to one process of the host, or in a sum to all of one name and
 * control group: a part of VG_AGGRESSOR_HOST_USER. */
#define VG_CGROUP_LEN                128
#define VG_WINDOW_LOST_PROCESSES_MAX 16 /* of a VM, in a window; the rest is "others" */
#define VG_SUM_LOST_PROCESSES_MAX    64 /* in a sum */
#define VG_SUM_LOST_PROCESSES_SHOWN  24 /* of these */
struct vg_lost_process {
    int32_t pid;                /* in a sum: of the newest one */
    uint32_t pids;              /* in a sum: how many there were, at least */
    char comm[VG_COMM_LEN];     /* raw bytes; empty: not known */
    char cgroup[VG_CGROUP_LEN]; /* its end, if it is longer; empty: it was gone */
    int64_t ns;
    int64_t error_ns; /* in a sum: what it may have taken besides, at most, before it had a row */
    uint64_t count;
};

struct vg_vm_sample {
    uint32_t id; /* of its process in the topology */
    int32_t pid;
    char name[VG_VM_NAME_MAX];
    char uuid[VG_UUID_LEN];
    bool guest_known;          /* false: kvm events are silent, guest_ns says nothing */
    unsigned int lacks;        /* enum vg_cpu_lack, but NO_GUEST: see vg_vm_sample_lacks() */
    bool gpu_known;            /* false: nothing recorded GPU requests */
    int64_t gpu_active_ns;     /* union over engines of "a request waits or runs" */
    struct vg_cpu_figures cpu; /* sum of the vCPUs */
    GArray *vcpus;             /* struct vg_vcpu_sample, by index, then tid */
    GArray *lost_to;           /* struct vg_lost_to, most ns first */
    GArray *gpus;              /* struct vg_gpu_sample */
    GArray *cpus;              /* int32_t, ascending: CPUs that its vCPUs may use at the end of the
                                * window, if cpus_allowed; else those they ran on or waited for since
                                * the period began, not the window: a set that grows */
    bool cpus_allowed;
    GArray *lost_processes; /* struct vg_lost_process, most ns first; empty where nobody knows */
    GArray *places; /* struct vg_place, by CPU; empty where nobody knows. Of one window: no sums */
    bool places_counted; /* at each switch; else all of a vCPU's time is told of the CPU that it was
                          * on last */
};

/* In a sum: a VM that is not there any more, or has another name now, to which others lost time. */
#define VG_SUM_GONE_MAX  128
#define VG_GONE_ID_FIRST (UINT32_C(1) << 31) /* ids of VMs that are there are less */
struct vg_gone_vm {
    uint32_t id;
    char name[VG_VM_NAME_MAX];
};

/* A request that ended in the window, as far as it is kept: at most so many of a window; of more a
 * half, a fourth, ... by chance, so that each VM keeps its part. Times that nobody told are
 * VG_TIME_UNKNOWN. */
#define VG_WINDOW_GPU_REQUESTS_MAX 4096
struct vg_gpu_request_sample {
    uint32_t gpu; /* index into the window's gpus: device and engine */
    uint32_t vm;  /* id, or VG_PROCESS_NO_ID: of no VM */
    int32_t pid;  /* of its process; 0: the host's own, or not known */
    bool coalesced;
    uint32_t left_out; /* that ended between the one before and this one and are not kept; with the
                        * last one of a window, those after it, too */
    uint64_t context;  /* 0: not known */
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

/* In which somebody ("some"), or everybody who had something to do ("full"), waited for a resource
 * (PSI). */
enum vg_resource { VG_RESOURCE_CPU, VG_RESOURCE_MEMORY, VG_RESOURCE_IO, VG_RESOURCE_MAX };
struct vg_pressure {
    int64_t some_ns;
    int64_t full_ns;
};

/* Of one CPU of the host; -1: nobody told. */
struct vg_host_cpu {
    int32_t cpu;
    int32_t node; /* NUMA */
    int64_t busy_ns;
    int64_t idle_ns; /* waits for a disk included */
    int64_t steal_ns;
    int64_t wait_ns; /* threads that could run and did not, summed up */
};

/* Of the whole host; -1: nobody told. */
struct vg_host_sample {
    int64_t steal_ns;    /* CPU time that the host itself was kept from, being a VM; of all CPUs */
    int64_t pressure_ns; /* in which a thread of the VMs' slice waited for a CPU (PSI, "some") */
    int64_t runnable;    /* threads that ran or waited for a CPU when the window ended */
    int64_t own_ns; /* CPU time of all that is no vCPU: the host's programs, its kernel, and what
                     * else QEMU does for its VMs */
    int64_t idle_ns;
    double load[3]; /* means of threads that run or wait, of 1, 5 and 15 minutes */
    struct vg_pressure pressure[VG_RESOURCE_MAX]; /* of the whole host */
    const char *no_pressure;  /* why pressure is not told; static, NULL: it is, or nobody looked */
    const char *no_cpu_waits; /* likewise wait_ns of CPUs */
};

/* Programs of the host in a window, most CPU time first. The others have no row. */
#define VG_WINDOW_PROGRAMS_MAX 32

struct vg_window {
    int64_t begin_ns;
    int64_t end_ns;
    uint64_t lost_events; /* dropped by the recorder inside the window */
    uint64_t lost_packets;
    uint64_t discontinuities;
    double confidence;     /* events recorded / (recorded + lost); only a recording's, else 0 */
    GArray *vms;           /* struct vg_vm_sample, by name, then pid */
    GArray *gone;          /* struct vg_gone_vm, gone for longest first; empty but in a sum */
    uint32_t n_gone;       /* in a sum: how many there ever were */
    GArray *tasks;         /* struct vg_task_sample by tid, or NULL */
    unsigned int lacks;    /* enum vg_cpu_lack: of the tasks, and of a recording's VMs */
    GArray *gpus;          /* struct vg_gpu_sample, per physical GPU; by device, then engine */
    GArray *gpu_processes; /* struct vg_gpu_process_sample, by device, engine, most busy first */
    uint64_t gpu_processes_left_out; /* in a sum: rows that others took the place of */
    GArray
        *gpu_requests; /* struct vg_gpu_request_sample, by end; empty where nobody asked for them */
    struct vg_host_sample host;
    GArray *cpus; /* struct vg_host_cpu, by CPU; empty where nobody told. Of one window: no sums */
    GArray *proxies; /* struct vg_proxy_use, proxy by proxy; likewise */
    /* struct vg_lost_process without count: CPU time of programs that belong to no VM, most first.
     * They are read every few windows, for all the time since they were read before. */
    GArray *programs;
    int64_t programs_ns;     /* length of that time; 0: they were not read in this window */
    int64_t programs_end_ns; /* end of that time */
};

/* A window with empty arrays; tasks only if asked for. */
void vg_window_init(struct vg_window *window, bool with_tasks);

/* The sample of the VM with this id, or NULL. Every VM that an aggressor entry names has one, but
 * in a sum, where it may be gone. */
const struct vg_vm_sample *vg_window_vm(const struct vg_window *window, uint32_t id);
struct vg_vm_sample *vg_window_find_vm(struct vg_window *window, uint32_t id);

/* The name of an aggressor: of a VM, also one that is gone, "self", "host:kernel", ... */
const char *vg_window_aggressor(const struct vg_window *window, const struct vg_lost_to *lost);

/* All that is not known of the CPU side: enum vg_cpu_lack. */
static inline unsigned int
vg_vm_sample_lacks(const struct vg_vm_sample *vm)
{
    return vm->lacks | (vm->guest_known ? 0 : VG_CPU_NO_GUEST);
}

/* For whoever fills a window: the orders that are told with its members. */
void vg_window_sort_vms(struct vg_window *window);
void vg_window_sort_vcpus(GArray *vcpus);
void vg_window_sort_lost_to(GArray *lost_to);
void vg_window_sort_lost_processes(GArray *processes);

/* The CPUs of a VM, known from older windows, after one more with this sample of it. */
void vg_window_update_cpus(GArray *cpus, const struct vg_vm_sample *sample);

/* Replaces the programs of a window by those of another one. */
void vg_window_copy_programs(struct vg_window *to, const struct vg_window *from);

/* Frees what the window holds, not the struct; a zeroed window is fine. */
void vg_window_clear(struct vg_window *window);

/* A host sample of which nobody told anything. */
struct vg_host_sample vg_host_sample_none(void);

/* Adds to what the vCPUs of a VM did on a CPU; places stay ordered. */
void vg_window_add_place(GArray *places, int32_t cpu, int64_t run_ns, int64_t wait_ns);

/* All that a vCPU ran in the window, told of the CPU that it was on last; nothing if it did not
 * run, or cpu is VG_NONE. */
void vg_window_add_last_place(GArray *places, int32_t cpu, int64_t run_ns);

/* "cpu", "memory", "io". */
const char *vg_resource_name(enum vg_resource resource);

/* A VM sample that holds empty arrays; owned by the array it is appended to. */
void vg_vm_sample_init(struct vg_vm_sample *sample);

/* "self", "host:kernel", ...; NULL for VG_AGGRESSOR_VM, whose name is that of the VM. */
const char *vg_aggressor_name(enum vg_aggressor_kind kind);

#endif
