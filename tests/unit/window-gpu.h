/* SPDX-License-Identifier: Apache-2.0
 *
 * What a window tells of GPUs, for tests: what is not told ends the test.
 */
#ifndef VG_TESTS_WINDOW_GPU_H
#define VG_TESTS_WINDOW_GPU_H

#include "model/window.h"

/* The engine of this name, of that device unless NULL; struct vg_gpu_sample. */
const struct vg_gpu_sample *window_gpu_find(const GArray *gpus, const char *device,
                                            const char *engine);

/* The VM, whose GPU use is known. */
const struct vg_vm_sample *window_gpu_vm(const struct vg_window *window, uint32_t id);

#endif
