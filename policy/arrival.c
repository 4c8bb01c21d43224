/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/arrival.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "model/gpu-part.h"
#include "policy/cards.h"
#include "policy/host-groups.h"
#include "policy/predict.h"

/* If two hosts lose nothing, the one with more free capacity is slightly better. */
#define SPARE_PART 0.1

/* The part of SPARE_PART that depends on the host's GPU, if the VM needs one. */
#define FIT_PART 0.75

/* The usual demand of a class's VMs, per vCPU and per GPU. */
static const struct {
    double cpu, gpu;
} arrival_usual[] = {
    [VG_CLASS_IDLE] = {0.05, 0.05},      [VG_CLASS_CPU] = {0.9, 0.1},
    [VG_CLASS_GPU] = {0.25, 0.8},        [VG_CLASS_MIXED] = {0.6, 0.5},
    [VG_CLASS_ALTERNATING] = {0.5, 0.5},
};

/* The mean capacity of a host for a new VM. */
struct arrival_room {
    double left;   /* CPUs that pinned VMs leave to others */
    double wanted; /* cores that these others want */
    char *kept;    /* the CPUs to which VMs are pinned; NULL: none */
    double *free;  /* by window, the unused part of left */
};

struct vg_arrival_hosts {
    const vg_snapshot *snapshot;
    guint n_hosts;
    vg_cluster windows;         /* only the number and length of the windows */
    struct arrival_room *rooms; /* one per host */
};

/* For a VM of which only the size is known. */
#define UNKNOWN_CPU 0.5
#define UNKNOWN_GPU 0.5

void
vg_arrival_expect(struct vg_arrival *arrival)
{
    const bool known = arrival->vm_class >= 0;

    arrival->cpu_demand =
        (double)arrival->vcpus * (known ? arrival_usual[arrival->vm_class].cpu : UNKNOWN_CPU);
    arrival->gpu_demand = 0;
    if (arrival->gpus > 0)
        arrival->gpu_demand = known ? arrival_usual[arrival->vm_class].gpu : UNKNOWN_GPU;
}

void
vg_arrival_learn(struct vg_arrival *arrival, const struct vg_snap_vm *vm)
{
    arrival->vm_class = (int)vm->vm_class;
    arrival->cpu_demand = vg_snap_vm_demand(vm);
    arrival->known = vm;
    if (arrival->gpus > 0 && vm->gpu_known)
        arrival->gpu_demand = vm->gpu_intensity;
}

static void
arrival_make_room(const vg_cluster *cluster, size_t host, struct arrival_room *ret)
{
    const struct vg_host_state *state = &cluster->hosts[host];

    *ret = (struct arrival_room){.left = vg_predict_left(cluster, host),
                                 .wanted = vg_load_mean(cluster, &state->floating),
                                 .kept = vg_host_pools_text(state),
                                 .free = g_new(double, cluster->n_windows)};
    for (size_t w = 0; w < cluster->n_windows; w++)
        ret->free[w] = vg_predict_free(cluster, host, w);
}

vg_arrival_hosts *
vg_arrival_hosts_new(const vg_snapshot *snapshot, const struct vg_policy_config *config)
{
    g_autoptr(vg_cluster) cluster = vg_cluster_new(snapshot, config);
    vg_arrival_hosts *hosts = g_atomic_rc_box_new0(vg_arrival_hosts);

    hosts->snapshot = snapshot;
    hosts->n_hosts = snapshot->hosts->len;
    hosts->windows.window_ns = cluster->window_ns;
    hosts->windows.n_windows = cluster->n_windows;
    hosts->rooms = g_new0(struct arrival_room, cluster->n_hosts);
    for (size_t i = 0; i < cluster->n_hosts; i++)
        arrival_make_room(cluster, i, &hosts->rooms[i]);
    return hosts;
}

vg_arrival_hosts *
vg_arrival_hosts_ref(vg_arrival_hosts *hosts)
{
    return g_atomic_rc_box_acquire(hosts);
}

static void
arrival_hosts_clear(void *data)
{
    vg_arrival_hosts *hosts = data;

    for (guint i = 0; i < hosts->n_hosts; i++) {
        g_free(hosts->rooms[i].kept);
        g_free(hosts->rooms[i].free);
    }
    g_free(hosts->rooms);
}

void
vg_arrival_hosts_unref(vg_arrival_hosts *hosts)
{
    if (hosts)
        g_atomic_rc_box_release_full(hosts, arrival_hosts_clear);
}

const vg_snapshot *
vg_arrival_hosts_snapshot(const vg_arrival_hosts *hosts)
{
    return hosts->snapshot;
}

static double
arrival_gpu_busy(const struct vg_snap_gpu *gpu)
{
    double most = 0;

    for (guint i = 0; i < gpu->engines->len; i++)
        most = MAX(most, ((const struct vg_snap_engine *)gpu->engines->pdata[i])->share);
    return most;
}

