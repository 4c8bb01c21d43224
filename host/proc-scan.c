/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/proc-scan.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "host/proc-text.h"

/* The number of checks of a process that is not a VM, after 1, 2, 4, 8, 16 and 32 s. Afterwards, it
 * is only checked if its pid is reused. */
#define LOOKS_MAX 6
/* A reused pid is recognised immediately by the inode number of its directory. On a file system
 * that reuses inode numbers, it is detected after this time. */
#define VERIFY_NS (60 * VG_NS_PER_S)
/* The interval at which the number of a VM's threads is checked. vCPUs are rarely plugged, and the
 * reader of a thread detects its end. */
#define CHECK_NS (2 * VG_NS_PER_S)
/* A VM's threads are listed when their number has changed, and otherwise at this interval. */
#define RELIST_NS (10 * VG_NS_PER_S)
/* The number of times that a thread's name is read: at first it has the name of its creator. */
#define THREAD_LOOKS_MAX 3
/* The number of generations of a VM's children that are its helpers. */
#define DEPTH_MAX 16

struct seen_thread {
    int32_t tid;
    uint64_t inode;
    int32_t index;
    uint8_t looks;
    bool is_vcpu;
    bool is_kvm;
    bool present; /* in the present listing */
};

struct process {
    struct vg_proc_vm vm; /* the first member; vcpus is NULL if it is not a VM */
    uint64_t inode;
    uint64_t generation; /* the last update that saw the process */
    int64_t next_look_ns;
    int64_t hinted_ns; /* the last check because of a hint */
    unsigned looks;
    int32_t parent; /* at the first check */
    uint32_t owner; /* the VM that it helps, or VG_PROCESS_NO_ID */
    bool is_qemu;   /* it has QEMU's name */
    /* For VMs: */
    GArray *threads; /* struct seen_thread, in order of appearance */
    struct stat task;
    int64_t next_check_ns;
    int64_t next_list_ns;
    bool unsettled; /* the name of a thread may still change */
};

struct vg_proc_scan {
    char *proc;
    GHashTable *processes; /* pid -> struct process */
    GPtrArray *vms;
    uint64_t generation;
    uint32_t next_id;
    bool changed; /* processes have started or ended since the helpers were determined */
};

static void
proc_scan_process_free(void *data)
{
    struct process *process = data;

    if (process->vm.vcpus)
        g_array_unref(process->vm.vcpus);
    if (process->vm.helpers)
        g_array_unref(process->vm.helpers);
    if (process->threads)
        g_array_unref(process->threads);
    g_free(process);
}

vg_proc_scan *
vg_proc_scan_new(const char *proc)
{
    vg_proc_scan *scan = g_new0(vg_proc_scan, 1);

    scan->proc = g_strdup(proc);
    scan->processes = g_hash_table_new_full(NULL, NULL, NULL, proc_scan_process_free);
    scan->vms = g_ptr_array_new();
    return scan;
}

void
vg_proc_scan_free(vg_proc_scan *scan)
{
    if (!scan)
        return;
    g_ptr_array_unref(scan->vms);
    g_hash_table_unref(scan->processes);
    g_free(scan->proc);
    g_free(scan);
}

/* Returns the number that is a directory's name, or 0. */
static int32_t
proc_scan_number_of(const char *name)
{
    int64_t value = 0;

    for (; *name >= '0' && *name <= '9'; name++) {
        value = value * 10 + (*name - '0');
        if (value >= VG_TID_LIMIT)
            return 0;
    }
    return *name == '\0' ? (int32_t)value : 0;
}

/* ---- threads ---- */

static void
scan_check_thread(const vg_proc_scan *scan, const struct process *process,
                  struct seen_thread *thread)
{
    char path[PATH_MAX];
    char comm[VG_COMM_LEN + 1];

    thread->looks++;
    snprintf(path, sizeof(path), "%s/%d/task/%d/comm", scan->proc, process->vm.pid, thread->tid);
    ssize_t n = vg_proc_read(path, comm, sizeof(comm));
    if (n <= 0)
        return;
    comm[strcspn(comm, "\n")] = '\0';
    thread->is_vcpu = vg_comm_is_vcpu(comm, &thread->index);
    thread->is_kvm = thread->is_vcpu && g_str_has_suffix(comm, "/KVM");
}

