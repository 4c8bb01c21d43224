/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that faults stops before its signal is delivered. If the signal is dropped when the
 * thread continues, it repeats the access. Nothing interrupts a thread: PTRACE_SEIZE does not, and
 * all threads are released when their tracer ends. A thread that is still stopped then gets the
 * signal for which it had stopped, so held threads are released first.
 */
#include "config.h"

#include "guest/hold-tracer.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest/hold-file.h"
#include "guest/hold-maps.h"
#include "guest/process.h"
#include "guest/util.h"

enum {
    /* The number of passes over all threads without a new one, after which each thread is traced.
     * One pass may miss a thread if others end in the meantime. */
    PASSES = 2,
    /* After this many accesses to memory that seems to exist, the fault is the program's own. The
     * memory may have come back, or disappeared for a moment, during the check. */
    REPEATS = 4,
    /* The maximum number of logged threads. */
    LOGGED_MAX = 8,
    /* The time after the end for threads that faulted before and have not stopped yet, for example
     * in a busy guest. */
    LINGER_MS = 1000,
};

static const uintptr_t hold_options = PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;

/* A thread that has faulted. */
struct fault {
    pid_t tid;
    uint64_t at;
    int repeats;
    bool held, counted;
};

struct tracer {
    const char *root;
    int fd;
    struct vg_guest_hold hold;
    /* The process's mappings before it was locked and while it was, and the time of the lock. */
    struct vg_guest_hold_maps before, locked, now;
    /* Whether faults may be held, and when this process ends; INT64_MAX: not yet. */
    bool armed;
    int64_t until_ms;
    size_t n, room;
    struct fault *faults;
};

static long
tracer_ptrace(enum __ptrace_request request, pid_t tid, uintptr_t at, uintptr_t data)
{
    return ptrace(request, tid, (void *)at, (void *)data);
}

static void
tracer_report(const struct tracer *tracer, enum vg_guest_hold_outcome outcome, const char *why)
{
    struct vg_guest_hold_report report = {.outcome = outcome};

    vg_guest_put(report.why, sizeof report.why, "%s", why);
    /* The reader may have closed the pipe. */
    ssize_t put = write(tracer->fd, &report, sizeof report);
    (void)put;
}

static char *
tracer_task(const struct tracer *tracer, pid_t tid)
{
    return tid > 0 ? vg_guest_format("%s/proc/%d/task/%d", tracer->root, (int)tracer->hold.pid,
                                     (int)tid)
                   : vg_guest_format("%s/proc/%d/task", tracer->root, (int)tracer->hold.pid);
}

/* ---- faults ---- */

static struct fault *
tracer_fault(struct tracer *tracer, pid_t tid)
{
    for (size_t i = 0; i < tracer->n; i++) {
        if (tracer->faults[i].tid == tid)
            return &tracer->faults[i];
    }
    return NULL;
}

static struct fault *
tracer_add_fault(struct tracer *tracer, pid_t tid)
{
    if (tracer->n == tracer->room) {
        tracer->room = tracer->room ? 2 * tracer->room : 64;
        tracer->faults = vg_guest_grow(tracer->faults, tracer->room * sizeof *tracer->faults);
    }
    tracer->faults[tracer->n] = (struct fault){.tid = tid};
    return &tracer->faults[tracer->n++];
}

static void
tracer_write(struct tracer *tracer)
{
    int error = vg_guest_hold_write(tracer->root, &tracer->hold);

    if (error != 0)
        vg_guest_log(LOG_WARNING, "cannot write file dir='%s" VG_GUEST_HOLD_DIR "' error='%s'",
                     tracer->root, strerror(error));
}

static void
tracer_forget_thread(struct tracer *tracer, pid_t tid)
{
    struct fault *fault = tracer_fault(tracer, tid);

    if (!fault)
        return;
    bool held = fault->held;
    *fault = tracer->faults[--tracer->n];
    if (held) {
        tracer->hold.now--;
        tracer_write(tracer);
    }
}

