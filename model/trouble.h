/* SPDX-License-Identifier: Apache-2.0
 *
 * Problems with a known solution. vgpud reports them as codes, and vgpuctl doctor converts the
 * codes to advice. An error carries the code as its detail (base/error.h). Messages are only for
 * people.
 */
#ifndef VG_MODEL_TROUBLE_H
#define VG_MODEL_TROUBLE_H

enum vg_trouble {
    VG_TROUBLE_NONE,           /* none, or a problem without a code */
    VG_TROUBLE_BPF_DENIED,     /* the kernel rejects the BPF programs: CAP_BPF, CAP_PERFMON */
    VG_TROUBLE_BTF_ABSENT,     /* the kernel has no type information */
    VG_TROUBLE_PTRACE_DENIED,  /* other users' processes cannot be read: CAP_SYS_PTRACE */
    VG_TROUBLE_TRACEFS_ABSENT, /* tracefs is not mounted */
    VG_TROUBLE_PERF_DENIED,    /* CAP_PERFMON, or kernel.perf_event_paranoid */
    VG_TROUBLE_PERF_MEMORY,    /* LimitMEMLOCK, or kernel.perf_event_mlock_kb */
    VG_TROUBLE_LIBVIRT_DENIED, /* libvirt denies this user access */
    VG_TROUBLE_LIBVIRT_ABSENT, /* no process listens on libvirt's socket */
    VG_TROUBLE_NVML_ABSENT,    /* libnvidia-ml is missing */
    VG_TROUBLE_DISK_FULL,
    VG_TROUBLE_MAX
};

extern const char *const vg_trouble_names[]; /* "bpf-denied", ...; NULL for NONE */

#endif
