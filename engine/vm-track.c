/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "engine/vm-track.h"

#include <math.h>
#include <string.h>

#define NS_PER_S 1e9

/* EWMA shares below this, in cores or per second, are negligible. */
#define FADED 1e-6

struct vg_vm_track *
vg_vm_track_new(const struct vg_vm_sample *sample, uint64_t id, enum vg_engine_mode mode,
                const struct vg_score_config *config)
{
    struct vg_vm_track *track = g_new0(struct vg_vm_track, 1);
    g_strlcpy(track->name, sample->name, sizeof(track->name));
    g_strlcpy(track->uuid, sample->uuid, sizeof(track->uuid));
    track->id = id;
    track->mode = mode;
    track->pid = sample->pid;
    track->score = vg_score_new(config);
    track->losses = g_array_new(FALSE, TRUE, sizeof(struct vg_loss_track));
    track->uses = g_array_new(FALSE, TRUE, sizeof(struct vg_use_track));
    track->cpus = g_array_new(FALSE, FALSE, sizeof(int32_t));
    track->profile_cpu = g_array_new(FALSE, FALSE, sizeof(double));
    track->profile_gpu = g_array_new(FALSE, FALSE, sizeof(double));
    track->day_cpu = g_array_new(FALSE, FALSE, sizeof(double));
    track->day_gpu = g_array_new(FALSE, FALSE, sizeof(double));
    return track;
}

void
vg_vm_track_free(struct vg_vm_track *track)
{
    if (!track)
        return;
    vg_score_free(track->score);
    g_array_free(track->losses, TRUE);
    g_array_free(track->uses, TRUE);
    g_array_free(track->cpus, TRUE);
    g_array_free(track->profile_cpu, TRUE);
    g_array_free(track->profile_gpu, TRUE);
    g_array_free(track->day_cpu, TRUE);
    g_array_free(track->day_gpu, TRUE);
    g_free(track);
}

/* Adds to a rate. first means that this is the VM's first window, which starts the EWMA. A rate
 * that appears later starts from 0. */
static void
rate_add(struct vg_rate *rate, double amount, int64_t window_ns, double weight, bool first)
{
    double per_second = amount / ((double)window_ns / NS_PER_S);
    rate->sum += amount;
    rate->ewma = first ? per_second : rate->ewma + weight * (per_second - rate->ewma);
}

static double
rate_read(const struct vg_vm_track *track, const struct vg_rate *rate)
{
    if (track->mode == VG_ENGINE_LIVE)
        return rate->ewma;
    return track->covered_ns > 0 ? rate->sum / ((double)track->covered_ns / NS_PER_S) : 0;
}

/* Returns how long the VM's own CPU quota kept it from its CPUs. */
static double
vm_track_limited_ns(const struct vg_vm_sample *sample)
{
    for (guint i = 0; sample->lost_to && i < sample->lost_to->len; i++) {
        const struct vg_lost_to *lost = &g_array_index(sample->lost_to, struct vg_lost_to, i);
        if (lost->kind == VG_AGGRESSOR_LIMIT)
            return (double)lost->ns;
    }
    return 0;
}

/* Returns the row of the aggressor or, if the table is full, that of "host:unknown", for which
 * there is always space. */
static struct vg_loss_track *
need_loss(struct vg_vm_track *track, enum vg_aggressor_kind kind, const struct vg_vm_track *vm)
{
    bool unknown_seen = kind == VG_AGGRESSOR_HOST_UNKNOWN;
    for (guint i = 0; i < track->losses->len; i++) {
        struct vg_loss_track *loss = &g_array_index(track->losses, struct vg_loss_track, i);
        if (loss->kind == kind && (!vm || loss->vm == vm->id))
            return loss;
        unknown_seen = unknown_seen || loss->kind == VG_AGGRESSOR_HOST_UNKNOWN;
    }
    if (track->losses->len + !unknown_seen >= VG_ENGINE_LOSSES_MAX &&
        kind != VG_AGGRESSOR_HOST_UNKNOWN)
        return need_loss(track, VG_AGGRESSOR_HOST_UNKNOWN, NULL);
    struct vg_loss_track loss = {.kind = kind, .vm = vm ? vm->id : 0};
    g_array_append_val(track->losses, loss);
    return &g_array_index(track->losses, struct vg_loss_track, track->losses->len - 1);
}

