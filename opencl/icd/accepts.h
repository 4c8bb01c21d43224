/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks whether a proxy accepts the binaries that the program has loaded (serve/sign.h), before
 * the program is stopped to go there.
 */
#ifndef VG_OPENCL_ICD_ACCEPTS_H
#define VG_OPENCL_ICD_ACCEPTS_H

#include "opencl/track/extract.h"

/* Returns true if S names no proxy, or the program has no binaries of its own, or the proxy accepts
 * them. The program then has a link to the proxy, which vg_cl_resume() uses. Otherwise S has the
 * reason. Call while no call of the program is in progress. */
bool vg_cl_accepts(struct vg_cl_switch *s);

#endif
