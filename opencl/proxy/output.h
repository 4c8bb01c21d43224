/* SPDX-License-Identifier: Apache-2.0
 *
 * Output of clients' processes on stdout and stderr: messages of the library and of vendors'
 * compilers, and the text that kernels print, which the program controls. It arrives through a
 * pipe and is written to the proxy's log line by line, prefixed with the client's name, without
 * control characters, and within the socket's rate limit. Excess lines are dropped and counted.
 * Used by one thread.
 */
#ifndef VG_OPENCL_PROXY_OUTPUT_H
#define VG_OPENCL_PROXY_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proxy_client;
struct proxy_output;

/* Creates the pipe for a client's process and stores the write end in *FD, which the caller owns.
 * Returns NULL with errno on failure. */
struct proxy_output *vg_output_new(int *fd);
void vg_output_free(struct proxy_output *output); /* NULL is fine */

/* Called in the client's process: redirects its output to FD. */
bool vg_output_enter(int fd);

/* Returns the descriptor to poll. Returns -1 if the pipe is closed, or if the rate limit postpones
 * reading; *MS is then reduced to the remaining time. */
int vg_output_poll(const struct proxy_output *output, int64_t now, int *ms);

/* Reads what is available or, once the process has ended, the rest. */
void vg_output_hear(const struct proxy_client *client, bool has_ended);

#endif
