/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl preemptions: shows which VMs and processes preempt each other.
 */
#include "config.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <langinfo.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/matrix.h"
#include "cli/online-args.h"
#include "cli/past.h"

enum { KEY_MATRIX = 0x700, KEY_LIMIT };

#define LIMIT_MAX 10000

/* The width if the output is not a terminal, unless -o wide is given, and the number of screen
 * lines outside the matrix: the title, the headers, and the cursor's line. */
#define PIPE_WIDTH  80
#define OTHER_LINES 3

struct preemption_args {
    struct vg_online_args online;
    struct vg_when_args when;
    bool matrix;
    int64_t limit; /* 0 for all */
    enum vg_matrix_of of;
};

static const struct vg_column list_columns[] = {
    {"VM", "victim.name", VG_CELL_NAME, false},
    {"VM ID", "victim.id", VG_CELL_TEXT, true},
    {"LOST CPU TO", "aggressor", VG_CELL_NAME, false},
    {"SECONDS", "ns", VG_CELL_SECONDS, false},
    {"PREEMPTIONS", "count", VG_CELL_COUNT, false},
    {"cores NOW", "newest.share", VG_CELL_SHARE, false},
    {"/s NOW", "newest.count_per_s", VG_CELL_SHARE, false},
    {"MOSTLY", "mostly", VG_CELL_TEXT, false},
    {"cores MEAN", "share", VG_CELL_SHARE, true},
    {"/s MEAN", "count_per_s", VG_CELL_SHARE, true},
};

static int
print_matrix(const struct preemption_args *args, json_object *items, GError **err)
{
    static const char *const titles[] = {
        [VG_MATRIX_TIME] = "CPU time lost now, in ms per second: rows lose it, columns take it",
        [VG_MATRIX_COUNT] = "Preemptions per second now: rows are preempted, columns run instead",
    };
    bool all = args->online.format == VG_OUTPUT_WIDE;
    bool watches = args->online.watch_s > 0;
    struct winsize size = {0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        size = (struct winsize){0};
    const int width = all ? 0 : size.ws_col > 0 ? size.ws_col : PIPE_WIDTH;
    int n_rows = watches && !all && size.ws_row > 0 ? MAX(size.ws_row - OTHER_LINES, 1) : 0;
    g_autoptr(vg_matrix) matrix =
        vg_matrix_new(items, args->of, width, n_rows, strcmp(nl_langinfo(CODESET), "UTF-8") == 0);
    const struct vg_table table = {vg_output_length(matrix->rows) > 0 ? titles[args->of] : NULL,
                                   matrix->rows,
                                   (const struct vg_column *)(const void *)matrix->columns->data,
                                   matrix->columns->len, "no VM waited for a CPU"};
    return vg_output_print(args->online.format, items, &table, 1, err);
}

/* Adds the process behind host:user that took most CPU time now, or otherwise since vgpud
 * started. */
static void
add_mostly(json_object *rows)
{
    static const char *const members[] = {"newest.processes", "processes"};

    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        const char *name = NULL;
        for (size_t m = 0; m < G_N_ELEMENTS(members) && !name; m++) {
            json_object *processes = vg_output_member(row, members[m]);
            if (vg_output_length(processes) > 0)
                name = json_object_get_string(
                    vg_output_member(json_object_array_get_idx(processes, 0), "comm"));
        }
        vg_json_add_string(row, "mostly", name);
    }
}

static int
show(void *data, vg_client *client, GError **err)
{
    const struct preemption_args *args = data;
    const char *object = args->online.object;
    g_autofree char *vm = object ? g_uri_escape_string(object, NULL, FALSE) : NULL;
    /* Request all rows together if possible, as their order changes. */
    const int64_t limit = args->limit > 0 ? args->limit : LIMIT_MAX;
    g_autofree char *path = g_strdup_printf("/v1/preemptions?limit=%" G_GINT64_FORMAT "%s%s", limit,
                                            vm ? "&vm=" : "", vm ? vm : "");
    g_autoptr(json_object) items = NULL;

    if (vg_when_is_asked(&args->when))
        return vg_past_show_preemptions(&args->online, &args->when, object, args->limit, client,
                                        err);
    if (vg_client_list_some(client, path, args->limit > 0 ? (size_t)args->limit : SIZE_MAX, &items,
                            err) < 0)
        return -1;
    if (args->matrix)
        return print_matrix(args, items, err);
    g_autoptr(json_object) rows = vg_online_rows(items);
    add_mostly(rows);
    const struct vg_table table = {NULL, rows, list_columns, G_N_ELEMENTS(list_columns),
                                   "no VM waited for a CPU"};
    return vg_output_print(args->online.format, items, &table, 1, err);
}

static void
cmd_preemptions_check(struct preemption_args *args, const struct argp_state *state)
{
    enum vg_output_format format = args->online.format;

    if (args->matrix && format != VG_OUTPUT_TABLE && format != VG_OUTPUT_WIDE)
        argp_error(state, "--matrix is valid only for tables; the other formats contain an item "
                          "for each pair");
    if (args->matrix && vg_when_is_asked(&args->when))
        argp_error(state, "--matrix shows only current figures; leave out --since and --until");
    vg_when_check(&args->when, state);
    args->matrix = args->matrix || (args->online.watch_s > 0 && format == VG_OUTPUT_TABLE);
    if (args->matrix && args->limit > 0)
        argp_error(state, "--limit applies to lists, not to a matrix");
}

static error_t
cmd_preemptions_parse(int key, char *arg, struct argp_state *state)
{
    struct preemption_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->online;
        break;
    case KEY_MATRIX:
        if (arg && strcmp(arg, "time") != 0 && strcmp(arg, "count") != 0)
            vg_cli_usage(state, "--matrix must be time or count, not '%s'", arg);
        args->matrix = true;
        args->of = arg && strcmp(arg, "count") == 0 ? VG_MATRIX_COUNT : VG_MATRIX_TIME;
        break;
    case KEY_LIMIT:
        if (!g_ascii_string_to_signed(arg, 10, 1, LIMIT_MAX, &args->limit, NULL))
            vg_cli_usage(state, "--limit must be a number from 1 to %d, not '%s'", LIMIT_MAX, arg);
        break;
    case ARGP_KEY_SUCCESS:
        cmd_preemptions_check(args, state);
        break;
    default:
        return vg_when_take(&args->when, key, arg);
    }
    return 0;
}

int
vg_cmd_preemptions(int argc, char **argv)
{
    static const struct vg_online_verb verb = {NULL, VG_OBJECT_OPTIONAL, NULL, show};
    static const struct argp_option options[] = {
        {"matrix", KEY_MATRIX, "OF", OPTION_ARG_OPTIONAL,
         "show current preemptions as a matrix, by time (ms/s, default) or by count (/s); "
         "--watch always shows a matrix",
         1},
        {"limit", KEY_LIMIT, "N", 0, "only the N rows with the largest losses", 1},
        {"since", VG_WHEN_SINCE, "TIME", 0, "start of a past period; " VG_WHEN_HELP, 2},
        {"until", VG_WHEN_UNTIL, "TIME", 0, "end of the period (default: now)", 2},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = cmd_preemptions_parse,
        .args_doc = "[VM]",
        .doc = "Shows which VMs and programs took CPU time from which VMs, since vgpud started or "
               "in a past period; with VM, from this VM only.",
        .children = vg_online_children,
    };
    struct preemption_args args = {.online = {.verbs = &verb, .n_verbs = 1, .can_watch = true}};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    return vg_online_run(&args.online, &args);
}
