/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's side of a program: a thread that is connected to the agent's socket and does what it
 * is told, line by line.
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
 *   program   resumed BYTES MICROSECONDS   or  failed REASON    (resume may be said again)
 */
#ifndef VG_OPENCL_ICD_CONTROL_H
#define VG_OPENCL_ICD_CONTROL_H

/* Starts the thread. It connects when there is an agent, and again when that one was restarted. A
 * program that was stopped, and finds no agent for VG_CL_ALONE_S seconds, tries to go on by itself,
 * and again and again after as long a time. */
#define VG_CL_ALONE_S 120
void vg_cl_control_start(void);

/* Has it not be started: this process is no program, but serves them. */
void vg_cl_control_forbid(void);

#endif
