/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording for the viewer of Perfetto, written while it is analysed. Of each VM: a track for
 * each vCPU with what it does, a track with what waits in the queue of each GPU engine, counters.
 * Of each CPU and each GPU engine: who had it. All slices begin and end inside of the part, and
 * those of a VM add up to its figures.
 *
 * Constant memory: what is open, one place for each thread, VM, CPU and engine, and of threads that
 * are not known to be vCPUs yet what they did last. One thread at a time.
 */
#ifndef VG_PICTURE_VIEWER_H
#define VG_PICTURE_VIEWER_H

#include "model/window.h"
#include "trace/recording.h"
#include "trace/window-read.h"

/* What may be kept of a thread before it is known whose vCPU it is, and of all those together. */
#define VG_VIEWER_EARLY_MAX     256
#define VG_VIEWER_ALL_EARLY_MAX 65536

typedef struct vg_viewer vg_viewer;

/* The recording is borrowed. The path is that of a file, or of none; it is there when all is
 * complete. */
vg_viewer *vg_viewer_open(const char *path, const vg_recording *recording, GError **err);
void vg_viewer_free(vg_viewer *viewer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_viewer, vg_viewer_free)

/* As those of struct vg_window_watch. The topology is borrowed until the end. */
void vg_viewer_begin(vg_viewer *viewer, const vg_topology *topology);
void vg_viewer_cpu(vg_viewer *viewer, const struct vg_cpu_change *change);
void vg_viewer_gpu(vg_viewer *viewer, const struct vg_gpu_change *change);

/* Of each closed window. -1 and *err: the file cannot be written. */
int vg_viewer_window(vg_viewer *viewer, const struct vg_window *window, GError **err);

/* The part ends. Nothing but _missing() and _free() may follow. */
int vg_viewer_close(vg_viewer *viewer, int64_t end_ns, GError **err);

/* vCPUs whose first changes are not shown, because it was known too late that they are vCPUs. */
uint32_t vg_viewer_missing(const vg_viewer *viewer);

#endif
