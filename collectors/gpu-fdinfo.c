/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what DRM drivers report about the device files that QEMU has open. For each client, which
 * several descriptors may share, they count how long its engines have worked. A window is the
 * difference of two readings, and a client counts from its first reading.
 *
 * A DRM file is recognised by its descriptor's link and by fdinfo. The file itself is not accessed:
 * a disk's file may be on a server that does not answer. CAP_SYS_PTRACE is enough to read other
 * processes' fdinfo. The links, which are optional, also need CAP_DAC_READ_SEARCH.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "collectors/fdinfo-text.h"
#include "collectors/gpu-cards.h"
#include "collectors/gpu-source.h"
#include "collectors/gpu-window.h"
#include "host/proc-scan.h"
#include "host/proc-text.h"

#define NAME "fdinfo"

/* Ignore descriptors above this number, and further DRM files of a process that has more. */
#define FD_LIMIT    65536
#define DRM_FDS_MAX 1024
/* In a listing's place: the descriptor is one of the DRM files. */
#define IS_DRM UINT32_MAX
/* The time between two listings of a VM without a client; otherwise each window has one. */
#define RELIST_NS (2 * VG_NS_PER_S)
/* A descriptor may have become another file since it was seen, so everything is read again. */
#define RECHECK_NS (10 * VG_NS_PER_S)
/* Without links, this requires reading all of fdinfo. */
#define RECHECK_SLOW_NS (60 * VG_NS_PER_S)
/* Number of files between two heartbeats. */
#define READS_PER_BEAT 256

struct client_key {
    char device[sizeof(((struct vg_fdinfo *)NULL)->device)];
    uint64_t id;
};

struct engine {
    char name[sizeof(((struct vg_fdinfo_engine *)NULL)->name)];
    uint64_t busy_ns; /* the maximum that was reported */
    uint64_t cycles;
    uint64_t total_cycles;
    int64_t unreported_ns; /* work after the end of the last window */
};

struct client {
    struct client_key key; /* first */
    uint64_t generation;   /* of the last reading */
    int64_t read_ns;
    int64_t reported_ns; /* end of the reported work: the end of a window, or the first reading */
    int64_t memory_bytes;
    unsigned n_engines;
    struct engine engines[VG_FDINFO_ENGINES_MAX];
};

struct drm_fd {
    int32_t fd;
    bool listed;
    bool known; /* key is valid */
    struct client_key key;
};

struct process {
    uint32_t vm_id;
    int64_t list_ns; /* time of the next listing */
    int64_t recheck_ns;
    uint64_t generation;
    uint32_t listing;
    GArray *seen; /* uint32_t by fd: the last listing in which it was not a DRM file, or IS_DRM */
    GArray *drm;  /* struct drm_fd */
    unsigned n_mute; /* DRM files whose driver reports no client, since the last recheck */
    bool denied;
    bool no_links;
    bool had_client;
};

struct source {
    struct vg_gpu_source base; /* first */
    char *proc;
    char *drm;
    GHashTable *processes; /* pid -> struct process */
    GHashTable *clients;   /* struct client_key -> struct client */
    uint64_t generation;
    unsigned reads;
    unsigned with_clients; /* number of VMs */
    unsigned with_mute;    /* VMs with files whose driver reports no client */
    unsigned n_mute;       /* such files */
    unsigned with_quiet;   /* VMs whose clients have no engine so far */
    bool has_driver;
    bool denied;
};

/* The reading of one process, which belongs to a VM or is one of its helpers. */
struct round {
    struct source *source;
    const struct vg_proc_vm *vm;
    int32_t pid;
    struct process *process;
    struct vg_window *window;
    vg_thread *self;
    int64_t now_ns;
    unsigned n_mute; /* of all processes of the VM so far */
    bool is_quiet;
};

static unsigned
hash_key(const void *data)
{
    const struct client_key *key = data;

    return g_str_hash(key->device) ^ (unsigned)key->id;
}

static gboolean
equal_keys(const void *a, const void *b)
{
    const struct client_key *x = a, *y = b;

    return x->id == y->id && strcmp(x->device, y->device) == 0;
}

static void
gpu_fdinfo_process_free(void *data)
{
    struct process *process = data;

    g_array_unref(process->seen);
    g_array_unref(process->drm);
    g_free(process);
}

