/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on memory objects other than creation.
 */
#ifndef VG_OPENCL_TRACK_MEMORY_H
#define VG_OPENCL_TRACK_MEMORY_H

#include "opencl/track/object.h"

/* Returns true if MEM, which must not be a part of other memory, is stored in memory of the
 * program or of this library. Its contents then have to be read back only if a command has changed
 * it. */
static inline bool
vg_cl_mem_is_in_place(const struct vg_cl_object *mem)
{
    return mem->mem.host_ptr || (mem->mem.end && mem->mem.end->own);
}

/* Leaves the callbacks and memory that wait for the end of MEM to the vendor, which may still use
 * the memory after the release. */
void vg_cl_mem_leave_end(struct vg_cl_object *mem);

/* Frees the details of MEM after the vendor's object was released. Runs its destructor callbacks
 * unless they were left to the vendor. */
void vg_cl_mem_free(struct vg_cl_object *mem);

/* Returns the total size in bytes of the program's memory objects, except those in its own memory.
 * Any thread. */
uint64_t vg_cl_mem_bytes(void);

/* Excludes MEM from this total from now on. */
void vg_cl_mem_uncount(struct vg_cl_object *mem);

#endif
