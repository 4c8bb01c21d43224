/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/cuda-drivers.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "guest/util.h"

#define ISSUES "https://github.com/NVIDIA/cuda-checkpoint/issues/"

/* If nothing is known about other versions, only the reported one counts, because claiming a fault
 * of too many versions keeps programs from moving. */
static const struct vg_cuda_driver_fault faults[] = {
    {"570", "570", VG_CUDA_DRIVER_WARN,
     "PyTorch programs sometimes cannot be released (CUDA_ERROR_NOT_SUPPORTED) and then continue",
     ISSUES "34"},
    {"570", "", VG_CUDA_DRIVER_NOTE,
     "a process that ran out of GPU memory while it was being restored can never be restored",
     ISSUES "44"},
    {"570", "590", VG_CUDA_DRIVER_NOTE,
     "a vLLM server on two GPUs cannot be restored because its processes share memory",
     ISSUES "27"},
    {"595.71.05", "595.71.05", VG_CUDA_DRIVER_REFUSE,
     "when a restored process exits, the whole machine hangs", ISSUES "53"},
    {"610.57.04", "610.57.04", VG_CUDA_DRIVER_REFUSE,
     "a service with many threads is killed by SIGSEGV when it is released", ISSUES "58"},
};

int
vg_cuda_driver_read(const char *root, char ret[VG_CUDA_DRIVER_VERSION_MAX])
{
    vg_guest_auto char *path = vg_guest_format("%s/sys/module/nvidia/version", root);

    if (vg_guest_read_file(path, ret, VG_CUDA_DRIVER_VERSION_MAX) != 0)
        ret[0] = '\0';
    return atoi(ret);
}

/* Compares versions up to `end`. Returns a value less than, equal to or greater than 0, like
 * strcmp(). */
static int
driver_compare(const char *version, const char *end)
{
    while (*end) {
        char *version_rest, *end_rest;
        long a = strtol(version, &version_rest, 10), b = strtol(end, &end_rest, 10);
        if (a != b)
            return a < b ? -1 : 1;
        version = version_rest + (*version_rest == '.' ? 1 : 0);
        end = end_rest + (*end_rest == '.' ? 1 : 0);
    }
    return 0;
}

const struct vg_cuda_driver_fault *
vg_cuda_driver_next(const char *version, const struct vg_cuda_driver_fault *last)
{
    if (!isdigit((unsigned char)*version))
        return NULL;
    for (const struct vg_cuda_driver_fault *fault = last ? last + 1 : faults;
         fault < faults + sizeof faults / sizeof *faults; fault++) {
        if (driver_compare(version, fault->from) >= 0 && driver_compare(version, fault->to) <= 0)
            return fault;
    }
    return NULL;
}

json_object *
vg_cuda_driver_json(const char *version)
{
    static const char *const words[] = {[VG_CUDA_DRIVER_NOTE] = "note",
                                        [VG_CUDA_DRIVER_WARN] = "warn",
                                        [VG_CUDA_DRIVER_REFUSE] = "refuse"};
    json_object *object = json_object_new_object(), *list = json_object_new_array();
    const struct vg_cuda_driver_fault *fault = NULL;

    while ((fault = vg_cuda_driver_next(version, fault))) {
        json_object *row = json_object_new_object();
        json_object_object_add(row, "action", json_object_new_string(words[fault->action]));
        json_object_object_add(row, "what", json_object_new_string(fault->what));
        json_object_object_add(row, "source", json_object_new_string(fault->source));
        json_object_array_add(list, row);
    }
    json_object_object_add(object, "version", json_object_new_string(version));
    json_object_object_add(object, "faults", list);
    return object;
}
