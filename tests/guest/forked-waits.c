/* SPDX-License-Identifier: Apache-2.0
 *
 * What children of forked.c wait for, and what else they are like.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>

#include "tests/guest/forked.h"

/* Of those that wait for a time. */
enum { WAIT_MS = 1200 };

static volatile sig_atomic_t handled;
static volatile unsigned long values;

static void
on_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    handled++;
    values += (unsigned long)info->si_value.sival_int;
}

static void
handle(int number, bool block)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigset_t set;

    sigaction(number, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(block ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

static bool
is_blocked(int number)
{
    sigset_t set;

    sigprocmask(SIG_BLOCK, NULL, &set);
    return sigismember(&set, number);
}

static int64_t
now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- what they wait for; each returns whether it came as it should ---- */

static bool
wait_read(struct child *child)
{
    char byte = 0;

    return read(child->from_parent[0], &byte, 1) == 1 && byte == 'g';
}

static bool
wait_recv(struct child *child)
{
    struct timeval timeout = {.tv_sec = 1000};
    char byte = 0;

    setsockopt(child->socket[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    return recv(child->socket[0], &byte, 1, 0) == 1 && byte == 'g';
}

static bool
wait_futex(struct child *child)
{
    return syscall(SYS_futex, &child->go, FUTEX_WAIT, 0, NULL) == 0;
}

static bool
wait_futex_time(struct child *child)
{
    struct timespec timeout = {WAIT_MS / 1000, WAIT_MS % 1000 * 1000000L};
    int64_t began_ms = now_ms();

    (void)child;
    int never = 0;
    long result = syscall(SYS_futex, &never, FUTEX_WAIT, 0, &timeout);
    return result == -1 && errno == ETIMEDOUT && now_ms() >= began_ms + WAIT_MS;
}

static bool
wait_nanosleep(struct child *child)
{
    struct timespec time = {WAIT_MS / 1000, WAIT_MS % 1000 * 1000000L};
    int64_t began_ms = now_ms();

    (void)child;
    return nanosleep(&time, NULL) == 0 && now_ms() >= began_ms + WAIT_MS;
}

static bool
wait_poll(struct child *child)
{
    struct pollfd fd = {.fd = child->from_parent[0], .events = POLLIN};

    return poll(&fd, 1, -1) == 1;
}

static bool
wait_poll_time(struct child *child)
{
    int64_t began_ms = now_ms();

    (void)child;
    return poll(NULL, 0, WAIT_MS) == 0 && now_ms() >= began_ms + WAIT_MS;
}

/* Its mask is another one while it waits. */
static bool
wait_ppoll(struct child *child)
{
    struct pollfd fd = {.fd = child->from_parent[0], .events = POLLIN};
    sigset_t none;

    handle(SIGUSR2, true);
    sigemptyset(&none);
    return ppoll(&fd, 1, NULL, &none) == 1 && is_blocked(SIGUSR2) && handled == 0;
}

static bool
wait_pselect(struct child *child)
{
    fd_set fds;
    sigset_t none;

    handle(SIGUSR2, true);
    sigemptyset(&none);
    FD_ZERO(&fds);
    FD_SET(child->from_parent[0], &fds);
    return pselect(child->from_parent[0] + 1, &fds, NULL, NULL, NULL, &none) == 1 &&
           is_blocked(SIGUSR2) && handled == 0;
}

static int
make_epoll(const struct child *child)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd = epoll_create1(EPOLL_CLOEXEC);

    epoll_ctl(fd, EPOLL_CTL_ADD, child->from_parent[0], &event);
    return fd;
}

static bool
wait_epoll(struct child *child)
{
    struct epoll_event event;

    return epoll_wait(make_epoll(child), &event, 1, -1) == 1;
}

static bool
wait_epoll_time(struct child *child)
{
    struct epoll_event event;
    int64_t began_ms = now_ms();

    (void)child;
    return epoll_wait(epoll_create1(0), &event, 1, WAIT_MS) == 0 && now_ms() >= began_ms + WAIT_MS;
}

static bool
wait_epoll_pwait(struct child *child)
{
    struct epoll_event event;
    sigset_t none;

    handle(SIGUSR2, true);
    sigemptyset(&none);
    return epoll_pwait(make_epoll(child), &event, 1, -1, &none) == 1 && is_blocked(SIGUSR2);
}

/* A signal that comes while it waits still ends that. */
static bool
wait_ppoll_signal(struct child *child)
{
    sigset_t none;

    (void)child;
    handle(SIGUSR2, true);
    sigemptyset(&none);
    int result = ppoll(NULL, 0, NULL, &none);
    return result == -1 && errno == EINTR && handled == 1 && values == 7 && is_blocked(SIGUSR2);
}

static bool
wait_sigsuspend(struct child *child)
{
    sigset_t none;

    (void)child;
    handle(SIGUSR2, true);
    sigemptyset(&none);
    return sigsuspend(&none) == -1 && handled == 1 && values == 7 && is_blocked(SIGUSR2);
}

static bool
wait_pause(struct child *child)
{
    (void)child;
    handle(SIGUSR2, false);
    return pause() == -1 && handled == 1 && values == 7 && !is_blocked(SIGUSR2);
}

static bool
wait_sigtimedwait(struct child *child)
{
    struct timespec timeout = {.tv_sec = 1000};
    siginfo_t info;
    sigset_t set;

    (void)child;
    handle(SIGUSR2, true);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return sigtimedwait(&set, &info, &timeout) == SIGUSR2 && info.si_value.sival_int == 7;
}

/* Signals that wait for it are not lost, with what they bring. */
static bool
wait_pending(struct child *child)
{
    struct timespec none = {0};
    siginfo_t info;
    sigset_t set;

    handle(SIGUSR2, true);
    sigqueue(getpid(), SIGUSR2, (union sigval){.sival_int = 41});
    bool ok = wait_read(child);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return ok && sigtimedwait(&set, &info, &none) == SIGUSR2 && info.si_value.sival_int == 41;
}

static bool
wait_message(struct child *child)
{
    struct {
        long type;
        char text[1];
    } message;

    return msgrcv(child->queue, &message, 1, 0, 0) == 1 && message.text[0] == 'g';
}

static bool
wait_semaphore(struct child *child)
{
    struct sembuf take = {.sem_op = -1};

    return semop(child->semaphore, &take, 1) == 0;
}

static bool
wait_wait(struct child *child)
{
    pid_t pid = fork();
    int status = -1;

    if (pid == 0) {
        close(node_fd);
        close(passed_fd);
        munmap(map, PAGE);
        _exit(wait_read(child) ? 0 : 1);
    }
    return waitpid(pid, &status, 0) == pid && status == 0;
}

/* Computes, with what registers there are. */
static bool
wait_busy(struct child *child)
{
    unsigned long n = 0, turn[2] = {1, 1};
    double sum[2] = {0, 0};

    for (; !__atomic_load_n(&child->go, __ATOMIC_RELAXED); n++) {
        turn[0] = turn[0] * 6364136223846793005UL + 1442695040888963407UL;
        sum[0] = sum[0] * 0.5 + (double)(turn[0] >> 40);
    }
    for (unsigned long i = 0; i < n; i++) {
        turn[1] = turn[1] * 6364136223846793005UL + 1442695040888963407UL;
        sum[1] = sum[1] * 0.5 + (double)(turn[1] >> 40);
    }
    return turn[0] == turn[1] && memcmp(&sum[0], &sum[1], sizeof sum[0]) == 0;
}

/* Sleeps again and again. */
static bool
wait_sleeps(struct child *child)
{
    struct timespec time = {.tv_nsec = 100000};
    struct rlimit limit = {2, 2};

    setrlimit(RLIMIT_NOFILE, &limit);
    while (!__atomic_load_n(&child->go, __ATOMIC_RELAXED)) {
        if (nanosleep(&time, NULL) != 0)
            return false;
    }
    return true;
}

/* Every signal comes once, with its number. */
static bool
wait_storm(struct child *child)
{
    unsigned long sent = 0;

    handle(SIGRTMIN, false);
    while (!__atomic_load_n(&child->go, __ATOMIC_ACQUIRE) ||
           (unsigned long)handled < (sent = __atomic_load_n(&child->sent, __ATOMIC_ACQUIRE)))
        usleep(1000);
    return (unsigned long)handled == sent && values == sent * (sent + 1) / 2;
}

static void *
end_at_once(void *arg)
{
    return arg;
}

/* Threads come and go. */
static bool
wait_threads_come(struct child *child)
{
    while (!__atomic_load_n(&child->go, __ATOMIC_RELAXED)) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, end_at_once, NULL) != 0 ||
            pthread_join(thread, NULL) != 0)
            return false;
    }
    return true;
}