static void
tracer_hold(struct tracer *tracer, struct fault *fault, int signal_number)
{
    fault->held = true;
    tracer->hold.now++;
    tracer->hold.total += fault->counted ? 0 : 1;
    if (!fault->counted && tracer->hold.total <= LOGGED_MAX)
        vg_guest_log(LOG_NOTICE, "thread held pid=%d tid=%d signal=%d at=0x%" PRIx64,
                     (int)tracer->hold.pid, (int)fault->tid, signal_number, fault->at);
    fault->counted = true;
    tracer_write(tracer);
}

/* Resumes the held threads, which repeat their access. */
static void
tracer_let_go(struct tracer *tracer)
{
    for (size_t i = 0; i < tracer->n; i++) {
        if (tracer->faults[i].held)
            tracer_ptrace(PTRACE_CONT, tracer->faults[i].tid, 0, 0);
        tracer->faults[i].held = false;
    }
    tracer->hold.now = 0;
    tracer_write(tracer);
}

/* ---- whose fault it is ---- */

/* Returns whether a memory access caused the signal, not another process. */
static bool
tracer_is_access(pid_t tid, int signal_number, uint64_t *ret_at)
{
    siginfo_t info = {0};

    if (tracer_ptrace(PTRACE_GETSIGINFO, tid, 0, (uintptr_t)&info) != 0)
        return false;
    *ret_at = (uint64_t)(uintptr_t)info.si_addr;
#if defined(__x86_64__)
    /* A thread may send itself any signal with sigqueue(), but is in a system call then. On arm64,
     * the kernel forgets the call before it stops the thread. */
    struct user_regs_struct regs;
    if (tracer_ptrace(PTRACE_GETREGS, tid, 0, (uintptr_t)&regs) == 0 &&
        (long long)regs.orig_rax >= 0)
        return false;
#endif
    return signal_number == SIGSEGV ? info.si_code == SEGV_MAPERR || info.si_code == SEGV_ACCERR
                                    : info.si_code == BUS_ADRERR || info.si_code == BUS_OBJERR;
}

/* Finds the mapping that the process had at this address before it was stopped, if it allowed any
 * access, or returns NULL. */
static const struct vg_guest_hold_map *
tracer_had(const struct tracer *tracer, uint64_t at)
{
    const struct vg_guest_hold_map *map = vg_guest_hold_maps_find(&tracer->before, at);

    if (!map)
        map = vg_guest_hold_maps_find(&tracer->locked, at);
    return map && strncmp(map->perms, "---", 3) != 0 ? map : NULL;
}

/* Returns whether the memory at this address has changed or is no longer accessible. A SIGBUS in
 * memory without a file is the driver's. */
static bool
tracer_is_away(struct tracer *tracer, pid_t tid, int signal_number,
               const struct vg_guest_hold_map *had, uint64_t at)
{
    vg_guest_auto char *dir = tracer_task(tracer, tid);

    if (signal_number == SIGBUS && !had->is_file)
        return true;
    if (vg_guest_hold_maps_read(dir, &tracer->now) != 0)
        return false;
    const struct vg_guest_hold_map *is = vg_guest_hold_maps_find(&tracer->now, at);
    return !is || !vg_guest_hold_map_is(had, is, at);
}

static void
tracer_on_fault(struct tracer *tracer, pid_t tid, int signal_number)
{
    uint64_t at;
    const struct vg_guest_hold_map *had = NULL;
    struct fault *fault = tracer_fault(tracer, tid);

    if (tracer->armed && tracer_is_access(tid, signal_number, &at))
        had = tracer_had(tracer, at);
    if (!had) {
        tracer_ptrace(PTRACE_CONT, tid, 0, (uintptr_t)signal_number);
        return;
    }
    if (!fault)
        fault = tracer_add_fault(tracer, tid);
    if (fault->at != at)
        fault->repeats = 0;
    fault->at = at;
    bool away = tracer_is_away(tracer, tid, signal_number, had, at);
    if (away && !tracer->hold.ended) {
        tracer_hold(tracer, fault, signal_number);
        return;
    }
    bool own = away || ++fault->repeats > REPEATS;
    if (own)
        fault->repeats = 0;
    tracer_ptrace(PTRACE_CONT, tid, 0, own ? (uintptr_t)signal_number : 0);
}

/* ---- threads ---- */

/* Returns whether a process traces the thread, this one or another. *ret_other is the other one, or
 * 0. */
