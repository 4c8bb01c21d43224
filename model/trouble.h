/* SPDX-License-Identifier: Apache-2.0
 *
 * Troubles with a known remedy, which vgpud reports as codes and vgpuctl doctor turns into advice.
 * An error carries one as its detail (base/error.h). Messages are for people alone.
 */
#ifndef VG_MODEL_TROUBLE_H
#define VG_MODEL_TROUBLE_H

enum vg_trouble {
    VG_TROUBLE_NONE,           /* none, or one without a code */
    VG_TROUBLE_BPF_DENIED,     /* the kernel refuses the BPF programs: CAP_BPF, CAP_PERFMON */
    VG_TROUBLE_BTF_ABSENT,     /* the kernel has no type information */
    VG_TROUBLE_PTRACE_DENIED,  /* processes of others cannot be read: CAP_SYS_PTRACE */
    VG_TROUBLE_TRACEFS_ABSENT, /* tracefs is not mounted */
    VG_TROUBLE_PERF_DENIED,    /* CAP_PERFMON, or kernel.perf_event_paranoid */
    VG_TROUBLE_PERF_MEMORY,    /* LimitMEMLOCK, or kernel.perf_event_mlock_kb */
    VG_TROUBLE_LIBVIRT_DENIED, /* libvirt does not let this user in */
    VG_TROUBLE_LIBVIRT_ABSENT, /* nothing listens on libvirt's socket */
    VG_TROUBLE_NVML_ABSENT,    /* there is no libnvidia-ml */
    VG_TROUBLE_DISK_FULL,
    VG_TROUBLE_MAX
};

extern const char *const vg_trouble_names[]; /* "bpf-denied", ...; NULL for NONE */

#endif
