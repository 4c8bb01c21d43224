/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/cuda-caller.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/child.h"
#include "guest/util.h"

/* The time for a process to end on its own, and again after it was killed. */
#define END_MS 2000
/* The pause between two reports to the listener. */
#define TICK_MS 1000

struct caller {
    /* 0 if there is none. */
    pid_t pid;
    int fd;
    /* The call in progress, or NULL. */
    struct vg_cuda_call *call;
};

struct answer {
    enum vg_cuda_outcome outcome;
    int result, state;
    int64_t began_us, ended_us;
    char why[sizeof((struct vg_cuda_call *)0)->why];
};

static struct caller callers[VG_CUDA_CALLERS_MAX];
static size_t n_callers;
static struct caller looker;

/* ---- in the process that calls ---- */

static void
caller_name(const struct vg_cuda_api *api, int result, char *ret, size_t size)
{
    const char *name = NULL;

    if (api->error_name(result, &name) == VG_CUDA_SUCCESS && name)
        vg_guest_put(ret, size, "%s (%d)", name, result);
    else
        vg_guest_put(ret, size, "error %d", result);
}

static int
caller_make(const struct vg_cuda_api *api, struct vg_cuda_call *call, int *ret_state)
{
    struct vg_cuda_lock_args lock = {.timeout_ms = call->timeout_ms};
    struct vg_cuda_restore_args restore = {.pairs = call->pairs,
                                           .n_pairs = (unsigned int)call->n_pairs};

    switch (call->op) {
    case VG_CUDA_OP_LOCK:
        return api->lock(call->pid, &lock);
    case VG_CUDA_OP_CHECKPOINT:
        return api->checkpoint(call->pid, NULL);
    case VG_CUDA_OP_RESTORE:
        return api->restore(call->pid, call->n_pairs > 0 ? &restore : NULL);
    case VG_CUDA_OP_UNLOCK:
        return api->unlock(call->pid, NULL);
    case VG_CUDA_OP_STATE:
    default:
        return api->state(call->pid, ret_state);
    }
}

