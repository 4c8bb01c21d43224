/* SPDX-License-Identifier: Apache-2.0
 *
 * Living threads are found through a two-level table indexed by tid. This costs two loads, and the
 * ledger does it twice per sched_switch. A thread with an unknown process id gets its own process,
 * which is merged into the real one when the id becomes known. For the first thread of a process,
 * it is known as soon as any of the process's threads has reported it.
 */
#include "config.h"

#include "model/topology.h"

#include <string.h>

#include "model/topology-private.h"

vg_topology *
vg_topology_new(void)
{
    vg_topology *topology = g_new0(vg_topology, 1);

    topology->threads = g_ptr_array_new();
    topology->free_slots = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    topology->ended = g_ptr_array_new();
    topology->by_pid = g_hash_table_new(g_direct_hash, g_direct_equal);
    topology->vms = g_hash_table_new_full(g_direct_hash, g_direct_equal, NULL, g_free);
    topology->helpers =
        g_hash_table_new_full(g_direct_hash, g_direct_equal, NULL, (GDestroyNotify)g_array_unref);
    topology->names = g_hash_table_new_full(g_direct_hash, g_direct_equal, NULL, g_free);
    return topology;
}

void
vg_topology_only_declared(vg_topology *topology)
{
    topology->only_told = true;
}

/* Frees a process. Threads own a process without an id; topology->vms owns the others. */
static void
process_unref(struct vg_process *process)
{
    if (--process->threads == 0 && process->id == VG_PROCESS_NO_ID)
        g_free(process);
}

void
vg_topology_free(vg_topology *topology)
{
    if (!topology)
        return;
    for (unsigned int i = 0; i < topology->threads->len; i++) {
        struct vg_thread *thread = g_ptr_array_index(topology->threads, i);
        if (thread)
            process_unref(thread->process);
        g_free(thread);
    }
    for (size_t i = 0; i < TID_PAGES; i++)
        g_free(topology->by_tid[i]);
    g_ptr_array_unref(topology->threads);
    g_array_unref(topology->free_slots);
    g_ptr_array_unref(topology->ended);
    g_hash_table_unref(topology->by_pid);
    g_hash_table_unref(topology->vms);
    g_hash_table_unref(topology->names);
    g_hash_table_unref(topology->helpers);
    g_free(topology);
}

static void
give_id(vg_topology *topology, struct vg_process *process)
{
    if (process->id != VG_PROCESS_NO_ID)
        return;
    process->id = topology->next_id++;
    g_hash_table_insert(topology->vms, GUINT_TO_POINTER(process->id), process);
}

uint32_t
vg_topology_process_id(vg_topology *topology, struct vg_process *process)
{
    give_id(topology, process);
    return process->id;
}

static void
mark_vm(vg_topology *topology, struct vg_process *process)
{
    process->is_vm = true;
    give_id(topology, process);
}

/* Merges a guessed process into the real one, and keeps what was known about the guess. */
static void
merge(vg_topology *topology, struct vg_process *guess, struct vg_process *truth)
{
    if (guess->is_vm)
        mark_vm(topology, truth);
    truth->maybe_vm |= guess->maybe_vm;
    if (guess->id != VG_PROCESS_NO_ID)
        give_id(topology, truth);
    if (!truth->name[0]) {
        memcpy(truth->name, guess->name, sizeof(truth->name));
        memcpy(truth->uuid, guess->uuid, sizeof(truth->uuid));
    }
    guess->merged_into = truth;
}

/* Returns the living process with an unknown pid that already has this name, or NULL. */
static struct vg_process *
find_unnumbered(const vg_topology *topology, const char *name)
{
    GHashTableIter iter;
    void *value;
    struct vg_process *first = NULL;

    g_hash_table_iter_init(&iter, topology->vms);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct vg_process *process = value;
        if (!process->merged_into && !process->pid_known && !process->ended &&
            strcmp(process->name, name) == 0 && (!first || process->id < first->id))
            first = process;
    }
    return first;
}

/* Applies the VM map. Several threads with one name and no process ids are one VM. */
static struct vg_process *
apply_name(vg_topology *topology, struct vg_process *process)
{
    struct vm_name *given = g_hash_table_lookup(topology->names, GINT_TO_POINTER(process->pid));
    if (!given)
        return process;
    given->matched = true;
    struct vg_process *same = process->pid_known ? NULL : find_unnumbered(topology, given->name);
    memcpy(process->name, given->name, sizeof(process->name));
    memcpy(process->uuid, given->uuid, sizeof(process->uuid));
    mark_vm(topology, process);
    if (!same || same == process)
        return process;
    merge(topology, process, same);
    return same;
}

