/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of a host, their processes, and the processes that are VMs. It learns from event
 * contexts, comm fields and process events in the order of arrival, so a piece of information may
 * arrive late, twice or never. A tid or pid that ends and is reused is a new thread or process.
 *
 * Threads and processes never move in memory. A pointer is valid until vg_topology_release_dead()
 * (threads) or vg_topology_free(). One thread at a time.
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
    uint32_t id; /* dense, from 0, never reused; VG_PROCESS_NO_ID until requested */
    int32_t pid; /* tgid; until it is known, the tid of the first thread seen */
    bool pid_known;
    bool is_vm;     /* has a vCPU thread, or was named by a VM map */
    bool maybe_vm;  /* has a QEMU comm: its waits are attributed even before a vCPU is seen */
    bool is_kernel; /* has a kernel thread that works for a process not known yet */
    bool ended;
    char name[VG_VM_NAME_MAX]; /* name of the VM; empty if unknown */
    char uuid[VG_UUID_LEN];    /* lower case, empty if unknown */
    struct vg_process
        *merged_into; /* the real process, if this process was only assumed; otherwise NULL */
    uint32_t threads; /* number of known threads that are not released */
    uint32_t living;  /* number of these that have not ended */
};

struct vg_thread {
    uint32_t slot; /* dense index for parallel arrays; reused after vg_topology_release_dead() */
    int32_t tid;
    int32_t vcpu_index; /* n of "CPU n/KVM", or VG_NONE */
    uint8_t kind;       /* enum vg_thread_kind */
    bool is_vcpu;       /* because of its name, or because it entered a guest */
    bool ended;
    int32_t works_for; /* kernel thread: pid of the process that it works for, taken from its name;
                          or 0 */
    char comm[VG_COMM_LEN];
    struct vg_process *process; /* never NULL; may be merged, see vg_thread_process() */
};

vg_topology *vg_topology_new(void);
void vg_topology_free(vg_topology *topology);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_topology, vg_topology_free)

/* Returns whether a VM may have this name. Names of other aggressors ("self", "limit",
 * "host:kernel") and of their sum ("rest") are reserved. */
bool vg_is_vm_name(const char *name);

/* Processes a line of a VM map: process `pid` (or thread `pid`, if a trace has no process ids)
 * belongs to VM `name`; uuid may be NULL. Must be called before the first event. */
int vg_topology_name_vm(vg_topology *topology, int32_t pid, const char *name, const char *uuid,
                        GError **err);

/* Returns the VM names whose processes or threads were never seen: char *, sorted, owned by the
 * topology. The caller frees the array. */
GPtrArray *vg_topology_unmatched_names(const vg_topology *topology);

/* For callers that know from another source which processes are VMs. From now on, only
 * vg_topology_declare() creates VMs and vCPUs; comms and guest entries do not. Must be called
 * before the first event. */
void vg_topology_only_declared(vg_topology *topology);

struct vg_declared_thread {
    int32_t tid;
    int32_t pid; /* of its process, a VM */
    const char *name;
    const char *uuid; /* may be empty */
    bool is_vcpu;
    int32_t vcpu_index; /* or VG_NONE */
};

/* Creates the living thread if it is new, and marks its process as a VM. May be repeated, because
 * all these facts can change. Returns the process, borrowed until it has ended and
 * vg_topology_forget_dead() is called. */
const struct vg_process *vg_topology_declare(vg_topology *topology,
                                             const struct vg_declared_thread *told);

/* Counts the threads of process pid as threads of the VM whose process is owner. May be repeated.
 * Has no effect until owner is known. */
void vg_topology_adopt(vg_topology *topology, int32_t pid, int32_t owner);

/* Returns the living thread with this tid (1..VG_TID_LIMIT), and creates it if it is new. Never
 * NULL. */
struct vg_thread *vg_topology_thread(vg_topology *topology, int32_t tid);

/* Returns the living thread with this tid, or NULL. */
struct vg_thread *vg_topology_find(const vg_topology *topology, int32_t tid);

/* Set what has become known about a thread: comm (NUL-padded, may change), process, kind, "enters
 * guests". Each may be repeated. */
void vg_topology_set_comm(vg_topology *topology, struct vg_thread *thread, const char *comm);
void vg_topology_set_process(vg_topology *topology, struct vg_thread *thread, int32_t pid);
void vg_topology_set_kind(vg_topology *topology, struct vg_thread *thread,
                          enum vg_thread_kind kind);
void vg_topology_set_vcpu(vg_topology *topology, struct vg_thread *thread);

/* The thread has exited. Its tid may return as another thread. */
void vg_topology_end(vg_topology *topology, struct vg_thread *thread);

/* Calls drop(slot) for each ended thread that is not a vCPU, and forgets it, so that memory use
 * does not grow on a host that forks constantly. vCPU threads and processes with an id are kept. */
void vg_topology_release_dead(vg_topology *topology, void (*drop)(void *data, uint32_t slot),
                              void *data);

/* Does the same for all ended threads, and for VMs without threads, whose ids become unknown. For
 * callers that only read windows and run indefinitely. */
void vg_topology_forget_dead(vg_topology *topology, void (*drop)(void *data, uint32_t slot),
                             void *data);

/* Adds a VM without threads, for activity that belongs to a VM that is not identified yet. It
 * exists until that VM replaces it. The VM keeps its own name. */
struct vg_process *vg_topology_add_vm(vg_topology *topology, const char *name);
void vg_topology_replace_vm(vg_topology *topology, struct vg_process *stand_in,
                            struct vg_process *process);

/* Returns a VM with this name that has not ended, or NULL. */
struct vg_process *vg_topology_vm_named(const vg_topology *topology, const char *name);

/* Marks a process as a VM because of its behaviour, unless only vg_topology_declare() creates VMs.
 */
void vg_topology_make_vm(vg_topology *topology, struct vg_process *process);

/* Returns the id of a process, and assigns it first if necessary. VMs have one from the start. */
uint32_t vg_topology_process_id(vg_topology *topology, struct vg_process *process);

/* Follows merged processes to the final process. */
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

/* For loops over all threads, including ended threads that are not released yet, and over all
 * processes seen until now that are VMs or may be VMs. In order of first appearance. */
uint32_t vg_topology_thread_count(const vg_topology *topology); /* slots in use or free */
struct vg_thread *vg_topology_thread_at(const vg_topology *topology, uint32_t slot); /* or NULL */
uint32_t vg_topology_process_count(const vg_topology *topology);
struct vg_process *vg_topology_process_at(const vg_topology *topology,
                                          uint32_t id); /* NULL if forgotten */

/* Returns the name to show: the given name, otherwise "qemu-<pid>". buf has VG_VM_NAME_MAX bytes;
 * returns buf. */
const char *vg_process_vm_name(const struct vg_process *process, char *buf);

#endif
