/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the use of the slices (MIG devices) of a GPU in MIG mode from NVIDIA's management library.
 * Each slice is an engine "sm-mig-GPUINSTANCE-COMPUTEINSTANCE" of the GPU in windows, with
 * the slice's memory. Its work is unknown unless the library reports it for slices. One thread.
 */
#ifndef VG_COLLECTORS_NVML_SLICES_H
#define VG_COLLECTORS_NVML_SLICES_H

#include "collectors/nvml.h"
#include "model/window.h"

typedef struct vg_nvml_slices vg_nvml_slices;

/* Creates an empty list; nvml and address (of the GPU) are borrowed. */
vg_nvml_slices *vg_nvml_slices_new(const struct vg_nvml *nvml, vg_nvml_handle handle,
                                   const char *address);
void vg_nvml_slices_free(vg_nvml_slices *slices); /* NULL is accepted */

/* Takes a sample of each slice. span_ns: time since the previous sample, or 0. */
void vg_nvml_slices_sample(vg_nvml_slices *slices, int64_t now_ns, int64_t span_ns);

/* Adds the use since the last call to window->gpus, and lists the slices again. */
void vg_nvml_slices_read(vg_nvml_slices *slices, struct vg_window *window);

/* Appends the number of slices to a device's description, if there are any. */
void vg_nvml_slices_describe(const vg_nvml_slices *slices, GString *text);

#endif
