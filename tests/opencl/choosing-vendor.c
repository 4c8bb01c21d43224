/* SPDX-License-Identifier: Apache-2.0
 *
 * A vendor of OpenCL: the library that VG_VENDOR names, which sees the GPUs that stand in the file
 * VG_CHOICE whenever it is loaded, as if others had been plugged in meanwhile.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dlfcn.h>

void *clGetExtensionFunctionAddress(const char *name);

static void *vendor;

__attribute__((constructor)) static void
load(void)
{
    char line[64] = "";
    FILE *choice = fopen(getenv("VG_CHOICE"), "re");

    if (choice && fgets(line, sizeof line, choice)) {
        line[strcspn(line, "\n")] = '\0';
        setenv("CUDA_VISIBLE_DEVICES", line, 1);
    }
    if (choice)
        fclose(choice);
    vendor = dlopen(getenv("VG_VENDOR"), RTLD_NOW | RTLD_LOCAL);
}

__attribute__((destructor)) static void
unload(void)
{
    if (vendor)
        dlclose(vendor);
}

__attribute__((visibility("default"))) void *
clGetExtensionFunctionAddress(const char *name)
{
    void *(*get)(const char *) =
        vendor ? (void *(*)(const char *))dlsym(vendor, "clGetExtensionFunctionAddress") : NULL;

    return get ? get(name) : NULL;
}
