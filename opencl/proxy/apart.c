/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>
#include <pwd.h>
#include <sched.h>

#define APART_EMPTY REACH_ROOM "/empty"

/* The user and groups before this process entered a user namespace, where it is nobody until the
 * ids are mapped. */
static struct {
    bool is_apart;
    unsigned uid, gid;
} apart_user;

/* ---- in the proxy ---- */

static bool
apart_may_administrate(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    return syscall(SYS_capget, &head, data) == 0 &&
           (data[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective & CAP_TO_MASK(CAP_SYS_ADMIN));
}

/* The C library's fork() creates no namespaces. What it does in addition to the system call only
 * matters to programs with threads, except for the thread id, which it stores where the kernel
 * clears it when the thread ends. */
pid_t
vg_apart_fork(void)
{
    unsigned long flags = CLONE_NEWPID | CLONE_NEWNS | SIGCHLD;
    int *tid = NULL;

    apart_user.is_apart = !apart_may_administrate();
    apart_user.uid = geteuid();
    apart_user.gid = getegid();
    if (apart_user.is_apart)
        flags |= CLONE_NEWUSER;
    if (prctl(PR_GET_TID_ADDRESS, &tid, 0, 0, 0) == 0 && tid)
        flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
    fflush(NULL);
#if defined(__x86_64__)
    return (pid_t)syscall(SYS_clone, flags, NULL, NULL, tid, 0);
#else
    return (pid_t)syscall(SYS_clone, flags, NULL, NULL, 0, tid);
#endif
}

/* ---- in the process ---- */

static bool
apart_write(const char *path, const char *text)
{
    const size_t size = strlen(text);
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    bool ok = write(fd, text, size) == (ssize_t)size;
    int error = errno;
    close(fd);
    errno = error;
    return ok;
}

/* Its groups remain for file access, and cannot be changed any more. */
const char *
vg_apart_map(void)
{
    char uids[64], gids[64];

    if (!apart_user.is_apart)
        return NULL;
    snprintf(uids, sizeof uids, "%u %u 1\n", apart_user.uid, apart_user.uid);
    snprintf(gids, sizeof gids, "%u %u 1\n", apart_user.gid, apart_user.gid);
    bool ok = apart_write("/proc/self/setgroups", "deny") &&
              apart_write("/proc/self/uid_map", uids) && apart_write("/proc/self/gid_map", gids);
    return ok ? NULL : "its IDs in the user namespace";
}

/* Paths that are covered by mounts, so that not even names can be found, and sockets with a path
 * cannot be connected to. A client must not see this machine's networks, which each process and
 * thread shows. */
static const struct {
    const char *path, *by;
} apart_hidden[] = {
    {"/boot", APART_EMPTY},
    {"/etc/vgpud", APART_EMPTY},
    {"/home", APART_EMPTY},
    {"/media", APART_EMPTY},
    {"/mnt", APART_EMPTY},
    {"/proc/self/net", APART_EMPTY},
    {"/proc/self/task", APART_EMPTY},
    {"/root", APART_EMPTY},
    {"/run", APART_EMPTY},
    {"/srv", APART_EMPTY},
    {"/tmp", REACH_TMP},
    {"/var", APART_EMPTY},
};

static bool
apart_hide(const struct proxy_reach *reach)
{
    for (size_t i = 0; i < sizeof apart_hidden / sizeof *apart_hidden; i++) {
        const char *path = apart_hidden[i].path;
        if (vg_reach_has(reach, path))
            continue;
        if (mount(apart_hidden[i].by, path, NULL, MS_BIND, NULL) < 0 && errno != ENOENT)
            return false;
    }
    return true;
}

const char *
vg_apart_mount(const struct proxy_reach *reach, const char *user)
{
    static const char *const folders[] = {APART_HOME, APART_CACHE, REACH_TMP, APART_EMPTY};
    char options[128];
    uid_t uid = geteuid();
    gid_t gid = getegid();

    errno = 0;
    const struct passwd *entry = user ? getpwnam(user) : NULL;
    if (user && !entry) {
        errno = errno ? errno : ENOENT;
        return user;
    }
    if (entry) {
        uid = entry->pw_uid;
        gid = entry->pw_gid;
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return "a mount namespace";
    snprintf(options, sizeof options, "mode=0755,nr_inodes=65536,size=%dm,uid=%u,gid=%u",
             APART_ROOM_MIB, (unsigned)uid, (unsigned)gid);
    if (mount("tmpfs", REACH_ROOM, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
        return "the private file system at " REACH_ROOM;
    /* If the user does not change, the unit's system call filter has no chown(). */
    const bool is_other = uid != geteuid() || gid != getegid();
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (mkdir(folders[i], 0755) < 0 || (is_other && chown(folders[i], uid, gid) < 0))
            return folders[i];
    return apart_hide(reach) ? NULL : "hiding files from clients";
}

bool
vg_apart_drop(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0, 0, 0}};

    return syscall(SYS_capset, &head, none) == 0;
}
