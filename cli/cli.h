/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions shared by all vgpuctl commands. A command is a row in the table of cli/main.c and a
 * file cli/cmd-NAME.c. It parses its arguments with argp, prints its result on stdout through
 * cli/output.h and returns the exit code. Messages go to stderr.
 */
#ifndef VG_CLI_CLI_H
#define VG_CLI_CLI_H

#include <argp.h>
#include <stdbool.h>

#include <glib.h>

#include "trace/alias.h"

enum vg_exit_code {
    VG_EXIT_OK = 0,
    VG_EXIT_ERROR = 1,
    VG_EXIT_USAGE = 2,
    VG_EXIT_CHANGES = 10 /* --detailed-exitcode: the plan proposes changes */
};

struct vg_cli_command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv); /* argv[0] is "vgpuctl NAME" */
};

int vg_cmd_analyze(int argc, char **argv);
int vg_cmd_record(int argc, char **argv);
int vg_cmd_snapshot(int argc, char **argv);
int vg_cmd_migrate(int argc, char **argv);
int vg_cmd_migration(int argc, char **argv);
int vg_cmd_peer(int argc, char **argv);
int vg_cmd_placement(int argc, char **argv);
int vg_cmd_simulate(int argc, char **argv);
int vg_cmd_explain(int argc, char **argv);
int vg_cmd_doctor(int argc, char **argv);
int vg_cmd_host(int argc, char **argv);
int vg_cmd_gpu(int argc, char **argv);
int vg_cmd_vm(int argc, char **argv);
int vg_cmd_preemptions(int argc, char **argv);
int vg_cmd_top(int argc, char **argv);
int vg_cmd_plan(int argc, char **argv);
int vg_cmd_policy(int argc, char **argv);
int vg_cmd_events(int argc, char **argv);
int vg_cmd_nova(int argc, char **argv);
int vg_cmd_token(int argc, char **argv);
int vg_cmd_alert(int argc, char **argv);
int vg_cmd_audit(int argc, char **argv);
int vg_cmd_context(int argc, char **argv);
int vg_cmd_ui(int argc, char **argv);
int vg_cmd_vulkan(int argc, char **argv);
int vg_cmd_proxy(int argc, char **argv);
int vg_cmd_version(int argc, char **argv);

/* Prints "vgpuctl: <message>" on stderr; returns the exit code for the error. */
int vg_cli_fail(const GError *error);

void vg_cli_warn(const char *fmt, ...) G_GNUC_PRINTF(1, 2);

/* argp_error() for messages that quote an argument. */
void vg_cli_usage(const struct argp_state *state, const char *fmt, ...) G_GNUC_PRINTF(2, 3);

struct vg_policy_config;

/* Reads a configuration file, with defaults for missing keys, or only the defaults if path is NULL.
 * The caller frees *ret_aliases, which may become NULL. Callers that read no traces pass NULL. */
int vg_cli_read_config(const char *path, struct vg_policy_config *ret, vg_aliases **ret_aliases,
                       GError **err);

/* Prints the question on stderr, followed by "[y/N]", and reads the answer from stdin. */
bool vg_cli_agrees(const char *fmt, ...) G_GNUC_PRINTF(1, 2);

/* Prints on stdout. A write error (a full disk, a closed pipe) is an error of the command. */
int vg_cli_print(const char *text, GError **err);

#endif
