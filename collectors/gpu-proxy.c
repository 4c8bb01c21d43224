/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries OpenCL proxies (vgpu-proxy) for the use of this host's GPUs by programs in VMs. One
 * client at a time has the device, so the proxy knows how long each request waited and ran. A
 * window is the difference of two readings of a socket's counters.
 *
 * At the end of a window, all proxies are queried, and the window waits for their answers for up to
 * VG_GPU_AWAITS_NS. A proxy that has not answered by then is left out, and its request remains
 * open. The window of its answer contains a share of what the sockets did. The rest is lost.
 */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectors/gpu-source.h"
#include "collectors/gpu-window.h"
#include "host/proc-scan.h"
#include "host/proxy-control.h"
#include "model/histogram.h"
#include "model/vm-name.h"

#define NAME   "proxy"
#define ENGINE "opencl"

#define RETRY_NS (5 * VG_NS_PER_S)

/* The counters of a socket, as its proxy counts them. */
struct counters {
    int64_t done, turns, wait_ns, run_ns;
};

/* The last reading of a socket. */
struct reading {
    struct counters counters;
    struct counters unreported;      /* the part after the end of the last window */
    int64_t reported_ns;             /* CLOCK_MONOTONIC, end of the reported time */
    int64_t lacked_ns, open;         /* unfinished commands */
    int64_t at_ns;                   /* CLOCK_MONOTONIC; 0: not read yet */
    GHashTable *took;                /* ns -> commands; both int64_t */
    char device[VG_GPU_DEVICE_SIZE]; /* of the last client; empty: there was none */
};

struct proxy {
    char *path;
    vg_proxy_control *control; /* NULL: not connected */
    int64_t retry_ns;
    int64_t queried_ns;   /* time of the unanswered request; 0: none */
    bool is_unresponsive; /* longer than a window waits */
    GPtrArray *answer;    /* struct vg_proxy_socket; NULL: no answer to the last request */
    int64_t answered_ns;
    char *why; /* why there is no answer; NULL: there is one, or it may still come */
};

struct source {
    struct vg_gpu_source base; /* first */
    GPtrArray *proxies;        /* struct proxy */
    GHashTable *sockets;       /* pid and path -> struct reading */
    GString *strangers;        /* names that match no VM here, or several */
    unsigned n_vms;            /* number of VMs that have a socket */
    int64_t missed_ns;         /* missed time before the last window */
    int epoll_fd;              /* readable when a proxy answers */
};

/* How long the commands of one row took. */
struct took {
    const struct vg_proc_vm *vm; /* NULL: the host's GPU */
    char device[VG_GPU_DEVICE_SIZE];
    struct vg_histogram latency;
};

struct round {
    struct source *source;
    const GPtrArray *vms;
    struct vg_window *window;
    GPtrArray *took; /* struct took */
};

static void
gpu_proxy_free_proxy(void *data)
{
    struct proxy *proxy = data;

    vg_proxy_control_close(proxy->control);
    if (proxy->answer)
        g_ptr_array_unref(proxy->answer);
    g_free(proxy->why);
    g_free(proxy->path);
    g_free(proxy);
}

static void
gpu_proxy_free_reading(void *data)
{
    struct reading *reading = data;

    g_hash_table_unref(reading->took);
    g_free(reading);
}

static struct reading *
gpu_proxy_new_reading(void)
{
    struct reading *reading = g_new0(struct reading, 1);

    reading->took = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
    return reading;
}

static void
gpu_proxy_free_took(void *data)
{
    struct took *took = data;

    vg_histogram_clear(&took->latency);
    g_free(took);
}

/* ---- how long commands took ---- */

static struct vg_histogram *
gpu_proxy_latency_of(const struct round *round, const struct vg_proc_vm *vm, const char *device)
{
    for (unsigned i = 0; i < round->took->len; i++) {
        struct took *took = round->took->pdata[i];
        if (took->vm == vm && strcmp(took->device, device) == 0)
            return &took->latency;
    }
    struct took *took = g_new0(struct took, 1);
    took->vm = vm;
    g_strlcpy(took->device, device, sizeof(took->device));
    g_ptr_array_add(round->took, took);
    return &took->latency;
}

