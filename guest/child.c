/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/util.h"

/* Set by signals, which arrive only within ppoll(). */
static volatile sig_atomic_t stop_cancel, stop_end;
/* The process group of the running child, or 0. */
static pid_t running;

static void
child_on_signal(int number)
{
    if (number == SIGUSR1)
        stop_cancel = 1;
    else if (number == SIGTERM)
        stop_end = 1;
}

void
vg_guest_child_init(void)
{
    struct sigaction action = {.sa_handler = child_on_signal};
    sigset_t set;

    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGCHLD, &action, NULL);
    signal(SIGINT, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_SETMASK, &set, NULL);
}

enum vg_guest_stop
vg_guest_child_stop(void)
{
    return stop_cancel ? VG_GUEST_STOP_CANCEL : VG_GUEST_STOP_NONE;
}

void
vg_guest_child_ignore_cancel(void)
{
    signal(SIGUSR1, SIG_IGN);
    stop_cancel = 0;
}

void
vg_guest_child_wait(struct pollfd *fds, size_t n, int64_t until_ms)
{
    int64_t left = until_ms - vg_guest_now_ms();
    struct timespec timeout = {.tv_sec = left > 0 ? left / 1000 : 0,
                               .tv_nsec = left > 0 ? left % 1000 * 1000000 : 0};
    sigset_t none;

    sigemptyset(&none);
    ppoll(fds, n, &timeout, &none);
    if (stop_end) {
        if (running > 0) {
            kill(-running, SIGTERM);
            /* The agent has ended, so the child cannot get more time. */
            usleep(100000);
            kill(-running, SIGKILL);
        }
        _exit(1);
    }
}

void
vg_guest_child_sleep(int64_t until_ms)
{
    while (vg_guest_now_ms() < until_ms && !stop_cancel)
        vg_guest_child_wait(NULL, 0, until_ms);
}

/* Moves a child to its own process group, with default signal handling. */
static void
child_reset(void)
{
    sigset_t none;

    setpgid(0, 0);
    signal(SIGUSR1, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Reads output, and stores its end. Returns whether more may come. */
static bool
child_read(int fd, struct vg_guest_child_end *end)
{
    char data[1024];
    size_t have = strlen(end->output);

    for (int i = 0; i < 64; i++) {
        ssize_t got = read(fd, data, sizeof data);
        if (got <= 0)
            return got < 0;
        for (ssize_t at = 0; at < got; at++) {
            if (data[at] == '\0')
                data[at] = '?';
        }
        size_t more = (size_t)got;
        size_t drop = have + more > VG_GUEST_OUTPUT_MAX ? have + more - VG_GUEST_OUTPUT_MAX : 0;
        memmove(end->output, end->output + drop, have - drop);
        memcpy(end->output + have - drop, data, more);
        have = have - drop + more;
        end->output[have] = '\0';
    }
    return true;
}

static bool
child_reap(pid_t pid, struct vg_guest_child_end *end)
{
    int status;

    if (waitpid(pid, &status, WNOHANG) != pid)
        return false;
    end->exit = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return true;
}

/* Reads the output of a child until the child itself has ended: processes that it leaves running
 * may keep the pipe open. */
static void
child_follow(pid_t pid, int fd, int64_t until_ms, struct vg_guest_child_end *end)
{
    int64_t began = vg_guest_now_ms(), limit = until_ms;
    int sent = 0;

    running = pid;
    while (!child_reap(pid, end)) {
        if (sent == 0 && stop_cancel)
            limit = vg_guest_now_ms();
        if (vg_guest_now_ms() >= limit) {
            if (sent == SIGKILL) {
                end->stuck = true;
                break;
            }
            end->ended_early = true;
            sent = sent == 0 ? SIGTERM : SIGKILL;
            kill(-pid, sent);
            limit = vg_guest_now_ms() + VG_GUEST_TERM_MS;
        }
        if (fd >= 0 && !child_read(fd, end))
            fd = -1;
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        vg_guest_child_wait(&poll_fd, 1, limit);
    }
    running = 0;
    if (fd >= 0)
        child_read(fd, end);
    end->ms = vg_guest_now_ms() - began;
}

int
vg_guest_child_run(const char *const *argv, char *const *env, int64_t until_ms,
                   struct vg_guest_child_end *ret)
{
    int out[2];

    *ret = (struct vg_guest_child_end){0};
    if (pipe2(out, O_CLOEXEC) != 0)
        return errno;
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        child_reset();
        if (null >= 0)
            dup2(null, STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        dup2(out[1], STDERR_FILENO);
        if (chdir("/") == 0)
            execvpe(argv[0], (char *const *)(uintptr_t)argv, env);
        dprintf(STDERR_FILENO, "cannot be run: %s\n", strerror(errno));
        _exit(127);
    }
    int error = pid < 0 ? errno : 0;
    close(out[1]);
    if (error == 0) {
        setpgid(pid, pid);
        fcntl(out[0], F_SETFL, O_NONBLOCK);
        child_follow(pid, out[0], until_ms, ret);
    }
    close(out[0]);
    return error;
}

int
vg_guest_child_write(const char *path, const char *text, int64_t until_ms)
{
    struct vg_guest_child_end end = {0};
    pid_t pid = fork();

    if (pid < 0)
        return errno;
    if (pid == 0) {
        child_reset();
        /* If the write blocks indefinitely, this process must not keep these files open. */
        close_range(3, ~0U, 0);
        int error = vg_guest_write_file(path, text);
        _exit(error < 256 ? error : EIO);
    }
    setpgid(pid, pid);
    child_follow(pid, -1, until_ms, &end);
    if (end.stuck)
        return VG_GUEST_WRITE_STUCK;
    return end.ended_early ? VG_GUEST_WRITE_ENDED : end.signal ? EIO : end.exit;
}

pid_t
vg_guest_child_start(void (*run)(int fd), int fd)
{
    pid_t self = getpid(), pid = fork();

    if (pid != 0)
        return pid;
    child_reset();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self)
        _exit(1);
    if (fd != 3)
        dup2(fd, 3);
    /* Otherwise, the files of its siblings would stay open, and none would see another's end. */
    close_range(4, ~0U, 0);
    run(3);
    _exit(0);
}
