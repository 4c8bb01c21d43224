/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks proxies of OpenCL (vgpu-proxy) what the programs of VMs did with the GPUs of this host: one
 * client at a time has the device there, so that the proxy knows what each request waited and ran.
 * Figures of a socket are counters; a window is the difference of two readings, and a socket counts
 * from its first reading on. A proxy that does not answer at once is left out of the window.
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "collectors/gpu-source.h"
#include "collectors/gpu-window.h"
#include "host/proc-scan.h"

#define NAME "proxy"

#define ANSWER_NS  (200 * VG_NS_PER_MS)
#define RETRY_NS   (5 * VG_NS_PER_S)
#define ANSWER_MAX (1 << 20) /* bytes */

/* Of a socket, as its proxy counts them. */
struct counters {
    int64_t done, turns, wait_ns, run_ns;
};

struct proxy {
    char *path;
    int fd; /* -1: there is none */
    int64_t retry_ns;
    char *why; /* why it was not read last; NULL: it was */
};

struct source {
    struct vg_gpu_source base; /* first */
    GPtrArray *proxies;        /* struct proxy */
    GHashTable *sockets;       /* pid and path -> struct counters, of the last reading */
    GString *strangers;        /* names of VMs that are not here */
    unsigned n_vms;            /* that have a socket */
};

struct round {
    struct source *source;
    const GPtrArray *vms;
    struct vg_window *window;
};

static void
gpu_proxy_free_proxy(void *data)
{
    struct proxy *proxy = data;

    if (proxy->fd >= 0)
        close(proxy->fd);
    g_free(proxy->why);
    g_free(proxy->path);
    g_free(proxy);
}

/* ---- asking ---- */

static int
gpu_proxy_fail(struct proxy *proxy, int64_t now_ns, const char *why)
{
    if (proxy->fd >= 0)
        close(proxy->fd);
    proxy->fd = -1;
    proxy->retry_ns = now_ns + RETRY_NS;
    g_free(proxy->why);
    proxy->why = g_strdup(why);
    return -1;
}

static int
gpu_proxy_connect(struct proxy *proxy)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(proxy->path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, proxy->path);
    proxy->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return proxy->fd >= 0 ? connect(proxy->fd, (struct sockaddr *)&address, sizeof(address)) : -1;
}

/* Receives the answer, which has a file. Returns that, or -1. */
static int
gpu_proxy_receive(const struct proxy *proxy, char *text, size_t size)
{
    struct iovec part = {text, size - 1};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } room;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = room.bytes,
                             .msg_controllen = sizeof(room.bytes)};
    ssize_t n = recvmsg(proxy->fd, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    int fd = -1;

    text[n > 0 ? n : 0] = '\0';
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(fd)))
        memcpy(&fd, CMSG_DATA(head), sizeof(fd));
    return fd;
}

/* Reads the file of an answer, and closes it. */
static json_object *
gpu_proxy_read_file(int fd)
{
    struct stat status;
    json_object *object = NULL;

    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= ANSWER_MAX) {
        g_autofree char *text = g_malloc0((size_t)status.st_size + 1);
        if (pread(fd, text, (size_t)status.st_size, 0) == status.st_size)
            object = vg_json_parse(text, (size_t)status.st_size, ANSWER_MAX, 4, NULL);
    }
    close(fd);
    return object;
}

/* Returns what the proxy tells; NULL: nothing. */
static json_object *
gpu_proxy_ask(struct proxy *proxy, int64_t now_ns)
{
    char text[256];

    if (proxy->fd < 0 && gpu_proxy_connect(proxy) != 0) {
        gpu_proxy_fail(proxy, now_ns, g_strerror(errno));
        return NULL;
    }
    struct pollfd answer = {.fd = proxy->fd, .events = POLLIN};
    if (send(proxy->fd, "list", 4, MSG_NOSIGNAL | MSG_DONTWAIT) != 4 ||
        vg_clock_poll(&answer, 1, vg_clock_monotonic_ns() + ANSWER_NS) <= 0) {
        gpu_proxy_fail(proxy, now_ns, "it does not answer");
        return NULL;
    }
    int fd = gpu_proxy_receive(proxy, text, sizeof(text));
    json_object *object = fd >= 0 ? gpu_proxy_read_file(fd) : NULL;
    if (!object) {
        gpu_proxy_fail(proxy, now_ns, "its answer cannot be read");
        return NULL;
    }
    g_clear_pointer(&proxy->why, g_free);
    return object;
}

