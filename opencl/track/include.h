/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts the files that a program's source includes into the source. The compiler of a proxy does not
 * see the program's files. Nor does one that builds the program again later, when they may have
 * changed. Depends on nothing else.
 */
#ifndef VG_OPENCL_TRACK_INCLUDE_H
#define VG_OPENCL_TRACK_INCLUDE_H

/* The maximum size of a source with its files, in bytes, and how deep files may include others. */
#define VG_CL_INCLUDE_MAX   (16 << 20)
#define VG_CL_INCLUDE_DEPTH 64

/* Returns SOURCE with the files in the place of their #include lines. OPTIONS, which may be NULL,
 * has the folders (-I); "..." is also found beside the file that includes it and in the working
 * directory. A line stays as it is if there is no such file, if it names a macro, or if it names
 * one of the N header programs NAMES. NULL: no line was replaced, the result would be too long, or
 * there is no memory. To be freed. */
char *vg_cl_include(const char *source, const char *options, const char *const *names, unsigned n);

/* Has this process read no files of its own: it serves programs of other machines. */
void vg_cl_include_forbid(void);

#endif
