/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tracepoints tell of GPU requests here: those that the kernel and the drivers that are
 * loaded have, that an adapter knows (trace/adapter.h), and that tell nothing twice. Any thread.
 */
#ifndef VG_COLLECTORS_GPU_TRACEPOINTS_H
#define VG_COLLECTORS_GPU_TRACEPOINTS_H

#include <glib.h>

/* Looks below the tracefs; costs some fifty system calls. struct vg_perf_tracepoint, none of them
 * optional; empty if there are none. The caller frees it. */
GArray *vg_gpu_tracepoints_find(const char *tracefs);

/* Appends whose they are: "i915, dma_fence". */
void vg_gpu_tracepoints_describe(const GArray *tracepoints, GString *text);

#endif
