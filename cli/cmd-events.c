/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl events: shows events of the host as they happen.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/fold.h"
#include "cli/online-args.h"
#include "cli/when.h"
#include "model/happening.h"

enum { KEY_TYPES = 0x700, KEY_AFTER, KEY_VM };

/* The number of events per page of stored events. */
#define PAGE_MAX 1000

/* The indent of an event's continuation lines, which start below the text after the time. */
#define EVENT_INDENT 24

/* The interval of attempts to reconnect. */
#define RETRY_NS VG_NS_PER_S

struct events_args {
    struct vg_online_args online;
    struct vg_when_args when;
    const char *types; /* NULL for all types except windows */
    const char *after;
    const char *vm; /* a name or UUID, or NULL for all events */
    bool follow;
    char *wanted; /* event types for the API, separated by commas */
    char *at;     /* id of the last event that was received, or NULL */
    int64_t seen;
    GError *error; /* from printing */
};

static const struct argp_option options[] = {
    {"types", KEY_TYPES, "TYPE,...", 0,
     "event types: alert, collector, config, measuring, migration, plan, replay-end, store, vm, "
     "window, or all (default: all except window)",
     1},
    {"type", KEY_TYPES, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 1},
    {"vm", KEY_VM, "VM", 0, "only events about this VM, by its name or UUID", 1},
    {"since", VG_WHEN_SINCE, "TIME", 0, "events from this time until now; " VG_WHEN_HELP, 1},
    {"until", VG_WHEN_UNTIL, "TIME", 0, "only events before this time", 1},
    {"follow", 'f', NULL, 0, "with --since: continue with new events", 1},
    {"after", KEY_AFTER, "ID", 0,
     "start after the event with this id; 0 starts with the first stored event", 1},
    {0},
};

/* Returns whether a comma-separated list contains a word. */
static bool
events_list_has(const char *list, const char *word)
{
    g_auto(GStrv) words = g_strsplit(list, ",", -1);

    return g_strv_contains((const char *const *)words, word);
}

static char *
events_wanted_types(const struct events_args *args, const struct argp_state *state)
{
    bool all = args->types && strcmp(args->types, "all") == 0;
    g_autoptr(GString) list = g_string_new(NULL);

    if (args->types && !all) {
        g_auto(GStrv) words = g_strsplit(args->types, ",", -1);
        g_autofree char *known = vg_happening_list_types();
        for (size_t i = 0; words[i]; i++) {
            if (!vg_happening_type(words[i]))
                vg_cli_usage(state, "--types: '%s' is not an event type; the types are %s",
                             words[i], known);
        }
        if (!words[0])
            vg_cli_usage(state, "--types: specify at least one of %s", known);
        return g_strdup(args->types);
    }
    for (size_t i = 0; vg_happening_types[i]; i++) {
        if (all || strcmp(vg_happening_types[i], VG_HAPPENING_WINDOW) != 0)
            g_string_append_printf(list, "%s%s", list->len > 0 ? "," : "", vg_happening_types[i]);
    }
    return g_string_free(g_steal_pointer(&list), FALSE);
}

static void
events_check(struct events_args *args, const struct argp_state *state)
{
    bool past = vg_when_is_asked(&args->when);

    if (args->online.format == VG_OUTPUT_YAML || args->online.format == VG_OUTPUT_CSV)
        argp_error(state, "events are printed one per line, as text, or as JSON with -o json");
    if (past && args->after)
        argp_error(state, "--after already sets the start; leave out --since and --until");
    if (args->follow && args->when.until)
        argp_error(state, "--follow continues with new events; leave out --until");
    vg_when_check(&args->when, state);
    args->wanted = events_wanted_types(args, state);
    args->follow = args->follow || !past;
}

static error_t
cmd_events_parse(int key, char *arg, struct argp_state *state)
{
    struct events_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->online;
        break;
    case KEY_TYPES:
        args->types = arg;
        break;
    case KEY_VM:
        args->vm = arg;
        break;
    case KEY_AFTER:
        args->after = arg;
        break;
    case 'f':
        args->follow = true;
        break;
    case ARGP_KEY_END:
        events_check(args, state);
        break;
    default:
        return vg_when_take(&args->when, key, arg);
    }
    return 0;
}

