/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording: the merged, time-ordered event stream of everything that shares one clock. Whatever
 * cannot be read becomes a problem with file and offset; the rest is delivered. One thread at a
 * time.
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

/* More problems than this per recording are counted, not kept. */
#define VG_TRACE_PROBLEMS_MAX 200

/* VMs that a recording names beyond these are left out, which is a problem. */
#define VG_RECORDING_VMS_MAX 4096

struct vg_trace_problem {
    char *file;
    int64_t offset; /* bytes from the start of the file (of the unpacked text), VG_NONE unknown */
    char *what;
};

/* Problems of a recording, in the order they were met. */
struct vg_trace_problems {
    GPtrArray *list;  /* struct vg_trace_problem, owned */
    uint64_t dropped; /* beyond VG_TRACE_PROBLEMS_MAX */
};

/* A VM that a recording names itself. */
struct vg_recorded_vm {
    int32_t pid;
    char name[VG_VM_NAME_MAX];
    char uuid[VG_UUID_LEN]; /* as it is written there; empty: not told */
};

typedef struct vg_recording vg_recording;

/* A live recording has nothing to tell for now. */
#define VG_RECORDING_AGAIN 2

/* What a format implements. */
struct vg_recording_ops {
    /* 1 and *ret_event, 0 at the end, -1 and *err when nothing more can be read at all,
     * VG_RECORDING_AGAIN if it is live. */
    int (*next)(vg_recording *recording, struct vg_event *ret_event, GError **err);
    /* 0..1, the part of the input consumed so far. */
    double (*progress)(const vg_recording *recording);
    void (*free)(vg_recording *recording);
};

/* Formats embed this as their first member. */
struct vg_recording {
    const struct vg_recording_ops *ops;
    char *name;              /* the path, or what the paths have in common */
    char *hostname;          /* of the recorded machine, NULL if the recording does not say */
    int64_t clock_offset_ns; /* raw clock + offset = epoch; 0 where the clock has none */
    bool has_wakeup;         /* sched_wakeup is recorded: sched_waking must be ignored */
    bool has_switch;         /* sched_switch is recorded (of text: was read so far) */
    int32_t host_cpus;       /* that the head says the host has, read so far; 0: it does not say */
    uint32_t gpu_ops;        /* 1 << enum vg_gpu_op: as of vg_gpu_ledger_tells(), if known before */
    bool has_gpu;            /* GPU events were read so far */
    bool is_cut;             /* at its end, behind which records may be missing */
    vg_names *names;         /* of what its events name by number */
    vg_aliases *aliases;     /* other names of events; NULL: none */
    uint64_t events;         /* records read so far, of interest or not */
    uint64_t rejected;       /* records with impossible values, not delivered */
    uint64_t backwards;      /* events earlier than their stream's last, taken at its time */
    bool has_time;           /* an event that has a time of its own was read */
    int64_t last_ns;         /* of the event delivered last, or the first one that has a time */
    int64_t passed_ns;       /* live: nothing earlier will come; INT64_MIN: nothing is known */
    GArray *vms;             /* struct vg_recorded_vm, known since it was opened; each pid once */
    uint64_t stream_cpus[VG_CPU_LIMIT / 64]; /* that have a stream of sched_switch of their own */
    GArray *late;         /* struct vg_late_cpu, by CPU; known once the first event was read */
    int64_t length_ns;    /* likewise, where there are late CPUs; 0: not known */
    GArray *held;         /* struct vg_event: the first events, up to that one */
    unsigned int n_given; /* of held */
    struct vg_trace_problems problems;
};

/* Next event in time order; return values as in the ops. Events without a time of their own get
 * that of the event before, at the beginning that of the first one that has one. */
int vg_recording_next(vg_recording *recording, struct vg_event *ret_event, GError **err);
/* What the recording calls its host, NULL where that is nothing a host could be called. */
const char *vg_recording_host(const vg_recording *recording);
/* Names the VMs that the recording names, but for processes that have a name already. Call before
 * the first event. */
void vg_recording_name_vms(const vg_recording *recording, vg_topology *topology);
double vg_recording_progress(const vg_recording *recording);
void vg_recording_free(vg_recording *recording);

/* An event of this name can be in the recording. */
void vg_recording_learn_event(vg_recording *recording, const char *event_name);

/* For the formats. A problem is freed with vg_trace_problem_free(). */
struct vg_trace_problem *vg_trace_problem_new(const char *file, int64_t offset, const char *what);
void vg_trace_problem_free(void *problem);
/* names: the table that it shares with others, NULL: it has one of its own. aliases: or NULL. */
void vg_recording_init(vg_recording *recording, const struct vg_recording_ops *ops,
                       const char *name, vg_names *names, vg_aliases *aliases);
void vg_recording_clear(vg_recording *recording); /* undoes init; not the format's own parts */
/* What cannot name a VM, and a second name for a process, are problems of the file. uuid may be
 * NULL. */
void vg_recording_add_vm(vg_recording *recording, const char *file, int32_t pid, const char *name,
                         const char *uuid);
void vg_recording_problem(vg_recording *recording, const char *file, int64_t offset,
                          const char *fmt, ...) G_GNUC_PRINTF(4, 5);

#endif
