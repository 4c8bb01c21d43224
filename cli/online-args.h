/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that ask a running vgpud have in common: where it is, the format, and looking
 * again and again.
 */
#ifndef VG_CLI_ONLINE_ARGS_H
#define VG_CLI_ONLINE_ARGS_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/output.h"
#include "client/client.h"

#define VG_WATCH_S 2.0 /* between two looks, if not told */

enum vg_online_object {
    VG_OBJECT_NONE,
    VG_OBJECT_OPTIONAL,
    VG_OBJECT_REQUIRED,
    VG_OBJECT_BEGINNING /* required; where it is not found, that with which it begins is taken */
};

/* What follows the command: "list", "show VM". */
struct vg_online_verb {
    const char *name; /* NULL: the command has no verbs; this is then its only one */
    enum vg_online_object object;
    const char *object_hint; /* how to name one that is required, as a sentence */
    /* Asks and prints. NULL: the command does it itself. */
    int (*show)(void *data, vg_client *client, GError **err);
};

struct vg_online_args {
    /* Set by the command before parsing. */
    const struct vg_online_verb *verbs;
    size_t n_verbs;
    const char *list; /* path of what has the objects of VG_OBJECT_BEGINNING */
    /* What was parsed. */
    const struct vg_online_verb *verb;
    const char *object; /* NULL: none given */
    char *whole;        /* set by vg_online_run(): the name that object is the beginning of */
    struct vg_remote_args remote;
    enum vg_output_format format;
    bool can_watch; /* set by the command before parsing */
    bool streams;   /* set by the command before parsing: --count is its own */
    bool silent;    /* set by the command before parsing: it prints no table */
    double watch_s; /* > 0: print again so often */
    int64_t count;  /* how often; 0: for ever */
};

/* Child parser for argp, also as the only child; its input is a struct vg_online_args. It parses
 * the arguments that the command's own parser leaves. */
extern const struct argp vg_online_argp;
extern const struct argp_child vg_online_children[];

/* The same for commands that print once, that print events as they come, and that print no table:
 * their help leaves out options that mean nothing to them. */
extern const struct argp vg_online_once_argp;
extern const struct argp_child vg_online_once_children[];
extern const struct argp_child vg_online_stream_children[];
extern const struct argp_child vg_online_silent_children[];

/* The parser of a command whose input is a struct vg_online_args and that has no options besides.
 */
error_t vg_online_parse_children(int key, char *arg, struct argp_state *state);

/* Calls the verb's show once, or with --watch again and again; on a terminal each time on a clear
 * screen. The exit code. */
int vg_online_run(struct vg_online_args *args, void *data);

/* A copy of an array of objects whose members a command may add to, for tables; an empty one if
 * ITEMS is none, as of a vgpud that does not say it. The caller puts it. */
json_object *vg_online_rows(json_object *items);

/* Adds to a row of a table the time that a member tells in nanoseconds since the epoch, in UTC to
 * the second; nothing where it is null. */
void vg_online_add_time(json_object *row, const char *name, const char *of);

/* Appends a parameter of a request to its path, escaped; none if value is NULL. */
void vg_online_add_parameter(GString *path, const char *name, const char *value);

#endif
