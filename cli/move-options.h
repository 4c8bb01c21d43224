/* SPDX-License-Identifier: Apache-2.0
 *
 * The options --wait and --timeout, and what they do after a command has started a move.
 */
#ifndef VG_CLI_MOVE_OPTIONS_H
#define VG_CLI_MOVE_OPTIONS_H

#include <argp.h>
#include <stdbool.h>

#include "cli/follow.h"

struct vg_move_options {
    bool wait;
    double timeout_s; /* 0 if unlimited */
};

/* Child parser for argp; its input is a struct vg_move_options. */
extern const struct argp vg_move_options_argp;

/* waits: the command waits, so that --timeout is allowed. */
void vg_move_options_check(const struct vg_move_options *options, bool waits,
                           const struct argp_state *state);

/* With --wait, follows the move to its end; otherwise prints the command that follows it. Prints
 * the move in the selected format. Returns -1 if it did not end as intended. */
int vg_move_options_finish(const struct vg_move_options *options, vg_client *client,
                           vg_follow *follow, enum vg_migration_state wanted,
                           enum vg_output_format format, GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
