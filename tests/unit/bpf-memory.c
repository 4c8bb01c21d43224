/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory with the headers that stand in for libbpf's comes first on the way to those.
 */
#include "config.h"

#include "tests/unit/bpf-memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stdatomic.h>

#include "base/error.h"
#include "tests/unit/fake-map.h"

/* It is written for another compiler, and for the rules of another machine. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wswitch-enum"
#pragma GCC diagnostic ignored "-Wunused-variable"
/* ThreadSanitizer does not see what the kernel writes, either: readers go by sequence numbers. */
#ifdef __clang__
# pragma clang attribute push(__attribute__((no_sanitize("thread"))), apply_to = function)
#endif
#define on_exit on_kvm_exit /* stdlib.h has another */
#include "collectors/vcpu.bpf.c"
#ifdef __clang__
# pragma clang attribute pop
#endif
#pragma GCC diagnostic pop

#define TASK_INTERRUPTIBLE 1u

static struct vg_bpf_cpu fake_cpus[BPF_MEMORY_CPUS];
static struct vg_bpf_thread fake_threads[VG_BPF_SLOTS];
static struct rq run_queues[BPF_MEMORY_CPUS];
static struct cfs_rq fair_queues[BPF_MEMORY_CPUS];
static struct task_struct idle_tasks[BPF_MEMORY_CPUS];
static GHashTable *tasks; /* tid -> struct task_struct */
static GArray *noted;
static struct vg_bpf_note note_in_making;
static atomic_int_least64_t present_ns;
static int running_cpu;                     /* of the program that runs */
static int64_t counted_ns[BPF_MEMORY_CPUS]; /* the time of who runs is counted up to here */

/* ---- what the programs call ---- */

void *
fake_bpf_lookup(const void *map, const void *key)
{
    const uint32_t *number = key;

    if (map == &cells)
        return fake_map_find(key);
    if (map == &threads)
        return *number < VG_BPF_SLOTS ? &fake_threads[*number] : NULL;
    return map == &cpus && *number < BPF_MEMORY_CPUS ? &fake_cpus[*number] : NULL;
}

long
fake_bpf_add(const void *map, const void *key, const void *value)
{
    return map == &cells ? fake_map_add(key, value) : -EINVAL;
}

uint32_t
fake_bpf_cpu(void)
{
    return (uint32_t)running_cpu;
}

uint64_t
fake_bpf_pid_tgid(void)
{
    const struct task_struct *task = run_queues[running_cpu].curr;

    return task ? (uint64_t)(uint32_t)task->tgid << 32 | (uint32_t)task->pid : 0;
}

uint64_t
fake_bpf_now(void)
{
    return (uint64_t)atomic_load(&present_ns);
}

long
fake_bpf_read(void *to, uint32_t size, const void *from)
{
    memcpy(to, from, size);
    return 0;
}

long
fake_bpf_read_str(char *to, uint32_t size, const char *from)
{
    return (long)MIN(g_strlcpy(to, from, size) + 1, size);
}

void *
fake_bpf_reserve(uint64_t size)
{
    return size == sizeof(note_in_making) ? &note_in_making : NULL;
}

void
fake_bpf_submit(void *record)
{
    g_array_append_vals(noted, record, 1);
}

/* ---- the kernel ---- */

#define ISA_SVM 2

