/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts vgpu-proxy-trace, a separate program that reports clients' commands to LTTng-UST. LTTng's
 * threads, sockets and buffers are thus neither in the proxy nor in a client's process, where the
 * client could access them. The tracer gets the memory that each client's process shares with the
 * proxy, and no process waits for it. Used by one thread.
 */
#ifndef VG_OPENCL_PROXY_TRACE_H
#define VG_OPENCL_PROXY_TRACE_H

#include <stdbool.h>
#include <sys/types.h>

struct proxy_client;

#define PROXY_TRACE_FD 3 /* descriptor of the tracer's end of the socket */

/* Describes a client to the tracer, along with the client's memory (serve/meter.h), or reports its
 * end. */
struct proxy_traced {
    pid_t pid;
    bool is_gone;
    char vm[256]; /* or the socket, if no VM is configured */
    char socket[256];
};

struct proxy_trace {
    int fd; /* to the tracer; -1 if it is not running */
    pid_t pid;
};

/* Starts the tracer. If that fails, logs a message and the proxy runs without it. */
void vg_trace_begin(struct proxy_trace *trace);

/* Reports CLIENT to the tracer and passes it MEMORY, which is shared with the client's process and
 * stays the caller's. MEMORY is -1 if the client has ended. */
void vg_trace_report(struct proxy_trace *trace, const struct proxy_client *client, int memory);

/* Returns whether PID, which has ended, was the tracer. */
bool vg_trace_is_gone(struct proxy_trace *trace, pid_t pid);

#endif
