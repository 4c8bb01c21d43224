/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/holder.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "guest/process.h"
#include "guest/util.h"

/* A check of all processes, or of the descriptors and maps of one of them. */
struct look {
    const struct vg_guest_nodes *nodes;
    /* Handles a node that is open or mapped. */
    void (*found)(struct look *look, size_t node, const struct vg_guest_hold *hold);
    struct vg_guest_holder *holders;
    struct vg_guest_hold *holds;
    size_t max, total;
    /* The process that is being checked, and its known nodes. */
    pid_t pid;
    char comm[32];
    /* Its directory in /proc, or that of one of its threads. */
    const char *task;
    bool *known;
};

static const char *
holder_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static void
holder_add(struct look *look, size_t i, const struct vg_guest_hold *hold)
{
    const struct vg_guest_node *node = &look->nodes->nodes[i];

    if (look->known[i])
        return;
    look->known[i] = true;
    if (look->total++ < look->max) {
        struct vg_guest_holder *holder = &look->holders[look->total - 1];
        *holder = (struct vg_guest_holder){
            .pid = look->pid, .mapped = hold->mapped, .device = node->device};
        vg_guest_put(holder->comm, sizeof holder->comm, "%s", look->comm);
        vg_guest_put(holder->path, sizeof holder->path, "%s", node->path);
    }
}

/* Records a descriptor or a map once, even if several nodes refer to this file. */
static void
holder_add_hold(struct look *look, size_t i, const struct vg_guest_hold *hold)
{
    const struct vg_guest_hold *last =
        look->total > 0 && look->total <= look->max ? &look->holds[look->total - 1] : NULL;

    if (last && last->mapped == hold->mapped && last->fd == hold->fd && last->begin == hold->begin)
        return;
    if (look->total++ < look->max) {
        look->holds[look->total - 1] = *hold;
        look->holds[look->total - 1].node = i;
    }
}

/* Returns whether a descriptor allows its process to use a node. Any process may open the path of
 * any node (O_PATH), and read a node that everybody can read. If this is unknown, the descriptor
 * counts. */
static bool
holder_can_use(const struct look *look, const struct vg_guest_node *node, int fd)
{
    vg_guest_auto char *path = vg_guest_format("%s/fdinfo/%d", look->task, fd);
    char text[512];
    unsigned int flags;

    vg_guest_read_file(path, text, sizeof text);
    const char *found = strstr(text, "flags:");
    if (!found || sscanf(found, "flags: %o", &flags) != 1)
        return true;
    return (flags & O_PATH) == 0 && (!node->for_all || (flags & O_ACCMODE) != O_RDONLY);
}

/* Returns whether a file system that the process sees is a sysfs. Other file systems may have files
 * with the same name and number. */
static bool
holder_is_sysfs(const struct look *look, dev_t dev)
{
    vg_guest_auto char *path = vg_guest_format("%s/mountinfo", look->task);
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    bool found = false;

    while (file && !found && getline(&line, &room, file) > 0) {
        unsigned int dev_major, dev_minor;
        const char *type = strstr(line, " - ");
        found = type && strncmp(type, " - sysfs ", strlen(" - sysfs ")) == 0 &&
                sscanf(line, "%*d %*d %u:%u", &dev_major, &dev_minor) == 2 &&
                dev == makedev(dev_major, dev_minor);
    }
    free(line);
    if (file)
        fclose(file);
    return found;
}

/* Compares a file of a process with the nodes. link is its magic link in /proc. Files on network
 * file systems are not queried again, because their servers may not answer. */
static void
holder_check(struct look *look, const char *link, const struct vg_guest_hold *hold)
{
    struct statx stx;

    if (statx(AT_FDCWD, link, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_INO, &stx) !=
        0)
        return;
    dev_t dev = makedev(stx.stx_dev_major, stx.stx_dev_minor);
    dev_t rdev = makedev(stx.stx_rdev_major, stx.stx_rdev_minor);
    for (size_t i = 0; i < look->nodes->n; i++) {
        const struct vg_guest_node *node = &look->nodes->nodes[i];
        bool same = S_ISCHR(stx.stx_mode) && node->rdev != 0 && rdev == node->rdev;
        if (node->ino != 0 && stx.stx_ino == node->ino) {
            char target[PATH_MAX];
            ssize_t size =
                node->in_sysfs && dev != node->dev ? readlink(link, target, sizeof target - 1) : 0;
            target[size > 0 ? size : 0] = '\0';
            same = same || dev == node->dev ||
                   (size > 0 && strcmp(holder_base(target), holder_base(node->path)) == 0 &&
                    holder_is_sysfs(look, dev));
        }
        if (same && (hold->mapped || holder_can_use(look, node, hold->fd)))
            look->found(look, i, hold);
    }
}

