/* SPDX-License-Identifier: Apache-2.0
 *
 * A vendor of OpenCL: PoCL, with a device node (the file that VG_NODE names) that it opens and maps
 * when it is loaded. What VG_LEAK names it leaves when it is unloaded: "descriptor", "map", or
 * both. "thread": a thread of it opens the node again and again, as long as there is the process.
 * VG_DRIVER is CUDA's driver, which it uses; "driver": that is not unloaded; "init": somebody calls
 * cuInit().
 */
#include "config.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <dlfcn.h>

void *clGetExtensionFunctionAddress(const char *name);

static int node = -1;
static void *map, *driver;

static bool
leaks(const char *what)
{
    const char *all = getenv("VG_LEAK");

    return all && strstr(all, what);
}

__attribute__((constructor)) static void
load(void)
{
    const char *path = getenv("VG_NODE"), *library = getenv("VG_DRIVER");

    driver = library ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (driver && leaks("init"))
        ((int (*)(unsigned))dlsym(driver, "cuInit"))(0);
    node = open(path, O_RDWR | O_CLOEXEC);
    map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, node, 0);
}

__attribute__((destructor)) static void
unload(void)
{
    if (!leaks("map"))
        munmap(map, 4096);
    if (!leaks("descriptor"))
        close(node);
    if (driver && !leaks("driver"))
        dlclose(driver);
}

__attribute__((visibility("default"))) void *
clGetExtensionFunctionAddress(const char *name)
{
    void *pocl = dlopen("libpocl.so.2", RTLD_NOW | RTLD_LOCAL);
    void *(*get)(const char *) =
        pocl ? (void *(*)(const char *))dlsym(pocl, "clGetExtensionFunctionAddress") : NULL;

    return get ? get(name) : NULL;
}
