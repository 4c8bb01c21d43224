/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "engine/engine.h"

#include <string.h>

#include "engine/day-past.h"
#include "engine/departed.h"
#include "engine/own-track.h"
#include "engine/proxy-track.h"
#include "engine/vm-track.h"
#include "model/card-fact.h"
#include "policy/card-groups.h"

struct host_track {
    uint64_t steps;
    int64_t begin_ns;
    int64_t end_ns;
    uint64_t lost_events;      /* the sum of all windows */
    uint64_t last_lost_events; /* that of the newest window */
    struct vg_own_track own;
    GPtrArray *vms;      /* struct vg_vm_track, owned */
    GPtrArray *proxies;  /* engine/proxy-track.h */
    GArray *cards;       /* struct vg_card_fact, of the newest window */
    GPtrArray *departed; /* engine/departed.h */
    guint next;          /* index at which the search for the next sample starts */
};

struct vg_engine {
    struct vg_policy_config config;
    enum vg_engine_mode mode;
    uint64_t n_tracks; /* number of tracks created so far */
    GHashTable *hosts; /* name -> struct host_track */
};

static void
free_track(void *track)
{
    vg_vm_track_free(track);
}

static void
free_host(void *data)
{
    struct host_track *host = data;
    g_ptr_array_free(host->vms, TRUE);
    g_ptr_array_unref(host->proxies);
    g_array_unref(host->cards);
    g_ptr_array_unref(host->departed);
    vg_own_track_clear(&host->own);
    g_free(host);
}

vg_engine *
vg_engine_new(const struct vg_policy_config *config, enum vg_engine_mode mode)
{
    vg_engine *engine = g_new0(vg_engine, 1);
    engine->config = *config;
    engine->mode = mode;
    engine->hosts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, free_host);
    return engine;
}

void
vg_engine_free(vg_engine *engine)
{
    if (!engine)
        return;
    g_hash_table_destroy(engine->hosts);
    g_free(engine);
}

void
vg_engine_set_config(vg_engine *engine, const struct vg_policy_config *config)
{
    GHashTableIter iter;
    void *value;

    engine->config = *config;
    g_hash_table_iter_init(&iter, engine->hosts);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct host_track *host = value;
        for (guint i = 0; i < host->vms->len; i++)
            vg_score_set_config(((struct vg_vm_track *)host->vms->pdata[i])->score, &config->score);
    }
}

static struct host_track *
need_host(vg_engine *engine, const char *name, const struct vg_window *window)
{
    struct host_track *host = g_hash_table_lookup(engine->hosts, name);
    if (host)
        return host;
    host = g_new0(struct host_track, 1);
    host->begin_ns = window->begin_ns;
    host->vms = g_ptr_array_new_with_free_func(free_track);
    host->proxies = vg_proxy_tracks_new();
    host->cards = g_array_new(FALSE, FALSE, sizeof(struct vg_card_fact));
    host->departed = vg_departed_new();
    vg_own_track_init(&host->own);
    g_hash_table_insert(engine->hosts, g_strdup(name), host);
    return host;
}

static struct vg_vm_track *
engine_find_vm(struct host_track *host, const struct vg_vm_sample *sample)
{
    for (guint n = 0; n < host->vms->len; n++, host->next++) {
        /* Samples come in the same order in each window. */
        struct vg_vm_track *track = host->vms->pdata[host->next % host->vms->len];
        if (*sample->uuid && *track->uuid) {
            if (strcmp(sample->uuid, track->uuid) == 0)
                return track;
            continue;
        }
        if (track->pid == sample->pid && strcmp(track->name, sample->name) == 0)
            return track;
    }
    return NULL;
}

static struct vg_vm_track *
need_vm(vg_engine *engine, struct host_track *host, const struct vg_vm_sample *sample)
{
    struct vg_vm_track *track = engine_find_vm(host, sample);
    if (track)
        return track;
    track = vg_vm_track_new(sample, ++engine->n_tracks, engine->mode, &engine->config.score);
    g_ptr_array_add(host->vms, track);
    vg_departed_remove(host->departed, track->uuid);
    return track;
}

static void
engine_forget_gone(struct host_track *host)
{
    for (guint i = host->vms->len; i > 0; i--) {
        const struct vg_vm_track *track = host->vms->pdata[i - 1];
        if (host->steps - track->last_step <= VG_ENGINE_FORGET_WINDOWS)
            continue;
        vg_departed_add(host->departed, track);
        g_ptr_array_remove_index(host->vms, i - 1);
    }
    vg_departed_expire(host->departed, host->end_ns);
}

