/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/serve/watch.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <stdatomic.h>

#include "opencl/base/clock.h"
#include "opencl/base/say.h"
#include "opencl/serve/meter.h"
#include "opencl/serve/private.h"

#define WATCH_SECOND INT64_C(1000000000)

/* How long messages that the program sent before its end may still be processed. */
#define WATCH_GRACE (2 * WATCH_SECOND)

#define WATCH_CRASH_S 2     /* time to report a crash to the program */
#define WATCH_STACK   65536 /* bytes of stack for that: a compiler may have used up its own */

struct vg_serve_watch {
    struct vg_serve *serve;
    int wake;              /* an eventfd */
    _Atomic int64_t began; /* start of the build in progress; 0: none */
    _Atomic int64_t cpu;   /* CPU time of this process at that time, in ns */
    atomic_bool is_asleep; /* until it is woken, or the link changes */
    int statm;             /* descriptor of this process's statm; -1: memory is not limited */
    _Atomic unsigned op;   /* op of the last call */
};

/* ---- the end ---- */

static _Noreturn void
watch_end(struct vg_serve_watch *watch, const char *what, unsigned limit_s, const char *option)
{
    struct vg_serve *serve = watch->serve;
    char why[128];

    snprintf(why, sizeof why, "a build took more than %u s%s (%s)", limit_s, what, option);
    vg_cl_say("%s; terminating its client", why);
    if (serve->limits.counts)
        vg_serve_note(&serve->limits.counts->failed, "%s, so its program was terminated", why);
    vg_serve_end_why(serve, why);
}

static int64_t
watch_cpu(void)
{
    struct timespec time;

    return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0
               ? time.tv_sec * WATCH_SECOND + time.tv_nsec
               : 0;
}

static void
watch_check_build(struct vg_serve_watch *watch)
{
    const struct vg_serve_limits *limits = &watch->serve->limits;
    const int64_t began = watch->began;

    if (!began)
        return;
    if (limits->build_s && vg_cl_now() - began >= limits->build_s * WATCH_SECOND)
        watch_end(watch, "", limits->build_s, "--build");
    if (limits->build_cpu_s && watch_cpu() - watch->cpu >= limits->build_cpu_s * WATCH_SECOND)
        watch_end(watch, " of CPU time", limits->build_cpu_s, "--build-cpu");
}

/* ---- the thread ---- */

/* Waits until something may have changed. Sessions send heartbeats each second anyway. */
static void
watch_wait(struct vg_serve_watch *watch, bool is_over)
{
    const struct vg_wire_link *link = watch->serve->link;
    struct pollfd at[2] = {{.fd = watch->wake, .events = POLLIN},
                           {.fd = is_over ? -1 : link->fd, .events = POLLRDHUP}};
    uint64_t count;

    atomic_store(&watch->is_asleep, true);
    const bool is_timed = is_over || link->session || watch->began;
    poll(at, 2, is_timed ? 1000 : -1);
    atomic_store(&watch->is_asleep, false);
    if (at[0].revents) {
        ssize_t n = read(watch->wake, &count, sizeof count);
        (void)n;
    }
}

static void *
watch_run(void *data)
{
    struct vg_serve_watch *watch = data;
    int64_t over = 0;

    for (;;) {
        watch_wait(watch, over);
        if (!over && vg_wire_link_is_over(watch->serve->link))
            over = vg_cl_now();
        /* The vendor's library is busy, but the program has ended. */
        if (over && vg_cl_now() - over >= WATCH_GRACE)
            _exit(EXIT_SUCCESS);
        watch_check_build(watch);
    }
    return NULL;
}

/* ---- crashes ---- */

static const int watch_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

#define WATCH_SIGNALS (sizeof watch_signals / sizeof *watch_signals)

static struct vg_serve_watch *watch_of_crash;
static atomic_int watch_crash;
static atomic_bool watch_is_told;

/* Ends the process with the signal. The first process of a PID namespace ignores its own signals.
 * It exits with the status that a shell uses for such an end. */
static _Noreturn void
watch_die(void)
{
    const int crash = watch_crash;

    signal(crash, SIG_DFL);
    raise(crash);
    _exit(128 + crash);
}

/* The program cannot be notified, because a thread holds a lock indefinitely. */
static void
watch_on_alarm(int number)
{
    (void)number;
    watch_die();
}