static void
caller_run(int fd)
{
    struct vg_cuda_api api;
    struct vg_cuda_call call;
    char *why = NULL;

    /* CUDA must show all GPUs to the process. */
    unsetenv("CUDA_VISIBLE_DEVICES");
    enum vg_cuda_loaded loaded = vg_cuda_load(&api, &why);
    int init = loaded == VG_CUDA_LOADED ? api.init(0) : 0;
    while (recv(fd, &call, sizeof call, 0) == sizeof call) {
        struct answer answer = {.outcome = VG_CUDA_ANSWERED, .result = init, .state = -1};
        answer.began_us = vg_guest_now_us();
        if (loaded != VG_CUDA_LOADED) {
            answer.outcome = loaded == VG_CUDA_MISSING ? VG_CUDA_ABSENT : VG_CUDA_UNUSABLE;
            vg_guest_put(answer.why, sizeof answer.why, "%s", why);
        } else if (init != VG_CUDA_SUCCESS) {
            char name[64];
            answer.outcome = VG_CUDA_UNUSABLE;
            caller_name(&api, init, name, sizeof name);
            vg_guest_put(answer.why, sizeof answer.why, "cuInit: %s", name);
        } else {
            answer.result = caller_make(&api, &call, &answer.state);
            answer.ended_us = vg_guest_now_us();
            caller_name(&api, answer.result, answer.why, sizeof answer.why);
        }
        if (send(fd, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer)
            break;
    }
}

/* Parses "GPU-01234567-89ab-...". */
static int
looker_read_uuid(const char *text, struct vg_cuda_uuid *ret)
{
    size_t n = 0;

    if (strncmp(text, "GPU-", 4) != 0)
        return -1;
    for (text += 4; *text && n < 2 * sizeof ret->bytes; text++) {
        char digit[2] = {*text, '\0'}, *end;
        if (*text == '-')
            continue;
        unsigned long value = strtoul(digit, &end, 16);
        if (*end)
            return -1;
        ret->bytes[n / 2] = (unsigned char)(n % 2 ? ret->bytes[n / 2] << 4 | value : value);
        n++;
    }
    return n == 2 * sizeof ret->bytes ? 0 : -1;
}

static void
looker_add_uses(const struct vg_nvml_api *api, void *device, struct vg_cuda_gpus *to)
{
    static struct vg_nvml_process list[VG_CUDA_PROCESSES_MAX];
    unsigned int n = VG_CUDA_PROCESSES_MAX;

    if (api->processes(device, &n, list) != VG_NVML_SUCCESS) {
        to->incomplete = true;
        return;
    }
    to->incomplete = to->incomplete || n > VG_CUDA_PROCESSES_MAX - to->n_uses;
    for (unsigned int i = 0; i < n && to->n_uses < VG_CUDA_PROCESSES_MAX; i++) {
        int64_t bytes = list[i].memory == ~0ULL ? -1 : (int64_t)list[i].memory;
        to->uses[to->n_uses++] =
            (struct vg_cuda_use){.pid = (pid_t)list[i].pid, .gpu = to->n, .bytes = bytes};
    }
}

static void
looker_look(const struct vg_nvml_api *api, struct vg_cuda_gpus *ret)
{
    unsigned int count = 0;
    int error = api->init();

    if (error == VG_NVML_SUCCESS)
        error = api->count(&count);
    if (error != VG_NVML_SUCCESS)
        vg_guest_put(ret->why, sizeof ret->why, "NVIDIA's driver cannot list its GPUs: error %d",
                     error);
    ret->incomplete = count > VG_CUDA_GPUS_MAX;
    for (unsigned int i = 0; i < count && ret->n < VG_CUDA_GPUS_MAX; i++) {
        struct vg_cuda_gpu *gpu = &ret->gpus[ret->n];
        struct vg_nvml_memory memory = {.version = VG_NVML_MEMORY_VERSION};
        struct vg_nvml_pci pci;
        char uuid[96];
        void *device;
        /* A GPU that cannot be queried does not count. */
        if (api->by_index(i, &device) != VG_NVML_SUCCESS ||
            api->uuid(device, uuid, sizeof uuid) != VG_NVML_SUCCESS ||
            looker_read_uuid(uuid, &gpu->uuid) != 0 || api->pci(device, &pci) != VG_NVML_SUCCESS ||
            api->name(device, gpu->name, sizeof gpu->name) != VG_NVML_SUCCESS ||
            api->memory(device, &memory) != VG_NVML_SUCCESS ||
            api->capability(device, &gpu->major, &gpu->minor) != VG_NVML_SUCCESS) {
            ret->incomplete = true;
            continue;
        }
        vg_guest_put(gpu->address, sizeof gpu->address, "%04x:%02x:%02x.0", pci.domain, pci.bus,
                     pci.device);
        gpu->total_bytes = (int64_t)memory.total;
        gpu->free_bytes = (int64_t)memory.free;
        gpu->used_bytes = (int64_t)memory.used;
        looker_add_uses(api, device, ret);
        ret->n++;
    }
}

static void
looker_run(int fd)
{
    static struct vg_cuda_gpus gpus;
    struct vg_nvml_api api;
    char *why = NULL;

    if (vg_nvml_load(&api, &why) == VG_CUDA_LOADED)
        looker_look(&api, &gpus);
    else
        vg_guest_put(gpus.why, sizeof gpus.why, "%s", why);
    send(fd, &gpus, sizeof gpus, MSG_NOSIGNAL);
}

/* ---- in the worker ---- */

static void
caller_start(struct caller *caller, void (*run)(int fd))
{
    int ends[2];

    *caller = (struct caller){.fd = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return;
    pid_t pid = vg_guest_child_start(run, ends[1]);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *caller = (struct caller){.pid = pid, .fd = ends[0]};
}

void
vg_cuda_callers_start(size_t n)
{
    n = n > VG_CUDA_CALLERS_MAX ? VG_CUDA_CALLERS_MAX : n;
    if (looker.pid <= 0)
        caller_start(&looker, looker_run);
    for (; n_callers < n; n_callers++)
        caller_start(&callers[n_callers], caller_run);
}

/* Waits for a process that was asked to end. */
static void
caller_reap(struct caller *caller)
{
    int64_t until_ms = vg_guest_now_ms() + END_MS;
    bool killed = false;

    if (caller->pid <= 0)
        return;
    close(caller->fd);
    while (waitpid(caller->pid, NULL, WNOHANG) == 0) {
        if (vg_guest_now_ms() >= until_ms && killed)
            break;
        if (vg_guest_now_ms() >= until_ms || caller->call) {
            kill(caller->pid, SIGKILL);
            until_ms = killed ? until_ms : vg_guest_now_ms() + END_MS;
            killed = true;
            caller->call = NULL;
        }
        vg_guest_child_wait(NULL, 0, vg_guest_now_ms() + 20);
    }
    *caller = (struct caller){.fd = -1};
}

void
vg_cuda_callers_end(void)
{
    /* Ask all of them to end at the same time, and then wait for each one. */
    if (looker.pid > 0)
        shutdown(looker.fd, SHUT_RDWR);
    for (size_t i = 0; i < n_callers; i++) {
        if (callers[i].pid > 0)
            shutdown(callers[i].fd, SHUT_RDWR);
    }
    caller_reap(&looker);
    for (size_t i = 0; i < n_callers; i++)
        caller_reap(&callers[i]);
    n_callers = 0;
}

int
vg_cuda_callers_gpus(struct vg_cuda_gpus *ret, int64_t until_ms)
{
    ssize_t got = -1;

    *ret = (struct vg_cuda_gpus){0};
    while (looker.pid > 0) {
        struct pollfd poll_fd = {.fd = looker.fd, .events = POLLIN};
        got = recv(looker.fd, ret, sizeof *ret, 0);
        if (got >= 0 || errno != EAGAIN || vg_guest_now_ms() >= until_ms ||
            vg_guest_child_stop() != VG_GUEST_STOP_NONE)
            break;
        vg_guest_child_wait(&poll_fd, 1, until_ms);
    }
    /* The looker has answered, or it hangs. */
    if (looker.pid > 0)
        kill(looker.pid, SIGKILL);
    caller_reap(&looker);
    if (got != sizeof *ret)
        vg_guest_put(ret->why, sizeof ret->why,
                     "NVIDIA's driver does not answer the query for its GPUs");
    return *ret->why ? -1 : 0;
}

static void
caller_took(struct caller *caller, const struct answer *answer)
{
    struct vg_cuda_call *call = caller->call;

    call->outcome = answer->outcome;
    call->result = answer->result;
    call->state = answer->state;
    call->began_us = answer->began_us;
    call->ended_us = answer->ended_us;
    memcpy(call->why, answer->why, sizeof call->why);
    caller->call = NULL;
}

static void
caller_read(struct caller *caller)
{
    struct answer answer;
    ssize_t got = recv(caller->fd, &answer, sizeof answer, 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got == sizeof answer) {
        caller_took(caller, &answer);
        return;
    }
    caller->call->outcome = VG_CUDA_CRASHED;
    vg_guest_put(caller->call->why, sizeof caller->call->why,
                 "the process that called the driver crashed");
    caller->call = NULL;
    caller_reap(caller);
    caller_start(caller, caller_run);
}

/* Counts the processes that are making a call. If wait is true, waits until one of them answers, or
 * until until_ms. */
static size_t
callers_busy(bool wait, int64_t until_ms)
{
    struct pollfd fds[VG_CUDA_CALLERS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < n_callers; i++) {
        if (callers[i].call)
            fds[n++] = (struct pollfd){.fd = callers[i].fd, .events = POLLIN};
    }
    if (n == 0 || !wait)
        return n;
    vg_guest_child_wait(fds, n, until_ms);
    for (size_t i = 0; i < n_callers; i++) {
        if (callers[i].call)
            caller_read(&callers[i]);
    }
    return n;
}

static bool
caller_give(struct caller *caller, struct vg_cuda_call *call)
{
    if (caller->pid > 0 && send(caller->fd, call, sizeof *call, MSG_NOSIGNAL) == sizeof *call) {
        caller->call = call;
        call->outcome = VG_CUDA_UNDER_WAY;
        return true;
    }
    call->outcome = VG_CUDA_CRASHED;
    vg_guest_put(call->why, sizeof call->why,
                 "the process that calls the driver cannot be started");
    return false;
}

void
vg_cuda_callers_run(struct vg_cuda_call *calls, size_t n, int64_t until_ms,
                    const struct vg_cuda_listener *listener)
{
    int64_t tick_ms = vg_guest_now_ms() + TICK_MS;
    size_t next = 0;

    for (;;) {
        bool on = vg_guest_now_ms() < until_ms && vg_guest_child_stop() == VG_GUEST_STOP_NONE;
        for (size_t i = 0; i < n_callers && on && next < n; i++) {
            if (callers[i].call)
                continue;
            if (caller_give(&callers[i], &calls[next]) && listener)
                listener->began(next);
            next++;
        }
        if (!on || (callers_busy(false, 0) == 0 && next == n))
            break;
        callers_busy(true, listener && tick_ms < until_ms ? tick_ms : until_ms);
        if (listener && vg_guest_now_ms() >= tick_ms) {
            listener->ticked();
            tick_ms = vg_guest_now_ms() + TICK_MS;
        }
    }
}

void
vg_cuda_callers_settle(int64_t until_ms)
{
    while (vg_guest_now_ms() < until_ms && callers_busy(true, until_ms) > 0)
        continue;
}

void
vg_cuda_callers_abandon(void)
{
    for (size_t i = 0; i < n_callers; i++) {
        struct vg_cuda_call *call = callers[i].call;
        if (!call)
            continue;
        call->outcome = VG_CUDA_GIVEN_UP;
        caller_reap(&callers[i]);
        caller_start(&callers[i], caller_run);
    }
}

bool
vg_cuda_callers_have(pid_t pid)
{
    bool have = looker.pid == pid;

    for (size_t i = 0; i < n_callers; i++)
        have = have || callers[i].pid == pid;
    return have;
}
