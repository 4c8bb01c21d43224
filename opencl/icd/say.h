/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_OPENCL_ICD_SAY_H
#define VG_OPENCL_ICD_SAY_H

/* Writes a line to the program's stderr, or to the file that VGPU_OPENCL_LOG names. */
void vg_cl_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, of what need not bother anybody: only if there is such a file. */
void vg_cl_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
