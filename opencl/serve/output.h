/* SPDX-License-Identifier: Apache-2.0
 *
 * The text that a client's kernels print. Vendors' libraries write it to stdout of the client's
 * process. If the program's library accepts this text, stdout becomes a pipe, which a thread
 * empties, so that a vendor's thread never waits for the program. The text is sent before the next
 * message that the program waits for. Large amounts of text are sent earlier, as fast as the
 * program's side receives them. Up to VG_SERVE_OUTPUT_MAX bytes are stored until then; more are
 * dropped and counted.
 */
#ifndef VG_OPENCL_SERVE_OUTPUT_H
#define VG_OPENCL_SERVE_OUTPUT_H

#include "opencl/serve/serve.h"

#define VG_SERVE_OUTPUT_MAX (UINT32_C(4) << 20)

struct vg_serve_output;

/* Text to send. */
struct vg_serve_text {
    unsigned char *bytes; /* owned; NULL if SIZE is 0 */
    size_t size;
    uint64_t dropped; /* bytes that were dropped since the last text */
};

/* Records whether the program's library accepts the text. */
void vg_serve_output_allow(struct vg_serve *serve, bool takes_output);

/* Call before CALL is executed. If CALL makes the first program whose kernels may print, redirects
 * stdout and returns what takes the text. Otherwise returns NULL. One thread. */
struct vg_serve_output *vg_serve_output_begin(const struct vg_serve_call *call);

/* Waits until enough text has accumulated to send it. */
void vg_serve_output_await(struct vg_serve_output *output);

/* Takes the text that has been printed until now. Returns false if there is nothing. OUTPUT may be
 * NULL. Any thread. */
bool vg_serve_output_take(struct vg_serve_output *output, struct vg_serve_text *text);

#endif
