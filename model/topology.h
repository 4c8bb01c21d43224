/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is who on a host: threads, their processes, and which processes are VMs. Learnt from event
 * contexts, comm fields and process events as they come, so any statement may arrive late, twice
 * or never. A tid or pid that ends and comes back is a new thread or process.
 *
 * Threads and processes are never moved in memory; a pointer stays good until
 * vg_topology_release_dead() (threads) or vg_topology_free(). One thread at a time.
 */
#ifndef VG_MODEL_TOPOLOGY_H
#define VG_MODEL_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/comm.h"
#include "model/event.h"

#define VG_VM_NAME_MAX 256 /* bytes of a VM name, NUL included */
#define VG_UUID_LEN    37  /* 36 characters and a NUL */

#define VG_PROCESS_NO_ID UINT32_MAX

typedef struct vg_topology vg_topology;

struct vg_process {
    uint32_t id; /* dense, from 0, never reused; VG_PROCESS_NO_ID until it is asked for */
    int32_t pid; /* tgid; while it is not known, the tid of the first thread seen */
    bool pid_known;
    bool is_vm;     /* has a vCPU thread, or was named by a VM map */
    bool maybe_vm;  /* a comm of QEMU: its waits are worth attributing before a vCPU is seen */
    bool is_kernel; /* of a thread of the kernel that works for a process that is not known yet */
    bool ended;
    char name[VG_VM_NAME_MAX];      /* of the VM, empty if nobody named it */
    char uuid[VG_UUID_LEN];         /* lower case, empty if unknown */
    struct vg_process *merged_into; /* not NULL: this was a guess, the truth is there */
    uint32_t threads;               /* known and not yet released */
    uint32_t living;                /* of these, not ended */
};

struct vg_thread {
    uint32_t slot; /* dense index for parallel arrays; reused after vg_topology_release_dead() */
    int32_t tid;
    int32_t vcpu_index; /* n of "CPU n/KVM", or VG_NONE */
    uint8_t kind;       /* enum vg_thread_kind */
    bool is_vcpu;       /* by its name or because it entered a guest */
    bool ended;
    int32_t
        works_for; /* of the kernel: the process that its name tells, whose it counts as; or 0 */
    char comm[VG_COMM_LEN];
    struct vg_process *process; /* never NULL; may be merged: vg_thread_process() */
};

vg_topology *vg_topology_new(void);
void vg_topology_free(vg_topology *topology);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_topology, vg_topology_free)

/* May a VM have this name? Not those that say who else took its CPU time ("self", "limit",
 * "host:kernel"), or that it was many ("rest"). */
bool vg_is_vm_name(const char *name);

/* One line of a VM map: process `pid` (or thread `pid`, where a trace has no process ids) belongs
 * to VM `name`; uuid may be NULL. Call before the first event. */
int vg_topology_name_vm(vg_topology *topology, int32_t pid, const char *name, const char *uuid,
                        GError **err);

/* The names of VMs that were given to processes or threads of which none was seen: char *, sorted,
 * of the topology. The caller frees the array. */
GPtrArray *vg_topology_unmatched_names(const vg_topology *topology);

/* For who knows from elsewhere which processes are VMs: from now on only vg_topology_tell() makes
 * VMs and vCPUs, no comm and no guest entry does. Call before the first event. */
void vg_topology_only_told(vg_topology *topology);

struct vg_told_thread {
    int32_t tid;
    int32_t pid; /* of its process, which is a VM */
    const char *name;
    const char *uuid; /* or empty */
    bool is_vcpu;
    int32_t vcpu_index; /* or VG_NONE */
};

/* Makes the living thread, if it is new, and its process a VM; may be repeated, as all of it may
 * change. The process, borrowed until it has ended and vg_topology_forget_dead() is called. */
const struct vg_process *vg_topology_tell(vg_topology *topology, const struct vg_told_thread *told);

/* The process pid works for a VM, whose process is owner: its threads are the VM's from now on.
 * May be repeated; nothing happens while owner has not been told of. */
void vg_topology_adopt(vg_topology *topology, int32_t pid, int32_t owner);

/* The living thread with this tid (1..VG_TID_LIMIT), made if it is new. Never NULL. */
struct vg_thread *vg_topology_thread(vg_topology *topology, int32_t tid);

/* The living thread with this tid, or NULL. */
struct vg_thread *vg_topology_find(const vg_topology *topology, int32_t tid);

/* Learns: comm (NUL-padded, may change), process, kind, "enters guests". Each may be repeated. */
void vg_topology_set_comm(vg_topology *topology, struct vg_thread *thread, const char *comm);
void vg_topology_set_process(vg_topology *topology, struct vg_thread *thread, int32_t pid);
void vg_topology_set_kind(vg_topology *topology, struct vg_thread *thread,
                          enum vg_thread_kind kind);
void vg_topology_set_vcpu(vg_topology *topology, struct vg_thread *thread);

/* The thread has exited: its tid may come back as another thread. */
void vg_topology_end(vg_topology *topology, struct vg_thread *thread);

/* Threads that ended and are no vCPUs: calls drop(slot) for each and forgets it, so that a host
 * which forks all day does not grow. vCPU threads and processes with an id stay. */
void vg_topology_release_dead(vg_topology *topology, void (*drop)(void *data, uint32_t slot),
                              void *data);

/* The same for all threads that ended, and for VMs that have none left, whose ids are then unknown:
 * for who reads windows only, and for ever. */
void vg_topology_forget_dead(vg_topology *topology, void (*drop)(void *data, uint32_t slot),
                             void *data);

/* A VM without threads, for what is known to be some VM's before it is known whose; it stays until
 * it is replaced by that VM, which keeps its own name. */
struct vg_process *vg_topology_add_vm(vg_topology *topology, const char *name);
void vg_topology_replace_vm(vg_topology *topology, struct vg_process *stand_in,
                            struct vg_process *process);

/* A VM that has this name and has not ended; NULL: there is none. */
struct vg_process *vg_topology_vm_named(const vg_topology *topology, const char *name);

/* The process is a VM by what it does, unless only vg_topology_tell() makes VMs. */
void vg_topology_make_vm(vg_topology *topology, struct vg_process *process);

/* The id of a process, given to it now if it has none. VMs have one from the start. */
uint32_t vg_topology_process_id(vg_topology *topology, struct vg_process *process);

/* Follows merged processes to the one that stands. */
static inline struct vg_process *
vg_process_resolve(struct vg_process *process)
{
    while (process->merged_into)
        process = process->merged_into;
    return process;
}

static inline struct vg_process *
vg_thread_process(const struct vg_thread *thread)
{
    return vg_process_resolve(thread->process);
}

/* All threads, ended but not yet released ones included, and all processes ever seen that are or
 * may be VMs; in order of first appearance. */
uint32_t vg_topology_thread_count(const vg_topology *topology); /* slots in use or free */
struct vg_thread *vg_topology_thread_at(const vg_topology *topology, uint32_t slot); /* or NULL */
uint32_t vg_topology_process_count(const vg_topology *topology);
struct vg_process *vg_topology_process_at(const vg_topology *topology,
                                          uint32_t id); /* NULL: forgotten */

/* Name to show: the one given, else "qemu-<pid>". buf of VG_VM_NAME_MAX bytes; returns buf. */
const char *vg_process_vm_name(const struct vg_process *process, char *buf);

#endif