static struct seen_thread *
find_thread(GArray *threads, int32_t tid, unsigned from)
{
    /* Threads have the same order in each listing, so it is almost always the next one. */
    for (unsigned i = 0; i < threads->len; i++) {
        unsigned at = (from + i) % threads->len;
        struct seen_thread *thread = &g_array_index(threads, struct seen_thread, at);
        if (thread->tid == tid)
            return thread;
    }
    return NULL;
}

static int
compare_vcpus(const void *a, const void *b)
{
    const struct vg_proc_vcpu *x = a, *y = b;

    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return (x->tid > y->tid) - (x->tid < y->tid);
}

/* Determines which threads are vCPUs, and forgets those that have ended. */
static void
settle_threads(struct process *process)
{
    g_array_set_size(process->vm.vcpus, 0);
    process->unsettled = false;
    for (unsigned i = 0; i < process->threads->len;) {
        const struct seen_thread *thread = &g_array_index(process->threads, struct seen_thread, i);
        if (!thread->present) {
            g_array_remove_index(process->threads, i);
            continue;
        }
        if (thread->is_vcpu) {
            struct vg_proc_vcpu vcpu = {
                .tid = thread->tid, .index = thread->index, .is_kvm = thread->is_kvm};
            g_array_append_val(process->vm.vcpus, vcpu);
        } else if (thread->looks < THREAD_LOOKS_MAX) {
            process->unsettled = true;
        }
        i++;
    }
    g_array_sort(process->vm.vcpus, compare_vcpus);
}

/* Lists the threads. Returns false if the process no longer exists. */
static bool
list_threads(const vg_proc_scan *scan, struct process *process)
{
    char path[PATH_MAX];
    unsigned at = 0;

    snprintf(path, sizeof(path), "%s/%d/task", scan->proc, process->vm.pid);
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    if (!process->threads) {
        process->threads = g_array_new(FALSE, TRUE, sizeof(struct seen_thread));
        process->vm.vcpus = g_array_new(FALSE, TRUE, sizeof(struct vg_proc_vcpu));
    }
    for (unsigned i = 0; i < process->threads->len; i++)
        g_array_index(process->threads, struct seen_thread, i).present = false;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        int32_t tid = proc_scan_number_of(entry->d_name);
        if (tid <= 0)
            continue;
        struct seen_thread *thread = find_thread(process->threads, tid, at++);
        if (!thread) {
            struct seen_thread fresh = {.tid = tid, .inode = entry->d_ino, .index = VG_NONE};
            g_array_append_val(process->threads, fresh);
            thread =
                &g_array_index(process->threads, struct seen_thread, process->threads->len - 1);
        } else if (thread->inode != entry->d_ino) {
            *thread = (struct seen_thread){.tid = tid, .inode = entry->d_ino, .index = VG_NONE};
        }
        thread->present = true;
        if (!thread->is_vcpu && thread->looks < THREAD_LOOKS_MAX)
            scan_check_thread(scan, process, thread);
    }
    closedir(dir);
    settle_threads(process);
    return true;
}

/* ---- processes ---- */

static bool
read_stat(const vg_proc_scan *scan, int32_t pid, struct vg_proc_stat *ret)
{
    char path[PATH_MAX];
    char text[VG_PROC_TEXT_MAX];

    snprintf(path, sizeof(path), "%s/%d/stat", scan->proc, pid);
    return vg_proc_read(path, text, sizeof(text)) > 0 && vg_proc_parse_stat(text, ret);
}

