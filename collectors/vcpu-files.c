/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/vcpu-files.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

static const char *const file_names[VG_VCPU_FILE_MAX] = {
    [VG_VCPU_FILE_SCHEDSTAT] = "schedstat",
    [VG_VCPU_FILE_STAT] = "stat",
    [VG_VCPU_FILE_STATUS] = "status",
};

static void
make_path(char path[PATH_MAX], const struct vg_vcpu_files *files, const char *proc, unsigned which)
{
    snprintf(path, PATH_MAX, "%s/%d/task/%d/%s", proc, files->pid, files->tid, file_names[which]);
}

void
vg_vcpu_files_open(struct vg_vcpu_files *files, const char *proc, int32_t pid, int32_t tid,
                   int *fds_left)
{
    char path[PATH_MAX];

    *files = (struct vg_vcpu_files){.pid = pid, .tid = tid};
    for (unsigned i = 0; i < VG_VCPU_FILE_MAX; i++) {
        files->fds[i] = -1;
        if (*fds_left <= 0)
            continue;
        make_path(path, files, proc, i);
        files->fds[i] = open(path, O_RDONLY | O_CLOEXEC);
        if (files->fds[i] >= 0)
            (*fds_left)--;
    }
}

void
vg_vcpu_files_close(struct vg_vcpu_files *files, int *fds_left)
{
    for (unsigned i = 0; i < VG_VCPU_FILE_MAX; i++) {
        if (files->fds[i] < 0)
            continue;
        close(files->fds[i]);
        files->fds[i] = -1;
        (*fds_left)++;
    }
}

static bool
read_file(const struct vg_vcpu_files *files, const char *proc, unsigned which, char *text,
          size_t size)
{
    char path[PATH_MAX];

    if (files->fds[which] >= 0)
        return vg_proc_reread(files->fds[which], text, size) > 0;
    make_path(path, files, proc, which);
    return vg_proc_read(path, text, size) > 0;
}

/* Chooses between schedstat and ticks. Without CONFIG_SCHED_INFO, the kernel has no schedstat, or
 * one that is always 0. It is also 0 for a thread that has not run yet. As long as `stat` agrees,
 * both sources give the same result. */
static void
choose_source(struct vg_vcpu_files *files, bool readable, const struct vg_proc_schedstat *sched,
              const struct vg_proc_stat *stat)
{
    if (files->no_schedstat)
        return;
    files->by_ticks = !readable || sched->timeslices + sched->run_ns == 0;
    files->no_schedstat = !readable || (files->by_ticks && stat->cpu_ticks > 1);
}

/* Returns whether a thread has neither run nor waited since the last reading. Two thirds of the
 * work can then be skipped. */
static bool
is_unchanged(const struct vg_vcpu_files *files, const struct vg_proc_schedstat *sched)
{
    return !files->by_ticks && sched->timeslices > 0 && sched->run_ns == files->schedstat.run_ns &&
           sched->wait_ns == files->schedstat.wait_ns &&
           sched->timeslices == files->schedstat.timeslices;
}

bool
vg_vcpu_files_read(struct vg_vcpu_files *files, const char *proc, int64_t tick_ns,
                   struct vg_vcpu_moment *ret)
{
    char text[VG_PROC_TEXT_MAX];
    struct vg_proc_schedstat sched = {0};
    struct vg_proc_switches switches = {0};
    struct vg_proc_stat stat;

    /* The time belongs to the figures that are read directly afterwards. */
    files->moment.counters.at_ns = vg_clock_monotonic_ns();
    bool readable = !files->no_schedstat &&
                    read_file(files, proc, VG_VCPU_FILE_SCHEDSTAT, text, sizeof(text)) &&
                    vg_proc_parse_schedstat(text, &sched);
    if (readable && is_unchanged(files, &sched)) {
        *ret = files->moment;
        return true;
    }
    if (!read_file(files, proc, VG_VCPU_FILE_STAT, text, sizeof(text)) ||
        !vg_proc_parse_stat(text, &stat) || stat.state == 'Z' || stat.state == 'X')
        return false;
    if (read_file(files, proc, VG_VCPU_FILE_STATUS, text, sizeof(text)))
        vg_proc_parse_switches(text, &switches);
    choose_source(files, readable, &sched, &stat);
    struct vg_vcpu_reading *counters = &files->moment.counters;
    counters->run_ns = files->by_ticks ? stat.cpu_ticks * (uint64_t)tick_ns : sched.run_ns;
    counters->wait_ns = files->by_ticks ? 0 : sched.wait_ns;
    counters->guest_ns = stat.guest_ticks * (uint64_t)tick_ns;
    counters->voluntary = switches.voluntary;
    counters->nonvoluntary = switches.nonvoluntary;
    files->moment.start_ticks = stat.start_ticks;
    files->moment.cpu = stat.cpu;
    files->schedstat = sched;
    *ret = files->moment;
    return true;
}