/* Fades all losses. In live mode, removes negligible ones to free space. */
static void
fade_losses(struct vg_vm_track *track, double weight)
{
    for (guint i = track->losses->len; i > 0; i--) {
        struct vg_loss_track *loss = &g_array_index(track->losses, struct vg_loss_track, i - 1);
        loss->ns.ewma *= 1 - weight;
        loss->count.ewma *= 1 - weight;
        if (track->mode == VG_ENGINE_LIVE && loss->ns.ewma / NS_PER_S < FADED &&
            loss->count.ewma < FADED)
            g_array_remove_index(track->losses, i - 1);
    }
}

/* Feeds the losses. weight is the window's weight in the EWMA, 1 in the VM's first window. */
static void
feed_losses(struct vg_vm_track *track, const struct vg_vm_sample *sample,
            const struct vg_window *window, GHashTable *tracks, double weight)
{
    double seconds = (double)(window->end_ns - window->begin_ns) / NS_PER_S;
    fade_losses(track, weight);
    for (guint i = 0; sample->lost_to && i < sample->lost_to->len; i++) {
        const struct vg_lost_to *lost = &g_array_index(sample->lost_to, struct vg_lost_to, i);
        enum vg_aggressor_kind kind = lost->kind;
        const struct vg_vm_track *vm =
            kind == VG_AGGRESSOR_VM ? g_hash_table_lookup(tracks, GUINT_TO_POINTER(lost->vm_id))
                                    : NULL;
        if (kind == VG_AGGRESSOR_VM && !vm)
            kind = VG_AGGRESSOR_HOST_UNKNOWN;
        struct vg_loss_track *loss = need_loss(track, kind, vm);
        if (vm && loss->kind == VG_AGGRESSOR_VM)
            g_strlcpy(loss->name, vm->name, sizeof(loss->name));
        loss->ns.sum += (double)lost->ns;
        loss->count.sum += (double)lost->count;
        loss->ns.ewma += weight * (double)lost->ns / seconds;
        loss->count.ewma += weight * (double)lost->count / seconds;
    }
}

static struct vg_use_track *
need_use(struct vg_vm_track *track, const struct vg_gpu_sample *sample)
{
    for (guint i = 0; i < track->uses->len; i++) {
        struct vg_use_track *use = &g_array_index(track->uses, struct vg_use_track, i);
        if (strcmp(use->device, sample->device) == 0 && strcmp(use->engine, sample->engine) == 0)
            return use;
    }
    if (track->uses->len >= VG_ENGINE_USES_MAX)
        return NULL;
    struct vg_use_track use = {0};
    g_strlcpy(use.device, sample->device, sizeof(use.device));
    g_strlcpy(use.engine, sample->engine, sizeof(use.engine));
    g_array_append_val(track->uses, use);
    return &g_array_index(track->uses, struct vg_use_track, track->uses->len - 1);
}

static void
feed_uses(struct vg_vm_track *track, const struct vg_vm_sample *sample, int64_t window_ns,
          double weight, bool first)
{
    for (guint i = 0; i < track->uses->len; i++) {
        struct vg_use_track *use = &g_array_index(track->uses, struct vg_use_track, i);
        use->busy_ns.ewma *= 1 - weight;
        use->wait_ns.ewma *= 1 - weight;
    }
    double share = first ? 1 : weight;
    double seconds = (double)window_ns / NS_PER_S;
    for (guint i = 0; sample->gpus && i < sample->gpus->len; i++) {
        const struct vg_gpu_sample *gpu = &g_array_index(sample->gpus, struct vg_gpu_sample, i);
        struct vg_use_track *use = gpu->lacks & VG_GPU_NO_WORK ? NULL : need_use(track, gpu);
        if (!use)
            continue;
        use->busy_ns.sum += (double)gpu->busy_ns;
        use->wait_ns.sum += (double)gpu->wait_ns;
        use->busy_ns.ewma += share * (double)gpu->busy_ns / seconds;
        use->wait_ns.ewma += share * (double)gpu->wait_ns / seconds;
    }
}

