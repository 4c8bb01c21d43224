/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/online-args.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cli.h"

#define WATCH_S     2.0
#define WATCH_MIN_S 0.1
#define WATCH_MAX_S 86400.0

/* Cursor to the corner, and everything below away. */
#define CLEAR_SCREEN "\033[H\033[J"

enum { KEY_SOCKET = 0x500, KEY_WATCH };

static const struct argp_option options[] = {
    {"socket", KEY_SOCKET, "PATH", 0,
     "where vgpud listens (default: $" VG_CLIENT_ENV " or " VG_CLIENT_SOCKET ")", 3},
    {"output", 'o', "FORMAT", 0, "table (default), wide, json, yaml or csv", 3},
    {"watch", KEY_WATCH, "SECONDS", OPTION_ARG_OPTIONAL, "look again every 2 (or SECONDS) seconds",
     3},
    {"count", 'n', "N", 0, "with --watch: so many times", 3},
    {0},
};

static double
parse_seconds(const char *text, struct argp_state *state)
{
    char *end;
    double seconds = g_ascii_strtod(text, &end);

    if (end == text || *end || !(seconds >= WATCH_MIN_S && seconds <= WATCH_MAX_S))
        vg_cli_usage(state, "--watch wants %g to %g seconds, not '%s'", WATCH_MIN_S, WATCH_MAX_S,
                     text);
    return seconds;
}

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    struct vg_online_args *args = state->input;
    g_autoptr(GError) error = NULL;

    switch (key) {
    case KEY_SOCKET:
        args->socket = arg;
        break;
    case 'o':
        if (vg_output_format_from_name(arg, &args->format, &error) < 0)
            vg_cli_usage(state, "%s", error->message);
        break;
    case KEY_WATCH:
        if (!args->can_watch)
            argp_error(state, "--watch means nothing here");
        args->watch_s = arg ? parse_seconds(arg, state) : WATCH_S;
        break;
    case 'n':
        if (!g_ascii_string_to_signed(arg, 10, 1, INT64_MAX, &args->count, NULL))
            vg_cli_usage(state, "--count wants a number from 1, not '%s'", arg);
        break;
    case ARGP_KEY_END:
        if (args->count > 0 && !(args->watch_s > 0) && !args->streams)
            argp_error(state, "--count goes with --watch");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

const struct argp vg_online_argp = {.options = options, .parser = parse};

static void
wait_for(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds};

    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

int
vg_online_run(const struct vg_online_args *args,
              int (*show)(void *data, vg_client *client, GError **err), void *data)
{
    g_autoptr(vg_client) client = vg_client_new(args->socket);
    bool clear = args->watch_s > 0 && isatty(STDOUT_FILENO) &&
                 (args->format == VG_OUTPUT_TABLE || args->format == VG_OUTPUT_WIDE);
    g_autoptr(GError) error = NULL;

    for (int64_t n = 1;; n++) {
        if (clear && vg_cli_print(CLEAR_SCREEN, &error) < 0)
            break;
        if (show(data, client, &error) < 0 || vg_cli_print("", &error) < 0)
            break;
        if (!(args->watch_s > 0) || n == args->count)
            return VG_EXIT_OK;
        wait_for(args->watch_s);
    }
    return vg_cli_fail(error);
}

json_object *
vg_online_rows(json_object *items)
{
    json_object *rows = NULL;

    if (json_object_deep_copy(items, &rows, NULL) < 0)
        vg_bug("a JSON document cannot be copied");
    return rows;
}