static int64_t
arrival_free_of_type(const struct vg_snap_gpu *gpu, const char *type)
{
    for (guint i = 0; i < gpu->vgpu_types->len; i++) {
        const struct vg_snap_vgpu_type *one = gpu->vgpu_types->pdata[i];
        if (strcmp(one->type, type) == 0)
            return one->free;
    }
    return 0;
}

/* Returns the number of free vGPUs of any type. Existing vGPUs can all be used. Types that could
 * still be created exclude each other on one GPU, so the smallest type counts. A whole GPU is not a
 * vGPU. */
static int64_t
arrival_free_of_any(const struct vg_snap_gpu *gpu, const GPtrArray *forbidden)
{
    int64_t made = 0, room = 0;

    for (guint i = 0; i < gpu->vgpu_types->len; i++) {
        const struct vg_snap_vgpu_type *one = gpu->vgpu_types->pdata[i];
        if (vg_gpu_type_is_whole(one->type) ||
            (forbidden && g_ptr_array_find_with_equal_func((GPtrArray *)(void *)forbidden,
                                                           one->type, g_str_equal, NULL)))
            continue;
        made += one->made;
        room = MAX(room, one->free - one->made);
    }
    return made + room;
}

/* Returns whether a VM has a part of the GPU, or a vGPU exists that no VM has. */
static bool
arrival_is_used(const struct vg_snap_host *host, const struct vg_snap_gpu *gpu)
{
    for (guint i = 0; i < gpu->vgpu_types->len; i++) {
        const struct vg_snap_vgpu_type *type = gpu->vgpu_types->pdata[i];
        if (type->made > 0 && !vg_gpu_type_is_whole(type->type))
            return true;
    }
    for (guint v = 0; v < host->vms->len; v++) {
        const GPtrArray *uses = ((const struct vg_snap_vm *)host->vms->pdata[v])->gpu;
        for (guint u = 0; u < uses->len; u++)
            if (strcmp(((const struct vg_snap_gpu_use *)uses->pdata[u])->device, gpu->device) == 0)
                return true;
    }
    return false;
}

static double
arrival_lost(double demand, double more, double capacity)
{
    return MAX(demand + more - capacity, 0) - MAX(demand - capacity, 0);
}

/* A host's GPUs that have space for the VM. */
struct arrival_gpus {
    int64_t places;
    struct vg_card_offer best; /* if places > 0 */
};

/* Finds the GPUs with space for the VM, and the best of them by the host's gpu_placement. */
static struct arrival_gpus
arrival_find_gpus(const struct vg_arrival *arrival, const struct vg_snap_host *host, bool packs)
{
    const enum vg_card_choice how = packs ? VG_CARD_PACK : VG_CARD_SPREAD;
    struct arrival_gpus found = {.places = 0};

    for (guint i = 0; i < host->gpus->len; i++) {
        const struct vg_snap_gpu *gpu = host->gpus->pdata[i];
        const int64_t free = arrival->gpu_type ? arrival_free_of_type(gpu, arrival->gpu_type)
                                               : arrival_free_of_any(gpu, arrival->forbidden_types);
        /* VMs do not compete for the engines of MIG slices. */
        const double busy = vg_card_has_slices(gpu) ? 0 : arrival_gpu_busy(gpu);
        const struct vg_card_offer offer = {.gpu = i,
                                            .used = packs && arrival_is_used(host, gpu),
                                            .room = free,
                                            .load = busy,
                                            .rise = arrival_lost(busy, arrival->gpu_demand, 1)};
        if (free > 0 && (found.places == 0 || vg_card_offer_is_better(&offer, &found.best, how)))
            found.best = offer;
        found.places += MAX(free, 0);
    }
    return found;
}

/* Returns whether another VM of the host has the name of the arriving one in libvirt. */
static bool
arrival_name_is_taken(const struct vg_snap_vm *known, const struct vg_snap_host *host)
{
    for (guint v = 0; known && v < host->vms->len; v++) {
        const struct vg_snap_vm *vm = host->vms->pdata[v];
        if (strcmp(vm->name, known->name) == 0)
            return vm != known && (!vm->uuid || g_strcmp0(vm->uuid, known->uuid) != 0);
    }
    return false;
}

/* Returns how well the GPU suits gpu_placement, from 0 to 1. When packing, a GPU in use with few
 * free slots is best; otherwise, an idle one. */
static double
arrival_fit(const struct vg_card_offer *offer, bool packs)
{
    if (packs)
        return offer->used ? (1 + 1 / (double)offer->room) / 2 : 0;
    return CLAMP(1 - offer->load, 0, 1);
}

