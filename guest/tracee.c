/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes another process perform system calls without disturbing its blocked calls. The kernel ends
 * a thread's system call with a number that describes how to restart it, and restarts it when the
 * thread continues with these registers from such a stop. The requested calls therefore end in
 * another stop of that kind before the thread's own registers are restored.
 */
#include "config.h"

#include "guest/tracee.h"

#if VG_GUEST_TRACEE_WORKS

# include <ctype.h>
# include <dirent.h>
# include <errno.h>
# include <signal.h>
# include <stdio.h>
# include <stdlib.h>
# include <string.h>
# include <sys/ptrace.h>
# include <sys/syscall.h>
# include <sys/time.h>
# include <sys/user.h>
# include <sys/utsname.h>
# include <sys/wait.h>
# include <unistd.h>

# include "guest/process.h"
# include "guest/util.h"

enum {
    THREADS_MAX = 16384,
    /* The interval at which a wait checks the clock. */
    TICK_MS = 20,
    /* The time for threads to stop that were requested to, just before another one could not be
     * stopped. */
    COLLECT_MS = 50,
    /* The time for a system call. It takes microseconds unless the guest is very busy. */
    CALL_MS = 5000,
    /* The time after which a thread may have left a section where it must not be disturbed. */
    AGAIN_US = 1000,
    /* The code segment of 64-bit programs. */
    CODE_64 = 0x33,
    /* The offset of the section's address in the kernel's struct rseq. */
    RSEQ_CS = 8,
};
/* The kernel's own ERESTARTNOHAND as a result: the call is restarted, unless a handler runs, in
 * which case it ends with EINTR. */
# define RESTART_NO_HANDLER (-514L)

# ifndef PTRACE_GET_RSEQ_CONFIGURATION
#  define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
# endif
# ifndef PTRACE_O_SUSPEND_SECCOMP
#  define PTRACE_O_SUSPEND_SECCOMP (1 << 21)
# endif

struct rseq_configuration {
    uint64_t at;
    uint32_t size, signature, flags, pad;
};

struct thread {
    pid_t tid;
    bool stopped;
    /* The registers with which it continues. */
    struct user_regs_struct regs;
};

struct vg_guest_tracee {
    pid_t pid;
    char *dir;
    size_t n, room;
    struct thread *threads;
    /* at is the address of an instruction that starts a call. mask is the signal mask of the first
     * thread, which makes the calls. ready: this thread can make calls. in_call: it is in the stop
     * after a call, not in the one that preserves its blocked call. ended: it has ended. */
    unsigned long at;
    uint64_t mask;
    bool ready, in_call, ended;
    /* The signals that came in the meantime, as bits. */
    uint64_t resend;
    /* Kernels before 5.1 do not show a thread's mask during ppoll() and similar calls. */
    bool hides_masks;
    char why[VG_GUEST_TRACEE_WHY_MAX];
};

/* The calls that end with EINTR when a thread is stopped, although there was no signal: those
 * listed in signal(7), and io_uring_enter. They have no effect in that case. */
static const long ends_early[] = {
    SYS_epoll_wait, SYS_epoll_pwait, 441 /* epoll_pwait2 */, SYS_semop, SYS_semtimedop,
    SYS_rt_sigtimedwait, SYS_msgrcv, SYS_msgsnd, SYS_io_getevents, 333 /* io_pgetevents */,
    426 /* io_uring_enter */,
    /* These calls are for sockets with a timeout. */
    SYS_accept, SYS_accept4, SYS_connect, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_sendto,
    SYS_sendmsg, SYS_sendmmsg, SYS_read, SYS_readv, SYS_write, SYS_writev};

static long
tracee_ptrace(enum __ptrace_request request, pid_t tid, uintptr_t at, uintptr_t data)
{
    return ptrace(request, tid, (void *)at, (void *)data);
}

static void
tracee_on_tick(int number)
{
    (void)number;
}

