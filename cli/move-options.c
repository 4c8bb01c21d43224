/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/move-options.h"

#include <stdio.h>

#include "base/printable.h"
#include "cli/cli.h"

enum { KEY_WAIT = 0xc00, KEY_TIMEOUT };

#define TIMEOUT_MIN_S 0.1
#define TIMEOUT_MAX_S 604800.0

static double
move_options_parse_timeout(const char *text, const struct argp_state *state)
{
    char *end;
    double seconds = g_ascii_strtod(text, &end);

    if (end == text || *end || !(seconds >= TIMEOUT_MIN_S && seconds <= TIMEOUT_MAX_S))
        vg_cli_usage(state, "--timeout must be from %g to %.0f seconds, not '%s'", TIMEOUT_MIN_S,
                     TIMEOUT_MAX_S, text);
    return seconds;
}

static error_t
move_options_parse(int key, char *arg, struct argp_state *state)
{
    struct vg_move_options *options = state->input;

    switch (key) {
    case KEY_WAIT:
        options->wait = true;
        break;
    case KEY_TIMEOUT:
        options->timeout_s = move_options_parse_timeout(arg, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_option move_options[] = {
    {"wait", KEY_WAIT, NULL, 0, "wait until the move has ended", 2},
    {"timeout", KEY_TIMEOUT, "SECONDS", 0,
     "maximum seconds to wait; the move continues after that (exit code 6)", 2},
    {0},
};
const struct argp vg_move_options_argp = {.options = move_options, .parser = move_options_parse};

void
vg_move_options_check(const struct vg_move_options *options, bool waits,
                      const struct argp_state *state)
{
    if (options->timeout_s > 0 && !waits)
        argp_error(state, "--timeout needs --wait");
}

static int
move_options_print(const vg_follow *follow, enum vg_output_format format, GError **err)
{
    const vg_migration *move = follow->move;
    g_autofree char *watch = vg_follow_command(follow, "watch");
    g_autofree char *abort = vg_follow_command(follow, "abort");
    g_autoptr(GString) text = g_string_new(NULL);

    if (vg_follow_stream(format) != stdout)
        return vg_follow_print(follow, format, err);
    vg_printable_append_line(text, "%s: %s from %s to %s", move->id, move->vm, move->from,
                             move->to);
    if (vg_migration_is_queued(move))
        vg_printable_append_line(text, "waits for %s", move->waits_for);
    vg_printable_append_line(text, "to watch it:      %s", watch);
    vg_printable_append_line(text, "to cancel it:     %s", abort);
    return vg_cli_print(text->str, err);
}

int
vg_move_options_finish(const struct vg_move_options *options, vg_client *client, vg_follow *follow,
                       enum vg_migration_state wanted, enum vg_output_format format, GError **err)
{
    FILE *to = vg_follow_stream(format);

    if (!options->wait)
        return move_options_print(follow, format, err);
    if (vg_follow_to_end(client, to, options->timeout_s, follow, err) < 0 ||
        vg_follow_print(follow, format, err) < 0)
        return -1;
    return vg_follow_result(follow, wanted, to, err);
}
