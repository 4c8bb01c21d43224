/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/child.h"
#include "guest/message.h"
#include "guest/util.h"

#define LINE_MAX_BYTES (VG_GUEST_ANSWER_MAX + 2)

/* Becomes a worker process. The pipe is its only file in addition to the standard ones: the port
 * can be opened only once, and a blocked process would keep it. */
static void
worker_become(vg_guest_work_fn *run, const struct vg_guest_config *config,
              const struct vg_guest_order *order, int out, pid_t agent)
{
    vg_guest_child_init();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != agent)
        _exit(1);
    if (out != 3) {
        dup3(out, 3, O_CLOEXEC);
        out = 3;
    }
    close_range(4, ~0U, 0);
    run(config, order, out);
    _exit(0);
}

int
vg_guest_worker_start(struct vg_guest_worker *worker, vg_guest_work_fn *run,
                      const struct vg_guest_config *config, const struct vg_guest_order *order)
{
    int ends[2];
    pid_t agent = getpid();

    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    pid_t pid = fork();
    if (pid == 0)
        worker_become(run, config, order, ends[1], agent);
    int error = pid < 0 ? errno : 0;
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        return error;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *worker =
        (struct vg_guest_worker){.pid = pid, .fd = ends[0], .data = vg_guest_alloc(LINE_MAX_BYTES)};
    return 0;
}

static void
worker_forget(struct vg_guest_worker *worker)
{
    close(worker->fd);
    free(worker->data);
    *worker = (struct vg_guest_worker){.fd = -1};
}

int
vg_guest_worker_read(struct vg_guest_worker *worker, vg_guest_worker_fn *on_line, void *user)
{
    ssize_t got = read(worker->fd, worker->data + worker->size, LINE_MAX_BYTES - worker->size);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 1;
    if (got <= 0) {
        /* The process closes the pipe when it ends. */
        waitpid(worker->pid, NULL, 0);
        worker_forget(worker);
        return 0;
    }
    worker->size += (size_t)got;
    char *from = worker->data;
    for (char *end; (end = memchr(from, '\n', worker->size)); from = end + 1) {
        *end = '\0';
        worker->size -= (size_t)(end + 1 - from);
        on_line(user, (enum vg_guest_tag)from[0], from + 1);
    }
    memmove(worker->data, from, worker->size);
    /* No line is that long. A faulty process must not stop the agent. */
    if (worker->size == LINE_MAX_BYTES)
        worker->size = 0;
    return 1;
}

void
vg_guest_worker_give_up(struct vg_guest_worker *worker)
{
    kill(worker->pid, SIGKILL);
    waitpid(worker->pid, NULL, WNOHANG);
    worker_forget(worker);
}

void
vg_guest_worker_report(int out, enum vg_guest_tag tag, const char *line)
{
    vg_guest_auto char *text = vg_guest_format("%c%s\n", tag, line);
    size_t size = strlen(text), done = 0;

    while (done < size) {
        ssize_t put = write(out, text + done, size - done);
        if (put < 0 && errno != EINTR)
            return;
        done += put > 0 ? (size_t)put : 0;
    }
}
