/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the tracepoints that tell of GPU requests here: those of the kernel and the loaded drivers
 * that an adapter knows (trace/adapter.h), and that tell nothing twice. Any thread.
 */
#ifndef VG_COLLECTORS_GPU_TRACEPOINTS_H
#define VG_COLLECTORS_GPU_TRACEPOINTS_H

#include <glib.h>

/* Looks below the tracefs, with some fifty system calls. Returns struct vg_perf_tracepoint, none of
 * them optional; empty if there are none. The caller frees it. */
GArray *vg_gpu_tracepoints_find(const char *tracefs);

/* Appends the systems they belong to: "i915, dma_fence". */
void vg_gpu_tracepoints_describe(const GArray *tracepoints, GString *text);

#endif