/* ---- which descriptors are DRM files ---- */

static int32_t
gpu_fdinfo_fd_of(const char *name)
{
    int32_t fd = 0;

    if (*name == '\0')
        return -1;
    for (; g_ascii_isdigit(*name) && fd < FD_LIMIT; name++)
        fd = fd * 10 + (*name - '0');
    return *name == '\0' && fd < FD_LIMIT ? fd : -1;
}

/* Returns whether the target has the name of a DRM device in any directory: QEMU may have its own
 * /dev. */
static bool
is_drm_name(const char *target)
{
    const char *base = strrchr(target, '/');

    return base && (strncmp(base, "/renderD", 8) == 0 || strncmp(base, "/card", 5) == 0);
}

static bool
may_be_drm(const struct round *round, int32_t fd)
{
    const char *proc = round->source->proc;
    char path[PATH_MAX], text[VG_FDINFO_TEXT_MAX];
    struct vg_fdinfo info;

    snprintf(path, sizeof(path), "%s/%d/fd/%d", proc, round->pid, fd);
    ssize_t n = readlink(path, text, sizeof(text) - 1);
    if (n >= 0) {
        text[n] = '\0';
        return is_drm_name(text);
    }
    if (errno != EACCES && errno != EPERM)
        return false;
    round->process->no_links = true;
    snprintf(path, sizeof(path), "%s/%d/fdinfo/%d", proc, round->pid, fd);
    return vg_proc_read(path, text, sizeof(text)) > 0 &&
           (vg_fdinfo_parse(text, &info) || vg_fdinfo_is_old(text));
}

static struct drm_fd *
find_drm(const struct process *process, int32_t fd)
{
    for (unsigned i = 0; i < process->drm->len; i++) {
        struct drm_fd *drm = &g_array_index(process->drm, struct drm_fd, i);
        if (drm->fd == fd)
            return drm;
    }
    return NULL;
}

static void
set_seen(struct process *process, int32_t fd, uint32_t value)
{
    if ((unsigned)fd >= process->seen->len)
        g_array_set_size(process->seen, (unsigned)fd + 1);
    g_array_index(process->seen, uint32_t, fd) = value;
}

static void
list_one(const struct round *round, const char *name)
{
    struct process *process = round->process;
    int32_t fd = gpu_fdinfo_fd_of(name);

    if (fd < 0)
        return;
    uint32_t seen =
        (unsigned)fd < process->seen->len ? g_array_index(process->seen, uint32_t, fd) : 0;
    struct drm_fd *known = seen == IS_DRM ? find_drm(process, fd) : NULL;
    if (known) {
        known->listed = true;
    } else if (seen == process->listing - 1 || process->drm->len == DRM_FDS_MAX ||
               !may_be_drm(round, fd)) {
        set_seen(process, fd, process->listing);
    } else {
        struct drm_fd fresh = {.fd = fd, .listed = true};
        g_array_append_val(process->drm, fresh);
        set_seen(process, fd, IS_DRM);
    }
}

static void
list_fds(const struct round *round)
{
    struct process *process = round->process;
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%d/fdinfo", round->source->proc, round->pid);
    DIR *dir = opendir(path);
    process->denied = !dir && (errno == EACCES || errno == EPERM);
    process->list_ns = round->now_ns + RELIST_NS;
    if (!dir)
        return;
    if (round->now_ns >= process->recheck_ns) {
        process->recheck_ns = round->now_ns + (process->no_links ? RECHECK_SLOW_NS : RECHECK_NS);
        process->listing++;
        g_array_set_size(process->drm, 0);
        process->n_mute = 0;
    }
    process->listing++;
    for (unsigned i = 0; i < process->drm->len; i++)
        g_array_index(process->drm, struct drm_fd, i).listed = false;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        list_one(round, entry->d_name);
    closedir(dir);
    for (unsigned i = process->drm->len; i > 0; i--) {
        if (!g_array_index(process->drm, struct drm_fd, i - 1).listed)
            g_array_remove_index(process->drm, i - 1);
    }
}

/* ---- clients ---- */