static bool
tracer_has(const struct tracer *tracer, pid_t tid, long *ret_other)
{
    vg_guest_auto char *dir = tracer_task(tracer, tid);
    long by = vg_guest_process_number(dir, "TracerPid:");

    *ret_other = by > 0 && by != getpid() ? by : 0;
    return by == getpid();
}

/* Starts to trace a thread. Returns 1, 0 if it is traced already or has ended, or -1 with a
 * report. */
static int
tracer_seize(const struct tracer *tracer, pid_t tid, size_t seized,
             struct vg_guest_hold_report *ret)
{
    vg_guest_auto char *dir = tracer_task(tracer, tid);
    long other;

    if (tracer_ptrace(PTRACE_SEIZE, tid, 0, hold_options) == 0)
        return 1;
    int error = errno;
    if (error == ESRCH || tracer_has(tracer, tid, &other) || vg_guest_process_ended(dir))
        return 0;
    ret->outcome = other > 0    ? VG_GUEST_HOLD_TRACED
                   : seized > 0 ? VG_GUEST_HOLD_PARTLY
                                : VG_GUEST_HOLD_IMPOSSIBLE;
    if (other > 0)
        vg_guest_put(ret->why, sizeof ret->why, "process %ld traces it", other);
    else
        vg_guest_put(ret->why, sizeof ret->why, "its thread %d cannot be traced: %s", (int)tid,
                     strerror(error));
    return -1;
}

/* Starts to trace all other threads. Returns their number, or -1 with a report. */
static long
tracer_seize_new(const struct tracer *tracer, size_t seized, struct vg_guest_hold_report *ret)
{
    vg_guest_auto char *path = tracer_task(tracer, 0);
    DIR *dir = opendir(path);
    long n = 0;
    int one = 0;

    for (struct dirent *entry; dir && one >= 0 && (entry = readdir(dir));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        one = tracer_seize(tracer, atoi(entry->d_name), seized + (size_t)n, ret);
        n += one > 0 ? 1 : 0;
    }
    if (dir)
        closedir(dir);
    return one < 0 ? -1 : n;
}

/* Releases a process that is not involved: a child, or the process itself with another program. */
static void
tracer_take_event(const struct tracer *tracer, pid_t tid, int event, int signal_number)
{
    vg_guest_auto char *dir = tracer_task(tracer, tid);
    bool is_its = vg_guest_process_number(dir, "Pid:") == tid;

    if (event == PTRACE_EVENT_EXEC || !is_its)
        tracer_ptrace(PTRACE_DETACH, tid, 0, 0);
    else if (event == PTRACE_EVENT_STOP && signal_number != SIGTRAP)
        /* The process remains stopped until it gets SIGCONT, which this does not prevent. */
        tracer_ptrace(PTRACE_LISTEN, tid, 0, 0);
    else
        tracer_ptrace(PTRACE_CONT, tid, 0, 0);
}

static void
tracer_take(struct tracer *tracer, pid_t tid, int status)
{
    int signal_number = WSTOPSIG(status), event = status >> 16;

    if (!WIFSTOPPED(status))
        tracer_forget_thread(tracer, tid);
    else if (event != 0)
        tracer_take_event(tracer, tid, event, signal_number);
    else if (signal_number == SIGSEGV || signal_number == SIGBUS)
        tracer_on_fault(tracer, tid, signal_number);
    else
        tracer_ptrace(PTRACE_CONT, tid, 0, (uintptr_t)signal_number);
}

/* Handles events of threads. Returns whether any thread is left. */
static bool
tracer_take_all(struct tracer *tracer)
{
    pid_t tid;
    int status;

    while ((tid = waitpid(-1, &status, __WALL | WNOHANG)) > 0)
        tracer_take(tracer, tid, status);
    return tid == 0;
}

/* Reads the mappings of any thread that still has them. */
static int
tracer_read_maps(const struct tracer *tracer, struct vg_guest_hold_maps *ret)
{
    vg_guest_auto char *path = tracer_task(tracer, 0);
    DIR *dir = opendir(path);
    int result = -1;

    for (struct dirent *entry; dir && result != 0 && (entry = readdir(dir));) {
        vg_guest_auto char *task = vg_guest_format("%s/%s", path, entry->d_name);
        if (isdigit((unsigned char)entry->d_name[0]))
            result = vg_guest_hold_maps_read(task, ret);
    }
    if (dir)
        closedir(dir);
    return result;
}