void
vg_engine_step(vg_engine *engine, const struct vg_window *window, const char *host_name)
{
    if (window->end_ns <= window->begin_ns || !window->vms)
        return;
    struct host_track *host = need_host(engine, host_name, window);
    host->steps++;
    host->end_ns = window->end_ns;
    host->lost_events += window->lost_events;
    host->last_lost_events = window->lost_events;
    vg_own_track_feed(&host->own, window, engine->mode, engine->config.score.half_life_ns);
    vg_proxy_tracks_feed(host->proxies, window);
    g_array_set_size(host->cards, 0);
    g_array_append_vals(host->cards, window->gpu_cards->data, window->gpu_cards->len);
    /* All tracks are needed first: a VM may have lost time to a later one. */
    g_autoptr(GPtrArray) tracks = g_ptr_array_new();
    g_autoptr(GHashTable) by_id = g_hash_table_new(g_direct_hash, g_direct_equal);
    for (guint i = 0; i < window->vms->len; i++) {
        const struct vg_vm_sample *sample = &g_array_index(window->vms, struct vg_vm_sample, i);
        struct vg_vm_track *track = need_vm(engine, host, sample);
        g_ptr_array_add(tracks, track);
        g_hash_table_insert(by_id, GUINT_TO_POINTER(sample->id), track);
    }
    for (guint i = 0; i < window->vms->len; i++) {
        const struct vg_vm_sample *sample = &g_array_index(window->vms, struct vg_vm_sample, i);
        struct vg_vm_track *track = tracks->pdata[i];
        track->last_step = host->steps;
        track->last_ns = window->end_ns;
        vg_vm_track_feed(track, sample, window, by_id, engine->config.score.half_life_ns);
    }
    if (engine->mode == VG_ENGINE_LIVE)
        engine_forget_gone(host);
}

bool
vg_engine_restore_days(vg_engine *engine, const char *host_name, const struct vg_day_past *past,
                       int64_t offset_ns)
{
    struct host_track *host = g_hash_table_lookup(engine->hosts, host_name);

    if (!host)
        return false;
    for (guint i = 0; i < host->vms->len; i++)
        vg_day_past_restore(past, offset_ns, host->vms->pdata[i]);
    vg_day_past_depart(past, offset_ns, host->vms, host->departed);
    vg_departed_expire(host->departed, host->end_ns);
    return true;
}

/* The VMs of a description, for searching. */
struct described {
    GHashTable *by_uuid;
    GHashTable *by_name;
};

static void
described_init(struct described *described, const struct vg_snap_host *description)
{
    described->by_uuid = g_hash_table_new(g_str_hash, g_str_equal);
    described->by_name = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = description->vms->len; i > 0; i--) {
        struct vg_snap_vm *vm = description->vms->pdata[i - 1];
        if (vm->uuid)
            g_hash_table_insert(described->by_uuid, vm->uuid, vm);
        g_hash_table_insert(described->by_name, vm->name, vm);
    }
}

static void
described_clear(struct described *described)
{
    g_hash_table_unref(described->by_uuid);
    g_hash_table_unref(described->by_name);
}

/* Finds a VM by its UUID, or by its name if one of the two has no UUID. */
static const struct vg_snap_vm *
find_facts(const struct described *described, const struct vg_vm_track *track)
{
    const struct vg_snap_vm *vm =
        *track->uuid ? g_hash_table_lookup(described->by_uuid, track->uuid) : NULL;

    if (vm)
        return vm;
    vm = g_hash_table_lookup(described->by_name, track->name);
    return vm && vm->uuid && *track->uuid ? NULL : vm;
}

static void
copy_strings(GPtrArray *to, const GPtrArray *from)
{
    for (guint i = 0; i < from->len; i++)
        g_ptr_array_add(to, g_strdup(from->pdata[i]));
}

static bool
has_device(const struct vg_snap_vm *vm, guint n_uses, const char *device)
{
    for (guint i = 0; i < n_uses; i++) {
        const struct vg_snap_gpu_use *use = vm->gpu->pdata[i];
        if (strcmp(use->device, device) == 0)
            return true;
    }
    return false;
}

/* Adds vGPUs that did nothing, because they must move with their VM as well. */
static void
add_idle_devices(const struct vg_snap_vm *facts, struct vg_snap_vm *vm)
{
    guint n_measured = vm->gpu->len;
    for (guint i = 0; i < facts->gpu->len; i++) {
        const struct vg_snap_gpu_use *fact = facts->gpu->pdata[i];
        if (has_device(vm, n_measured, fact->device))
            continue;
        struct vg_snap_gpu_use *use = vg_record_copy(&vg_snap_gpu_use_record, fact);
        use->share = 0;
        use->wait_share = 0;
        g_ptr_array_add(vm->gpu, use);
    }
}

