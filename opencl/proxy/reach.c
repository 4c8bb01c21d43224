/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/reach.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REACH_OPT "/opt/"

static const struct landlock_rule reach_always[] = {
    /* Vendors' libraries, their dependencies, their compilers' headers, and linkers. If /usr is not
     * merged, /bin and /lib are separate directories. */
    {"/usr", LANDLOCK_READ},
    {"/bin", LANDLOCK_READ},
    {"/lib", LANDLOCK_READ},
    {"/lib32", LANDLOCK_READ},
    {"/lib64", LANDLOCK_READ},
    /* Vendors that search for others, and the library paths. */
    {"/etc/OpenCL", LANDLOCK_READ},
    {"/etc/ld.so.cache", LANDLOCK_READ},
    /* Time in messages. */
    {"/etc/localtime", LANDLOCK_READ},
    /* Processors, NUMA nodes and PCI devices. */
    {"/sys", LANDLOCK_READ},
    /* The process's own memory map, limits, and allowed processors: pthread_getattr_np(), hwloc,
     * libcuda. */
    {"/proc/self", LANDLOCK_READ},
    /* The number of processors, and their features: LLVM, hwloc, libcuda. */
    {"/proc/cpuinfo", LANDLOCK_READ},
    {"/proc/stat", LANDLOCK_READ},
    /* The amount of memory: hwloc, libcuda. */
    {"/proc/meminfo", LANDLOCK_READ},
    /* The drivers, and their nodes' numbers: libcuda. */
    {"/proc/devices", LANDLOCK_READ},
    {"/proc/modules", LANDLOCK_READ},
    {"/proc/version", LANDLOCK_READ},
    /* Where memory may be mapped, and how malloc() may allocate it: libcuda, glibc. */
    {"/proc/sys/vm/mmap_min_addr", LANDLOCK_READ},
    {"/proc/sys/vm/overcommit_memory", LANDLOCK_READ},
    {"/proc/sys/vm/max_map_count", LANDLOCK_READ},
    /* Nodes that do not belong to a device. */
    {"/dev/null", LANDLOCK_NODE},
    {"/dev/zero", LANDLOCK_NODE},
    {"/dev/urandom", LANDLOCK_NODE},
    /* GPUs of AMD and Intel. NVIDIA's are found by their names. */
    {"/dev/dri", LANDLOCK_NODE},
    {"/dev/kfd", LANDLOCK_NODE},
    /* Own directories of limited size: temporary files, caches, shared memory and semaphores. */
    {REACH_ROOM, LANDLOCK_ROOM},
    {REACH_TMP, LANDLOCK_ROOM}, /* also under its other name, /tmp */
};

static bool
reach_add(struct proxy_reach *reach, const char *path, enum landlock_use use)
{
    if (reach->n == REACH_MAX) {
        errno = E2BIG;
        return false;
    }
    char *owned = strdup(path);
    if (!owned)
        return false;
    reach->owned[reach->n_owned++] = owned;
    reach->rules[reach->n++] = (struct landlock_rule){owned, use};
    return true;
}

/* Adds the entries of FOLDER whose names start with nvidia. */
static bool
reach_add_nvidia(struct proxy_reach *reach, const char *folder, enum landlock_use use)
{
    char path[PATH_MAX];
    DIR *all = opendir(folder);
    bool ok = true;

    for (const struct dirent *one; all && ok && (one = readdir(all));) {
        if (strncmp(one->d_name, "nvidia", 6) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, one->d_name);
        ok = reach_add(reach, path, use);
    }
    if (all)
        closedir(all);
    return ok;
}

/* Directories that also contain other files: if a library is there, only the file itself may be
 * opened. */
static bool
reach_is_broad(const char *folder)
{
    static const char *const broad[] = {"",      "/dev", "/etc", "/home", "/opt", "/proc",
                                        "/root", "/run", "/srv", "/tmp",  "/var", "/var/tmp"};

    for (size_t i = 0; i < sizeof broad / sizeof *broad; i++)
        if (strcmp(folder, broad[i]) == 0)
            return true;
    return false;
}

/* Adds the directory of a library and, below /opt, that of its package, whose other directories it
 * may need. LIBRARY may be a directory, if it ends with a slash. */
