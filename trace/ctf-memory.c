/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/ctf-memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static bool
is_below(const char *path, const GPtrArray *dirs)
{
    for (unsigned int i = 0; i < dirs->len; i++) {
        const char *dir = g_ptr_array_index(dirs, i);
        size_t length = strlen(dir);
        if (strncmp(path, dir, length) == 0 && path[length] == '/')
            return true;
    }
    return false;
}

void
ctf_memory_release(const GPtrArray *dirs)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t size = 0;

    /* "55e4a000-55e5b000 r--p 00000000 fe:01 1234    /path". Only read-only mappings of files, so
     * that no data is lost. */
    while (maps && getline(&line, &size, maps) > 0) {
        unsigned long begin, end;
        char rights[5];
        const char *path = strchr(line, '/');
        if (path && sscanf(line, "%lx-%lx %4s", &begin, &end, rights) == 3 &&
            strncmp(rights, "r--", 3) == 0 && is_below(path, dirs))
            madvise((void *)begin, end - begin, MADV_DONTNEED);
    }
    free(line);
    if (maps)
        fclose(maps);
}
