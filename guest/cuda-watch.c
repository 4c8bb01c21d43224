/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/cuda-watch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "guest/cuda-history.h"
#include "guest/cuda-maps.h"
#include "guest/cuda-watch-file.h"
#include "guest/elf.h"
#include "guest/perf-rings.h"
#include "guest/process.h"
#include "guest/util.h"

enum {
    /* The maximum numbers of mappings of libcuda in a process, and of paths. */
    MAPS_MAX = 8,
    PATHS_MAX = 16,
    /* A probe's mark consists of the index of the copy and that of the call. */
    MARK_SHIFT = 8,
    MARK_CALLS = (1 << MARK_SHIFT) - 1,
};

/* The directories where programs find the library, so that its probes are in place before the first
 * of them starts. */
static const char *const usual_dirs[] = {
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
    "/usr/local/nvidia/lib64",
};

/* A path that programs would open, and the identity of its file at the last check. */
struct usual {
    char *path;
    dev_t device;
    ino_t inode;
};

struct vg_cuda_watch {
    const char *root;
    int fd;
    struct vg_cuda_watch_file *file;
    vg_perf_rings *rings;
    size_t n_usual;
    struct usual usual[PATHS_MAX];
    /* Copies at usual paths keep their probes even if no process uses them. */
    bool is_usual[VG_CUDA_COPIES_MAX];
    /* Records of mappings have been lost. */
    bool has_to_scan;
};

static uint64_t
watch_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool
watch_lives(const vg_cuda_watch *watch, const struct vg_cuda_seen *seen)
{
    struct vg_guest_process process;

    return vg_guest_process_read(watch->root, seen->pid, &process) == 0 && !process.ended &&
           process.start == seen->start;
}

/* ---- processes ---- */

static void
watch_forget_dead(vg_cuda_watch *watch)
{
    struct vg_cuda_watch_file *file = watch->file;
    uint32_t n = 0;

    for (uint32_t i = 0; i < file->n_seen; i++) {
        if (!watch_lives(watch, &file->seen[i]))
            continue;
        file->seen[n] = file->seen[i];
        file->histories[n++] = file->histories[i];
    }
    file->n_seen = n;
}

/* Finds or adds a process. Returns NULL if it has ended, or if there are too many. In the latter
 * case, nothing is known any more about processes that started before. */
static struct vg_cuda_seen *
watch_find(vg_cuda_watch *watch, pid_t pid)
{
    struct vg_cuda_watch_file *file = watch->file;
    struct vg_guest_process process;

    if (vg_guest_process_read(watch->root, pid, &process) != 0)
        return NULL;
    for (uint32_t i = 0; i < file->n_seen; i++) {
        if (file->seen[i].pid == pid && file->seen[i].start == process.start)
            return &file->seen[i];
    }
    if (file->n_seen == VG_CUDA_SEEN_MAX)
        watch_forget_dead(watch);
    if (file->n_seen == VG_CUDA_SEEN_MAX) {
        file->lost_ns = watch_now_ns();
        return NULL;
    }
    struct vg_cuda_seen *seen = &file->seen[file->n_seen];
    file->histories[file->n_seen++] = (struct vg_cuda_history){0};
    *seen = (struct vg_cuda_seen){.pid = pid, .start = process.start, .copy = VG_CUDA_COPIES_MAX};
    return seen;
}

static void
watch_called(void *user, pid_t pid, uint32_t mark, const uint64_t *values, size_t n)
{
    vg_cuda_watch *watch = user;
    struct vg_cuda_seen *seen = watch_find(watch, pid);
    size_t call = mark & MARK_CALLS;

    if (!seen || call >= vg_cuda_functions_n || n == 0)
        return;
    const struct vg_cuda_function *function = &vg_cuda_functions[call];
    struct vg_cuda_history *history = &watch->file->histories[seen - watch->file->seen];
    if (!vg_cuda_history_take(history, call, values, n))
        return;
    bool is_new = (seen->ties & function->tie) != function->tie;
    seen->ties |= function->tie;
    if (vg_cuda_history_wants_caller(history, call)) {
        char library[VG_CUDA_LIBRARY_NAME_MAX];
        is_new = is_new || function->tie == 0;
        vg_cuda_maps_name(watch->root, pid, values[0], library, sizeof library);
        vg_cuda_history_take_caller(history, call, library);
    }
    if (is_new)
        vg_guest_log(LOG_INFO, "CUDA call seen pid=%d call=%s", (int)pid, function->name);
}

/* ---- copies of the library ---- */