/* Returns NULL if the data is not an object. */
static json_object *
event_data(const struct vg_client_event *event)
{
    json_object *data = vg_json_parse(event->data, strlen(event->data), SIZE_MAX, 16, NULL);

    if (data && !json_object_is_type(data, json_type_object))
        g_clear_pointer(&data, json_object_put);
    return data;
}

/* Returns whether an event concerns the requested VM. An event about missed events always does. */
static bool
event_is_wanted(const struct events_args *args, const struct vg_client_event *event)
{
    static const char *const members[] = {"vm", "display_name", NULL};
    g_autoptr(json_object) data = args->vm ? event_data(event) : NULL;

    if (!args->vm || strcmp(event->type, "gap") == 0)
        return true;
    for (size_t i = 0; members[i]; i++) {
        if (g_strcmp0(json_object_get_string(vg_output_member(data, members[i])), args->vm) == 0)
            return true;
    }
    const char *uuid = json_object_get_string(vg_output_member(data, "uuid"));
    const char *name = json_object_get_string(vg_output_member(data, "name"));
    return (uuid && g_ascii_strcasecmp(uuid, args->vm) == 0) ||
           (strcmp(event->type, "vm") == 0 && g_strcmp0(name, args->vm) == 0);
}

/* Returns the event's JSON, with its id for --after, and its type if only the stream has it. */
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

/* Returns the local time, "2026-11-20 18:40:00.123", or NULL if there is none. The caller frees
 * it. */
static char *
event_time(json_object *data)
{
    const char *text = json_object_get_string(vg_output_member(data, "time"));
    char local[VG_WHEN_LEN];
    struct vg_when when;

    /* The other machine's clock may be ahead, so future times are valid. */
    if (!text || vg_when_parse(text, INT64_MAX / 2, &when, NULL) < 0)
        return g_strdup(text);
    vg_when_format(when.ns, local);
    return g_strdup_printf("%.19s.%03d%s", local, (int)(when.ns / VG_NS_PER_MS % 1000),
                           local + strlen("2026-11-20 18:40:00"));
}

/* Returns "2026-11-20 18:40:00.123 vm what=seen name=alpha", with the event's id if `wide` is
 * set. */
static char *
event_text(const struct vg_client_event *event, bool wide)
{
    static const char *const known[] = {"time", "type", "seq", "event_id", NULL};
    g_autoptr(json_object) data = event_data(event);
    g_autoptr(GString) text = g_string_new(NULL);

    if (!data) {
        g_autofree char *line = vg_printable_text(event->data);
        return g_strdup_printf("%s %s\n", event->type, line);
    }
    g_autofree char *time = event_time(data);
    g_string_append_printf(text, "%s %s", time ? time : "-", event->type);
    json_object_object_foreach(data, name, value)
    {
        if (g_strv_contains(known, name) || !value)
            continue;
        if (strcmp(name, "since_ns") == 0 && json_object_is_type(value, json_type_int)) {
            char since[VG_WHEN_LEN];
            vg_when_format(json_object_get_int64(value), since);
            g_string_append_printf(text, " since=\"%s\"", since);
            continue;
        }
        g_string_append_printf(text, " %s=%s", name, json_object_get_string(value));
    }
    if (wide && event->id)
        g_string_append_printf(text, " event_id=%s", event->id);
    g_autofree char *line = vg_printable_text(text->str);
    GString *folded = g_string_new(NULL);
    vg_fold_append(folded, line, EVENT_INDENT, vg_fold_terminal());
    g_string_append_c(folded, '\n');
    return g_string_free(folded, FALSE);
}

static bool
events_are_enough(const struct events_args *args)
{
    return args->online.count > 0 && args->seen >= args->online.count;
}

