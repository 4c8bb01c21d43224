/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl snapshot: saves one host for a placement, from a recorded trace or the running vgpud.
 */
#include "config.h"

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/remote-args.h"
#include "cli/trace-args.h"
#include "client/client.h"

enum { KEY_PEERS = 0xb00 };

struct snapshot_args {
    struct vg_trace_args trace;
    bool peers;
    struct vg_remote_args remote;
};

/* Returns whether an option was given that applies only to recordings. */
static bool
asks_recording(const struct vg_trace_args *args)
{
    return args->has_begin || args->has_end || args->vm_map || args->host || args->config_path ||
           args->window_ns != VG_ANALYSIS_WINDOW_NS;
}

static error_t
cmd_snapshot_parse(int key, char *arg, struct argp_state *state)
{
    struct snapshot_args *args = state->input;

    (void)arg;
    switch (key) {
    case KEY_PEERS:
        args->peers = true;
        break;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->trace;
        state->child_inputs[1] = &args->remote;
        break;
    case ARGP_KEY_END:
        if (args->trace.paths->len > 0 && vg_remote_args_given(&args->remote))
            argp_error(state, "a TRACE needs no vgpud; --%s does not apply",
                       vg_remote_args_given(&args->remote));
        if (args->trace.paths->len > 0 && args->peers)
            argp_error(state, "a TRACE has no peers; --peers does not apply");
        if (args->trace.paths->len == 0 && asks_recording(&args->trace))
            argp_error(state, "options for recordings need a TRACE");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
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
    vg_trace_args_warn(args, analysis);
    vg_analysis_free(analysis);
    return status;
}

static int
print_live(const struct snapshot_args *args, GError **err)
{
    static const char *const lists[] = {"hosts", NULL};
    g_autoptr(vg_client) client = vg_client_new(&args->remote, err);
    const char *path = args->peers ? "/v1/snapshot?peers=true" : "/v1/snapshot";
    g_autoptr(json_object) document = NULL;

    if (!client || vg_client_get(client, path, lists, &document, err) < 0)
        return -1;
    g_autofree char *text = vg_json_to_text(document, true);
    return vg_cli_print(text, err);
}

static int
snapshot(struct vg_trace_args *args, GError **err)
{
    g_autoptr(GPtrArray) recordings = vg_trace_args_open(args, err);

    if (!recordings)
        return -1;
    if (recordings->len != 1)
        return vg_error(err, VG_E_INVALID,
                        "a snapshot describes one host at one time, but there are %u "
                        "recordings; specify one of them",
                        recordings->len);
    return print_snapshot(args, g_ptr_array_steal_index(recordings, 0), err);
}

int
vg_cmd_snapshot(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&vg_trace_argp, 0, NULL, 0},
        {&vg_remote_argp, 0, "Connection to vgpud, without TRACE:", 5},
        {0}};
    static const struct argp_option options[] = {
        {"peers", KEY_PEERS, NULL, 0, "include all known hosts", 4},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = cmd_snapshot_parse,
        .args_doc = "[TRACE...]",
        .doc = "Prints a snapshot of a recorded host, or the running vgpud's snapshot, as JSON "
               "for `vgpuctl placement --state`.\vTRACE is the same as for `vgpuctl analyze`.",
        .children = children,
    };
    struct snapshot_args args = {0};
    g_autoptr(GError) error = NULL;

    vg_trace_args_init(&args.trace);
    args.trace.may_be_none = true;
    argp_parse(&argp, argc, argv, 0, NULL, &args);
    if (args.trace.paths->len > 0)
        snapshot(&args.trace, &error);
    else
        print_live(&args, &error);
    vg_trace_args_clear(&args.trace);
    return error ? vg_cli_fail(error) : VG_EXIT_OK;
}