static void
watch_on_crash(int number)
{
    const unsigned op = watch_of_crash->op;
    char why[128];
    int none = 0;

    /* Other threads wait for the end of the process. */
    while (!atomic_compare_exchange_strong(&watch_crash, &none, number) && !watch_is_told) {
        none = 0;
        pause();
    }
    /* The signal was ignored. */
    if (watch_is_told)
        watch_die();
    signal(SIGALRM, watch_on_alarm);
    alarm(WATCH_CRASH_S);
    snprintf(why, sizeof why, "its process has crashed (signal %d); its last call was %s", number,
             op < VG_WIRE_OPS && vg_serve_names[op] ? vg_serve_names[op] : "none");
    vg_serve_say_end(watch_of_crash->serve, why);
    watch_is_told = true;
    watch_die();
}

/* Replaces handlers of compilers, which they may set at any time: after LLVM's, abort() ends the
 * first process of a PID namespace with another signal. */
static void
watch_set_handlers(void)
{
    struct sigaction action = {.sa_handler = watch_on_crash, .sa_flags = SA_ONSTACK};

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < WATCH_SIGNALS; i++)
        sigaction(watch_signals[i], &action, NULL);
}

static void
watch_crashes(struct vg_serve_watch *watch)
{
    const stack_t stack = {.ss_sp = malloc(WATCH_STACK), .ss_size = WATCH_STACK};

    watch_of_crash = watch;
    if (stack.ss_sp)
        sigaltstack(&stack, NULL);
    watch_set_handlers();
}

/* ---- calls ---- */

/* Returns whether OP may use the vendor's compiler. */
static bool
watch_may_build(unsigned op)
{
    switch (op) {
    case VG_WIRE_OP_BuildProgram:
    case VG_WIRE_OP_CompileProgram:
    case VG_WIRE_OP_LinkProgram:
    case VG_WIRE_OP_CreateProgramWithBinary:
    case VG_WIRE_OP_CreateProgramWithIL:
    case VG_WIRE_OP_CreateProgramWithBuiltInKernels:
    case VG_WIRE_OP_CreateKernel:
    case VG_WIRE_OP_CreateKernelsInProgram:
    case VG_WIRE_OP_CloneKernel:
    case VG_WIRE_OP_GetProgramInfo:
    case VG_WIRE_OP_GetProgramBuildInfo:
    case VG_WIRE_OP_ProgramBinaries:
        return true;
    default:
        return false;
    }
}

/* Limits RLIMIT_DATA, which counts private memory and not address space. NVIDIA's library reserves
 * more of the latter than the machine has memory. The limit only applies during builds: a CPU
 * device's memory is also private, and PoCL reduces it if it is permanently limited. */
static void
watch_limit_memory(const struct vg_serve_watch *watch, uint64_t most)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct rlimit limit;
    unsigned long data;
    char text[128];

    if (watch->statm < 0 || getrlimit(RLIMIT_DATA, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    ssize_t n = most ? pread(watch->statm, text, sizeof text - 1, 0) : 0;
    text[n > 0 ? n : 0] = '\0';
    if (n > 0 && sscanf(text, "%*u %*u %*u %*u %*u %lu", &data) == 1)
        limit.rlim_cur = data * page + most;
    setrlimit(RLIMIT_DATA, &limit);
}

void
vg_serve_watch_enter(struct vg_serve *serve, unsigned op)
{
    struct vg_serve_watch *watch = serve->watch;
    const uint64_t one = 1;

    if (!watch)
        return;
    atomic_store_explicit(&watch->op, op, memory_order_relaxed);
    if (!watch_may_build(op))
        return;
    watch_set_handlers();
    watch->cpu = watch_cpu();
    watch->began = vg_cl_now();
    watch_limit_memory(watch, serve->limits.build_memory);
    if (serve->link->session || !atomic_load(&watch->is_asleep))
        return;
    ssize_t n = write(watch->wake, &one, sizeof one);
    (void)n;
}

void
vg_serve_watch_leave(struct vg_serve *serve)
{
    struct vg_serve_watch *watch = serve->watch;

    if (!watch || !atomic_load_explicit(&watch->began, memory_order_relaxed))
        return;
    watch->began = 0;
    watch_limit_memory(watch, 0);
}

bool
vg_serve_watch_begin(struct vg_serve *serve)
{
    struct vg_serve_watch *watch = calloc(1, sizeof *watch);
    pthread_t thread;

    if (!watch)
        return false;
    watch->serve = serve;
    watch->op = VG_WIRE_OPS;
    watch->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    watch->statm = serve->limits.build_memory ? open("/proc/self/statm", O_RDONLY | O_CLOEXEC) : -1;
    if (watch->wake < 0 || (serve->limits.build_memory && watch->statm < 0) ||
        pthread_create(&thread, NULL, watch_run, watch) != 0)
        return false;
    pthread_detach(thread);
    serve->watch = watch;
    watch_crashes(watch);
    return true;
}