static void
feed_profile(struct vg_vm_track *track, const struct vg_vm_sample *sample, int64_t window_ns,
             double demand_ns)
{
    bool anew;

    if (!vg_profile_clock_takes(&track->clock, window_ns, track->mode, track->profile_cpu->len == 0,
                                &anew))
        return;
    if (anew) {
        g_array_set_size(track->profile_cpu, 0);
        g_array_set_size(track->profile_gpu, 0);
    }
    vg_profile_push(track->profile_cpu, VG_SNAPSHOT_PROFILE_MAX, demand_ns / (double)window_ns);
    vg_profile_push(track->profile_gpu, VG_SNAPSHOT_PROFILE_MAX,
                    sample->gpu_known ? vg_gpu_intensity(sample->gpu_active_ns, window_ns) : -1);
}

/* Feeds the day in live mode. A recording is judged as a whole. */
static void
vm_track_feed_day(struct vg_vm_track *track, const struct vg_vm_sample *sample, int64_t window_ns,
                  double demand_ns)
{
    const bool gpu_known = sample->gpu_known && track->day_active_ns >= 0;

    if (track->mode != VG_ENGINE_LIVE)
        return;
    track->day_ns += window_ns;
    track->day_demand_ns += demand_ns;
    track->day_active_ns =
        gpu_known ? track->day_active_ns + (double)MIN(sample->gpu_active_ns, window_ns) : -1;
    if (track->day_ns < VG_ENGINE_DAY_NS)
        return;
    vg_profile_push(track->day_cpu, VG_ENGINE_DAY_WINDOWS,
                    MAX(track->day_demand_ns / (double)track->day_ns, 0));
    vg_profile_push(track->day_gpu, VG_ENGINE_DAY_WINDOWS,
                    track->day_active_ns < 0 ? -1 : track->day_active_ns / (double)track->day_ns);
    track->day_ns = 0;
    track->day_demand_ns = track->day_active_ns = 0;
}

/* Returns whether the VM was only seen for a small part of a window, for example because it has
 * just started. */
static bool
is_glimpse(const struct vg_vm_sample *sample, int64_t window_ns)
{
    int64_t vcpus = sample->vcpus ? (int64_t)sample->vcpus->len : 0;

    return vcpus > 0 && sample->cpu.observed_ns < vcpus * window_ns / 2;
}

void
vg_vm_track_feed(struct vg_vm_track *track, const struct vg_vm_sample *sample,
                 const struct vg_window *window, GHashTable *tracks, int64_t half_life_ns)
{
    const struct vg_cpu_figures *cpu = &sample->cpu;
    int64_t window_ns = window->end_ns - window->begin_ns;
    double weight = vg_ewma_weight(window_ns, half_life_ns);
    bool first = track->covered_ns == 0;
    /* Averages that start with a glimpse would need minutes to recover. */
    bool starts = !first || track->mode == VG_ENGINE_MEAN || !is_glimpse(sample, window_ns);

    g_strlcpy(track->name, sample->name, sizeof(track->name));
    g_strlcpy(track->uuid, sample->uuid, sizeof(track->uuid));
    track->pid = sample->pid;
    track->vcpus = MAX(track->vcpus, sample->vcpus ? (int64_t)sample->vcpus->len : 0);
    /* An idle window at the end of a recording does not reset this. */
    track->guest_known =
        sample->guest_known || (track->mode == VG_ENGINE_MEAN && track->guest_known);
    track->lacks = sample->lacks;
    vg_cpu_figures_add(&track->total, cpu);
    if (sample->gpu_known) {
        track->gpu_active_ns += sample->gpu_active_ns;
        track->gpu_covered_ns += window_ns;
    }
    vg_window_update_cpus(track->cpus, sample);
    if (!starts)
        return;
    rate_add(&track->run_ns, (double)cpu->run_ns, window_ns, weight, first);
    rate_add(&track->preempt_ns, (double)cpu->preempt_ns, window_ns, weight, first);
    rate_add(&track->wake_wait_ns, (double)cpu->wake_wait_ns, window_ns, weight, first);
    rate_add(&track->preemptions, (double)cpu->preemptions, window_ns, weight, first);
    feed_losses(track, sample, window, tracks, first ? 1 : weight);
    feed_uses(track, sample, window_ns, weight, first);
    const double demand_ns = (double)cpu->run_ns + (double)cpu->preempt_ns +
                             (double)cpu->wake_wait_ns - vm_track_limited_ns(sample);
    feed_profile(track, sample, window_ns, demand_ns);
    vm_track_feed_day(track, sample, window_ns, demand_ns);
    vg_score_feed(track->score, window_ns, vg_cpu_figures_intensity(cpu),
                  vg_gpu_intensity(sample->gpu_active_ns, window_ns), sample->gpu_known);
    track->covered_ns += window_ns;
}