static struct vg_process *
process_new(int32_t pid, bool pid_known)
{
    struct vg_process *process = g_new0(struct vg_process, 1);

    process->id = VG_PROCESS_NO_ID;
    process->pid = pid;
    process->pid_known = pid_known;
    return process;
}

static void
topology_join(struct vg_thread *thread, struct vg_process *process)
{
    thread->process = process;
    process->threads++;
    process->living++;
    process->ended = false;
}

/* Removes one living thread. The last thread frees the process id. */
static void
leave(vg_topology *topology, struct vg_process *process)
{
    if (--process->living > 0)
        return;
    process->ended = true;
    if (process->pid_known)
        g_hash_table_remove(topology->by_pid, GINT_TO_POINTER(process->pid));
}

static struct vg_thread **
tid_cell(vg_topology *topology, int32_t tid)
{
    struct vg_thread ***page = &topology->by_tid[tid >> TID_PAGE_BITS];

    if (!*page)
        *page = g_new0(struct vg_thread *, TID_PAGE_SIZE);
    return &(*page)[tid & (TID_PAGE_SIZE - 1)];
}

struct vg_thread *
vg_topology_find(const vg_topology *topology, int32_t tid)
{
    struct vg_thread **page = topology->by_tid[tid >> TID_PAGE_BITS];

    return page ? page[tid & (TID_PAGE_SIZE - 1)] : NULL;
}

/* Adds a kernel thread to a process that is now known. */
static void
topology_take_helper(vg_topology *topology, struct vg_thread *thread, struct vg_process *owner)
{
    struct vg_process *process = vg_thread_process(thread);

    owner = vg_process_resolve(owner);
    if (process == owner || process->is_vm)
        return;
    give_id(topology, owner);
    merge(topology, process, owner);
}

/* Adds the kernel threads that worked for this process before it was known. */
static void
topology_take_helpers(vg_topology *topology, int32_t pid, struct vg_process *owner)
{
    const GArray *tids = g_hash_table_lookup(topology->helpers, GINT_TO_POINTER(pid));

    for (guint i = 0; tids && i < tids->len; i++) {
        struct vg_thread *thread = vg_topology_find(topology, g_array_index(tids, int32_t, i));
        if (thread && thread->works_for == pid)
            topology_take_helper(topology, thread, owner);
    }
    if (tids)
        g_hash_table_remove(topology->helpers, GINT_TO_POINTER(pid));
}

/* Finds the process with this id or, if the recording has no process ids, by its first thread. */
static struct vg_process *
topology_find_process(const vg_topology *topology, int32_t pid)
{
    struct vg_process *process = g_hash_table_lookup(topology->by_pid, GINT_TO_POINTER(pid));
    struct vg_thread *first = process ? NULL : vg_topology_find(topology, pid);

    return first ? vg_thread_process(first) : process;
}

/* Notes that a kernel thread works for a process, as its name shows. */
static void
topology_learn_owner(vg_topology *topology, struct vg_thread *thread, int32_t pid)
{
    struct vg_process *process = vg_thread_process(thread);

    if (thread->works_for == pid || (process->pid_known && process->pid != thread->tid))
        return;
    thread->works_for = pid;
    struct vg_process *owner = topology_find_process(topology, pid);
    if (owner) {
        topology_take_helper(topology, thread, owner);
        return;
    }
    /* Keep what it takes from VMs until the process is known. */
    process->maybe_vm = process->is_kernel = true;
    GArray *tids = g_hash_table_lookup(topology->helpers, GINT_TO_POINTER(pid));
    if (!tids) {
        tids = g_array_new(FALSE, FALSE, sizeof(int32_t));
        g_hash_table_insert(topology->helpers, GINT_TO_POINTER(pid), tids);
    }
    g_array_append_val(tids, thread->tid);
}