static void
add_facts(const struct vg_snap_vm *facts, struct vg_snap_vm *vm)
{
    if (facts->uuid && !vm->uuid)
        vm->uuid = g_strdup(facts->uuid);
    vm->display_name = g_strdup(facts->display_name);
    vm->vcpus = MAX(vm->vcpus, facts->vcpus);
    vm->memory_bytes = facts->memory_bytes;
    vm->cpu_limit = facts->cpu_limit;
    vm->pinned = facts->pinned;
    vm->never_move = facts->never_move;
    vm->policy = facts->policy;
    vm->only_cold = g_strdup(facts->only_cold);
    vm->manager = g_strdup(facts->manager);
    vm->cpu_model = g_strdup(facts->cpu_model);
    vm->problem = g_strdup(facts->problem);
    copy_strings(vm->affinity, facts->affinity);
    copy_strings(vm->anti_affinity, facts->anti_affinity);
    for (guint i = 0; i < vm->gpu->len; i++) {
        struct vg_snap_gpu_use *use = vm->gpu->pdata[i];
        for (guint k = 0; k < facts->gpu->len; k++) {
            const struct vg_snap_gpu_use *fact = facts->gpu->pdata[k];
            if (strcmp(use->device, fact->device) != 0)
                continue;
            if (!use->vgpu_type)
                use->vgpu_type = g_strdup(fact->vgpu_type);
            use->memory_bytes = MAX(use->memory_bytes, fact->memory_bytes);
        }
    }
    add_idle_devices(facts, vm);
}

/* Counts the VMs of each name. The caller unrefs it. */
static GHashTable *
engine_count_names(const GPtrArray *tracks)
{
    GHashTable *names = g_hash_table_new(g_str_hash, g_str_equal);

    for (guint i = 0; i < tracks->len; i++) {
        char *name = ((struct vg_vm_track *)tracks->pdata[i])->name;
        guint n = GPOINTER_TO_UINT(g_hash_table_lookup(names, name));
        g_hash_table_insert(names, name, GUINT_TO_POINTER(n + 1));
    }
    return names;
}

/* Makes a name that no VM of the host has yet. taken contains the names in use. */
static char *
free_name(const GHashTable *taken, GHashTable *counted, const struct vg_vm_track *track)
{
    bool shared = GPOINTER_TO_UINT(g_hash_table_lookup(counted, track->name)) > 1;
    char *name =
        shared ? g_strdup_printf("%.200s#%d", track->name, track->pid) : g_strdup(track->name);

    for (guint i = 0; g_hash_table_contains((GHashTable *)taken, name); i++) {
        char *longer = g_strdup_printf("%.240s#%u", name, i);
        g_free(name);
        name = longer;
    }
    return name;
}

static bool
has_name(const struct vg_snap_host *host, const char *name)
{
    for (guint i = 0; i < host->vms->len; i++) {
        if (strcmp(((const struct vg_snap_vm *)host->vms->pdata[i])->name, name) == 0)
            return true;
    }
    return false;
}

/* Adds VMs of the description that were not used. */
static void
add_unmeasured(const struct vg_snap_host *description, GHashTable *used, const char *problem,
               struct vg_snap_host *host)
{
    for (guint i = 0; i < description->vms->len; i++) {
        const struct vg_snap_vm *facts = description->vms->pdata[i];
        if (g_hash_table_contains(used, facts))
            continue;
        g_autofree char *longer = has_name(host, facts->name)
                                      ? g_strdup_printf("%.200s#%.8s", facts->name,
                                                        facts->uuid ? facts->uuid : "unmeasured")
                                      : g_strdup(facts->name);
        if (has_name(host, longer))
            continue;
        struct vg_snap_vm *vm = vg_snap_host_add_vm(host, longer);
        add_facts(facts, vm);
        vm->pid = facts->pid;
        if (!vm->problem)
            vm->problem = g_strdup(problem);
    }
}

