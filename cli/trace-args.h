/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments common to `analyze` and `snapshot`: traces, the part to analyse, and the names of VMs
 * and host.
 */
#ifndef VG_CLI_TRACE_ARGS_H
#define VG_CLI_TRACE_ARGS_H

#include <argp.h>

#include "cli/analysis.h"
#include "policy/policy-conf.h"

struct vg_trace_args {
    GPtrArray *paths; /* char *, borrowed from argv */
    bool has_begin, has_end;
    int64_t begin_ns, end_ns;
    int64_t window_ns;
    const char *vm_map;
    const char *host;        /* NULL if not given */
    const char *config_path; /* NULL if not given */
    bool no_progress;
    bool may_be_none; /* set by the command before parsing: traces are optional */
    /* Set by vg_trace_args_open(). */
    struct vg_policy_config config;
    vg_aliases *aliases; /* or NULL */
    char *own_vm_map;    /* files in the recording */
    char *own_text;
    char *vm_map_text;
    size_t vm_map_size;
    char *host_name; /* of the recording last passed to vg_trace_args_options() */
    struct vg_progress progress;
};

/* Child parser for argp; its input is a struct vg_trace_args that vg_trace_args_init() prepared. */
extern const struct argp vg_trace_argp;

/* The same without the options for windows and the host name. */
extern const struct argp vg_trace_part_argp;

void vg_trace_args_init(struct vg_trace_args *args);
void vg_trace_args_clear(struct vg_trace_args *args);

/* Opens the traces and reads the files that the options name. Returns the recordings in order; the
 * caller owns them. */
GPtrArray *vg_trace_args_open(struct vg_trace_args *args, GError **err);

/* Returns the analysis options for one recording; callers add their own members. */
struct vg_analysis_options vg_trace_args_options(struct vg_trace_args *args,
                                                 const vg_recording *recording);

/* Returns a sealed snapshot of the analysed host, with means over the part. */
vg_snapshot *vg_trace_args_snapshot(const struct vg_trace_args *args,
                                    const struct vg_analysis *analysis, GError **err);

/* Reports on stderr which parts of the recording could not be read. */
void vg_trace_args_warn(const struct vg_trace_args *args, const struct vg_analysis *analysis);

#endif