/* Returns the cores that are lost when the VM arrives, like a plan for a move to this host. */
static double
arrival_cpu_lost(const struct vg_arrival *arrival, const vg_arrival_hosts *hosts,
                 const struct arrival_room *room)
{
    const struct vg_vm_state known = {.vm = arrival->known, .cpu_demand = arrival->cpu_demand};
    const size_t n = hosts->windows.n_windows;
    double lost = 0;

    for (size_t w = 0; w < n && arrival->known; w++)
        lost += MAX(vg_vm_cpu_demand(&hosts->windows, &known, w) - room->free[w], 0);
    for (size_t w = 0; w < n && !arrival->known; w++)
        lost += MAX(arrival->cpu_demand - room->free[w], 0);
    return lost / (double)n;
}

/* Writes the reason. gpu_busy is negative if the VM needs no GPU. */
static void
arrival_describe(const struct vg_arrival *arrival, const struct arrival_room *room, double capacity,
                 double cpu_lost, double gpu_busy, struct vg_arrival_score *ret)
{
    const size_t size = sizeof(ret->text);
    int used;

    if (room->kept)
        used = g_snprintf(ret->text, size,
                          "VMs pinned to %.40s leave %.2f of %.0f CPUs; VMs demand %.2f of "
                          "these and this VM %.2f more, so %.2f cores would be lost",
                          room->kept, room->left, capacity, room->wanted, arrival->cpu_demand,
                          cpu_lost);
    else
        used = g_snprintf(ret->text, size,
                          "other VMs demand %.2f of %.0f CPUs and this VM demands %.2f more, so "
                          "%.2f cores would be lost",
                          room->wanted, capacity, arrival->cpu_demand, cpu_lost);
    if (gpu_busy >= 0 && (size_t)used < size)
        g_snprintf(ret->text + used, size - (size_t)used, "; the GPU for it is %.0f %% busy",
                   gpu_busy * 100);
}

void
vg_arrival_rate(const struct vg_arrival *arrival, const vg_arrival_hosts *hosts, size_t index,
                const struct vg_policy_config *config, struct vg_arrival_score *ret)
{
    const struct vg_snap_host *host = hosts->snapshot->hosts->pdata[index];
    const struct arrival_room *room = &hosts->rooms[index];
    const double capacity = (double)host->cpus;
    struct arrival_gpus gpus = {.places = 0};
    bool packs = false;

    *ret = (struct vg_arrival_score){.veto = true};
    if (host->maintenance) {
        g_snprintf(ret->text, sizeof(ret->text), "the host is in maintenance");
        return;
    }
    if (arrival_name_is_taken(arrival->known, host)) {
        g_snprintf(ret->text, sizeof(ret->text),
                   "the host already has another VM with the name '%.60s'", arrival->known->name);
        return;
    }
    ret->veto = false;
    if (arrival->gpus > 0) {
        const char *type = arrival->gpu_type;
        packs = vg_host_groups_gpu_placement(config, host->name) == VG_GPU_PLACEMENT_PACK;
        gpus = arrival_find_gpus(arrival, host, packs);
        ret->veto = gpus.places < arrival->gpus;
        if (ret->veto) {
            g_snprintf(ret->text, sizeof(ret->text),
                       "%" PRId64 "%s%.60s are free, but the VM needs %" PRId64, gpus.places,
                       type ? " of type " : " vGPUs", type ? type : "", arrival->gpus);
            return;
        }
    }
    const double cpu_lost = arrival_cpu_lost(arrival, hosts, room);
    const double spare = CLAMP((room->left - room->wanted - arrival->cpu_demand) / capacity, 0, 1);
    const double worst = arrival->cpu_demand + config->gpu_weight * arrival->gpu_demand;
    ret->lost = cpu_lost + config->gpu_weight * gpus.best.rise;
    const double kept = worst > 0 ? CLAMP(1 - ret->lost / worst, 0, 1) : 1;
    const double fit = arrival->gpus > 0 ? arrival_fit(&gpus.best, packs) : spare;
    ret->score = (1 - SPARE_PART) * kept + SPARE_PART * (FIT_PART * fit + (1 - FIT_PART) * spare);
    arrival_describe(arrival, room, capacity, cpu_lost, arrival->gpus > 0 ? gpus.best.load : -1,
                     ret);
}

void
vg_arrival_judge(const struct vg_arrival *arrival, const vg_arrival_hosts *hosts, size_t host,
                 const struct vg_policy_config *config, int64_t age_ns, bool is_wanted,
                 struct vg_arrival_host *ret)
{
    struct vg_arrival_score score;

    ret->age_ms = MAX(age_ns, 0) / VG_NS_PER_MS;
    if (age_ns > VG_ARRIVAL_STALE_NS) {
        g_strlcpy(ret->text, "the host's figures are too old", sizeof(ret->text));
        return;
    }
    vg_arrival_rate(arrival, hosts, host, config, &score);
    ret->verdict = score.veto && !is_wanted ? VG_ARRIVAL_VETO : VG_ARRIVAL_PASS;
    ret->score = is_wanted ? 1 : score.score;
    g_strlcpy(ret->text, is_wanted ? "vgpud itself proposes this move" : score.text,
              sizeof(ret->text));
}
