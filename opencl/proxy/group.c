/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/group.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "opencl/base/say.h"

#define GROUP_ROOT "/sys/fs/cgroup"
#define GROUP_MAIN "main"
#define GROUP_PIDS 4096 /* tasks: a vendor's library may have one thread per processor */
#define GROUP_NAME 64   /* bytes */

/* The maximum size of a file that a client's process writes, except for the memory shared with its
 * program: compilers write their output. */
#define GROUP_FILE ((uint64_t)256 << 20)

static bool
group_write(int folder, const char *name, const char *text)
{
    int fd = openat(folder, name, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int error = errno;

    if (fd >= 0)
        close(fd);
    errno = error;
    return ok;
}

static void
group_name(uint64_t number, char name[GROUP_NAME])
{
    snprintf(name, GROUP_NAME, "client-%d-%" PRIu64, (int)getpid(), number);
}

/* ---- the proxy's own ---- */

/* Finds the directory of this process's group in the unified hierarchy. */
static bool
groups_find(struct proxy_groups *groups)
{
    char line[PROXY_GROUP_PATH - sizeof GROUP_ROOT];
    FILE *file = fopen("/proc/self/cgroup", "re");
    bool is_found = false;

    while (file && !is_found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        is_found = strncmp(line, "0::/", 4) == 0;
    }
    if (file)
        fclose(file);
    if (is_found)
        snprintf(groups->path, sizeof groups->path, GROUP_ROOT "%s", line + 3);
    errno = is_found ? 0 : ENOENT;
    return is_found;
}

/* A group with limited child groups must not contain processes. */
static bool
groups_divide(const struct proxy_groups *groups)
{
    if (mkdirat(groups->root, GROUP_MAIN, 0755) != 0 && errno != EEXIST)
        return false;
    return group_write(groups->root, GROUP_MAIN "/cgroup.procs", "0") &&
           group_write(groups->root, "cgroup.subtree_control", "+memory +pids");
}

void
vg_groups_open(struct proxy_groups *groups)
{
    if (groups_find(groups))
        groups->root = open(groups->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (groups->root >= 0 && groups_divide(groups))
        return;
    vg_cl_say("cannot use control groups below '%s' for clients: %s; clients' memory is limited "
              "only during builds",
              groups->path, strerror(errno));
    if (groups->root >= 0)
        close(groups->root);
    groups->root = -1;
}

void
vg_groups_leave(const struct proxy_groups *groups)
{
    if (groups->root >= 0)
        close(groups->root);
}

/* ---- a client's ---- */

/* Tries again to remove groups that still had processes. */
static void
groups_sweep(struct proxy_groups *groups)
{
    char name[GROUP_NAME];

    for (unsigned i = 0; i < PROXY_GROUPS_LEFT; i++) {
        if (!groups->left[i])
            continue;
        group_name(groups->left[i], name);
        if (unlinkat(groups->root, name, AT_REMOVEDIR) == 0 || errno != EBUSY)
            groups->left[i] = 0;
    }
}

static bool
group_limit(const struct proxy_groups *groups, int folder)
{
    char text[32] = "max";

    if (groups->memory)
        snprintf(text, sizeof text, "%" PRIu64, groups->memory);
    bool ok = group_write(folder, "memory.max", text);
    snprintf(text, sizeof text, "%d", GROUP_PIDS);
    ok =
        ok && group_write(folder, "pids.max", text) && group_write(folder, "memory.oom.group", "1");
    /* The machine may have no swap, and therefore no such file. */
    return ok &&
           (!groups->memory || group_write(folder, "memory.swap.max", "0") || errno == ENOENT);
}

bool
vg_group_begin(struct proxy_groups *groups, struct proxy_group *group)
{
    char name[GROUP_NAME];

    *group = (struct proxy_group){.procs = -1};
    if (groups->root < 0)
        return true;
    groups_sweep(groups);
    group_name(++groups->n, name);
    if (mkdirat(groups->root, name, 0755) != 0)
        return false;
    int folder = openat(groups->root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = folder >= 0 && group_limit(groups, folder);
    if (ok)
        group->procs = openat(folder, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    int error = errno;
    if (folder >= 0)
        close(folder);
    group->number = groups->n;
    if (group->procs >= 0)
        return true;
    unlinkat(groups->root, name, AT_REMOVEDIR);
    group->number = 0;
    errno = error;
    return false;
}

void
vg_group_leave(struct proxy_group *group)
{
    if (group->procs >= 0)
        close(group->procs);
    group->procs = -1;
}

static bool
group_set(int what, uint64_t most)
{
    const struct rlimit limit = {most, most};

    return setrlimit((__rlimit_resource_t)what, &limit) == 0;
}

bool
vg_group_enter(struct proxy_group *group, uint64_t staging)
{
    const bool has_group = group->procs >= 0;
    bool ok = !has_group || write(group->procs, "0", 1) == 1;

    vg_group_leave(group);
    /* Writing more fails with an error, as on a full disk. */
    signal(SIGXFSZ, SIG_IGN);
    return ok && group_set(RLIMIT_FSIZE, staging + GROUP_FILE);
}

/* Returns whether the kernel has killed one of its processes due to a lack of memory. */
static bool
group_had_no_memory(const struct proxy_groups *groups, const char *name)
{
    char path[GROUP_NAME + 16], text[256] = "";

    snprintf(path, sizeof path, "%s/memory.events", name);
    int fd = openat(groups->root, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    const char *found = n > 0 ? strstr(text, "oom_kill ") : NULL;
    return found && strtoull(found + strlen("oom_kill "), NULL, 10) > 0;
}

bool
vg_group_end(struct proxy_groups *groups, struct proxy_group *group)
{
    char name[GROUP_NAME], path[GROUP_NAME + 16];

    if (!group->number)
        return false;
    group_name(group->number, name);
    const bool had_no_memory = group_had_no_memory(groups, name);
    snprintf(path, sizeof path, "%s/cgroup.kill", name);
    group_write(groups->root, path, "1");
    groups->left[group->number % PROXY_GROUPS_LEFT] = group->number;
    groups_sweep(groups);
    group->number = 0;
    return had_no_memory;
}