static struct vg_cuda_copy *
watch_find_copy(struct vg_cuda_watch_file *file, uint64_t device, uint64_t inode)
{
    for (uint32_t i = 0; i < file->n_copies; i++) {
        if (file->copies[i].device == device && file->copies[i].inode == inode)
            return &file->copies[i];
    }
    return NULL;
}

static void
watch_drop_probes(vg_cuda_watch *watch, size_t i)
{
    vg_perf_rings_remove(watch->rings, (uint32_t)i << MARK_SHIFT, MARK_CALLS);
    watch->file->copies[i].since_ns = 0;
}

/* Finds a free entry for a copy: a new one, or that of a copy without probes. */
static struct vg_cuda_copy *
watch_add_copy(struct vg_cuda_watch_file *file, uint64_t device, uint64_t inode)
{
    struct vg_cuda_copy *copy = NULL;

    if (file->n_copies < VG_CUDA_COPIES_MAX)
        copy = &file->copies[file->n_copies++];
    for (uint32_t i = 0; i < file->n_copies && !copy; i++)
        copy = file->copies[i].since_ns == 0 ? &file->copies[i] : NULL;
    if (copy)
        *copy = (struct vg_cuda_copy){.device = device, .inode = inode};
    return copy;
}

static int
watch_place_in(vg_cuda_watch *watch, size_t i, int fd, const uint64_t *offsets)
{
    size_t placed = 0;

    for (size_t k = 0; k < vg_cuda_functions_n; k++) {
        const struct vg_cuda_function *function = &vg_cuda_functions[k];
        const struct vg_perf_point point = {
            .offset = offsets[k],
            .mark = (uint32_t)(i << MARK_SHIFT | k),
            .values = vg_cuda_function_values(function),
            .at_least = vg_cuda_function_is_sized(function) ? VG_CUDA_LARGE_BYTES : 0};
        if (offsets[k] == 0)
            continue;
        int error = vg_perf_rings_probe(watch->rings, fd, &point);
        if (error != 0)
            return error;
        placed++;
    }
    return placed > 0 ? 0 : ENOENT;
}

/* Places the probes of a copy that can be opened through this path. */
static void
watch_place(vg_cuda_watch *watch, struct vg_cuda_copy *copy, const char *path)
{
    const char *names[MARK_CALLS];
    uint64_t offsets[MARK_CALLS];
    size_t i = (size_t)(copy - watch->file->copies);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), error = ENOEXEC;

    for (size_t k = 0; k < vg_cuda_functions_n; k++)
        names[k] = vg_cuda_functions[k].name;
    if (fd < 0)
        error = errno;
    else if (vg_guest_elf_find(fd, names, vg_cuda_functions_n, offsets) == 0)
        error = watch_place_in(watch, i, fd, offsets);
    if (fd >= 0)
        close(fd);
    if (error != 0) {
        watch_drop_probes(watch, i);
        vg_guest_put(copy->why, sizeof copy->why, "it cannot be probed: %s", strerror(error));
        vg_guest_log(LOG_WARNING, "no probes in libcuda path='%s' error='%s'", path,
                     strerror(error));
        return;
    }
    copy->why[0] = '\0';
    copy->since_ns = watch_now_ns();
    vg_guest_log(LOG_INFO, "probes placed in libcuda path='%s'", path);
}

/* Places probes in the library that a process has mapped, if it has none. Returns the copy, or
 * NULL. */
static struct vg_cuda_copy *
watch_cover(vg_cuda_watch *watch, pid_t pid, const struct vg_cuda_map *map)
{
    struct vg_cuda_copy *copy = watch_find_copy(watch->file, map->device, map->inode);
    /* This is the file itself in any mount namespace, even if it has been removed. */
    vg_guest_auto char *path = vg_guest_format("%s/proc/%d/map_files/%" PRIx64 "-%" PRIx64,
                                               watch->root, (int)pid, map->begin, map->end);

    if (!copy)
        copy = watch_add_copy(watch->file, map->device, map->inode);
    if (copy && copy->since_ns == 0)
        watch_place(watch, copy, path);
    return copy;
}

/* Notes that a process has mapped the library at this time. Time 0 means unknown, and does not
 * change a known process. */
static void
watch_take_process(vg_cuda_watch *watch, pid_t pid, uint64_t time_ns)
{
    struct vg_cuda_map maps[MAPS_MAX];
    size_t n = pid == getpid() ? 0 : vg_cuda_maps_read(watch->root, pid, maps, MAPS_MAX);
    struct vg_cuda_seen *seen = n > 0 ? watch_find(watch, pid) : NULL;
    bool watched = seen && (time_ns > 0 || seen->watched);

    if (!seen)
        return;
    for (size_t i = 0; i < n; i++) {
        struct vg_cuda_copy *copy = watch_find_copy(watch->file, maps[i].device, maps[i].inode);
        watched =
            watched && copy && copy->since_ns > 0 && (time_ns == 0 || copy->since_ns < time_ns);
        copy = watch_cover(watch, pid, &maps[i]);
        if (copy)
            seen->copy = (uint32_t)(copy - watch->file->copies);
    }
    seen->watched = watched;
}

