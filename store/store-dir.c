/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store-dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#define LOCK_NAME "lock"

/* Returns the process ID that the lock's holder has written, or 0. */
static int
store_dir_holder_of(int fd)
{
    char text[16] = "";

    return pread(fd, text, sizeof(text) - 1, 0) > 0 ? atoi(text) : 0;
}

int
vg_store_dir_lock(const char *directory, GError **err)
{
    g_autofree char *path = g_strdup_printf("%s/" LOCK_NAME, directory);
    char text[16];

    if (mkdir(directory, 0750) != 0 && errno != EEXIST)
        return vg_error_errno(err, errno, "cannot create the directory '%s'", directory);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (fd < 0)
        return vg_error_errno(err, errno,
                              "cannot write '%s' (the user of vgpud must own the directory that "
                              "--state-dir or [store] directory specifies)",
                              path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            vg_error(err, VG_E_BUSY,
                     "another vgpud (pid %d) uses '%s'; one of them needs another directory",
                     store_dir_holder_of(fd), directory);
        else
            vg_error_errno(err, errno, "cannot lock '%s'", path);
        close(fd);
        return -1;
    }
    /* Only needed for the message above, so a full disk does not matter. */
    int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());
    (void)!(pwrite(fd, text, (size_t)n, 0) == n && ftruncate(fd, n) == 0);
    return fd;
}

bool
vg_store_dir_is_ours(const char *directory, int lock_fd)
{
    g_autofree char *path = g_strdup_printf("%s/" LOCK_NAME, directory);
    struct stat now, ours;

    return stat(path, &now) == 0 && fstat(lock_fd, &ours) == 0 && now.st_dev == ours.st_dev &&
           now.st_ino == ours.st_ino;
}

static int
compare_stamps(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static bool
store_dir_touches(const char *name, enum vg_store_kind kind, int64_t begin_ns, int64_t end_ns,
                  int64_t *ret_stamp)
{
    enum vg_store_kind found;

    return vg_store_parse_name(name, &found, ret_stamp) && found == kind &&
           vg_store_stamp_begin_ns(kind, *ret_stamp) <= end_ns &&
           vg_store_stamp_begin_ns(kind, *ret_stamp + 1) > begin_ns;
}

static int
store_dir_compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

GPtrArray *
vg_store_dir_list_aside(const char *directory, enum vg_store_kind kind, int64_t begin_ns,
                        int64_t end_ns)
{
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    DIR *dir = opendir(directory);
    int64_t stamp;

    for (const struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        const char *suffix = strstr(entry->d_name, VG_STORE_ASIDE);
        g_autofree char *name =
            suffix ? g_strndup(entry->d_name, (size_t)(suffix - entry->d_name)) : NULL;
        /* Skip the log of a database that was moved aside. */
        if (name && store_dir_touches(name, kind, begin_ns, end_ns, &stamp) &&
            strspn(suffix + strlen(VG_STORE_ASIDE), "0123456789") ==
                strlen(suffix + strlen(VG_STORE_ASIDE)))
            g_ptr_array_add(names, g_strdup(entry->d_name));
    }
    if (dir)
        closedir(dir);
    g_ptr_array_sort(names, store_dir_compare_names);
    return names;
}

GArray *
vg_store_dir_list(const char *directory, enum vg_store_kind kind, int64_t begin_ns, int64_t end_ns,
                  GError **err)
{
    GArray *stamps = g_array_new(FALSE, FALSE, sizeof(int64_t));
    DIR *dir = opendir(directory);
    int64_t stamp;

    if (!dir) {
        vg_error_errno(err, errno, "cannot read the directory '%s'", directory);
        return stamps;
    }
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (store_dir_touches(entry->d_name, kind, begin_ns, end_ns, &stamp))
            g_array_append_val(stamps, stamp);
    }
    closedir(dir);
    g_array_sort(stamps, compare_stamps);
    return stamps;
}

int64_t
vg_store_dir_written_ns(const char *directory, enum vg_store_kind kind, int64_t stamp)
{
    static const char *const suffixes[] = {"", "-wal"};
    int64_t written_ns = INT64_MIN;
    char name[VG_STORE_NAME_MAX];
    struct stat status;

    vg_store_file_name(kind, stamp, name);
    for (size_t i = 0; i < G_N_ELEMENTS(suffixes); i++) {
        g_autofree char *path = g_strdup_printf("%s/%s%s", directory, name, suffixes[i]);
        /* Opening a database creates an empty log, which does not count. */
        if (stat(path, &status) == 0 && (i == 0 || status.st_size > 0))
            written_ns = MAX(written_ns,
                             (int64_t)status.st_mtim.tv_sec * VG_NS_PER_S + status.st_mtim.tv_nsec);
    }
    return written_ns;
}

int64_t
vg_store_dir_bytes(const char *directory)
{
    DIR *dir = opendir(directory);
    int64_t bytes = 0;
    struct stat status;

    if (!dir)
        return 0;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (fstatat(dirfd(dir), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(status.st_mode))
            bytes += status.st_size;
    }
    closedir(dir);
    return bytes;
}

int64_t
vg_store_dir_free_bytes(const char *directory)
{
    struct statvfs status;

    if (statvfs(directory, &status) < 0)
        return -1;
    return (int64_t)MIN((uint64_t)status.f_bavail * status.f_frsize, (uint64_t)INT64_MAX);
}
