/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that ends. In exit() vendors end, too, and can neither be used nor loaded again after
 * it: so exit() is a call that waits in front of the gate, before it comes to what vendors have it
 * call, and after it the program is not stopped any more.
 */
#ifndef VG_OPENCL_ICD_ENDING_H
#define VG_OPENCL_ICD_ENDING_H

#include <stdbool.h>

/* Has exit() do so, when vendors were loaded, and loaded again; and once more when the first
 * context is made with them, as some begin only then. From one thread at a time. */
void vg_cl_ending_watch(void);

/* Returns whether the program ends. Once it does, it is so for all who close the gate. */
bool vg_cl_is_ending(void);

#endif
