/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_OPENCL_BASE_SAY_H
#define VG_OPENCL_BASE_SAY_H

/* Writes a line to the program's stderr, or to the file that VGPU_OPENCL_LOG names. */
void vg_cl_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, of what need not bother anybody: only if there is such a file. */
void vg_cl_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Opens that file for good, as this process will not be able to; and learns the number by which
 * others know it. */
void vg_cl_say_keep(void);

#endif