/* ---- other kinds of processes ---- */

static void
trap_forbidden(void)
{
    /* Opening is an error, and mapping memory ends it. */
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Its filter is in force again afterwards. */
static bool
wait_seccomp(struct child *child)
{
    trap_forbidden();
    return wait_read(child) && open("/", O_RDONLY | O_CLOEXEC) == -1 && errno == EXDEV;
}

static bool
wait_own(struct child *child)
{
    int fd = open(node, O_RDWR | O_CLOEXEC);

    return fd >= 0 && wait_read(child);
}

/* It has the map alone. */
static bool
wait_closed(struct child *child)
{
    close(node_fd);
    close(passed_fd);
    return wait_read(child);
}

/* Likewise, but another one. */
static bool
wait_own_map(struct child *child)
{
    void *other = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, node_fd, 0);

    munmap(map, PAGE);
    map = other;
    return wait_closed(child);
}

static bool
wait_many_files(struct child *child)
{
    for (int i = 0; i < 100; i++)
        fcntl(node_fd, F_DUPFD_CLOEXEC, 3);
    return wait_read(child);
}

static bool
wait_vfork(struct child *child)
{
    pid_t pid = vfork();

    if (pid == 0) {
        char byte;
        _exit(syscall(SYS_read, child->from_parent[0], &byte, 1) == 1 ? 0 : 1);
    }
    return waitpid(pid, NULL, 0) == pid;
}

