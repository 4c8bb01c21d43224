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

/* Reads one line of /proc/PID/maps. Returns whether it is code from a file, whose path is put into
 * *ret_path as a part of the line. */
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
