/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl explain: explains a word in the output, or why a VM is better off on its host.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/explain-vm.h"
#include "cli/glossary.h"
#include "cli/state-args.h"
#include "model/figures.h"

struct explain_args {
    struct vg_state_args state;
    const char *what; /* NULL to list all words */
};

static error_t
cmd_explain_parse(int key, char *arg, struct argp_state *state)
{
    struct explain_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->state;
        break;
    case ARGP_KEY_ARG:
        if (args->what)
            argp_error(state, "specify one VM or one term");
        args->what = arg;
        break;
    case ARGP_KEY_END:
        if (args->state.paths->len > 0 && !args->what)
            argp_error(state, "specify the VM to explain");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct vg_column columns[] = {
    {"WORD", "word", VG_CELL_TEXT, false},
    {"MEANING", "meaning", VG_CELL_TEXT, false},
};

/* Returns a heading without its unit: "lost" for "LOST cores". The caller frees it. */
static char *
explain_heading(const char *text)
{
    static const char *const units[] = {" (utc)", " s/s", " /s",  "/s",   " s",
                                        " ms",    " %",   " mib", " gib", " cores"};
    char *heading = g_ascii_strdown(text, -1);

    for (size_t i = 0; i < G_N_ELEMENTS(units); i++) {
        const size_t length = strlen(heading), unit = strlen(units[i]);
        if (length > unit && g_str_has_suffix(heading, units[i])) {
            heading[length - unit] = '\0';
            break;
        }
    }
    return heading;
}

/* The requested word, and the same as a heading without its unit. Both are NULL for all words. */
struct question {
    const char *what;
    char *heading;
};

/* Adds a word if it matches the request. */
static void
explain_add(json_object *words, const struct question *question, const char *word,
            const char *meaning)
{
    if (question->what && strcmp(question->heading, word) != 0 &&
        g_ascii_strcasecmp(question->what, word) != 0)
        return;
    json_object *object = json_object_new_object();
    vg_json_add_string(object, "word", word);
    vg_json_add_string(object, "meaning", meaning);
    vg_json_append(words, object);
}

static void
explain_add_figures(json_object *words, const struct question *question,
                    const struct vg_figure *figures, size_t n)
{
    for (const struct vg_figure *at = figures; at < figures + n; at++) {
        if (at->meaning)
            explain_add(words, question, at->name, at->meaning);
    }
    for (const struct vg_figure *at = figures; at < figures + n; at++) {
        g_autofree char *heading = explain_heading(at->heading ? at->heading : at->name);
        if (at->in_tables || strcmp(heading, at->name) != 0)
            explain_add(words, question, heading, at->in_tables ? at->in_tables : at->meaning);
    }
}

/* Returns the entries for a word or heading, or all entries if `what` is NULL. */
static json_object *
explain_find(const char *what)
{
    g_autofree char *heading = what ? explain_heading(what) : NULL;
    const struct question question = {what, heading};
    json_object *words = json_object_new_array();

    explain_add_figures(words, &question, vg_cpu_figure_rows, vg_cpu_figure_rows_size);
    explain_add_figures(words, &question, vg_gpu_figure_rows, vg_gpu_figure_rows_size);
    for (size_t i = 0; i < vg_glossary_size; i++)
        explain_add(words, &question, vg_glossary[i].word, vg_glossary[i].meaning);
    for (size_t i = 0; i < vg_glossary_headings_size; i++)
        explain_add(words, &question, vg_glossary_headings[i].word,
                    vg_glossary_headings[i].meaning);
    return words;
}

static int
explain_words(const struct explain_args *args, json_object *words, GError **err)
{
    const struct vg_table table = {NULL, words, columns, G_N_ELEMENTS(columns), NULL};

    return vg_output_print(args->state.format, words, &table, 1, err);
}

static int
explain(struct explain_args *args, GError **err)
{
    bool offline = args->state.paths->len > 0;
    g_autoptr(json_object) words = explain_find(args->what);

    if (!offline && json_object_array_length(words) > 0)
        return explain_words(args, words, err);
    g_autoptr(vg_snapshot) snapshot = vg_state_args_load(&args->state, err);
    if (!snapshot) {
        if (!offline && g_error_matches(*err, VG_ERROR, VG_E_UNREACHABLE)) {
            g_autofree char *why = g_strdup((*err)->message);
            g_clear_error(err);
            vg_error(err, VG_E_NOT_FOUND,
                     "'%s' is not a term of the output, and vgpud could not be queried for a VM of "
                     "this name: %s",
                     args->what, why);
        }
        return -1;
    }
    return vg_explain_vm(snapshot, &args->state.config, args->what, args->state.format, err);
}

int
vg_cmd_explain(int argc, char **argv)
{
    static const struct argp_child children[] = {{&vg_state_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .parser = cmd_explain_parse,
        .args_doc = "[VM|WORD]",
        .doc = "Explains a term in the output, or the reasons for and against each host for a "
               "VM (a UUID, HOST/NAME or name). The VM is from saved snapshots or from the "
               "running vgpud.",
        .children = children,
    };
    struct explain_args args = {0};
    g_autoptr(GError) error = NULL;

    vg_state_args_init(&args.state);
    argp_parse(&argp, argc, argv, 0, NULL, &args);
    explain(&args, &error);
    vg_state_args_clear(&args.state);
    return error ? vg_cli_fail(error) : VG_EXIT_OK;
}