static void
become_vm(vg_proc_scan *scan, struct process *process, int64_t now_ns)
{
    struct vg_proc_vm *vm = &process->vm;
    g_autofree char *cmdline = g_malloc(VG_PROC_CMDLINE_MAX);
    g_autofree char *path = g_strdup_printf("%s/%d/cmdline", scan->proc, vm->pid);

    ssize_t n = vg_proc_read(path, cmdline, VG_PROC_CMDLINE_MAX);
    vg_proc_parse_qemu(cmdline, n > 0 ? (size_t)n : 0, vm->name, vm->uuid);
    if (vm->name[0] == '\0')
        snprintf(vm->name, sizeof(vm->name), "qemu-%d", vm->pid);
    vg_qemu_owner_read(scan->proc, vm->pid, &vm->owner);
    vm->id = scan->next_id++;
    vm->helpers = g_array_new(FALSE, FALSE, sizeof(int32_t));
    process->owner = VG_PROCESS_NO_ID;
    scan->changed = true;
    process->next_list_ns = now_ns + RELIST_NS;
    process->unsettled = true;
    g_ptr_array_add(scan->vms, vm);
}

static bool
is_vm(const struct process *process)
{
    return process->vm.id != VG_PROCESS_NO_ID;
}

/* Returns a thread's process. A kernel thread may work for the process in its name. */
static int32_t
proc_scan_starter_of(const struct vg_proc_stat *stat)
{
    int32_t pid;

    return stat->is_kernel && vg_comm_names_owner(stat->comm, &pid) ? pid : stat->parent;
}

/* Checks whether a process that was not a VM is one now. */
static void
scan_check_process(vg_proc_scan *scan, struct process *process, int64_t now_ns)
{
    struct vg_proc_stat stat;
    int32_t index;

    process->next_look_ns =
        now_ns + (process->looks < LOOKS_MAX ? VG_NS_PER_S << process->looks : VERIFY_NS);
    if (!read_stat(scan, process->vm.pid, &stat))
        return;
    if (stat.start_ticks != process->vm.start_ticks) {
        process->parent = proc_scan_starter_of(&stat);
        process->owner = VG_PROCESS_NO_ID;
        scan->changed = true;
        process->looks = 0;
        process->next_look_ns = now_ns + VG_NS_PER_S;
        g_clear_pointer(&process->threads, g_array_unref);
        g_clear_pointer(&process->vm.vcpus, g_array_unref);
    }
    process->vm.start_ticks = stat.start_ticks;
    process->is_qemu = vg_comm_is_qemu(stat.comm);
    if (process->looks > LOOKS_MAX && !process->is_qemu)
        return;
    process->looks++;
    /* Most processes have one thread, whose name is already known. */
    if (stat.threads == 1 && !vg_comm_is_vcpu(stat.comm, &index))
        return;
    if (process->threads) {
        for (unsigned i = 0; i < process->threads->len; i++)
            g_array_index(process->threads, struct seen_thread, i).looks = 0;
    }
    if (list_threads(scan, process) && process->vm.vcpus->len > 0)
        become_vm(scan, process, now_ns);
}

/* Checks whether the threads of this VM have changed. Returns false if its pid belongs to another
 * process by now. */
static bool
scan_check_vm(const vg_proc_scan *scan, struct process *process, int64_t now_ns)
{
    char path[PATH_MAX];
    struct stat task;
    struct vg_proc_stat stat;

    if (!process->unsettled && now_ns < process->next_check_ns)
        return true;
    process->next_check_ns = now_ns + CHECK_NS;
    snprintf(path, sizeof(path), "%s/%d/task", scan->proc, process->vm.pid);
    if (lstat(path, &task) != 0)
        return false;
    /* The number of links is the number of threads plus two. */
    bool same = task.st_ino == process->task.st_ino && task.st_nlink == process->task.st_nlink &&
                task.st_ctim.tv_sec == process->task.st_ctim.tv_sec &&
                task.st_ctim.tv_nsec == process->task.st_ctim.tv_nsec;
    if (same && !process->unsettled && now_ns < process->next_list_ns)
        return true;
    process->task = task;
    process->next_list_ns = now_ns + RELIST_NS;
    if (!read_stat(scan, process->vm.pid, &stat) || stat.start_ticks != process->vm.start_ticks)
        return false;
    return list_threads(scan, process);
}

static struct process *
process_new(int32_t pid, uint64_t inode)
{
    struct process *process = g_new0(struct process, 1);

    process->vm.pid = pid;
    process->vm.id = VG_PROCESS_NO_ID;
    process->owner = VG_PROCESS_NO_ID;
    process->inode = inode;
    return process;
}

