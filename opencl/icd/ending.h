/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a program. Vendors shut down in exit(); afterwards they can neither be used nor
 * loaded again. So exit() waits at the gate like a call, before it runs the vendors' exit
 * handlers. From then on the program is no longer stopped.
 */
#ifndef VG_OPENCL_ICD_ENDING_H
#define VG_OPENCL_ICD_ENDING_H

#include <stdbool.h>

/* Installs that exit handler when vendors were loaded or reloaded, and again when the first
 * context was created with them, as some vendors initialise only then. From one thread at a
 * time. */
void vg_cl_ending_watch(void);

/* Returns whether the program is exiting. Every thread that closes the gate sees this once it is
 * true. */
bool vg_cl_is_ending(void);

#endif
