/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording: the merged, time-ordered event stream of all traces that share one clock. Parts
 * that cannot be read become problems with file and offset; everything else is delivered. One
 * thread at a time.
 */
#ifndef VG_TRACE_RECORDING_H
#define VG_TRACE_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "model/event.h"
#include "model/names.h"
#include "model/topology.h"
#include "trace/alias.h"

/* Further problems of a recording are only counted. */
#define VG_TRACE_PROBLEMS_MAX 200

/* Further VMs that a recording names are dropped, which is a problem. */
#define VG_RECORDING_VMS_MAX 4096

struct vg_trace_problem {
    char *file;
    int64_t offset; /* bytes from the start of the (unpacked) file; VG_NONE if unknown */
    char *what;
};

/* Problems of a recording, in the order in which they were found. */
struct vg_trace_problems {
    GPtrArray *list;  /* struct vg_trace_problem, owned */
    uint64_t dropped; /* problems beyond VG_TRACE_PROBLEMS_MAX */
};

/* A VM named in a recording. */
struct vg_recorded_vm {
    int32_t pid;
    char name[VG_VM_NAME_MAX];
    char uuid[VG_UUID_LEN]; /* as written in the recording; empty if missing */
};

typedef struct vg_recording vg_recording;

/* A live recording has no event available now. */
#define VG_RECORDING_AGAIN 2

/* The functions that a format implements. */
struct vg_recording_ops {
    /* Returns 1 and *ret_event, 0 at the end, VG_RECORDING_AGAIN if it is live and has no event
     * now, or -1 and *err when nothing more can be read. */
    int (*next)(vg_recording *recording, struct vg_event *ret_event, GError **err);
    /* Returns the fraction (0..1) of the input consumed until now. */
    double (*progress)(const vg_recording *recording);
    void (*free)(vg_recording *recording);
};

/* Formats embed this as their first member. */
struct vg_recording {
    const struct vg_recording_ops *ops;
    char *name;              /* the path, or the common part of the paths */
    char *hostname;          /* of the recorded machine; NULL if not stated */
    int64_t clock_offset_ns; /* raw clock + offset = epoch; 0 where the clock has none */
    bool has_wakeup;         /* sched_wakeup is recorded: sched_waking must be ignored */
    bool has_switch;         /* sched_switch is recorded (in text: was read until now) */
    int32_t host_cpus; /* host CPUs according to the header, as read until now; 0 if not stated */
    uint32_t
        gpu_ops;  /* 1 << enum vg_gpu_op: as of vg_gpu_ledger_declare_ops(), if known in advance */
    bool has_gpu; /* GPU events were read until now */
    bool is_cut;  /* its end is truncated, so that records may be missing */
    vg_names *names;     /* of things that its events refer to by number */
    vg_aliases *aliases; /* other names of events; may be NULL */
    uint64_t events;     /* records read until now, of interest or not */
    uint64_t rejected;   /* records with impossible values, not delivered */
    uint64_t backwards;  /* events earlier than their stream's last, taken at its time */
    bool has_time;       /* an event with its own time was read */
    int64_t last_ns;     /* time of the event delivered last, or of the first that has a time */
    int64_t passed_ns;   /* live: no earlier event will follow; INT64_MIN if nothing is known */
    GArray *vms;         /* struct vg_recorded_vm, known when it was opened; each pid once */
    uint64_t
        stream_cpus[VG_CPU_LIMIT / 64]; /* CPUs that have a separate stream with sched_switch */
    GArray *late;         /* struct vg_late_cpu, by CPU; known once the first event was read */
    int64_t length_ns;    /* as `late`, if there are late CPUs; 0 if not known */
    GArray *held;         /* struct vg_event: the first events, up to the first with a time */
    unsigned int n_given; /* number of events delivered from held */
    struct vg_trace_problems problems;
};

/* Returns the next event in time order; return values as in the ops. An event without its own time
 * gets the previous event's time or, at the start, the time of the first event that has one. */
int vg_recording_next(vg_recording *recording, struct vg_event *ret_event, GError **err);
/* Returns the host name in the recording, or NULL if that cannot be a host name. */
const char *vg_recording_host(const vg_recording *recording);
/* Applies the VM names in the recording, except to processes that already have a name. Call before
 * the first event. */
void vg_recording_name_vms(const vg_recording *recording, vg_topology *topology);
double vg_recording_progress(const vg_recording *recording);
void vg_recording_free(vg_recording *recording);

/* Records that events with this name can be in the recording. */
void vg_recording_learn_event(vg_recording *recording, const char *event_name);

/* For the formats. Free a problem with vg_trace_problem_free(). */
struct vg_trace_problem *vg_trace_problem_new(const char *file, int64_t offset, const char *what);
void vg_trace_problem_free(void *problem);
/* names: a table shared with other recordings; if NULL, creates a private table. aliases may be
 * NULL. */
void vg_recording_init(vg_recording *recording, const struct vg_recording_ops *ops,
                       const char *name, vg_names *names, vg_aliases *aliases);
void vg_recording_clear(vg_recording *recording); /* undoes init; not the format's own parts */
/* Adds a VM. A name that is not valid for a VM and a second name for a process become problems of
 * the file. uuid may be NULL. */
void vg_recording_add_vm(vg_recording *recording, const char *file, int32_t pid, const char *name,
                         const char *uuid);
void vg_recording_problem(vg_recording *recording, const char *file, int64_t offset,
                          const char *fmt, ...) G_GNUC_PRINTF(4, 5);

#endif
