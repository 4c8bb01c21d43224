/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_OPENCL_ICD_SAY_H
#define VG_OPENCL_ICD_SAY_H

/* Writes a line to the program's stderr, or to the file that VGPU_OPENCL_LOG names. */
void vg_cl_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