/* Saves the counts and adds their growth since the last reading to latency, unless it is NULL. */
static void
gpu_proxy_advance_took(struct reading *last, const GPtrArray *now, struct vg_histogram *latency)
{
    for (unsigned i = 0; i < now->len; i++) {
        const struct vg_proxy_took *took = now->pdata[i];
        int64_t *before = g_hash_table_lookup(last->took, &took->ns);
        const int64_t more = took->commands - (before ? *before : 0);
        if (!before) {
            before = g_new0(int64_t, 1);
            g_hash_table_insert(last->took, g_memdup2(&took->ns, sizeof(took->ns)), before);
        }
        *before = took->commands;
        if (latency && more > 0)
            vg_histogram_add_many(latency, took->ns, (uint32_t)MIN(more, UINT32_MAX));
    }
}

/* ---- a window ---- */

/* Finds a VM by name or UUID, libvirt's own first. Returns NULL if none or n_found VMs have it. */
static const struct vg_proc_vm *
gpu_proxy_find_vm(const GPtrArray *vms, const char *name, unsigned *n_found)
{
    const struct vg_proc_vm *found = NULL;

    *n_found = 0;
    for (unsigned i = 0; i < vms->len; i++) {
        const struct vg_proc_vm *vm = vms->pdata[i];
        if (vg_vm_is(name, vm->name, vm->uuid)) {
            bool is_better = vg_proc_vm_choose(found, vm) == vm;
            *n_found = is_better ? 1 : *n_found + (vg_proc_vm_choose(vm, found) == vm);
            found = is_better ? vm : found;
        }
    }
    return *n_found == 1 ? found : NULL;
}

/* Saves the counters and returns their growth since the last reading. */
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

/* Adds what earlier windows left out. Subtracts what came after this window, for the next one, and
 * what came before it while the proxy did not answer. */
static void
gpu_proxy_cut(const struct round *round, struct reading *last, struct counters *more,
              int64_t now_ns)
{
    const int64_t begin_ns = round->window->begin_ns, end_ns = round->window->end_ns;
    const int64_t since_ns = last->reported_ns;
    int64_t *const figures[] = {&more->done, &more->turns, &more->wait_ns, &more->run_ns};
    int64_t *const unreported[] = {&last->unreported.done, &last->unreported.turns,
                                   &last->unreported.wait_ns, &last->unreported.run_ns};

    for (size_t i = 0; i < G_N_ELEMENTS(figures); i++) {
        const int64_t all = *figures[i] + *unreported[i];
        const int64_t reported = vg_gpu_window_share(all, since_ns, end_ns, now_ns);
        *unreported[i] = all - reported;
        *figures[i] =
            reported - vg_gpu_window_share(reported, since_ns, begin_ns, MIN(end_ns, now_ns));
    }
    if (since_ns < begin_ns)
        round->source->missed_ns = MAX(round->source->missed_ns, begin_ns - since_ns);
    last->reported_ns = MAX(MIN(end_ns, now_ns), since_ns);
}

static void
gpu_proxy_add(const struct round *round, const struct vg_proxy_socket *socket, const char *device,
              const struct counters *more, const struct vg_histogram *latency)
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
        .queue_len_avg = span_ns > 0 ? (double)more->wait_ns / (double)span_ns : 0,
        .slices = (uint64_t)more->turns,
        .lacks = VG_GPU_NO_DETAILS | VG_GPU_NO_OPEN | VG_GPU_NO_SUSPENSIONS | VG_GPU_NO_MEMORY,
        .confidence = 1,
    };

    g_strlcpy(sample.device, device, sizeof(sample.device));
    g_strlcpy(sample.engine, ENGINE, sizeof(sample.engine));
    if (*device) {
        vg_gpu_window_add(round->window->gpus, &sample);
        vg_histogram_merge(gpu_proxy_latency_of(round, NULL, device), latency);
    }
    if (vm) {
        GArray *gpus = vg_gpu_window_vm(round->window, vm)->gpus;
        if (*device) {
            vg_gpu_window_add(gpus, &sample);
            vg_histogram_merge(gpu_proxy_latency_of(round, vm, device), latency);
            vg_gpu_window_set_memory(gpus, sample.device, socket->used_bytes, socket->used_bytes);
        }
        round->source->n_vms++;
    } else if (*name) {
        g_string_append_printf(round->source->strangers, "; %s '%s'",
                               n_found ? "several VMs here match" : "no VM here matches", name);
    }
}

