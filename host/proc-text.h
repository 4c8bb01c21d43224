/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses and reads the texts of /proc about processes and threads. Pure, except for functions that
 * start with vg_proc_read. The kernel's texts are not trusted: functions return false for malformed
 * text. Any thread.
 */
#ifndef VG_HOST_PROC_TEXT_H
#define VG_HOST_PROC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/event.h"
#include "model/topology.h"

/* The maximum number of bytes read from a file; the rest is ignored. `stat` and `status` are
 * shorter. */
#define VG_PROC_TEXT_MAX 4096
/* The maximum size of a command line; libvirt's with a hundred disks is below 64 KiB. */
#define VG_PROC_CMDLINE_MAX (256 * 1024)

/* Fields of /proc/PID/stat and /proc/PID/task/TID/stat, numbered as in proc(5). */
struct vg_proc_stat {
    char comm[VG_COMM_LEN];
    char state;           /* 3: 'R', 'S', 'Z', ... */
    int32_t parent;       /* 4, the pid of its parent, or of the process that adopted it */
    bool is_kernel;       /* 9, PF_KTHREAD: a kernel thread */
    uint64_t cpu_ticks;   /* 14 utime + 15 stime */
    uint64_t child_ticks; /* 16 cutime + 17 cstime: CPU time of children that the process has waited
                             for */
    uint64_t threads;     /* 20 */
    uint64_t start_ticks; /* 22 */
    int32_t cpu;          /* 39, the CPU where it last ran; VG_NONE if unknown */
    uint64_t guest_ticks; /* 43 */
};

struct vg_proc_schedstat {
    uint64_t run_ns;
    uint64_t wait_ns;
    uint64_t timeslices;
};

struct vg_proc_switches {
    uint64_t voluntary;
    uint64_t nonvoluntary;
};

/* Parse a text, which ends with a NUL. */
bool vg_proc_parse_stat(const char *text, struct vg_proc_stat *ret);
bool vg_proc_parse_schedstat(const char *text, struct vg_proc_schedstat *ret);
bool vg_proc_parse_switches(const char *text, struct vg_proc_switches *ret);

/* Finds the control group of a process in the text of /proc/PID/cgroup: in the unified hierarchy,
 * or in systemd's if everything is in the root of the former. A longer path is reduced to its end,
 * after "...". Returns false if not found. */
bool vg_proc_parse_cgroup(const char *text, char *ret, size_t size);

/* Finds, in the same text, the control group whose CPU quota applies, as a path below
 * /sys/fs/cgroup. Returns false if not found or if the path is too long. */
bool vg_proc_parse_cpu_cgroup(const char *text, char *ret, size_t size);

/* Finds in the text of cpu.stat the total time that a control group's quota has throttled its
 * threads. Returns false if the text does not contain it. */
bool vg_proc_parse_throttled(const char *text, int64_t *ret_ns);

/* Finds name and UUID on the command line of a QEMU, whose arguments each end with a NUL: `-name
 * guest=NAME,debug-threads=on`, `-name NAME`, `-uuid UUID`; `,,` in a name is one comma. If one is
 * missing, it is left empty. The name is made valid UTF-8, the UUID lower case. */
void vg_proc_parse_qemu(const char *cmdline, size_t size, char ret_name[VG_VM_NAME_MAX],
                        char ret_uuid[VG_UUID_LEN]);

/* Reads the files `stat` and `status` of a thread below proc. Returns false if the thread does not
 * exist or the files cannot be read. */
bool vg_proc_read_thread(const char *proc, int32_t pid, int32_t tid, struct vg_proc_stat *ret_stat,
                         struct vg_proc_schedstat *ret_sched);

/* Read at most size - 1 bytes of a file from its start, and terminate them with a NUL. Return
 * their number, or -1 and errno. The second function reads an open file, whose text is generated
 * for each read. */
ssize_t vg_proc_read(const char *path, char *buf, size_t size);
ssize_t vg_proc_reread(int fd, char *buf, size_t size);

#endif
