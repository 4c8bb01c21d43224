/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "actuators/alert-command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <json-c/json.h>
#include <linux/capability.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/queue.h"
#include "base/thread.h"

#define VG_LOG_TAG "alert"

/* The time to wait for an alert, and the interval of heartbeats while a program runs. */
#define IDLE_NS (5 * VG_NS_PER_S)
#define BEAT_MS 200

/* The time for a killed program to end. A program in a disk access may take longer. */
#define END_NS (2 * VG_NS_PER_S)

/* The last bytes of the program's output, which are logged if it fails. */
#define WORDS_MAX 500

struct vg_alert_command {
    char *host;
    vg_alert_command_settled *settled;
    void *data;
    vg_queue *queue;   /* struct vg_happening */
    vg_thread *thread; /* NULL until a program is configured */
    pthread_mutex_t lock;
    char **argv; /* NULL if no program is configured */
    int64_t limit_ns;
    uint64_t runs, failures;
    pid_t left; /* a killed program that has not ended yet, or 0; only the thread uses it */
};

/* ---- configuration ---- */

static int
command_parse(const char *line, char ***ret, GError **err)
{
    g_autoptr(GError) bad = NULL;
    g_auto(GStrv) argv = NULL;
    int argc;

    *ret = NULL;
    if (!line[0])
        return 0;
    if (!g_shell_parse_argv(line, &argc, &argv, &bad))
        return vg_error(err, VG_E_INVALID, "[alerts] command: %s", bad->message);
    if (!g_path_is_absolute(argv[0]))
        return vg_error(err, VG_E_INVALID, "[alerts] command: '%s' is not an absolute path",
                        argv[0]);
    *ret = g_steal_pointer(&argv);
    return 0;
}

int
vg_alert_command_check(const char *line, GError **err)
{
    g_auto(GStrv) argv = NULL;

    return command_parse(line, &argv, err);
}

/* ---- the program, between fork and exec ---- */

struct command_plan {
    char **argv;
    char **environment;
    int in_fd, out_fd, failure_fd;
    pid_t parent;
};

/* Drops all capabilities. Failures matter only for root: exec leaves other users only ambient
 * capabilities, which any user can drop. */
static int
command_drop(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

    for (int i = 0; prctl(PR_CAPBSET_READ, i) >= 0; i++)
        prctl(PR_CAPBSET_DROP, i);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
        return -1;
    return syscall(SYS_capset, &header, none) == 0 || geteuid() != 0 ? 0 : -1;
}

_Noreturn static void
command_become(const struct command_plan *plan)
{
    sigset_t nothing;

    sigemptyset(&nothing);
    signal(SIGPIPE, SIG_DFL);
    setsid();
    if (command_drop() == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == plan->parent &&
        dup2(plan->in_fd, STDIN_FILENO) >= 0 && dup2(plan->out_fd, STDOUT_FILENO) >= 0 &&
        dup2(plan->out_fd, STDERR_FILENO) >= 0 &&
        close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) == 0 &&
        sigprocmask(SIG_SETMASK, &nothing, NULL) == 0)
        execve(plan->argv[0], plan->argv, plan->environment);
    const int saved = errno;
    (void)!write(plan->failure_fd, &saved, sizeof(saved));
    _exit(127);
}

/* ---- the program, as seen from its parent ---- */

struct command_run {
    pid_t pid; /* 0 if it was not started */
    int pidfd;
    int in[2], out[2], failure[2]; /* pipes */
    GString *words;
};

static void
command_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Kills the program and the processes of its group. Returns false if the program does not end. */
static bool
command_end(struct command_run *run)
{
    int *const fds[] = {&run->pidfd,  &run->in[0],      &run->in[1],     &run->out[0],
                        &run->out[1], &run->failure[0], &run->failure[1]};

    const int64_t until_ns = vg_clock_monotonic_ns() + END_NS;
    bool gone = run->pid == 0;

    if (!gone) {
        kill(-run->pid, SIGKILL);
        kill(run->pid, SIGKILL);
        while (!(gone = waitpid(run->pid, NULL, WNOHANG) != 0) &&
               vg_clock_monotonic_ns() < until_ns)
            g_usleep(1000);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(fds); i++)
        command_close(fds[i]);
    g_string_free(run->words, TRUE);
    return gone;
}

static void
command_set_variable(char ***environment, const char *name, const char *value)
{
    *environment = g_environ_setenv(*environment, name, value ? value : "", TRUE);
}

