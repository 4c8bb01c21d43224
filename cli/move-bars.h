/* SPDX-License-Identifier: Apache-2.0
 *
 * A move of a VM as it goes on: on a terminal a bar for each step, elsewhere a line for each step
 * that has ended.
 */
#ifndef VG_CLI_MOVE_BARS_H
#define VG_CLI_MOVE_BARS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "model/migration.h"

struct vg_move_bars {
    FILE *to;
    bool drawn;       /* it is a terminal */
    int live;         /* lines on the screen that will be drawn again */
    bool began;       /* the head is told */
    bool goes_back;   /* that is told */
    bool waits;       /* that is told, too */
    guint told;       /* steps */
    int64_t began_ns; /* CLOCK_MONOTONIC, of the step that runs */
    guint running;    /* its number from 1; 0: none */
};

void vg_move_bars_init(struct vg_move_bars *bars, FILE *to);

/* The newest that is known of the move; on a terminal to be called ten times a second, so that it
 * is seen that time goes by. trouble: why nothing newer is known, or NULL. */
void vg_move_bars_show(struct vg_move_bars *bars, const vg_migration *move, const char *trouble);

/* Leaves what is on the screen there. */
void vg_move_bars_end(struct vg_move_bars *bars);

/* How many columns `to` has; 80 if it is no terminal. */
int vg_move_bars_width(FILE *to);

#endif
