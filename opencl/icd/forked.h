/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that the program forks. A fork waits for the locks that other threads hold for a
 * moment, as these threads are not in the child. Where it comes while the program is stopped, or on
 * its way, nobody in the child would ever open the gate, and what its handles stood for is gone: it
 * is open there, releases do nothing, and other calls return CL_DEVICE_NOT_AVAILABLE.
 */
#ifndef VG_OPENCL_ICD_FORKED_H
#define VG_OPENCL_ICD_FORKED_H

/* Watches for forks from now on. Called once. */
void vg_cl_forked_watch(void);

#endif
