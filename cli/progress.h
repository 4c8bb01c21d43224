/* SPDX-License-Identifier: Apache-2.0
 *
 * A progress line on stderr for work that takes a while. Prints nothing unless stderr is a
 * terminal.
 */
#ifndef VG_CLI_PROGRESS_H
#define VG_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct vg_progress {
    bool shown; /* stderr is a terminal and progress is wanted */
    bool drawn; /* a line is on the screen */
    const char *label;
    int64_t started_ns; /* CLOCK_MONOTONIC */
    int64_t drawn_ns;
};

void vg_progress_init(struct vg_progress *progress, const char *label, bool wanted);

/* done is 0..1. Draws at most ten times a second, and nothing in the first half second. */
void vg_progress_update(struct vg_progress *progress, double done);

/* Clears the line. */
void vg_progress_end(struct vg_progress *progress);

#endif