/* As the collector does it: before the programs are loaded what is constant to them is not. */
static void
configure(uint32_t isa)
{
    static uint8_t classes[2][256];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const bool in_arguments = true;
    const struct {
        const volatile void *to;
        const void *from;
        size_t size;
    } settings[] = {
        {&exit_isa, &isa, sizeof(isa)},
        {&exit_in_arguments, &in_arguments, sizeof(in_arguments)},
        {exit_classes, classes, sizeof(classes)},
    };

    /* A reason of SVM is its class. */
    for (unsigned reason = 0; reason < 256; reason++) {
        bool arm = isa == VG_BPF_ISA_ARM;
        classes[0][reason] = (uint8_t)(arm ? vg_exit_class_of(isa, reason)
                                           : (enum vg_exit_class)MIN(reason, VG_BPF_EXIT_OTHER));
        classes[1][reason] =
            (uint8_t)(arm ? vg_exit_class_of(isa, VG_BPF_ARM_NO_TRAP + reason) : VG_EXIT_HLT);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(settings); i++) {
        uintptr_t at = (uintptr_t)settings[i].to;
        /* A compiler that sees where this leads leaves out what writes to a constant. */
        __asm__("" : "+r"(at));
        uintptr_t begin = at / page * page;
        if (mprotect((void *)begin, at + settings[i].size - begin, PROT_READ | PROT_WRITE) != 0)
            vg_bug("cannot configure the BPF programs: %s", strerror(errno));
        memcpy((void *)at, settings[i].from, settings[i].size);
    }
}

void
bpf_memory_reset(void)
{
    if (!tasks) {
        configure(ISA_SVM);
        tasks = g_hash_table_new_full(NULL, NULL, NULL, g_free);
        noted = g_array_new(FALSE, FALSE, sizeof(struct vg_bpf_note));
    }
    memset(tid_pages, 0, sizeof(tid_pages));
    memset(tid_slots, 0, sizeof(tid_slots));
    memset(fake_threads, 0, sizeof(fake_threads));
    memset(names, 0, sizeof(names));
    memset(&totals, 0, sizeof(totals));
    memset(fake_cpus, 0, sizeof(fake_cpus));
    g_hash_table_remove_all(tasks);
    g_array_set_size(noted, 0);
    fake_map_reset(16384);
    atomic_store(&present_ns, 0);
    for (int cpu = 0; cpu < BPF_MEMORY_CPUS; cpu++) {
        run_queues[cpu].curr = NULL;
        counted_ns[cpu] = 0;
        fair_queues[cpu].rq = &run_queues[cpu];
    }
}

const struct vg_bpf_memory *
bpf_memory(void)
{
    static const struct vg_bpf_memory memory = {
        .tid_pages = tid_pages,
        .tid_slots = tid_slots,
        .threads = fake_threads,
        .names = names,
        .cpus = fake_cpus,
        .cpu_stride = sizeof(fake_cpus[0]),
        .n_cpus = BPF_MEMORY_CPUS,
    };

    return &memory;
}

const struct vg_bpf_totals *
bpf_memory_totals(void)
{
    return &totals;
}

const struct vg_bpf_cpu *
bpf_memory_cpu_of(const void *unused, int32_t cpu)
{
    (void)unused;
    return cpu >= 0 && cpu < BPF_MEMORY_CPUS ? &fake_cpus[cpu] : NULL;
}

int64_t
bpf_memory_now(void)
{
    return atomic_load(&present_ns);
}

const GArray *
bpf_memory_notes(void)
{
    return noted;
}

void
bpf_set_now(int64_t now_ns)
{
    atomic_store(&present_ns, now_ns);
}

static struct task_struct *
task_of(int32_t tid)
{
    struct task_struct *task = g_hash_table_lookup(tasks, GINT_TO_POINTER(tid));

    if (!task)
        vg_bug("thread %d was never set", tid);
    return task;
}

static void
put_on(struct task_struct *task, int cpu)
{
    task->thread_info.cpu = (uint32_t)cpu;
    task->se.cfs_rq = &fair_queues[cpu];
}

void
bpf_set_thread(int32_t tid, int32_t pid, uint64_t start_ns, bool is_kernel)
{
    struct task_struct *task = g_new0(struct task_struct, 1);

    task->pid = tid;
    task->tgid = pid;
    task->start_boottime = start_ns;
    task->flags = is_kernel ? PF_KTHREAD : 0;
    task->group_leader = g_hash_table_lookup(tasks, GINT_TO_POINTER(pid));
    if (!task->group_leader)
        task->group_leader = task;
    put_on(task, 0);
    for (int cpu = 0; cpu < BPF_MEMORY_CPUS; cpu++) {
        if (bpf_current(cpu) == tid)
            run_queues[cpu].curr = task;
    }
    g_hash_table_insert(tasks, GINT_TO_POINTER(tid), task);
}