/* Makes waitpid() return every ms milliseconds, or stops this if ms is 0. */
static void
tracee_set_tick(int ms)
{
    struct sigaction action = {.sa_handler = tracee_on_tick};
    struct itimerval timer = {{0, ms * 1000L}, {0, ms * 1000L}};
    sigset_t set;

    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* Waits for a thread to change its state. Returns the thread, 0 after the time, or -1 if none is
 * left. */
static pid_t
tracee_wait(int *ret_status, int64_t until_ms)
{
    for (;;) {
        pid_t tid = waitpid(-1, ret_status, __WALL);
        if (tid >= 0 || errno != EINTR)
            return tid;
        if (vg_guest_now_ms() >= until_ms)
            return 0;
    }
}

static struct thread *
tracee_find(vg_guest_tracee *tracee, pid_t tid)
{
    for (size_t i = 0; i < tracee->n; i++) {
        if (tracee->threads[i].tid == tid)
            return &tracee->threads[i];
    }
    return NULL;
}

static void
tracee_forget(vg_guest_tracee *tracee, struct thread *thread)
{
    *thread = tracee->threads[--tracee->n];
}

/* Returns whether this is a stop that preserves the thread's blocked call, whether a signal has
 * stopped its process or not. */
static bool
tracee_is_trap(int status)
{
    return WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_STOP;
}

/* Starts to stop a thread. Returns 1, 0 if it has ended, or -1 and sets `why`. */
static int
tracee_seize(vg_guest_tracee *tracee, pid_t tid)
{
    vg_guest_auto char *dir = vg_guest_format("%s/task/%d", tracee->dir, (int)tid);

    if (tracee_ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD) != 0) {
        int error = errno;
        if (error == ESRCH || vg_guest_process_ended(dir))
            return 0;
        long other = vg_guest_process_number(dir, "TracerPid:");
        if (other > 0)
            vg_guest_put(tracee->why, sizeof tracee->why, "process %ld traces it", other);
        else
            vg_guest_put(tracee->why, sizeof tracee->why, "it cannot be stopped: %s",
                         strerror(error));
        return -1;
    }
    if (tracee->n == tracee->room) {
        tracee->room = tracee->room ? 2 * tracee->room : 16;
        struct thread *more = vg_guest_alloc(tracee->room * sizeof *more);
        if (tracee->n > 0)
            memcpy(more, tracee->threads, tracee->n * sizeof *more);
        free(tracee->threads);
        tracee->threads = more;
    }
    tracee->threads[tracee->n++] = (struct thread){.tid = tid};
    tracee_ptrace(PTRACE_INTERRUPT, tid, 0, 0);
    return 1;
}

/* Starts to stop new threads. Returns their number, or -1 and sets `why`. */
static int
tracee_seize_new(vg_guest_tracee *tracee)
{
    vg_guest_auto char *path = vg_guest_format("%s/task", tracee->dir);
    DIR *dir = opendir(path);
    int n = 0, result = 0;

    if (!dir)
        return 0;
    for (struct dirent *entry = readdir(dir); entry && result >= 0; entry = readdir(dir)) {
        pid_t tid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
        if (tid == 0 || tracee_find(tracee, tid))
            continue;
        if (tracee->n == THREADS_MAX) {
            vg_guest_put(tracee->why, sizeof tracee->why, "it has more than %d threads",
                         THREADS_MAX);
            result = -1;
        } else {
            result = tracee_seize(tracee, tid);
            n += result > 0 ? 1 : 0;
        }
    }
    closedir(dir);
    return result < 0 ? -1 : n;
}

static void
tracee_take(vg_guest_tracee *tracee, pid_t tid, int status)
{
    struct thread *thread = tracee_find(tracee, tid);

    if (!thread)
        return;
    if (!WIFSTOPPED(status)) {
        tracee_forget(tracee, thread);
    } else if (tracee_is_trap(status)) {
        thread->stopped = tracee_ptrace(PTRACE_GETREGS, tid, 0, (uintptr_t)&thread->regs) == 0;
    } else {
        /* This was a pending signal. The stop comes after it. */
        tracee_ptrace(PTRACE_CONT, tid, 0, (uintptr_t)WSTOPSIG(status));
    }
}

static struct thread *
tracee_running(vg_guest_tracee *tracee)
{
    for (size_t i = 0; i < tracee->n; i++) {
        if (!tracee->threads[i].stopped)
            return &tracee->threads[i];
    }
    return NULL;
}

