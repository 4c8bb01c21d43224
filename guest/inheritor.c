/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/inheritor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/kcmp.h>

#include "guest/child.h"
#include "guest/holder.h"
#include "guest/process.h"
#include "guest/tracee.h"
#include "guest/util.h"

enum {
    /* The maximum number of descriptors and maps of one process. */
    HOLDS_MAX = 4096,
    /* The maximum depth of a process tree. */
    DEPTH_MAX = 64,
    /* The time for all threads of a process to stop. They need less than a millisecond unless the
     * kernel blocks one of them. */
    STOP_MS = 5000,
    /* The time for the following steps, which take milliseconds. */
    LATE_MS = 2000,
    /* The maximum number of concurrent tracers. */
    TRACERS_MAX = 8,
};

static void inheritor_refuse(struct vg_guest_inheritor *inheritor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void
inheritor_refuse(struct vg_guest_inheritor *inheritor, const char *format, ...)
{
    va_list args;

    if (*inheritor->why)
        return;
    va_start(args, format);
    vsnprintf(inheritor->why, sizeof inheritor->why, format, args);
    va_end(args);
}

/* ---- the origin of files ---- */

/* Compares this kind of resource of two processes or threads. Returns 0 if they share it, 1 if not,
 * or -1 and sets `why`. */
static int
inheritor_compare(struct vg_guest_inheritor *inheritor, pid_t a, pid_t b, int kind, int a_fd,
                  int b_fd)
{
    long result = syscall(SYS_kcmp, a, b, kind, (long)a_fd, (long)b_fd);

    /* With ESRCH, one of them has ended; with EBADF, one has closed the file. */
    if (result >= 0 || errno == ESRCH || errno == EBADF)
        return result == 0 ? 0 : 1;
    inheritor_refuse(inheritor, "the kernel does not report whether it shares its files (kcmp): %s",
                     strerror(errno));
    return -1;
}

/* Finds the first thread of a process that has not ended, or 0. */
static pid_t
inheritor_thread(const char *root, pid_t pid)
{
    vg_guest_auto char *path = vg_guest_format("%s/proc/%d/task", root, (int)pid);
    DIR *dir = opendir(path);
    pid_t found = 0;

    if (!dir)
        return 0;
    for (struct dirent *entry = readdir(dir); entry && found == 0; entry = readdir(dir)) {
        vg_guest_auto char *task = vg_guest_format("%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.' && !vg_guest_process_ended(task))
            found = atoi(entry->d_name);
    }
    closedir(dir);
    return found;
}

/* An ancestor that is an owner. Its files are read when needed. */
struct ancestor {
    pid_t pid;
    bool known;
    size_t n;
    struct vg_guest_hold *holds;
};

/* Finds the owners among the ancestors of a process, the nearest one first. Returns their
 * number. */
static size_t
inheritor_ancestors(const struct vg_guest_inheritors *among, pid_t pid,
                    struct ancestor ret[DEPTH_MAX])
{
    size_t n = 0;

    for (int depth = 0; depth < DEPTH_MAX && pid > 1; depth++) {
        vg_guest_auto char *dir = vg_guest_format("%s/proc/%d", among->root, (int)pid);
        pid = (pid_t)vg_guest_process_number(dir, "PPid:");
        for (size_t i = 0; i < among->n_owners; i++) {
            if (among->owners[i] == pid)
                ret[n++].pid = pid;
        }
    }
    return n;
}

static void
inheritor_know(const struct vg_guest_inheritors *among, struct ancestor *ancestor)
{
    vg_guest_auto char *dir = vg_guest_format("%s/proc/%d", among->root, (int)ancestor->pid);

    if (ancestor->known)
        return;
    ancestor->known = true;
    ancestor->holds = vg_guest_alloc(HOLDS_MAX * sizeof *ancestor->holds);
    size_t n = vg_guest_holds_find(dir, among->nodes, ancestor->holds, HOLDS_MAX);
    ancestor->n = n < HOLDS_MAX ? n : HOLDS_MAX;
}

/* Returns whether an ancestor has the same map, or the same open file, which usually has the same
 * number. */
static bool
inheritor_is_inherited(const struct vg_guest_inheritors *among,
                       struct vg_guest_inheritor *inheritor, pid_t thread,
                       const struct vg_guest_hold *hold, struct ancestor *ancestor)
{
    bool found = !hold->mapped && inheritor_compare(inheritor, thread, ancestor->pid, KCMP_FILE,
                                                    hold->fd, hold->fd) == 0;

    if (found || *inheritor->why)
        return found;
    inheritor_know(among, ancestor);
    for (size_t i = 0; i < ancestor->n && !found; i++) {
        const struct vg_guest_hold *theirs = &ancestor->holds[i];
        if (theirs->mapped != hold->mapped)
            continue;
        found = hold->mapped ? theirs->begin == hold->begin && theirs->end == hold->end &&
                                   theirs->offset == hold->offset
                             : inheritor_compare(inheritor, thread, ancestor->pid, KCMP_FILE,
                                                 hold->fd, theirs->fd) == 0;
    }
    return found;
}

/* Checks that everything in a process comes from ancestors. A map cannot be compared like a file.
 * If the files of a process are an ancestor's, it also has its maps from there, even if the
 * ancestor has removed its own since. A process with only maps must have them where an ancestor has
 * them. */
static void
inheritor_check_holds(const struct vg_guest_inheritors *among, struct vg_guest_inheritor *inheritor,
                      pid_t thread, const struct vg_guest_hold *holds, size_t n)
{
    struct ancestor ancestors[DEPTH_MAX] = {0};
    size_t n_ancestors = inheritor_ancestors(among, inheritor->pid, ancestors);

    inheritor->ancestor = n_ancestors > 0 ? ancestors[0].pid : 0;
    for (size_t i = 0; i < n && !*inheritor->why; i++) {
        bool found = holds[i].mapped && inheritor->descriptors > 0;
        for (size_t k = 0; k < n_ancestors && !found; k++)
            found = inheritor_is_inherited(among, inheritor, thread, &holds[i], &ancestors[k]);
        if (!found)
            inheritor_refuse(inheritor, "it has %s %s itself",
                             holds[i].mapped ? "mapped" : "opened",
                             among->nodes->nodes[holds[i].node].path);
    }
    inheritor->inherited = !*inheritor->why;
    for (size_t k = 0; k < n_ancestors; k++)
        free(ancestors[k].holds);
}

static void
inheritor_check_other(struct vg_guest_inheritor *inheritor, pid_t thread, pid_t other)
{
    if (other <= 0 || other == inheritor->pid || *inheritor->why)
        return;
    if (inheritor_compare(inheritor, thread, other, KCMP_VM, 0, 0) == 0)
        inheritor_refuse(
            inheritor,
            "it shares its memory with process %d, like a child that has not executed its "
            "program yet",
            (int)other);
    else if (inheritor_compare(inheritor, thread, other, KCMP_FILES, 0, 0) == 0)
        inheritor_refuse(inheritor, "it shares its file descriptors with process %d", (int)other);
}

static void
inheritor_check_threads(const char *root, struct vg_guest_inheritor *inheritor, pid_t thread)
{
    vg_guest_auto char *path = vg_guest_format("%s/proc/%d/task", root, (int)inheritor->pid);
    DIR *dir = opendir(path);

    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        vg_guest_auto char *task = vg_guest_format("%s/%s", path, entry->d_name);
        pid_t other = atoi(entry->d_name);
        if (other > 0 && other != thread && !vg_guest_process_ended(task) &&
            inheritor_compare(inheritor, thread, other, KCMP_FILES, 0, 0) != 0 &&
            !vg_guest_process_ended(task))
            inheritor_refuse(inheritor, "its thread %d has its own file descriptors", (int)other);
    }
    if (dir)
        closedir(dir);
}

/* Counts the descriptors and maps of the nodes in a process, as seen in one of its threads, and
 * checks that all are inherited. Stores them in ret_holds, and returns their number. */
static size_t
inheritor_check(const struct vg_guest_inheritors *among, struct vg_guest_inheritor *inheritor,
                pid_t thread, struct vg_guest_hold ret_holds[HOLDS_MAX])
{
    vg_guest_auto char *dir =
        vg_guest_format("%s/proc/%d/task/%d", among->root, (int)inheritor->pid, (int)thread);
    vg_guest_auto char *process = vg_guest_format("%s/proc/%d", among->root, (int)inheritor->pid);
    size_t n = vg_guest_holds_find(dir, among->nodes, ret_holds, HOLDS_MAX);

    inheritor->descriptors = inheritor->maps = 0;
    if (n > HOLDS_MAX) {
        inheritor_refuse(
            inheritor,
            "it has %zu descriptors and mappings of GPUs, but at most %d can be released", n,
            HOLDS_MAX);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        inheritor->descriptors += ret_holds[i].mapped ? 0 : 1;
        inheritor->maps += ret_holds[i].mapped ? 1 : 0;
    }
    if (n == 0)
        return 0;
    inheritor_check_holds(among, inheritor, thread, ret_holds, n);
    for (size_t i = 0; i < among->n_holders; i++)
        inheritor_check_other(inheritor, thread, among->holders[i]);
    inheritor_check_other(inheritor, thread, (pid_t)vg_guest_process_number(process, "PPid:"));
    inheritor_check_threads(among->root, inheritor, thread);
    return n;
}

/* Removes the reason if the process has ended in the meantime, because it no longer matters. */
static void
inheritor_settle(const char *root, struct vg_guest_inheritor *inheritor)
{
    inheritor->gone = inheritor_thread(root, inheritor->pid) == 0;
    if (inheritor->gone)
        inheritor->why[0] = '\0';
}

static void
inheritor_check_stopping(const char *root, struct vg_guest_inheritor *inheritor)
{
    vg_guest_auto char *dir = vg_guest_format("%s/proc/%d", root, (int)inheritor->pid);
    vg_guest_auto char *exe = vg_guest_format("%s/exe", dir);
    vg_guest_auto char *scope = vg_guest_format("%s/proc/sys/kernel/yama/ptrace_scope", root);
    long tracer = vg_guest_process_number(dir, "TracerPid:");
    char head[6];

    if (!VG_GUEST_TRACEE_WORKS)
        inheritor_refuse(inheritor, "this is possible only on x86-64");
    if (tracer > 0)
        inheritor_refuse(inheritor, "process %ld traces it", tracer);
    /* The fifth byte of an executable shows whether its addresses have 32 or 64 bits. */
    vg_guest_read_file(exe, head, sizeof head);
    if (head[0] == 0x7f && head[4] == 1)
        inheritor_refuse(inheritor, "it is a 32-bit program");
    if (vg_guest_read_file(scope, head, sizeof head) == 0 && head[0] == '3')
        inheritor_refuse(inheritor, "the kernel forbids tracing (kernel.yama.ptrace_scope=3)");
}

void
vg_guest_inheritor_check(const struct vg_guest_inheritors *among,
                         struct vg_guest_inheritor *inheritor)
{
    vg_guest_auto struct vg_guest_hold *holds = vg_guest_alloc(HOLDS_MAX * sizeof *holds);
    pid_t thread = inheritor_thread(among->root, inheritor->pid);

    *inheritor = (struct vg_guest_inheritor){.pid = inheritor->pid, .gone = thread == 0};
    if (inheritor->gone)
        return;
    if (inheritor_check(among, inheritor, thread, holds) > 0)
        inheritor_check_stopping(among->root, inheritor);
    if (*inheritor->why)
        inheritor_settle(among->root, inheritor);
}

/* ---- giving up, in one process for each ---- */

#if VG_GUEST_TRACEE_WORKS

/* Names the error of a system call that a process had to make. */
static const char *
inheritor_error_word(long result)
{
    return result == -ETIME ? "it does not resume, perhaps because it is frozen"
                            : strerror((int)-result);
}

/* Returns whether a descriptor of the process is /dev/null, not another file with this name. */
static bool
inheritor_is_null(const char *root, pid_t pid, pid_t thread, long fd)
{
    vg_guest_auto char *path =
        vg_guest_format("%s/proc/%d/task/%d/fd/%ld", root, (int)pid, (int)thread, fd);
    struct stat st;

    return stat(path, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

static bool
inheritor_closes_on_exec(const char *root, pid_t pid, pid_t thread, int fd)
{
    vg_guest_auto char *path =
        vg_guest_format("%s/proc/%d/task/%d/fdinfo/%d", root, (int)pid, (int)thread, fd);
    char text[1024];

    vg_guest_read_file(path, text, sizeof text);
    const char *flags = strstr(text, "flags:");
    return flags && (strtoul(flags + strlen("flags:"), NULL, 8) & O_CLOEXEC) != 0;
}

/* Makes the process open /dev/null. page is memory of the process, for the name. Returns the
 * descriptor, or -1 and sets `why`. */
static long
inheritor_open_null(const struct vg_guest_inheritors *among, struct vg_guest_inheritor *inheritor,
                    vg_guest_tracee *tracee, unsigned long page)
{
    static const char name[] = "/dev/null";
    unsigned long open_args[6] = {(unsigned long)AT_FDCWD, page, O_RDWR | O_CLOEXEC};

    if (vg_guest_tracee_write(tracee, page, name, sizeof name) != 0) {
        inheritor_refuse(inheritor, "its memory cannot be written");
        return -1;
    }
    long fd = vg_guest_tracee_call(tracee, SYS_openat, open_args);
    if (fd < 0) {
        inheritor_refuse(inheritor, "it cannot open /dev/null: %s", inheritor_error_word(fd));
        return -1;
    }
    if (inheritor_is_null(among->root, inheritor->pid, vg_guest_tracee_caller(tracee), fd))
        return fd;
    inheritor_refuse(inheritor, "its /dev/null is not the null device");
    unsigned long close_args[6] = {(unsigned long)fd};
    vg_guest_tracee_call(tracee, SYS_close, close_args);
    return -1;
}

/* Replaces a descriptor with /dev/null, or a map with inaccessible memory, so that nothing else can
 * take its place. */
static void
inheritor_replace(const struct vg_guest_inheritors *among, struct vg_guest_inheritor *inheritor,
                  vg_guest_tracee *tracee, const struct vg_guest_hold *hold, long null)
{
    bool closes =
        !hold->mapped && inheritor_closes_on_exec(among->root, inheritor->pid,
                                                  vg_guest_tracee_caller(tracee), hold->fd);
    unsigned long dup_args[6] = {(unsigned long)null, (unsigned long)hold->fd,
                                 closes ? O_CLOEXEC : 0};
    unsigned long map_args[6] = {hold->begin, hold->end - hold->begin, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
                                 (unsigned long)-1};

    if (*inheritor->why)
        return;
    long result = hold->mapped ? vg_guest_tracee_call(tracee, SYS_mmap, map_args)
                               : vg_guest_tracee_call(tracee, SYS_dup3, dup_args);
    if (result < 0 && result > -4096)
        inheritor_refuse(inheritor,
                         "it released %zu descriptors and %zu mappings before it failed: %s",
                         inheritor->descriptors, inheritor->maps, inheritor_error_word(result));
    else if (hold->mapped)
        inheritor->maps++;
    else
        inheritor->descriptors++;
}

static void
inheritor_give_up(const struct vg_guest_inheritors *among, struct vg_guest_inheritor *inheritor,
                  vg_guest_tracee *tracee, const struct vg_guest_hold *holds, size_t n)
{
    unsigned long size = (unsigned long)sysconf(_SC_PAGESIZE);
    unsigned long map_args[6] = {0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                 (unsigned long)-1};
    long page = vg_guest_tracee_call(tracee, SYS_mmap, map_args);

    inheritor->descriptors = inheritor->maps = 0;
    if (page < 0 && page > -4096) {
        inheritor_refuse(inheritor, "it cannot allocate memory: %s", inheritor_error_word(page));
        return;
    }
    long null = inheritor_open_null(among, inheritor, tracee, (unsigned long)page);
    if (null >= 0) {
        unsigned long close_args[6] = {(unsigned long)null};
        for (size_t i = 0; i < n; i++)
            inheritor_replace(among, inheritor, tracee, &holds[i], null);
        vg_guest_tracee_call(tracee, SYS_close, close_args);
    }
    unsigned long unmap_args[6] = {(unsigned long)page, size};
    vg_guest_tracee_call(tracee, SYS_munmap, unmap_args);
}

static void
inheritor_stop_and_give_up(const struct vg_guest_inheritors *among,
                           struct vg_guest_inheritor *inheritor, int64_t until_ms)
{
    vg_guest_auto struct vg_guest_hold *holds = vg_guest_alloc(HOLDS_MAX * sizeof *holds);
    int64_t stop_ms = vg_guest_now_ms() + STOP_MS;
    char why[VG_GUEST_TRACEE_WHY_MAX];

    inheritor_check_stopping(among->root, inheritor);
    if (*inheritor->why)
        return;
    vg_guest_tracee *tracee = vg_guest_tracee_stop(among->root, inheritor->pid,
                                                   stop_ms < until_ms ? stop_ms : until_ms, why);

    if (!tracee) {
        inheritor_refuse(inheritor, "%s", why);
        return;
    }
    size_t n = inheritor_check(among, inheritor, vg_guest_tracee_caller(tracee), holds);
    if (*inheritor->why)
        inheritor->descriptors = inheritor->maps = 0;
    else if (n > 0)
        inheritor_give_up(among, inheritor, tracee, holds, n);
    vg_guest_tracee_let_go(tracee);
}

#else

static void
inheritor_stop_and_give_up(const struct vg_guest_inheritors *among,
                           struct vg_guest_inheritor *inheritor, int64_t until_ms)
{
    (void)until_ms;
    inheritor_check_stopping(among->root, inheritor);
}

#endif

/* Runs in a separate process. No signal ends it before it has released the other process, and it
 * keeps only the agent's standard files. */
static void
inheritor_run_tracer(const struct vg_guest_inheritors *among, struct vg_guest_inheritor *inheritor,
                     int64_t until_ms, int fd)
{
    sigset_t all;

    setsid();
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    if (fd != 3)
        dup2(fd, 3);
    close_range(4, ~0U, 0);
    inheritor_stop_and_give_up(among, inheritor, until_ms);
    ssize_t put = write(3, inheritor, sizeof *inheritor);
    _exit(put == (ssize_t)sizeof *inheritor ? 0 : 1);
}

struct tracer {
    pid_t pid;
    int fd;
    struct vg_guest_inheritor *inheritor;
};

/* Starts a process that makes an inheritor give up its files. Returns 0, or -1 and sets the
 * inheritor's `why`. */
static int
inheritor_start_tracer(const struct vg_guest_inheritors *among, struct tracer *tracer,
                       struct vg_guest_inheritor *inheritor, int64_t until_ms)
{
    int ends[2];

    *tracer = (struct tracer){.inheritor = inheritor};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        inheritor_refuse(inheritor, "a pipe cannot be created: %s", strerror(errno));
        return -1;
    }
    tracer->pid = fork();
    if (tracer->pid == 0)
        inheritor_run_tracer(among, inheritor, until_ms, ends[1]);
    close(ends[1]);
    tracer->fd = ends[0];
    if (tracer->pid > 0)
        return 0;
    inheritor_refuse(inheritor, "a process cannot be started: %s", strerror(errno));
    close(ends[0]);
    return -1;
}

/* Handles the report of a process that has ended or is about to. */
static void
inheritor_end_tracer(const struct tracer *tracer)
{
    struct vg_guest_inheritor told;

    if (read(tracer->fd, &told, sizeof told) == sizeof told)
        *tracer->inheritor = told;
    else
        inheritor_refuse(tracer->inheritor, "the process that should stop it crashed");
    close(tracer->fd);
    waitpid(tracer->pid, NULL, 0);
}

/* Waits until one process has reported, or this time. Returns how many are left. */
static size_t
inheritor_wait_for_tracers(struct tracer *tracers, size_t n, int64_t until_ms)
{
    struct pollfd fds[TRACERS_MAX];
    size_t left = 0;

    for (size_t i = 0; i < n; i++)
        fds[i] = (struct pollfd){.fd = tracers[i].fd, .events = POLLIN};
    vg_guest_child_wait(fds, n, until_ms);
    for (size_t i = 0; i < n; i++) {
        struct pollfd now = {.fd = tracers[i].fd, .events = POLLIN};
        if (poll(&now, 1, 0) > 0)
            inheritor_end_tracer(&tracers[i]);
        else
            tracers[left++] = tracers[i];
    }
    return left;
}

size_t
vg_guest_inheritors_release(const struct vg_guest_inheritors *among,
                            struct vg_guest_inheritor *inheritors, size_t n, int64_t until_ms)
{
    struct tracer tracers[TRACERS_MAX];
    size_t n_tracers = 0, next = 0, failed = 0;
    bool late = false;

    for (size_t i = 0; i < n; i++)
        inheritors[i] = (struct vg_guest_inheritor){.pid = inheritors[i].pid};
    while (n_tracers > 0 || (next < n && !late)) {
        late = vg_guest_now_ms() >= until_ms || vg_guest_child_stop() == VG_GUEST_STOP_CANCEL;
        while (n_tracers < TRACERS_MAX && next < n && !late) {
            if (inheritor_start_tracer(among, &tracers[n_tracers], &inheritors[next++], until_ms) ==
                0)
                n_tracers++;
        }
        if (n_tracers == 0)
            continue;
        if (vg_guest_now_ms() >= until_ms + LATE_MS)
            break;
        n_tracers = inheritor_wait_for_tracers(tracers, n_tracers, until_ms + LATE_MS);
    }
    /* These processes are abandoned. They end when they have released the processes that they
     * stopped. */
    for (size_t i = 0; i < n_tracers; i++) {
        inheritor_refuse(tracers[i].inheritor, "it was stopped and has not resumed yet");
        close(tracers[i].fd);
    }
    for (size_t i = 0; i < n; i++) {
        if (i >= next)
            inheritor_refuse(&inheritors[i], "it was still waiting for its turn");
        if (*inheritors[i].why)
            inheritor_settle(among->root, &inheritors[i]);
        failed += *inheritors[i].why ? 1 : 0;
    }
    return failed;
}
