/* SPDX-License-Identifier: Apache-2.0
 *
 * Small blocking writes that the client has not waited for. The proxy does not wait for them
 * either, because waiting costs more than copying the data. Their queue executes in order, so that
 * its later commands see the data. A command in any other queue waits for these writes first. The
 * data are freed when a later call has waited for the queue.
 */
#ifndef VG_OPENCL_SERVE_LENT_H
#define VG_OPENCL_SERVE_LENT_H

#include "opencl/serve/serve.h"

/* Returns whether CALL, a blocking write of SIZE bytes that neither waits for events nor has one,
 * may be submitted as a write that does not block. Waits for earlier writes if there are too
 * many. */
bool vg_serve_lent_may(const struct vg_serve_call *call, cl_command_queue queue, size_t size);

/* Keeps the data of CALL until EVENT, which is retained, is done. */
void vg_serve_lent_keep(struct vg_serve_call *call, cl_command_queue queue, cl_event event);

/* Call before a command is submitted to QUEUE. Any thread. */
void vg_serve_lent_before(struct vg_serve *serve, cl_command_queue queue);

/* Must be called when CALL has waited for everything in its queue. */
void vg_serve_lent_done(const struct vg_serve_call *call);

/* Waits for all these writes. Any thread. */
void vg_serve_lent_wait(struct vg_serve *serve);

#endif
