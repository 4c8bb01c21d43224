/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals that the viewer's files share.
 */
#ifndef VG_PICTURE_VIEWER_PRIVATE_H
#define VG_PICTURE_VIEWER_PRIVATE_H

#include "picture/gpu-slices.h"
#include "picture/viewer.h"
#include "trace/perfetto-lanes.h"
#include "trace/perfetto-write.h"

/* A changing number, with one value for each point in time. */
struct viewer_counter {
    uint64_t track; /* 0 until it is created */
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
    struct viewer_counter waits; /* number of vCPUs that are waiting for a CPU */
    uint64_t cpu_track;          /* counters from windows */
    uint64_t gpu_track;
};

struct vg_viewer {
    vg_perfetto *trace;
    const vg_recording *recording;
    const vg_topology *topology;
    GPtrArray *users; /* struct viewer_user, owned */
    GHashTable
        *by_process; /* struct vg_process, including merged processes -> struct viewer_user */
    /* viewer-cpu.c */
    GArray *threads; /* struct viewer_thread, by slot */
    GArray *cpus;    /* struct viewer_cpu, by number */
    uint64_t cpus_track;
    uint32_t early; /* steps stored for all threads */
    uint32_t missing;
    /* viewer-gpu.c */
    vg_gpu_slices *slices;
    GHashTable *devices; /* name -> track */
    GHashTable *engines; /* device and name -> struct viewer_engine, owned */
    GHashTable *queues;  /* struct viewer_queue, owned */
    GHashTable *waiting; /* request -> struct viewer_wait, owned: its lane */
};

/* ---- viewer-user.c ---- */

/* Returns the user for the process, or for the process that it was merged into; creates it if it is
 * new. comm: its name if it is not a VM. */
struct viewer_user *viewer_user(struct vg_viewer *viewer, struct vg_process *process,
                                const char *comm);

/* Sets a value at a time. A time before the last one counts as the last one. The value is written
 * when the time advances. */
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
