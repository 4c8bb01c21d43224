/* SPDX-License-Identifier: Apache-2.0
 *
 * One VM as the engine stores it; used only inside the engine. One thread at a time.
 */
#ifndef VG_ENGINE_VM_TRACK_H
#define VG_ENGINE_VM_TRACK_H

#include "engine/engine.h"
#include "engine/profile-clock.h"

/* A rate: the sum since the VM was first seen, and an EWMA per second. */
struct vg_rate {
    double sum;
    double ewma;
};

/* The rates of one aggressor of the VM. */
struct vg_loss_track {
    enum vg_aggressor_kind kind;
    uint64_t vm;               /* for the kind VM, the id of its track */
    char name[VG_VM_NAME_MAX]; /* for the kind VM, its name when it last took something */
    struct vg_rate ns;
    struct vg_rate count;
};

/* The rates of one engine that the VM uses. */
struct vg_use_track {
    char device[64];
    char engine[VG_GPU_ENGINE_SIZE];
    struct vg_rate busy_ns;
    struct vg_rate wait_ns;
};

struct vg_vm_track {
    uint64_t id; /* id of this track, never reused by the engine */
    enum vg_engine_mode mode;
    char name[VG_VM_NAME_MAX];
    char uuid[VG_UUID_LEN];
    int32_t pid;
    int64_t vcpus;
    bool guest_known;
    unsigned int lacks; /* enum vg_cpu_lack, of the newest window */
    uint64_t last_step; /* the last step of its host with this VM in the window */
    int64_t covered_ns; /* total length of all windows since it was first seen */
    vg_score *score;
    struct vg_cpu_figures total;
    int64_t gpu_active_ns;  /* total of windows with a known GPU side */
    int64_t gpu_covered_ns; /* the length of these windows */
    struct vg_rate run_ns;
    struct vg_rate preempt_ns;
    struct vg_rate wake_wait_ns;
    struct vg_rate preemptions;
    GArray *losses; /* struct vg_loss_track */
    GArray *uses;   /* struct vg_use_track */
    GArray *cpus;   /* int32_t, CPUs that it may use, or was seen on */
    struct vg_profile_clock clock;
    GArray *profile_cpu;       /* double, the newest last */
    GArray *profile_gpu;       /* double, -1 where the GPU side is unknown */
    int64_t last_ns;           /* the end of the last window that it was in */
    GArray *day_cpu, *day_gpu; /* the same for the day */
    int64_t day_ns;            /* the length of the next mean until now, and its sums */
    double day_demand_ns;
    double day_active_ns; /* -1 where the GPU side is unknown */
};

struct vg_vm_track *vg_vm_track_new(const struct vg_vm_sample *sample, uint64_t id,
                                    enum vg_engine_mode mode, const struct vg_score_config *config);
void vg_vm_track_free(struct vg_vm_track *track);

/* Feeds one window with the VM. tracks has the tracks of the window's VMs, the aggressors, by the
 * VMs' ids. */
void vg_vm_track_feed(struct vg_vm_track *track, const struct vg_vm_sample *sample,
                      const struct vg_window *window, GHashTable *tracks, int64_t half_life_ns);

/* Fills in the measured members of a VM that only has a name. names has the names of the snapshot's
 * VMs, by the track's id (uint64_t). lacks: what is unknown, enum vg_cpu_lack. */
void vg_vm_track_read(const struct vg_vm_track *track, GHashTable *names, unsigned int lacks,
                      struct vg_snap_vm *vm);

/* Fills in a day, if it is long enough. */
void vg_day_read(const GArray *cpu, const GArray *gpu, struct vg_snap_profile *ret);

/* Returns whether only its GPU use is known, and not its CPU use. */
bool vg_vm_track_only_gpu(const struct vg_vm_track *track);

#endif
