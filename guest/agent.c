/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop of the agent:
 *
 *   the host's line -> port (virtio port, reopened; bounded) -> line -> request
 *     -> session: decides on the answer, whose turn it is, and whether the id is known. No I/O
 *        hello, cancel, errors: answered at once
 *        prepare, resume, status: a worker, a process of its own that sends lines back on a pipe
 *     -> port -> the host
 *
 * A worker's reads and writes may block indefinitely (a file of /proc, a driver that is unbound),
 * and its libraries may crash. The agent then continues, reports to the host that it is running,
 * and in the end abandons the worker and reports this. In the worker, `work` reports, and these
 * act:
 *
 *   prepare   device finds the PCI functions, node finds the files that lead to them; providers act
 *             in their order; holder checks all processes until none has one of these files;
 *             drivers are unbound; holder checks again, or the work fails, and resume undoes it
 *   resume    waits for the devices and their drivers; then providers act in reverse order
 *   provider  a table of the methods to make programs release GPUs and use them again
 *   hold      a tracer for each stopped CUDA program, which survives the agent: a thread that
 *             touches memory which the driver has taken away waits until it is back
 *   child     runs hooks in process groups, and writes to sysfs in a process that can be abandoned
 *
 * The session stores the state between two requests, which is lost with the agent. That of units
 * and cuda is also in files of /run, and OpenCL programs know their own. vgpud-guest(7) is the
 * contract with the host.
 */
#include "config.h"

#include "guest/agent.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/huge-pages.h"
#include "guest/line.h"
#include "guest/message.h"
#include "guest/port.h"
#include "guest/provider.h"
#include "guest/proxy-note.h"
#include "guest/session.h"
#include "guest/util.h"
#include "guest/worker.h"

/* The time for a worker to kill its children. */
#define END_MS 3000

struct agent {
    const struct vg_guest_config *config;
    struct vg_guest_port port;
    struct vg_guest_line line;
    struct vg_guest_session session;
    struct vg_guest_worker work, look;
    int64_t work_until_ms, look_until_ms, beat_ms;
    /* Whether the answer has been sent. The process may not have ended yet. */
    bool work_told, look_told;
    /* The cookies of vg_guest_providers, in the order of the table, and the time of their next
     * check. */
    void *cookies[VG_GUEST_PROVIDERS_MAX];
    int64_t providers_ms;
};

static volatile sig_atomic_t end_asked, look_asked;

static void
agent_on_signal(int number)
{
    if (number == SIGUSR2)
        look_asked = 1;
    else
        end_asked = 1;
}

/* ---- providers ---- */

static void
agent_load_providers(struct agent *agent)
{
    for (size_t i = 0; vg_guest_providers[i] && i < VG_GUEST_PROVIDERS_MAX; i++) {
        if (vg_guest_providers[i]->load)
            agent->cookies[i] = vg_guest_providers[i]->load(agent->config);
    }
}

static void
agent_look_at_providers(struct agent *agent)
{
    int64_t now_ms = vg_guest_now_ms();

    if (!look_asked && now_ms < agent->providers_ms)
        return;
    look_asked = 0;
    agent->providers_ms = now_ms + VG_GUEST_PROVIDER_LOOK_MS;
    for (size_t i = 0; i < VG_GUEST_PROVIDERS_MAX; i++) {
        if (agent->cookies[i])
            vg_guest_providers[i]->look(agent->cookies[i]);
    }
}

/* Returns a provider's file that must be polled, or -1. */
static int
agent_provider_fd(const struct agent *agent, size_t i)
{
    return agent->cookies[i] && vg_guest_providers[i]->fd
               ? vg_guest_providers[i]->fd(agent->cookies[i])
               : -1;
}

static void
agent_unload_providers(struct agent *agent)
{
    for (size_t i = 0; i < VG_GUEST_PROVIDERS_MAX; i++) {
        if (agent->cookies[i])
            vg_guest_providers[i]->unload(agent->cookies[i]);
    }
}

