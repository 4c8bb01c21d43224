/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a program. Vendors shut down in exit(); afterwards they can neither be used nor
 * loaded again. So exit() waits at the gate like a call, before it runs the vendors' exit
 * handlers. From then on the program is no longer stopped.
 */
#ifndef VG_OPENCL_ICD_ENDING_H
#define VG_OPENCL_ICD_ENDING_H

#include <stdbool.h>

/* Installs the exit handler that waits at the gate: after vendors have been loaded or reloaded, and
 * again after the first context has been created with them, because some vendors initialise only
 * then. From one thread at a time. */
void vg_cl_ending_watch(void);

/* Returns whether the program is exiting. Every thread that closes the gate sees this once it is
 * true. */
bool vg_cl_is_ending(void);

#endif
