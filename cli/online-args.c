/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/online-args.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/nearest.h"
#include "cli/remote-args.h"

#define WATCH_MIN_S 0.1
#define WATCH_MAX_S 86400.0

/* Moves the cursor to the corner, and clears everything below. */
#define CLEAR_SCREEN "\033[H\033[J"

#define SCREEN_BYTES 65536

#define VERBS_MAX 16
#define NAMES_MAX 5 /* the maximum number of names in a message */

enum { KEY_WATCH = 0x500, KEY_NO_HEADERS };

/* The options of tables. flags hide and refuse options that do not apply to a command. */
#define TABLE_OPTIONS(flags)                                                                       \
 {"output", 'o', "FORMAT", flags, "table (default), wide, name, json, yaml or csv", 3},            \
     {"columns",                                                                                   \
      'c',                                                                                         \
      "LIST",                                                                                      \
      flags,                                                                                       \
      "show only these columns: a comma-separated list of headings or JSON members",               \
      3},                                                                                          \
 {                                                                                                 \
  "no-headers", KEY_NO_HEADERS, NULL, flags, "omit headings and titles", 3                         \
 }
#define WATCH_OPTION(flags)                                                                        \
 {                                                                                                 \
  "watch", KEY_WATCH, "SECONDS", OPTION_ARG_OPTIONAL | (flags),                                    \
      "repeat the command every SECONDS (default: 2)", 3                                           \
 }
#define COUNT_OPTION(flags, help)                                                                  \
 {                                                                                                 \
  "count", 'n', "N", flags, help, 3                                                                \
 }

static const struct argp_option options[] = {
    TABLE_OPTIONS(0), WATCH_OPTION(0), COUNT_OPTION(0, "with --watch: stop after N updates"), {0}};
static const struct argp_option options_once[] = {
    TABLE_OPTIONS(0), WATCH_OPTION(OPTION_HIDDEN), COUNT_OPTION(OPTION_HIDDEN, NULL), {0}};
static const struct argp_option options_stream[] = {
    TABLE_OPTIONS(0), WATCH_OPTION(OPTION_HIDDEN), COUNT_OPTION(0, "stop after N events"), {0}};
static const struct argp_option options_silent[] = {TABLE_OPTIONS(OPTION_HIDDEN),
                                                    WATCH_OPTION(OPTION_HIDDEN),
                                                    COUNT_OPTION(OPTION_HIDDEN, NULL),
                                                    {0}};

static double
parse_seconds(const char *text, struct argp_state *state)
{
    char *end;
    double seconds = g_ascii_strtod(text, &end);

    if (end == text || *end || !(seconds >= WATCH_MIN_S && seconds <= WATCH_MAX_S))
        vg_cli_usage(state, "--watch must be from %g to %g seconds, not '%s'", WATCH_MIN_S,
                     WATCH_MAX_S, text);
    return seconds;
}

static bool
takes_verb(const struct vg_online_args *args)
{
    return args->verbs[0].name != NULL;
}

static const char *
online_nearest_verb(const struct vg_online_args *args, const char *arg)
{
    const char *names[VERBS_MAX];
    size_t n = MIN(args->n_verbs, VERBS_MAX);

    for (size_t i = 0; i < n; i++)
        names[i] = args->verbs[i].name;
    return vg_nearest(arg, names, n);
}

static void
refuse_verb(const struct vg_online_args *args, const char *arg, const struct argp_state *state)
{
    g_autoptr(GString) names = g_string_new(NULL);

    for (size_t i = 0; i < args->n_verbs; i++)
        g_string_append_printf(names, "%s%s", i > 0 ? ", " : "", args->verbs[i].name);
    if (arg) {
        const char *near = online_nearest_verb(args, arg);
        g_autofree char *hint =
            near ? g_strdup_printf(" (did you mean `%s`?)", near) : g_strdup("");
        vg_cli_usage(state, "`%s` is not a command here%s; the commands are: %s", arg, hint,
                     names->str);
    }
    vg_cli_usage(state, "specify a command: %s", names->str);
}

static void
parse_verb(struct vg_online_args *args, const char *arg, const struct argp_state *state)
{
    for (size_t i = 0; i < args->n_verbs; i++) {
        if (strcmp(args->verbs[i].name, arg) == 0)
            args->verb = &args->verbs[i];
    }
    if (!args->verb)
        refuse_verb(args, arg, state);
}