/* ---- a window ---- */

static int64_t
gpu_proxy_number(json_object *object, const char *name)
{
    return json_object_get_int64(json_object_object_get(object, name));
}

static const char *
gpu_proxy_text(json_object *object, const char *name)
{
    const char *text = json_object_get_string(json_object_object_get(object, name));

    return text ? text : "";
}

static const struct vg_proc_vm *
gpu_proxy_find_vm(const GPtrArray *vms, const char *name)
{
    for (unsigned i = 0; i < vms->len; i++) {
        const struct vg_proc_vm *vm = vms->pdata[i];
        if (strcmp(vm->name, name) == 0 || (vm->uuid[0] && strcmp(vm->uuid, name) == 0))
            return vm;
    }
    return NULL;
}

/* Returns what the counters have grown by since the last reading, and keeps them. False: it is the
 * first one, or they have begun anew. */
static bool
gpu_proxy_advance(struct source *source, const char *key, const struct counters *now,
                  struct counters *more)
{
    struct counters *last = g_hash_table_lookup(source->sockets, key);
    const struct counters before = last ? *last : *now;

    if (!last) {
        last = g_new0(struct counters, 1);
        g_hash_table_insert(source->sockets, g_strdup(key), last);
    }
    *last = *now;
    *more = (struct counters){.done = now->done - before.done,
                              .turns = now->turns - before.turns,
                              .wait_ns = now->wait_ns - before.wait_ns,
                              .run_ns = now->run_ns - before.run_ns};
    return more->done >= 0 && more->turns >= 0 && more->wait_ns >= 0 && more->run_ns >= 0;
}

static void
gpu_proxy_add(const struct round *round, json_object *socket, const struct counters *more)
{
    const int64_t span_ns = round->window->end_ns - round->window->begin_ns;
    const char *name = gpu_proxy_text(socket, "vm"), *device = gpu_proxy_text(socket, "device");
    const struct vg_proc_vm *vm = *name ? gpu_proxy_find_vm(round->vms, name) : NULL;
    struct vg_gpu_sample sample = {
        .requests = (uint64_t)more->done,
        .busy_ns = more->run_ns,
        .exec_ns = more->run_ns,
        .wait_ns = more->wait_ns,
        .driver_queue_ns = more->wait_ns,
        .latency_mean_ns = more->done > 0 ? (more->wait_ns + more->run_ns) / more->done : 0,
        .queue_len_avg = span_ns > 0 ? (double)more->wait_ns / (double)span_ns : 0,
        .slices = (uint64_t)more->turns,
        .confidence = 1,
    };
    const int64_t bytes = gpu_proxy_number(socket, "used");

    g_strlcpy(sample.device, *device ? device : "OpenCL", sizeof(sample.device));
    g_strlcpy(sample.engine, "opencl", sizeof(sample.engine));
    vg_gpu_window_add(round->window->gpus, &sample);
    if (vm) {
        GArray *gpus = vg_gpu_window_vm(round->window, vm)->gpus;
        vg_gpu_window_add(gpus, &sample);
        vg_gpu_window_set_memory(gpus, sample.device, bytes, bytes);
        round->source->n_vms++;
    } else if (*name) {
        g_string_append_printf(round->source->strangers, "%s'%s'",
                               round->source->strangers->len ? ", " : "", name);
    }
}

static void
gpu_proxy_read_proxy(const struct round *round, json_object *answer)
{
    json_object *sockets = json_object_object_get(answer, "sockets");
    const size_t n =
        json_object_is_type(sockets, json_type_array) ? json_object_array_length(sockets) : 0;

    for (size_t i = 0; i < n; i++) {
        json_object *socket = json_object_array_get_idx(sockets, i);
        const struct counters now = {.done = gpu_proxy_number(socket, "done"),
                                     .turns = gpu_proxy_number(socket, "turns"),
                                     .wait_ns = gpu_proxy_number(socket, "wait_ns"),
                                     .run_ns = gpu_proxy_number(socket, "run_ns")};
        g_autofree char *key =
            g_strdup_printf("%" G_GINT64_FORMAT " %s", gpu_proxy_number(answer, "pid"),
                            gpu_proxy_text(socket, "socket"));
        struct counters more;
        if (gpu_proxy_advance(round->source, key, &now, &more))
            gpu_proxy_add(round, socket, &more);
    }
}

