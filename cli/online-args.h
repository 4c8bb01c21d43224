/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that ask a running vgpud have in common: the socket, the format, and looking
 * again and again.
 */
#ifndef VG_CLI_ONLINE_ARGS_H
#define VG_CLI_ONLINE_ARGS_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/client.h"
#include "cli/output.h"

struct vg_online_args {
    const char *socket; /* NULL: not given */
    enum vg_output_format format;
    bool can_watch; /* set by the command before parsing */
    bool streams;   /* set by the command before parsing: --count is its own */
    double watch_s; /* > 0: print again so often */
    int64_t count;  /* how often; 0: for ever */
};

/* Child parser for argp; its input is a struct vg_online_args. */
extern const struct argp vg_online_argp;

/* Calls show once, or with --watch again and again; on a terminal each time on a clear screen. The
 * exit code. */
int vg_online_run(const struct vg_online_args *args,
                  int (*show)(void *data, vg_client *client, GError **err), void *data);

/* A copy of an array of objects whose members a command may add to, for tables. The caller puts
 * it. */
json_object *vg_online_rows(json_object *items);

#endif
