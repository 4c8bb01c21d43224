/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's side of the agent protocol: a thread that connects to the agent's socket and
 * executes its requests, line by line.
 *
 *   program   hello 1 PID                  or  hello 1 PID released BYTES
 *             or  hello 1 PID away BYTES
 *   agent     ask
 *   program   is running BYTES  or  is away BYTES  or  is released BYTES
 *             or  is unreleasable BYTES REASON
 *   agent     prepare MILLISECONDS
 *   program   released BYTES MICROSECONDS  or  refused REASON  or  lost REASON
 *   agent     abort                        (while it prepares)
 *   agent     resume                       or  resume at proxy:ADDRESS
 *   program   resumed BYTES MICROSECONDS   or  failed REASON    (resume may be repeated)
 */
#ifndef VG_OPENCL_ICD_CONTROL_H
#define VG_OPENCL_ICD_CONTROL_H

/* Starts the thread. It connects when an agent is running, and reconnects after the agent
 * restarts. A stopped program that finds no agent for VG_CL_ALONE_S seconds tries to resume on its
 * own, and repeats that at the same interval. */
#define VG_CL_ALONE_S 120
void vg_cl_control_start(void);

/* Prevents the thread from being started, in a process that serves programs but is not one. */
void vg_cl_control_forbid(void);

#endif
