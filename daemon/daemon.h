/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs vgpud as a whole: creates all parts, runs the main loop, and ends the parts in reverse
 * order. Main thread.
 */
#ifndef VG_DAEMON_DAEMON_H
#define VG_DAEMON_DAEMON_H

#include <stdbool.h>

#include <glib.h>

#include "daemon/daemon-config.h"

struct vg_daemon_options {
    const char *config_path; /* NULL for the default; read again on SIGHUP */
    /* Command-line options, which override the files; NULL if not given. */
    const char *socket;
    const char *directory;
    const char *host_name;
    const char *log_level;
    /* Options for a replay. */
    const char *replay; /* NULL for live measurement */
    double speed;       /* 0 for as fast as possible */
    const char *vm_map;
    bool until_end; /* exit when the recording has been read and stored */
};

/* Reads the files; options from the command line override them. Returns NULL and sets *err on
 * failure; the caller frees the result. */
struct vg_daemon_config *vg_daemon_read_config(const struct vg_daemon_options *options,
                                               GError **err);

/* Runs until SIGTERM or SIGINT. Takes ownership of the configuration. Returns -1 and sets *err if
 * it cannot start. */
int vg_daemon_run(const struct vg_daemon_options *options, struct vg_daemon_config *take_config,
                  GError **err);

#endif
