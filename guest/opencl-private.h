/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions shared by the two files that handle OpenCL programs: guest/provider-opencl.c and
 * guest/opencl-switch.c. Within a worker process.
 */
#ifndef VG_GUEST_OPENCL_PRIVATE_H
#define VG_GUEST_OPENCL_PRIVATE_H

#include <json-c/json.h>

#include "guest/opencl-link.h"
#include "guest/work-private.h"

/* The time for a program that has not stopped in time to report that it continues, in addition to
 * the time for a copy in progress. It may hang in its vendor's library, and continues on its own
 * when the library returns. */
#define VG_OPENCL_STUCK_MS 3000

/* Connects to the running agent, only once. Returns the programs, or NULL if there is no agent. */
struct vg_opencl_link *vg_opencl_open(const struct vg_guest_work *work);
void vg_opencl_close(void);

/* Queries whether the wanted programs that are running could be stopped. Returns the first that
 * could not, or that does not answer in time; otherwise NULL. */
const struct vg_opencl_program *vg_opencl_ask(const struct vg_guest_work *work);

/* Returns the total GPU memory of the reported programs. */
int64_t vg_opencl_bytes(void);

/* Fails if the guest has too little memory for the GPU memory of the reported programs. */
int vg_opencl_check_memory(struct vg_guest_work *work);

/* Adds the programs to a message, those with a problem first. */
void vg_opencl_describe(json_object *message, bool is_status);

void vg_opencl_progress(struct vg_guest_work *work, const char *step,
                        const struct vg_opencl_program *program);

#endif