/* Stops all threads. Stopped threads cannot create new ones. Returns 0, or -1 and sets `why`. */
static int
tracee_stop_threads(vg_guest_tracee *tracee, int64_t until_ms)
{
    for (;;) {
        int fresh = tracee_seize_new(tracee);
        if (fresh <= 0 && tracee->n == 0 && !*tracee->why)
            vg_guest_put(tracee->why, sizeof tracee->why, "it has exited");
        if (fresh < 0 || tracee->n == 0)
            return -1;
        if (fresh == 0 && !tracee_running(tracee))
            return 0;
        for (const struct thread *thread; (thread = tracee_running(tracee)) != NULL;) {
            int status;
            pid_t tid = tracee_wait(&status, until_ms);
            if (tid <= 0) {
                vg_guest_auto char *dir =
                    vg_guest_format("%s/task/%d", tracee->dir, (int)thread->tid);
                vg_guest_put(tracee->why, sizeof tracee->why,
                             "its thread %d does not stop (it is in state %c)", (int)thread->tid,
                             vg_guest_process_state(dir));
                return -1;
            }
            tracee_take(tracee, tid, status);
        }
    }
}

/* ---- choosing a thread for the calls ---- */

static bool
tracee_is_in_call(const struct thread *thread)
{
    return (long long)thread->regs.orig_rax >= 0;
}

/* Returns whether a thread can make calls. If it is not in a system call itself, it must not be in
 * a section where it would notice the interruption. */
static bool
tracee_fits(const vg_guest_tracee *tracee, const struct thread *thread)
{
    struct rseq_configuration rseq = {0};
    long result = (long)thread->regs.rax;

    if (thread->regs.cs != CODE_64)
        return false;
    if (tracee_is_in_call(thread))
        return !tracee->hides_masks || (result != RESTART_NO_HANDLER && result != -EINTR);
    if (tracee_ptrace(PTRACE_GET_RSEQ_CONFIGURATION, thread->tid, sizeof rseq, (uintptr_t)&rseq) <
        0)
        return false;
    if (rseq.at == 0)
        return true;
    errno = 0;
    return tracee_ptrace(PTRACE_PEEKDATA, thread->tid, rseq.at + RSEQ_CS, 0) == 0 && errno == 0;
}

/* Moves a suitable thread to the first place. */
static bool
tracee_choose(vg_guest_tracee *tracee)
{
    for (size_t i = 0; i < tracee->n; i++) {
        if (tracee_fits(tracee, &tracee->threads[i])) {
            struct thread thread = tracee->threads[i];
            tracee->threads[i] = tracee->threads[0];
            tracee->threads[0] = thread;
            return true;
        }
    }
    return false;
}

/* Finds an instruction that starts a system call, in the code that the kernel maps into every
 * process. Returns 0, or -1 and sets `why`. */
static int
tracee_find_instruction(vg_guest_tracee *tracee)
{
    vg_guest_auto char *path =
        vg_guest_format("%s/task/%d/maps", tracee->dir, (int)tracee->threads[0].tid);
    FILE *file = fopen(path, "re");
    unsigned long begin = 0, end = 0;
    char *line = NULL;
    size_t room = 0;

    while (file && getline(&line, &room, file) > 0 && end == 0) {
        if (!strstr(line, "[vdso]") || sscanf(line, "%lx-%lx", &begin, &end) != 2)
            end = 0;
    }
    free(line);
    if (file)
        fclose(file);
    /* "syscall" is 0f 05, at any address. */
    unsigned int last = 0;
    for (unsigned long at = begin; at < end; at += sizeof(long)) {
        errno = 0;
        unsigned long word =
            (unsigned long)tracee_ptrace(PTRACE_PEEKTEXT, tracee->threads[0].tid, at, 0);
        if (errno != 0)
            break;
        for (unsigned int i = 0; i < sizeof word; i++) {
            unsigned int byte = word >> 8 * i & 0xff;
            if (last == 0x0f && byte == 0x05) {
                tracee->at = at + i - 1;
                return 0;
            }
            last = byte;
        }
    }
    vg_guest_put(tracee->why, sizeof tracee->why, "its vDSO contains no system call instruction");
    return -1;
}

/* Prevents the process's system call filter and signals from interfering. Returns 0, or -1 and sets
 * `why`. */
