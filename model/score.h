/* SPDX-License-Identifier: Apache-2.0
 *
 * How much a VM wants the CPU and the GPU, window after window, and the class that follows.
 *
 * Both intensities are 0..1. The live reading is an EWMA: each window of length w moves it by
 * 1 - 2^(-w / half_life) of the way to the window's value, and the first window sets it. Windows in
 * which nobody recorded the GPU leave the GPU side as it is.
 *
 * Class: the CPU flag is entered at cpu_enter and left below cpu_leave, the GPU flag likewise;
 * none is idle, both are mixed. Before that comes alternating: over the last windows whose GPU
 * side is known (up to VG_SCORE_WINDOWS_MAX, at least alternating_windows), Pearson's correlation
 * of the two intensities is at most alternating_enter while both means are at least
 * alternating_mean; it is left when the correlation rises above alternating_leave or a mean falls
 * below alternating_mean. The class of a recording has no history to hold on to: it is decided with
 * the enter thresholds.
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
    bool gpu_known;       /* at least one window told about the GPU */
    enum vg_vm_class vm_class;
};

typedef struct vg_score vg_score;

/* config is copied. */
vg_score *vg_score_new(const struct vg_score_config *config);
void vg_score_free(vg_score *score);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_score, vg_score_free)

/* Other thresholds from the next window on; history and class stay. */
void vg_score_set_config(vg_score *score, const struct vg_score_config *config);

/* One window of window_ns > 0. Intensities are clamped to 0..1; a window that is not longer than
 * nothing, or whose CPU intensity is not a number, is ignored; a GPU intensity that is not a
 * number counts as unknown. */
void vg_score_feed(vg_score *score, int64_t window_ns, double cpu_intensity, double gpu_intensity,
                   bool gpu_known);

void vg_score_read_live(const vg_score *score, struct vg_score_reading *ret);

/* The class of a whole recording: from its intensities, which the caller has better than any mean
 * of windows, and the remembered windows. gpu_intensity is 0 where the GPU side is unknown. */
enum vg_vm_class vg_score_class_of_mean(const vg_score *score, double cpu_intensity,
                                        double gpu_intensity);

/* The weight of a window's value in an EWMA, 0..1: 1 - 2^(-window / half_life). */
double vg_ewma_weight(int64_t window_ns, int64_t half_life_ns);

/* active_ns / window_ns clamped to 0..1; 0 for a window without length. */
double vg_gpu_intensity(int64_t active_ns, int64_t window_ns);

/* "idle", "cpu", "gpu", "mixed", "alternating"; the table ends with NULL. */
extern const char *const vg_vm_class_names[];

#endif