/* Returns the aggressor's name in the snapshot. A VM that no longer exists keeps its name, unless
 * another VM has it now. */
static const char *
aggressor_name(const struct vg_loss_track *loss, GHashTable *names)
{
    const char *name = vg_aggressor_name(loss->kind);
    if (name)
        return name;
    name = g_hash_table_lookup(names, &loss->vm);
    if (name)
        return name;
    GHashTableIter iter;
    void *taken = NULL;
    g_hash_table_iter_init(&iter, names);
    while (g_hash_table_iter_next(&iter, NULL, &taken)) {
        if (strcmp(taken, loss->name) == 0)
            return vg_aggressor_name(VG_AGGRESSOR_HOST_UNKNOWN);
    }
    return loss->name;
}

static struct vg_snap_loss *
need_snap_loss(struct vg_snap_vm *vm, const char *aggressor)
{
    for (guint i = 0; i < vm->lost_to->len; i++) {
        struct vg_snap_loss *loss = vm->lost_to->pdata[i];
        if (strcmp(loss->aggressor, aggressor) == 0)
            return loss;
    }
    struct vg_snap_loss *loss = vg_record_new(&vg_snap_loss_record);
    loss->aggressor = g_strdup(aggressor);
    g_ptr_array_add(vm->lost_to, loss);
    return loss;
}

static void
vm_track_read_losses(const struct vg_vm_track *track, GHashTable *names, struct vg_snap_vm *vm)
{
    for (guint i = 0; i < track->losses->len; i++) {
        const struct vg_loss_track *from = &g_array_index(track->losses, struct vg_loss_track, i);
        double share = rate_read(track, &from->ns) / NS_PER_S;
        double count = rate_read(track, &from->count);
        if (share < FADED && count < FADED)
            continue;
        struct vg_snap_loss *loss = need_snap_loss(vm, aggressor_name(from, names));
        loss->share += share;
        loss->count_per_s += count;
    }
}

static void
read_uses(const struct vg_vm_track *track, struct vg_snap_vm *vm)
{
    for (guint i = 0; i < track->uses->len; i++) {
        const struct vg_use_track *track_use = &g_array_index(track->uses, struct vg_use_track, i);
        struct vg_snap_gpu_use *use = vg_record_new(&vg_snap_gpu_use_record);
        use->device = g_strdup(track_use->device);
        use->engine = g_strdup(track_use->engine);
        use->share = rate_read(track, &track_use->busy_ns) / NS_PER_S;
        use->wait_share = rate_read(track, &track_use->wait_ns) / NS_PER_S;
        g_ptr_array_add(vm->gpu, use);
    }
}

/* Appends values, including the GPU's if they are known in all windows. */
static void
vm_track_append(const GArray *cpu, const GArray *gpu, struct vg_snap_profile *ret)
{
    bool gpu_known = gpu->len > 0;

    g_array_append_vals(ret->cpu, cpu->data, cpu->len);
    for (guint i = 0; i < gpu->len; i++)
        gpu_known = gpu_known && g_array_index(gpu, double, i) >= 0;
    if (gpu_known)
        g_array_append_vals(ret->gpu, gpu->data, gpu->len);
}

void
vg_day_read(const GArray *cpu, const GArray *gpu, struct vg_snap_profile *ret)
{
    if (cpu->len < VG_ENGINE_DAY_MIN)
        return;
    ret->window_ns = VG_ENGINE_DAY_NS;
    vm_track_append(cpu, gpu, ret);
}

static void
read_profile(const struct vg_vm_track *track, struct vg_snap_vm *vm)
{
    vm->profile.window_ns = track->clock.window_ns;
    vm_track_append(track->profile_cpu, track->profile_gpu, &vm->profile);
    vg_day_read(track->day_cpu, track->day_gpu, &vm->day);
}

