/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/child.h"
#include "guest/hold-file.h"
#include "guest/util.h"

enum {
    /* The time for a tracer to obey. It needs milliseconds unless the guest is very busy. */
    END_MS = 10000,
    /* The pause between two checks of it. */
    LOOK_MS = 5,
};

/* Finds the tracer of a process. Returns whether it still exists. */
static bool
hold_find(const char *root, pid_t pid, uint64_t start, struct vg_guest_hold *ret)
{
    if (vg_guest_hold_read(root, pid, ret) != 0 || ret->start != start)
        return false;
    /* It may be a child of this process. */
    waitpid(ret->tracer, NULL, WNOHANG);
    return vg_guest_hold_lives(ret);
}

int
vg_guest_hold_signal(const char *root, pid_t pid, uint64_t start, int number)
{
    struct vg_guest_hold hold;

    return hold_find(root, pid, start, &hold) && kill(hold.tracer, number) == 0 ? 0 : -1;
}

int
vg_guest_hold_wait_for_end(const char *root, pid_t pid, uint64_t start)
{
    int64_t until_ms = vg_guest_now_ms() + END_MS;
    struct vg_guest_hold hold;

    while (hold_find(root, pid, start, &hold) && !hold.ended) {
        if (vg_guest_now_ms() >= until_ms)
            return -1;
        vg_guest_child_wait(NULL, 0, vg_guest_now_ms() + LOOK_MS);
    }
    return 0;
}

/* Ends the tracer from an earlier work. */
static void
hold_end_old(const char *root, pid_t pid, uint64_t start)
{
    int64_t until_ms = vg_guest_now_ms() + END_MS;
    struct vg_guest_hold hold;

    if (vg_guest_hold_signal(root, pid, start, VG_GUEST_HOLD_END) == 0) {
        vg_guest_hold_wait_for_end(root, pid, start);
        vg_guest_hold_signal(root, pid, start, VG_GUEST_HOLD_END);
    }
    while (hold_find(root, pid, start, &hold) && vg_guest_now_ms() < until_ms)
        vg_guest_child_wait(NULL, 0, vg_guest_now_ms() + LOOK_MS);
}

/* Becomes the tracer. Keeps only the agent's files for messages. */
static _Noreturn void
hold_become_tracer(const char *root, pid_t pid, uint64_t start, int fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct stat st;

    setsid();
    /* A command whose output is read to its end may have started it. */
    for (int standard = STDIN_FILENO; standard <= STDERR_FILENO && null >= 0; standard++) {
        if (standard != STDERR_FILENO || (fstat(standard, &st) == 0 && S_ISFIFO(st.st_mode)))
            dup2(null, standard);
    }
    if (fd != 3)
        dup2(fd, 3);
    close_range(4, ~0U, 0);
    if (chdir("/") != 0)
        vg_guest_log(LOG_WARNING, "cannot change to the root directory error='%s'",
                     strerror(errno));
    vg_guest_hold_trace(root, pid, start, 3);
}

void
vg_guest_hold_start(const char *root, pid_t pid, uint64_t start, struct vg_guest_hold_link *ret)
{
    int ends[2];

    *ret = (struct vg_guest_hold_link){
        .pid = pid, .fd = -1, .report = {.outcome = VG_GUEST_HOLD_IMPOSSIBLE}};
    hold_end_old(root, pid, start);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        vg_guest_put(ret->report.why, sizeof ret->report.why, "a pipe cannot be created: %s",
                     strerror(errno));
        return;
    }
    pid_t tracer = fork();
    if (tracer == 0)
        hold_become_tracer(root, pid, start, ends[1]);
    close(ends[1]);
    if (tracer > 0) {
        ret->tracer = tracer;
        ret->fd = ends[0];
        return;
    }
    vg_guest_put(ret->report.why, sizeof ret->report.why, "a process cannot be started: %s",
                 strerror(errno));
    close(ends[0]);
}

static void
hold_close(struct vg_guest_hold_link *link)
{
    close(link->fd);
    link->fd = -1;
}

/* Handles the answer of a tracer, or its end. */
static void
hold_take(struct vg_guest_hold_link *link)
{
    if (read(link->fd, &link->report, sizeof link->report) != sizeof link->report) {
        link->report = (struct vg_guest_hold_report){.outcome = VG_GUEST_HOLD_GONE};
        hold_close(link);
    } else if (link->report.outcome != VG_GUEST_HOLD_READY &&
               link->report.outcome != VG_GUEST_HOLD_NOTED) {
        hold_close(link);
    }
}

void
vg_guest_hold_wait(struct vg_guest_hold_link *links, size_t n, int64_t until_ms)
{
    vg_guest_auto struct pollfd *fds = vg_guest_alloc(n * sizeof *fds);
    size_t left = 0;

    for (size_t i = 0; i < n; i++) {
        fds[i] = (struct pollfd){.fd = links[i].fd, .events = POLLIN};
        left += links[i].fd >= 0 ? 1 : 0;
    }
    while (left > 0 && vg_guest_now_ms() < until_ms &&
           vg_guest_child_stop() == VG_GUEST_STOP_NONE) {
        vg_guest_child_wait(fds, n, until_ms);
        for (size_t i = 0; i < n; i++) {
            if (fds[i].fd < 0 || !fds[i].revents)
                continue;
            hold_take(&links[i]);
            fds[i].fd = -1;
            left--;
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (fds[i].fd < 0)
            continue;
        links[i].report = (struct vg_guest_hold_report){.outcome = VG_GUEST_HOLD_PARTLY};
        vg_guest_put(links[i].report.why, sizeof links[i].report.why,
                     "not all of its threads were traced in time");
    }
}

void
vg_guest_hold_drop(struct vg_guest_hold_link *link)
{
    if (link->fd < 0)
        return;
    kill(link->tracer, VG_GUEST_HOLD_END);
    hold_close(link);
}