/* ---- how much of a GPU each had, and wanted ---- */

static double
gpu_proxy_part(int64_t ns, int64_t span_ns)
{
    return span_ns > 0 ? CLAMP((double)ns / (double)span_ns, 0.0, 1.0) : 0;
}

/* Reports a socket's use since its last reading. A command counts when it is done. If commands were
 * open at both readings, the socket wanted the GPU for the whole time in between. */
static void
gpu_proxy_report_use(const struct round *round, const struct vg_proxy_socket *socket,
                     struct reading *last, int64_t run_ns, int64_t now_ns)
{
    const int64_t span_ns = last->at_ns > 0 ? now_ns - last->at_ns : 0;
    const int64_t open = socket->commands - socket->done;
    struct vg_proxy_use use = {
        .gpus = socket->gpus,
        .gpu_memory_bytes = socket->gpu_memory_bytes,
        .weight = socket->weight,
        .configured_weight = socket->configured_weight,
        .memory_bytes = socket->memory_bytes,
        .used_bytes = socket->used_bytes,
        .reserved_bytes = socket->reserved_bytes,
        .clients = socket->clients,
        .is_known = span_ns > 0,
        .run = gpu_proxy_part(run_ns, span_ns),
        .lacked = gpu_proxy_part(socket->lacked_ns - last->lacked_ns, span_ns),
    };

    if (socket->clients > 0 && open > 0 && last->open > 0)
        use.run = MAX(use.run, 1 - use.lacked);
    g_strlcpy(use.proxy, socket->proxy, sizeof(use.proxy));
    g_strlcpy(use.socket, socket->socket, sizeof(use.socket));
    g_strlcpy(use.address, socket->address, sizeof(use.address));
    g_strlcpy(use.vm, socket->vm ? socket->vm : "", sizeof(use.vm));
    g_strlcpy(use.gpu, socket->gpu, sizeof(use.gpu));
    if (strlen(socket->socket) < sizeof(use.socket) && strlen(socket->proxy) < sizeof(use.proxy))
        g_array_append_val(round->window->proxies, use);
    last->lacked_ns = socket->lacked_ns;
    last->open = open;
    last->at_ns = now_ns;
}

static void
gpu_proxy_report_problem(const struct round *round, const struct proxy *proxy, const char *why)
{
    struct vg_proxy_use use = {.is_known = false};

    g_strlcpy(use.proxy, proxy->path, sizeof(use.proxy));
    g_strlcpy(use.problem, why, sizeof(use.problem));
    if (strlen(proxy->path) < sizeof(use.proxy))
        g_array_append_val(round->window->proxies, use);
}

static void
gpu_proxy_read_socket(const struct round *round, const struct vg_proxy_socket *socket,
                      int64_t now_ns)
{
    const struct counters now = {socket->done, socket->turns, socket->wait_ns, socket->run_ns};
    g_autofree char *key = g_strdup_printf("%" G_GINT64_FORMAT " %s", socket->pid, socket->socket);
    struct reading *last = g_hash_table_lookup(round->source->sockets, key);

    const bool is_first = !last;
    if (is_first) {
        last = gpu_proxy_new_reading();
        last->counters = now;
        last->reported_ns = now_ns;
        g_hash_table_insert(round->source->sockets, g_steal_pointer(&key), last);
    }
    if (socket->device && socket->device[0])
        g_strlcpy(last->device, socket->device, sizeof(last->device));
    struct counters more = gpu_proxy_advance(last, &now);
    gpu_proxy_report_use(round, socket, last, more.run_ns, now_ns);
    if (more.done < 0 || more.turns < 0 || more.wait_ns < 0 || more.run_ns < 0)
        return;
    gpu_proxy_cut(round, last, &more, now_ns);
    struct vg_histogram latency = {0};
    gpu_proxy_advance_took(last, socket->took, is_first ? NULL : &latency);
    gpu_proxy_add(round, socket, last->device, &more, &latency);
    vg_histogram_clear(&latency);
}

/* ---- asking ---- */