static void
watch_mapped(void *user, pid_t pid, uint64_t time_ns, const char *path)
{
    if (vg_cuda_maps_is_libcuda(path))
        watch_take_process(user, pid, time_ns);
}

static void
watch_scan(void *user, pid_t pid)
{
    watch_take_process(user, pid, 0);
}

static void
watch_lost(void *user, bool calls)
{
    vg_cuda_watch *watch = user;

    if (calls)
        watch->file->lost_ns = watch_now_ns();
    else
        watch->has_to_scan = true;
}

/* Checks the usual paths: the library may be installed, or replaced by an upgrade. */
static void
watch_look_at_usual(vg_cuda_watch *watch)
{
    for (size_t i = 0; i < watch->n_usual; i++) {
        struct usual *usual = &watch->usual[i];
        uint64_t device, inode;
        struct stat is;
        if (stat(usual->path, &is) != 0 ||
            (is.st_dev == usual->device && is.st_ino == usual->inode))
            continue;
        usual->device = is.st_dev;
        usual->inode = is.st_ino;
        if (vg_cuda_maps_identify(usual->path, &device, &inode) != 0)
            continue;
        struct vg_cuda_copy *copy = watch_find_copy(watch->file, device, inode);
        if (!copy)
            copy = watch_add_copy(watch->file, device, inode);
        if (!copy)
            continue;
        if (copy->since_ns == 0)
            watch_place(watch, copy, usual->path);
        watch->is_usual[copy - watch->file->copies] = copy->since_ns > 0;
    }
}

/* Removes the probes from copies that no process uses any more. A probe keeps the mount of its file
 * busy, and a container's mount must be released when the container has ended. */
static void
watch_leave_unused(vg_cuda_watch *watch)
{
    struct vg_cuda_watch_file *file = watch->file;
    bool used[VG_CUDA_COPIES_MAX + 1] = {false};
    bool asked = false;

    for (uint32_t i = 0; i < file->n_copies; i++)
        asked = asked || (file->copies[i].since_ns > 0 && !watch->is_usual[i]);
    for (uint32_t i = 0; i < file->n_seen && asked; i++) {
        uint32_t copy = file->seen[i].copy;
        if (copy < VG_CUDA_COPIES_MAX && !used[copy] && watch_lives(watch, &file->seen[i]))
            used[copy] = true;
    }
    for (uint32_t i = 0; i < file->n_copies && asked; i++) {
        if (file->copies[i].since_ns > 0 && !watch->is_usual[i] && !used[i])
            watch_drop_probes(watch, i);
    }
}

/* ---- the file ---- */

/* Opens the file. It keeps the records of an earlier agent about processes, but these no longer
 * count as watched, because they were not watched in the meantime. Returns 0, or an errno. */
static int
watch_open_file(vg_cuda_watch *watch)
{
    vg_guest_auto char *path = vg_guest_format("%s" VG_CUDA_WATCH_PATH, watch->root);
    static const char magic[sizeof watch->file->magic] = VG_CUDA_WATCH_MAGIC;
    static const char magic_1[sizeof watch->file->magic] = VG_CUDA_WATCH_MAGIC_1;
    struct stat is;

    watch->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (watch->fd < 0)
        return errno;
    if (flock(watch->fd, LOCK_EX | LOCK_NB) != 0)
        return errno;
    if (fstat(watch->fd, &is) != 0 || ftruncate(watch->fd, sizeof *watch->file) != 0)
        return errno;
    void *memory =
        mmap(NULL, sizeof *watch->file, PROT_READ | PROT_WRITE, MAP_SHARED, watch->fd, 0);
    if (memory == MAP_FAILED)
        return errno;
    /* A mapping keeps the lock, and a process that the agent has started may live longer. */
    madvise(memory, sizeof *watch->file, MADV_DONTFORK);
    watch->file = memory;
    struct vg_cuda_watch_file *file = watch->file;
    bool known = is.st_size == sizeof *file && memcmp(file->magic, magic, sizeof magic) == 0;
    bool known_1 = is.st_size == offsetof(struct vg_cuda_watch_file, histories) &&
                   memcmp(file->magic, magic_1, sizeof magic_1) == 0;
    if ((!known && !known_1) || file->n_seen > VG_CUDA_SEEN_MAX)
        memset(file, 0, sizeof *file);
    memcpy(file->magic, magic, sizeof magic);
    file->agent = getpid();
    file->sequence = 0;
    file->answered = file->asked;
    file->lost_ns = 0;
    file->n_copies = 0;
    file->why[0] = '\0';
    watch_forget_dead(watch);
    for (uint32_t i = 0; i < file->n_seen; i++) {
        file->seen[i].watched = 0;
        file->seen[i].copy = VG_CUDA_COPIES_MAX;
    }
    return 0;
}