static int
tracee_shield(vg_guest_tracee *tracee)
{
    pid_t tid = tracee->threads[0].tid;
    vg_guest_auto char *dir = vg_guest_format("%s/task/%d", tracee->dir, (int)tid);
    uint64_t all = ~(uint64_t)0;

    if (vg_guest_process_number(dir, "Seccomp:") > 0 &&
        tracee_ptrace(PTRACE_SETOPTIONS, tid, 0,
                      PTRACE_O_TRACESYSGOOD | PTRACE_O_SUSPEND_SECCOMP) != 0) {
        vg_guest_put(tracee->why, sizeof tracee->why,
                     "its system call filter (seccomp) cannot be suspended: %s", strerror(errno));
        return -1;
    }
    if (tracee_ptrace(PTRACE_GETSIGMASK, tid, sizeof tracee->mask, (uintptr_t)&tracee->mask) != 0 ||
        tracee_ptrace(PTRACE_SETSIGMASK, tid, sizeof all, (uintptr_t)&all) != 0) {
        vg_guest_put(tracee->why, sizeof tracee->why, "its signals cannot be blocked: %s",
                     strerror(errno));
        return -1;
    }
    tracee->ready = true;
    return 0;
}

/* ---- letting go ---- */

/* Restarts a call that ended early. */
static void
tracee_restart_call(struct thread *thread)
{
    if (!tracee_is_in_call(thread) || (long)thread->regs.rax != -EINTR)
        return;
    for (size_t i = 0; i < sizeof ends_early / sizeof *ends_early; i++) {
        if ((long)thread->regs.orig_rax == ends_early[i])
            thread->regs.rax = (unsigned long)RESTART_NO_HANDLER;
    }
}

/* Waits for the next stop of the thread that makes the calls, and stores signals for later. Returns
 * 1 for a stop at a call, 0 for one of the other kind, or -1 if it has ended. */
static int
tracee_next_stop(vg_guest_tracee *tracee, enum __ptrace_request request, int64_t until_ms)
{
    pid_t hand = tracee->threads[0].tid;
    int status;

    for (;;) {
        pid_t tid = tracee_wait(&status, until_ms);
        if (tid == 0) {
            /* It reaches the other kind of stop, immediately or when the kernel allows it. */
            tracee_ptrace(PTRACE_INTERRUPT, hand, 0, 0);
            until_ms = INT64_MAX;
        } else if (tid < 0 || (tid == hand && !WIFSTOPPED(status))) {
            tracee->ended = true;
            return -1;
        } else if (tid == hand && WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            return 1;
        } else if (tid == hand && tracee_is_trap(status)) {
            return 0;
        } else if (tid == hand) {
            tracee->resend |= (uint64_t)1 << (WSTOPSIG(status) - 1);
            tracee_ptrace(request, hand, 0, 0);
        }
    }
}

/* Returns the thread to the stop that preserves its blocked call. */
static void
tracee_leave_call(vg_guest_tracee *tracee)
{
    while (tracee->in_call && !tracee->ended) {
        pid_t hand = tracee->threads[0].tid;
        tracee_ptrace(PTRACE_INTERRUPT, hand, 0, 0);
        tracee_ptrace(PTRACE_CONT, hand, 0, 0);
        if (tracee_next_stop(tracee, PTRACE_CONT, INT64_MAX) == 0)
            tracee->in_call = false;
    }
}

static void
tracee_detach(vg_guest_tracee *tracee)
{
    int64_t until_ms = vg_guest_now_ms() + COLLECT_MS;
    pid_t tid = 1;

    while (tracee_running(tracee) && tid > 0) {
        int status;
        tid = tracee_wait(&status, until_ms);
        if (tid > 0)
            tracee_take(tracee, tid, status);
    }
    for (size_t i = 0; i < tracee->n; i++) {
        struct thread *thread = &tracee->threads[i];
        if (!thread->stopped)
            continue;
        tracee_restart_call(thread);
        tracee_ptrace(PTRACE_SETREGS, thread->tid, 0, (uintptr_t)&thread->regs);
        tracee_ptrace(PTRACE_DETACH, thread->tid, 0, 0);
    }
}

