/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a recording for the Perfetto viewer during its analysis. For each VM, there is a track for
 * each vCPU with its activity, a track for each GPU engine with the requests waiting in its queue,
 * and counters. For each CPU and each GPU engine, there is a track with its users. All slices start
 * and end within the part, and a VM's slices add up to its figures.
 *
 * Memory use is constant: open slices, an entry for each thread, VM, CPU and engine, and the recent
 * activity of threads that are not yet known to be vCPUs. One thread at a time.
 */
#ifndef VG_PICTURE_VIEWER_H
#define VG_PICTURE_VIEWER_H

#include "model/window.h"
#include "trace/recording.h"
#include "trace/window-read.h"

/* Limits for the stored activity of a thread before its VM is known, and of all such threads
 * together. */
#define VG_VIEWER_EARLY_MAX     256
#define VG_VIEWER_ALL_EARLY_MAX 65536

typedef struct vg_viewer vg_viewer;

/* The recording is borrowed. The path is that of a regular file, or does not exist yet. The file
 * appears there when it is complete. */
vg_viewer *vg_viewer_open(const char *path, const vg_recording *recording, GError **err);
void vg_viewer_free(vg_viewer *viewer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_viewer, vg_viewer_free)

/* See struct vg_window_watch. The topology is borrowed until the end. */
void vg_viewer_begin(vg_viewer *viewer, const vg_topology *topology);
void vg_viewer_cpu(vg_viewer *viewer, const struct vg_cpu_change *change);
void vg_viewer_gpu(vg_viewer *viewer, const struct vg_gpu_change *change);

/* Must be called for each closed window. Returns -1 and sets *err if the file cannot be written. */
int vg_viewer_window(vg_viewer *viewer, const struct vg_window *window, GError **err);

/* The part ends. Afterwards, only _missing() and _free() may be called. */
int vg_viewer_close(vg_viewer *viewer, int64_t end_ns, GError **err);

/* Returns the number of vCPUs whose first changes are missing, because it became known too late
 * that they are vCPUs. */
uint32_t vg_viewer_missing(const vg_viewer *viewer);

#endif