static bool
reach_add_library(struct proxy_reach *reach, const char *library)
{
    char folder[PATH_MAX];

    snprintf(folder, sizeof folder, "%s", library);
    char *end = strrchr(folder, '/');
    if (strncmp(folder, REACH_OPT, sizeof REACH_OPT - 1) == 0 &&
        strchr(folder + sizeof REACH_OPT - 1, '/'))
        end = strchr(folder + sizeof REACH_OPT - 1, '/');
    *end = '\0';
    if (!reach_is_broad(folder))
        return reach_add(reach, folder, LANDLOCK_READ);
    return library[strlen(library) - 1] == '/' || reach_add(reach, library, LANDLOCK_READ);
}

/* Adds the library in an .icd file: its path, and the target of links. A name without a directory
 * is found like any library. */
static bool
reach_add_icd(struct proxy_reach *reach, const char *path)
{
    char line[512] = "", *real = NULL;
    FILE *file = fopen(path, "re");

    if (!file)
        return true;
    if (fgets(line, sizeof line, file))
        line[strcspn(line, "\r\n")] = '\0';
    fclose(file);
    if (line[0] != '/')
        return true;
    bool ok = reach_add_library(reach, line);
    real = realpath(line, NULL);
    ok = ok && (!real || reach_add_library(reach, real));
    free(real);
    return ok;
}

/* Adds the library directories in a file of ld.so.conf.d, one per line. */
static bool
reach_add_conf(struct proxy_reach *reach, const char *path)
{
    char line[PATH_MAX];
    bool ok = true;
    FILE *file = fopen(path, "re");

    while (file && ok && fgets(line, sizeof line, file)) {
        line[strcspn(line, " \t\r\n#")] = '\0';
        if (line[0] == '/')
            strcat(line, line[strlen(line) - 1] == '/' ? "" : "/");
        if (line[0] == '/' && strlen(line) > 1)
            ok = reach_add_library(reach, line);
    }
    if (file)
        fclose(file);
    return ok;
}

/* Handles all files in FOLDER whose names end with END. */
static bool
reach_each(struct proxy_reach *reach, const char *folder, const char *end,
           bool (*take)(struct proxy_reach *reach, const char *path))
{
    char path[PATH_MAX];
    DIR *all = opendir(folder);
    bool ok = true;

    for (const struct dirent *one; all && ok && (one = readdir(all));) {
        size_t size = strlen(one->d_name), end_size = strlen(end);
        if (size <= end_size || strcmp(one->d_name + size - end_size, end) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, one->d_name);
        ok = take(reach, path);
    }
    if (all)
        closedir(all);
    return ok;
}

/* Adds the directories in the proxy's LD_LIBRARY_PATH. */
static bool
reach_add_variable(struct proxy_reach *reach)
{
    const char *variable = secure_getenv("LD_LIBRARY_PATH");
    char *folders = variable ? strdup(variable) : NULL, *rest = folders;
    bool ok = !variable || folders;

    for (const char *folder; ok && (folder = strsep(&rest, ":"));)
        if (folder[0] == '/' && !reach_is_broad(folder))
            ok = reach_add(reach, folder, LANDLOCK_READ);
    free(folders);
    return ok;
}

bool
vg_reach_find(struct proxy_reach *reach, const char *vendors)
{
    *reach = (struct proxy_reach){.n = sizeof reach_always / sizeof *reach_always};
    memcpy(reach->rules, reach_always, sizeof reach_always);
    bool ok = reach_add(reach, vendors, LANDLOCK_READ) &&
              reach_add_nvidia(reach, "/dev", LANDLOCK_NODE) &&
              reach_add_nvidia(reach, "/proc/driver", LANDLOCK_READ) &&
              reach_each(reach, vendors, ".icd", reach_add_icd) &&
              reach_each(reach, "/etc/ld.so.conf.d", ".conf", reach_add_conf) &&
              reach_add_variable(reach);
    if (!ok)
        vg_reach_free(reach);
    return ok;
}

void
vg_reach_free(struct proxy_reach *reach)
{
    for (size_t i = 0; i < reach->n_owned; i++)
        free(reach->owned[i]);
    reach->n = reach->n_owned = 0;
}

bool
vg_reach_has(const struct proxy_reach *reach, const char *folder)
{
    const size_t size = strlen(folder);

    for (size_t i = 0; i < reach->n; i++) {
        const char *path = reach->rules[i].path;
        if (strncmp(path, folder, size) == 0 && (path[size] == '\0' || path[size] == '/'))
            return true;
    }
    return false;
}