static void
agent_send(void *user, const char *line)
{
    struct agent *agent = user;

    vg_guest_port_send(&agent->port, line);
}

static int
agent_start(struct vg_guest_worker *worker, vg_guest_work_fn *run,
            const struct vg_guest_config *config, const struct vg_guest_order *order)
{
    /* The last process may have sent its answer without having ended. */
    if (worker->pid > 0)
        vg_guest_worker_give_up(worker);
    int error = vg_guest_worker_start(worker, run, config, order);
    if (error != 0)
        vg_guest_log(LOG_ERR, "cannot start a process error='%s'", strerror(error));
    return error == 0 ? 0 : -1;
}

static int
agent_work(void *user, const struct vg_guest_order *order)
{
    struct agent *agent = user;

    agent->work_until_ms =
        vg_guest_now_ms() + order->request.deadline_ms + VG_GUEST_UNDO_MS + VG_GUEST_GRACE_MS;
    agent->beat_ms = vg_guest_now_ms() + VG_GUEST_BEAT_MS;
    agent->work_told = false;
    vg_guest_log(LOG_NOTICE, "%s id=%lld devices=%zu deadline_ms=%lld",
                 vg_guest_type_word(order->request.type), (long long)order->request.id,
                 order->request.n_devices, (long long)order->request.deadline_ms);
    return agent_start(&agent->work, vg_guest_work_run, agent->config, order);
}

static int
agent_look(void *user, const struct vg_guest_order *order)
{
    struct agent *agent = user;

    agent->look_until_ms = vg_guest_now_ms() + VG_GUEST_LOOK_MS;
    agent->look_told = false;
    return agent_start(&agent->look, vg_guest_look_run, agent->config, order);
}

static void
agent_cancel(void *user)
{
    struct agent *agent = user;

    if (agent->work.pid > 0)
        kill(agent->work.pid, SIGUSR1);
}

static int
agent_note_proxy(void *user, const char *at, const char *token, bool *ret_changed)
{
    const struct agent *agent = user;
    int error = vg_guest_proxy_note(agent->config->root, at, token, ret_changed);

    if (error != 0)
        vg_guest_log(LOG_ERR, "cannot save the OpenCL proxy's address error='%s'", strerror(error));
    else if (*ret_changed)
        vg_guest_log(LOG_NOTICE, "OpenCL proxy at='%s'", at);
    return error;
}

static const struct vg_guest_session_ops session_ops = {
    .send = agent_send,
    .work = agent_work,
    .look = agent_look,
    .cancel = agent_cancel,
    .note_proxy = agent_note_proxy,
};

static void
agent_work_ended(struct agent *agent, enum vg_guest_end end, const char *line)
{
    agent->work_told = true;
    vg_guest_session_ended(&agent->session, end, line);
    vg_guest_log(end == VG_GUEST_END_DONE ? LOG_NOTICE : LOG_ERR, "%s id=%lld%s%s",
                 vg_guest_session_state_word(&agent->session), (long long)agent->session.ended.id,
                 end == VG_GUEST_END_DONE ? "" : " answer=", end == VG_GUEST_END_DONE ? "" : line);
}

static void
agent_on_work(void *user, enum vg_guest_tag tag, const char *line)
{
    struct agent *agent = user;

    switch (tag) {
    case VG_GUEST_TAG_PROGRESS:
        vg_guest_session_progress(&agent->session, line);
        agent->beat_ms = vg_guest_now_ms() + VG_GUEST_BEAT_MS;
        break;
    case VG_GUEST_TAG_KEEP:
        vg_guest_session_keep(&agent->session, line);
        break;
    case VG_GUEST_TAG_TIME:
        agent->work_until_ms = vg_guest_now_ms() + strtoll(line, NULL, 10) + VG_GUEST_GRACE_MS;
        break;
    case VG_GUEST_TAG_DONE:
        agent_work_ended(agent, VG_GUEST_END_DONE, line);
        break;
    case VG_GUEST_TAG_UNTOUCHED:
        agent_work_ended(agent, VG_GUEST_END_UNTOUCHED, line);
        break;
    case VG_GUEST_TAG_UNDONE:
        agent_work_ended(agent, VG_GUEST_END_UNDONE, line);
        break;
    case VG_GUEST_TAG_BROKEN:
        agent_work_ended(agent, VG_GUEST_END_BROKEN, line);
        break;
    default:
        break;
    }
}

