/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_OPENCL_BASE_SAY_H
#define VG_OPENCL_BASE_SAY_H

/* Writes a line to the program's stderr, or to the file that VGPU_OPENCL_LOG names. */
void vg_cl_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* As vg_cl_say(), for messages of little interest: writes only if VGPU_OPENCL_LOG names a file. */
void vg_cl_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Opens that file permanently, as this process will soon be unable to, and stores the process ID
 * under which other processes see this one. */
void vg_cl_say_keep(void);

#endif
