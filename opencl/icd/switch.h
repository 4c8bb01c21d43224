/* SPDX-License-Identifier: Apache-2.0
 *
 * Releases the GPU with certainty and acquires one again.
 */
#ifndef VG_OPENCL_ICD_SWITCH_H
#define VG_OPENCL_ICD_SWITCH_H

#include "opencl/track/extract.h"

enum vg_cl_stopped {
    VG_CL_STOPPED,
    VG_CL_GOES_ON, /* it could not be stopped and continues as before */
    VG_CL_LOST,    /* it can neither be stopped nor continue: its calls block indefinitely */
};

/* Stops the program's use of its devices and unloads the vendors. The program's calls wait until it
 * is resumed. If it cannot be stopped and continues, S has the reason. From one thread. */
enum vg_cl_stopped vg_cl_stop(struct vg_cl_switch *s);

/* Acquires devices again, not necessarily the same ones, and resumes the program: at the proxy
 * PLACE, or with the vendors' libraries if PLACE is empty. If this fails, the program is still
 * waiting, and another attempt can be made, even with another place. */
bool vg_cl_resume(struct vg_cl_switch *s, const char *place);

/* Returns whether the program is stopped. From the same thread. */
bool vg_cl_is_stopped(void);

/* Returns the proxy that the program uses, or used when it was stopped. Returns an empty string if
 * it uses its own vendors' libraries. From the same thread. */
const char *vg_cl_place(void);

/* Returns whether the program can be stopped, as far as this is known without an attempt. If not, S
 * has the reason. From the same thread. */
bool vg_cl_can_stop(struct vg_cl_switch *s);

/* In a process that was forked while the program was stopped: the state is the program's alone. */
void vg_cl_switch_leave(void);

/* Frees the state after the program has resumed. This takes long if the state is large. */
void vg_cl_forget(void);

#endif
