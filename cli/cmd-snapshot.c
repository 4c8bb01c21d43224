/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl snapshot: a recorded trace as one host of a placement.
 */
#include "config.h"

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/trace-args.h"

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = state->input;
    return 0;
}

static int
print_snapshot(struct vg_trace_args *args, vg_recording *take_recording, GError **err)
{
    const struct vg_analysis_options run = vg_trace_args_options(args, take_recording);
    struct vg_analysis *analysis = vg_analysis_run(take_recording, &run, err);
    int status = -1;

    if (!analysis)
        return -1;
    g_autoptr(vg_snapshot) snapshot = vg_trace_args_snapshot(args, analysis, err);
    if (snapshot) {
        g_autoptr(json_object) object = vg_snapshot_to_json(snapshot);
        g_autofree char *text = vg_json_to_text(object, true);
        status = vg_cli_print(text, err);
    }
    vg_trace_args_warn(analysis);
    vg_analysis_free(analysis);
    return status;
}

static int
snapshot(struct vg_trace_args *args, GError **err)
{
    g_autoptr(GPtrArray) recordings = vg_trace_args_open(args, err);

    if (!recordings)
        return -1;
    if (recordings->len != 1)
        return vg_error(err, VG_E_INVALID,
                        "a snapshot describes one host at one time, but these are %u recordings; "
                        "name one of them",
                        recordings->len);
    return print_snapshot(args, g_ptr_array_steal_index(recordings, 0), err);
}

int
vg_cmd_snapshot(int argc, char **argv)
{
    static const struct argp_child children[] = {{&vg_trace_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .parser = parse,
        .args_doc = "TRACE...",
        .doc = "Prints the snapshot of a recorded host as JSON, for `vgpuctl placement --state`.\v"
               "TRACE is what `vgpuctl analyze` takes.",
        .children = children,
    };
    struct vg_trace_args args;
    g_autoptr(GError) error = NULL;

    vg_trace_args_init(&args);
    argp_parse(&argp, argc, argv, 0, NULL, &args);
    snapshot(&args, &error);
    vg_trace_args_clear(&args);
    return error ? vg_cli_fail(error) : VG_EXIT_OK;
}
