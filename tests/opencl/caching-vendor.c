/* SPDX-License-Identifier: Apache-2.0
 *
 * A vendor of OpenCL: PoCL, but its first context compiles something, as NVIDIA's does, and keeps
 * that in the folder that CUDA_CACHE_PATH names, in "a/compiled" and "link". It reports on stderr
 * whether it compiled or found the file, which it then spoils.
 */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/opencl/vendor-table.h"

#define COMPILED "a compiled kernel"

static cl_icd_dispatch pocl; /* its own functions */

static void
compile(const char *folder)
{
    char path[PATH_MAX], text[64] = "";

    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/a", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/link", folder);
    const bool had_link = symlink("/etc/passwd", path) < 0;
    snprintf(path, sizeof path, "%s/a/compiled", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ssize_t n = read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    fprintf(stderr, "caching-vendor: %s%s\n", had_link ? "a link, and " : "",
            n == 0                        ? "compiled"
            : strcmp(text, COMPILED) == 0 ? "found"
                                          : "spoilt");
    n = write(fd, n == 0 ? COMPILED : "?", n == 0 ? sizeof COMPILED - 1 : 1);
    close(fd);
}

static cl_context CL_API_CALL
caching_clCreateContext(const cl_context_properties *properties, cl_uint n,
                        const cl_device_id *devices,
                        void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                        void *data, cl_int *error)
{
    const char *folder = getenv("CUDA_CACHE_PATH");

    if (folder)
        compile(folder);
    return pocl.clCreateContext(properties, n, devices, notify, data, error);
}

__attribute__((visibility("default"))) void *
clGetExtensionFunctionAddress(const char *name)
{
    void *found = vendor_pocl(name);

    if (strcmp(name, "clIcdGetPlatformIDsKHR") != 0 || pocl.clCreateContext)
        return found;
    cl_icd_dispatch *table = vendor_table((vendor_get_platforms)found);
    if (!table)
        return NULL;
    pocl = *table;
    table->clCreateContext = caching_clCreateContext;
    return found;
}
