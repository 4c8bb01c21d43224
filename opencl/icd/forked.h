/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that the program forks. A fork waits for locks that other threads hold briefly, because
 * these threads do not exist in the child. If the program forks while it is stopped, or is being
 * stopped, no thread in the child would open the gate, and the objects behind its handles no longer
 * exist. The gate is therefore open in the child. In this case, and for programs at a proxy,
 * inherited objects have no function in the child: releases succeed, and other calls return
 * CL_DEVICE_NOT_AVAILABLE.
 *
 * The child's first call with a platform or device of a proxy creates a separate link, which the
 * child can use for new contexts, and a thread for the agent. It does not load a vendor's library
 * that was unloaded, because the GPU will be removed.
 */
#ifndef VG_OPENCL_ICD_FORKED_H
#define VG_OPENCL_ICD_FORKED_H

/* Handles forks from now on. Call once. */
void vg_cl_forked_watch(void);

#endif
