/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU device nodes that this process has open or mapped.
 */
#ifndef VG_OPENCL_ICD_NODES_H
#define VG_OPENCL_ICD_NODES_H

#include <stdbool.h>
#include <stddef.h>

/* Records the nodes that are open before the vendors' libraries are loaded, and so do not belong
 * to them. */
void vg_cl_nodes_note(void);

/* Records the drivers that the vendors' libraries have loaded. */
void vg_cl_nodes_note_vendors(void);

/* Returns true, with the driver's name in NAME, if the program also uses GPUs without OpenCL. The
 * owner of each node cannot be determined then. */
bool vg_cl_nodes_are_shared(char *name, size_t size);

/* The same after the vendors' libraries were unloaded, when their own drivers are closed. */
bool vg_cl_nodes_are_used(char *name, size_t size);

/* Closes and unmaps what the vendors left open. Returns the number of descriptors and mappings. */
unsigned vg_cl_nodes_let_go(void);

/* Returns how many nodes are still open or mapped, and writes the path of one of them into PATH. */
unsigned vg_cl_nodes_left(char *path, size_t size);

#endif
