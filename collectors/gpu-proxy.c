/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks proxies of OpenCL (vgpu-proxy) what the programs of VMs did with the GPUs of this host: one
 * client at a time has the device there, so that the proxy knows what each request waited and ran.
 * Figures of a socket are counters; a window is the difference of two readings, and a socket counts
 * from its first reading on. A proxy that does not answer at once is left out of the window.
 */
#include "config.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "collectors/gpu-source.h"
#include "collectors/gpu-window.h"
#include "host/proc-scan.h"
#include "host/proxy-desk.h"

#define NAME "proxy"

#define RETRY_NS (5 * VG_NS_PER_S)

/* Of a socket, as its proxy counts them. */
struct counters {
    int64_t done, turns, wait_ns, run_ns;
};

/* A socket, as it was read last. */
struct reading {
    struct counters counters;
    char device[VG_GPU_DEVICE_SIZE]; /* of its last client; empty: there was none */
};

struct proxy {
    char *path;
    vg_proxy_desk *desk; /* NULL: there is none */
    int64_t retry_ns;
    char *why; /* why it was not read last; NULL: it was */
};

struct source {
    struct vg_gpu_source base; /* first */
    GPtrArray *proxies;        /* struct proxy */
    GHashTable *sockets;       /* pid and path -> struct reading */
    GString *strangers;        /* names that are of no VM here, or of several */
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

    vg_proxy_desk_close(proxy->desk);
    g_free(proxy->why);
    g_free(proxy->path);
    g_free(proxy);
}

/* ---- a window ---- */

/* Returns the VM that has this name or UUID; NULL: none has, or n_found have. */
static const struct vg_proc_vm *
gpu_proxy_find_vm(const GPtrArray *vms, const char *name, unsigned *n_found)
{
    const struct vg_proc_vm *found = NULL;

    *n_found = 0;
    for (unsigned i = 0; i < vms->len; i++) {
        const struct vg_proc_vm *vm = vms->pdata[i];
        if (strcmp(vm->name, name) != 0 && (!vm->uuid[0] || strcmp(vm->uuid, name) != 0))
            continue;
        found = vm;
        ++*n_found;
    }
    return *n_found == 1 ? found : NULL;
}

/* Returns what the counters have grown by since the last reading, and keeps them. */
static struct counters
gpu_proxy_advance(struct reading *last, const struct counters *now)
{
    const struct counters before = last->counters;

    last->counters = *now;
    return (struct counters){.done = now->done - before.done,
                             .turns = now->turns - before.turns,
                             .wait_ns = now->wait_ns - before.wait_ns,
                             .run_ns = now->run_ns - before.run_ns};
}

static void
gpu_proxy_add(const struct round *round, const struct vg_proxy_socket *socket, const char *device,
              const struct counters *more)
{
    const int64_t span_ns = round->window->end_ns - round->window->begin_ns;
    const char *name = socket->vm ? socket->vm : "";
    unsigned n_found = 0;
    const struct vg_proc_vm *vm = *name ? gpu_proxy_find_vm(round->vms, name, &n_found) : NULL;
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

    g_strlcpy(sample.device, device, sizeof(sample.device));
    g_strlcpy(sample.engine, "opencl", sizeof(sample.engine));
    if (*device)
        vg_gpu_window_add(round->window->gpus, &sample);
    if (vm) {
        GArray *gpus = vg_gpu_window_vm(round->window, vm)->gpus;
        if (*device) {
            vg_gpu_window_add(gpus, &sample);
            vg_gpu_window_set_memory(gpus, sample.device, socket->used_bytes, socket->used_bytes);
        }
        round->source->n_vms++;
    } else if (*name) {
        g_string_append_printf(round->source->strangers, "; %s '%s'",
                               n_found ? "several VMs here are" : "no VM here is", name);
    }
}

static void
gpu_proxy_read_socket(const struct round *round, const struct vg_proxy_socket *socket)
{
    const struct counters now = {.done = socket->done,
                                 .turns = socket->turns,
                                 .wait_ns = socket->wait_ns,
                                 .run_ns = socket->run_ns};
    g_autofree char *key = g_strdup_printf("%" G_GINT64_FORMAT " %s", socket->pid, socket->socket);
    struct reading *last = g_hash_table_lookup(round->source->sockets, key);

    if (!last) {
        last = g_new0(struct reading, 1);
        last->counters = now;
        g_hash_table_insert(round->source->sockets, g_steal_pointer(&key), last);
    }
    if (socket->device && socket->device[0])
        g_strlcpy(last->device, socket->device, sizeof(last->device));
    const struct counters more = gpu_proxy_advance(last, &now);
    if (more.done >= 0 && more.turns >= 0 && more.wait_ns >= 0 && more.run_ns >= 0)
        gpu_proxy_add(round, socket, last->device, &more);
}

static void
gpu_proxy_read_proxy(const struct round *round, struct proxy *proxy, int64_t now_ns)
{
    g_autoptr(GError) err = NULL;

    if (!proxy->desk && now_ns < proxy->retry_ns)
        return;
    if (!proxy->desk)
        proxy->desk = vg_proxy_desk_open(proxy->path, &err);
    g_autoptr(GPtrArray) sockets = proxy->desk ? vg_proxy_desk_list(proxy->desk, &err) : NULL;
    g_free(proxy->why);
    proxy->why = err ? g_strdup(err->message) : NULL;
    if (sockets) {
        for (unsigned i = 0; i < sockets->len; i++)
            gpu_proxy_read_socket(round, sockets->pdata[i]);
        return;
    }
    g_clear_pointer(&proxy->desk, vg_proxy_desk_close);
    proxy->retry_ns = now_ns + RETRY_NS;
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
        gpu_proxy_read_proxy(&round, source->proxies->pdata[i], now_ns);
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
        if (proxy->desk || access(proxy->path, F_OK) == 0)
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
        if (!proxy->desk && access(proxy->path, F_OK) != 0)
            continue;
        n++;
        if (!proxy->why)
            continue;
        g_string_append_printf(text, "%s; ", proxy->why);
        lacks = true;
    }
    if (n == 0)
        g_string_append(text, "no vgpu-proxy runs here");
    else
        g_string_append_printf(text, "%u VM%s with a socket of vgpu-proxy", source->n_vms,
                               source->n_vms == 1 ? "" : "s");
    g_string_append(text, source->strangers->str);
    return lacks;
}

static void
gpu_proxy_close_source(vg_gpu_source *base)
{
    const struct source *source = (const struct source *)base;

    for (unsigned i = 0; i < source->proxies->len; i++) {
        struct proxy *proxy = source->proxies->pdata[i];
        g_clear_pointer(&proxy->desk, vg_proxy_desk_close);
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
        g_ptr_array_add(source->proxies, proxy);
    }
    return &source->base;
}
