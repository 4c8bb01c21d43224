/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/record-dir.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

/* A name within the directory, and therefore on the same file system. */
#define ASIDE     ".replaced"
#define NFTW_FDS  16
#define MIB_BYTES 1048576

struct vg_record_dir {
    char *path;
    bool made;
    bool ours; /* whether everything in it belongs to vgpuctl, except files that were put aside */
    bool has_aside;
    bool kept;
};

static int
remove_entry(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)st;
    (void)type;
    (void)walk;
    remove(path);
    return 0;
}

static void
remove_tree(const char *path)
{
    nftw(path, remove_entry, NFTW_FDS, FTW_DEPTH | FTW_PHYS);
}

/* Lists the names in a directory. Returns NULL and sets errno on failure. */
static GPtrArray *
list(const char *path)
{
    DIR *dir = opendir(path);
    GPtrArray *names = dir ? g_ptr_array_new_with_free_func(g_free) : NULL;

    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            g_ptr_array_add(names, g_strdup(entry->d_name));
    }
    if (dir)
        closedir(dir);
    return names;
}

static int
move_entries(const GPtrArray *names, const char *from, const char *to)
{
    for (unsigned int i = 0; i < names->len; i++) {
        g_autofree char *old = g_build_filename(from, names->pdata[i], NULL);
        g_autofree char *new = g_build_filename(to, names->pdata[i], NULL);
        if (rename(old, new) != 0)
            return -1;
    }
    return 0;
}

static int
put_aside(vg_record_dir *dir, const GPtrArray *names, GError **err)
{
    static const char *const parts[] = {
        VG_RECORD_LTTNG, VG_RECORD_CTF, VG_RECORD_TEXT, VG_RECORD_VM_MAP, NULL,
    };
    g_autofree char *aside = g_build_filename(dir->path, ASIDE, NULL);

    for (unsigned int i = 0; i < names->len; i++) {
        const char *name = names->pdata[i];
        if (!g_strv_contains(parts, name))
            return vg_error(err, VG_E_CONFLICT,
                            "'%s' is not replaced because it contains '%s', which is not part "
                            "of a recording",
                            dir->path, name);
    }
    if (mkdir(aside, 0700) != 0)
        return vg_error_errno(err, errno, "cannot write to '%s'", dir->path);
    dir->has_aside = true;
    if (move_entries(names, dir->path, aside) != 0)
        return vg_error_errno(err, errno, "cannot replace the contents of '%s'", dir->path);
    dir->ours = true;
    return 0;
}

static int
use_existing(vg_record_dir *dir, bool force, GError **err)
{
    g_autoptr(GPtrArray) names = list(dir->path);

    if (!names)
        return vg_error_errno(err, errno, "cannot record into '%s'", dir->path);
    dir->ours = names->len == 0;
    if (dir->ours)
        return 0;
    if (!force)
        return vg_error(err, VG_E_CONFLICT,
                        "'%s' exists; specify another directory with -O, or replace the "
                        "recording in it with --force",
                        dir->path);
    return put_aside(dir, names, err);
}

static char *
name_of_now(void)
{
    char name[64];
    struct tm utc;
    time_t now = time(NULL);

    gmtime_r(&now, &utc);
    strftime(name, sizeof(name), "recording-%Y%m%dT%H%M%SZ", &utc);
    return g_strdup(name);
}

/* A recording by root contains information about all processes of the host. Other users must not be
 * able to read it, or own its parent directory. */
static int
record_dir_check_owner(const char *path, GError **err)
{
    struct stat link, st;

    if (geteuid() != 0)
        return 0;
    if (lstat(path, &link) != 0 || stat(path, &st) != 0)
        return vg_error_errno(err, errno, "cannot record into '%s'", path);
    if (link.st_uid != 0 || st.st_uid != 0)
        return vg_error(err, VG_E_DENIED,
                        "'%s' belongs to another user, who could read the recording of the "
                        "whole host; specify another directory with -O",
                        path);
    if (st.st_mode & S_IWOTH)
        return vg_error(err, VG_E_DENIED,
                        "any user may write to '%s'; specify another directory with -O", path);
    return 0;
}

vg_record_dir *
vg_record_dir_new(const char *path, bool force, GError **err)
{
    g_autoptr(vg_record_dir) dir = g_new0(vg_record_dir, 1);
    g_autofree char *name = path ? g_strdup(path) : name_of_now();

    dir->path = g_canonicalize_filename(name, NULL);
    dir->made = dir->ours = mkdir(dir->path, 0777) == 0;
    if (!dir->made && errno != EEXIST) {
        vg_error_errno(err, errno, "cannot create the directory '%s'", dir->path);
        return NULL;
    }
    if (!dir->made &&
        (record_dir_check_owner(dir->path, err) < 0 || use_existing(dir, force, err) < 0))
        return NULL;
    if (access(dir->path, W_OK | X_OK) != 0) {
        vg_error_errno(err, errno, "cannot write to '%s'", dir->path);
        return NULL;
    }
    if (vg_record_dir_check_room(dir->path, VG_RECORD_ROOM_BYTES, err) < 0)
        return NULL;
    return g_steal_pointer(&dir);
}

const char *
vg_record_dir_path(const vg_record_dir *dir)
{
    return dir->path;
}

/* Only files with names of recordings are ever removed. */
void
vg_record_dir_empty(const vg_record_dir *dir)
{
    static const char *const written[] = {
        VG_RECORD_LTTNG, VG_RECORD_CTF, VG_RECORD_TEXT, VG_RECORD_VM_MAP, VG_RECORD_SCRATCH,
    };

    for (size_t i = 0; i < G_N_ELEMENTS(written); i++) {
        g_autofree char *path = g_build_filename(dir->path, written[i], NULL);
        remove_tree(path);
    }
}

void
vg_record_dir_keep(vg_record_dir *dir)
{
    g_autofree char *aside = g_build_filename(dir->path, ASIDE, NULL);

    dir->kept = true;
    if (dir->has_aside)
        remove_tree(aside);
}

static void
restore(const vg_record_dir *dir)
{
    g_autofree char *aside = g_build_filename(dir->path, ASIDE, NULL);
    g_autoptr(GPtrArray) names = list(aside);

    if (names && move_entries(names, aside, dir->path) == 0)
        rmdir(aside);
}

void
vg_record_dir_free(vg_record_dir *dir)
{
    if (!dir)
        return;
    if (!dir->kept && dir->ours)
        vg_record_dir_empty(dir);
    if (!dir->kept && dir->has_aside)
        restore(dir);
    if (!dir->kept && dir->made)
        rmdir(dir->path);
    g_free(dir->path);
    g_free(dir);
}

int
vg_record_dir_check_room(const char *path, int64_t bytes, GError **err)
{
    struct statvfs fs;

    if (statvfs(path, &fs) != 0)
        return vg_error_errno(err, errno, "cannot determine the free space in '%s'", path);
    int64_t free_bytes = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
    if (free_bytes >= bytes)
        return 0;
    return vg_error(err, VG_E_IO,
                    "not enough space for a recording in '%s': %" G_GINT64_FORMAT " MiB are "
                    "free, and %" G_GINT64_FORMAT " MiB are needed",
                    path, free_bytes / MIB_BYTES, (bytes + MIB_BYTES - 1) / MIB_BYTES);
}