static void
gpu_proxy_hang_up(struct source *source, struct proxy *proxy, int64_t now_ns, const GError *why)
{
    if (proxy->control)
        epoll_ctl(source->epoll_fd, EPOLL_CTL_DEL, vg_proxy_control_fd(proxy->control), NULL);
    g_clear_pointer(&proxy->control, vg_proxy_control_close);
    proxy->queried_ns = 0;
    proxy->is_unresponsive = false;
    proxy->retry_ns = now_ns + RETRY_NS;
    g_free(proxy->why);
    proxy->why = g_strdup(why->message);
}

static int
gpu_proxy_open(const struct source *source, struct proxy *proxy, GError **err)
{
    struct epoll_event event = {.events = EPOLLIN};

    proxy->control = vg_proxy_control_open(proxy->path, 0, err);
    if (!proxy->control)
        return -1;
    if (epoll_ctl(source->epoll_fd, EPOLL_CTL_ADD, vg_proxy_control_fd(proxy->control), &event) < 0)
        return vg_error(err, VG_E_IO, "%s: %s", proxy->path, g_strerror(errno));
    return 0;
}

static void
gpu_proxy_query(struct source *source, struct proxy *proxy, int64_t now_ns)
{
    g_autoptr(GError) err = NULL;

    g_clear_pointer(&proxy->answer, g_ptr_array_unref);
    if (proxy->queried_ns > 0 || (!proxy->control && now_ns < proxy->retry_ns))
        return;
    if ((!proxy->control && gpu_proxy_open(source, proxy, &err) < 0) ||
        vg_proxy_control_request_list(proxy->control, &err) < 0) {
        gpu_proxy_hang_up(source, proxy, now_ns, err);
        return;
    }
    proxy->queried_ns = now_ns;
}

static void
gpu_proxy_take(struct source *source, struct proxy *proxy, int64_t now_ns)
{
    g_autoptr(GError) err = NULL;

    if (!proxy->control)
        return;
    g_autoptr(GPtrArray) sockets = vg_proxy_control_take_list(proxy->control, &err);
    if (err)
        gpu_proxy_hang_up(source, proxy, now_ns, err);
    if (!sockets)
        return;
    if (proxy->answer)
        g_ptr_array_unref(proxy->answer);
    proxy->answer = g_steal_pointer(&sockets);
    proxy->answered_ns = now_ns;
    proxy->queried_ns = 0;
    proxy->is_unresponsive = false;
    g_clear_pointer(&proxy->why, g_free);
}

static void
gpu_proxy_read_proxy(const struct round *round, struct proxy *proxy, int64_t now_ns)
{
    gpu_proxy_take(round->source, proxy, now_ns);
    if (!proxy->answer && proxy->queried_ns > 0 && !proxy->is_unresponsive) {
        proxy->is_unresponsive = true;
        g_free(proxy->why);
        proxy->why = g_strdup_printf("%s: it does not answer", proxy->path);
    }
    for (unsigned i = 0; proxy->answer && i < proxy->answer->len; i++)
        gpu_proxy_read_socket(round, proxy->answer->pdata[i], proxy->answered_ns);
    if (!proxy->answer)
        gpu_proxy_report_problem(round, proxy, proxy->why ? proxy->why : "it does not answer");
    g_clear_pointer(&proxy->answer, g_ptr_array_unref);
}

static void
gpu_proxy_set_latency(const struct round *round, const struct took *took)
{
    GArray *gpus = took->vm ? vg_gpu_window_vm(round->window, took->vm)->gpus : round->window->gpus;

    for (unsigned i = 0; i < gpus->len; i++) {
        struct vg_gpu_sample *gpu = &g_array_index(gpus, struct vg_gpu_sample, i);
        if (strcmp(gpu->device, took->device) != 0 || strcmp(gpu->engine, ENGINE) != 0)
            continue;
        gpu->latency_mean_ns =
            gpu->requests > 0 ? (gpu->wait_ns + gpu->exec_ns) / (int64_t)gpu->requests : 0;
        gpu->latency_p50_ns = vg_histogram_quantile(&took->latency, 0.50);
        gpu->latency_p95_ns = vg_histogram_quantile(&took->latency, 0.95);
        gpu->latency_p99_ns = vg_histogram_quantile(&took->latency, 0.99);
        gpu->latency_max_ns = took->latency.max;
    }
}