static void
agent_on_look(void *user, enum vg_guest_tag tag, const char *line)
{
    struct agent *agent = user;

    (void)tag;
    agent->look_told = true;
    vg_guest_session_looked(&agent->session, line);
}

/* Answers for a process that ended or was abandoned without an answer. */
static void
agent_work_lost(struct agent *agent, const char *why)
{
    /* A worker that has answered has already restored the huge pages. */
    if (agent->work_told)
        return;
    vg_guest_huge_pages_end(agent->config);
    json_object *object = json_object_new_object();
    json_object_object_add(object, "id", json_object_new_int64(agent->session.running.id));
    json_object_object_add(object, "type", json_object_new_string("error"));
    json_object_object_add(object, "code",
                           json_object_new_string(vg_guest_code_word(VG_GUEST_INTERNAL)));
    json_object_object_add(object, "message", json_object_new_string(why));
    json_object_object_add(object, "undone", json_object_new_boolean(false));
    vg_guest_auto char *line = vg_guest_object_line(object);
    agent_work_ended(agent, VG_GUEST_END_BROKEN, line);
}

static void
agent_look_lost(struct agent *agent, const char *why)
{
    if (agent->look_told)
        return;
    vg_guest_auto char *line = vg_guest_error_line(agent->session.look.id, VG_GUEST_INTERNAL, why);
    agent_on_look(agent, VG_GUEST_TAG_DONE, line);
}

static void
agent_read_workers(struct agent *agent)
{
    int64_t now_ms = vg_guest_now_ms();

    if (agent->work.pid > 0 && vg_guest_worker_read(&agent->work, agent_on_work, agent) == 0)
        agent_work_lost(agent, "the worker process exited without an answer");
    if (agent->look.pid > 0 && vg_guest_worker_read(&agent->look, agent_on_look, agent) == 0)
        agent_look_lost(agent, "the process that collects the status exited without an answer");
    if (agent->work.pid > 0 && now_ms >= agent->work_until_ms) {
        vg_guest_worker_give_up(&agent->work);
        agent_work_lost(agent, "the worker process hung and was abandoned");
    }
    if (agent->look.pid > 0 && now_ms >= agent->look_until_ms) {
        vg_guest_worker_give_up(&agent->look);
        agent_look_lost(agent, "the process that collects the status hung and was abandoned");
    }
    /* This reaps abandoned processes. */
    while (agent->work.pid == 0 && agent->look.pid == 0 && waitpid(-1, NULL, WNOHANG) > 0)
        continue;
}

static void
agent_read_port(struct agent *agent)
{
    char data[VG_GUEST_READ_MAX];

    vg_guest_port_open(&agent->port);
    int got = vg_guest_port_read(&agent->port, data, sizeof data);
    if (got < 0) {
        vg_guest_line_reset(&agent->line);
        vg_guest_session_hangup(&agent->session);
    } else if (got > 0) {
        vg_guest_line_feed(&agent->line, data, (size_t)got, vg_guest_session_line, &agent->session);
    }
}

static void
agent_beat(struct agent *agent)
{
    int64_t now_ms = vg_guest_now_ms();

    if (!agent->session.working || now_ms < agent->beat_ms)
        return;
    vg_guest_session_beat(&agent->session);
    agent->beat_ms = now_ms + VG_GUEST_BEAT_MS;
}

