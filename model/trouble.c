/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/trouble.h"

#include <stddef.h>

const char *const vg_trouble_names[VG_TROUBLE_MAX + 1] = {
    [VG_TROUBLE_NONE] = NULL,
    [VG_TROUBLE_BPF_DENIED] = "bpf-denied",
    [VG_TROUBLE_BTF_ABSENT] = "btf-absent",
    [VG_TROUBLE_PTRACE_DENIED] = "ptrace-denied",
    [VG_TROUBLE_TRACEFS_ABSENT] = "tracefs-absent",
    [VG_TROUBLE_PERF_DENIED] = "perf-denied",
    [VG_TROUBLE_PERF_MEMORY] = "perf-memory",
    [VG_TROUBLE_LIBVIRT_DENIED] = "libvirt-denied",
    [VG_TROUBLE_LIBVIRT_ABSENT] = "libvirt-absent",
    [VG_TROUBLE_NVML_ABSENT] = "nvml-absent",
    [VG_TROUBLE_DISK_FULL] = "disk-full",
    [VG_TROUBLE_MAX] = NULL,
};