/* Returns the growth of a counter. The counter may fall back, and then catches up. */
static uint64_t
gpu_fdinfo_advance(uint64_t *most, uint64_t now)
{
    uint64_t more = now > *most ? now - *most : 0;

    *most = MAX(*most, now);
    return more;
}

/* Returns the work of an engine, or of all engines that it represents, since the last reading. */
static int64_t
work_of(struct engine *engine, const struct vg_fdinfo_engine *now, int64_t span_ns)
{
    double limit_ns = (double)span_ns * (double)now->capacity;
    double work_ns;

    if (now->has_busy) {
        work_ns = (double)gpu_fdinfo_advance(&engine->busy_ns, now->busy_ns);
    } else {
        uint64_t cycles = gpu_fdinfo_advance(&engine->cycles, now->cycles);
        uint64_t total = gpu_fdinfo_advance(&engine->total_cycles, now->total_cycles);
        work_ns = total > 0 ? (double)cycles / (double)total * (double)span_ns : 0;
    }
    return (int64_t)MIN(MIN(work_ns, limit_ns), (double)VG_TIME_MAX);
}

/* Finds or adds an engine. An engine that appears after its client has done no work before, because
 * amdgpu reports only engines that have worked. Cycles also run without work, so they count from
 * the first reading. Returns NULL if there are too many engines. */
static struct engine *
gpu_fdinfo_need_engine(struct client *client, const struct vg_fdinfo_engine *now)
{
    for (unsigned i = 0; i < client->n_engines; i++) {
        if (strcmp(client->engines[i].name, now->name) == 0)
            return &client->engines[i];
    }
    if (client->n_engines == VG_FDINFO_ENGINES_MAX)
        return NULL;
    struct engine *engine = &client->engines[client->n_engines++];
    *engine = (struct engine){.busy_ns = client->read_ns == 0 ? now->busy_ns : 0,
                              .cycles = now->cycles,
                              .total_cycles = now->total_cycles};
    g_strlcpy(engine->name, now->name, sizeof(engine->name));
    return engine;
}

static void
add_work(const struct round *round, const char *device, const struct vg_fdinfo_engine *now,
         int64_t work_ns)
{
    struct vg_gpu_sample more = {.busy_ns = work_ns / (int64_t)MIN(now->capacity, INT32_MAX),
                                 .exec_ns = work_ns,
                                 .lacks = VG_GPU_ONLY_WORK | VG_GPU_NO_MEMORY};
    struct vg_vm_sample *vm = vg_gpu_window_vm(round->window, round->vm);

    g_strlcpy(more.device, device, sizeof(more.device));
    g_strlcpy(more.engine, now->name, sizeof(more.engine));
    vg_gpu_window_add(vm->gpus, &more);
    vg_gpu_window_add(round->window->gpus, &more);
}

static void
add_memory(GArray *gpus, const struct vg_fdinfo *info, int64_t more_peak_bytes)
{
    int64_t bytes = 0, peak_bytes = 0;

    vg_gpu_window_get_memory(gpus, info->device, &bytes, &peak_bytes);
    vg_gpu_window_set_memory(gpus, info->device, bytes + info->memory_bytes,
                             peak_bytes + more_peak_bytes);
}

static void
update_client(const struct round *round, struct client *client, const struct vg_fdinfo *info)
{
    int64_t span_ns = client->read_ns > 0 ? round->now_ns - client->read_ns : 0;
    int64_t peak_bytes = MAX(client->memory_bytes, info->memory_bytes);

    for (unsigned i = 0; i < info->n_engines; i++) {
        const struct vg_fdinfo_engine *now = &info->engines[i];
        struct engine *engine = gpu_fdinfo_need_engine(client, now);
        if (!engine)
            continue;
        const int64_t all_ns = vg_time_sum(engine->unreported_ns, work_of(engine, now, span_ns));
        const int64_t work_ns =
            vg_gpu_window_share(all_ns, client->reported_ns, round->window->end_ns, round->now_ns);
        engine->unreported_ns = all_ns - work_ns;
        add_work(round, info->device, now, work_ns);
    }
    if (info->n_engines > 0) {
        struct vg_vm_sample *vm = vg_gpu_window_vm(round->window, round->vm);
        if (info->tells_memory) {
            add_memory(vm->gpus, info, peak_bytes);
            add_memory(round->window->gpus, info, peak_bytes);
        }
        round->process->had_client = true;
    }
    client->reported_ns = client->read_ns > 0
                              ? MAX(client->reported_ns, MIN(round->window->end_ns, round->now_ns))
                              : round->now_ns;
    client->read_ns = round->now_ns;
    client->memory_bytes = info->memory_bytes;
    client->generation = round->source->generation;
}