static void
fill_host(const vg_engine *engine, const struct vg_engine_part *part,
          const struct host_track *track, const struct vg_snap_host *description,
          struct vg_snap_host *host)
{
    g_autoptr(GHashTable) used = g_hash_table_new(NULL, NULL);
    g_autoptr(GPtrArray) shown = g_ptr_array_new();
    g_autoptr(GHashTable) names = g_hash_table_new(g_int64_hash, g_int64_equal);
    g_autoptr(GHashTable) taken = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; track && i < track->vms->len; i++) {
        struct vg_vm_track *vm = track->vms->pdata[i];
        if (engine->mode == VG_ENGINE_MEAN || vm->last_step == track->steps)
            g_ptr_array_add(shown, vm);
        else
            vg_departed_read_track(vm, track->end_ns, host);
    }
    if (track)
        vg_departed_read(track->departed, track->end_ns, host);
    g_autoptr(GHashTable) counted = engine_count_names(shown);
    for (guint i = 0; i < shown->len; i++) {
        struct vg_vm_track *vm_track = shown->pdata[i];
        g_autofree char *name = free_name(taken, counted, vm_track);
        char *added = vg_snap_host_add_vm(host, name)->name;
        g_hash_table_insert(names, &vm_track->id, added);
        g_hash_table_add(taken, added);
    }
    struct described described;
    described_init(&described, description);
    for (guint i = 0; i < shown->len; i++) {
        const struct vg_vm_track *vm_track = shown->pdata[i];
        struct vg_snap_vm *vm = host->vms->pdata[i];
        /* The period shows everything that is unknown, except for wakeups of single VMs. */
        const unsigned int lacks =
            part->lacks ? *part->lacks | (vm_track->lacks & VG_CPU_NO_WAKEUPS) : vm_track->lacks;
        vg_vm_track_read(vm_track, names, lacks, vm);
        const struct vg_snap_vm *facts = find_facts(&described, vm_track);
        if (facts) {
            add_facts(facts, vm);
            g_hash_table_add(used, (void *)facts);
        }
        vm->unmanaged = part->described && !facts;
        if (!vm->problem && engine->mode == VG_ENGINE_LIVE && vg_vm_track_only_gpu(vm_track))
            vm->problem = g_strdup("only its GPU use is measured");
    }
    described_clear(&described);
    if (part->unmeasured)
        add_unmeasured(description, used, part->unmeasured, host);
}

/* Sets the CPU count of a host without a description from the highest CPU that was seen. */
static int64_t
guess_cpus(const struct vg_snap_host *host)
{
    int32_t highest = 0;
    for (guint v = 0; v < host->vms->len; v++) {
        const struct vg_snap_vm *vm = host->vms->pdata[v];
        for (guint i = 0; i < vm->cpus->len; i++)
            highest = MAX(highest, g_array_index(vm->cpus, int32_t, i));
    }
    return highest + 1;
}

static struct vg_snap_host *
read_host(const vg_engine *engine, const struct vg_engine_part *part,
          const struct vg_snap_host *description)
{
    const struct host_track *track = g_hash_table_lookup(engine->hosts, description->name);
    struct vg_snap_host *host = vg_record_copy(&vg_snap_host_record, description);
    for (guint i = 0; i < host->vms->len; i++)
        vg_record_free(&vg_snap_vm_record, host->vms->pdata[i]);
    g_ptr_array_set_size(host->vms, 0);

    host->source = part->source;
    host->begin_ns = track ? track->begin_ns : 0;
    host->end_ns = track ? track->end_ns : 0;
    if (track) {
        uint64_t lost =
            engine->mode == VG_ENGINE_LIVE ? track->last_lost_events : track->lost_events;
        host->lost_events = (int64_t)MIN(lost, (uint64_t)VG_JSON_INT_MAX);
        vg_own_track_read(&track->own, engine->mode, host);
        vg_proxy_tracks_read(track->proxies, host->proxies);
    }
    fill_host(engine, part, track, description, host);
    vg_card_facts_fill_in(track ? track->cards : NULL, host);
    vg_card_groups_fill_in(&engine->config, host);
    vg_card_facts_count_free(host);
    if (host->cpus == 0)
        host->cpus = guess_cpus(host);
    return host;
}

vg_snapshot *
vg_engine_snapshot(const vg_engine *engine, const struct vg_engine_part *part,
                   const struct vg_snap_host *const *hosts, size_t n_hosts, GError **err)
{
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(part->source);
    snapshot->note = g_strdup(part->note);
    snapshot->clock_offset_ns = part->clock_offset_ns;
    bool first = true;
    for (size_t i = 0; i < n_hosts; i++) {
        struct vg_snap_host *host = read_host(engine, part, hosts[i]);
        g_ptr_array_add(snapshot->hosts, host);
        if (!g_hash_table_contains(engine->hosts, host->name))
            continue;
        snapshot->begin_ns = first ? host->begin_ns : MIN(snapshot->begin_ns, host->begin_ns);
        snapshot->end_ns = first ? host->end_ns : MAX(snapshot->end_ns, host->end_ns);
        first = false;
    }
    if (vg_snapshot_seal(snapshot, err) < 0)
        return NULL;
    return g_steal_pointer(&snapshot);
}
