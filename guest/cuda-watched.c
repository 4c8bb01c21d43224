/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the records of the agent's watch, for the processes that need them.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "guest/cuda-maps.h"
#include "guest/cuda-watch-file.h"
#include "guest/node.h"
#include "guest/process.h"
#include "guest/util.h"

enum {
    /* The time for the agent to check. It may have to place probes. */
    ANSWER_MS = 5000,
    POLL_US = 2000,
    MAPS_MAX = 8,
};

/* Returns whether an agent is running: it holds a lock while it runs. */
static bool
watched_has_agent(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) != 0)
        return errno == EWOULDBLOCK;
    flock(fd, LOCK_UN);
    return false;
}

static bool
watched_ask(int fd, struct vg_cuda_watch_file *file)
{
    int64_t until_ms = vg_guest_now_ms() + ANSWER_MS;
    uint32_t mine = __atomic_add_fetch(&file->asked, 1, __ATOMIC_ACQ_REL);

    while (vg_guest_now_ms() < until_ms && watched_has_agent(fd)) {
        /* Repeat this, because the agent may have started its check just before the request. */
        kill(file->agent, SIGUSR2);
        usleep(POLL_US);
        if ((int32_t)(__atomic_load_n(&file->answered, __ATOMIC_ACQUIRE) - mine) >= 0)
            return true;
    }
    return false;
}

/* Copies the file while the agent does not write to it. */
static bool
watched_copy(const struct vg_cuda_watch_file *file, struct vg_cuda_watch_file *ret)
{
    int64_t until_ms = vg_guest_now_ms() + ANSWER_MS;

    while (vg_guest_now_ms() < until_ms) {
        uint32_t before = __atomic_load_n(&file->sequence, __ATOMIC_ACQUIRE);
        memcpy(ret, file, sizeof *ret);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (before % 2 == 0 && __atomic_load_n(&file->sequence, __ATOMIC_RELAXED) == before)
            return true;
        usleep(POLL_US);
    }
    return false;
}

void
vg_cuda_watch_read(const char *root, struct vg_cuda_watch_file *ret)
{
    vg_guest_auto char *path = vg_guest_format("%s" VG_CUDA_WATCH_PATH, root);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    void *memory = MAP_FAILED;
    const char *why = "no running agent watches CUDA calls";
    struct stat is;

    memset(ret, 0, sizeof *ret);
    if (fd >= 0 && fstat(fd, &is) == 0 && is.st_size == sizeof *ret)
        memory = mmap(NULL, sizeof *ret, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED) {
        bool answered = watched_ask(fd, memory);
        bool copied = watched_copy(memory, ret);
        if (!copied)
            memset(ret, 0, sizeof *ret);
        /* The records of an agent that has ended remain true for running processes. */
        if (answered && copied)
            why = ret->why;
        else if (watched_has_agent(fd))
            why = "the agent that watches CUDA calls does not answer";
        munmap(memory, sizeof *ret);
    }
    if (fd >= 0)
        close(fd);
    vg_guest_auto char *kept = vg_guest_copy(why);
    vg_guest_put(ret->why, sizeof ret->why, "%s", kept);
}

static const struct vg_cuda_seen *
watched_find(const struct vg_cuda_watch_file *file, pid_t pid, uint64_t start)
{
    for (uint32_t i = 0; i < file->n_seen && i < VG_CUDA_SEEN_MAX; i++) {
        if (file->seen[i].pid == pid && file->seen[i].start == start)
            return &file->seen[i];
    }
    return NULL;
}

/* Returns the time since which calls in this copy are seen, or 0. */
static uint64_t
watched_since(const struct vg_cuda_watch_file *file, const struct vg_cuda_map *map)
{
    for (uint32_t i = 0; i < file->n_copies && i < VG_CUDA_COPIES_MAX; i++) {
        if (file->copies[i].device == map->device && file->copies[i].inode == map->inode)
            return file->copies[i].since_ns;
    }
    return 0;
}

