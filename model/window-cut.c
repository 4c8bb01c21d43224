/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/window-cut.h"

#include "base/error.h"
#include "model/window-sum.h"

/* The lengths of the first part and of the whole. */
struct cut {
    int64_t first_ns;
    int64_t all_ns;
};

static __int128
window_cut_first(const struct cut *cut, __int128 all)
{
    return all * cut->first_ns / cut->all_ns;
}

/* Leaves its share of all in first, and the rest in all. */
#define CUT(cut, all, first)                                                                       \
 do {                                                                                              \
  (first) = (__typeof__(first))window_cut_first(cut, (__int128)(all));                             \
  (all) -= (first);                                                                                \
 } while (0)

/* Returns the sum of the known parts of wait_ns. */
static int64_t
window_cut_parts(const struct vg_gpu_sample *gpu)
{
    int64_t sum_ns = 0;

#define ADD(place, member, kind, ...)                                                              \
 VG_FIGURE_IF_STORED(kind, if (VG_FIGURE_##kind == VG_FIGURE_PART) sum_ns += (int64_t)gpu->member;)
    VG_GPU_FIGURES(ADD)
#undef ADD
    return sum_ns;
}

/* Cuts the parts of a total and its unexplained rest. The new totals are the sums. */
static void
window_cut_gpu(const struct cut *cut, struct vg_gpu_sample *all, struct vg_gpu_sample *first)
{
    int64_t rest_ns = all->wait_ns - window_cut_parts(all), first_rest_ns;

#define CUT_FIGURE(place, member, kind, ...)                                                       \
 VG_FIGURE_IF_STORED(kind,                                                                         \
                     if (VG_FIGURE_##kind == VG_FIGURE_SUM || VG_FIGURE_##kind == VG_FIGURE_PART)  \
                         CUT(cut, all->member, first->member);)
    VG_GPU_FIGURES(CUT_FIGURE)
#undef CUT_FIGURE
    CUT(cut, rest_ns, first_rest_ns);
    first->wait_ns = window_cut_parts(first) + first_rest_ns;
    all->wait_ns = window_cut_parts(all) + rest_ns;
}

static void
window_cut_gpus(const struct cut *cut, GArray *all, GArray *first)
{
    for (guint i = 0; i < all->len; i++)
        window_cut_gpu(cut, &g_array_index(all, struct vg_gpu_sample, i),
                       &g_array_index(first, struct vg_gpu_sample, i));
}

/* Assigns each request to the part in which it ended. */
static void
window_cut_requests(int64_t at_ns, GArray *all, GArray *first)
{
    for (guint i = all->len; i > 0; i--) {
        const bool is_first =
            g_array_index(all, struct vg_gpu_request_sample, i - 1).end_ns <= at_ns;
        g_array_remove_index(is_first ? all : first, i - 1);
    }
}

void
vg_window_cut(struct vg_window *window, int64_t at_ns, struct vg_window *first)
{
    const struct cut cut = {.first_ns = at_ns - window->begin_ns,
                            .all_ns = window->end_ns - window->begin_ns};

    if (cut.first_ns <= 0 || cut.first_ns >= cut.all_ns)
        vg_bug("a window is cut outside of it");
    vg_window_copy(first, window);
    first->end_ns = at_ns;
    window->begin_ns = at_ns;
    /* The host's programs belong to the end of the window. */
    g_array_set_size(first->programs, 0);
    first->programs_ns = 0;
    CUT(&cut, window->lost_events, first->lost_events);
    CUT(&cut, window->lost_packets, first->lost_packets);
    CUT(&cut, window->discontinuities, first->discontinuities);
    window_cut_gpus(&cut, window->gpus, first->gpus);
    for (guint i = 0; i < window->vms->len; i++) {
        struct vg_vm_sample *all = &g_array_index(window->vms, struct vg_vm_sample, i);
        struct vg_vm_sample *part = &g_array_index(first->vms, struct vg_vm_sample, i);
        CUT(&cut, all->gpu_active_ns, part->gpu_active_ns);
        window_cut_gpus(&cut, all->gpus, part->gpus);
    }
    for (guint i = 0; i < window->gpu_processes->len; i++)
        window_cut_gpu(&cut,
                       &g_array_index(window->gpu_processes, struct vg_gpu_process_sample, i).gpu,
                       &g_array_index(first->gpu_processes, struct vg_gpu_process_sample, i).gpu);
    window_cut_requests(at_ns, window->gpu_requests, first->gpu_requests);
}