static struct vg_thread *
thread_new(vg_topology *topology, int32_t tid)
{
    struct vg_thread *thread = g_new0(struct vg_thread, 1);

    thread->tid = tid;
    thread->vcpu_index = VG_NONE;
    if (topology->free_slots->len > 0) {
        unsigned int last = topology->free_slots->len - 1;
        thread->slot = g_array_index(topology->free_slots, uint32_t, last);
        g_array_set_size(topology->free_slots, last);
        g_ptr_array_index(topology->threads, thread->slot) = thread;
    } else {
        thread->slot = topology->threads->len;
        g_ptr_array_add(topology->threads, thread);
    }
    /* A process id is the tid of its first thread, which no other thread has while the process
     * exists. */
    struct vg_process *process = g_hash_table_lookup(topology->by_pid, GINT_TO_POINTER(tid));
    topology_join(thread, process ? process : apply_name(topology, process_new(tid, false)));
    *tid_cell(topology, tid) = thread;
    topology_take_helpers(topology, tid, vg_thread_process(thread));
    return thread;
}

struct vg_thread *
vg_topology_thread(vg_topology *topology, int32_t tid)
{
    struct vg_thread *thread = vg_topology_find(topology, tid);

    return thread ? thread : thread_new(topology, tid);
}

/* Evaluates what a thread's comm reveals about its process. */
static void
find_vm_by_comm(vg_topology *topology, struct vg_thread *thread)
{
    int32_t index, pid;

    if (vg_comm_names_owner(thread->comm, &pid))
        topology_learn_owner(topology, thread, pid);
    if (vg_comm_is_vcpu(thread->comm, &index)) {
        thread->vcpu_index = index;
        vg_topology_set_vcpu(topology, thread);
    } else if (vg_comm_is_qemu(thread->comm)) {
        vg_thread_process(thread)->maybe_vm = true;
    }
}

void
vg_topology_set_comm(vg_topology *topology, struct vg_thread *thread, const char *comm)
{
    if (!comm[0] || memcmp(thread->comm, comm, VG_COMM_LEN) == 0)
        return;
    memcpy(thread->comm, comm, VG_COMM_LEN);
    thread->comm[VG_COMM_LEN - 1] = '\0';
    if (!topology->only_told)
        find_vm_by_comm(topology, thread);
    if (thread->kind == VG_THREAD_UNKNOWN)
        thread->kind = (uint8_t)vg_comm_kind(thread->comm);
}

static void
move_to(vg_topology *topology, struct vg_thread *thread, struct vg_process *process)
{
    struct vg_process *old = vg_thread_process(thread);

    if (!old->pid_known)
        merge(topology, old, process);
    old = thread->process;
    topology_join(thread, process);
    leave(topology, old);
    process_unref(old);
}

void
vg_topology_set_process(vg_topology *topology, struct vg_thread *thread, int32_t pid)
{
    struct vg_process *old = vg_thread_process(thread);

    if (pid <= 0 || (old->pid_known && old->pid == pid) ||
        (thread->works_for > 0 && (pid == thread->tid || pid == thread->works_for)))
        return;
    thread->works_for = 0;
    struct vg_process *process = g_hash_table_lookup(topology->by_pid, GINT_TO_POINTER(pid));
    if (!process) {
        process = process_new(pid, true);
        g_hash_table_insert(topology->by_pid, GINT_TO_POINTER(pid), process);
        apply_name(topology, process);
        struct vg_thread *first = pid <= VG_TID_LIMIT ? vg_topology_find(topology, pid) : NULL;
        if (first && first != thread && !vg_thread_process(first)->pid_known)
            move_to(topology, first, process);
    }
    move_to(topology, thread, process);
    topology_take_helpers(topology, pid, process);
}

void
vg_topology_set_kind(vg_topology *topology, struct vg_thread *thread, enum vg_thread_kind kind)
{
    (void)topology;
    if (kind != VG_THREAD_UNKNOWN)
        thread->kind = (uint8_t)kind;
}

void
vg_topology_set_vcpu(vg_topology *topology, struct vg_thread *thread)
{
    if (topology->only_told)
        return;
    thread->is_vcpu = true;
    mark_vm(topology, vg_thread_process(thread));
}

struct vg_process *
vg_topology_add_vm(vg_topology *topology, const char *name)
{
    struct vg_process *process = process_new(0, true);

    g_strlcpy(process->name, name, sizeof(process->name));
    process->threads = process->living = 1;
    mark_vm(topology, process);
    return process;
}

void
vg_topology_replace_vm(vg_topology *topology, struct vg_process *stand_in,
                       struct vg_process *process)
{
    if (stand_in == process || stand_in->merged_into)
        return;
    give_id(topology, process);
    stand_in->merged_into = process;
    stand_in->threads = stand_in->living = 0;
}

