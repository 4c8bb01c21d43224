/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_OPENCL_BASE_SAY_H
#define VG_OPENCL_BASE_SAY_H

/* Writes a line to the program's stderr, or to the file that VGPU_OPENCL_LOG names. */
void vg_cl_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Does the same for less important messages: writes only if VGPU_OPENCL_LOG names a file. */
void vg_cl_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Opens the log file while this process still can, and stores the process ID that other processes
 * see for this process. */
void vg_cl_say_keep(void);

#endif
