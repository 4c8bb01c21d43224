/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills a window with the use of GPUs. Pure; one thread.
 */
#ifndef VG_COLLECTORS_GPU_WINDOW_H
#define VG_COLLECTORS_GPU_WINDOW_H

#include "host/proc-scan.h"
#include "model/window.h"

/* Finds or adds the sample of a VM whose use of GPUs is known. It is the window's, and good until
 * the next call. */
struct vg_vm_sample *vg_gpu_window_vm(struct vg_window *window, const struct vg_proc_vm *vm);

/* Adds the use of an engine; those of the same device and engine are summed. */
void vg_gpu_window_add(GArray *gpus, const struct vg_gpu_sample *more);

/* Reads the memory of a device, which each of its engines has; leaves the results untouched if
 * there is none. */
void vg_gpu_window_get_memory(const GArray *gpus, const char *device, int64_t *ret_bytes,
                              int64_t *ret_peak_bytes);
void vg_gpu_window_set_memory(GArray *gpus, const char *device, int64_t bytes, int64_t peak_bytes);

/* Puts in the uses of engines (struct vg_gpu_sample) that a better source tells: for each of its
 * devices they replace what was told, whatever the names of engines, except for memory. Where the
 * better source saw nothing and another one did, the other's figures stay. */
void vg_gpu_window_lead(GArray *gpus, const GArray *better);

/* Returns how much of what grew from since to now is of the time until end, which a window tells:
 * spread evenly. The rest is of the next window. */
int64_t vg_gpu_window_share(int64_t all, int64_t since_ns, int64_t end_ns, int64_t now_ns);

/* Finds the index in the window's gpus by device and engine; adds it if it is not there. */
uint32_t vg_gpu_window_row(struct vg_window *window, const struct vg_gpu_sample *gpu);

/* Makes the sums consistent: an engine is not busy for longer than the window, and a VM's GPUs are
 * active at least as long as its busiest engine. Figures of requests stay with their GPU. */
void vg_gpu_window_finish(struct vg_window *window);

#endif