static struct client *
need_client(struct source *source, const struct client_key *key)
{
    struct client *client = g_hash_table_lookup(source->clients, key);

    if (!client) {
        client = g_new0(struct client, 1);
        client->key = *key;
        g_hash_table_insert(source->clients, &client->key, client);
    }
    return client;
}

static bool
is_read(const struct source *source, const struct client_key *key)
{
    const struct client *client = g_hash_table_lookup(source->clients, key);

    return client && client->generation == source->generation;
}

/* Reads a descriptor. Returns false if it is not a DRM file (any more), or has no client. */
static bool
read_fd(const struct round *round, struct drm_fd *drm)
{
    struct source *source = round->source;
    char path[PATH_MAX], text[VG_FDINFO_TEXT_MAX];
    struct vg_fdinfo info;

    /* This descriptor is a duplicate of one that was already read. */
    if (drm->known && is_read(source, &drm->key))
        return true;
    snprintf(path, sizeof(path), "%s/%d/fdinfo/%d", source->proc, round->pid, drm->fd);
    if (++source->reads % READS_PER_BEAT == 0)
        vg_thread_beat(round->self);
    if (vg_proc_read(path, text, sizeof(text)) <= 0)
        return false;
    if (!vg_fdinfo_parse(text, &info) || !info.has_client) {
        round->process->n_mute++;
        return false;
    }
    drm->known = true;
    drm->key = (struct client_key){.id = info.client};
    g_strlcpy(drm->key.device, info.device, sizeof(drm->key.device));
    if (!is_read(source, &drm->key))
        update_client(round, need_client(source, &drm->key), &info);
    return true;
}

/* ---- the source ---- */

static struct process *
need_process(struct source *source, uint32_t vm_id, int32_t pid)
{
    void *key = GINT_TO_POINTER(pid);
    struct process *process = g_hash_table_lookup(source->processes, key);

    /* Another VM's process may have got the pid. */
    if (!process || process->vm_id != vm_id) {
        process = g_new0(struct process, 1);
        process->vm_id = vm_id;
        process->seen = g_array_new(FALSE, TRUE, sizeof(uint32_t));
        process->drm = g_array_new(FALSE, TRUE, sizeof(struct drm_fd));
        process->listing = 1;
        g_hash_table_replace(source->processes, key, process);
    }
    process->generation = source->generation;
    return process;
}

/* Returns false if the process has no client. */
static bool
gpu_fdinfo_read_process(struct round *round)
{
    struct process *process = round->process;

    if (process->drm->len > 0 || round->now_ns >= process->list_ns)
        list_fds(round);
    for (unsigned i = 0; i < process->drm->len;) {
        struct drm_fd *drm = &g_array_index(process->drm, struct drm_fd, i);
        if (read_fd(round, drm)) {
            i++;
            continue;
        }
        set_seen(process, drm->fd, process->listing);
        g_array_remove_index_fast(process->drm, i);
    }
    /* A process that has closed its files is known to do nothing. */
    bool has_client = process->had_client && !process->denied;
    if (has_client)
        vg_gpu_window_vm(round->window, round->vm);
    if (process->denied) {
        round->source->denied = true;
        round->source->base.trouble = VG_TROUBLE_PTRACE_DENIED;
    }
    round->n_mute += process->n_mute;
    round->is_quiet |= process->drm->len > 0 && !process->had_client;
    return has_client;
}

static void
gpu_fdinfo_forget_gone(struct source *source)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, source->clients);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        if (((struct client *)value)->generation != source->generation)
            g_hash_table_iter_remove(&iter);
    }
    g_hash_table_iter_init(&iter, source->processes);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        if (((struct process *)value)->generation != source->generation)
            g_hash_table_iter_remove(&iter);
    }
}

static void
gpu_fdinfo_read_source(vg_gpu_source *base, const GPtrArray *vms, vg_thread *self, int64_t now_ns,
                       struct vg_window *window)
{
    struct source *source = (struct source *)base;