/* ---- the process ---- */

/* Traces all threads. Returns 0, or -1 with a report. */
static int
tracer_begin(struct tracer *tracer, struct vg_guest_hold_report *ret)
{
    size_t seized = 0;

    for (int passes = 0; passes < PASSES; passes++) {
        long fresh = tracer_seize_new(tracer, seized, ret);
        if (fresh < 0)
            return -1;
        seized += (size_t)fresh;
        if (fresh > 0)
            passes = -1;
        tracer_take_all(tracer);
    }
    /* Also read the others, so that they have memory even when little is left. */
    tracer_read_maps(tracer, &tracer->locked);
    tracer_read_maps(tracer, &tracer->now);
    if (tracer_read_maps(tracer, &tracer->before) != 0) {
        ret->outcome = VG_GUEST_HOLD_GONE;
        return -1;
    }
    int error = vg_guest_hold_write(tracer->root, &tracer->hold);
    if (error == 0)
        return 0;
    ret->outcome = VG_GUEST_HOLD_IMPOSSIBLE;
    vg_guest_put(ret->why, sizeof ret->why, "cannot write a file in %s" VG_GUEST_HOLD_DIR ": %s",
                 tracer->root, strerror(error));
    return -1;
}

static void
tracer_obey(struct tracer *tracer, int number)
{
    switch (number) {
    case VG_GUEST_HOLD_LOCKED:
        tracer_read_maps(tracer, &tracer->locked);
        tracer_report(tracer, VG_GUEST_HOLD_NOTED, "");
        break;
    case VG_GUEST_HOLD_REPEAT:
        tracer_let_go(tracer);
        break;
    case VG_GUEST_HOLD_END:
        tracer->until_ms = vg_guest_now_ms() + (tracer->hold.ended ? 0 : LINGER_MS);
        tracer->hold.ended = true;
        tracer_let_go(tracer);
        break;
    default:
        break;
    }
}

/* Waits for one of these signals. */
static int
tracer_wait(const struct tracer *tracer, const sigset_t *mine)
{
    int64_t left_ms = tracer->until_ms - vg_guest_now_ms();
    struct timespec timeout = {.tv_sec = left_ms / 1000, .tv_nsec = left_ms % 1000 * 1000000};

    if (!tracer->hold.ended)
        return sigwaitinfo(mine, NULL);
    return left_ms > 0 ? sigtimedwait(mine, NULL, &timeout) : -1;
}

/* Follows the process, until it or the hold has ended. */
static void
tracer_run(struct tracer *tracer)
{
    static const int numbers[] = {SIGCHLD, VG_GUEST_HOLD_LOCKED, VG_GUEST_HOLD_REPEAT,
                                  VG_GUEST_HOLD_END};
    sigset_t mine;

    sigemptyset(&mine);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset(&mine, numbers[i]);
    while (tracer_take_all(tracer) && (!tracer->hold.ended || vg_guest_now_ms() < tracer->until_ms))
        tracer_obey(tracer, tracer_wait(tracer, &mine));
}

void
vg_guest_hold_trace(const char *root, pid_t pid, uint64_t start, int fd)
{
    static struct tracer tracer;
    struct vg_guest_hold_report report = {0};
    struct vg_guest_process self = {0};
    sigset_t all;

    prctl(PR_SET_NAME, "vgpu-hold");
    /* Killing this process would free nothing, and end the program. */
    vg_guest_write_file("/proc/self/oom_score_adj", "-1000");
    signal(SIGCHLD, SIG_DFL);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    vg_guest_process_read("", getpid(), &self);
    tracer = (struct tracer){
        .root = root,
        .fd = fd,
        .hold = {.pid = pid, .start = start, .tracer = getpid(), .tracer_start = self.start}};
    if (tracer_begin(&tracer, &report) != 0) {
        tracer_report(&tracer, report.outcome, report.why);
        _exit(1);
    }
    tracer.armed = true;
    tracer_report(&tracer, VG_GUEST_HOLD_READY, "");
    tracer_run(&tracer);
    /* The file remains: the threads are traced until this process has ended. */
    _exit(0);
}
