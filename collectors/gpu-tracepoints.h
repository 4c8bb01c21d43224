/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the tracepoints on this host that report GPU requests: tracepoints of the kernel and of
 * loaded drivers that have an adapter (trace/adapter.h), without duplicates. Any thread.
 */
#ifndef VG_COLLECTORS_GPU_TRACEPOINTS_H
#define VG_COLLECTORS_GPU_TRACEPOINTS_H

#include <glib.h>

/* Searches tracefs, with about fifty system calls. Returns struct vg_perf_tracepoint, all of them
 * required; the array may be empty. The caller frees it. */
GArray *vg_gpu_tracepoints_find(const char *tracefs);

/* Appends the systems they belong to: "i915, dma_fence". */
void vg_gpu_tracepoints_describe(const GArray *tracepoints, GString *text);

#endif
