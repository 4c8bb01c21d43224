/* SPDX-License-Identifier: Apache-2.0
 *
 * What clients' processes write to stdout and stderr: messages of the library and of vendors'
 * compilers, and what kernels print, which is the program's own text. It comes through a pipe, and
 * goes to the proxy's log line by line, with the client's name before it, without control
 * characters, and as often as the socket's other lines. What is too much is left out and counted.
 * Used by one thread.
 */
#ifndef VG_OPENCL_PROXY_OUTPUT_H
#define VG_OPENCL_PROXY_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proxy_client;
struct proxy_output;

/* Makes the pipe for a client's process, whose end is *FD, which is the caller's. NULL, with errno.
 */
struct proxy_output *vg_output_new(int *fd);
void vg_output_free(struct proxy_output *output); /* NULL is fine */

/* Of the client's process: has all that it writes go to FD. */
bool vg_output_enter(int fd);

/* What is to be polled; -1: nothing now, for up to *MS, which becomes less. */
int vg_output_poll(const struct proxy_output *output, int64_t now, int *ms);

/* Takes what there is, or, once the process has ended, the rest. */
void vg_output_hear(const struct proxy_client *client, bool has_ended);

#endif
