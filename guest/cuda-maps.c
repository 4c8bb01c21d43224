/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/cuda-maps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "guest/util.h"

bool
vg_cuda_maps_is_libcuda(const char *path)
{
    const char *name = strrchr(path, '/');

    return name && strncmp(name, "/libcuda.so", strlen("/libcuda.so")) == 0;
}

/* Reads one line of /proc/PID/maps. Returns whether it is code from a file. *ret_path is then its
 * path, a part of the line. */
static bool
maps_parse(char *line, struct vg_cuda_map *ret, char **ret_path)
{
    unsigned int major_number, minor_number;
    char code;
    int at = 0;

    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*2c%c%*c %*x %x:%x %" SCNu64 " %n", &ret->begin,
               &ret->end, &code, &major_number, &minor_number, &ret->inode, &at) < 6 ||
        at == 0)
        return false;
    ret->device = makedev(major_number, minor_number);
    *ret_path = line + at;
    return code == 'x' && ret->inode != 0;
}

static FILE *
maps_open(const char *root, pid_t pid)
{
    vg_guest_auto char *path = vg_guest_format("%s/proc/%d/maps", root, (int)pid);

    return fopen(path, "re");
}

size_t
vg_cuda_maps_read(const char *root, pid_t pid, struct vg_cuda_map *ret_maps, size_t max)
{
    FILE *file = maps_open(root, pid);
    char *line = NULL, *path;
    size_t size = 0, n = 0;

    while (file && n < max && getline(&line, &size, file) > 0) {
        /* The path may be followed by " (deleted)". */
        if (maps_parse(line, &ret_maps[n], &path) && vg_cuda_maps_is_libcuda(path))
            n++;
    }
    free(line);
    if (file)
        fclose(file);
    return n;
}

/* Returns the last component of a path in /proc/PID/maps, and removes what follows it. */
static const char *
maps_name(char *path)
{
    static const char deleted[] = " (deleted)";

    path[strcspn(path, "\n")] = '\0';
    size_t length = strlen(path), extra = strlen(deleted);
    if (length > extra && strcmp(path + length - extra, deleted) == 0)
        path[length - extra] = '\0';
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void
vg_cuda_maps_name(const char *root, pid_t pid, uint64_t address, char *ret, size_t size)
{
    FILE *file = maps_open(root, pid);
    char *line = NULL, *path;
    struct vg_cuda_map map;
    size_t room = 0;
    bool found = false;

    ret[0] = '\0';
    while (file && !found && getline(&line, &room, file) > 0) {
        found = maps_parse(line, &map, &path) && address >= map.begin && address < map.end;
        if (!found)
            continue;
        /* A process may give its files any name. */
        vg_guest_auto char *name = vg_guest_clean(maps_name(path), size - 1);
        vg_guest_put(ret, size, "%s", name);
    }
    free(line);
    if (file)
        fclose(file);
}

unsigned int
vg_cuda_maps_library(const char *name)
{
    static const struct {
        const char *begin;
        enum vg_cuda_library library;
    } names[] = {
        {"libnccl.so", VG_CUDA_LIBRARY_NCCL},      {"libtorch_cuda", VG_CUDA_LIBRARY_TORCH},
        {"libc10_cuda", VG_CUDA_LIBRARY_TORCH},    {"xla_cuda_plugin.so", VG_CUDA_LIBRARY_XLA},
        {"xla_extension.so", VG_CUDA_LIBRARY_XLA}, {"libjax_common.so", VG_CUDA_LIBRARY_XLA},
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strncmp(name, names[i].begin, strlen(names[i].begin)) == 0)
            return names[i].library;
    }
    return 0;
}

unsigned int
vg_cuda_maps_libraries(const char *root, pid_t pid)
{
    FILE *file = maps_open(root, pid);
    char *line = NULL, *path;
    struct vg_cuda_map map;
    unsigned int libraries = 0;
    size_t room = 0;

    while (file && getline(&line, &room, file) > 0) {
        if (maps_parse(line, &map, &path))
            libraries |= vg_cuda_maps_library(maps_name(path));
    }
    free(line);
    if (file)
        fclose(file);
    return libraries;
}

int
vg_cuda_maps_identify(const char *path, uint64_t *ret_device, uint64_t *ret_inode)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), error = ENOENT;
    char *line = NULL, *ignored;
    struct vg_cuda_map map;
    size_t size = 0;

    if (fd < 0)
        return errno;
    void *page = mmap(NULL, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    close(fd);
    if (page == MAP_FAILED)
        return errno;
    FILE *file = maps_open("", getpid());
    while (file && error != 0 && getline(&line, &size, file) > 0) {
        if (!maps_parse(line, &map, &ignored) || map.begin != (uint64_t)(uintptr_t)page)
            continue;
        *ret_device = map.device;
        *ret_inode = map.inode;
        error = 0;
    }
    free(line);
    if (file)
        fclose(file);
    munmap(page, 1);
    return error;
}
