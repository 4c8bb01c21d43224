/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/trace.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "opencl/base/say.h"
#include "opencl/proxy/share.h"
#include "opencl/wire/pass.h"

#define TRACE_PROGRAM "vgpu-proxy-trace"

/* Next to this program, or where such programs are installed. */
static _Noreturn void
trace_run(int fd)
{
    char path[PATH_MAX + sizeof TRACE_PROGRAM];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    /* DUP2() of a descriptor to itself would leave it marked for closing. */
    int moved = fd == PROXY_TRACE_FD ? dup(fd) : fd;
    if (moved >= 0 && dup2(moved, PROXY_TRACE_FD) == PROXY_TRACE_FD) {
        while (n > 0 && path[n - 1] != '/')
            n--;
        strcpy(path + (n > 0 ? n : 0), TRACE_PROGRAM);
        execl(path, TRACE_PROGRAM, (char *)NULL);
        execl(VG_PKGLIBEXECDIR "/" TRACE_PROGRAM, TRACE_PROGRAM, (char *)NULL);
    }
    vg_cl_say("LTTng tracing is off because " TRACE_PROGRAM " cannot be run: %s", strerror(errno));
    _exit(127);
}

void
vg_trace_begin(struct proxy_trace *trace)
{
    int pair[2] = {-1, -1};

    trace->fd = -1;
    trace->pid = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0)
        trace->pid = fork();
    if (trace->pid == 0 && pair[1] >= 0)
        trace_run(pair[1]);
    if (trace->pid > 0) {
        trace->fd = pair[0];
    } else {
        vg_cl_say("cannot start LTTng tracing: %s", strerror(errno));
        trace->pid = 0;
    }
    if (pair[1] >= 0)
        close(pair[1]);
    if (trace->fd < 0 && pair[0] >= 0)
        close(pair[0]);
}

static void
trace_leave(struct proxy_trace *trace)
{
    if (trace->fd >= 0)
        close(trace->fd);
    trace->fd = -1;
}

void
vg_trace_report(struct proxy_trace *trace, const struct proxy_client *client, int memory)
{
    const struct proxy_tenant *tenant = client->tenant;
    struct proxy_traced told = {.pid = client->pid, .is_gone = memory < 0};

    snprintf(told.vm, sizeof told.vm, "%s", tenant->vm ? tenant->vm : tenant->path);
    snprintf(told.socket, sizeof told.socket, "%s", tenant->path);
    if (trace->fd < 0 || vg_wire_pass(trace->fd, &told, sizeof told, memory, MSG_DONTWAIT))
        return;
    vg_cl_say("LTTng tracing has stopped because " TRACE_PROGRAM " does not accept data: %s",
              strerror(errno));
    trace_leave(trace);
}

bool
vg_trace_is_gone(struct proxy_trace *trace, pid_t pid)
{
    if (!trace->pid || pid != trace->pid)
        return false;
    trace->pid = 0;
    trace_leave(trace);
    vg_cl_say(TRACE_PROGRAM " has exited; LTTng tracing has stopped");
    return true;
}
