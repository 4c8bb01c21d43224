/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

#define READ_CHUNK 4096

struct vg_child {
    char *name;
    pid_t pid; /* 0 after it was reaped */
    int pidfd, out_fd, err_fd;
    GString *out, *err;
    siginfo_t end;
};

/* ---- between fork and exec ---- */

struct plan {
    const char *const *argv;
    char **environment;
    const int *keep_fds;
    size_t n_keep;
    int out_fd, err_fd, failure_fd;
    pid_t parent;
};

_Noreturn static void
become(const struct plan *plan)
{
    sigset_t none;
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    /* The child leaves the terminal's foreground group: vgpuctl handles the terminal's signals. */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != plan->parent)
        _exit(127);
    for (size_t i = 0; i < plan->n_keep; i++)
        fcntl(plan->keep_fds[i], F_SETFD, 0);
    if (null_fd >= 0 && dup2(null_fd, STDIN_FILENO) >= 0 &&
        dup2(plan->out_fd, STDOUT_FILENO) >= 0 && dup2(plan->err_fd, STDERR_FILENO) >= 0 &&
        sigprocmask(SIG_SETMASK, &none, NULL) == 0)
        execvpe(plan->argv[0], (char *const *)plan->argv, plan->environment);
    int saved = errno;
    (void)!write(plan->failure_fd, &saved, sizeof(saved));
    _exit(127);
}

/* ---- starting ---- */

static void
close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Returns 0, or the errno of the failed exec. */
static int
wait_for_exec(int failure_fd)
{
    int failure = 0;
    ssize_t n;

    do
        n = read(failure_fd, &failure, sizeof(failure));
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(failure) ? failure : 0;
}

static int
child_start(vg_child *child, struct plan *plan, int out[2], int words[2], int failure[2],
            GError **err)
{
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(words, O_CLOEXEC) != 0 ||
        pipe2(failure, O_CLOEXEC) != 0)
        return vg_error_errno(err, errno, "cannot run '%s'", child->name);
    plan->out_fd = out[1];
    plan->err_fd = words[1];
    plan->failure_fd = failure[1];
    child->pid = fork();
    if (child->pid == 0)
        become(plan);
    if (child->pid < 0) {
        child->pid = 0;
        return vg_error_errno(err, errno, "cannot run '%s'", child->name);
    }
    /* glibc provides pidfd_open() since 2.36. */
    child->pidfd = (int)syscall(SYS_pidfd_open, child->pid, 0);
    if (child->pidfd < 0)
        return vg_error_errno(err, errno, "cannot get a process descriptor for '%s'", child->name);
    close_end(&failure[1]);
    int why = wait_for_exec(failure[0]);
    if (why == ENOENT)
        return vg_error(err, VG_E_NOT_FOUND, "the program '%s' is not installed, or not in PATH",
                        child->name);
    if (why != 0)
        return vg_error_errno(err, why, "cannot run '%s'", child->name);
    child->out_fd = out[0];
    child->err_fd = words[0];
    out[0] = words[0] = -1;
    fcntl(child->out_fd, F_SETFL, O_NONBLOCK);
    fcntl(child->err_fd, F_SETFL, O_NONBLOCK);
    return 0;
}

vg_child *
vg_child_new(const char *const *argv, const int *keep_fds, size_t n_keep, GError **err)
{
    g_autoptr(vg_child) child = g_new0(vg_child, 1);
    g_auto(GStrv) environment = g_environ_setenv(g_get_environ(), "LC_ALL", "C", TRUE);
    struct plan plan = {
        .argv = argv,
        .environment = environment,
        .keep_fds = keep_fds,
        .n_keep = n_keep,
        .parent = getpid(),
    };
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};

    child->name = g_strdup(argv[0]);
    child->pidfd = child->out_fd = child->err_fd = -1;
    child->out = g_string_new(NULL);
    child->err = g_string_new(NULL);
    int status = child_start(child, &plan, pipes[0], pipes[1], pipes[2], err);
    for (size_t i = 0; i < G_N_ELEMENTS(pipes); i++) {
        close_end(&pipes[i][0]);
        close_end(&pipes[i][1]);
    }
    return status == 0 ? g_steal_pointer(&child) : NULL;
}

static bool
reap(vg_child *child, int flags)
{
    int status;

    child->end.si_pid = 0;
    do
        status = waitid(P_PID, (id_t)child->pid, &child->end, WEXITED | flags);
    while (status != 0 && errno == EINTR);
    if (status != 0 || child->end.si_pid == 0)
        return false;
    child->pid = 0;
    return true;
}

void
vg_child_free(vg_child *child)
{
    if (!child)
        return;
    if (child->pid > 0) {
        kill(child->pid, SIGKILL);
        reap(child, 0);
    }
    close_end(&child->pidfd);
    close_end(&child->out_fd);
    close_end(&child->err_fd);
    g_string_free(child->out, TRUE);
    g_string_free(child->err, TRUE);
    g_free(child->name);
    g_free(child);
}

/* ---- while it runs ---- */

/* Reads the available data. Closes *fd at the end. */
static void
take(int *fd, GString *into, size_t max, bool keep_last)
{
    char buf[READ_CHUNK];
    ssize_t n = -1;

    while (*fd >= 0 && (n = read(*fd, buf, sizeof(buf))) > 0) {
        size_t room = max - MIN(into->len, max);
        g_string_append_len(into, buf, keep_last ? n : (ssize_t)MIN((size_t)n, room));
        if (keep_last && into->len > max)
            g_string_erase(into, 0, (ssize_t)(into->len - max));
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        close_end(fd);
}

bool
vg_child_poll(vg_child *child, int other_fd, int timeout_ms)
{
    struct pollfd fds[] = {
        {.fd = child->pidfd, .events = POLLIN},
        {.fd = child->out_fd, .events = POLLIN},
        {.fd = child->err_fd, .events = POLLIN},
        {.fd = other_fd, .events = POLLIN},
    };

    if (child->pid == 0)
        return true;
    poll(fds, G_N_ELEMENTS(fds), timeout_ms);
    bool ended = reap(child, WNOHANG);
    take(&child->out_fd, child->out, VG_CHILD_OUTPUT_MAX, false);
    take(&child->err_fd, child->err, VG_CHILD_ERRORS_MAX, true);
    return ended;
}

int
vg_child_result(const vg_child *child, GError **err)
{
    bool exited = child->end.si_code == CLD_EXITED;
    g_autofree char *words = g_strstrip(g_strdup(child->err->str));
    g_autofree char *how = exited ? g_strdup_printf("exit code %d", child->end.si_status)
                                  : g_strdup(strsignal(child->end.si_status));

    if (exited && child->end.si_status == 0)
        return 0;
    return vg_error(err, VG_E_EXTERNAL, "'%s' failed (%s)%s%s", child->name, how,
                    words[0] ? ": " : "", words);
}

const char *
vg_child_output(const vg_child *child)
{
    return child->out->str;
}
