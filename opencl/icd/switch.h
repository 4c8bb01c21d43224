/* SPDX-License-Identifier: Apache-2.0
 *
 * Lets go of the GPU for certain, and takes one again.
 */
#ifndef VG_OPENCL_ICD_SWITCH_H
#define VG_OPENCL_ICD_SWITCH_H

#include "opencl/track/extract.h"

enum vg_cl_stopped {
    VG_CL_STOPPED,
    VG_CL_GOES_ON, /* it could not be stopped, and goes on where it was */
    VG_CL_LOST,    /* it could neither be stopped nor go on: its calls wait for ever */
};

/* Stops the program's use of its devices and lets the vendors go. Its calls wait until it is
 * resumed. S says why it goes on. From one thread. */
enum vg_cl_stopped vg_cl_stop(struct vg_cl_switch *s);

/* Takes devices again, which need not be the same, and lets the program go on: at the proxy PLACE,
 * or, if that is empty, with the vendors' libraries. If it fails, the program still waits, and
 * resuming can be tried again, elsewhere, too. */
bool vg_cl_resume(struct vg_cl_switch *s, const char *place);

/* Returns whether the program stands still now. From the same thread. */
bool vg_cl_is_stopped(void);

/* Returns the proxy at which the program is, or was when it was stopped; empty: at what its own
 * vendors are. From the same thread. */
const char *vg_cl_place(void);

/* Returns whether it could be stopped, as far as that is known without trying; S says why not. From
 * the same thread. */
bool vg_cl_can_stop(struct vg_cl_switch *s);

/* In a process that was forked while the program was stopped: the state is the program's alone. */
void vg_cl_switch_leave(void);

/* Frees the state after the program goes on, which takes a while if it was much. */
void vg_cl_forget(void);

#endif