void
bpf_set_comm(int32_t tid, const char *comm)
{
    struct task_struct *task = task_of(tid);

    memset(task->comm, 0, sizeof(task->comm));
    g_strlcpy(task->comm, comm, sizeof(task->comm));
}

/* Counts the time of who runs there. */
static void
count_time(int cpu)
{
    int64_t now_ns = bpf_memory_now();

    if (run_queues[cpu].curr)
        run_queues[cpu].curr->se.sum_exec_runtime += (uint64_t)(now_ns - counted_ns[cpu]);
    counted_ns[cpu] = now_ns;
}

static struct task_struct *
task_on(int cpu, int32_t tid)
{
    return tid == 0 ? &idle_tasks[cpu] : task_of(tid);
}

void
bpf_set_current(int cpu, int32_t tid)
{
    count_time(cpu);
    run_queues[cpu].curr = task_on(cpu, tid);
    put_on(run_queues[cpu].curr, cpu);
}

int32_t
bpf_current(int cpu)
{
    return run_queues[cpu].curr ? run_queues[cpu].curr->pid : VG_NONE;
}

/* ---- events ---- */

void
bpf_switch(int cpu, int32_t prev_tid, enum bpf_leaves how, int32_t next_tid)
{
    static const unsigned int states[] = {0, TASK_INTERRUPTIBLE, TASK_INTERRUPTIBLE, TASK_DEAD};
    struct task_struct *prev = task_on(cpu, prev_tid), *next = task_on(cpu, next_tid);

    prev->__state = states[how];
    uint64_t ctx[4] = {how == BPF_LEAVES_PREEMPTED, (uintptr_t)prev, (uintptr_t)next, states[how]};
    running_cpu = cpu;
    count_time(cpu);
    run_queues[cpu].curr = prev;
    vg_sched_switch((void *)ctx);
    bpf_set_current(cpu, next_tid);
}

static void
wake(int cpu, int32_t tid, int target_cpu, int (*program)(__u64 *ctx))
{
    struct task_struct *task = task_of(tid);
    uint64_t ctx[1] = {(uintptr_t)task};

    running_cpu = cpu;
    put_on(task, target_cpu);
    program((void *)ctx);
}

void
bpf_wakeup(int cpu, int32_t tid, int target_cpu)
{
    wake(cpu, tid, target_cpu, vg_sched_wakeup);
}

void
bpf_wakeup_new(int cpu, int32_t tid, int target_cpu)
{
    wake(cpu, tid, target_cpu, vg_sched_wakeup_new);
}

void
bpf_migrate(int cpu, int32_t tid, int dest_cpu)
{
    struct task_struct *task = task_of(tid);
    uint64_t ctx[2] = {(uintptr_t)task, (uint64_t)dest_cpu};

    running_cpu = cpu;
    vg_sched_migrate_task((void *)ctx);
    put_on(task, dest_cpu);
}

void
bpf_entry(int cpu)
{
    uint64_t ctx[1] = {0};

    running_cpu = cpu;
    vg_kvm_entry((void *)ctx);
}

void
bpf_exit(int cpu, uint32_t exit_class)
{
    uint64_t ctx[2] = {exit_class};

    running_cpu = cpu;
    vg_kvm_exit((void *)ctx);
}

void
bpf_exit_arm(int cpu, uint32_t code, uint32_t exception_class)
{
    uint64_t ctx[3] = {code, exception_class, 0xffff800010c0a2c8};

    running_cpu = cpu;
    configure(VG_BPF_ISA_ARM);
    vg_kvm_exit((void *)ctx);
    configure(ISA_SVM);
}

void
bpf_rename(int cpu, int32_t tid, const char *comm)
{
    uint64_t ctx[2] = {(uintptr_t)task_of(tid), (uintptr_t)comm};

    running_cpu = cpu;
    vg_task_rename((void *)ctx);
}