static bool
cmd_events_on_event(void *data, const struct vg_client_event *event)
{
    struct events_args *args = data;
    enum vg_output_format format = args->online.format;
    char zone[VG_WHEN_LEN];

    if (event->id) {
        g_free(args->at);
        args->at = g_strdup(event->id);
    }
    if (!event_is_wanted(args, event))
        return true;
    g_autofree char *text =
        format == VG_OUTPUT_JSON ? event_json(event) : event_text(event, format == VG_OUTPUT_WIDE);

    /* Print this to stderr, as scripts read the lines on stdout. */
    if (format != VG_OUTPUT_JSON && args->seen == 0)
        fprintf(stderr, "vgpuctl: times are local: %s\n", vg_when_zone(zone));
    if (vg_cli_print(text, &args->error) < 0)
        return false;
    /* The reader of a pipe must get the event immediately. */
    fflush(stdout);
    args->seen++;
    return !events_are_enough(args);
}

/* ---- stored events ---- */

/* Prints the events of a page. */
static int
events_print_page(struct events_args *args, json_object *page, GError **err)
{
    json_object *items = vg_output_member(page, "items");

    for (size_t i = 0; i < vg_output_length(items) && !events_are_enough(args); i++) {
        json_object *item = json_object_array_get_idx(items, i);
        const char *type = json_object_get_string(vg_output_member(item, "type"));
        g_autofree char *text = vg_json_to_text(item, false);
        const struct vg_client_event event = {
            .id = json_object_get_string(vg_output_member(item, "event_id")),
            .type = type ? type : "-",
            .data = text,
        };
        (void)cmd_events_on_event(args, &event);
        if (args->error) {
            g_propagate_error(err, g_steal_pointer(&args->error));
            return -1;
        }
    }
    return 0;
}

/* Prints stored events, page by page, and sets args->at to the position for the stream. start is
 * the path of the first page. */
static int
events_print_stored(struct events_args *args, vg_client *client, const char *start, GError **err)
{
    static const char *const lists[] = {"items", NULL};
    g_autofree char *next = NULL;

    do {
        g_autoptr(GString) path = g_string_new(start);
        g_autoptr(json_object) page = NULL;
        g_string_append_printf(path, "%climit=%d", strchr(start, '?') ? '&' : '?', PAGE_MAX);
        vg_online_add_parameter(path, "types", args->wanted);
        vg_online_add_parameter(path, "from", next);
        if (vg_client_get(client, path->str, lists, &page, err) < 0 ||
            events_print_page(args, page, err) < 0)
            return -1;
        const char *at = json_object_get_string(vg_output_member(page, "at"));
        if (!at)
            return vg_error(err, VG_E_EXTERNAL,
                            "the answer does not contain the position of the next events");
        g_free(next);
        next = g_strdup(json_object_get_string(vg_output_member(page, "next")));
        g_free(args->at);
        args->at = g_strdup(at);
    } while (next && !events_are_enough(args));
    return 0;
}

/* Prints the events after the given id. If no events of that run are stored, the stream will report
 * a gap. */
static int
events_print_after(struct events_args *args, vg_client *client, const char *id, GError **err)
{
    g_autoptr(GString) path = g_string_new("/v1/events");
    g_autoptr(GError) error = NULL;

    vg_online_add_parameter(path, "from", id);
    if (events_print_stored(args, client, path->str, &error) == 0)
        return 0;
    if (!g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND) &&
        !g_error_matches(error, VG_ERROR, VG_E_INVALID)) {
        g_propagate_error(err, g_steal_pointer(&error));
        return -1;
    }
    g_free(args->at);
    args->at = g_strdup(id);
    return 0;
}

/* Prints the requested past events and sets args->at. Windows are not stored: if they are
 * requested, the stream sends those that it still has. */
static int
events_begin(struct events_args *args, vg_client *client, GError **err)
{
    g_autoptr(GString) path = g_string_new("/v1/events");

    if (args->after && strcmp(args->after, "0") != 0 &&
        events_list_has(args->wanted, VG_HAPPENING_WINDOW)) {
        args->at = g_strdup(args->after);
        return 0;
    }
    if (args->after && strcmp(args->after, "0") != 0)
        return events_print_after(args, client, args->after, err);
    if (!args->after && !args->when.since && !args->when.until) {
        /* Query only the current position. */
        g_string_append(path, "?until=0");
        return events_print_stored(args, client, path->str, err);
    }
    if (vg_when_add(path, &args->when, err) < 0)
        return -1;
    return events_print_stored(args, client, path->str, err);
}