static int
read_there(void *arg)
{
    return wait_read(arg) ? 0 : 1;
}

/* A process that has the same descriptors, not copies of them. */
static bool
wait_shares_files(struct child *child)
{
    static char stack[64 << 10] __attribute__((aligned(16)));
    int status = -1;
    pid_t pid = clone(read_there, stack + sizeof stack, CLONE_FILES | SIGCHLD, child);

    return waitpid(pid, &status, 0) == pid && status == 0;
}

static void *
have_own_files(void *arg)
{
    unshare(CLONE_FILES);
    return wait_read(arg) ? arg : NULL;
}

static bool
wait_thread_files(struct child *child)
{
    pthread_t thread;
    void *result = NULL;

    return pthread_create(&thread, NULL, have_own_files, child) == 0 &&
           pthread_join(thread, &result) == 0 && result == child;
}

static bool
wait_stopped(struct child *child)
{
    raise(SIGSTOP);
    return wait_read(child);
}

/* Too few descriptors may be had now for those that there are. */
static bool
wait_limit(struct child *child)
{
    struct rlimit limit = {2, 2};

    setrlimit(RLIMIT_NOFILE, &limit);
    return wait_read(child);
}

struct wait_thread {
    struct child *child;
    bool (*wait)(struct child *child);
};

static void *
run_thread(void *arg)
{
    struct wait_thread *thread = arg;

    return thread->wait(thread->child) ? arg : NULL;
}

/* In one thread for each of these, and all have to be right. */
static bool
wait_threads(struct child *child)
{
    bool (*const waits[])(struct child *) = {wait_read,      wait_futex,     wait_futex_time,
                                             wait_nanosleep, wait_poll,      wait_poll_time,
                                             wait_epoll,     wait_epoll_time};
    enum { N = sizeof waits / sizeof *waits };
    struct wait_thread arguments[N];
    pthread_t threads[N];
    bool ok = true;

    for (size_t i = 0; i < N; i++) {
        arguments[i] = (struct wait_thread){child, waits[i]};
        ok = pthread_create(&threads[i], NULL, run_thread, &arguments[i]) == 0 && ok;
    }
    for (size_t i = 0; i < N; i++) {
        void *result = NULL;
        ok = pthread_join(threads[i], &result) == 0 && result && ok;
    }
    return ok;
}

static const struct kind kinds[] = {
    {"read", wait_read, 0},
    {"recv", wait_recv, 0},
    {"futex", wait_futex, 0},
    {"futex-time", wait_futex_time, 0},
    {"nanosleep", wait_nanosleep, 0},
    {"poll", wait_poll, 0},
    {"poll-time", wait_poll_time, 0},
    {"ppoll", wait_ppoll, 0},
    {"pselect", wait_pselect, 0},
    {"epoll", wait_epoll, 0},
    {"epoll-time", wait_epoll_time, 0},
    {"epoll-pwait", wait_epoll_pwait, 0},
    {"ppoll-signal", wait_ppoll_signal, SIGUSR2},
    {"sigsuspend", wait_sigsuspend, SIGUSR2},
    {"pause", wait_pause, SIGUSR2},
    {"sigtimedwait", wait_sigtimedwait, SIGUSR2},
    {"pending", wait_pending, 0},
    {"message", wait_message, 0},
    {"semaphore", wait_semaphore, 0},
    {"wait", wait_wait, 0},
    {"busy", wait_busy, 0},
    {"sleeps", wait_sleeps, 0},
    {"storm", wait_storm, 0},
    {"threads-come", wait_threads_come, 0},
    {"seccomp", wait_seccomp, 0},
    {"own", wait_own, 0},
    {"closed", wait_closed, 0},
    {"own-map", wait_own_map, 0},
    {"many-files", wait_many_files, 0},
    {"vfork", wait_vfork, 0},
    {"shares-files", wait_shares_files, 0},
    {"thread-files", wait_thread_files, 0},
    {"stopped", wait_stopped, 0},
    {"limit", wait_limit, 0},
    {"threads", wait_threads, 0},
};

const struct kind *
find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    }
    return &kinds[0];
}
