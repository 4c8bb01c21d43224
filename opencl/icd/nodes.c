/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/icd/nodes.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <dlfcn.h>

#define OTHERS_MAX 256

static const char *const nodes_prefixes[] = {"/dev/nvidia", "/dev/dri/", "/dev/kfd"};

static int nodes_others[OTHERS_MAX];
static unsigned nodes_others_n;

/* Tests have their own node. */
static bool
nodes_is_one(const char *path)
{
    const char *more = secure_getenv("VGPU_OPENCL_NODES");

    for (size_t i = 0; i < sizeof nodes_prefixes / sizeof *nodes_prefixes; i++)
        if (strncmp(path, nodes_prefixes[i], strlen(nodes_prefixes[i])) == 0)
            return true;
    return more && *more && strncmp(path, more, strlen(more)) == 0;
}

/* Calls EACH with each descriptor of a node. Stops when it returns false. */
static void
nodes_each_fd(bool (*each)(int fd, const char *path, void *data), void *data)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        char path[512];
        ssize_t size = readlinkat(dirfd(dir), entry->d_name, path, sizeof path - 1);
        if (size <= 0)
            continue;
        path[size] = '\0';
        if (nodes_is_one(path) && !each(atoi(entry->d_name), path, data))
            break;
    }
    if (dir)
        closedir(dir);
}

static void
nodes_each_map(bool (*each)(uintptr_t from, uintptr_t to, const char *path, void *data), void *data)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t room = 0;

    while (maps && getline(&line, &room, maps) > 0) {
        char *path = strchr(line, '/');
        char *end;
        if (!path)
            continue;
        path[strcspn(path, "\n")] = '\0';
        uintptr_t from = strtoul(line, &end, 16);
        uintptr_t to = *end == '-' ? strtoul(end + 1, NULL, 16) : from;
        if (nodes_is_one(path) && !each(from, to, path, data))
            break;
    }
    free(line);
    if (maps)
        fclose(maps);
}

/* ---- drivers of other kinds of programs ---- */

/* These drivers are loaded at their first use: many programs link libva or libEGL without using
 * them. Some vendors' OpenCL libraries use one, too. NVIDIA's does not use libnvidia-ml. */
static const char *const nodes_drivers[] = {
    "libnvidia-glcore", "libnvidia-eglcore", "libnvidia-ml.so", "libvulkan_",
    "libgallium",       "_dri.so",           "_drv_video.so"};

#define DRIVERS (sizeof nodes_drivers / sizeof *nodes_drivers)

static unsigned nodes_before; /* a bit for each driver that was loaded before the vendors, */
static unsigned nodes_after;  /* and after them */

static unsigned
nodes_loaded_drivers(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t room = 0;
    unsigned found = 0;

    while (maps && getline(&line, &room, maps) > 0) {
        const char *file = strrchr(line, '/');
        for (size_t i = 0; file && i < DRIVERS; i++)
            if (strstr(file + 1, nodes_drivers[i]))
                found |= 1u << i;
    }
    free(line);
    if (maps)
        fclose(maps);
    return found;
}

/* NVIDIA's OpenCL loads CUDA's driver and leaves it loaded. However, only programs that use CUDA
 * itself call cuInit(). Before that, no other call succeeds, nor while the program ends. */
static bool
nodes_cuda_is_used(void)
{
    const int not_initialized = 3, deinitialized = 4;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    int n;

    if (!driver)
        return false;
    int (*count)(int *) = (int (*)(int *))dlsym(driver, "cuDeviceGetCount");
    int result = count ? count(&n) : 0;
    dlclose(driver);
    return result != not_initialized && result != deinitialized;
}

void
vg_cl_nodes_note_vendors(void)
{
    nodes_after = nodes_loaded_drivers();
}

static bool
nodes_name_first(unsigned drivers, char *name, size_t size)
{
    if (drivers)
        snprintf(name, size, "%s", nodes_drivers[__builtin_ctz(drivers)]);
    else if (nodes_cuda_is_used())
        snprintf(name, size, "CUDA");
    else
        return false;
    return true;
}

bool
vg_cl_nodes_are_shared(char *name, size_t size)
{
    unsigned vendors = nodes_after & ~nodes_before;

    return nodes_name_first(nodes_loaded_drivers() & ~vendors, name, size);
}

bool
vg_cl_nodes_are_used(char *name, size_t size)
{
    return nodes_name_first(nodes_loaded_drivers(), name, size);
}

/* ---- nodes ---- */

static bool
nodes_is_other(int fd)
{
    for (unsigned i = 0; i < nodes_others_n; i++)
        if (nodes_others[i] == fd)
            return true;
    return false;
}

static bool
nodes_note_fd(int fd, const char *path, void *data)
{
    (void)path;
    (void)data;
    if (nodes_others_n < OTHERS_MAX)
        nodes_others[nodes_others_n++] = fd;
    return true;
}

void
vg_cl_nodes_note(void)
{
    nodes_others_n = 0;
    nodes_each_fd(nodes_note_fd, NULL);
    nodes_before = nodes_loaded_drivers();
}

static bool
nodes_close(int fd, const char *path, void *data)
{
    unsigned *n = data;

    (void)path;
    if (!nodes_is_other(fd) && close(fd) == 0)
        ++*n;
    return true;
}

/* One at a time, because unmapping changes the list that is being read. */
static bool
nodes_unmap(uintptr_t from, uintptr_t to, const char *path, void *data)
{
    unsigned *n = data;

    (void)path;
    if (munmap((void *)from, to - from) == 0)
        ++*n;
    return false;
}

unsigned
vg_cl_nodes_let_go(void)
{
    unsigned n = 0, before;

    nodes_each_fd(nodes_close, &n);
    if (nodes_others_n)
        return n;
    do {
        before = n;
        nodes_each_map(nodes_unmap, &n);
    } while (n != before);
    return n;
}

struct nodes_left {
    char *path;
    size_t size;
    unsigned n;
};

static bool
nodes_see(const char *path, struct nodes_left *left)
{
    if (left->n++ == 0)
        snprintf(left->path, left->size, "%s", path);
    return true;
}

static bool
nodes_see_fd(int fd, const char *path, void *data)
{
    (void)fd;
    return nodes_see(path, data);
}

static bool
nodes_see_map(uintptr_t from, uintptr_t to, const char *path, void *data)
{
    (void)from;
    (void)to;
    return nodes_see(path, data);
}

unsigned
vg_cl_nodes_left(char *path, size_t size)
{
    struct nodes_left left = {.path = path, .size = size};

    nodes_each_fd(nodes_see_fd, &left);
    nodes_each_map(nodes_see_map, &left);
    return left.n;
}
