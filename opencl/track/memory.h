/* SPDX-License-Identifier: Apache-2.0
 *
 * What memory objects need besides their creation.
 */
#ifndef VG_OPENCL_TRACK_MEMORY_H
#define VG_OPENCL_TRACK_MEMORY_H

#include "opencl/track/object.h"

/* Returns true if MEM, which is no part of other memory, lies in memory of the program or of ours:
 * what it holds need not be read from the vendor's unless a command has changed it. */
static inline bool
vg_cl_mem_is_in_place(const struct vg_cl_object *mem)
{
    return mem->mem.host_ptr || (mem->mem.end && mem->mem.end->own);
}

/* Leaves what waits for the end of MEM to the vendor, who may be done with it as soon as it is
 * released. */
void vg_cl_mem_leave_end(struct vg_cl_object *mem);

/* Frees the details of MEM after the vendor's object was released. What waits for its end
 * is called if it was not left to the vendor. */
void vg_cl_mem_free(struct vg_cl_object *mem);

/* Returns how many bytes the memory objects of the program have, but for those in its own memory.
 * From any thread. */
uint64_t vg_cl_mem_bytes(void);

/* Leaves MEM out of that from now on. */
void vg_cl_mem_uncount(struct vg_cl_object *mem);

#endif