static void
forget(vg_proc_scan *scan, struct process *process)
{
    if (is_vm(process))
        g_ptr_array_remove(scan->vms, &process->vm);
    scan->changed = true;
}

static void
see_process(vg_proc_scan *scan, int32_t pid, uint64_t inode, int64_t now_ns)
{
    void *key = GINT_TO_POINTER(pid);
    struct process *process = g_hash_table_lookup(scan->processes, key);

    if (process && process->inode != inode) {
        /* This is another process, or the kernel has forgotten and recreated the directory.
         * start_ticks distinguishes the two. */
        process->inode = inode;
        process->next_look_ns = now_ns;
        process->next_check_ns = now_ns;
        process->next_list_ns = now_ns;
    }
    if (process && is_vm(process) && !scan_check_vm(scan, process, now_ns)) {
        forget(scan, process);
        process = NULL;
    }
    if (!process) {
        process = process_new(pid, inode);
        g_hash_table_insert(scan->processes, key, process);
    }
    process->generation = scan->generation;
    if (!is_vm(process) && (process->is_qemu || now_ns >= process->next_look_ns))
        scan_check_process(scan, process, now_ns);
}

/* ---- helpers ---- */

/* Returns the parent of this process if it still exists. */
static struct process *
proc_scan_parent_of(const vg_proc_scan *scan, const struct process *process)
{
    struct process *parent = g_hash_table_lookup(scan->processes, GINT_TO_POINTER(process->parent));

    /* A younger process has the pid of a parent that has exited. */
    return parent && parent->vm.start_ticks <= process->vm.start_ticks ? parent : NULL;
}

static uint32_t
proc_scan_owner_of(const vg_proc_scan *scan, const struct process *process)
{
    const struct process *above = process;

    for (unsigned depth = 0; above && depth < DEPTH_MAX; depth++) {
        if (above->owner != VG_PROCESS_NO_ID)
            return above->owner;
        above = proc_scan_parent_of(scan, above);
        if (above && is_vm(above))
            return above->vm.id;
    }
    return VG_PROCESS_NO_ID;
}

static int
proc_scan_compare_pids(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

void
vg_proc_vm_adopt_helpers(const struct vg_proc_vm *vm, vg_topology *topology)
{
    int32_t pid;

    for (unsigned i = 1; (pid = vg_proc_vm_pid_at(vm, i)) > 0; i++)
        vg_topology_adopt(topology, pid, vm->pid);
}

/* Determines again which processes are helpers of which VM. */
static void
proc_scan_settle_helpers(vg_proc_scan *scan)
{
    g_autoptr(GHashTable) by_id = g_hash_table_new(NULL, NULL);
    GHashTableIter iter;
    void *value;

    for (unsigned i = 0; i < scan->vms->len; i++) {
        struct vg_proc_vm *vm = scan->vms->pdata[i];
        g_array_set_size(vm->helpers, 0);
        g_hash_table_insert(by_id, GUINT_TO_POINTER(vm->id), vm);
    }
    g_hash_table_iter_init(&iter, scan->processes);
    while (scan->vms->len > 0 && g_hash_table_iter_next(&iter, NULL, &value)) {
        struct process *process = value;
        if (is_vm(process))
            continue;
        process->owner = proc_scan_owner_of(scan, process);
        struct vg_proc_vm *vm = process->owner == VG_PROCESS_NO_ID
                                    ? NULL
                                    : g_hash_table_lookup(by_id, GUINT_TO_POINTER(process->owner));
        if (vm)
            g_array_append_val(vm->helpers, process->vm.pid);
    }
    for (unsigned i = 0; i < scan->vms->len; i++)
        g_array_sort(((struct vg_proc_vm *)scan->vms->pdata[i])->helpers, proc_scan_compare_pids);
    scan->changed = false;
}

int
vg_proc_scan_update(vg_proc_scan *scan, int64_t now_ns, GError **err)
{
    GHashTableIter iter;
    void *value;
    DIR *dir = opendir(scan->proc);

    if (!dir)
        return vg_error_errno(err, errno, "cannot read '%s'", scan->proc);
    scan->generation++;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        int32_t pid = proc_scan_number_of(entry->d_name);
        if (pid > 0)
            see_process(scan, pid, entry->d_ino, now_ns);
    }
    closedir(dir);
    g_hash_table_iter_init(&iter, scan->processes);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct process *process = value;
        if (process->generation == scan->generation)
            continue;
        forget(scan, process);
        g_hash_table_iter_remove(&iter);
    }
    if (scan->changed)
        proc_scan_settle_helpers(scan);
    return 0;
}