void
vg_guest_tracee_let_go(vg_guest_tracee *tracee)
{
    pid_t hand = tracee->n > 0 ? tracee->threads[0].tid : 0;

    tracee_leave_call(tracee);
    if (tracee->ready && !tracee->ended)
        tracee_ptrace(PTRACE_SETSIGMASK, hand, sizeof tracee->mask, (uintptr_t)&tracee->mask);
    tracee_detach(tracee);
    for (int number = 1; number <= 64; number++) {
        if (tracee->resend >> (number - 1) & 1)
            syscall(SYS_tgkill, tracee->pid, hand, number);
    }
    tracee_set_tick(0);
    free(tracee->threads);
    free(tracee->dir);
    free(tracee);
}

/* ---- stopping ---- */

static vg_guest_tracee *
tracee_new(const char *root, pid_t pid)
{
    vg_guest_tracee *tracee = vg_guest_alloc(sizeof *tracee);
    struct utsname name;
    int major_number = 0, minor_number = 0;

    tracee->pid = pid;
    tracee->dir = vg_guest_format("%s/proc/%d", root, (int)pid);
    uname(&name);
    if (sscanf(name.release, "%d.%d", &major_number, &minor_number) == 2)
        tracee->hides_masks = major_number < 5 || (major_number == 5 && minor_number < 1);
    return tracee;
}

vg_guest_tracee *
vg_guest_tracee_stop(const char *root, pid_t pid, int64_t until_ms,
                     char ret_why[VG_GUEST_TRACEE_WHY_MAX])
{
    for (;;) {
        vg_guest_tracee *tracee = tracee_new(root, pid);
        tracee_set_tick(TICK_MS);
        if (tracee_stop_threads(tracee, until_ms) == 0) {
            bool chosen = tracee_choose(tracee);
            if (chosen && tracee_find_instruction(tracee) == 0 && tracee_shield(tracee) == 0)
                return tracee;
            if (!chosen && vg_guest_now_ms() >= until_ms)
                vg_guest_put(tracee->why, sizeof tracee->why,
                             "none of its threads is at a safe point");
        }
        vg_guest_put(ret_why, VG_GUEST_TRACEE_WHY_MAX, "%s", tracee->why);
        bool again = !*tracee->why;
        vg_guest_tracee_let_go(tracee);
        if (!again)
            return NULL;
        usleep(AGAIN_US);
    }
}

pid_t
vg_guest_tracee_caller(const vg_guest_tracee *tracee)
{
    return tracee->threads[0].tid;
}

long
vg_guest_tracee_call(vg_guest_tracee *tracee, long number, const unsigned long args[6])
{
    struct user_regs_struct regs = tracee->threads[0].regs;
    pid_t hand = tracee->threads[0].tid;
    int64_t until_ms = vg_guest_now_ms() + CALL_MS;

    if (tracee->ended)
        return -ESRCH;
    regs.rax = (unsigned long)number;
    regs.orig_rax = ~0UL;
    regs.rip = tracee->at;
    regs.rdi = args[0];
    regs.rsi = args[1];
    regs.rdx = args[2];
    regs.r10 = args[3];
    regs.r8 = args[4];
    regs.r9 = args[5];
    tracee_ptrace(PTRACE_SETREGS, hand, 0, (uintptr_t)&regs);
    /* The thread stops at the start and at the end of the call. */
    for (int stops = 0; stops < 2;) {
        tracee_ptrace(PTRACE_SYSCALL, hand, 0, 0);
        int stop = tracee_next_stop(tracee, PTRACE_SYSCALL, until_ms);
        if (stop < 0)
            return -ESRCH;
        tracee->in_call = stop > 0;
        stops += stop;
        if (stop == 0 && vg_guest_now_ms() >= until_ms)
            return -ETIME;
    }
    return tracee_ptrace(PTRACE_GETREGS, hand, 0, (uintptr_t)&regs) == 0 ? (long)regs.rax : -ESRCH;
}

int
vg_guest_tracee_write(const vg_guest_tracee *tracee, unsigned long at, const void *data,
                      size_t size)
{
    for (size_t done = 0; done < size; done += sizeof(long)) {
        long word = 0;
        memcpy(&word, (const char *)data + done,
               size - done < sizeof word ? size - done : sizeof word);
        if (tracee_ptrace(PTRACE_POKEDATA, tracee->threads[0].tid, at + done, (uintptr_t)word) != 0)
            return -1;
    }
    return 0;
}

#endif