static char **
command_environment(const vg_alert_command *command, json_object *event)
{
    static const struct {
        const char *name, *member;
    } variables[] = {{"VGPUD_ALERT_NAME", "alert"},   {"VGPUD_ALERT_WHAT", "what"},
                     {"VGPUD_ALERT_VM", "vm"},        {"VGPUD_ALERT_DISPLAY_NAME", "display_name"},
                     {"VGPUD_ALERT_UUID", "uuid"},    {"VGPUD_ALERT_LOST_CORES", "lost_cores"},
                     {"VGPUD_ALERT_LIMIT", "limit"},  {"VGPUD_ALERT_TIME", "time"},
                     {"VGPUD_ALERT_REASON", "reason"}};
    char **environment = g_new0(char *, 1);

    command_set_variable(&environment, "PATH",
                         "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command_set_variable(&environment, "LANG", "C.UTF-8");
    command_set_variable(&environment, "VGPUD_ALERT_HOST", command->host);
    for (size_t i = 0; i < G_N_ELEMENTS(variables); i++) {
        json_object *member = json_object_object_get(event, variables[i].member);
        command_set_variable(&environment, variables[i].name,
                             member ? json_object_get_string(member) : NULL);
    }
    return environment;
}

/* Creates the pipes and writes the event into one of them, whose buffer is large enough. */
static int
command_prepare(struct command_run *run, const char *event)
{
    const size_t size = strlen(event);

    if (pipe2(run->in, O_CLOEXEC) != 0 || pipe2(run->out, O_CLOEXEC) != 0 ||
        pipe2(run->failure, O_CLOEXEC) != 0 || fcntl(run->in[1], F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(run->out[0], F_SETFL, O_NONBLOCK) != 0)
        return -1;
    errno = EMSGSIZE;
    if (write(run->in[1], event, size) != (ssize_t)size || write(run->in[1], "\n", 1) != 1)
        return -1;
    return 0;
}

static int
command_start(const vg_alert_command *command, struct command_run *run, char **argv,
              const char *event, GError **err)
{
    json_object *object = json_tokener_parse(event);
    g_auto(GStrv) environment = command_environment(command, object);

    json_object_put(object);
    if (command_prepare(run, event) != 0)
        return vg_error_errno(err, errno, "cannot run '%s'", argv[0]);
    const struct command_plan plan = {argv,        environment,     run->in[0],
                                      run->out[1], run->failure[1], getpid()};
    const pid_t pid = fork();
    if (pid == 0)
        command_become(&plan);
    if (pid < 0)
        return vg_error_errno(err, errno, "cannot run '%s'", argv[0]);
    run->pid = pid;
    /* glibc provides pidfd_open() since 2.36. */
    run->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (run->pidfd < 0)
        return vg_error_errno(err, errno, "cannot watch '%s'", argv[0]);
    command_close(&run->in[0]);
    command_close(&run->in[1]);
    command_close(&run->out[1]);
    command_close(&run->failure[1]);
    return 0;
}

/* Reads the program's output and retains the end of it. */
static void
command_read(struct command_run *run)
{
    char buf[4096];
    ssize_t n = -1;

    while (run->out[0] >= 0 && (n = read(run->out[0], buf, sizeof(buf))) > 0) {
        g_string_append_len(run->words, buf, n);
        if (run->words->len > WORDS_MAX)
            g_string_erase(run->words, 0, (ssize_t)(run->words->len - WORDS_MAX));
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        command_close(&run->out[0]);
}

/* Waits until the program ends, but does not reap it: its process group ID must not be reused.
 * Returns false if the deadline has passed or the thread is to stop. */
static bool
command_wait(struct command_run *run, vg_thread *self, int64_t until_ns, siginfo_t *ret)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = run->pidfd, .events = POLLIN},
                               {.fd = run->out[0], .events = POLLIN}};
        poll(fds, G_N_ELEMENTS(fds), BEAT_MS);
        vg_thread_beat(self);
        command_read(run);
        ret->si_pid = 0;
        if (waitid(P_PID, (id_t)run->pid, ret, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            ret->si_pid == run->pid)
            return true;
        if (vg_thread_stopping(self) || vg_clock_monotonic_ns() >= until_ns)
            return false;
    }
}

static int
command_judge(const struct command_run *run, const siginfo_t *end, const char *name, GError **err)
{
    const bool exited = end->si_code == CLD_EXITED;
    g_autofree char *valid = g_utf8_make_valid(run->words->str, -1);
    const char *words = g_strstrip(g_strdelimit(valid, "\n\r\t\"", ' '));
    g_autofree char *how = exited ? g_strdup_printf("exit code %d", end->si_status)
                                  : g_strdup(strsignal(end->si_status));
    int failure = 0;

    if (read(run->failure[0], &failure, sizeof(failure)) == (ssize_t)sizeof(failure))
        return vg_error_errno(err, failure, "cannot run '%s'", name);
    if (exited && end->si_status == 0)
        return 0;
    return vg_error(err, VG_E_EXTERNAL, "'%s' failed (%s)%s%s", name, how, words[0] ? ": " : "",
                    words);
}

