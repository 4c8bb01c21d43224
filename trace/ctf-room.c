/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/ctf-room.h"

#include <string.h>
#include <sys/resource.h>

#include "base/error.h"
#include "trace/ctf-repair.h"

/* Files per stream: one of babeltrace2, and one of ours for the packet headers. */
#define FILES_PER_STREAM 2

/* Temporarily open files: metadata, the index of a trace, a copy of a damaged packet, output. */
#define FILES_BESIDE 24

static guint64
ctf_room_count(const char *path, bool (*counts)(const char *path))
{
    guint64 n = 0;
    GDir *dir = g_dir_open(path, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *file = g_build_filename(path, name, NULL);
        n += name[0] != '.' && strcmp(name, "metadata") != 0 && counts(file);
    }
    if (dir)
        g_dir_close(dir);
    return n;
}

static bool
ctf_room_is_stream(const char *path)
{
    return g_file_test(path, G_FILE_TEST_IS_REGULAR) && ctf_file_size(path) > 0;
}

static bool
ctf_room_is_any(const char *path)
{
    (void)path;
    return true;
}

int
vg_ctf_check_room(const struct vg_ctf_tree *tree, GError **err)
{
    struct rlimit limit;
    guint64 streams = 0;

    for (unsigned int i = 0; i < tree->dirs->len; i++)
        streams += ctf_room_count(g_ptr_array_index(tree->dirs, i), ctf_room_is_stream);
    guint64 need = streams * FILES_PER_STREAM + FILES_BESIDE +
                   ctf_room_count("/proc/self/fd", ctf_room_is_any);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        need <= limit.rlim_cur)
        return 0;
    return vg_error(err, VG_E_INVALID,
                    "reading %" G_GUINT64_FORMAT " stream files needs %" G_GUINT64_FORMAT
                    " file descriptors, but the limit of this process is %" G_GUINT64_FORMAT
                    ": raise the limit (`ulimit -n %" G_GUINT64_FORMAT
                    "`), or specify fewer traces",
                    streams, need, (guint64)limit.rlim_cur, need);
}
