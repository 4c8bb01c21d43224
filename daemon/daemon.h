/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpud as a whole: makes all parts, runs the main loop, ends in the reverse order. Main thread.
 */
#ifndef VG_DAEMON_DAEMON_H
#define VG_DAEMON_DAEMON_H

#include <stdbool.h>

#include <glib.h>

#include "daemon/daemon-config.h"

struct vg_daemon_options {
    const char *config_path; /* NULL: the default; read again on SIGHUP */
    /* What the command line says wins over the files; NULL: it says nothing. */
    const char *socket;
    const char *directory;
    const char *host_name;
    const char *log_level;
    /* Replay. */
    const char *replay; /* NULL: live */
    double speed;       /* 0: as fast as it goes */
    const char *vm_map;
    bool until_end; /* end when the recording is read and stored */
};

/* The files, and what the command line says over them. NULL and *err; the caller frees it. */
struct vg_daemon_config *vg_daemon_read_config(const struct vg_daemon_options *options,
                                               GError **err);

/* Runs until SIGTERM or SIGINT. Takes the configuration. -1 and *err if it cannot start. */
int vg_daemon_run(const struct vg_daemon_options *options, struct vg_daemon_config *take_config,
                  GError **err);

#endif