static void
parse_argument(struct vg_online_args *args, const char *arg, const struct argp_state *state)
{
    if (!arg[0])
        vg_cli_usage(state, "an argument is empty");
    if (!args->verb && takes_verb(args)) {
        parse_verb(args, arg, state);
        return;
    }
    const struct vg_online_verb *verb = takes_verb(args) ? args->verb : &args->verbs[0];
    if (args->object || verb->object == VG_OBJECT_NONE)
        vg_cli_usage(state, "unexpected argument '%s'", arg);
    args->object = arg;
}

static void
check_arguments(struct vg_online_args *args, const struct argp_state *state)
{
    /* The default verb is the first one that needs no name: `vgpuctl vm` is `vgpuctl vm list`. */
    for (size_t i = 0; i < args->n_verbs && !args->verb; i++) {
        if (!takes_verb(args) || args->verbs[i].object < VG_OBJECT_REQUIRED)
            args->verb = &args->verbs[i];
    }
    if (!args->verb)
        refuse_verb(args, NULL, state);
    if (args->verb->object >= VG_OBJECT_REQUIRED && !args->object)
        vg_cli_usage(state, "%s", args->verb->object_hint);
    if (args->count > 0 && !(args->watch_s > 0) && !args->streams)
        argp_error(state, "--count needs --watch");
}

static void
online_refuse_output(const struct vg_online_args *args, const struct argp_state *state,
                     const char *option)
{
    if (args->silent)
        argp_error(state, "%s does not apply to this command", option);
}