static void
watch_write_begin(vg_cuda_watch *watch)
{
    __atomic_add_fetch(&watch->file->sequence, 1, __ATOMIC_ACQ_REL);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void
watch_write_end(vg_cuda_watch *watch)
{
    __atomic_add_fetch(&watch->file->sequence, 1, __ATOMIC_RELEASE);
}

/* ---- the parts ---- */

static void
watch_open_rings(vg_cuda_watch *watch)
{
    struct vg_cuda_watch_file *file = watch->file;

    vg_perf_rings_close(watch->rings);
    file->n_copies = 0;
    memset(watch->is_usual, 0, sizeof watch->is_usual);
    for (size_t i = 0; i < watch->n_usual; i++)
        watch->usual[i].inode = 0;
    for (uint32_t i = 0; i < file->n_seen; i++) {
        file->seen[i].watched = 0;
        file->seen[i].copy = VG_CUDA_COPIES_MAX;
    }
    watch->rings = vg_perf_rings_open(file->why, sizeof file->why);
    if (!watch->rings) {
        vg_guest_log(LOG_WARNING, "CUDA calls are not watched why='%s'", file->why);
        return;
    }
    watch_look_at_usual(watch);
    vg_guest_process_each(watch->root, watch_scan, watch);
}

static void
watch_add_usual(vg_cuda_watch *watch, const char *root, const char *dir, size_t length)
{
    if (length > 0 && watch->n_usual < PATHS_MAX)
        watch->usual[watch->n_usual++].path =
            vg_guest_format("%s%.*s/libcuda.so.1", root, (int)length, dir);
}

vg_cuda_watch *
vg_cuda_watch_start(const struct vg_guest_config *config)
{
    vg_cuda_watch *watch = vg_guest_alloc(sizeof *watch);
    const char *dirs = getenv("LD_LIBRARY_PATH");

    watch->root = config->root;
    watch->fd = -1;
    for (; dirs && *dirs; dirs += strspn(dirs, ":"))
        watch_add_usual(watch, "", dirs, strcspn(dirs, ":")), dirs += strcspn(dirs, ":");
    for (size_t i = 0; i < sizeof usual_dirs / sizeof *usual_dirs; i++)
        watch_add_usual(watch, config->root, usual_dirs[i], strlen(usual_dirs[i]));
    int error = watch_open_file(watch);
    if (error != 0) {
        vg_guest_log(
            LOG_WARNING, "CUDA calls are not watched path='%s" VG_CUDA_WATCH_PATH "' error='%s'",
            watch->root, error == EWOULDBLOCK ? "another agent has locked it" : strerror(error));
        vg_cuda_watch_end(watch);
        return NULL;
    }
    watch_write_begin(watch);
    watch_open_rings(watch);
    watch_write_end(watch);
    return watch;
}

void
vg_cuda_watch_look(vg_cuda_watch *watch)
{
    static const struct vg_perf_ops ops = {
        .mapped = watch_mapped, .called = watch_called, .lost = watch_lost};
    uint32_t asked = __atomic_load_n(&watch->file->asked, __ATOMIC_ACQUIRE);

    watch_write_begin(watch);
    if (watch->rings && vg_perf_rings_are_stale(watch->rings))
        watch_open_rings(watch);
    if (watch->rings) {
        vg_perf_rings_read(watch->rings, &ops, watch);
        if (watch->has_to_scan)
            vg_guest_process_each(watch->root, watch_scan, watch);
        watch->has_to_scan = false;
        watch_look_at_usual(watch);
        watch_leave_unused(watch);
    }
    watch_write_end(watch);
    __atomic_store_n(&watch->file->answered, asked, __ATOMIC_RELEASE);
}

void
vg_cuda_watch_end(vg_cuda_watch *watch)
{
    if (!watch)
        return;
    vg_perf_rings_close(watch->rings);
    if (watch->file)
        munmap(watch->file, sizeof *watch->file);
    if (watch->fd >= 0)
        close(watch->fd);
    for (size_t i = 0; i < watch->n_usual; i++)
        free(watch->usual[i].path);
    free(watch);
}