static void
gpu_proxy_read_source(vg_gpu_source *base, const GPtrArray *vms, vg_thread *self, int64_t now_ns,
                      struct vg_window *window)
{
    struct source *source = (struct source *)base;
    g_autoptr(GPtrArray) all_took = g_ptr_array_new_with_free_func(gpu_proxy_free_took);
    const struct round round = {.source = source, .vms = vms, .window = window, .took = all_took};

    g_string_truncate(source->strangers, 0);
    source->n_vms = 0;
    source->missed_ns = 0;
    for (unsigned i = 0; i < source->proxies->len; i++) {
        gpu_proxy_read_proxy(&round, source->proxies->pdata[i], now_ns);
        vg_thread_beat(self);
    }
    for (unsigned i = 0; i < all_took->len; i++)
        gpu_proxy_set_latency(&round, all_took->pdata[i]);
}

/* ---- the source ---- */

static bool
gpu_proxy_ready(vg_gpu_source *base, int64_t now_ns)
{
    const struct source *source = (const struct source *)base;

    (void)now_ns;
    for (unsigned i = 0; i < source->proxies->len; i++) {
        const struct proxy *proxy = source->proxies->pdata[i];
        if (proxy->control || access(proxy->path, F_OK) == 0)
            return true;
    }
    return false;
}

static void
gpu_proxy_query_all(vg_gpu_source *base, int64_t now_ns)
{
    struct source *source = (struct source *)base;

    for (unsigned i = 0; i < source->proxies->len; i++)
        gpu_proxy_query(source, source->proxies->pdata[i], now_ns);
}

static void
gpu_proxy_take_all(vg_gpu_source *base, int64_t now_ns)
{
    struct source *source = (struct source *)base;

    for (unsigned i = 0; i < source->proxies->len; i++)
        gpu_proxy_take(source, source->proxies->pdata[i], now_ns);
}

static int64_t
gpu_proxy_awaits(const vg_gpu_source *base)
{
    const struct source *source = (const struct source *)base;
    int64_t until_ns = 0;

    for (unsigned i = 0; i < source->proxies->len; i++) {
        const struct proxy *proxy = source->proxies->pdata[i];
        if (proxy->queried_ns > 0 && !proxy->is_unresponsive)
            until_ns = MAX(until_ns, proxy->queried_ns + VG_GPU_AWAITS_NS);
    }
    return until_ns;
}

static int
gpu_proxy_fd(const vg_gpu_source *base)
{
    return ((const struct source *)base)->epoll_fd;
}

static int64_t
gpu_proxy_missed_ns(const vg_gpu_source *base)
{
    return ((const struct source *)base)->missed_ns;
}

static bool
gpu_proxy_describe(const vg_gpu_source *base, GString *text)
{
    const struct source *source = (const struct source *)base;
    bool lacks = false;
    unsigned n = 0;

    for (unsigned i = 0; i < source->proxies->len; i++) {
        const struct proxy *proxy = source->proxies->pdata[i];
        if (!proxy->control && access(proxy->path, F_OK) != 0)
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
        proxy->queried_ns = 0;
        g_clear_pointer(&proxy->control, vg_proxy_control_close);
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
    if (source->epoll_fd >= 0)
        close(source->epoll_fd);
    g_free(source);
}

static const struct vg_gpu_source_ops gpu_proxy_ops = {
    .name = NAME,
    .ready = gpu_proxy_ready,
    .fd = gpu_proxy_fd,
    .ask = gpu_proxy_query_all,
    .take = gpu_proxy_take_all,
    .awaits = gpu_proxy_awaits,
    .missed_ns = gpu_proxy_missed_ns,
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
    source->sockets =
        g_hash_table_new_full(g_str_hash, g_str_equal, g_free, gpu_proxy_free_reading);
    source->strangers = g_string_new(NULL);
    source->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; list[i]; i++) {
        struct proxy *proxy = g_new0(struct proxy, 1);
        proxy->path = g_strdup(g_strstrip(list[i]));
        g_ptr_array_add(source->proxies, proxy);
    }
    return &source->base;
}
