/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the viewer share.
 */
#ifndef VG_PICTURE_VIEWER_PRIVATE_H
#define VG_PICTURE_VIEWER_PRIVATE_H

#include "picture/gpu-slices.h"
#include "picture/viewer.h"
#include "trace/perfetto-lanes.h"
#include "trace/perfetto-write.h"

/* A number that changes, written once for each time. */
struct viewer_counter {
    uint64_t track; /* 0: not made yet */
    int64_t t_ns;
    int64_t value;
    int64_t written;
    bool pending;
    bool any_written;
};

/* A VM, or a process that uses a GPU. */
struct viewer_user {
    struct vg_process *process;
    char *name;
    bool is_vm;
    uint64_t track;
    struct viewer_counter waits; /* vCPUs that wait for a CPU */
    uint64_t cpu_track;          /* counters of windows */
    uint64_t gpu_track;
};

struct vg_viewer {
    vg_perfetto *trace;
    const vg_recording *recording;
    const vg_topology *topology;
    GPtrArray *users;       /* struct viewer_user, owned */
    GHashTable *by_process; /* struct vg_process, also merged ones -> struct viewer_user */
    /* viewer-cpu.c */
    GArray *threads; /* struct viewer_thread, by slot */
    GArray *cpus;    /* struct viewer_cpu, by number */
    uint64_t cpus_track;
    uint32_t early; /* steps kept of all threads */
    uint32_t missing;
    /* viewer-gpu.c */
    vg_gpu_slices *slices;
    GHashTable *devices; /* name -> track */
    GHashTable *engines; /* device and name -> struct viewer_engine, owned */
    GHashTable *queues;  /* struct viewer_queue, owned */
    GHashTable *waiting; /* request -> struct viewer_wait, owned: its lane */
};

/* ---- viewer-user.c ---- */

/* The VM or process that it is merged into, made if it is new. comm: its name, if it is no VM. */
struct viewer_user *viewer_user(struct vg_viewer *viewer, struct vg_process *process,
                                const char *comm);

/* A value at a time; those of before the last one count as of that. Written when time goes on. */
void viewer_counter_set(struct vg_viewer *viewer, struct viewer_counter *counter, int64_t t_ns,
                        int64_t value);
void viewer_counter_write(struct vg_viewer *viewer, struct viewer_counter *counter);

/* ---- viewer-cpu.c ---- */

void viewer_init_cpus(struct vg_viewer *viewer);
void viewer_clear_cpus(struct vg_viewer *viewer);
void viewer_finish_cpus(struct vg_viewer *viewer, int64_t end_ns);

/* ---- viewer-gpu.c ---- */

void viewer_init_gpus(struct vg_viewer *viewer);
void viewer_clear_gpus(struct vg_viewer *viewer);
void viewer_finish_gpus(struct vg_viewer *viewer, int64_t end_ns);

#endif