/* Checks the open files of a process or thread, whose directory is task. Returns their number. */
static size_t
holder_look_at_files(struct look *look, const char *task)
{
    vg_guest_auto char *path = vg_guest_format("%s/fd", task);
    DIR *dir = opendir(path);
    size_t n = 0;

    look->task = task;
    if (!dir)
        return 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char link[PATH_MAX];
        if (entry->d_name[0] == '.')
            continue;
        n++;
        vg_guest_put(link, sizeof link, "%s/%s", path, entry->d_name);
        struct vg_guest_hold hold = {.fd = atoi(entry->d_name)};
        holder_check(look, link, &hold);
    }
    closedir(dir);
    return n;
}

/* Compares a line of maps, "begin-end perms offset major:minor inode path", with the nodes. If it
 * has the name of a node, the file itself is queried, because the device numbers in such a line are
 * those of its file system. */
static void
holder_check_map(struct look *look, const char *task, char *line)
{
    struct vg_guest_hold hold = {.mapped = true, .fd = -1};
    unsigned int dev_major, dev_minor;
    unsigned long long ino;
    char range[64], link[PATH_MAX];
    int at = 0;

    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%63s %*s %llx %x:%x %llu %n", range, &hold.offset, &dev_major, &dev_minor,
               &ino, &at) < 5 ||
        sscanf(range, "%llx-%llx", &hold.begin, &hold.end) != 2 || ino == 0 || at == 0)
        return;
    const char *path = line + at;
    for (size_t i = 0; i < look->nodes->n; i++) {
        const struct vg_guest_node *node = &look->nodes->nodes[i];
        bool same_file = node->ino == ino && node->dev == makedev(dev_major, dev_minor);
        if (same_file || strcmp(path, node->path) == 0) {
            look->found(look, i, &hold);
        } else if (strcmp(holder_base(path), holder_base(node->path)) == 0 && node->ino != 0) {
            vg_guest_put(link, sizeof link, "%s/map_files/%s", task, range);
            holder_check(look, link, &hold);
        }
    }
}

static void
holder_look_at_maps(struct look *look, const char *task)
{
    vg_guest_auto char *path = vg_guest_format("%s/maps", task);
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;

    if (!file)
        return;
    look->task = task;
    while (getline(&line, &room, file) > 0)
        holder_check_map(look, task, line);
    free(line);
    fclose(file);
}

/* Checks another thread of a process whose first thread has ended, because its files and memory are
 * visible there. Threads are in /proc, too, but are not listed. */
static void
holder_look_at_tasks(struct look *look, const char *proc, const char *process)
{
    vg_guest_auto char *path = vg_guest_format("%s/task", process);
    DIR *dir = opendir(path);

    if (!dir)
        return;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (!isdigit((unsigned char)entry->d_name[0]) || atoi(entry->d_name) == look->pid)
            continue;
        vg_guest_auto char *task = vg_guest_format("%s/%s", proc, entry->d_name);
        holder_look_at_files(look, task);
        holder_look_at_maps(look, task);
    }
    closedir(dir);
}

static void
holder_look_at(struct look *look, const char *proc, pid_t pid)
{
    vg_guest_auto char *process = vg_guest_format("%s/%d", proc, (int)pid);

    look->pid = pid;
    vg_guest_process_name(process, look->comm, sizeof look->comm);
    memset(look->known, 0, look->nodes->n * sizeof *look->known);
    if (holder_look_at_files(look, process) == 0)
        holder_look_at_tasks(look, proc, process);
    holder_look_at_maps(look, process);
}

size_t
vg_guest_holders_find(const char *root, const struct vg_guest_nodes *nodes,
                      struct vg_guest_holder *ret_holders, size_t max)
{
    struct look look = {.nodes = nodes, .found = holder_add, .holders = ret_holders, .max = max};
    vg_guest_auto char *proc = vg_guest_format("%s/proc", root);
    vg_guest_auto bool *known = vg_guest_alloc((nodes->n + 1) * sizeof *known);
    DIR *dir = opendir(proc);

    if (!dir)
        return 0;
    look.known = known;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
        if (pid > 0 && pid != getpid())
            holder_look_at(&look, proc, pid);
    }
    closedir(dir);
    return look.total;
}

size_t
vg_guest_holds_find(const char *task, const struct vg_guest_nodes *nodes,
                    struct vg_guest_hold *ret_holds, size_t max)
{
    struct look look = {.nodes = nodes, .found = holder_add_hold, .holds = ret_holds, .max = max};

    holder_look_at_files(&look, task);
    holder_look_at_maps(&look, task);
    return look.total;
}
