/* SPDX-License-Identifier: Apache-2.0
 *
 * A source of the CPU times of VMs on this host. The live collector (collectors/live.c) has a list
 * of sources in order of preference. It passes the list of VMs to the source, which fills windows.
 * All functions run on the collector's thread.
 */
#ifndef VG_COLLECTORS_CPU_SOURCE_H
#define VG_COLLECTORS_CPU_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/thread.h"
#include "model/event.h"
#include "model/provenance.h"
#include "model/window.h"

typedef struct vg_cpu_source vg_cpu_source;

/* A thread that may be a vCPU and was not known before. */
struct vg_cpu_hint {
    int32_t pid;
    int32_t tid;
    char comm[VG_COMM_LEN]; /* the new name of the thread; empty if the thread entered a guest */
};

struct vg_cpu_source_ops {
    const char *name; /* static; the source that measurements name */
    unsigned levels;  /* levels of effort; 1 if the effort cannot be reduced */
    /* Opens what the source needs. Returns -1 if it cannot be used here; *err says what is missing
     * and gives advice. */
    int (*open)(vg_cpu_source *source, GError **err);
    /* Closes everything, also after open() or read() has failed. */
    void (*close)(vg_cpu_source *source);
    /* Starts to measure new VMs. vms: struct vg_proc_vm *, the current VMs, borrowed. Returns -1
     * if the source no longer works. */
    int (*watch)(vg_cpu_source *source, const GPtrArray *vms, vg_thread *self, GError **err);
    /* Watches VMs as watch() does, and fills vms and losses of an empty window. The window ends
     * now, or exactly at the window's end_ns if the source can do so. It covers the time since the
     * last call or since open(). A new VM is covered since it was first watched, a VM that has
     * ended until its end. *provenance has the method of each measurement and the cost beyond this
     * thread's time. Returns -1 if the source no longer works; the window must then be
     * discarded. */
    int (*read)(vg_cpu_source *source, const GPtrArray *vms, vg_thread *self,
                struct vg_window *window, struct vg_provenance *provenance, GError **err);
    /* Returns a descriptor that is readable while hints() has data, or -1. NULL if there are never
     * hints. */
    int (*fd)(const vg_cpu_source *source);
    /* Appends struct vg_cpu_hint. Called when fd() is readable. */
    void (*hints)(vg_cpu_source *source, GArray *hints);
    /* Returns a descriptor that becomes readable when drain() must be called soon, because the
     * source's buffers fill up. NULL if that never happens. */
    int (*drain_fd)(const vg_cpu_source *source);
    /* Processes pending events. read() reports any failure later. */
    void (*drain)(vg_cpu_source *source);
    /* Sets how much effort to save, from 0 (full effort) to levels - 1. NULL if levels is 1. */
    int (*set_level)(vg_cpu_source *source, unsigned level, GError **err);
    void (*free)(vg_cpu_source *source); /* after close() */
};

/* Sources embed this as their first member. */
struct vg_cpu_source {
    const struct vg_cpu_source_ops *ops;
};

static inline void
vg_cpu_source_free(vg_cpu_source *source)
{
    if (source)
        source->ops->free(source);
}

/* Creates the source whose BPF programs account every switch in the kernel
 * (collectors/source-bpf.c). It requires CAP_BPF and CAP_PERFMON, Linux 5.8 or newer with type
 * information (CONFIG_DEBUG_INFO_BTF), and the host's pid namespace. proc is "/proc". */
vg_cpu_source *vg_source_bpf_new(const char *proc);

/* Creates the source that accounts perf events for every switch, wakeup, migration, entry and exit
 * on the host (collectors/source-perf.c). It requires CAP_PERFMON (or
 * kernel.perf_event_paranoid=-1), read access to tracefs, which root has, and the host's pid
 * namespace. proc is "/proc". */
vg_cpu_source *vg_source_perf_new(const char *proc);

/* Creates the source that polls counters in /proc (collectors/source-proc.c). It always works,
 * without privileges, but cannot determine what ran while a thread waited. proc is "/proc" except
 * in tests. */
vg_cpu_source *vg_source_proc_new(const char *proc);

#endif
