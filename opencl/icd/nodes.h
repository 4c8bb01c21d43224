/* SPDX-License-Identifier: Apache-2.0
 *
 * The device nodes of GPUs that this process has open or mapped.
 */
#ifndef VG_OPENCL_ICD_NODES_H
#define VG_OPENCL_ICD_NODES_H

#include <stdbool.h>
#include <stddef.h>

/* Notes the nodes that are open now, which are not the vendors': before these are loaded. */
void vg_cl_nodes_note(void);

/* Notes the drivers that the vendors' libraries have loaded. */
void vg_cl_nodes_note_vendors(void);

/* Returns true, and writes by which driver into NAME, if the program has GPUs by other ways
 * than OpenCL: nobody can tell then whose the nodes are. */
bool vg_cl_nodes_are_shared(char *name, size_t size);

/* The same, once the vendors' libraries are unloaded: their own drivers are gone then. */
bool vg_cl_nodes_are_used(char *name, size_t size);

/* Closes and unmaps what the vendors left. Returns how many descriptors and maps these were. */
unsigned vg_cl_nodes_let_go(void);

/* Writes the path of a node that is still open or mapped into PATH; returns 0 if there is none. */
unsigned vg_cl_nodes_left(char *path, size_t size);

#endif