    source->generation++;
    source->with_clients = source->with_mute = source->n_mute = source->with_quiet = 0;
    source->denied = false;
    source->base.trouble = VG_TROUBLE_NONE;
    for (unsigned i = 0; i < vms->len; i++) {
        const struct vg_proc_vm *vm = vms->pdata[i];
        struct round round = {
            .source = source, .vm = vm, .window = window, .self = self, .now_ns = now_ns};
        bool has_client = false;
        for (unsigned k = 0; (round.pid = vg_proc_vm_pid_at(vm, k)) > 0; k++) {
            round.process = need_process(source, vm->id, round.pid);
            has_client = gpu_fdinfo_read_process(&round) || has_client;
        }
        source->with_clients += has_client;
        source->with_mute += round.n_mute > 0;
        source->n_mute += round.n_mute;
        source->with_quiet += round.is_quiet && !has_client;
    }
    gpu_fdinfo_forget_gone(source);
}

static bool
gpu_fdinfo_ready(vg_gpu_source *base, int64_t now_ns)
{
    struct source *source = (struct source *)base;

    (void)now_ns;
    source->has_driver = vg_gpu_cards_can_render(source->drm);
    return source->has_driver;
}

static void
gpu_fdinfo_describe_vms(const struct source *source, GString *text)
{
    const unsigned with_any = source->with_clients + source->with_quiet;
    if (source->with_clients > 0)
        g_string_append_printf(text, "%u VM%s with DRM clients", source->with_clients,
                               source->with_clients == 1 ? "" : "s");
    if (source->with_quiet > 0)
        g_string_append_printf(text, "%s%u VM%s with DRM clients that report no work",
                               source->with_clients > 0 ? ", " : "", source->with_quiet,
                               source->with_quiet == 1 ? "" : "s");
    if (source->n_mute > 0)
        g_string_append_printf(text,
                               "%s%u VM%s with %u open DRM file%s whose driver does not report use "
                               "(i915 and amdgpu do since Linux 5.19)",
                               with_any > 0 ? ", " : "", source->with_mute,
                               source->with_mute == 1 ? "" : "s", source->n_mute,
                               source->n_mute == 1 ? "" : "s");
    else if (with_any == 0)
        g_string_append(text, "no VM has opened a DRM device");
}

static bool
gpu_fdinfo_describe(const vg_gpu_source *base, GString *text)
{
    const struct source *source = (const struct source *)base;

    if (!source->has_driver)
        g_string_append(text, "no DRM driver has a render node here");
    else if (source->denied)
        g_string_append(text,
                        "vgpud cannot read VMs' open files without CAP_SYS_PTRACE, see vgpud(8)");
    else
        gpu_fdinfo_describe_vms(source, text);
    return source->has_driver && (source->denied || source->n_mute > 0);
}

static void
gpu_fdinfo_close_source(vg_gpu_source *base)
{
    struct source *source = (struct source *)base;

    g_hash_table_remove_all(source->clients);
    g_hash_table_remove_all(source->processes);
}

static void
gpu_fdinfo_free_source(vg_gpu_source *base)
{
    struct source *source = (struct source *)base;

    g_hash_table_unref(source->clients);
    g_hash_table_unref(source->processes);
    g_free(source->proc);
    g_free(source->drm);
    g_free(source);
}

static const struct vg_gpu_source_ops gpu_fdinfo_ops = {
    .name = NAME,
    .ready = gpu_fdinfo_ready,
    .read = gpu_fdinfo_read_source,
    .describe = gpu_fdinfo_describe,
    .close = gpu_fdinfo_close_source,
    .free = gpu_fdinfo_free_source,
};

vg_gpu_source *
vg_gpu_fdinfo_new(const char *proc, const char *drm)
{
    struct source *source = g_new0(struct source, 1);

    source->base.ops = &gpu_fdinfo_ops;
    source->proc = g_strdup(proc);
    source->drm = g_strdup(drm);
    source->clients = g_hash_table_new_full(hash_key, equal_keys, NULL, g_free);
    source->processes = g_hash_table_new_full(NULL, NULL, NULL, gpu_fdinfo_process_free);
    return &source->base;
}
