/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/score.h"

#include <math.h>

/* Single precision halves the memory and is far more precise than any threshold. */
struct pair {
    float cpu;
    float gpu;
};

struct track {
    double ewma;
    bool known; /* at least one value */
};

struct vg_score {
    struct vg_score_config config;
    struct track cpu;
    struct track gpu;
    bool cpu_active;
    bool gpu_active;
    bool alternating;
    uint32_t n_pairs;
    uint32_t next_pair;
    struct pair pairs[VG_SCORE_WINDOWS_MAX]; /* ring of windows whose GPU figures are known */
};

const char *const vg_vm_class_names[] = {
    [VG_CLASS_IDLE] = "idle",
    [VG_CLASS_CPU] = "cpu",
    [VG_CLASS_GPU] = "gpu",
    [VG_CLASS_MIXED] = "mixed",
    [VG_CLASS_ALTERNATING] = "alternating",
    [VG_CLASS_MAX] = NULL,
};

vg_score *
vg_score_new(const struct vg_score_config *config)
{
    vg_score *score = g_new0(vg_score, 1);
    score->config = *config;
    return score;
}

void
vg_score_set_config(vg_score *score, const struct vg_score_config *config)
{
    score->config = *config;
}

void
vg_score_free(vg_score *score)
{
    g_free(score);
}

double
vg_ewma_weight(int64_t window_ns, int64_t half_life_ns)
{
    if (half_life_ns <= 0)
        return 1;
    return 1 - exp2(-(double)window_ns / (double)half_life_ns);
}

double
vg_gpu_intensity(int64_t active_ns, int64_t window_ns)
{
    if (window_ns <= 0)
        return 0;
    return CLAMP((double)active_ns / (double)window_ns, 0.0, 1.0);
}

static void
track_add(struct track *track, double value, double weight)
{
    track->ewma = track->known ? track->ewma + weight * (value - track->ewma) : value;
    track->known = true;
}

/* Computes the correlation in two passes. A few hundred values accumulate no rounding errors. */
static double
correlate(const vg_score *score, double *ret_cpu_mean, double *ret_gpu_mean)
{
    double n = score->n_pairs;
    double cpu_mean = 0;
    double gpu_mean = 0;
    for (uint32_t i = 0; i < score->n_pairs; i++) {
        cpu_mean += (double)score->pairs[i].cpu / n;
        gpu_mean += (double)score->pairs[i].gpu / n;
    }
    double cpu_square = 0;
    double gpu_square = 0;
    double product = 0;
    for (uint32_t i = 0; i < score->n_pairs; i++) {
        double cpu = (double)score->pairs[i].cpu - cpu_mean;
        double gpu = (double)score->pairs[i].gpu - gpu_mean;
        cpu_square += cpu * cpu;
        gpu_square += gpu * gpu;
        product += cpu * gpu;
    }
    *ret_cpu_mean = cpu_mean;
    *ret_gpu_mean = gpu_mean;
    /* Constant values leave rounding errors of single precision: 1e-9 per window is below any
     * signal. */
    if (score->n_pairs < 2 || cpu_square < 1e-9 * n || gpu_square < 1e-9 * n)
        return 0;
    return CLAMP(product / sqrt(cpu_square * gpu_square), -1.0, 1.0);
}

static bool
is_alternating(const vg_score *score, bool was)
{
    const struct vg_score_config *config = &score->config;
    if (score->n_pairs < (uint64_t)config->alternating_windows)
        return false;
    double cpu_mean = 0;
    double gpu_mean = 0;
    double r = correlate(score, &cpu_mean, &gpu_mean);
    if (cpu_mean < config->alternating_mean || gpu_mean < config->alternating_mean)
        return false;
    return r <= (was ? config->alternating_leave : config->alternating_enter);
}

static enum vg_vm_class
score_class_of(bool cpu_active, bool gpu_active, bool alternating)
{
    if (alternating)
        return VG_CLASS_ALTERNATING;
    if (cpu_active)
        return gpu_active ? VG_CLASS_MIXED : VG_CLASS_CPU;
    return gpu_active ? VG_CLASS_GPU : VG_CLASS_IDLE;
}

void
vg_score_feed(vg_score *score, int64_t window_ns, double cpu_intensity, double gpu_intensity,
              bool gpu_known)
{
    const struct vg_score_config *config = &score->config;
    if (window_ns <= 0 || isnan(cpu_intensity))
        return;

    double weight = vg_ewma_weight(window_ns, config->half_life_ns);
    double cpu = CLAMP(cpu_intensity, 0.0, 1.0);
    track_add(&score->cpu, cpu, weight);
    score->cpu_active =
        score->cpu.ewma >= (score->cpu_active ? config->cpu_leave : config->cpu_enter);
    if (!gpu_known || isnan(gpu_intensity))
        return;

    double gpu = CLAMP(gpu_intensity, 0.0, 1.0);
    track_add(&score->gpu, gpu, weight);
    score->gpu_active =
        score->gpu.ewma >= (score->gpu_active ? config->gpu_leave : config->gpu_enter);
    score->pairs[score->next_pair] = (struct pair){.cpu = (float)cpu, .gpu = (float)gpu};
    score->next_pair = (score->next_pair + 1) % VG_SCORE_WINDOWS_MAX;
    score->n_pairs = MIN(score->n_pairs + 1, VG_SCORE_WINDOWS_MAX);
    score->alternating = is_alternating(score, score->alternating);
}

void
vg_score_read_live(const vg_score *score, struct vg_score_reading *ret)
{
    *ret = (struct vg_score_reading){
        .cpu_intensity = score->cpu.ewma,
        .gpu_intensity = score->gpu.ewma,
        .gpu_known = score->gpu.known,
        .vm_class = score_class_of(score->cpu_active, score->gpu_active, score->alternating),
    };
}

enum vg_vm_class
vg_score_class_of_mean(const vg_score *score, double cpu_intensity, double gpu_intensity)
{
    return score_class_of(cpu_intensity >= score->config.cpu_enter,
                          gpu_intensity >= score->config.gpu_enter, is_alternating(score, false));
}
