/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of /proc about processes and threads, and reading them. Pure but for those that
 * begin with vg_proc_read. What a kernel writes is not trusted more than any other input: odd text
 * gives false. Any thread.
 */
#ifndef VG_HOST_PROC_TEXT_H
#define VG_HOST_PROC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/event.h"
#include "model/topology.h"

/* Longer files than this are cut: `stat` and `status` are shorter. */
#define VG_PROC_TEXT_MAX 4096
/* Of a command line, libvirt's with a hundred disks is below 64 KiB. */
#define VG_PROC_CMDLINE_MAX (256 * 1024)

/* Fields of /proc/PID/stat and /proc/PID/task/TID/stat; the numbers are those of proc(5). */
struct vg_proc_stat {
    char comm[VG_COMM_LEN];
    char state;           /* 3: 'R', 'S', 'Z', ... */
    bool is_kernel;       /* 9, PF_KTHREAD: a thread of the kernel itself */
    uint64_t cpu_ticks;   /* 14 utime + 15 stime */
    uint64_t threads;     /* 20 */
    uint64_t start_ticks; /* 22 */
    int32_t cpu;          /* 39, the CPU it ran on last; VG_NONE if there is none */
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

/* text ends with a NUL. */
bool vg_proc_parse_stat(const char *text, struct vg_proc_stat *ret);
bool vg_proc_parse_schedstat(const char *text, struct vg_proc_schedstat *ret);
bool vg_proc_parse_switches(const char *text, struct vg_proc_switches *ret);

/* The control group of a process, of the text of /proc/PID/cgroup: that of the unified hierarchy,
 * or systemd's where everything is in the root of that. Of a longer one its end, after "...".
 * false: there is none. */
bool vg_proc_parse_cgroup(const char *text, char *ret, size_t size);

/* Name and UUID from the command line of a QEMU, arguments each ending with a NUL:
 * `-name guest=NAME,debug-threads=on`, `-name NAME`, `-uuid UUID`; `,,` in a name is one comma.
 * What is not there is left empty. The name is made valid UTF-8, the UUID lower case. */
void vg_proc_parse_qemu(const char *cmdline, size_t size, char ret_name[VG_VM_NAME_MAX],
                        char ret_uuid[VG_UUID_LEN]);

/* Both files of a thread below proc; false: it is not there, or they cannot be read. */
bool vg_proc_read_thread(const char *proc, int32_t pid, int32_t tid, struct vg_proc_stat *ret_stat,
                         struct vg_proc_schedstat *ret_sched);

/* Reads at most size - 1 bytes of a file from its start and ends them with a NUL. How many there
 * are, or -1 and errno. The same of an open one, whose text is made anew each time. */
ssize_t vg_proc_read(const char *path, char *buf, size_t size);
ssize_t vg_proc_reread(int fd, char *buf, size_t size);

#endif
