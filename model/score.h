/* SPDX-License-Identifier: Apache-2.0
 *
 * How much CPU and GPU a VM wants, window by window, and the resulting class.
 *
 * Both intensities are 0..1. The live reading is an EWMA: each window of length w moves it by 1 -
 * 2^(-w / half_life) of the way to the window's value, and the first window sets it directly.
 * Windows without GPU records leave the GPU side unchanged.
 *
 * Class: the CPU flag is set at cpu_enter and cleared below cpu_leave; the GPU flag works in the
 * same way. No flag means idle, both mean mixed. Alternating takes precedence. It considers the
 * last windows whose GPU side is known: up to VG_SCORE_WINDOWS_MAX, at least alternating_windows.
 * It is entered if Pearson's correlation of the two intensities is at most alternating_enter and
 * both means are at least alternating_mean. It is left when the correlation rises above
 * alternating_leave or a mean falls below alternating_mean. A recording has no previous class, so
 * only the enter thresholds apply to it.
 *
 * Memory is bounded. One thread at a time; no clock.
 */
#ifndef VG_MODEL_SCORE_H
#define VG_MODEL_SCORE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/* Five minutes of 1 s windows: "over the last minutes", at 2.4 KiB per VM. */
#define VG_SCORE_WINDOWS_MAX 300

enum vg_vm_class {
    VG_CLASS_IDLE,
    VG_CLASS_CPU,
    VG_CLASS_GPU,
    VG_CLASS_MIXED,
    VG_CLASS_ALTERNATING,
    VG_CLASS_MAX
};

struct vg_score_config {
    int64_t half_life_ns;
    double cpu_enter;
    double cpu_leave;
    double gpu_enter;
    double gpu_leave;
    double alternating_enter; /* correlation, -1..0 */
    double alternating_leave;
    double alternating_mean;
    int64_t alternating_windows; /* 2..VG_SCORE_WINDOWS_MAX */
};

struct vg_score_reading {
    double cpu_intensity;
    double gpu_intensity; /* 0 while the GPU side is unknown */
    bool gpu_known;       /* the GPU side of at least one window is known */
    enum vg_vm_class vm_class;
};

typedef struct vg_score vg_score;

/* config is copied. */
vg_score *vg_score_new(const struct vg_score_config *config);
void vg_score_free(vg_score *score);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_score, vg_score_free)

/* Changes the thresholds from the next window on; history and class remain. */
void vg_score_set_config(vg_score *score, const struct vg_score_config *config);

/* Adds one window of window_ns > 0. Intensities are clamped to 0..1. A window without length, or
 * with a CPU intensity that is not a number, is ignored. A GPU intensity that is not a number
 * counts as unknown. */
void vg_score_feed(vg_score *score, int64_t window_ns, double cpu_intensity, double gpu_intensity,
                   bool gpu_known);

void vg_score_read_live(const vg_score *score, struct vg_score_reading *ret);

/* Returns the class of a whole recording, from its intensities and the stored windows. The caller
 * knows the intensities more precisely than any mean of windows. gpu_intensity is 0 if the GPU side
 * is unknown. */
enum vg_vm_class vg_score_class_of_mean(const vg_score *score, double cpu_intensity,
                                        double gpu_intensity);

/* Returns the weight of a window's value in an EWMA, 0..1: 1 - 2^(-window / half_life). */
double vg_ewma_weight(int64_t window_ns, int64_t half_life_ns);

/* Returns active_ns / window_ns clamped to 0..1; 0 for a window without length. */
double vg_gpu_intensity(int64_t active_ns, int64_t window_ns);

/* "idle", "cpu", "gpu", "mixed", "alternating"; the table ends with NULL. */
extern const char *const vg_vm_class_names[];

#endif