/* ---- hints ---- */

/* Finds a thread of a process from the last listing, if the process is still the same. */
static struct seen_thread *
find_known_thread(const vg_proc_scan *scan, const struct process *process, uint64_t inode,
                  int32_t tid)
{
    struct vg_proc_stat stat;
    struct stat dir;
    char path[PATH_MAX];

    if (!process || !process->threads || process->inode != inode ||
        !read_stat(scan, process->vm.pid, &stat) || stat.start_ticks != process->vm.start_ticks)
        return NULL;
    struct seen_thread *thread = find_thread(process->threads, tid, 0);
    snprintf(path, sizeof(path), "%s/%d/task/%d", scan->proc, process->vm.pid, tid);
    return thread && lstat(path, &dir) == 0 && dir.st_ino == thread->inode ? thread : NULL;
}

/* Checks a process immediately, whatever its earlier checks. */
static struct process *
scan_check_again(vg_proc_scan *scan, struct process *process, int32_t pid, uint64_t inode,
                 int64_t now_ns)
{
    if (process) {
        process->looks = 0;
        process->next_look_ns = now_ns;
        process->next_check_ns = now_ns;
        process->next_list_ns = now_ns;
        for (unsigned i = 0; process->threads && i < process->threads->len; i++)
            g_array_index(process->threads, struct seen_thread, i).looks = 0;
    }
    see_process(scan, pid, inode, now_ns);
    process = g_hash_table_lookup(scan->processes, GINT_TO_POINTER(pid));
    process->hinted_ns = now_ns;
    if (!process->threads)
        list_threads(scan, process);
    return process;
}

void
vg_proc_scan_look(vg_proc_scan *scan, int32_t pid, int32_t tid, const char *comm, int64_t now_ns)
{
    struct process *process = g_hash_table_lookup(scan->processes, GINT_TO_POINTER(pid));
    struct stat dir;
    char path[PATH_MAX];
    int32_t index = VG_NONE;
    bool named = comm[0] != '\0';

    if (named && !vg_comm_is_vcpu(comm, &index))
        return;
    snprintf(path, sizeof(path), "%s/%d", scan->proc, pid);
    if (lstat(path, &dir) != 0)
        return;
    struct seen_thread *thread = find_known_thread(scan, process, dir.st_ino, tid);
    if (!thread && (!process || process->hinted_ns != now_ns)) {
        process = scan_check_again(scan, process, pid, dir.st_ino, now_ns);
        thread = find_known_thread(scan, process, dir.st_ino, tid);
    }
    if (!thread)
        return;
    if (!named)
        index = thread->index;
    bool is_kvm = !named || g_str_has_suffix(comm, "/KVM");
    if (!thread->is_vcpu || thread->index != index || thread->is_kvm != is_kvm) {
        thread->is_vcpu = true;
        thread->index = index;
        thread->is_kvm = is_kvm;
        settle_threads(process);
    }
    if (!is_vm(process))
        become_vm(scan, process, now_ns);
}

const GPtrArray *
vg_proc_scan_vms(const vg_proc_scan *scan)
{
    return scan->vms;
}

void
vg_proc_scan_pids(const vg_proc_scan *scan, GArray *pids)
{
    GHashTableIter iter;
    void *key;

    g_hash_table_iter_init(&iter, scan->processes);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        const int32_t pid = GPOINTER_TO_INT(key);
        g_array_append_val(pids, pid);
    }
}

const struct vg_proc_vm *
vg_proc_vm_choose(const struct vg_proc_vm *before, const struct vg_proc_vm *vm)
{
    return !before ||
                   (vg_qemu_owner_fits(&vm->owner, -1) && !vg_qemu_owner_fits(&before->owner, -1))
               ? vm
               : before;
}
