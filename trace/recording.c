/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/recording.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "trace/ctf-read.h"
#include "trace/text-read.h"

struct vg_trace_problem *
vg_trace_problem_new(const char *file, int64_t offset, const char *what)
{
    struct vg_trace_problem *problem = g_new0(struct vg_trace_problem, 1);

    problem->file = g_strdup(file);
    problem->offset = offset;
    problem->what = g_strdup(what);
    return problem;
}

void
vg_trace_problem_free(void *data)
{
    struct vg_trace_problem *problem = data;

    g_free(problem->file);
    g_free(problem->what);
    g_free(problem);
}

void
vg_recording_init(vg_recording *recording, const struct vg_recording_ops *ops, const char *name)
{
    recording->ops = ops;
    recording->name = g_strdup(name);
    recording->problems.list = g_ptr_array_new_with_free_func(vg_trace_problem_free);
}

void
vg_recording_clear(vg_recording *recording)
{
    g_clear_pointer(&recording->name, g_free);
    g_clear_pointer(&recording->hostname, g_free);
    g_clear_pointer(&recording->problems.list, g_ptr_array_unref);
}

void
vg_recording_problem(vg_recording *recording, const char *file, int64_t offset, const char *fmt,
                     ...)
{
    if (recording->problems.list->len >= VG_TRACE_PROBLEMS_MAX) {
        recording->problems.dropped++;
        return;
    }
    va_list args;
    va_start(args, fmt);
    g_autofree char *what = g_strdup_vprintf(fmt, args);
    va_end(args);
    struct vg_trace_problem *problem = vg_trace_problem_new(file, offset, what);
    g_ptr_array_add(recording->problems.list, problem);
}

int
vg_recording_next(vg_recording *recording, struct vg_event *ret_event, GError **err)
{
    return recording->ops->next(recording, ret_event, err);
}

double
vg_recording_progress(const vg_recording *recording)
{
    return recording->ops->progress(recording);
}

void
vg_recording_free(vg_recording *recording)
{
    if (recording)
        recording->ops->free(recording);
}

/* Trace text is opened at once, directories are gathered: their traces may share a clock. */
static int
open_path(const char *path, GPtrArray *recordings, struct vg_ctf_tree *tree, GError **err)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return vg_error_errno(err, errno, "cannot open trace '%s'", path);
    if (S_ISDIR(st.st_mode))
        return vg_ctf_tree_add(tree, path, err);
    vg_recording *text = vg_text_open(path, err);
    if (!text)
        return -1;
    g_ptr_array_add(recordings, text);
    return 0;
}

GPtrArray *
vg_recordings_open(const char *const *paths, size_t n_paths, GError **err)
{
    g_autoptr(GPtrArray) recordings =
        g_ptr_array_new_with_free_func((GDestroyNotify)vg_recording_free);
    struct vg_ctf_tree tree;
    int status = 0;

    vg_ctf_tree_init(&tree);
    for (size_t i = 0; status == 0 && i < n_paths; i++)
        status = open_path(paths[i], recordings, &tree, err);
    if (status == 0)
        status = vg_ctf_open(&tree, recordings, err);
    vg_ctf_tree_clear(&tree);
    if (status < 0)
        return NULL;
    return g_steal_pointer(&recordings);
}
