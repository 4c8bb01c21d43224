/* SPDX-License-Identifier: Apache-2.0
 *
 * A source of the CPU time of this host's VMs: a rung of the ladder on which the live collector
 * (collectors/live.c) stands. It is told which VMs there are, and fills windows. Everything happens
 * on the collector's thread.
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

/* A thread that may be a vCPU and has not been seen yet. */
struct vg_cpu_hint {
    int32_t pid;
    int32_t tid;
    char comm[VG_COMM_LEN]; /* name that it is being given; empty: it entered a guest */
};

struct vg_cpu_source_ops {
    const char *name; /* static; the source that measures carry */
    unsigned levels;  /* levels of effort; 1: no way to measure with less */
    /* Opens what it needs. -1: it cannot be used here; *err says what is missing and what would
     * help. */
    int (*open)(vg_cpu_source *source, GError **err);
    /* Closes everything, also after open() or read() has failed. */
    void (*close)(vg_cpu_source *source);
    /* Measures new VMs from now on. vms: struct vg_proc_vm *, the present ones, borrowed. -1: the
     * source does not work any more. */
    int (*watch)(vg_cpu_source *source, const GPtrArray *vms, vg_thread *self, GError **err);
    /* Watches as watch() does, and fills vms and losses of an empty window with what happened since
     * the last call, or since open(), up to now, or exactly to end_ns of the window if it can; for
     * a new VM since it was first watched, for one that has ended up to its end. *provenance says
     * how each measure was found, and what was spent besides the time of this thread. -1: the
     * source does not work any more, and the window must be thrown away. */
    int (*read)(vg_cpu_source *source, const GPtrArray *vms, vg_thread *self,
                struct vg_window *window, struct vg_provenance *provenance, GError **err);
    /* Returns a descriptor that is readable while hints() has something to tell, or -1; NULL: there
     * are never hints. */
    int (*fd)(const vg_cpu_source *source);
    /* Appends struct vg_cpu_hint; called when fd() is readable. */
    void (*hints)(vg_cpu_source *source, GArray *hints);
    /* Returns a descriptor that is readable when drain() must be called soon, because memory of the
     * source fills up; NULL: that never happens. */
    int (*drain_fd)(const vg_cpu_source *source);
    /* Takes the events that are there. A failure comes again in read(), which reports it. */
    void (*drain)(vg_cpu_source *source);
    /* Sets how much effort is saved: 0 is none, levels - 1 the most. NULL if levels is 1. */
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

/* Makes the source of BPF programs that account every switch in the kernel
 * (collectors/source-bpf.c). It needs CAP_BPF and CAP_PERFMON, a kernel of 5.8 or newer with
 * type information (CONFIG_DEBUG_INFO_BTF), and to be in the host's own pid namespace. proc is
 * "/proc". */
vg_cpu_source *vg_source_bpf_new(const char *proc);

/* Makes the source of perf events for every switch, wakeup, migration, entry and exit of the host,
 * which are accounted here (collectors/source-perf.c). It needs CAP_PERFMON (or
 * kernel.perf_event_paranoid=-1), to read tracefs, which is root's, and to be in the host's own pid
 * namespace. proc is "/proc". */
vg_cpu_source *vg_source_perf_new(const char *proc);

/* Makes the source of polled counters in /proc (collectors/source-proc.c). It always works, without
 * any privilege, but cannot tell who ran while somebody waited. proc is "/proc" except in tests. */
vg_cpu_source *vg_source_proc_new(const char *proc);

#endif