/* Runs the program. *ret_cut: whether it was killed because this process ends. */
static int
command_run(vg_alert_command *command, vg_thread *self, char **argv, int64_t limit_ns,
            const char *event, bool *ret_cut, GError **err)
{
    struct command_run run = {.pidfd = -1,
                              .in = {-1, -1},
                              .out = {-1, -1},
                              .failure = {-1, -1},
                              .words = g_string_new(NULL)};
    const int64_t until_ns = vg_clock_monotonic_ns() + limit_ns;
    siginfo_t end;

    if (command->left > 0 && waitpid(command->left, NULL, WNOHANG) == 0) {
        g_string_free(run.words, TRUE);
        return vg_error(err, VG_E_BUSY, "the previous command, process %d, is still running",
                        command->left);
    }
    command->left = 0;
    int status = command_start(command, &run, argv, event, err);
    if (status == 0) {
        if (command_wait(&run, self, until_ns, &end))
            status = command_judge(&run, &end, argv[0], err);
        else if ((*ret_cut = vg_thread_stopping(self)))
            status =
                vg_error(err, VG_E_TIMEOUT, "'%s' was killed because vgpud is stopping", argv[0]);
        else
            status = vg_error(err, VG_E_TIMEOUT, "'%s' took longer than %g s and was killed",
                              argv[0], (double)limit_ns / (double)VG_NS_PER_S);
    }
    if (!command_end(&run))
        command->left = run.pid;
    return status;
}

/* ---- the thread ---- */

static void
command_take(vg_alert_command *command, vg_thread *self, const struct vg_happening *event)
{
    g_autoptr(GError) error = NULL;
    g_auto(GStrv) argv = NULL;
    int64_t limit_ns;
    bool cut = false;

    pthread_mutex_lock(&command->lock);
    argv = g_strdupv(command->argv);
    limit_ns = command->limit_ns;
    command->runs += argv != NULL;
    pthread_mutex_unlock(&command->lock);
    const int status =
        argv ? command_run(command, self, argv, limit_ns, event->text, &cut, &error) : 0;
    if (!cut)
        command->settled(command->data, event->boot, event->seq);
    if (status == 0)
        return;
    vg_log_warn("the alert command failed reason=\"%s\" event=%s", error->message, event->text);
    VG_LOCK_SCOPE(&command->lock);
    command->failures++;
}

static void
command_main(vg_thread *self, void *arg)
{
    vg_alert_command *command = arg;

    while (!vg_thread_stopping(self)) {
        struct vg_happening *event = vg_queue_get(command->queue, IDLE_NS);
        vg_thread_beat(self);
        if (event && !vg_thread_stopping(self))
            command_take(command, self, event);
        vg_happening_free(event);
    }
}

static void
command_wake(void *arg)
{
    vg_queue_close(((vg_alert_command *)arg)->queue);
}

vg_alert_command *
vg_alert_command_new(const char *host, vg_alert_command_settled *settled, void *data)
{
    vg_alert_command *command = g_new0(vg_alert_command, 1);

    command->host = g_strdup(host);
    command->settled = settled;
    command->data = data;
    /* After a restart, the alert whose run was interrupted waits as well. */
    command->queue =
        vg_queue_new(VG_ALERT_COMMAND_WAITING_MAX + 1, VG_QUEUE_DROP, vg_happening_free);
    pthread_mutex_init(&command->lock, NULL);
    return command;
}

void
vg_alert_command_free(vg_alert_command *command)
{
    if (!command)
        return;
    vg_thread_free(command->thread);
    vg_queue_free(command->queue);
    pthread_mutex_destroy(&command->lock);
    g_strfreev(command->argv);
    g_free(command->host);
    g_free(command);
}

int
vg_alert_command_set(vg_alert_command *command, const char *line, int64_t limit_ns, GError **err)
{
    g_auto(GStrv) argv = NULL;

    if (command_parse(line, &argv, err) != 0)
        return -1;
    if (argv && !command->thread) {
        command->thread = vg_thread_new("alert-command", command_main, command_wake, command, err);
        if (!command->thread)
            return -1;
    }
    VG_LOCK_SCOPE(&command->lock);
    g_strfreev(command->argv);
    command->argv = g_steal_pointer(&argv);
    command->limit_ns = limit_ns;
    return 0;
}

bool
vg_alert_command_is_set(vg_alert_command *command)
{
    VG_LOCK_SCOPE(&command->lock);
    return command->argv != NULL;
}

void
vg_alert_command_put(vg_alert_command *command, const struct vg_happening *event)
{
    if (vg_alert_command_is_set(command)) {
        struct vg_happening *copy = g_memdup2(event, sizeof(*event));
        copy->boot = g_strdup(event->boot);
        copy->text = g_strdup(event->text);
        if (vg_queue_put(command->queue, copy))
            return;
        vg_log_warn_limited("alert command skipped: %d alerts are already queued event=%s",
                            VG_ALERT_COMMAND_WAITING_MAX, event->text);
    }
    command->settled(command->data, event->boot, event->seq);
}

void
vg_alert_command_read_stats(vg_alert_command *command, struct vg_alert_command_stats *ret)
{
    struct vg_queue_stats queue;

    vg_queue_read_stats(command->queue, &queue);
    VG_LOCK_SCOPE(&command->lock);
    *ret = (struct vg_alert_command_stats){command->runs, command->failures, queue.dropped};
}
