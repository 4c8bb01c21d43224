/* SPDX-License-Identifier: Apache-2.0
 *
 * Who tells LTTng-UST what becomes of clients' commands: vgpu-proxy-trace, a program of its own
 * beside this one. Nothing of LTTng's, its threads, its sockets and its buffers, is in the proxy,
 * nor in a client's process, whose memory is the client's. It is given the memory that each of them
 * has in common with the proxy, and nobody waits for it. Used by one thread.
 */
#ifndef VG_OPENCL_PROXY_TRACE_H
#define VG_OPENCL_PROXY_TRACE_H

#include <stdbool.h>
#include <sys/types.h>

struct proxy_client;

#define PROXY_TRACE_FD 3 /* where vgpu-proxy-trace has its end of the socket */

/* What it is told of a client, along with its memory (serve/meter.h), or that it is gone. */
struct proxy_traced {
    pid_t pid;
    bool is_gone;
    char vm[256]; /* or the socket, where nobody said whose that is */
    char socket[256];
};

struct proxy_trace {
    int fd; /* to it; -1: it is not there */
    pid_t pid;
};

/* Starts it. Without it, which a message tells, the proxy goes on. */
void vg_trace_begin(struct proxy_trace *trace);

/* Tells it of CLIENT, and what is in common with its process, which stays the caller's; -1: it is
 * gone. */
void vg_trace_tell(struct proxy_trace *trace, const struct proxy_client *client, int memory);

/* Whether PID was it, which has ended. */
bool vg_trace_is_gone(struct proxy_trace *trace, pid_t pid);

#endif
