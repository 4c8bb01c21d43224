/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills a window with the use of GPUs. Pure; one thread.
 */
#ifndef VG_COLLECTORS_GPU_WINDOW_H
#define VG_COLLECTORS_GPU_WINDOW_H

#include "host/proc-scan.h"
#include "model/window.h"

/* Finds or adds the sample of a VM whose GPU use is known. It belongs to the window and is valid
 * until the next call. */
struct vg_vm_sample *vg_gpu_window_vm(struct vg_window *window, const struct vg_proc_vm *vm);

/* Adds the use of an engine. Entries of the same device and engine are summed. */
void vg_gpu_window_add(GArray *gpus, const struct vg_gpu_sample *more);

/* Reads a device's memory use, which each of its engines has. Leaves the results unchanged if the
 * device is not found. */
void vg_gpu_window_get_memory(const GArray *gpus, const char *device, int64_t *ret_bytes,
                              int64_t *ret_peak_bytes);
void vg_gpu_window_set_memory(GArray *gpus, const char *device, int64_t bytes, int64_t peak_bytes);

/* Adds engine use (struct vg_gpu_sample) from a better source. For each of its devices it replaces
 * earlier data of all engines, except for memory. Earlier data remain where the better source
 * measured no use and another source did. */
void vg_gpu_window_lead(GArray *gpus, const GArray *better);

/* `all` is an amount that increased between since and now. Returns the part of it that belongs to
 * the time until end, assuming a constant rate. The rest belongs to the next window. */
int64_t vg_gpu_window_share(int64_t all, int64_t since_ns, int64_t end_ns, int64_t now_ns);

/* Returns the index of a device and engine in the window's gpus; adds them if missing. */
uint32_t vg_gpu_window_row(struct vg_window *window, const struct vg_gpu_sample *gpu);

/* Makes the sums consistent: an engine is busy no longer than the window, and a VM's GPUs are
 * active at least as long as its busiest engine. Figures of requests stay with their GPU. */
void vg_gpu_window_finish(struct vg_window *window);

#endif