/* ---- following ---- */

static void
events_report_return(const struct events_args *args, const char *before)
{
    const char *old = before ? strrchr(before, '-') : NULL;
    /* If windows are requested, the stream itself reports a restart. */
    bool same = !old || strncmp(before, args->at, (size_t)(old - before)) == 0;

    vg_cli_warn("vgpud is back%s; continuing after event %s", same ? "" : ", it was restarted",
                before);
}

/* Waits until vgpud answers again, and prints the events since then. */
static int
events_come_back(struct events_args *args, vg_client *client, GError **err)
{
    g_autofree char *before = g_strdup(args->at);
    g_autoptr(GError) error = NULL;

    while (true) {
        static const char *const no_lists[] = {NULL};
        g_usleep(RETRY_NS / VG_NS_PER_US);
        g_clear_error(&error);
        g_autoptr(json_object) version = NULL;
        if (vg_client_get(client, "/v1", no_lists, &version, &error) == 0)
            break;
        if (!g_error_matches(error, VG_ERROR, VG_E_UNREACHABLE) &&
            !g_error_matches(error, VG_ERROR, VG_E_BUSY) &&
            !g_error_matches(error, VG_ERROR, VG_E_TIMEOUT)) {
            g_propagate_error(err, g_steal_pointer(&error));
            return -1;
        }
    }
    if (events_list_has(args->wanted, VG_HAPPENING_WINDOW)) {
        events_report_return(args, before);
        return 0;
    }
    GError *failed = NULL;
    if (events_print_after(args, client, before, &failed) == 0) {
        events_report_return(args, before);
        return 0;
    }
    /* vgpud has stopped again. */
    if (g_error_matches(failed, VG_ERROR, VG_E_UNREACHABLE)) {
        g_error_free(failed);
        return 0;
    }
    g_propagate_error(err, failed);
    return -1;
}

static int
events_follow(struct events_args *args, vg_client *client, GError **err)
{
    g_autofree char *path = g_strconcat("/v1/events?types=", args->wanted, NULL);

    while (!events_are_enough(args)) {
        g_autoptr(GError) error = NULL;
        if (vg_client_stream(client, path, args->at, cmd_events_on_event, args, &error) < 0 &&
            !g_error_matches(error, VG_ERROR, VG_E_UNREACHABLE)) {
            g_propagate_error(err, g_steal_pointer(&error));
            return -1;
        }
        if (args->error) {
            g_propagate_error(err, g_steal_pointer(&args->error));
            return -1;
        }
        if (events_are_enough(args))
            break;
        vg_cli_warn("%s; waiting for vgpud to come back",
                    error ? error->message : "vgpud ended the stream");
        if (events_come_back(args, client, err) < 0)
            return -1;
    }
    return 0;
}

static int
events_run(struct events_args *args, GError **err)
{
    g_autoptr(vg_client) client = vg_client_new(&args->online.remote, err);

    if (!client || events_begin(args, client, err) < 0)
        return -1;
    if (args->online.format != VG_OUTPUT_JSON && args->seen == 0 && !args->follow)
        return vg_cli_print("no events are stored for that period\n", err);
    return args->follow ? events_follow(args, client, err) : 0;
}

int
vg_cmd_events(int argc, char **argv)
{
    static const struct vg_online_verb verb = {0};
    static const struct argp argp = {
        .options = options,
        .parser = cmd_events_parse,
        .doc = "Prints the host's events as they happen, until you press Ctrl-C or --count "
               "events have been printed. With --since, prints the events of a past period.",
        .children = vg_online_stream_children,
    };
    struct events_args args = {.online = {.verbs = &verb, .n_verbs = 1, .streams = true}};
    g_autoptr(GError) error = NULL;

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    events_run(&args, &error);
    g_free(args.wanted);
    g_free(args.at);
    return error ? vg_cli_fail(error) : VG_EXIT_OK;
}