bool
vg_cuda_watch_knows(const char *root, const struct vg_cuda_watch_file *file, pid_t pid,
                    uint64_t start, unsigned int *ret_ties, char *ret_why, size_t size)
{
    const struct vg_cuda_seen *seen = watched_find(file, pid, start);
    uint64_t start_ns = start * (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK));
    struct vg_cuda_map maps[MAPS_MAX];
    size_t n = vg_cuda_maps_read(root, pid, maps, MAPS_MAX);
    bool covered = n > 0, after = true;

    *ret_ties = seen ? seen->ties : 0;
    ret_why[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        uint64_t since_ns = watched_since(file, &maps[i]);
        covered = covered && since_ns > 0;
        after = after && start_ns > since_ns;
    }
    if (*file->why)
        vg_guest_put(ret_why, size, "%s", file->why);
    else if (start_ns <= file->lost_ns)
        vg_guest_put(ret_why, size,
                     "the kernel has lost records of CUDA calls since the program started");
    else if (!covered || (!after && !(seen && seen->watched)))
        vg_guest_put(ret_why, size, "it used CUDA before its calls were watched");
    return ret_why[0] == '\0';
}

const struct vg_cuda_history *
vg_cuda_watch_history(const struct vg_cuda_watch_file *file, pid_t pid, uint64_t start)
{
    const struct vg_cuda_seen *seen = watched_find(file, pid, start);

    return seen ? &file->histories[seen - file->seen] : NULL;
}

pid_t
vg_cuda_watch_exporter(const char *root, const struct vg_cuda_watch_file *file, pid_t pid)
{
    struct vg_guest_process process;
    pid_t found = 0;

    for (uint32_t i = 0; i < file->n_seen && i < VG_CUDA_SEEN_MAX; i++) {
        const struct vg_cuda_seen *seen = &file->seen[i];
        if (seen->pid == pid || !(seen->ties & VG_CUDA_TIE_EXPORT) ||
            vg_guest_process_read(root, seen->pid, &process) != 0 || process.start != seen->start)
            continue;
        if (found > 0)
            return 0;
        found = seen->pid;
    }
    return found;
}

struct users {
    const char *root;
    bool (*is_known)(void *user, pid_t pid);
    void *user;
    size_t n;
};

/* Returns whether a descriptor in the directory dir is an NVIDIA node: a device of its driver, or a
 * file where the guest has such nodes. The name alone proves nothing, because any user may give it
 * to a file in their own namespace. */
static bool
watched_is_node(const char *dev, int dir, const char *name)
{
    struct stat st, at;

    if (fstatat(dir, name, &st, 0) != 0)
        return false;
    return (S_ISCHR(st.st_mode) && major(st.st_rdev) == VG_NVIDIA_MAJOR) ||
           (stat(dev, &at) == 0 && st.st_dev == at.st_dev);
}

/* Returns whether a process has an NVIDIA device node open. */
static bool
watched_has_node(const char *root, pid_t pid)
{
    vg_guest_auto char *path = vg_guest_format("%s/proc/%d/fd", root, (int)pid);
    vg_guest_auto char *dev = vg_guest_format("%s/dev", root);
    vg_guest_auto char *nodes = vg_guest_format("%s/nvidia", dev);
    DIR *dir = opendir(path);
    bool found = false;

    for (struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        char target[PATH_MAX];
        ssize_t size = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        target[size > 0 ? size : 0] = '\0';
        found = (strncmp(target, nodes, strlen(nodes)) == 0 ||
                 strncmp(target, "/dev/nvidia", strlen("/dev/nvidia")) == 0) &&
                watched_is_node(dev, dirfd(dir), entry->d_name);
    }
    if (dir)
        closedir(dir);
    return found;
}

static void
watched_count(void *user, pid_t pid)
{
    struct users *users = user;
    struct vg_guest_process process;
    struct vg_cuda_map map;

    /* The agent's own processes are children of this one. */
    if (users->is_known(users->user, pid) ||
        vg_guest_process_read(users->root, pid, &process) != 0 || process.parent == getpid())
        return;
    if (watched_has_node(users->root, pid) && vg_cuda_maps_read(users->root, pid, &map, 1) > 0)
        users->n++;
}

size_t
vg_cuda_watch_count_users(const char *root, bool (*is_known)(void *user, pid_t pid), void *user)
{
    struct users users = {.root = root, .is_known = is_known, .user = user};

    vg_guest_process_each(root, watched_count, &users);
    return users.n;
}
