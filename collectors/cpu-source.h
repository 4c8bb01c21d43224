/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the CPU time of this host's VMs is read from: a rung of the ladder on which the live
 * collector (collectors/live.c) stands. It is told which VMs there are, and fills windows.
 * Everything happens on the collector's thread.
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

/* Somebody who may be a vCPU thread that has not been seen yet. */
struct vg_cpu_hint {
    int32_t pid;
    int32_t tid;
    char comm[VG_COMM_LEN]; /* that it is being given; empty: it entered a guest */
};

struct vg_cpu_source_ops {
    const char *name; /* static; what measures carry as their source */
    unsigned levels;  /* 1: it has no way to measure with less effort */
    /* Gets hold of what it needs. -1: it cannot be used here; *err says what is missing and what
     * would help. */
    int (*open)(vg_cpu_source *source, GError **err);
    /* Lets go of everything, also after open() or read() has failed. */
    void (*close)(vg_cpu_source *source);
    /* vms: struct vg_proc_vm *, those that there are now; borrowed. From now on new ones are
     * measured. -1: it does not work any more. */
    int (*watch)(vg_cpu_source *source, const GPtrArray *vms, vg_thread *self, GError **err);
    /* watch(), and fills vms and losses of an empty window with what happened since the last call,
     * or since open(), up to now, or up to end_ns of the window if it can be that exact; of a VM
     * that is new since it was watched first, of one that has ended up to its end. Says in
     * *provenance how each measure was found, and what was spent besides the time of this thread.
     * -1: it does not work any more; the window is to be thrown away. */
    int (*read)(vg_cpu_source *source, const GPtrArray *vms, vg_thread *self,
                struct vg_window *window, struct vg_provenance *provenance, GError **err);
    /* Readable while hints() has something to tell, or -1; NULL: it never has. */
    int (*fd)(const vg_cpu_source *source);
    /* Appends struct vg_cpu_hint; called when fd() is readable. */
    void (*hints)(vg_cpu_source *source, GArray *hints);
    /* Readable when drain() must be called soon, for what happens is kept in memory of its own that
     * fills up; NULL: it never has to. */
    int (*drain_fd)(const vg_cpu_source *source);
    /* Takes what is there. What fails, fails again in read(), which tells. */
    void (*drain)(vg_cpu_source *source);
    /* How much effort is left out: 0 is nothing, levels - 1 the most. NULL if levels is 1. */
    int (*set_level)(vg_cpu_source *source, unsigned level, GError **err);
    void (*free)(vg_cpu_source *source); /* closed */
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

/* collectors/source-bpf.c: BPF programs that account every switch in the kernel. Needs CAP_BPF and
 * CAP_PERFMON, a kernel of 5.8 or newer with type information (CONFIG_DEBUG_INFO_BTF), and to be in
 * the host's own pid namespace. proc is "/proc". */
vg_cpu_source *vg_source_bpf_new(const char *proc);

/* collectors/source-perf.c: every switch, wakeup, migration, entry and exit of the host as perf
 * events, accounted here. Needs CAP_PERFMON (or kernel.perf_event_paranoid=-1), to read tracefs,
 * which is root's, and to be in the host's own pid namespace. proc is "/proc". */
vg_cpu_source *vg_source_perf_new(const char *proc);

/* collectors/source-proc.c: counters in /proc, polled. Always works, without any privilege, but
 * cannot tell who ran while somebody waited. proc is "/proc" but in tests. */
vg_cpu_source *vg_source_proc_new(const char *proc);

#endif
