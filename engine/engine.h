/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine converts window samples to snapshots. It has one step function, no I/O and no clock,
 * and works the same for a recording and a running daemon. For every VM of every host, it stores
 * the score, the sums since the VM was first seen, an EWMA of every rate, and a demand profile of
 * at most VG_SNAPSHOT_PROFILE_MAX windows. A running daemon forgets VMs that have been missing from
 * VG_ENGINE_FORGET_WINDOWS windows of their host, so memory is bounded by the number of existing
 * VMs. VMs of a recording are never forgotten.
 *
 * A VM is identified by its UUID, or by name and pid while the UUID is unknown. When the UUID
 * becomes known, the VM keeps its history.
 *
 * One thread at a time.
 */
#ifndef VG_ENGINE_ENGINE_H
#define VG_ENGINE_ENGINE_H

#include "model/snapshot.h"
#include "model/window.h"
#include "policy/policy-conf.h"

/* Equal to the length of a profile, which then no longer has any window of the VM. */
#define VG_ENGINE_FORGET_WINDOWS VG_SNAPSHOT_PROFILE_MAX

/* Maximum number of GPU engines per VM; others are left out. */
#define VG_ENGINE_USES_MAX VG_SNAPSHOT_GPU_USES_MAX

/* Maximum number of aggressors per VM; time taken by others counts as "host:unknown". */
#define VG_ENGINE_LOSSES_MAX VG_SNAPSHOT_LOSSES_MAX

/* A window shorter than those of a VM's profile is omitted, because the last window of a recording
 * is cut. In a running daemon, a longer window is also omitted, because its source was late. After
 * this many consecutive omissions, the profile restarts with the new length. */
#define VG_ENGINE_ODD_WINDOWS 3

/* In a running daemon, the host's own use becomes unknown after this many consecutive windows
 * without it. */
#define VG_ENGINE_OWN_WINDOWS 3

/* In a running daemon, the day of a VM is stored as means over periods of this length. Snapshots
 * contain it once it covers an hour. */
#define VG_ENGINE_DAY_NS      (INT64_C(300) * 1000000000)
#define VG_ENGINE_DAY_WINDOWS 288
#define VG_ENGINE_DAY_MIN     12

enum vg_engine_mode {
    VG_ENGINE_MEAN, /* means over all windows in which the VM was seen, for a recording */
    VG_ENGINE_LIVE  /* EWMAs, and only of VMs in the newest window of their host */
};

/* The parts of a snapshot that the engine cannot know. */
struct vg_engine_part {
    enum vg_snapshot_source source;
    const char *note; /* or NULL */
    int64_t clock_offset_ns;
    /* problem text for VMs that are only described, or NULL to leave them out */
    const char *unmeasured;
    /* enum vg_cpu_lack of all VMs; NULL for each VM's newest window */
    const unsigned int *lacks;
    /* the descriptions have all of libvirt's VMs: others are unmanaged */
    bool described;
};

typedef struct vg_engine vg_engine;

/* Creates an engine. config is copied; mode determines how snapshots are made. */
vg_engine *vg_engine_new(const struct vg_policy_config *config, enum vg_engine_mode mode);
void vg_engine_free(vg_engine *engine);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_engine, vg_engine_free)

/* Changes the configuration from now on, also for known VMs, which keep their history. */
void vg_engine_set_config(vg_engine *engine, const struct vg_policy_config *config);

/* Feeds one window of a host; window is borrowed for the call. A window without length is ignored.
 * Windows of one host arrive in time order. */
void vg_engine_step(vg_engine *engine, const struct vg_window *window, const char *host);

/* Restores the days of a host's VMs, and VMs that left it, from the time before vgpud started
 * (engine/day-past.h). offset_ns: epoch - the clock of the windows. Returns false and does nothing
 * before the host's first window. */
struct vg_day_past;
bool vg_engine_restore_days(vg_engine *engine, const char *host, const struct vg_day_past *past,
                            int64_t offset_ns);

/* Makes a sealed snapshot of the described hosts. Each description is a host whose name selects its
 * windows, and which has the facts that windows do not contain (CPUs, memory, GPUs, ...). Its VMs,
 * matched by UUID or name, may add facts about VMs: memory, pinning, groups and vGPUs. A vGPU
 * without measured use gets a use of share 0. Other VMs are ignored, unless part->unmeasured is
 * set. If `cpus` of a description is 0, it is set to the highest used CPU plus one. Descriptions
 * are borrowed. If two VMs of a host share a name, "#pid" is appended to both, also in lost_to.
 * Returns NULL with VG_E_INVALID or VG_E_CONFLICT if the descriptions contradict each other. */
vg_snapshot *vg_engine_snapshot(const vg_engine *engine, const struct vg_engine_part *part,
                                const struct vg_snap_host *const *hosts, size_t n_hosts,
                                GError **err);

#endif