static void
agent_wait(struct agent *agent)
{
    int64_t now_ms = vg_guest_now_ms(), until_ms = agent->providers_ms;
    struct pollfd fds[3 + VG_GUEST_PROVIDERS_MAX] = {{.fd = -1}, {.fd = -1}, {.fd = -1}};
    sigset_t none;

    fds[0] = vg_guest_port_poll(&agent->port, &until_ms);
    if (agent->work.pid > 0) {
        fds[1] = (struct pollfd){.fd = agent->work.fd, .events = POLLIN};
        until_ms = agent->work_until_ms < until_ms ? agent->work_until_ms : until_ms;
    }
    if (agent->session.working && agent->beat_ms < until_ms)
        until_ms = agent->beat_ms;
    if (agent->look.pid > 0) {
        fds[2] = (struct pollfd){.fd = agent->look.fd, .events = POLLIN};
        until_ms = agent->look_until_ms < until_ms ? agent->look_until_ms : until_ms;
    }
    int64_t left_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    struct timespec timeout = {.tv_sec = left_ms / 1000, .tv_nsec = left_ms % 1000 * 1000000};
    for (size_t i = 0; i < VG_GUEST_PROVIDERS_MAX; i++)
        fds[3 + i] = (struct pollfd){.fd = agent_provider_fd(agent, i), .events = POLLIN};
    sigemptyset(&none);
    if (ppoll(fds, sizeof fds / sizeof *fds, &timeout, &none) <= 0)
        return;
    vg_guest_port_polled(&agent->port, fds[0].revents);
    for (size_t i = 0; i < VG_GUEST_PROVIDERS_MAX; i++) {
        if (fds[3 + i].revents)
            vg_guest_providers[i]->ready(agent->cookies[i]);
    }
}

/* Ends a process, because programs of the guest must not outlive the agent that runs them. */
static void
agent_end_worker(struct vg_guest_worker *worker)
{
    int64_t until_ms = vg_guest_now_ms() + END_MS;

    if (worker->pid <= 0)
        return;
    kill(worker->pid, SIGTERM);
    while (vg_guest_now_ms() < until_ms && waitpid(worker->pid, NULL, WNOHANG) == 0)
        usleep(10000);
    vg_guest_worker_give_up(worker);
}

static char *
agent_boot_id(const struct vg_guest_config *config)
{
    vg_guest_auto char *path = vg_guest_format("%s/proc/sys/kernel/random/boot_id", config->root);
    char text[64];

    if (vg_guest_read_file(path, text, sizeof text) != 0)
        return NULL;
    return vg_guest_clean(text, sizeof text);
}

static void
agent_handle_signals(void)
{
    struct sigaction action = {.sa_handler = agent_on_signal};
    sigset_t set;

    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

int
vg_guest_agent_run(const struct vg_guest_config *config)
{
    struct agent agent = {.config = config, .work = {.fd = -1}, .look = {.fd = -1}};

    agent_handle_signals();
    if (vg_guest_port_init(&agent.port, config) != 0) {
        vg_guest_port_clear(&agent.port);
        return 1;
    }
    vg_guest_session_init(&agent.session, &session_ops, &agent);
    agent.session.boot_id = agent_boot_id(config);
    vg_guest_log(LOG_NOTICE, "started version=%s %s='%s'", PACKAGE_VERSION,
                 config->listen ? "socket" : "port",
                 config->listen ? config->listen : config->port);
    /* An agent that was killed may not have done this. */
    vg_guest_huge_pages_end(config);
    agent_load_providers(&agent);
    while (!end_asked) {
        agent_look_at_providers(&agent);
        agent_read_port(&agent);
        agent_read_workers(&agent);
        agent_beat(&agent);
        vg_guest_port_flush(&agent.port);
        agent_wait(&agent);
    }
    vg_guest_log(LOG_NOTICE, "ending");
    agent_end_worker(&agent.work);
    vg_guest_huge_pages_end(config);
    agent_end_worker(&agent.look);
    agent_unload_providers(&agent);
    vg_guest_port_clear(&agent.port);
    vg_guest_line_clear(&agent.line);
    vg_guest_session_clear(&agent.session);
    return 0;
}