static void
gpu_proxy_read_source(vg_gpu_source *base, const GPtrArray *vms, vg_thread *self, int64_t now_ns,
                      struct vg_window *window)
{
    struct source *source = (struct source *)base;
    const struct round round = {.source = source, .vms = vms, .window = window};

    g_string_truncate(source->strangers, 0);
    source->n_vms = 0;
    for (unsigned i = 0; i < source->proxies->len; i++) {
        struct proxy *proxy = source->proxies->pdata[i];
        g_autoptr(json_object) answer =
            proxy->fd >= 0 || now_ns >= proxy->retry_ns ? gpu_proxy_ask(proxy, now_ns) : NULL;
        if (answer)
            gpu_proxy_read_proxy(&round, answer);
        vg_thread_beat(self);
    }
}

/* ---- the source ---- */

static bool
gpu_proxy_ready(vg_gpu_source *base, int64_t now_ns)
{
    const struct source *source = (const struct source *)base;

    (void)now_ns;
    for (unsigned i = 0; i < source->proxies->len; i++) {
        const struct proxy *proxy = source->proxies->pdata[i];
        if (proxy->fd >= 0 || access(proxy->path, F_OK) == 0)
            return true;
    }
    return false;
}

static bool
gpu_proxy_describe(const vg_gpu_source *base, GString *text)
{
    const struct source *source = (const struct source *)base;
    bool lacks = false;
    unsigned n = 0;

    for (unsigned i = 0; i < source->proxies->len; i++) {
        const struct proxy *proxy = source->proxies->pdata[i];
        if (proxy->fd < 0 && access(proxy->path, F_OK) != 0)
            continue;
        n++;
        if (!proxy->why)
            continue;
        g_string_append_printf(text, "%s: %s; ", proxy->path, proxy->why);
        lacks = true;
    }
    if (n == 0)
        g_string_append(text, "no vgpu-proxy runs here");
    else
        g_string_append_printf(text, "%u VM%s with a socket of vgpu-proxy", source->n_vms,
                               source->n_vms == 1 ? "" : "s");
    if (source->strangers->len)
        g_string_append_printf(text, "; no VM here is %s", source->strangers->str);
    return lacks;
}

static void
gpu_proxy_close_source(vg_gpu_source *base)
{
    const struct source *source = (const struct source *)base;

    for (unsigned i = 0; i < source->proxies->len; i++) {
        struct proxy *proxy = source->proxies->pdata[i];
        if (proxy->fd >= 0)
            close(proxy->fd);
        proxy->fd = -1;
    }
    g_hash_table_remove_all(source->sockets);
}

static void
gpu_proxy_free_source(vg_gpu_source *base)
{
    struct source *source = (struct source *)base;

    g_ptr_array_unref(source->proxies);
    g_hash_table_unref(source->sockets);
    g_string_free(source->strangers, TRUE);
    g_free(source);
}

static const struct vg_gpu_source_ops gpu_proxy_ops = {
    .name = NAME,
    .ready = gpu_proxy_ready,
    .read = gpu_proxy_read_source,
    .describe = gpu_proxy_describe,
    .close = gpu_proxy_close_source,
    .free = gpu_proxy_free_source,
};

vg_gpu_source *
vg_gpu_proxy_new(const char *paths)
{
    struct source *source = g_new0(struct source, 1);
    g_auto(GStrv) list = g_strsplit(paths, ",", -1);

    source->base.ops = &gpu_proxy_ops;
    source->proxies = g_ptr_array_new_with_free_func(gpu_proxy_free_proxy);
    source->sockets = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    source->strangers = g_string_new(NULL);
    for (unsigned i = 0; list[i]; i++) {
        struct proxy *proxy = g_new0(struct proxy, 1);
        proxy->path = g_strdup(g_strstrip(list[i]));
        proxy->fd = -1;
        g_ptr_array_add(source->proxies, proxy);
    }
    return &source->base;
}
