/* SPDX-License-Identifier: Apache-2.0
 *
 * Filling a window with the use of GPUs. Pure; one thread.
 */
#ifndef VG_COLLECTORS_GPU_WINDOW_H
#define VG_COLLECTORS_GPU_WINDOW_H

#include "host/proc-scan.h"
#include "model/window.h"

/* The sample of a VM whose use of GPUs is known; made if it is not there yet. It is the window's,
 * until the next call. */
struct vg_vm_sample *vg_gpu_window_vm(struct vg_window *window, const struct vg_proc_vm *vm);

/* Adds the use of an engine; those of the same device and engine are summed. */
void vg_gpu_window_add(GArray *gpus, const struct vg_gpu_sample *more);

/* The memory of a device, which each of its engines has; untouched if there is none of it. */
void vg_gpu_window_get_memory(const GArray *gpus, const char *device, int64_t *ret_bytes,
                              int64_t *ret_peak_bytes);
void vg_gpu_window_set_memory(GArray *gpus, const char *device, int64_t bytes, int64_t peak_bytes);

/* Uses of engines (struct vg_gpu_sample) that a better source tells: of each of its devices they
 * take the place of what was told, whatever the engines are called there, but for memory. Where the
 * better source saw nothing and another one did, what that told stays. */
void vg_gpu_window_lead(GArray *gpus, const GArray *better);

/* Which of the window's gpus it is, by device and engine; added if it is not there. */
uint32_t vg_gpu_window_row(struct vg_window *window, const struct vg_gpu_sample *gpu);

/* What the parts add up to: an engine is not busy for longer than the window, and a VM's GPUs are
 * active at least as long as the busiest engine is. What is told of requests stays with its GPU. */
void vg_gpu_window_finish(struct vg_window *window);

#endif
