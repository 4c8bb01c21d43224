/* SPDX-License-Identifier: Apache-2.0
 *
 * Inserts the files that a program's source includes into the source. A proxy's compiler cannot
 * see the program's files, and they may have changed when the program is rebuilt later. Depends on
 * no other file.
 */
#ifndef VG_OPENCL_TRACK_INCLUDE_H
#define VG_OPENCL_TRACK_INCLUDE_H

/* The maximum size of a source with its files, in bytes, and how deep files may include others. */
#define VG_CL_INCLUDE_MAX   (16 << 20)
#define VG_CL_INCLUDE_DEPTH 64

/* Returns SOURCE with each #include line replaced by the file. OPTIONS, which may be NULL, has the
 * folders (-I); "..." is also searched for next to the including file and in the working directory.
 * A line remains if the file does not exist, if it names a macro, or if it names one of the N
 * header programs NAMES. Returns NULL if no line was replaced, the result would be too long, or
 * memory is exhausted. The caller frees the result. */
char *vg_cl_include(const char *source, const char *options, const char *const *names, unsigned n);

/* Makes this process read no local files, because it serves programs of other machines. */
void vg_cl_include_forbid(void);

#endif
