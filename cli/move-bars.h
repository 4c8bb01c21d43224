/* SPDX-License-Identifier: Apache-2.0
 *
 * Displays the progress of a VM move: a bar for each step on a terminal, otherwise a line for each
 * finished step.
 */
#ifndef VG_CLI_MOVE_BARS_H
#define VG_CLI_MOVE_BARS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "model/migration.h"

struct vg_move_bars {
    FILE *to;
    bool drawn;       /* the output is a terminal */
    int live;         /* lines on the screen that will be redrawn */
    bool began;       /* the heading was printed */
    bool goes_back;   /* the line about the rollback was printed */
    bool waits;       /* the line about waiting was printed */
    guint told;       /* steps printed */
    int64_t began_ns; /* CLOCK_MONOTONIC, of the current step */
    guint running;    /* number of the current step, from 1; 0 if none */
};

void vg_move_bars_init(struct vg_move_bars *bars, FILE *to);

/* Displays the latest state of the move. On a terminal, call it ten times a second to show elapsed
 * time. trouble: why no newer state is available, or NULL. */
void vg_move_bars_show(struct vg_move_bars *bars, const vg_migration *move, const char *trouble);

/* Finishes, leaving the displayed lines on the screen. */
void vg_move_bars_end(struct vg_move_bars *bars);

/* Returns the number of columns of `to`, or 80 if it is not a terminal. */
int vg_move_bars_width(FILE *to);

#endif