static error_t
online_args_parse(int key, char *arg, struct argp_state *state)
{
    struct vg_online_args *args = state->input;
    g_autoptr(GError) error = NULL;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->remote;
        break;
    case 'o':
        online_refuse_output(args, state, "--output");
        if (vg_output_format_from_name(arg, &args->format, &error) < 0)
            vg_cli_usage(state, "%s", error->message);
        break;
    case 'c':
        online_refuse_output(args, state, "--columns");
        vg_output_set_columns(arg);
        break;
    case KEY_NO_HEADERS:
        online_refuse_output(args, state, "--no-headers");
        vg_output_set_no_headers();
        break;
    case KEY_WATCH:
        if (!args->can_watch)
            argp_error(state, "--watch does not apply to this command");
        args->watch_s = arg ? parse_seconds(arg, state) : VG_WATCH_S;
        break;
    case 'n':
        if (!g_ascii_string_to_signed(arg, 10, 1, INT64_MAX, &args->count, NULL))
            vg_cli_usage(state, "--count must be a number of at least 1, not '%s'", arg);
        break;
    case ARGP_KEY_ARG:
        parse_argument(args, arg, state);
        break;
    case ARGP_KEY_END:
        check_arguments(args, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child remote_children[] = {{&vg_remote_argp, 0, "Connection to vgpud:", 5},
                                                    {0}};
const struct argp vg_online_argp = {
    .options = options, .parser = online_args_parse, .children = remote_children};
const struct argp_child vg_online_children[] = {{&vg_online_argp, 0, NULL, 0}, {0}};

const struct argp vg_online_once_argp = {
    .options = options_once, .parser = online_args_parse, .children = remote_children};
const struct argp_child vg_online_once_children[] = {{&vg_online_once_argp, 0, NULL, 0}, {0}};

static const struct argp online_stream_argp = {
    .options = options_stream, .parser = online_args_parse, .children = remote_children};
const struct argp_child vg_online_stream_children[] = {{&online_stream_argp, 0, NULL, 0}, {0}};

static const struct argp online_silent_argp = {
    .options = options_silent, .parser = online_args_parse, .children = remote_children};
const struct argp_child vg_online_silent_children[] = {{&online_silent_argp, 0, NULL, 0}, {0}};

error_t
vg_online_parse_children(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = state->input;
    return 0;
}

static void
wait_for(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds};

    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

/* Repeated queries continue after a restart of vgpud. */
static bool
may_pass(const GError *error)
{
    return g_error_matches(error, VG_ERROR, VG_E_UNREACHABLE) ||
           g_error_matches(error, VG_ERROR, VG_E_BUSY) ||
           g_error_matches(error, VG_ERROR, VG_E_TIMEOUT);
}

/* ---- incomplete names ---- */

/* Returns the name or id of an item that starts with a text, or NULL. It is borrowed. */
static const char *
online_find_beginning(json_object *item, const char *text)
{
    static const char *const members[] = {"name", "uuid", "id"};

    for (size_t i = 0; i < G_N_ELEMENTS(members); i++) {
        const char *value = json_object_get_string(vg_output_member(item, members[i]));
        if (value && g_ascii_strncasecmp(value, text, strlen(text)) == 0)
            return value;
    }
    /* In OpenStack, several VMs may have the same name. */
    const char *called = json_object_get_string(vg_output_member(item, "openstack.name"));
    if (called && g_str_has_prefix(called, text))
        return json_object_get_string(vg_output_member(item, "name"));
    return NULL;
}

/* Completes args->object. Returns true if exactly one name starts with it. Otherwise, it is
 * unchanged, and details may be added to *err, which reports that it was not found. */
static bool
online_complete(struct vg_online_args *args, vg_client *client, GError **err)
{
    g_autoptr(json_object) items = NULL;
    g_autoptr(GString) others = g_string_new(NULL);
    const char *only = NULL;
    size_t n = 0;

    if (args->verb->object != VG_OBJECT_BEGINNING || !args->object[0] ||
        vg_client_list(client, args->list, &items, NULL) < 0)
        return false;
    for (size_t i = 0; i < json_object_array_length(items); i++) {
        const char *found =
            online_find_beginning(json_object_array_get_idx(items, i), args->object);
        if (!found)
            continue;
        only = found;
        if (n++ < NAMES_MAX)
            g_string_append_printf(others, "%s%s", n > 1 ? ", " : "", found);
    }
    if (n > 1) {
        g_clear_error(err);
        vg_error(err, VG_E_CONFLICT, "'%s' matches %zu: %s%s", args->object, n, others->str,
                 n > NAMES_MAX ? ", ..." : "");
    }
    if (n != 1)
        return false;
    args->whole = g_strdup(only);
    args->object = args->whole;
    return true;
}

static int
online_show(struct vg_online_args *args, vg_client *client, void *data, GError **err)
{
    GError *error = NULL;

    if (args->verb->show(data, client, &error) == 0)
        return 0;
    if (!args->whole && g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND) &&
        online_complete(args, client, &error)) {
        g_clear_error(&error);
        return args->verb->show(data, client, err);
    }
    g_propagate_error(err, error);
    return -1;
}

static int
online_run(struct vg_online_args *args, void *data)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(vg_client) client = vg_client_new(&args->remote, &error);
    bool clear = args->watch_s > 0 && isatty(STDOUT_FILENO) &&
                 (args->format == VG_OUTPUT_TABLE || args->format == VG_OUTPUT_WIDE);
    int64_t shown = 0;

    if (!client)
        return vg_cli_fail(error);

    /* Write each screen in one piece. */
    if (clear)
        setvbuf(stdout, NULL, _IOFBF, SCREEN_BYTES);
    while (true) {
        if (clear)
            fputs(CLEAR_SCREEN, stdout);
        if (online_show(args, client, data, &error) == 0) {
            if (vg_cli_print("", &error) < 0)
                break;
            if (!(args->watch_s > 0) || ++shown == args->count)
                return VG_EXIT_OK;
        } else if (shown > 0 && may_pass(error)) {
            vg_cli_fail(error);
            g_clear_error(&error);
        } else {
            break;
        }
        wait_for(args->watch_s);
    }
    return vg_cli_fail(error);
}

int
vg_online_run(struct vg_online_args *args, void *data)
{
    const int code = online_run(args, data);

    if (args->whole)
        args->object = NULL;
    g_clear_pointer(&args->whole, g_free);
    return code;
}

json_object *
vg_online_rows(json_object *items)
{
    json_object *rows = NULL;

    if (!json_object_is_type(items, json_type_array))
        return json_object_new_array();
    if (json_object_deep_copy(items, &rows, NULL) < 0)
        vg_bug("cannot copy a JSON document");
    return rows;
}

void
vg_online_add_time(json_object *row, const char *name, const char *of)
{
    json_object *time = vg_output_member(row, of);
    char text[VG_UTC_LEN];

    if (json_object_is_type(time, json_type_int))
        vg_json_add_string(
            row, name,
            vg_utc_format(json_object_get_int64(time) / VG_NS_PER_S * VG_NS_PER_S, text));
}

void
vg_online_add_parameter(GString *path, const char *name, const char *value)
{
    if (!value)
        return;
    g_autofree char *escaped = g_uri_escape_string(value, NULL, FALSE);
    g_string_append_printf(path, "%c%s=%s", strchr(path->str, '?') ? '&' : '?', name, escaped);
}
