/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl events: what happens on the host, as it happens.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/online-args.h"
#include "cli/printable.h"

enum { KEY_TYPES = 0x700, KEY_AFTER };

struct events_args {
    struct vg_online_args online;
    const char *types;
    const char *after;
    int64_t seen;
    GError *error; /* of printing */
};

static const struct argp_option options[] = {
    {"types", KEY_TYPES, "TYPE,...", 0, "only these: window, vm, collector, store, plan, ...", 1},
    {"after", KEY_AFTER, "ID", 0, "go on after the event with this id", 1},
    {0},
};

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    struct events_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->online;
        break;
    case KEY_TYPES:
        args->types = arg;
        break;
    case KEY_AFTER:
        args->after = arg;
        break;
    case ARGP_KEY_END:
        if (args->online.format == VG_OUTPUT_YAML || args->online.format == VG_OUTPUT_CSV)
            argp_error(state, "events come one by one: as lines of text, or with -o json of JSON");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* NULL: it is no object. */
static json_object *
event_data(const struct vg_client_event *event)
{
    json_object *data = vg_json_parse(event->data, strlen(event->data), SIZE_MAX, 16, NULL);

    if (data && !json_object_is_type(data, json_type_object))
        g_clear_pointer(&data, json_object_put);
    return data;
}

/* The object, with its id for --after, and of what type it is where only the stream says so. */
static char *
event_json(const struct vg_client_event *event)
{
    g_autoptr(json_object) data = event_data(event);

    if (!data)
        return g_strconcat(event->data, "\n", NULL);
    if (event->id)
        vg_json_add_string(data, "event_id", event->id);
    if (!vg_output_member(data, "type"))
        vg_json_add_string(data, "type", event->type);
    return vg_json_to_text(data, false);
}

/* "2026-11-20T18:40:00Z vm what=seen name=alpha"; wide: and its id. */
static char *
event_text(const struct vg_client_event *event, bool wide)
{
    static const char *const known[] = {"time", "type", "seq", NULL};
    g_autoptr(json_object) data = event_data(event);
    g_autoptr(GString) text = g_string_new(NULL);

    if (!data) {
        g_autofree char *line = vg_printable_text(event->data);
        return g_strdup_printf("%s %s\n", event->type, line);
    }
    json_object *time = vg_output_member(data, "time");
    g_string_append_printf(text, "%s %s", time ? json_object_get_string(time) : "-", event->type);
    json_object_object_foreach(data, name, value)
    {
        if (g_strv_contains(known, name) || !value)
            continue;
        g_string_append_printf(text, " %s=%s", name, json_object_get_string(value));
    }
    if (wide && event->id)
        g_string_append_printf(text, " event_id=%s", event->id);
    g_autofree char *line = vg_printable_text(text->str);
    return g_strconcat(line, "\n", NULL);
}

static bool
on_event(void *data, const struct vg_client_event *event)
{
    struct events_args *args = data;
    enum vg_output_format format = args->online.format;
    g_autofree char *text =
        format == VG_OUTPUT_JSON ? event_json(event) : event_text(event, format == VG_OUTPUT_WIDE);

    if (vg_cli_print(text, &args->error) < 0)
        return false;
    return ++args->seen != args->online.count;
}

static int
follow(struct events_args *args, GError **err)
{
    g_autoptr(vg_client) client = vg_client_new(&args->online.remote, err);
    g_autofree char *types = args->types ? g_uri_escape_string(args->types, ",", FALSE) : NULL;
    g_autofree char *path = g_strconcat("/v1/events", types ? "?types=" : NULL, types, NULL);

    if (!client || vg_client_stream(client, path, args->after, on_event, args, err) < 0)
        return -1;
    if (args->error) {
        g_propagate_error(err, g_steal_pointer(&args->error));
        return -1;
    }
    if (args->online.count > 0 && args->seen >= args->online.count)
        return 0;
    return vg_error(err, VG_E_UNREACHABLE, "vgpud ended the stream");
}

int
vg_cmd_events(int argc, char **argv)
{
    static const struct vg_online_verb verb = {0};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = "Prints what happens on the host, as it happens, until it is interrupted or has "
               "printed --count events.",
        .children = vg_online_children,
    };
    struct events_args args = {.online = {.verbs = &verb, .n_verbs = 1, .streams = true}};
    g_autoptr(GError) error = NULL;

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    follow(&args, &error);
    return error ? vg_cli_fail(error) : VG_EXIT_OK;
}