/* Reads the score. The mean is over time, not over the windows' values, like that of `analyze` for
 * the whole recording. */
static void
read_score(const struct vg_vm_track *track, struct vg_score_reading *ret)
{
    if (track->mode == VG_ENGINE_LIVE) {
        vg_score_read_live(track->score, ret);
        return;
    }
    ret->cpu_intensity = vg_cpu_figures_intensity(&track->total);
    ret->gpu_intensity = vg_gpu_intensity(track->gpu_active_ns, track->gpu_covered_ns);
    ret->gpu_known = track->gpu_covered_ns > 0;
    ret->vm_class = vg_score_class_of_mean(track->score, ret->cpu_intensity, ret->gpu_intensity);
}

/* Names what is unknown, and removes values that could be mistaken for known ones. The same demand
 * figures are then known in each window. */
static void
vm_track_read_lacks(unsigned int lacks, struct vg_snap_vm *vm)
{
    const struct {
        const char *name;
        double *value;
    } values[] = {
        {"cpu_intensity", &vm->cpu_intensity},         {"run_share", &vm->run_share},
        {"preempt_share", &vm->preempt_share},         {"wake_wait_share", &vm->wake_wait_share},
        {"preemptions_per_s", &vm->preemptions_per_s},
    };

    for (const struct vg_figure_beside *one = vg_cpu_shares; one->name; one++) {
        const enum vg_known known = vg_figure_beside_known(one, lacks);
        if (known != VG_KNOWN)
            g_ptr_array_add(known == VG_KNOWN_NOT ? vm->unknown : vm->bounds, g_strdup(one->name));
        for (size_t i = 0; known == VG_KNOWN_NOT && i < G_N_ELEMENTS(values); i++) {
            if (strcmp(values[i].name, one->name) == 0)
                *values[i].value = 0;
        }
    }
    if (lacks & VG_CPU_NO_GPU_ENDS) {
        for (guint i = 0; i < vm->gpu->len; i++) {
            struct vg_snap_gpu_use *use = vm->gpu->pdata[i];
            use->share = use->wait_share = 0;
        }
        vm->gpu_intensity = 0;
        vm->gpu_known = false;
        g_array_set_size(vm->profile.gpu, 0);
        g_array_set_size(vm->day.gpu, 0);
    }
    if (lacks & (VG_CPU_NO_SWITCHES | VG_CPU_ABSENT_CPUS)) {
        g_ptr_array_set_size(vm->lost_to, 0);
        g_array_set_size(vm->profile.cpu, 0);
        g_array_set_size(vm->profile.gpu, 0);
        g_array_set_size(vm->day.cpu, 0);
        g_array_set_size(vm->day.gpu, 0);
    }
}

void
vg_vm_track_read(const struct vg_vm_track *track, GHashTable *names, unsigned int lacks,
                 struct vg_snap_vm *vm)
{
    struct vg_score_reading reading;
    read_score(track, &reading);

    vm->uuid = *track->uuid ? g_strdup(track->uuid) : NULL;
    vm->pid = track->pid;
    vm->vcpus = track->vcpus;
    vm->guest_known = track->guest_known;
    vm->vm_class = reading.vm_class;
    vm->cpu_intensity = reading.cpu_intensity;
    vm->gpu_intensity = reading.gpu_intensity;
    vm->gpu_known = reading.gpu_known;
    vm->run_share = rate_read(track, &track->run_ns) / NS_PER_S;
    vm->preempt_share = rate_read(track, &track->preempt_ns) / NS_PER_S;
    vm->wake_wait_share = rate_read(track, &track->wake_wait_ns) / NS_PER_S;
    vm->preemptions_per_s = rate_read(track, &track->preemptions);
    g_array_append_vals(vm->cpus, track->cpus->data, track->cpus->len);
    vm_track_read_losses(track, names, vm);
    read_uses(track, vm);
    read_profile(track, vm);
    vm_track_read_lacks(lacks, vm);
}

bool
vg_vm_track_only_gpu(const struct vg_vm_track *track)
{
    return track->gpu_covered_ns > 0 && track->total.observed_ns == 0;
}