struct vg_process *
vg_topology_vm_named(const vg_topology *topology, const char *name)
{
    for (uint32_t i = 0; i < vg_topology_process_count(topology); i++) {
        struct vg_process *process = vg_topology_process_at(topology, i);
        if (process && process->is_vm && !process->ended && !process->merged_into &&
            strcmp(process->name, name) == 0)
            return process;
    }
    return NULL;
}

void
vg_topology_make_vm(vg_topology *topology, struct vg_process *process)
{
    if (!topology->only_told)
        mark_vm(topology, process);
}

const struct vg_process *
vg_topology_declare(vg_topology *topology, const struct vg_declared_thread *told)
{
    struct vg_thread *thread = vg_topology_thread(topology, told->tid);

    vg_topology_set_process(topology, thread, told->pid);
    struct vg_process *process = vg_thread_process(thread);
    g_strlcpy(process->name, told->name, sizeof(process->name));
    g_strlcpy(process->uuid, told->uuid, sizeof(process->uuid));
    thread->is_vcpu = told->is_vcpu;
    thread->vcpu_index = told->vcpu_index;
    thread->kind = VG_THREAD_USER;
    mark_vm(topology, process);
    return process;
}

void
vg_topology_adopt(vg_topology *topology, int32_t pid, int32_t owner)
{
    struct vg_process *vm = g_hash_table_lookup(topology->by_pid, GINT_TO_POINTER(owner));

    if (!vm)
        return;
    struct vg_thread *thread = vg_topology_thread(topology, pid);
    vg_topology_set_process(topology, thread, pid);
    struct vg_process *process = vg_thread_process(thread);
    vm = vg_process_resolve(vm);
    if (process != vm && !process->is_vm)
        merge(topology, process, vm);
}

void
vg_topology_end(vg_topology *topology, struct vg_thread *thread)
{
    if (thread->ended)
        return;
    thread->ended = true;
    *tid_cell(topology, thread->tid) = NULL;
    g_ptr_array_add(topology->ended, thread);
    leave(topology, thread->process);
}

static void
release(vg_topology *topology, bool vcpus_too, void (*drop)(void *data, uint32_t slot), void *data)
{
    for (unsigned int i = 0; i < topology->ended->len; i++) {
        struct vg_thread *thread = g_ptr_array_index(topology->ended, i);
        if (thread->is_vcpu && !vcpus_too)
            continue;
        drop(data, thread->slot);
        g_ptr_array_index(topology->threads, thread->slot) = NULL;
        g_array_append_val(topology->free_slots, thread->slot);
        process_unref(thread->process);
        g_free(thread);
    }
    g_ptr_array_set_size(topology->ended, 0);
}

void
vg_topology_release_dead(vg_topology *topology, void (*drop)(void *data, uint32_t slot), void *data)
{
    release(topology, false, drop, data);
}

/* Removes processes without threads into which no other process was merged. */
static void
forget_processes(vg_topology *topology, GHashTable *needed)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, topology->vms);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct vg_process *process = value;
        if (process->threads == 0 && !g_hash_table_contains(needed, process))
            g_hash_table_iter_remove(&iter);
    }
}

void
vg_topology_forget_dead(vg_topology *topology, void (*drop)(void *data, uint32_t slot), void *data)
{
    g_autoptr(GHashTable) needed = g_hash_table_new(NULL, NULL);
    GHashTableIter iter;
    void *value;
    bool any_ended = topology->ended->len > 0;

    release(topology, true, drop, data);
    if (!any_ended)
        return;
    for (unsigned int i = 0; i < topology->threads->len; i++) {
        const struct vg_thread *thread = g_ptr_array_index(topology->threads, i);
        for (struct vg_process *process = thread ? thread->process : NULL; process;
             process = process->merged_into)
            g_hash_table_add(needed, process);
    }
    /* A process with a known pid can be found by it as long as it exists. */
    g_hash_table_iter_init(&iter, topology->by_pid);
    while (g_hash_table_iter_next(&iter, NULL, &value))
        g_hash_table_add(needed, value);
    forget_processes(topology, needed);
}

uint32_t
vg_topology_thread_count(const vg_topology *topology)
{
    return topology->threads->len;
}

struct vg_thread *
vg_topology_thread_at(const vg_topology *topology, uint32_t slot)
{
    return g_ptr_array_index(topology->threads, slot);
}

uint32_t
vg_topology_process_count(const vg_topology *topology)
{
    return topology->next_id;
}

struct vg_process *
vg_topology_process_at(const vg_topology *topology, uint32_t id)
{
    return g_hash_table_lookup(topology->vms, GUINT_TO_POINTER(id));
}
