/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments common to the commands that query a running vgpud: its address, the format, and
 * repetition.
 */
#ifndef VG_CLI_ONLINE_ARGS_H
#define VG_CLI_ONLINE_ARGS_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/output.h"
#include "client/client.h"

#define VG_WATCH_S 2.0 /* default seconds between refreshes */

enum vg_online_object {
    VG_OBJECT_NONE,
    VG_OBJECT_OPTIONAL,
    VG_OBJECT_REQUIRED,
    VG_OBJECT_BEGINNING /* required; a unique prefix is also accepted */
};

/* The word after the command, as in "list", "show VM". */
struct vg_online_verb {
    const char *name; /* NULL if the command has no verbs; this is then the only entry */
    enum vg_online_object object;
    const char *object_hint; /* how to specify a required object, as a sentence */
    /* Queries vgpud and prints the result. NULL if the command itself does this. */
    int (*show)(void *data, vg_client *client, GError **err);
};

struct vg_online_args {
    /* Set by the command before parsing. */
    const struct vg_online_verb *verbs;
    size_t n_verbs;
    const char *list; /* path of the list of objects for VG_OBJECT_BEGINNING */
    /* The results of parsing. */
    const struct vg_online_verb *verb;
    const char *object; /* NULL if not given */
    char *whole;        /* set by vg_online_run(): the full name that object is a prefix of */
    struct vg_remote_args remote;
    enum vg_output_format format;
    bool can_watch; /* set by the command before parsing */
    bool streams;   /* set by the command before parsing: the command handles --count itself */
    bool silent;    /* set by the command before parsing: the command prints no table */
    double watch_s; /* seconds between refreshes; 0 prints only once */
    int64_t count;  /* number of repetitions; 0 if unlimited */
};

/* Child parser for argp, also as the only child. Its input is a struct vg_online_args. It handles
 * arguments that the command's own parser does not. */
extern const struct argp vg_online_argp;
extern const struct argp_child vg_online_children[];

/* The same for commands that print once, print events as they arrive, or print no table. Their
 * help omits options that do not apply. */
extern const struct argp vg_online_once_argp;
extern const struct argp_child vg_online_once_children[];
extern const struct argp_child vg_online_stream_children[];
extern const struct argp_child vg_online_silent_children[];

/* The parser for a command that has only these options. Its input is a struct vg_online_args. */
error_t vg_online_parse_children(int key, char *arg, struct argp_state *state);

/* Calls the verb's show once, or with --watch repeatedly; a terminal is cleared each time. Returns
 * the exit code. */
int vg_online_run(struct vg_online_args *args, void *data);

/* Returns a copy of an array of objects, to which a command may add members for tables. Returns an
 * empty array if ITEMS is not an array, as with older versions of vgpud. The caller releases it
 * with json_object_put(). */
json_object *vg_online_rows(json_object *items);

/* Adds the time in a member, which is in nanoseconds since the epoch, to a table row, in UTC and in
 * whole seconds. Adds nothing if the member is null. */
void vg_online_add_time(json_object *row, const char *name, const char *of);

/* Appends an escaped request parameter to its path, or nothing if value is NULL. */
void vg_online_add_parameter(GString *path, const char *name, const char *value);

#endif
