/* SPDX-License-Identifier: Apache-2.0
 *
 * A vendor of OpenCL: PoCL, with a device node (the file that VG_NODE names) that it opens and maps
 * when it is loaded. What VG_LEAK names it leaves when it is unloaded: "descriptor", "map", or
 * both. VG_DRIVER is CUDA's driver, which it uses; "driver": that is not unloaded; "init": somebody
 * calls cuInit(). Without the node there is no platform.
 *
 * The file that VG_FAULTS names says what goes wrong now: "hang-load" or "hang-unload", for as long
 * as it says so, "crash-load", "crash-unload", or "none": there is no platform.
 */
#include "config.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
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

static bool
fault(const char *what)
{
    const char *path = getenv("VG_FAULTS");
    char text[64] = "";
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        ssize_t got = read(fd, text, sizeof text - 1);
        text[got > 0 ? got : 0] = '\0';
        text[strcspn(text, "\n")] = '\0';
        close(fd);
    }
    return strcmp(text, what) == 0;
}

static void
go_wrong(const char *hang, const char *crash)
{
    while (fault(hang))
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    if (fault(crash))
        abort();
}

__attribute__((constructor)) static void
load(void)
{
    const char *path = getenv("VG_NODE"), *library = getenv("VG_DRIVER");

    go_wrong("hang-load", "crash-load");

    driver = library ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (driver && leaks("init"))
        ((int (*)(unsigned))dlsym(driver, "cuInit"))(0);
    node = open(path, O_RDWR | O_CLOEXEC);
    map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, node, 0);
}

__attribute__((destructor)) static void
unload(void)
{
    go_wrong("hang-unload", "crash-unload");
    if (!leaks("map") && map != MAP_FAILED)
        munmap(map, 4096);
    if (!leaks("descriptor") && node >= 0)
        close(node);
    if (driver && !leaks("driver"))
        dlclose(driver);
}

__attribute__((visibility("default"))) void *
clGetExtensionFunctionAddress(const char *name)
{
    void *pocl = node >= 0 && !fault("none") ? dlopen("libpocl.so.2", RTLD_NOW | RTLD_LOCAL) : NULL;
    void *(*get)(const char *) =
        pocl ? (void *(*)(const char *))dlsym(pocl, "clGetExtensionFunctionAddress") : NULL;

    return get ? get(name) : NULL;
}
