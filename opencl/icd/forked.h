/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that the program forks. A fork waits for the locks that other threads hold for a
 * moment, as these threads are not in the child. Where it comes while the program is stopped, or on
 * its way, nobody in the child would ever open the gate, and what its handles stood for is gone: it
 * is open there. At a proxy, and then, the program's objects do nothing in the child: releases
 * succeed, and other calls return CL_DEVICE_NOT_AVAILABLE.
 *
 * The child's first call with a platform or device of a proxy gets it a link of its own, at which
 * it can make contexts, and a thread for the agent. It does not load a vendor's library that was
 * let go, as the GPU is about to leave.
 */
#ifndef VG_OPENCL_ICD_FORKED_H
#define VG_OPENCL_ICD_FORKED_H

/* Handles forks from now on. Call once. */
void vg_cl_forked_watch(void);

#endif
