/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/hold-file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/process.h"
#include "guest/util.h"

static char *
hold_path(const char *root, pid_t pid)
{
    return vg_guest_format("%s" VG_GUEST_HOLD_DIR "/%d", root, (int)pid);
}

int
vg_guest_hold_write(const char *root, const struct vg_guest_hold *hold)
{
    vg_guest_auto char *dir = vg_guest_format("%s" VG_GUEST_HOLD_DIR, root);
    vg_guest_auto char *path = hold_path(root, hold->pid);
    vg_guest_auto char *next = vg_guest_format("%s.new", path);
    vg_guest_auto char *text = vg_guest_format(
        "%d %" PRIu64 " %d %" PRIu64 " %zu %zu %d\n", (int)hold->pid, hold->start,
        (int)hold->tracer, hold->tracer_start, hold->now, hold->total, hold->ended ? 1 : 0);

    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return errno;
    int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    ssize_t put = write(fd, text, strlen(text));
    int error = put < 0 ? errno : (size_t)put < strlen(text) ? EIO : 0;
    close(fd);
    if (error == 0 && rename(next, path) != 0)
        error = errno;
    return error;
}

int
vg_guest_hold_read(const char *root, pid_t pid, struct vg_guest_hold *ret)
{
    vg_guest_auto char *path = hold_path(root, pid);
    struct vg_guest_hold hold;
    char text[160];
    int of, tracer, ended;

    vg_guest_read_file(path, text, sizeof text);
    if (sscanf(text, "%d %" SCNu64 " %d %" SCNu64 " %zu %zu %d", &of, &hold.start, &tracer,
               &hold.tracer_start, &hold.now, &hold.total, &ended) != 7 ||
        of != pid || tracer <= 1)
        return -1;
    hold.pid = of;
    hold.tracer = tracer;
    hold.ended = ended != 0;
    *ret = hold;
    return 0;
}

bool
vg_guest_hold_lives(const struct vg_guest_hold *hold)
{
    struct vg_guest_process is;

    /* The agent's own processes are in the real /proc, whatever prefix the guest's has. */
    return vg_guest_process_read("", hold->tracer, &is) == 0 && is.start == hold->tracer_start &&
           !is.ended;
}

/* Calls `found` for each file whose tracer exists, and removes the others. */
static void
hold_look(const char *root, void (*found)(void *user, const struct vg_guest_hold *hold), void *user)
{
    vg_guest_auto char *path = vg_guest_format("%s" VG_GUEST_HOLD_DIR, root);
    DIR *dir = opendir(path);

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct vg_guest_hold hold;
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        bool lives = pid > 0 && !*end && vg_guest_hold_read(root, (pid_t)pid, &hold) == 0 &&
                     vg_guest_hold_lives(&hold);
        if (lives && found)
            found(user, &hold);
        else if (!lives && !found)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

void
vg_guest_holds_each(const char *root, void (*found)(void *user, const struct vg_guest_hold *hold),
                    void *user)
{
    hold_look(root, found, user);
}

void
vg_guest_holds_sweep(const char *root)
{
    hold_look(root, NULL, NULL);
}
